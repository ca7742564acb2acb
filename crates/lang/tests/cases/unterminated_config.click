b :: B('x);
c :: C("y);
d :: D(/* z);
