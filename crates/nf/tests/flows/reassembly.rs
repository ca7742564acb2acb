//! Tests of IPReassembler: which datagrams it completes in a flood of fragments, how much memory it uses, and
//! what it does with overlapping, repeated, forged and late fragments, and with VLANs.

use std::net::Ipv4Addr;

use element::DropReason;
use testkit::RunResults;
use testkit::timed::through;

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;
/// The destination address of all datagrams that honest hosts send.
const SERVER: [u8; 4] = [192, 0, 2, 1];

/// A fragment of a UDP datagram, with the offset of its payload in bytes.
#[derive(Clone, Copy)]
struct Fragment<'a> {
    source: [u8; 4],
    destination: [u8; 4],
    id: u16,
    from: u16,
    more: bool,
    payload: &'a [u8],
}

impl Fragment<'_> {
    /// Returns the frame with the fragment. `types` has the bytes between the Ethernet addresses and the IP
    /// header: the EtherType, with VLAN tags.
    fn behind(self, types: &[u8]) -> Vec<u8> {
        let length = (20 + self.payload.len() as u16).to_be_bytes();
        let flags = ((self.from / 8) | (u16::from(self.more) << 13)).to_be_bytes();
        let mut header = [0x45, 0, length[0], length[1], 0, 0, flags[0], flags[1], 64, 17, 0, 0].to_vec();
        header[4..6].copy_from_slice(&self.id.to_be_bytes());
        header.extend(self.source);
        header.extend(self.destination);
        wire::checksum::fill_ipv4(&mut header).unwrap();
        [&[2; 12], types, &header, self.payload].concat()
    }

    fn frame(self) -> Vec<u8> {
        self.behind(&[8, 0])
    }
}

/// Makes the two fragments of a datagram of an honest host.
fn halves(source: [u8; 4], id: u16) -> [Vec<u8>; 2] {
    let first = Fragment { source, destination: SERVER, id, from: 0, more: true, payload: &[id as u8; 800] };
    let second = Fragment { from: 800, more: false, payload: &[id as u8; 200], ..first };
    [first.frame(), second.frame()]
}

/// Makes `datagrams` datagrams, each in two fragments, from `hosts` hosts in turn. A datagram starts each
/// `interval`, and its second fragment comes `gap` after its first. All times are in nanoseconds.
fn honest(hosts: u16, interval: i64, gap: i64, datagrams: u16) -> Vec<(i64, Vec<u8>)> {
    let of = |number: u16| {
        let [first, second] = halves(host(number % hosts), number);
        let at = i64::from(number) * interval;
        [(at, first), (at + gap, second)]
    };
    (0..datagrams).flat_map(of).collect()
}

fn host(number: u16) -> [u8; 4] {
    [10, 0, (number >> 8) as u8, number as u8]
}

/// Makes fragments of datagrams that are never completed: one fragment each `interval` from `start` to `end`
/// (nanoseconds), with source addresses chosen at random from `addresses` addresses. Half of the fragments
/// have an offset near the maximum.
fn flood(addresses: u32, interval: i64, start: i64, end: i64) -> impl Iterator<Item = (i64, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let times = (0..).map(move |n| start + n * interval).take_while(move |&at| at < end);
    times.map(move |at| {
        let source = Ipv4Addr::from_bits(0xac10_0000 + random.u32(0..addresses)).octets();
        let destination = [192, 0, 2, random.u8(1..)];
        let from = if random.bool() { 0 } else { 65400 };
        let fragment =
            Fragment { source, destination, id: random.u16(..), from, more: true, payload: &[0; 8] };
        (at, fragment.frame())
    })
}

/// Runs packets, in order of time, through a reassembler `r`. Returns the number of complete datagrams of
/// honest hosts, and the outcome.
fn run(reassembler: &str, mut packets: Vec<(i64, Vec<u8>)>) -> (usize, RunResults) {
    packets.sort_by_key(|(at, _)| *at);
    let element = format!(
        "CheckIPHeader(14) -> r :: {reassembler} -> c :: IPClassifier(src net 10.0.0.0/16, -); c[1] -> Discard; c[0]"
    );
    let (outcome, seen) = through(&element, &packets, &[]);
    (seen.iter().filter(|(_, bytes)| bytes.len() == 1034).count(), outcome)
}

