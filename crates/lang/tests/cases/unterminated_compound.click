a :: A; x :: { input -> y :: ( -> z;
b :: B
