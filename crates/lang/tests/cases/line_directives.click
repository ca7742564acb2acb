a :: A;
# 100 "other.click"
a :: A;
#line 7
a :: A; # not a directive
# 1 "third.click" 2 3
a :: A; x(
# 55 "no directive in a configuration string"
);
a :: A;
#bad
