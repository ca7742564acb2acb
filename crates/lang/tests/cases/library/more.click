require(library compounds.click);
require(library more.click);
more :: More;
