a :: A;
a :: B;
a, b :: C;
a -> b :: D -> Discard;
elementclass E { -> X -> }
E :: F;
1/x :: G; x/2 :: G; 7 :: G;
c/Y@1 :: H;
Idle -> c :: { -> Y -> } -> Discard;
