// circles allowed
require(library ring_a.click); require(library libraries_in_circles.click);
Idle -> Twice -> Discard
