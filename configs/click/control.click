// A running configuration that other programs read and control, over a Unix socket:
//
//   cargo run --release -- run configs/click/control.click
//   printf 'READ c.rate\nWRITE source.active false\nWRITE stop\nQUIT\n' | nc -U control-out.socket
//
// This example ends by itself after two seconds.

define($SECONDS 2)

ControlSocket(UNIX, control-out.socket);

source :: RatedSource(LENGTH 60, RATE 1000)
    -> c :: Counter
    -> Discard;

DriverManager(wait ${SECONDS}s, print "$(c.count) packets", stop)
