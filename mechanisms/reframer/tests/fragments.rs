//! Tests that packets whose ports are not known keep their place in their flow: fragments, and packets with
//! too many extension headers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use testkit::timed::{frame, through};
use wire::build::Builder;
use wire::ip_protocol;

/// The offset in an Ethernet frame of the bytes after the IPv6 header: 14 bytes of Ethernet and 40 of IPv6.
const BEHIND: usize = 14 + 40;

/// Returns source and destination of a flow: IPv4 for even numbers, IPv6 for odd numbers.
fn ends(flow: u8) -> (SocketAddr, SocketAddr) {
    let host = |last: u8| match flow % 2 {
        0 => IpAddr::from([10, 0, 0, last]),
        _ => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()]),
    };
    // Flows 0 and 4 are between the same hosts, and so are flows 1 and 5.
    let other = 2 + flow % 4 / 2;
    (SocketAddr::new(host(1), 1000 + u16::from(flow)), SocketAddr::new(host(other), 53))
}

/// Inserts an extension header of type `kind` directly after the IPv6 header. `body` is the header without
/// its first byte.
fn extended(mut bytes: Vec<u8>, kind: u8, body: &[u8]) -> Vec<u8> {
    let next = std::mem::replace(&mut bytes[20], kind);
    bytes.splice(BEHIND..BEHIND, [&[next][..], body].concat());
    let length = (bytes.len() - BEHIND) as u16;
    bytes[18..20].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Returns a fragment of datagram `id`; `place` is its offset in units of eight bytes, `more` is true if
/// further fragments follow, and `number` makes its payload unique.
fn fragment(flow: u8, id: u16, place: u16, more: bool, number: u32) -> Vec<u8> {
    let (a, b) = ends(flow);
    let payload = [&number.to_be_bytes()[..], &[7; 12]].concat();
    let builder = match place {
        0 => Builder::udp(a, b),
        _ => Builder::ip(a.ip(), b.ip(), ip_protocol::UDP),
    };
    if a.is_ipv4() {
        return frame(builder.id(id).fragment(u16::from(more) << 13 | place), &payload);
    }
    let word = (place << 3 | u16::from(more)).to_be_bytes();
    let body = [0, word[0], word[1], 0, 0, (id >> 8) as u8, id as u8];
    extended(frame(builder, &payload), ip_protocol::FRAGMENT, &body)
}

fn whole(flow: u8, number: u32) -> Vec<u8> {
    let (a, b) = ends(flow);
    frame(Builder::udp(a, b), &number.to_be_bytes())
}

/// Returns a packet with `headers` destination options headers of eight bytes each.
fn chained(flow: u8, number: u32, headers: usize) -> Vec<u8> {
    (0..headers).fold(whole(flow, number), |bytes, _| extended(bytes, 60, &[0, 1, 4, 0, 0, 0, 0]))
}

/// Packets as (time in nanoseconds, flow, bytes).
type Arrivals = Vec<(i64, u8, Vec<u8>)>;

/// Runs `element` and asserts that no packet is lost, each flow leaves in order, and no packet waits for
/// more than `delay` microseconds. Returns the packets that left.
fn in_order(element: &str, arrivals: &Arrivals, delay: i64) -> Vec<(i64, Vec<u8>)> {
    let packets: Vec<_> = arrivals.iter().map(|(time, _, bytes)| (*time, bytes.clone())).collect();
    let (outcome, seen) = through(element, &packets, &[]);
    assert!(outcome.report.balances(), "{element}");
    assert_eq!(seen.len(), packets.len(), "{element}");
    let about: HashMap<&[u8], (i64, u8)> =
        arrivals.iter().map(|(time, flow, bytes)| (&bytes[..], (*time, *flow))).collect();
    assert_eq!(about.len(), arrivals.len(), "all are different");
    for flow in 0..32 {
        let came = arrivals.iter().filter(|(_, other, _)| *other == flow).map(|(_, _, bytes)| bytes);
        let left = seen.iter().filter(|(_, bytes)| about[&bytes[..]].1 == flow).map(|(_, bytes)| bytes);
        assert!(came.eq(left), "{element}: flow {flow}");
    }
    let last = arrivals.last().map_or(0, |last| last.0);
    for (time, bytes) in &seen {
        // At the end of the run, held packets leave at once, so a packet that leaves then proves nothing
        // about the delay.
        let waited = time - about[&bytes[..]].0;
        assert!((0..=delay * 1000).contains(&waited) || *time >= last, "{element}: {waited} ns");
    }
    seen
}

#[test]
fn long_datagrams_of_one_flow_do_not_overtake_each_other() {
    // Two flows send 20 datagrams of 44 fragments each; the fragments of a datagram are half a microsecond
    // apart.
    let mut arrivals = Arrivals::new();
    for flow in [0, 1] {
        for number in 0..880u32 {
            let (id, place) = ((number / 44) as u16, (number % 44) as u16);
            arrivals.push((
                i64::from(number) * 500,
                flow,
                fragment(flow, id, 185 * place, place < 43, number),
            ));
        }
    }
    arrivals.sort_by_key(|(time, ..)| *time);
    in_order("Reframer(64us)", &arrivals, 64);
}

#[test]
fn whole_and_fragmented_datagrams_keep_their_order() {
    let mut arrivals = Arrivals::new();
    for number in 0..300u32 {
        let (time, flow) = (i64::from(number) * 2000, (number % 2) as u8);
        match number / 2 % 3 {
            0 => {
                arrivals.push((time, flow, fragment(flow, number as u16, 0, true, number)));
                arrivals.push((time + 100, flow, fragment(flow, number as u16, 3, false, number)));
            }
            _ => arrivals.push((time, flow, whole(flow, number))),
        }
    }
    for priority in ["SHORTEST_FLOW", "OLDEST_FLOW", "LONGEST_WAIT"] {
        in_order(&format!("Reframer(64us, PRIORITY {priority})"), &arrivals, 64);
    }
}

#[test]
fn atomic_fragments_are_held_as_whole_packets() {
    let arrivals: Arrivals = (0..200u32)
        .map(|number| {
            let bytes = match number % 2 {
                0 => whole(1, number),
                // An atomic fragment, with a fragment header that says offset 0 and no more fragments. Each
                // has its own identification.
                _ => extended(whole(1, number), ip_protocol::FRAGMENT, &[0, 0, 0, 0, 0, 0, number as u8]),
            };
            (i64::from(number) * 1000, 1, bytes)
        })
        .collect();
    in_order("Reframer(64us)", &arrivals, 64);
    let packets: Vec<_> = arrivals.iter().map(|(time, _, bytes)| (*time, bytes.clone())).collect();
    let (outcome, _) = through("Reframer(64us)", &packets, &["e.flows"]);
    assert_eq!(outcome.values[0].as_deref(), Ok("1"));
}

#[test]
fn however_long_the_chain_of_extension_headers_the_order_stays() {
    for lengths in [[0, 1], [0, 12], [0, 16], [0, 17], [3, 40]] {
        let arrivals: Arrivals = (0..200u32)
            .map(|number| {
                let headers = lengths[(number % 2) as usize];
                (i64::from(number) * 1000, 1, chained(1, number, headers))
            })
            .collect();
        in_order("Reframer(64us)", &arrivals, 64);
    }
}

#[test]
fn only_the_packets_of_two_hosts_wait_for_a_fragment() {
    // Flows 0 and 4 are between the same hosts, flow 2 is not. Only flow 4 must wait for the fragment of
    // flow 0.
    let mut arrivals: Arrivals = vec![(0, 0, fragment(0, 1, 0, true, 0))];
    for number in 1..9u32 {
        for flow in [2, 4] {
            arrivals.push((i64::from(number) * 1000, flow, whole(flow, number)));
        }
    }
    arrivals.push((200_000, 2, whole(2, 100)));
    let seen = in_order("Reframer(64us, MAX_BURST 4)", &arrivals, 64);
    let times = |flow: u8| -> Vec<i64> {
        let bytes: Vec<_> = arrivals.iter().filter(|arrival| arrival.1 == flow).map(|a| &a.2).collect();
        seen.iter().filter(|(_, b)| bytes.contains(&b)).map(|(time, _)| time / 1000).collect()
    };
    assert_eq!(times(2)[..8], [4, 4, 4, 4, 8, 8, 8, 8], "in bursts of four");
    assert_eq!(times(4), [64; 8], "with the fragment");
}

#[test]
fn two_hosts_are_not_forgotten_while_a_fragment_waits() {
    // A pause longer than the expiry time of flows, between two fragments of flow 0. Afterwards three flows
    // arrive that need entries.
    let late = 11_000_000_000;
    let mut arrivals: Arrivals =
        vec![(0, 0, fragment(0, 1, 0, true, 0)), (late, 0, fragment(0, 2, 0, true, 1))];
    arrivals.extend((1..4u8).map(|flow| (late + 1000 * i64::from(flow), flow, whole(flow, flow.into()))));
    in_order("Reframer(64us, CAPACITY 4)", &arrivals, 64);
}

/// Returns 1500 packets of eight flows, up to 1.5 us apart: whole datagrams, fragments, long chains of
/// extension headers, TCP, ESP and GRE.
fn random(seed: u64) -> Arrivals {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut time, mut arrivals) = (0, Arrivals::new());
    for number in 0..1500u32 {
        time += random.i64(0..1500);
        let mut flow = random.u8(..8);
        let bytes = match random.u8(..12) {
            0 => fragment(flow, random.u16(..4), 0, true, number),
            1 => fragment(flow, random.u16(..4), random.u16(1..9), random.bool(), number),
            2 if flow % 2 == 1 => chained(flow, number, random.usize(..30)),
            3 => {
                let (a, b) = ends(flow);
                flow += 8;
                frame(Builder::tcp(a, b, if random.bool() { 2 } else { 16 }).sequence(number, 1), &[1; 9])
            }
            4 => {
                // A packet that has no flow key (GRE), or whose flow is identified by destination and SPI
                // (ESP). The GRE packets with one value of `flow` count as one further flow, and the ESP
                // packets as another one.
                let (a, b) = ends(flow);
                let protocol = if random.bool() { ip_protocol::GRE } else { ip_protocol::ESP };
                flow += if protocol == ip_protocol::GRE { 16 } else { 24 };
                frame(Builder::ip(a.ip(), b.ip(), protocol), &[&[1; 4][..], &number.to_be_bytes()].concat())
            }
            _ => whole(flow, number),
        };
        arrivals.push((time, flow, bytes));
    }
    arrivals
}

#[test]
fn no_argument_changes_the_order() {
    for (number, arguments) in [
        "64us",
        "64us, BYPASS none, MAX_BURST 3",
        "64us, PRIORITY SHORTEST_FLOW, MAX_BURST 2",
        "64us, PRIORITY OLDEST_FLOW, MAX_TX_BURST 2",
        "64us, ELEPHANTS 20",
        "64us, SLO 20us",
        "64us, MAX_HELD 5",
        "64us, CAPACITY 3",
        "0",
        "1us",
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 0..10 {
            let arrivals = random(seed + 100 * number as u64);
            in_order(&format!("Reframer({arguments})"), &arrivals, 64);
        }
    }
}
