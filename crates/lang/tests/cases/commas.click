a :: A; b :: B; c :: C;
a, b -> [1] c, [2] c [1] -> a;
a, b, -> c;
a -> b,, c;
d, e :: D;
f, g :: G, h;
i, j :: G [1];
