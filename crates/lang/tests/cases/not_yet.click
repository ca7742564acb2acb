// classes Counter Discard Idle Queue
elementclass Itself { input -> Counter -> Itself -> output }
elementclass A { input -> B -> output }
elementclass B { input -> (c :: C -> output) }
elementclass C { input -> d :: { input -> A -> output } -> output }
elementclass User { input -> Later -> l :: Later -> output }
elementclass Later { input -> Counter -> output }
elementclass Counter { input -> Counter -> Counter -> output }
Idle -> Itself -> A -> User -> Counter -> Discard;
