// classes Counter Discard Idle Queue
i :: Idle; counter :: Counter;
i -> counter -> Discard;
i -> Cuonter -> Discard;
i -> Countre(1) -> Discard;
x :: Qeueu;
Queue :: Counter;
i -> couter -> Discard;
