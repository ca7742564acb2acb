elementclass Twice { -> Counter -> }
once :: Idle -> Discard;
