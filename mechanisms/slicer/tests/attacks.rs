//! Tests of attacks: forged packets from outside, and misbehaving network functions. No packet may get a
//! payload of another packet.

mod around;
mod frames;
mod trick;

use std::collections::HashSet;

use element::DropReason;
use frames::{L3, datagram, segment};
use slicer::token::{PayloadPlace, TOKEN, TokenCipher};
use trick::{dropped, through};
use wire::MacAddr;
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};

const MARK: u8 = 63;

/// Returns datagrams and segments of many sizes, with all DSCPs.
fn mixed(count: usize) -> Vec<Vec<u8>> {
    let frame = |number: usize| match number % 3 {
        0 => segment(number, number * 37 % 1461, (number % 64) as u8, ACK),
        _ => datagram(number, number * 53 % 1473, (number % 64) as u8),
    };
    (0..count).map(frame).collect()
}

/// Returns `count` datagrams with 1000 bytes of payload, which are long enough to be sliced: the slicer parks
/// their payloads and passes their headers on.
fn large(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| datagram(number, 1000, 0)).collect()
}

#[test]
fn what_is_marked_outside_comes_through_at_any_size() {
    let mut frames = Vec::new();
    for length in (0..70).chain((70..1460).step_by(13)) {
        frames.push(datagram(length, length, MARK));
        frames.push(segment(length, length, MARK, ACK));
    }
    let unusual = [SYN, SYN | ACK, RST, RST | ACK, URG | ACK, FIN | ACK, PSH | ACK, 0, 0xff];
    frames.extend(unusual.iter().flat_map(|&flags| [0, 600].map(|length| segment(9, length, MARK, flags))));
    for table in ["", "MARKER none"] {
        let (seen, values, _) =
            through(table, "", "Null", &frames, &["t.sliced", "t.no_token", "t.remarked"]);
        assert!(seen == frames, "{table}");
        assert!(values[0] > 100 && values[1..] == [0, 0], "{table} {values:?}");
    }
}

/// Returns a datagram whose payload is the token of this entry and generation, as if an attacker knew it:
/// under the trace clock the key is always the same.
fn with_token(number: usize, dscp: u8, index: u32, generation: u64) -> Vec<u8> {
    let [token] = TokenCipher::new([7; 16]).encrypt([PayloadPlace { worker: 0, index, generation }]);
    let mut frame = datagram(number, TOKEN, dscp);
    frame[L3 + 28..].copy_from_slice(&token);
    // Removes the checksum, so that it need not be computed again.
    frame[L3 + 26..L3 + 28].fill(0);
    frame
}

#[test]
fn tokens_that_somebody_has_seen_are_payload_like_any_other() {
    // Between datagrams that are sliced, tokens of random entries arrive, of generations 0 to 2.
    let mut random = fastrand::Rng::with_seed(9);
    let mut frames = Vec::new();
    for number in 0..400 {
        frames.push(datagram(number, 900, 0));
        for generation in 0..3 {
            frames.push(with_token(number, [0, MARK][number % 2], random.u32(..512), generation));
        }
    }
    for (entries, hold) in [(512, 1), (512, 100), (16, 1), (16, 400)] {
        for (marker, slice) in [("dscp", ""), ("none", "BYTES 200")] {
            let table = format!("ENTRIES {entries}, MARKER {marker}, TTL 1000");
            let handlers = ["t.spliced", "t.waiting", "t.sliced", "t.occupied"];
            let (seen, values, outcome) =
                through(&table, slice, &format!("Trick(reverse, {hold})"), &frames, &handlers);
            assert!(seen.iter().all(|frame| frames.contains(frame)), "somebody else's payload");
            let refused = dropped(&outcome, "Slice", DropReason::ForeignToken);
            assert_eq!(seen.len() as u64 + refused, frames.len() as u64, "{table} {hold}");
            assert_eq!(values[0] + values[1], values[2]);
            // A packet with a valid token that cannot be parked cannot be distinguished from a sliced
            // packet, so it is dropped. This happens only in the small table.
            assert_eq!(refused > 0, entries == 16, "{table} {hold}: {values:?}");
        }
    }
}

/// Returns a TCP frame with 40 bytes of IP options and 40 bytes of TCP options, the maximum, ahead of
/// `payload`.
fn with_long_headers(dscp: u8, payload: &[u8]) -> Vec<u8> {
    let (a, b) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
    let builder = Builder::tcp(a, b, ACK).options(&[1; 40]).tos(dscp << 2);
    let mut frame = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap();
    frame.splice(L3 + 20..L3 + 20, [1; 40]);
    frame[L3] = 0x4f;
    let length = (frame.len() - L3) as u16;
    frame[L3 + 2..L3 + 4].copy_from_slice(&length.to_be_bytes());
    wire::checksum::fill_ipv4(&mut frame[L3..L3 + 60]).unwrap();
    frame
}

