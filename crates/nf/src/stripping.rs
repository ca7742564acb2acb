//! What elements that move the start of a packet to one of its headers share.

use element::effects::{Action, Case, Field, Filter, Number, Target};
use element::{Base, DropReason, Effects, Packet};

use crate::editing::{Fate, is_marked, otherwise, pure};

/// Moves the start of the packet to `behind` bytes behind a header, wherever that is; stripped bytes come back.
#[inline]
pub(crate) fn to_header(packet: &mut Packet, base: Base, behind: usize) -> Fate {
    let offset = packet.offset(base).ok_or(DropReason::NoHeader)? + behind as isize;
    move_start(packet, offset)
}

/// Gives bytes back at the front: those that were stripped as they were, others as zeros, because what lies before
/// the packet's own bytes is left over from others.
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

/// Moves the start of the packet forward or, with a negative distance, back.
#[inline]
pub(crate) fn move_start(packet: &mut Packet, distance: isize) -> Fate {
    match usize::try_from(distance) {
        Err(_) => give_back(packet, distance.unsigned_abs()),
        Ok(forward) if packet.strip(forward) => Ok(()),
        Ok(_) if packet.is_large() => Err(DropReason::HeadersSplit),
        Ok(_) => Err(DropReason::TooShort),
    }
}

/// The declaration: the start moves to so many bytes behind the header, if it is marked and the packet reaches there.
pub(crate) fn effects(base: Base, behind: &Number) -> Effects {
    Effects::cases(cases(base, behind).to_vec())
}

/// The same as cases, for elements with others before them.
pub(crate) fn cases(base: Base, behind: &Number) -> [Case; 3] {
    let to = behind.clone().plus(1, Field::HeaderOffset(base), u128::MAX);
    let short = Filter::AtMost(to.clone(), Number::of(Field::Length)).not();
    [
        Case::new(is_marked(base).not(), Target::Drop(DropReason::NoHeader)),
        Case::new(short, Target::Drop(DropReason::TooShort)),
        otherwise(vec![Action::Start(to)]),
    ]
}

/// The declaration of what depends on these fields in a way that it does not tell.
pub(crate) fn vague_effects(base: Base, reads: &[Field]) -> Effects {
    let mut reads = reads.to_vec();
    reads.extend([Field::HeaderOffset(base), Field::Length]);
    let there = Filter::Opaque { about: "header inside the packet", reads: reads.clone() };
    let lacks = Case::new(there.not(), Target::Drop(DropReason::NoHeader));
    let whole = Filter::Opaque { about: "all of the header in the packet", reads: reads.clone() };
    let short = Case::new(whole.not(), Target::Drop(DropReason::TooShort));
    let start = pure(Field::HeaderOffset(Base::Data), "to the header", &reads);
    let length = pure(Field::Length, "from the header", &reads);
    Effects::cases(vec![lacks, short, otherwise(vec![start, length])])
}