/// Returns the number of packets that the reassembler has dropped for a reason.
fn dropped(outcome: &RunResults, reason: DropReason) -> u64 {
    let element = outcome.report.elements.iter().find(|element| element.name == "r").unwrap();
    element.drops.get(reason.as_str()).copied().unwrap_or(0)
}

/// Returns the number of fragments that the reassembler held when the run ended.
fn held(outcome: &RunResults) -> u64 {
    dropped(outcome, DropReason::Stop)
}

/// A flood has 1, 10 and 100 times as many fragments per second as the honest hosts send (1,000), from one
/// other address and from 65,536 other addresses. At least 95 % of the honest datagrams must be completed.
#[test]
fn honest_datagrams_survive_floods_from_other_addresses() {
    let mut lost = Vec::new();
    for addresses in [1, 65_536] {
        for times in [1, 10, 100] {
            let mut packets = honest(50, 2 * MILLISECOND, 5 * MILLISECOND, 1500);
            packets.extend(flood(addresses, MILLISECOND / times, 0, 3 * SECOND));
            let (whole, outcome) = run("IPReassembler", packets);
            if whole < 1500 * 95 / 100 {
                let failed = dropped(&outcome, DropReason::OutOfTime);
                lost.push(format!("{addresses} addresses, {times} times: {whole} of 1500 ({failed})"));
            }
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// A flood fills the memory in less time than passes between the two fragments of an honest datagram. The
/// fragments of honest hosts must be kept nevertheless, because these hosts have completed datagrams before.
#[test]
fn known_hosts_have_time_in_a_flood() {
    let mut packets = honest(20, 10 * MILLISECOND, 200 * MILLISECOND, 400);
    packets.extend(flood(65_536, SECOND / 50_000, 2 * SECOND, 5 * SECOND));
    let (whole, outcome) = run("IPReassembler", packets);
    assert!(whole >= 396, "{whole} of 400");
    assert!(dropped(&outcome, DropReason::MemoryLimit) > 100_000);
}

/// A single host floods the reassembler with datagrams that stay incomplete, and after every second of them
/// sends a datagram that is complete. The flood must not evict fragments of other hosts.
#[test]
fn completing_datagrams_does_not_make_a_flood_honest() {
    let mut packets = honest(20, 10 * MILLISECOND, 100 * MILLISECOND, 100);
    for (number, (at, frame)) in flood(1, SECOND / 50_000, 0, SECOND + 200 * MILLISECOND).enumerate() {
        packets.push((at, frame));
        if number % 2 == 0 {
            let source = [172, 16, 0, 0];
            packets.extend(halves(source, number as u16).map(|frame| (at, frame)));
        }
    }
    let (whole, _) = run("IPReassembler", packets);
    assert!(whole >= 95, "{whole} of 100");
}

/// However large the offsets and however many the fragments, no more than HIMEM bytes are held; each
/// fragment takes a slot of 2,368 bytes.
#[test]
fn memory_is_bounded_whatever_comes() {
    for (memory, option) in [(8 << 20, ""), (100_000, "HIMEM 100000")] {
        let packets = flood(65_536, SECOND / 20_000, 0, SECOND).collect();
        let (_, outcome) = run(&format!("IPReassembler({option})"), packets);
        assert!(held(&outcome) > memory / 4000 && held(&outcome) < memory / 2368, "{}", held(&outcome));
    }
}

#[test]
fn the_reason_is_memory_where_it_was_memory() {
    let first =
        |id| Fragment { source: host(id), destination: SERVER, id, from: 0, more: true, payload: &[0; 1000] };
    let packets = (0..5000).map(|id| (i64::from(id) * MILLISECOND, first(id).frame())).collect();
    let (_, outcome) = run("IPReassembler", packets);
    assert_eq!(dropped(&outcome, DropReason::OutOfTime), 0);
    assert_eq!(dropped(&outcome, DropReason::MemoryLimit) + held(&outcome), 5000);
    // A fragment that has waited for too long is dropped for the reason "out of time".
    let packets = [0, 29, 31].map(|at| (at * SECOND, first(at as u16).frame()));
    let (_, outcome) = run("IPReassembler", packets.into());
    assert_eq!((dropped(&outcome, DropReason::OutOfTime), held(&outcome)), (1, 2));
}

/// Fragments of a datagram that stays incomplete are held for 30 seconds after its first fragment came.
/// Further fragments of the datagram must not extend this time.
#[test]
fn more_fragments_do_not_buy_time() {
    let fragment = |n: u16| Fragment {
        source: host(0),
        destination: SERVER,
        id: 1,
        from: n * 8,
        more: true,
        payload: &[0; 8],
    };
    let packets = (0..4).map(|n| (i64::from(n) * 10 * SECOND + i64::from(n), fragment(n).frame())).collect();
    let (_, outcome) = run("IPReassembler", packets);
    assert_eq!((dropped(&outcome, DropReason::OutOfTime), held(&outcome)), (3, 1));
}

/// A fragment has a time stamp 100 seconds in the future. This must not change the time for which later
/// fragments, with correct time stamps, are held.
#[test]
fn time_stamps_that_go_backwards_keep_nothing() {
    let [ahead, now, later] = [1, 2, 3].map(|n| halves(host(n), n)[0].clone());
    let element = "CheckIPHeader(14) -> c :: IPClassifier(src host 10.0.0.1, -) -> AdjustTimestamp(100)
        -> r :: IPReassembler; c[1] -> r; r";
    let (outcome, _) = through(element, &[(0, ahead), (SECOND, now), (40 * SECOND, later)], &[]);
    assert_eq!((dropped(&outcome, DropReason::OutOfTime), held(&outcome)), (2, 1));
}

/// The time stamp of a whole datagram (no fragment) of another host also advances the reassembler's time: a
/// fragment that is too old then expires, although no other fragment comes.
#[test]
fn any_packet_shows_that_time_has_passed() {
    let [first, _] = halves(host(1), 1);
    let mut whole = halves(host(2), 2)[0].clone();
    whole[20] = 0;
    whole[24..26].fill(0);
    wire::checksum::fill_ipv4(&mut whole[14..34]).unwrap();
    let (outcome, seen) =
        through("CheckIPHeader(14) -> r :: IPReassembler", &[(0, first), (31 * SECOND, whole)], &[]);
    assert_eq!((seen.len(), dropped(&outcome, DropReason::OutOfTime)), (1, 1));
}

/// Sends fragments with these offsets and bytes, in this order; the third value says that more fragments
/// follow. Returns the payloads of the datagrams that come out, and the outcome.
fn joined(reassembler: &str, parts: &[(u16, &[u8], bool)]) -> (Vec<Vec<u8>>, RunResults) {
    let frame = |&(from, payload, more): &(u16, &'static [u8], bool)| {
        Fragment { source: host(1), destination: SERVER, id: 7, from, more, payload }.frame()
    };
    let parts: Vec<_> =
        parts.iter().map(|(from, payload, more)| (*from, payload.to_vec().leak() as &[u8], *more)).collect();
    let packets: Vec<_> = (0..).zip(parts.iter().map(frame)).collect();
    let (outcome, seen) = through(&format!("CheckIPHeader(14) -> r :: {reassembler}"), &packets, &[]);
    (seen.into_iter().map(|(_, bytes)| bytes[34..].to_vec()).collect(), outcome)
}

#[test]
fn packets_with_overlapping_fragments_are_dropped() {
    let cases: [&[(u16, &[u8], bool)]; 5] = [
        &[(0, &[1; 16], true), (8, &[2; 16], false)],
        &[(8, &[2; 16], false), (0, &[1; 16], true)],
        // In these two cases, the second fragment lies inside the first, or covers it.
        &[(0, &[1; 24], true), (8, &[2; 8], true), (24, &[3; 8], false)],
        &[(8, &[1; 8], true), (0, &[2; 24], true), (24, &[3; 8], false)],
        // The first two fragments have the same offset, but different bytes.
        &[(0, &[1; 8], true), (0, &[2; 8], true), (8, &[3; 8], false)],
    ];
    for parts in cases {
        let (seen, outcome) = joined("IPReassembler", parts);
        assert!(seen.is_empty(), "{parts:?}: {seen:?}");
        assert!(dropped(&outcome, DropReason::Overlap) >= 2, "{parts:?}: {:?}", outcome.report);
    }
}

#[test]
fn packets_with_two_ends_are_dropped() {
    let cases: [&[(u16, &[u8], bool)]; 3] = [
        &[(8, &[1; 8], false), (16, &[2; 8], false), (0, &[3; 8], true)],
        &[(16, &[1; 8], true), (8, &[2; 8], false), (0, &[3; 8], true)],
        &[(8, &[1; 8], false), (8, &[1; 8], true), (0, &[3; 8], true)],
    ];
    for parts in cases {
        let (seen, outcome) = joined("IPReassembler", parts);
        assert!(seen.is_empty(), "{parts:?}: {seen:?}");
        assert_eq!((dropped(&outcome, DropReason::Overlap), held(&outcome)), (2, 1), "{parts:?}");
    }
}

#[test]
fn fragments_that_come_twice_do_no_harm() {
    let parts: [(u16, &[u8], bool); 5] = [
        (8, &[2; 8], true),
        (8, &[2; 8], true),
        (16, &[3; 5], false),
        (16, &[3; 5], false),
        (0, &[1; 8], true),
    ];
    let (seen, outcome) = joined("IPReassembler", &parts);
    assert_eq!(seen, [[[1; 8].as_slice(), &[2; 8], &[3; 5]].concat()]);
    assert_eq!(dropped(&outcome, DropReason::Coalesced), 4);
}

#[test]
fn later_fragments_count_if_overlaps_are_allowed() {
    let parts: [(u16, &[u8], bool); 4] =
        [(0, &[1; 24], true), (8, &[2; 8], true), (16, &[3; 24], true), (32, &[4; 16], false)];
    let (seen, _) = joined("IPReassembler(OVERLAP true)", &parts);
    assert_eq!(seen, [[[1; 8].as_slice(), &[2; 8], &[3; 16], &[4; 16]].concat()]);
}

/// The header of the first fragment (24 bytes) and the payload of all fragments together exceed 65,535 bytes.
/// So all fragments must be dropped.
#[test]
fn packets_that_would_be_too_long_are_dropped() {
    let mut header = [0x46, 0, 0, 32, 0, 9, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1, 1, 1, 1, 1];
    wire::checksum::fill_ipv4(&mut header).unwrap();
    let first = [&[2; 12], &[8, 0][..], &header, &[0; 8]].concat();
    let later = |from: u16, more, payload| {
        Fragment { source: host(1), destination: SERVER, id: 9, from, more, payload }.frame()
    };
    let mut packets = vec![(0, first)];
    let step = &[0; 1024];
    packets.extend((0..63).map(|n| (1, later(8 + n * 1024, true, &step[..]))));
    packets.push((2, later(8 + 63 * 1024, false, &step[..995])));
    let (outcome, seen) = through("CheckIPHeader(14) -> r :: IPReassembler", &packets, &[]);
    assert!(seen.is_empty(), "{}", seen[0].1.len());
    assert_eq!(dropped(&outcome, DropReason::BadIpHeader), 65);
}

/// An attacker forges the first fragments of datagrams of an honest host, with 2,000 identifications. At most
/// as many of the host's datagrams may fail as can be open for one host at a time (MAX_OPEN).
#[test]
fn few_identifications_are_spoilt_by_forged_fragments() {
    let forged = |id| Fragment {
        source: host(0),
        destination: SERVER,
        id,
        from: 0,
        more: true,
        payload: &[0xba; 808],
    };
    for (option, most) in [("", 64), ("MAX_OPEN 8", 8)] {
        let mut packets: Vec<_> = (0..2000).map(|id| (i64::from(id), forged(id).frame())).collect();
        packets.extend(
            honest(1, MILLISECOND, MILLISECOND / 2, 2000).into_iter().map(|(at, frame)| (at + SECOND, frame)),
        );
        let (whole, outcome) = run(&format!("IPReassembler({option})"), packets);
        assert!((2000 - most..2000).contains(&whole), "{option}: {whole}");
        assert!(dropped(&outcome, DropReason::FragmentLimit) >= 2000 - most as u64, "{option}");
    }
}

#[test]
fn fragments_of_a_packet_are_bounded() {
    let parts: Vec<_> = (0..200).map(|n| (n * 8, [n as u8; 8], n < 199)).collect();
    let parts: Vec<_> = parts.iter().map(|(from, bytes, more)| (*from, &bytes[..], *more)).collect();
    let (seen, outcome) = joined("IPReassembler", &parts);
    assert_eq!((seen.len(), dropped(&outcome, DropReason::FragmentLimit), held(&outcome)), (0, 129, 71));
    assert_eq!(joined("IPReassembler(MAX_FRAGMENTS 200)", &parts).0.len(), 1);
}

/// Fragments that are dropped leave unchanged by output 1, if that is connected.
#[test]
fn what_is_given_up_leaves_by_output_1() {
    let [first, _] = halves(host(1), 1);
    let [_, other] = halves(host(1), 2);
    let element = "CheckIPHeader(14) -> r :: IPReassembler; r[0] -> Discard; r[1]";
    let (_, seen) =
        through(element, &[(0, first.clone()), (1, other.clone()), (31 * SECOND, first.clone())], &[]);
    let seen: Vec<_> = seen.into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(seen, [first, other]);
}

/// Two datagrams in different VLANs have the same addresses and the same identification, and their
/// fragments come interleaved.
#[test]
fn vlans_are_kept_apart() {
    let at = |from: u16, more| {
        let payload: &[u8] = if from == 0 { &[1; 800] } else { &[2; 200] };
        Fragment { source: host(1), destination: SERVER, id: 1, from, more, payload }
    };
    let tagged = |from, more, tags: &[u8]| at(from, more).behind(tags);
    let through_both = |element: &str, one: &[u8], other: &[u8], length: usize| {
        let frames = [
            tagged(0, true, one),
            tagged(0, true, other),
            tagged(800, false, other),
            tagged(800, false, one),
        ];
        let packets: Vec<_> = (0..).zip(frames).collect();
        let (_, seen) = through(element, &packets, &[]);
        seen.iter().filter(|(_, bytes)| bytes.len() == length).count()
    };
    let (ten, twenty): (&[u8], &[u8]) = (&[0x81, 0, 0, 10, 8, 0], &[0x81, 0, 0xe0, 20, 8, 0]);
    let decap = "VLANDecap -> CheckIPHeader(14) -> r :: IPReassembler";
    assert_eq!(through_both(decap, ten, twenty, 1034), 2);
    // The priority bits in the VLAN tag differ, but the VLAN (20) is the same, so the fragments must be
    // joined.
    assert_eq!(through_both(decap, twenty, &[0x81, 0, 0x20, 20, 8, 0], 1034), 1);
    let kept = "MarkMACHeader(0) -> CheckIPHeader(18) -> r :: IPReassembler";
    assert_eq!(through_both(kept, ten, twenty, 1038), 2);
    let double = "MarkMACHeader(0) -> CheckIPHeader(22) -> r :: IPReassembler";
    let inner = |id| [0x88, 0xa8, 0, 10, 0x81, 0, 0, id, 8, 0];
    assert_eq!(through_both(double, &inner(1), &inner(2), 1042), 2);
    // With `VLAN false`, both datagrams are one, so only one is completed.
    let (mixed, off) = ("IPReassembler", "IPReassembler(VLAN false)");
    assert_eq!(through_both(&decap.replace(mixed, off), ten, twenty, 1034), 1);
}
