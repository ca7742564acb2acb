counter :: Counter; src :: Source;
src -> conter -> Discard;
src -> later -> Discard; later :: Counter;
src -> nothing_like_it -> Discard;
src -> input;
src -> counter(5);
Undeclared -> lower(1) -> Discard;
