//! A straightforward model of a translator, and a test that IPRewriter does the same for random packets.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Session {
    protocol: u8,
    inside: (SocketAddr, SocketAddr),
    outside: (SocketAddr, SocketAddr),
    last: i64,
    packets: u32,
    replied: bool,
    done: [bool; 2],
    data: [bool; 2],
}

/// The time-outs of new mappings for TCP and UDP, in milliseconds. They are chosen so that no two mappings
/// expire at the same time.
const PLAIN: [i64; 2] = [7_003, 5_001];
const BUSY: [i64; 2] = [20_007, 9_002];
const TCP_DONE: i64 = 3_004;
const GUARANTEE: i64 = 2_000;
const PORTS: [u16; 2] = [3000, 3005];
const CAPACITY: usize = 12;

impl Session {
    fn is_udp(&self) -> usize {
        usize::from(self.protocol == 17)
    }

    fn ends_at(&self) -> i64 {
        let timeout = match self.protocol {
            6 if self.done == [true; 2] => TCP_DONE,
            6 if self.data == [true; 2] => BUSY[0],
            17 if self.packets >= 3 && self.replied => BUSY[1],
            _ => PLAIN[self.is_udp()],
        };
        self.last + timeout
    }

    fn tuple(&self, is_reply: bool) -> (SocketAddr, SocketAddr) {
        if is_reply { (self.outside.1, self.outside.0) } else { self.inside }
    }
}

#[derive(Default)]
struct Model {
    sessions: Vec<Session>,
    next: u16,
    failures: u32,
}

impl Model {
    fn find(&self, protocol: u8, tuple: (SocketAddr, SocketAddr)) -> Option<(usize, bool)> {
        let of = |(n, session): (usize, &Session)| {
            let found = [true, false].into_iter().find(|&is_reply| session.tuple(is_reply) == tuple)?;
            (session.protocol == protocol).then_some((n, found))
        };
        self.sessions.iter().enumerate().find_map(of)
    }

    /// Translates a packet at the time `now`. Returns the output and the packet's new bytes; `None` if it
    /// is dropped.
    fn handle(&mut self, now: i64, packet: &[u8]) -> Option<(usize, Vec<u8>)> {
        self.sessions.retain(|session| session.last + GUARANTEE > now || session.ends_at() > now);
        let (protocol, tuple) = (packet[9], ends(packet));
        let from_outside = tuple.1.ip() == IpAddr::from(Ipv4Addr::from(OUTER));
        let (n, is_reply) = match self.find(protocol, tuple) {
            Some(found) => found,
            None if from_outside => return None,
            None => (self.open(now, protocol, tuple)?, false),
        };
        let session = &mut self.sessions[n];
        (session.last, session.packets) = (now, session.packets + 1);
        session.replied |= is_reply;
        if protocol == 6 {
            let side = usize::from(is_reply);
            let (flags, has_data) = (packet[33], packet.len() > 40);
            if flags & RST != 0 {
                session.done = [true; 2];
            } else if flags & FIN != 0 {
                session.done[side] = true;
            } else if flags & SYN != 0 || has_data {
                if flags & SYN != 0 && session.done[side] {
                    session.data[side] = false;
                }
                session.done[side] = false;
            }
            session.data[side] |= has_data;
        }
        let (source, destination) =
            if is_reply { (session.inside.1, session.inside.0) } else { session.outside };
        let mut bytes = packet.to_vec();
        for (end, address, port) in [(source, 12, 20), (destination, 16, 22)] {
            let IpAddr::V4(v4) = end.ip() else { unreachable!() };
            bytes[address..address + 4].copy_from_slice(&v4.octets());
            bytes[port..port + 2].copy_from_slice(&end.port().to_be_bytes());
        }
        refill(&mut bytes);
        Some((usize::from(is_reply), bytes))
    }

    fn open(&mut self, now: i64, protocol: u8, inside: (SocketAddr, SocketAddr)) -> Option<usize> {
        let [low, high] = PORTS;
        let count = high - low + 1;
        let start = if self.next >= count { 0 } else { self.next };
        let outer = |port: u16| end(OUTER, port);
        let free = |n: &u16| self.find(protocol, (inside.1, outer(low + n % count))).is_none();
        let Some(n) = (start..start + count).find(free) else {
            self.failures += 1;
            return None;
        };
        self.next = n % count + 1;
        let outside = (outer(low + n % count), inside.1);
        let (done, data) = ([false; 2], [false; 2]);
        let new = Session { protocol, inside, outside, last: now, packets: 0, replied: false, done, data };
        self.sessions.push(new);
        if self.sessions.len() > CAPACITY {
            let may_go = |&n: &usize| self.sessions[n].last + GUARANTEE <= now;
            let oldest = (0..self.sessions.len()).filter(may_go).min_by_key(|&n| self.sessions[n].ends_at());
            match oldest {
                Some(n) => {
                    self.sessions.remove(n);
                }
                None => {
                    self.failures += 1;
                    self.sessions.pop();
                    return None;
                }
            }
        }
        Some(self.sessions.len() - 1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn agrees_with_a_straightforward_translator(
        steps in proptest::collection::vec(
            (1i64..120, any::<bool>(), 0u8..4, 0u16..3, 0u8..3, any::<bool>(), 0u8..8, any::<bool>()), 1..300,
        ),
    ) {
        let (mut model, mut packets, mut expected, mut now) = (Model::default(), Vec::new(), Vec::new(), 0);
        for (pause, is_tcp, host, port, server, outward, flags, has_data) in steps {
            now += pause * 10;
            let inside = end([10, 0, 0, host], 100 + port);
            let remote = end([2, 0, 0, server], 80);
            // Packets from the server go to any port of the translator's range `PORTS` and to the port above
            // the range, whether or not the port has a mapping.
            let outer = end(OUTER, PORTS[0] + (u16::from(host) * 3 + port) % 7);
            let (from, to) = if outward { (inside, remote) } else { (remote, outer) };
            let payload: &[u8] = if has_data { b"some data" } else { b"" };
            let packet = match is_tcp {
                true => tcp(from, to, flags, payload),
                false => Builder::udp(from, to).build(payload).unwrap(),
            };
            expected.extend(model.handle(now, &packet));
            packets.push((now, packet));
        }
        let config = gateway("IPRewriter", "pattern 192.0.2.1 3000-3005# - - 0 1, drop,
            TCP_NODATA_TIMEOUT 7003ms, TCP_TIMEOUT 20007ms, TCP_DONE_TIMEOUT 3004ms, TCP_GUARANTEE 2,
            UDP_TIMEOUT 5001ms, UDP_STREAMING_TIMEOUT 9002ms, UDP_GUARANTEE 2, MAPPING_CAPACITY 12");
        let handlers = ["rw.size", "rw.mapping_failures"];
        let (outcome, seen) = run(&config, 2, &packets, &handlers);
        let seen: Vec<_> = seen.into_iter().map(|seen| (seen.sink, seen.bytes)).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(value(&outcome, 0), model.sessions.len().to_string());
        prop_assert_eq!(value(&outcome, 1), model.failures.to_string());
    }
}
