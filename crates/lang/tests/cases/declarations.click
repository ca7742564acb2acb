// One name, several names, inside a chain, anonymous; semicolons are optional.
a :: A;
b, c, d :: B(1, x)
e :: E()
a -> f :: F(2) -> G(3) -> b
Idle;
H(4)
