// FastClick's links to the elements of a context.
m :: Manager ~> Paint(1) -> Discard;
a :: Manager;
a ~ip> Null ~/ip> b :: Null;
b[1] ~tcp> [2] c :: Null;