#[test]
fn a_token_from_outside_is_found_wherever_a_splicer_would_look() {
    let token = |index| {
        let [token] = TokenCipher::new([7; 16]).encrypt([PayloadPlace { worker: 0, index, generation: 1 }]);
        token
    };
    let mut frames = large(8);
    // Frames with valid tokens that cannot be parked: a frame with too long headers, an ICMP error that
    // quotes the token, and (with BYTES) a frame with more payload after the token while the table is full.
    frames.push(with_long_headers(0, &token(0)));
    let quoted = with_token(1, MARK, 1, 1);
    let error = Builder::icmp([10, 9, 9, 9].into(), [10, 0, 0, 1].into(), 11, 0, [0, 0]);
    frames.push(error.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&quoted[L3..]).unwrap());
    for slice in ["", "BYTES 300"] {
        let mut frames = frames.clone();
        let refused = if slice.is_empty() { 2 } else { 3 };
        if refused == 3 {
            let mut frame = datagram(9, 700, 0);
            frame[L3 + 28..][..TOKEN].copy_from_slice(&token(2));
            frames.push(frame);
        }
        let (seen, values, outcome) =
            through("ENTRIES 8, TTL 100", slice, "Trick(reverse, 8)", &frames, &["t.spliced", "t.quoted"]);
        assert_eq!(values, [8, 0]);
        assert_eq!(dropped(&outcome, "Slice", DropReason::ForeignToken), refused, "{slice}");
        assert!(seen.iter().all(|frame| frames[..8].contains(frame)));
        assert_eq!(seen.len(), 8);
    }
}

#[test]
fn a_mark_from_outside_that_cannot_be_parked_is_lost() {
    let marked = |dscp| {
        let mut group = datagram(1, 900, dscp);
        group[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
        let mut fragment = datagram(2, 900, dscp);
        fragment[L3 + 6] = 0x20;
        wire::checksum::fill_ipv4(&mut fragment[L3..L3 + 20]).unwrap();
        let mut cut = datagram(3, 900, dscp);
        cut.truncate(500);
        vec![with_long_headers(dscp, &[5; 900]), with_long_headers(dscp, &[5; 9]), group, fragment, cut]
    };
    let (seen, values, _) =
        through("", "", "Null", &marked(MARK), &["t.remarked", "t.no_token", "t.unsuitable"]);
    let unmarked = marked(0);
    assert!(seen.iter().zip(&unmarked).all(|(a, b)| a[L3 + 12..] == b[L3 + 12..] && a[L3 + 1] >> 2 == 0));
    assert_eq!((seen.len(), values), (5, vec![5, 0, 5]));
}

#[test]
fn what_the_function_adds_behind_the_packet_may_take_more_slots() {
    let frames: Vec<_> = (0..20).map(|number| datagram(number, 2000, 0)).collect();
    for slice in ["", "BYTES 100"] {
        let (seen, values, _) = through("", slice, "Trick(append, 300)", &frames, &["t.spliced"]);
        assert!(seen == frames, "{slice}");
        assert_eq!(values, [20]);
    }
}

#[test]
fn a_payload_leaves_once() {
    let frames = mixed(300);
    let handlers = ["t.spliced", "t.repeated", "t.late"];
    let (seen, values, outcome) = through("ENTRIES 64", "", "Trick(copies, 3)", &frames, &handlers);
    let whole: HashSet<_> = frames.iter().collect();
    assert!(seen.iter().all(|frame| whole.contains(frame)));
    assert!(frames.iter().all(|frame| seen.contains(frame)), "one of each comes");
    let [spliced, repeated, late] = values[..] else { panic!() };
    assert!(spliced > 100);
    assert_eq!((repeated, late), (2 * spliced, 0));
    assert_eq!(dropped(&outcome, "Splice", DropReason::PayloadTaken), repeated);
}

#[test]
fn a_header_that_comes_again_late_gets_nobodys_payload() {
    let frames = large(100);
    for later in [2, 4, 5, 50, 100] {
        let (seen, values, outcome) =
            through("ENTRIES 4", "", &format!("Trick(again, {later})"), &frames, &["t.repeated", "t.late"]);
        assert!(seen == frames, "{later}");
        assert_eq!(values[0] + values[1], 1);
        let reasons = [DropReason::PayloadTaken, DropReason::PayloadExpired];
        assert_eq!(reasons.map(|reason| dropped(&outcome, "Splice", reason)).iter().sum::<u64>(), 1);
    }
}

#[test]
fn order_does_not_matter() {
    let frames = mixed(400);
    for hold in [2, 50, 400] {
        let (mut seen, values, _) = through(
            "ENTRIES 500",
            "",
            &format!("Trick(reverse, {hold})"),
            &frames,
            &["t.sliced", "t.spliced"],
        );
        assert_eq!(values[0], values[1]);
        let mut sent = frames.clone();
        sent.sort_unstable();
        seen.sort_unstable();
        assert!(seen == sent, "{hold}");
    }
}

#[test]
fn a_full_table_lets_packets_pass_whole() {
    let frames = large(100);
    let handlers = ["t.sliced", "t.occupied", "t.expired", "t.spliced"];
    // The network function holds all packets for fewer rounds of the table than payloads have turns, so
    // none expires.
    let (mut seen, values, _) = through("ENTRIES 10, TTL 20", "", "Trick(reverse, 100)", &frames, &handlers);
    seen.sort_unstable();
    let mut sent = frames.clone();
    sent.sort_unstable();
    assert!(seen == sent);
    assert_eq!(values, [10, 90, 0, 10]);
}

#[test]
fn who_stays_beyond_the_turns_loses_the_payload_and_nothing_else() {
    let frames = large(1000);
    for (ttl, hold) in [(1, 3), (2, 100), (5, 1000)] {
        let handlers = ["t.sliced", "t.spliced", "t.late", "t.expired", "t.waiting"];
        let table = format!("ENTRIES 4, TTL {ttl}");
        let (seen, values, outcome) =
            through(&table, "", &format!("Trick(reverse, {hold})"), &frames, &handlers);
        let [sliced, spliced, late, expired, waiting] = values[..] else { panic!() };
        assert!(seen.iter().all(|frame| frames.contains(frame)), "never a wrong payload");
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len());
        assert_eq!((sliced, waiting), (spliced + late, 0), "{ttl} {hold}");
        assert_eq!(late, expired);
        assert!(hold < 100 || late > 0, "{ttl} {hold}: some stayed too long");
        assert_eq!(seen.len() as u64 + dropped(&outcome, "Splice", DropReason::PayloadExpired), 1000);
    }
}

