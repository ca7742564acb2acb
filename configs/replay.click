// Replays a capture from memory: it is read once, and its packets go round 1000 times as fast as possible.
//
//   cargo run --release -- run configs/replay.click
//   cargo run --release -- run configs/replay.click ROUNDS=100000

define($IN configs/data/quickstart.pcap, $ROUNDS 1000)

FromDump($IN)
    -> replay :: ReplayUnqueue(STOP $ROUNDS)
    -> ip :: Classifier(12/0800, -)
    -> CheckIPHeader(14)
    -> good :: AverageCounter
    -> Discard;
ip[1] -> Discard;

DriverManager(pause, print "$(replay.count) packets replayed, $(good.count) good IPv4 headers", stop)
