elementclass Store {
  -> Buffer -> Timer(20) ->
||
  $room | -> Buffer($room) -> Timer(20) ->
||
  $room, EVERY $t | -> Buffer($room) -> Timer($t) ->
||
  -> Buffer(1) -> ; [1] -> Buffer(2) -> [1] output
}
i :: Idle; d :: Discard;
i -> Store -> d;
i -> Store(5) -> d;
i -> Store(EVERY 6, 5) -> d;
i => [0,1] two :: Store [0,1] => d;
elementclass Buffer { $room, $t | -> Buffer($room) -> Timer($t) -> || ... }
i -> Buffer(1, 2) -> Buffer(3) -> d;
elementclass Store { ... || $a, $b, $c | -> Three($a, $b, $c) -> }
i -> Store(1, 2, 3) -> Store(4) -> d;
