a, b :: A;
a, b -> a, b;
a [0-2] => a, b;
a, b => [0] a;
