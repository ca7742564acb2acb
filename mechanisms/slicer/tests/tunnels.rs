//! Tests sliced packets that return inside of tunnels: the packets that leave must equal the tunnelled
//! whole packets, or be dropped.

mod around;
mod frames;
mod trick;

use around::{CLOSED, KNOWN, packet};
use element::DropReason;
use frames::{L3, assert_same, datagram, segment, six};
use proptest::prelude::*;
use slicer::token::{PayloadPlace, TOKEN, TokenCipher};
use slicer::tunnel::Walk;
use trick::{dropped, through};
use wire::LinkType;
use wire::tcp::flags::ACK;

const MARK: u8 = 63;

/// Returns frames of many kinds: too short to be sliced, long enough, with a trailer, and with wrong
/// checksums or none.
fn mixed() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 16, 17, 100, 458, 459, 700, 1001, 1400];
    let mut frames: Vec<_> =
        lengths.iter().map(|&length| datagram(length, length, (length % 60) as u8)).collect();
    frames.extend(lengths.iter().map(|&length| segment(length, length, 3, ACK)));
    frames.extend(lengths.iter().flat_map(|&length| [six(0, length), six(41, length)]));
    for number in [3, 13, 23] {
        let mut frame = frames[number].clone();
        frame[L3 + 25] ^= 9;
        frames.push(frame);
    }
    let mut bare = datagram(1, 900, 5);
    bare[L3 + 26..L3 + 28].fill(0);
    frames.push(bare);
    frames.push([&datagram(2, 800, 9)[..], &[1, 2, 3, 4, 5]].concat());
    frames
}

/// Returns the frames of [`mixed`] that are sliced and have no trailer after the token.
fn sliced() -> Vec<Vec<u8>> {
    mixed()
        .into_iter()
        .filter(|frame| frame.len() >= 500 && packet(frame).len() + L3 == frame.len())
        .collect()
}

/// Returns the frames in the tunnel, as they leave if they are not sliced.
fn of_all(tunnel: fn(&[u8]) -> Vec<u8>, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| tunnel(frame)).collect()
}

#[test]
fn payloads_come_back_inside_of_tunnels() {
    let frames = mixed();
    let ways =
        [("", ""), ("MARKER none", "THRESHOLD 100"), ("", "BYTES 200"), ("MARKER none", "FRACTION 0.5")];
    for (number, (name, tunnel)) in KNOWN.iter().enumerate() {
        for (table, slice) in ways {
            let handlers = ["t.sliced", "t.spliced", "t.tunnelled", "t.missing", "t.no_token", "t.hidden"];
            let (seen, values, _) =
                through(table, slice, &format!("Trick(wrap, {number})"), &frames, &handlers);
            assert_same(&format!("{name} {table} {slice}"), &seen, &of_all(*tunnel, &frames));
            let [sliced, spliced, tunnelled, ..] = values[..] else { panic!() };
            assert!(sliced == spliced && sliced > 15, "{name} {table} {slice}: {values:?}");
            // VLAN tags and 802.3 headers belong to the link header, so they do not count as tunnels.
            let is_inside = !matches!(*name, "a tag" | "802.3");
            assert!(!is_inside || tunnelled == sliced, "{name} {table} {slice}: {values:?}");
            assert_eq!(values[3..], [0, 0, 0], "{name} {table} {slice}");
        }
    }
}

#[test]
fn tunnels_may_be_inside_of_tunnels() {
    // 802.3 cannot represent greater lengths.
    let frames: Vec<_> = mixed().into_iter().filter(|frame| frame.len() < 1300).collect();
    let mut tried = 0;
    for (outer, around) in KNOWN.iter().enumerate() {
        for inner in (0..KNOWN.len()).filter(|inner| (inner + outer) % 3 == 0) {
            // Some tunnels take any frame, others only IP packets.
            if !fits(around.1, &KNOWN[inner].1(&frames[9])) {
                continue;
            }
            tried += 1;
            let names = format!("{} in {}", KNOWN[inner].0, around.0);
            let expected: Vec<_> = frames.iter().map(|frame| around.1(&KNOWN[inner].1(frame))).collect();
            let function = format!("Trick(wrap, {inner}) -> Trick(wrap, {outer})");
            let (seen, values, _) = through("", "", &function, &frames, &["t.sliced", "t.spliced"]);
            assert_same(&names, &seen, &expected);
            assert_eq!(values[0], values[1], "{names}");
        }
    }
    assert!(tried > 300, "{tried}");
}

