//! The form of a GRE header (RFC 2784, RFC 2890): two bytes of flags and version, two bytes of protocol,
//! and, if their flags are set, four bytes each of checksum, key and sequence number.

use element::effects::Field;
use element::{Base, Packet};
use wire::checksum::Sum;

use crate::editing::bytes;

/// The bit of the first byte that says that there is a checksum.
pub(super) const CHECKSUM: u8 = 0x80;
/// The bit of the first byte that says that there is a key.
pub(super) const KEY: u8 = 0x20;
/// The bit of the first byte that says that there is a sequence number.
pub(super) const SEQUENCE: u8 = 0x10;
/// The bits of the first byte that must be zero: with them, the header may have further fields, whose length
/// is not known (RFC 2784, section 2.3; RFC 2890, section 2).
pub(super) const RESERVED: u8 = 0x4c;
/// The bits of the second byte that hold the version.
pub(super) const VERSION: u8 = 0x07;
/// The length of a header without options.
pub(super) const LEN: usize = 4;
/// The length of a header with all options.
pub(super) const LONGEST: usize = LEN + 3 * OPTION;
/// The length of each option.
pub(super) const OPTION: usize = 4;

/// Returns the length of a header with these flags.
pub(super) fn length(flags: u8) -> usize {
    LEN + OPTION * (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize
}

/// Returns the offsets of key and sequence number in a header with these flags, which has both.
pub(super) fn offsets(flags: u8) -> (usize, usize) {
    let key = LEN + if flags & CHECKSUM == 0 { 0 } else { OPTION };
    (key, key + if flags & KEY == 0 { 0 } else { OPTION })
}

/// Returns the checksum over the packet from byte `offset` on. It is 0 if the packet contains its own right
/// checksum there.
pub(super) fn checksum(packet: &Packet, mut offset: usize) -> u16 {
    let (mut part, mut sum) = ([0; 64], Sum::new());
    loop {
        match packet.read_at(offset, &mut part) {
            0 => return sum.checksum(),
            read => {
                sum = sum.bytes(&part[..read]);
                offset += read;
            }
        }
    }
}

/// Returns the fields of a packet on which the bytes of a header, and what is read of it, depend.
pub(super) fn reads(offset: usize) -> [Field; 3] {
    [Field::Length, Field::Payload, bytes(Base::Data, offset, LONGEST as u16)]
}
