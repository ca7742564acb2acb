a :: A; b :: B;
a -> x :: { input [1] -> X -> [2] output } -> b;
a -> y :: { input -> output; X -> input; output -> X } -> b;
a [1] -> [1] z :: { input -> output };
z -> [1] b;
a -> { -> D };
w :: { input -> output; q :: Q -> [1] output };
a -> w -> b;
v :: { input :: I; };