#[test]
fn what_the_function_drops_takes_room_for_its_turns_only() {
    let frames = large(4000);
    let handlers = ["t.sliced", "t.spliced", "t.expired", "t.waiting", "t.occupied"];
    let (seen, values, _) = through("ENTRIES 600, TTL 3", "", "Trick(drop, 4)", &frames, &handlers);
    let [sliced, spliced, expired, waiting, occupied] = values[..] else { panic!() };
    let passed: Vec<_> =
        frames.iter().enumerate().filter(|(n, _)| (n + 1) % 4 != 0).map(|(_, f)| f).collect();
    assert!(seen.iter().eq(passed), "those that it passed on");
    assert_eq!(sliced, spliced + expired + waiting);
    assert!(expired > 0 && occupied > 0 && occupied < 2000 && waiting <= 600, "{values:?}");
}

#[test]
fn what_is_cut_or_damaged_does_not_leave() {
    let frames = large(50);
    // Tricks that cut packets with and without corrected lengths, change the token, and lengthen packets.
    let tricks = [
        ("Trick(cut, 1)", "t.no_token"),
        ("Trick(cut, 16)", "t.no_token"),
        ("Trick(resize, -1)", "t.no_token"),
        ("Trick(resize, -16)", "t.no_token"),
        ("Trick(damage, 0)", "t.no_token"),
        ("Trick(damage, 15)", "t.no_token"),
        ("Trick(resize, 1)", "t.no_token"),
        ("Trick(resize, 100)", "t.no_token"),
    ];
    for (trick, counter) in tricks {
        // With BYTES, sliced packets keep a part of their payload. So a returning packet with a damaged token
        // is not shorter than other packets, and cannot be recognized by its length.
        for slice in ["", "BYTES 100"] {
            let (seen, values, _) = through("", slice, trick, &frames, &[counter, "t.no_token", "t.changed"]);
            let is_left = !slice.is_empty() && (trick.contains("damage") || trick.contains("cut"));
            if !is_left {
                assert!(seen.is_empty(), "{trick} {slice}: {values:?}");
                assert_eq!(values[1] + values[2], 50, "{trick} {slice}");
            }
            if slice.is_empty() {
                assert_eq!(values[0], 50, "{trick}");
            }
        }
    }
}

