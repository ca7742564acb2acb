define($list one "t wo" three, $i 1);
elementclass X { $v | A(${v[0]}, ${v[1]}, ${v[2]}) }
B(${list[0]}, ${list[$i]}, ${list[9]}, "${list[1]}", ${list[0]-x}, ${none[0]-x}, ${none[0]}, ${list[x]});
X(4 5);
C("$list", "a${list[2]}b", ${none-${list}}, ${list[-1]});
