// classes Counter Discard Idle Queue
Idle - > Discard;
Idle --> Discard;
Idle → Discard;
Idle –> Discard;
Idle - Discard;
Idle -> Counter - - -> Discard;
