a :: A;
a -> (B) -> c :: C;
a => ([0] -> D -> [0]; [2] -> D -> [2]) => c;
elementclass X { input [1] -> E -> output; output -> E }
x :: X;
