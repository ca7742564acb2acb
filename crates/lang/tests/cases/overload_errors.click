elementclass Probe { $at | }
early :: Probe(1, 2);
elementclass Probe { $at, $every | || ... }
p2 :: Probe(1, 2); p1 :: Probe(1); p3 :: Probe(1, 2, 3);
Idle -> wired :: Probe(1);
Idle -> { ... || -> X -> } -> Discard;
elementclass T2 { ... || ... }
elementclass T3 { ... -> X || $a | -> Y -> }
