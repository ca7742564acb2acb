// A pull path: packets are pushed into a queue and pulled from it, eight at a time. Packets that find the queue full
// are counted.
//
//   cargo run --release -- run configs/queue.click

define($IN configs/data/quickstart.pcap)

FromDump($IN, STOP true)
    -> queue :: Queue(64)
    -> pulled :: Counter
    -> Unqueue(BURST 8)
    -> pushed :: Counter
    -> Discard;
queue[1] -> full :: Counter -> Discard;

DriverManager(
    pause,
    // The capture has ended; the queue is emptied before the driver stops.
    label more,
    wait 1ms,
    goto more $(gt $(queue.length) 0),
    print "pulled $(pulled.count), pushed $(pushed.count), found the queue full $(full.count)",
    print "longest the queue was: $(queue.highwater_length)",
    stop)
