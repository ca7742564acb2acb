require(library missing.click);
require(a b c);
{ require(library compounds.click) };
require;
require(library broken.click);
