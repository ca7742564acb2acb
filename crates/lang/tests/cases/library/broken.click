a ->
b : c;
