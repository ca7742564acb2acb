require(filters, package tables, package filters);
require(library compounds.click, library compounds.click)
require(library more.click);
provide(this, "that one");
Idle -> FromLibrary(5) -> Discard;
