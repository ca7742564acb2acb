elementclass P { $who, $what | input -> A(to $who, now) -> B("$what", '$what', $$what, ${who}s, $whose) -> output }
Idle -> P(bob, be good) -> Discard;
elementclass K { $n, SIZE $size, __REST__ $rest | -> C($n; $size; $rest) -> }
Idle -> K(x, y, SIZE 64, MODE fast, z) -> Discard;
Idle -> K(SIZE 6 4, x) -> Discard;
elementclass D { DEBUG $d | -> E(${d}, ${level-3}, ${e-}, ${f-a b}) -> }
Idle -> D(DEBUG true) -> Discard;
Idle -> { $x | -> X($x) -> } (5) -> Discard;
Idle -> P("a, b", 'c "d"') -> Discard;
elementclass N { $x | elementclass In { $y | -> Y($x, $y) -> } -> In($x$x) -> In(${x}2) -> }
Idle -> N(7) -> Discard;
elementclass None { | -> Z -> }
Idle -> None -> None() -> Discard;
