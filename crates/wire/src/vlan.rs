//! VLAN tags (IEEE 802.1Q, 802.1ad).
//!
//! The 16-bit protocol identifier of a tag stands where the EtherType would be without the tag. It is
//! followed by 4 bytes: the control information, and the EtherType of the tag's payload (or the identifier
//! of another tag). [`Tag`] is these 4 bytes: they follow an EtherType for which [`is_tag`] is true.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{U16, ether_type};

/// The 4 bytes of a VLAN tag after its protocol identifier: control information, and the EtherType of the
/// payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Tag {
    /// Tag control information: priority (upper 3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
    pub control: U16,
    /// The EtherType of the tag's payload, which may be another tag.
    pub ether_type: U16,
}

impl Tag {
    /// The length of the tag in bytes.
    pub const LEN: usize = size_of::<Tag>();

    /// Returns the VLAN identifier, 0-4095.
    #[inline]
    pub fn id(&self) -> u16 {
        self.control.get() & 0x0fff
    }

    /// Sets the VLAN identifier to the lower 12 bits of `id`; priority and drop eligible stay as they are.
    #[inline]
    pub fn set_id(&mut self, id: u16) {
        self.control.set(self.control.get() & 0xf000 | id & 0x0fff);
    }

    /// Returns the priority code point, 0-7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.control.get() >> 13) as u8
    }

    /// Sets the priority code point to the lower 3 bits of `priority`; the other bits stay as they are.
    #[inline]
    pub fn set_priority(&mut self, priority: u8) {
        self.control.set(self.control.get() & 0x1fff | u16::from(priority & 7) << 13);
    }

    /// True if the drop eligible indicator is set: in congestion, the frame may be dropped in favour of
    /// others.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.control.get() & 0x1000 != 0
    }
}

/// True if the EtherType announces a VLAN tag: 0x8100, 0x88a8 or 0x9100.
#[inline]
pub fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::QINQ | ether_type::QINQ_OLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_share_the_control_word() {
        let (tag, _) = Tag::ref_from_prefix(&[0xb0, 0x07, 0x08, 0x00]).unwrap();
        assert_eq!(
            (tag.priority(), tag.drop_eligible(), tag.id(), tag.ether_type.get()),
            (5, true, 7, 0x0800)
        );
        let mut tag = *tag;
        tag.set_id(0xffff);
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (5, true, 0x0fff));
        tag.set_priority(2);
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (2, true, 0x0fff));
    }

    #[test]
    fn three_tag_protocols() {
        assert!(is_tag(0x8100) && is_tag(0x88a8) && is_tag(0x9100));
        assert!(!is_tag(ether_type::IPV4) && !is_tag(ether_type::MPLS));
    }
}