/// True if a tunnel can take a frame: the frame has an IP packet, or the tunnel takes any frame.
fn fits(tunnel: fn(&[u8]) -> Vec<u8>, frame: &[u8]) -> bool {
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    matches!(frame[12..14], [8, 0] | [0x86, 0xdd]) || contains(&tunnel(frame), frame)
}

#[test]
fn large_packets_come_back_inside_of_tunnels() {
    let frames: Vec<_> = [3000, 3001, 8958, 40_000].map(|length| datagram(length, length, 7)).into();
    for (number, (name, tunnel)) in KNOWN.iter().enumerate() {
        for slice in ["", "BYTES 100"] {
            let (seen, values, _) =
                through("", slice, &format!("Trick(wrap, {number})"), &frames, &["t.changed"]);
            if *name == "802.3" && slice.is_empty() {
                // An 802.3 length is below 1536, so the packets cannot be joined and are dropped.
                assert_eq!((seen.len(), values[0]), (0, 4));
                continue;
            }
            assert_same(name, &seen, &of_all(*tunnel, &frames));
        }
    }
}

/// True if there is a valid token anywhere in a frame.
fn has_token(frame: &[u8]) -> bool {
    let cipher = TokenCipher::new([7; 16]);
    frame.windows(TOKEN).any(|bytes| cipher.decrypt(bytes.try_into().unwrap()).is_some())
}

#[test]
fn no_token_leaves_in_what_cannot_be_changed() {
    let frames = sliced();
    for (number, (name, _)) in CLOSED.iter().enumerate() {
        for table in ["", "MARKER none"] {
            let function = format!("Trick(wrap, {})", KNOWN.len() + number);
            let handlers = ["t.sliced", "t.hidden", "t.no_token", "t.spliced", "t.missing"];
            let (seen, values, outcome) = through(table, "", &function, &frames, &handlers);
            assert!(!seen.iter().any(|frame| has_token(frame)), "{name} {table}");
            // All packets are dropped: as `hidden` if their token was found, otherwise as `no_token` by
            // their mark.
            let [sliced, hidden, no_token, ..] = values[..] else { panic!() };
            assert_eq!((sliced, values[3]), (hidden + no_token, 0), "{name} {table}: {values:?}");
            assert!(sliced > 15 && hidden + no_token == sliced, "{name} {table}: {values:?}");
            assert_eq!(dropped(&outcome, "Splice", DropReason::TokenInside), hidden);
        }
    }
}

#[test]
fn what_is_encrypted_is_known_by_its_mark_or_missed() {
    let frames = sliced();
    let handlers = ["t.sliced", "t.no_token", "t.spliced", "t.waiting"];
    let (seen, values, _) = through("", "", "Trick(esp)", &frames, &handlers);
    assert_eq!((seen.len(), values[0], values[2]), (0, values[1], 0));
    // Without the mark of sliced packets nothing identifies these packets: they leave encrypted, and their
    // payloads still wait.
    let (seen, values, _) = through("MARKER none", "", "Trick(esp)", &frames, &handlers);
    assert_eq!((seen.len() as u64, values[3], values[1]), (values[0], values[0], 0));
}

#[test]
fn what_comes_in_tunnels_from_outside_stays_as_it_is() {
    let frames: Vec<_> = mixed();
    for (number, (name, tunnel)) in KNOWN.iter().chain(CLOSED).enumerate() {
        let frames = of_all(*tunnel, &frames);
        for table in ["", "ENTRIES 1, TTL 1000"] {
            let (seen, values, _) =
                through(table, "", "Null", &frames, &["t.no_token", "t.remarked", "t.hidden"]);
            assert_same(name, &seen, &frames);
            assert_eq!(values, [0, 0, 0], "{name} {number}");
        }
    }
}