#[test]
fn another_dscp_is_the_functions_and_is_told() {
    for dscp in [0u8, 10, 46] {
        let frames: Vec<_> = (0..30).map(|number| datagram(number, 700, 5)).collect();
        let tos = dscp << 2;
        let (whole, ..) = through("", "THRESHOLD 10000", &format!("Trick(tos, {tos})"), &frames, &[]);
        for (table, told) in [("", 30), ("MARKER none", 0)] {
            let (seen, values, _) =
                through(table, "", &format!("Trick(tos, {tos})"), &frames, &["t.unmarked", "t.spliced"]);
            assert!(seen == whole, "{dscp}");
            assert_eq!(values, [told, 30]);
        }
    }
}

#[test]
fn errors_quote_the_original() {
    let six = |number: usize, length| {
        let (a, b) = ("[fd00::1]:7".parse().unwrap(), "[fd00::2]:8".parse().unwrap());
        let payload: Vec<u8> = (0..length).map(|i| (i * 3 + number) as u8).collect();
        let builder = if number.is_multiple_of(2) {
            Builder::udp(a, b)
        } else {
            Builder::tcp(a, b, ACK).options(&[1; 12])
        };
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap()
    };
    let mut frames: Vec<_> =
        [450, 500, 520, 548, 1000, 1400].map(|length| datagram(length, length, 9)).into();
    frames.extend([450, 500, 520, 548, 1000, 1400].map(|length| segment(length, length, 0, ACK)));
    frames.extend([450, 1180, 1200, 1201, 1400].iter().flat_map(|&length| [0, 1].map(|n| six(n, length))));
    let (whole, ..) = through("", "THRESHOLD 10000", "Trick(error)", &frames, &[]);
    let handlers = ["t.quoted", "t.sliced", "t.waiting"];
    let (seen, values, _) = through("", "", "Trick(error)", &frames, &handlers);
    assert_eq!((values[0], values[2]), (values[1], 0), "the payload is free");
    assert!(values[0] > 15);
    for (number, (seen, whole)) in seen.iter().zip(&whole).enumerate() {
        assert!(seen == whole, "{number}: {} {}", seen.len(), whole.len());
    }
}

#[test]
fn errors_behind_options_quote_the_original() {
    let frames: Vec<_> = [450, 500, 700, 1180, 1190, 1400]
        .map(|length| {
            let (a, b) = ("[fd00::1]:7".parse().unwrap(), "[fd00::2]:8".parse().unwrap());
            let payload: Vec<u8> = (0..length).map(|i| (i * 3) as u8).collect();
            Builder::udp(a, b).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap()
        })
        .into();
    for options in 1..4 {
        let trick = format!("Trick(error, {options})");
        let (whole, ..) = through("", "THRESHOLD 10000", &trick, &frames, &[]);
        let (seen, values, _) =
            through("", "", &trick, &frames, &["t.quoted", "t.sliced", "t.waiting", "t.unrestored"]);
        assert_eq!((values[0], values[2], values[3]), (values[1], 0, 0));
        assert!(values[0] >= 5 && seen == whole, "{options}");
    }
}

#[test]
fn a_checksum_that_the_function_fills_in_is_that_of_the_whole_datagram() {
    let bare = |length: usize| {
        let mut frame = datagram(length, length, 9);
        frame[L3 + 26..L3 + 28].fill(0);
        frame
    };
    let short: Vec<_> = [0, 17, 458, 459, 900, 901, 1472].map(bare).into();
    let long: Vec<_> = [2000, 3001, 8958, 40_000].map(bare).into();
    for (trick, frames) in [("Trick(resize, 0)", &short), ("Trick(six)", &short), ("Trick(six)", &long)] {
        let (whole, ..) = through("", "THRESHOLD 100000", trick, frames, &[]);
        for (table, slice) in [("", ""), ("MARKER none", "BYTES 99"), ("", "FRACTION 0.3")] {
            let (seen, values, _) = through(table, slice, trick, frames, &["t.spliced"]);
            assert!(seen == whole, "{trick} {table} {slice}");
            assert!(values[0] > 3);
        }
    }
    // If the network function leaves the checksum of a datagram absent, it stays absent.
    let (seen, ..) = through("", "", "Null", &short, &[]);
    assert!(seen == short);
}
