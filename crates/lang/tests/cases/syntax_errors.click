a :: A
a -> : b;
x :: ;
y :: Y -> ] z :: Z;
a -> b ::
elementclass;
elementclass X;
elementclass X Y Z;
a [x] -> a;
a [1 -> a;
a [3-1] -> a;
a [70000] -> a;
a -> [2] a [3];
[1] a -> a;
a, -> a;
a :: B :: C;
connectiontunnel p -> q;
a -> B(1)(2) -> a;
ü :: A;
| a; || a;
last :: Last;
