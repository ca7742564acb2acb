a, b :: Rx; c, d :: Tx;
pair :: {
  input [1] -> Down -> [1] output;
  input -> up :: Up -> output;
};
a -> pair -> c;
b -> [1] pair [1] -> d;
a [1] -> { input -> output } -> [1] c;
a [2] -> { -> Pass -> } -> [2] c;
{ own :: Source -> output } -> [3] c;
e, f :: { input -> Twin -> output };
a -> e -> f -> c;
