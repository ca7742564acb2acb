require(library ring_b.click);
