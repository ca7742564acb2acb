m :: Manager;
m ~> Null -> Discard;
m ~> Null -> Discard;
m[1] ~ip> Null;
m[1] ~udp> Null;
Null ~ Null;
Null ~a b> Null;
