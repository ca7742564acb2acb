i :: Idle; d :: Discard;
i -> { $from, $to | -> X -> } (here) -> d;
i -> { $from, $to | -> X -> } (here, there, elsewhere) -> d;
elementclass Sized { SIZE $s | -> X -> }
i -> Sized(1) -> Sized -> d;
elementclass E1 { SIZE $a, $b | -> X -> }
elementclass E2 { __REST__ $a, K $b | -> X -> }
elementclass E3 { $a, $a | -> X -> }
elementclass E4 { K $a, K $b | -> X -> }
elementclass E5 { $a, b | -> X -> }
elementclass E6 { $a -> X -> }
elementclass E7 { -> X -> | -> Y -> }
elementclass E8 { $a | define($a 1) }
