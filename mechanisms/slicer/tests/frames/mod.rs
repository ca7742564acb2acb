//! Frames for tests, whose contents depend on a number so that each is different.
#![allow(dead_code, reason = "each test program uses a part")]

use wire::MacAddr;
use wire::build::Builder;

/// The offset in bytes of the IP header.
pub(crate) const L3: usize = 14;

/// Returns a frame with a UDP datagram of this DSCP over IPv4. Its payload has `length` bytes, which depend
/// on `number`.
pub(crate) fn datagram(number: usize, length: usize, dscp: u8) -> Vec<u8> {
    let payload: Vec<u8> = (0..length).map(|i| (number * 31 + i * 7 + i / 256) as u8).collect();
    let (a, b) = (([10, 0, 0, 1], 1000 + number as u16 % 7), ([10, 0, 0, 2], 9));
    let builder = Builder::udp(a.into(), b.into()).tos(dscp << 2 | number as u8 & 3).id(number as u16);
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap()
}

/// Returns a frame with a TCP segment, like [`datagram`] otherwise, with these flags.
pub(crate) fn segment(number: usize, length: usize, dscp: u8, flags: u8) -> Vec<u8> {
    let payload: Vec<u8> = (0..length).map(|i| (number * 17 + i * 5) as u8).collect();
    let (a, b) = (([10, 0, 0, 1], 2000 + number as u16 % 5), ([10, 0, 0, 2], 80));
    let builder =
        Builder::tcp(a.into(), b.into(), flags).sequence((u32::MAX - 700).wrapping_add(number as u32), 7);
    let builder = builder.tos(dscp << 2).id(number as u16);
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap()
}

/// Returns a frame over IPv6 with `length` bytes of payload: UDP for even numbers, TCP for odd numbers.
pub(crate) fn six(number: usize, length: usize) -> Vec<u8> {
    let (a, b) = ("[fd00::1]:7".parse().unwrap(), "[fd00::2]:8".parse().unwrap());
    let payload: Vec<u8> = (0..length).map(|i| (i * 3 + number) as u8).collect();
    let builder = match number % 2 {
        0 => Builder::udp(a, b),
        _ => Builder::tcp(a, b, wire::tcp::flags::ACK).options(&[1; 12]),
    };
    builder.tos(number as u8).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap()
}

#[track_caller]
pub(crate) fn assert_same(name: &str, seen: &[Vec<u8>], expected: &[Vec<u8>]) {
    for (number, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        let differ = seen.iter().zip(expected).position(|(a, b)| a != b);
        assert!(
            seen == expected,
            "{name}, {number}: {} bytes of {}, other from {differ:?} on\n{seen:02x?}\n{expected:02x?}",
            seen.len(),
            expected.len()
        );
    }
    assert_eq!(seen.len(), expected.len(), "{name}");
}

/// Puts a network function between the chains `before` and `after`. Returns the statements of the
/// configuration that come ahead of the resulting chain, and the chain. If the function ends at a named
/// element `j`, packets enter it at its element `c` and leave it at `j`, so that the function may have
/// branches between the two.
pub(crate) fn around(before: &str, function: &str, after: &str) -> (String, String) {
    match function.split_once(" -> j :: Null") {
        None => (String::new(), format!("{before}{function}{after}")),
        Some((front, rest)) => (format!("j :: Null; {front} -> j{rest};"), format!("{before}c; j{after}")),
    }
}
