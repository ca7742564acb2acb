// Numbers count the elements of the scope; taken ones are passed over.
A -> B@2 :: X -> B;
C@5 :: X -> D -> C -> E@8 :: X -> E@9 :: X -> E;
Idle -> { -> A -> x :: B -> C -> } -> { -> { -> A -> } -> } -> Discard;
Idle -> ( -> A -> ) -> Discard;
