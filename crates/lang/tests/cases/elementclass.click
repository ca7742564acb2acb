// Lexical scope: a class holds from behind its definition on and sees what was defined before.
elementclass Limited { input -> Meter(9) -> Store -> output }
a :: Rx; b :: Tx;
a -> one :: Limited -> b;
elementclass Meter { input -> Meter(5) -> output }
a -> Meter -> two :: Limited -> b;
elementclass Alias Meter
a -> Alias -> b;
elementclass Alias2 Counter;
a -> Alias2(7) -> b;
elementclass Outer {
  elementclass Meter { input -> InnerMeter -> output }
  elementclass Inner { input -> Meter -> output }
  input -> Inner -> Meter -> output
}
a -> Outer -> Meter -> b;
