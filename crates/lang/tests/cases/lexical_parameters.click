// A compound element sees the parameters around its definition, not those around its use.
define($x outer);
elementclass Inner { -> I($x, $y) -> }
elementclass Outer { $x, $y | elementclass Own { -> J($x) -> } -> Inner -> Own -> O($x) -> }
Idle -> Outer(inner, 2) -> Discard;
