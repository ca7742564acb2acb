// A link over a long distance: packets are delayed by 50 ms and sent at 10 Mbit/s, and one in a hundred is lost. The
// time stamps of the output capture are the times at which packets would arrive.
//
//   cargo run --release -- run configs/click/link.click --clock trace

define($IN configs/data/quickstart.pcap, $OUT link-out.pcap, $DELAY 50ms, $RATE 1.25MBps, $LOSS 0.01)

FromDump($IN)
    -> line :: Queue(1000)
    -> LinkUnqueue($DELAY, $RATE)
    -> SetTimestamp
    -> lossy :: RandomSample(DROP $LOSS)
    -> arrived :: Counter
    -> ToDump($OUT, SNAPLEN 0);
