a :: A;
# 100 "other.click"
a :: A;
#line 7
a :: A; # not a directive
# 1 "third.click" 2 3
a :: A; x(
# 55 "inside a configuration string"
1,
# 60
2);
a :: A;
#bad
