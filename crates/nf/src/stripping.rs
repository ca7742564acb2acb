//! Common parts of elements that move the start of a packet to or after one of its headers, such as
//! StripIPHeader.

use element::effects::{Action, Case, Field, Filter, Number, Predicate, Target};
use element::{Base, DropReason, Effects, Packet};

use crate::editing::{Fate, is_marked, otherwise, pure};

/// Moves the start of the packet to the byte `behind` bytes after the start of a header. The move may be
/// forward, which strips bytes, or backward, which restores them.
#[inline]
pub(crate) fn to_header(packet: &mut Packet, base: Base, behind: usize) -> Fate {
    let offset = packet.offset(base).ok_or(DropReason::NoHeader)? + behind as isize;
    move_start(packet, offset)
}

/// Restores `length` bytes at the front of a packet. Stripped bytes get their old values. Further bytes are
/// set to zero, because the slot still holds bytes of earlier packets there. Rejects the packet if it has
/// too little headroom.
#[inline]
pub(crate) fn give_back(packet: &mut Packet, length: usize) -> Fate {
    let stripped = packet.stripped();
    if !packet.unstrip(length) {
        return Err(DropReason::NoHeadroom);
    }
    if let Some(fresh) = length.checked_sub(stripped).filter(|&n| n > 0) {
        packet.data_mut()[..fresh].fill(0);
    }
    Ok(())
}

/// Moves the start of the packet by `distance` bytes: forward, or backward if the distance is negative.
/// Rejects the packet if its first slot has fewer bytes than `distance`, or too little headroom.
#[inline]
pub(crate) fn move_start(packet: &mut Packet, distance: isize) -> Fate {
    match usize::try_from(distance) {
        Err(_) => give_back(packet, distance.unsigned_abs()),
        Ok(forward) if packet.strip(forward) => Ok(()),
        Ok(_) if packet.is_large() => Err(DropReason::HeadersSplit),
        Ok(_) => Err(DropReason::TooShort),
    }
}

/// Returns the effects of an element that moves the start of packets to `behind` bytes after the start of the
/// header `base`. Packets whose header annotation is not set, or that end before the new start, are dropped.
pub(crate) fn effects(base: Base, behind: &Number) -> Effects {
    Effects::cases(cases(base, behind).to_vec())
}

/// Returns the cases of [`effects`], for elements that have further cases ahead of them.
pub(crate) fn cases(base: Base, behind: &Number) -> [Case; 3] {
    let to = behind.clone().plus(1, Field::HeaderOffset(base), u128::MAX);
    let short = Predicate::at_most(to.clone(), Number::of(Field::Length)).not();
    [
        Case::new(is_marked(base).not(), Target::Drop(DropReason::NoHeader)),
        Case::new(short, Target::Drop(DropReason::TooShort)),
        otherwise(vec![Action::Start(to)]),
    ]
}

/// Returns the effects of an element that moves the start of packets by a number of bytes that is not
/// declared. The number depends only on the fields `reads`, the header annotation and the packet's length.
pub(crate) fn vague_effects(base: Base, reads: &[Field]) -> Effects {
    let mut reads = reads.to_vec();
    reads.extend([Field::HeaderOffset(base), Field::Length]);
    let there = Filter::Leaf(Predicate::Opaque { about: "header inside the packet", reads: reads.clone() });
    let lacks = Case::new(there.not(), Target::Drop(DropReason::NoHeader));
    let whole =
        Filter::Leaf(Predicate::Opaque { about: "all of the header in the packet", reads: reads.clone() });
    let short = Case::new(whole.not(), Target::Drop(DropReason::TooShort));
    let start = pure(Field::HeaderOffset(Base::Data), "to the header", &reads);
    let length = pure(Field::Length, "from the header", &reads);
    Effects::cases(vec![lacks, short, otherwise(vec![start, length])])
}
