// Many-to-one, one-to-many and many-to-many connections.
in1, in2 :: In; bus :: Bus;
in1, in2 -> bus;
in1 [1], in2 [2] -> [3] bus;
bus -> in1, [4] in2;
in1, in3 :: In -> bus;
split :: Split;
split [4], split [5] => Tag(a), Tag(b) -> bus;
split [6,7] => Tag(c), Tag(d) -> bus;
split [8-10] => Tag(e), Tag(f), Tag(g) -> bus;
split => Tag(h), Tag(i) => bus;
split => bus;
