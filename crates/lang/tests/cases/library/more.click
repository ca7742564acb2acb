require(library compounds.click);
require(library compounds.click);
more :: More;
