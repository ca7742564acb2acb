define($a 5
# 9 "y.h"
, $b
# 12 "y.h"
6);
require(package p
# 7 "x.h"
);
provide(q
# 3 "z.h"
, r);
x :: X($a, "
# 4 in quotes", 'b
# 5', $b /*
# 6 in a comment */ c
# 30 "w.h"
);
y :: ]