#[test]
fn a_mark_inside_of_a_tunnel_from_outside_is_lost_or_comes_back() {
    for (name, tunnel) in KNOWN {
        let of = |dscp| [0, 9, 16, 300].map(|length| tunnel(&datagram(1, length, dscp)));
        let (marked, plain) = (of(MARK), of(0));
        for table in ["", "ENTRIES 1, TTL 1000"] {
            let (seen, values, _) =
                through(table, "", "Null", &marked, &["t.no_token", "t.remarked", "t.sliced"]);
            assert_eq!((seen.len(), values[0]), (4, 0), "{name}");
            // Each packet with the mark of sliced packets is sliced or loses the mark. An exception is the
            // first packet, which in some tunnels (GTP-U) is too short for a token.
            assert!(values[1] + values[2] >= 3, "{name}: {values:?}");
            for ((seen, marked), plain) in seen.iter().zip(&marked).zip(&plain) {
                assert!(seen == marked || seen == plain, "{name}\n{seen:02x?}\n{plain:02x?}");
            }
        }
    }
}

#[test]
fn tokens_that_somebody_has_seen_are_found_inside_of_tunnels() {
    for (name, tunnel) in KNOWN {
        let mut frames: Vec<_> = (0..40).map(|number| datagram(number, 900, 0)).collect();
        let cipher = TokenCipher::new([7; 16]);
        for index in 0..40 {
            let [token] = cipher.encrypt([PayloadPlace { worker: 0, index, generation: 1 }]);
            let mut frame = datagram(9, TOKEN, [0, MARK][index as usize % 2]);
            frame[L3 + 28..].copy_from_slice(&token);
            frame[L3 + 26..L3 + 28].fill(0);
            frames.push(tunnel(&frame));
        }
        for entries in [40, 400] {
            let table = format!("ENTRIES {entries}, TTL 1000");
            let (seen, _, outcome) = through(&table, "", "Trick(reverse, 80)", &frames, &[]);
            assert!(seen.iter().all(|frame| frames.contains(frame)), "{name}: somebody else's payload");
            let refused = dropped(&outcome, "Slice", DropReason::ForeignToken);
            assert_eq!(seen.len() as u64 + refused, 80, "{name} {entries}");
            assert!(refused == 40 || entries == 400, "{name}");
        }
    }
}

#[test]
fn what_is_damaged_inside_of_a_tunnel_does_not_leave() {
    let frames: Vec<_> = (0..20).map(|number| datagram(number, 900, 5)).collect();
    for (number, (name, _)) in KNOWN.iter().enumerate() {
        for damage in ["Trick(damage, 0)", "Trick(damage, 15)", "Trick(resize, -1)", "Trick(resize, 7)"] {
            let function = format!("{damage} -> Trick(wrap, {number})");
            let (seen, values, _) = through("", "", &function, &frames, &["t.no_token", "t.changed"]);
            assert!(seen.is_empty() && values[0] + values[1] == 20, "{name} {damage}: {values:?}");
        }
    }
}

