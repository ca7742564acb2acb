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
