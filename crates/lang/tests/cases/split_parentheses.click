// Arguments are split inside parentheses too, which must not break the flat configuration.
elementclass S { $a, $b | X($a) -> Y($b, $a) -> output }
S((1, 2)) -> Discard;
