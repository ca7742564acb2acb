//! Tests of tunnels of IPsec: packets of all lengths come out as they went in, and damaged packets do not
//! come out at all.

use element::Timestamp;
use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};

/// The routes of both ends of a tunnel, with the terms of its security association.
const ROUTES: &str = "10.9.0.9 0, 0/0 10.9.0.9 1 7 \\<000102030405060708090a0b0c0d0e0f> \
    \\<101112131415161718191a1b1c1d1e1f> 1 32";

/// Sends packets into a route look-up, and returns the packets that leave the elements `after` its output
/// `output`.
fn through(output: usize, after: &str, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let time = Timestamp::from_secs(1);
    let packet = |bytes| TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] };
    let number = offer(vec![packets.into_iter().map(packet).collect()]);
    let text = format!(
        "TestSource({number}, 0) -> MarkIPHeader -> GetIPAddress(16) -> rt :: RadixIPsecLookup({ROUTES});
        rt[{output}] -> {after} -> TestSink({number}, 0); rt[{}] -> Discard;",
        1 - output
    );
    let outcome = TestRun::default().text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    collect(number).into_iter().map(|seen| seen.bytes).collect()
}

/// Encapsulates packets, and encrypts them.
fn seal(cipher: &str, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    through(1, &format!("IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> {cipher}(1) -> IPsecEncap(50)"), packets)
}

/// Decrypts packets, and removes what encapsulates them.
fn open(cipher: &str, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    through(0, &format!("StripIPHeader -> {cipher}(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap"), packets)
}

/// Makes an IPv4 packet of this length, at least 20 bytes.
fn plain(length: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 5];
    packet.extend((20..length).map(|place| (place * 7) as u8));
    packet
}

#[test]
fn packets_of_all_lengths_come_out_as_they_went_in() {
    // The larger ones fill a slot and its headroom, or lie in several slots.
    let lengths = (20..120).chain(1400..1420).chain(2050..2130).chain([4000, 4223, 9001, 65_000]);
    let packets: Vec<_> = lengths.map(plain).collect();
    for cipher in ["IPsecAES", "IPsecDES"] {
        let sealed = seal(cipher, packets.clone());
        assert_eq!(sealed.len(), packets.len());
        for (sealed, packet) in sealed.iter().zip(&packets) {
            // Nothing of the payload can be seen, where there is enough of it to look for.
            let seen = packet.get(20..28).is_some_and(|part| sealed.windows(8).any(|window| window == part));
            assert!(!seen && sealed.len() > packet.len());
        }
        assert!(open(cipher, sealed.clone()) == packets, "{cipher}");
        // The same packets again are replays of each other.
        assert_eq!(open(cipher, [&sealed[..3], &sealed[..3]].concat()).len(), 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_packets_do_not_come_out(
        length in 20usize..200, place: prop::sample::Index, bit in 0u8..8, cut in prop::option::of(0usize..300),
    ) {
        for cipher in ["IPsecAES", "IPsecDES"] {
            let mut sealed = seal(cipher, vec![plain(length)]);
            // The outer header is not protected.
            let inner = sealed[0].len() - 20;
            match cut {
                Some(cut) => sealed[0].truncate(20 + cut.min(inner - 1)),
                None => sealed[0][20 + place.index(inner)] ^= 1 << bit,
            }
            prop_assert_eq!(open(cipher, sealed), Vec::<Vec<u8>>::new(), "{}", cipher);
        }
    }

    #[test]
    fn no_packet_panics(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..8)) {
        let with_header = |payload: &Vec<u8>| {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 50, 0, 0, 10, 0, 0, 1, 10, 9, 0, 9, 0, 0, 0, 7];
            packet.extend(payload);
            packet
        };
        for after in ["IPsecESPUnencap", "IPsecAES(0)", "IPsecDES(0)", "IPsecAES(1)", "IPsecAuthHMACSHA1(1)"] {
            let packets = packets.iter().map(with_header).collect();
            through(0, &format!("StripIPHeader -> {after}"), packets);
        }
    }
}
