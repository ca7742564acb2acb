a :: A; /* b :: B;
