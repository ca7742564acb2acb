// Random early detection: 500 packets a second arrive at a queue that is served at 400 packets a second. RED drops some
// of them before the queue is full. TCP senders would slow down because of these drops.
//
//   cargo run --release -- run configs/click/red.click --clock trace

RatedSource(LENGTH 1000, RATE 500, LIMIT 5000)
    -> offered :: Counter
    -> red :: RED(5, 50, 0.02)
    -> queue :: Queue(200)
    -> RatedUnqueue(400)
    -> served :: Counter
    -> Discard;

Script(TYPE PASSIVE,
    return "offered $(offered.count), dropped early $(red.drops), dropped late $(queue.drops)");