proptest! {
    #[test]
    fn anything_may_stand_around(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300), chain in proptest::collection::vec(0..KNOWN.len(), 0..10),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6), cut in any::<u16>(), link in 0u16..300, l3 in 0usize..60,
    ) {
        if !chain.is_empty() {
            bytes = chain.iter().fold(datagram(1, 16, MARK), |frame, &number| KNOWN[number].1(&frame));
            for (place, byte) in changes {
                let place = usize::from(place) % bytes.len();
                bytes[place] = byte;
            }
            bytes.truncate(bytes.len() - usize::from(cut) % 40 * usize::from(cut & 1));
        }
        for walk in [Walk::frame(&bytes, bytes.len() + 3, LinkType::from_number(link % 2 + link / 2)), Some(Walk::ip(&bytes, bytes.len(), l3))] {
            let Some(mut walk) = walk else { continue };
            let mut last = None;
            while let Some(place) = walk.next_ip() {
                prop_assert!(last < Some(place) && place < bytes.len() && walk.outer().end() <= bytes.len() + 3);
                last = Some(place);
            }
        }
    }

    #[test]
    fn nothing_that_is_changed_on_the_way_leaves_with_a_token(
        mut chain in proptest::collection::vec(0..KNOWN.len(), 0..4), last in proptest::option::of(0..CLOSED.len()),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..3),
    ) {
        // Data that a closed tunnel adds after the token would hide it from the search in a further tunnel,
        // so a closed tunnel is the last in the chain.
        chain.extend(last.map(|last| KNOWN.len() + last));
        let mut frame = datagram(1, 900, 0);
        chain.retain(|&number| {
            let tunnel = KNOWN.iter().chain(CLOSED).nth(number).unwrap().1;
            let does_fit = fits(tunnel, &frame);
            frame = if does_fit { tunnel(&frame) } else { std::mem::take(&mut frame) };
            does_fit
        });
        let wraps: Vec<_> = std::iter::once("Null".to_string()).chain(chain.iter().map(|number| format!("Trick(wrap, {number})"))).collect();
        let changed: Vec<_> = changes.iter().map(|(place, byte)| format!("-> Trick(change, {})", u32::from(*place) << 8 | u32::from(*byte))).collect();
        let frames = sliced();
        let function = wraps.join(" -> ") + &changed.concat();
        // `through` asserts that all packets are accounted for; nothing may panic.
        let (seen, ..) = through("", "", &function, &frames, &[]);
        // If no byte was changed, no token may leave. A changed byte may be in the token, or in a header by
        // which the token would be found.
        prop_assert!(!changes.is_empty() || !seen.iter().any(|frame| has_token(frame)));
    }

    #[test]
    fn what_comes_from_outside_is_accounted_for_whatever_it_is(
        chains in proptest::collection::vec((
            proptest::collection::vec(0..KNOWN.len() + CLOSED.len(), 0..10), 0usize..1200, any::<bool>(), 0u64..4,
            proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6), any::<u16>(),
        ), 1..20),
        entries in 1usize..30,
    ) {
        let cipher = TokenCipher::new([7; 16]);
        let mut frames = Vec::new();
        for (number, (chain, length, is_marked, generation, changes, cut)) in chains.into_iter().enumerate() {
            frames.push(datagram(number, 900, 0));
            let dscp = if is_marked { MARK } else { 0 };
            let mut frame = datagram(number, length, dscp);
            if generation > 0 && length >= TOKEN {
                let [token] = cipher.encrypt([PayloadPlace { worker: 0, index: number as u32 % 8, generation }]);
                frame[L3 + 28..][..TOKEN].copy_from_slice(&token);
            }
            frame = chain.iter().fold(frame, |frame, &number| KNOWN.iter().chain(CLOSED).nth(number).unwrap().1(&frame));
            for (place, byte) in changes {
                let place = usize::from(place) % frame.len().min(160);
                frame[place] = byte;
            }
            frame.truncate(frame.len() - usize::from(cut) % 40 * usize::from(cut & 1));
            frames.push(frame);
        }
        for (table, slice) in [("", ""), ("MARKER none", "BYTES 50"), ("", "THRESHOLD 0, FRACTION 0.1")] {
            let table = format!("{table}, ENTRIES {entries}, TTL 3").trim_start_matches(", ").to_string();
            let (seen, values, _) = through(&table, slice, "Trick(reverse, 3)", &frames, &["t.remarked"]);
            // Only packets that have lost the mark of sliced packets may differ from the packets that
            // arrived; all others are equal byte for byte.
            let changed = seen.iter().filter(|frame| !frames.contains(frame)).count();
            prop_assert!(changed as u64 <= values[0], "{} {}", changed, values[0]);
        }
    }
}
