require(library twice.click); require(library twice.click);
require(library ring_a.click); require(library libraries.click);
Idle -> Twice -> Discard
