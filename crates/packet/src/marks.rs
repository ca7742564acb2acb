//! Metadata values that are prepared once and then written to many packets, with two 8-byte operations per
//! packet.

use std::ptr;

use crate::packet::Packet;
use crate::slot::{Base, NO_OFFSET, PacketKind, RIGHT_CHECKSUM, SLOT_STRIDE, Values};

/// Values for the metadata of packets, which [`Packet::mark`] writes: the offsets of headers, the link
/// type, the input number and the packet type. Fields that are not set here keep their value in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The masks for the two words of 8 bytes at the offsets [`HALVES`]: a 1 is a bit of the packet's
    /// metadata that is kept. `put` has the bits that are written in place of the others. `starts` has a 1 in
    /// the lowest bit of each header offset field that is written, because the start of the packet's data is
    /// added to it.
    keep: [u64; 2],
    put: [u64; 2],
    starts: [u64; 2],
}

/// Makes marks that change no field.
impl Default for Marks {
    fn default() -> Marks {
        Marks { keep: [u64::MAX; 2], put: [0; 2], starts: [0; 2] }
    }
}

/// The offsets in [`Values`] of the two words of 8 bytes that marks can change: the fields `start` to
/// `mac`, and the fields `network` to `kind`.
const HALVES: [usize; 2] = [std::mem::offset_of!(Values, start), std::mem::offset_of!(Values, network)];

const _: () = assert!(2 * SLOT_STRIDE < NO_OFFSET as usize);
const _: () = assert!(
    HALVES[0].is_multiple_of(8)
        && HALVES[1] == HALVES[0] + 8
        && size_of::<Values>() == HALVES[1] + 8
        && std::mem::offset_of!(Values, kind) == HALVES[1] + 7
);

impl Marks {
    /// Sets the field at byte offset `place` of [`Values`] to `bytes`. If `is_place`, the field is the
    /// offset of a header, and the start of each packet's data is added to it.
    fn with<const N: usize>(mut self, place: usize, bytes: [u8; N], is_place: bool) -> Marks {
        let half = usize::from(place >= HALVES[1]);
        for (at, byte) in (place - HALVES[half]..).zip(bytes) {
            let number =
                |byte: u8| u64::from_ne_bytes(std::array::from_fn(|i| if i == at { byte } else { 0 }));
            self.keep[half] &= !number(0xff);
            self.put[half] = self.put[half] & !number(0xff) | number(byte);
            self.starts[half] &= !number(0xff);
        }
        if is_place {
            let mut one = [0; 8];
            one[place - HALVES[half]..][..2].copy_from_slice(&1u16.to_ne_bytes());
            self.starts[half] |= u64::from_ne_bytes(one);
        }
        self
    }

    /// Sets the offset of a header, in bytes from the first byte of the packet's data. The header must
    /// start inside the first slot of every packet that is marked. `None`, or an offset greater than
    /// [`SLOT_STRIDE`], unsets the header offset. `Base::Data` is ignored, because its offset is always 0.
    #[must_use]
    pub fn header(self, base: Base, place: Option<u16>) -> Marks {
        let place = place.filter(|place| usize::from(*place) <= SLOT_STRIDE);
        let field = match base {
            Base::Data => return self,
            Base::Mac => std::mem::offset_of!(Values, mac),
            Base::Network => std::mem::offset_of!(Values, network),
            Base::Transport => std::mem::offset_of!(Values, transport),
        };
        self.with(field, place.unwrap_or(NO_OFFSET).to_ne_bytes(), place.is_some())
    }

    /// Sets the pcap link type number of the header with which packets start.
    #[must_use]
    pub fn link(self, link: u16) -> Marks {
        self.with(std::mem::offset_of!(Values, link), link.to_ne_bytes(), false)
    }

    /// Sets the number of the device or input that packets came from.
    #[must_use]
    pub fn port(self, port: u8) -> Marks {
        self.with(std::mem::offset_of!(Values, port), [port], false)
    }

    /// Sets Click's packet type annotation.
    #[must_use]
    pub fn kind(self, kind: PacketKind) -> Marks {
        let mut marks = self.with(std::mem::offset_of!(Values, kind), [kind as u8], false);
        // The bit about the checksum in the same byte keeps its value.
        let at = std::mem::offset_of!(Values, kind) - HALVES[1];
        marks.keep[1] |=
            u64::from_ne_bytes(std::array::from_fn(|i| if i == at { RIGHT_CHECKSUM } else { 0 }));
        marks
    }
}

impl Packet {
    /// Writes the values to the metadata of this packet.
    #[inline]
    pub fn mark(&mut self, marks: &Marks) {
        let values = &mut self.meta_mut().values;
        let start = u64::from(values.start);
        let halves: *mut [u64; 2] = ptr::from_mut(values).wrapping_byte_add(HALVES[0]).cast();
        // SAFETY: the two numbers are the second half of the values, as is asserted above, which is aligned
        // to eight bytes and has no padding. The numbers written there may have any value, except for the
        // packet type, whose byte is kept or is the byte of a packet type: no carry reaches it, because a
        // start and an offset are no more than SLOT_STRIDE each.
        unsafe {
            let old = *halves;
            let new = |half: usize| {
                (old[half] & marks.keep[half])
                    | marks.put[half].wrapping_add(start.wrapping_mul(marks.starts[half]))
            };
            *halves = [new(0), new(1)];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Pool;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

        #[test]
        fn what_is_said_at_once_is_what_is_said_one_after_the_other(
            stripped in 0usize..40,
            headers in proptest::array::uniform3(proptest::option::of(proptest::option::of(0u16..60))),
            (link, port) in (proptest::option::of(any::<u16>()), proptest::option::of(any::<u8>())),
            kind in proptest::option::of(prop_oneof![Just(PacketKind::Broadcast), Just(PacketKind::Loopback)]),
        ) {
            let mut pool = Pool::new(64 << 20).unwrap();
            let mut packets = [pool.packet(&[7; 100]).unwrap(), pool.packet(&[7; 100]).unwrap()];
            let mut marks = Marks::default();
            for packet in &mut packets {
                prop_assert!(packet.strip(stripped));
                packet.set_offset(Base::Mac, Some(3));
                packet.set_port(9);
                packet.set_right_checksum(stripped % 2 == 0);
            }
            let [at_once, one_by_one] = &mut packets;
            for (base, place) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(headers) {
                let Some(place) = place else { continue };
                // The offset 1 has no effect, because the same field is set again.
                marks = marks.header(base, Some(1)).header(base, place);
                one_by_one.set_offset(base, place.map(|place| place as isize));
            }
            if let Some(link) = link {
                marks = marks.link(link);
                one_by_one.set_link(link);
            }
            if let Some(port) = port {
                marks = marks.port(port);
                one_by_one.set_port(port);
            }
            if let Some(kind) = kind {
                marks = marks.kind(kind);
                one_by_one.set_kind(kind);
            }
            at_once.mark(&marks);
            let seen = |packet: &Packet| {
                let headers = [Base::Mac, Base::Network, Base::Transport].map(|base| packet.offset(base));
                let kind = (packet.kind(), packet.has_right_checksum());
                (headers, packet.link(), packet.port(), kind, packet.data().to_vec(), packet.headroom())
            };
            prop_assert_eq!(seen(at_once), seen(one_by_one));
            packets.into_iter().for_each(|packet| pool.free(packet));
        }
    }
}
