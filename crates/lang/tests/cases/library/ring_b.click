require(library twice.click, library ring_a.click);
