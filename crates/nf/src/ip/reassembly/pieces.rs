//! The fragments of each set, in the order of their bytes and without overlaps.

use std::collections::TryReserveError;

use element::Packet;

use super::links::{Links, List, NONE, put};
use crate::memory::reserved;

/// A fragment that is held, or the part of it that later fragments have not replaced.
pub(crate) struct Piece {
    pub(crate) packet: Packet,
    /// The offset of the fragment's first byte in the datagram's payload; `to` is the offset after its last
    /// byte.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The offset of the fragment's first byte in the data of its packet.
    pub(crate) at: u32,
}

impl Piece {
    /// Returns the number of payload bytes of the fragment.
    pub(crate) fn length(&self) -> u32 {
        self.to - self.from
    }

    /// Returns the number of slots that the fragment's packet takes.
    pub(super) fn slots(&self) -> u32 {
        self.packet.chunks().count() as u32
    }

    /// Returns the fragment's payload bytes, slot by slot.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let (mut skip, mut left) = (self.at as usize, self.length() as usize);
        self.packet.chunks().map_while(move |chunk| {
            let rest = &chunk[skip.min(chunk.len())..];
            skip -= chunk.len() - rest.len();
            let rest = &rest[..left.min(rest.len())];
            left -= rest.len();
            (left > 0 || !rest.is_empty()).then_some(rest)
        })
    }

    fn has_the_bytes_of(&self, other: &Piece) -> bool {
        let (mut at, mut same) = (self.at as usize, true);
        for bytes in other.bytes() {
            for part in bytes.chunks(256) {
                let mut own = [0; 256];
                let read = self.packet.read_at(at, &mut own[..part.len()]);
                same &= own[..read] == *part;
                at += part.len();
            }
        }
        same
    }
}

/// The fragments of one datagram that are held.
pub(super) struct Row {
    pieces: List,
    pub(super) count: u32,
    /// The number of bytes of the datagram's payload that the held fragments have.
    pub(super) length: u32,
    /// The length of the datagram's payload, once its last fragment has arrived.
    pub(super) end: Option<u32>,
}

impl Row {
    pub(super) const EMPTY: Row = Row { pieces: List::EMPTY, count: 0, length: 0, end: None };

    /// True if all bytes of the datagram's payload have arrived. Fragments are held without overlaps, so it
    /// suffices to compare the number of held bytes with the payload's length.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.length)
    }
}

/// The result of adding a fragment to its datagram.
pub(crate) enum Fit {
    /// The fragment is held. The number is the change in the number of slots that the datagram's fragments
    /// take; it is negative if the fragment replaces fragments that took more slots.
    Held(i64),
    /// The fragment's bytes are held already, in an equal fragment or written into another fragment. The
    /// packet is returned to be dropped.
    Known(Packet),
    /// The fragment contradicts the fragments that are held: it overlaps them although overlaps are not
    /// allowed, or they disagree about the end of the payload. The packet is returned to be dropped.
    Contradiction(Packet),
}

/// The fragments of all datagrams in a store.
pub(super) struct Pieces {
    all: Vec<Option<Piece>>,
    links: Links,
    free: Vec<u32>,
}

impl Pieces {
    /// Reserves memory for `count` fragments.
    pub(super) fn new(count: usize) -> Result<Pieces, TryReserveError> {
        Ok(Pieces { all: reserved(count)?, links: Links::new(count)?, free: reserved(count)? })
    }

    fn ends(&self, piece: u32) -> (u32, u32) {
        self.all.get(piece as usize).and_then(Option::as_ref).map_or((0, 0), |piece| (piece.from, piece.to))
    }

    /// Adds a fragment to the fragments of its datagram. Without `overlaps`, a fragment that has bytes in
    /// common with others contradicts them, unless it equals one of them. With `overlaps`, the bytes of the
    /// new fragment replace the old bytes; fragments that have no bytes left are passed to `covered`.
    pub(super) fn add(
        &mut self,
        row: &mut Row,
        new: Piece,
        is_last: bool,
        overlaps: bool,
        mut covered: impl FnMut(Packet),
    ) -> Fit {
        let extent = if row.pieces.is_empty() { 0 } else { self.ends(row.pieces.last).1 };
        let beyond = row.end.is_some_and(|end| new.to > end || is_last && new.to != end);
        if beyond || is_last && extent > new.to {
            return Fit::Contradiction(new.packet);
        }
        // The search for the fragment's neighbours begins at the last fragment, so that it is short if
        // fragments arrive in order.
        let mut before = row.pieces.last;
        while before != NONE && self.ends(before).0 > new.from {
            before = self.links.before(before);
        }
        let mut behind = if before == NONE { row.pieces.first } else { self.links.behind(before) };
        let meets_before = before != NONE && self.ends(before).1 > new.from;
        let meets_behind = behind != NONE && self.ends(behind).0 < new.to;
        let mut slots = 0;
        if meets_before || meets_behind {
            if !overlaps {
                return self.compare(row, before, new, is_last);
            }
            if meets_before && self.ends(before).1 >= new.to {
                if is_last {
                    row.end = Some(new.to);
                }
                return Fit::Known(self.overwrite(before, new));
            }
            if meets_before && self.ends(before).0 == new.from {
                slots -= self.uncover(row, before, &mut covered);
            } else if meets_before && let Some(piece) = &mut self.all[before as usize] {
                row.length -= piece.to - new.from;
                piece.to = new.from;
            }
            while behind != NONE && self.ends(behind).1 <= new.to {
                let next = self.links.behind(behind);
                slots -= self.uncover(row, behind, &mut covered);
                behind = next;
            }
            if let Some(Some(piece)) = self.all.get_mut(behind as usize)
                && piece.from < new.to
            {
                row.length -= new.to - piece.from;
                piece.at += new.to - piece.from;
                piece.from = new.to;
            }
        }
        if is_last {
            row.end = Some(new.to);
        }
        slots += i64::from(new.slots());
        row.length += new.length();
        row.count += 1;
        let place = self.free.pop().unwrap_or(self.all.len() as u32);
        put(&mut self.all, place, Some(new));
        self.links.insert(&mut row.pieces, place, behind);
        Fit::Held(slots)
    }

    /// Returns the result for a fragment that overlaps others, if overlaps are not allowed: the fragment is
    /// known if it equals one of them, otherwise it contradicts them (RFC 8200, section 4.5).
    fn compare(&self, row: &Row, before: u32, new: Piece, is_last: bool) -> Fit {
        let same = self.all.get(before as usize).and_then(Option::as_ref).is_some_and(|old| {
            (old.from, old.to) == (new.from, new.to)
                && (row.end == Some(old.to)) == is_last
                && old.has_the_bytes_of(&new)
        });
        if same { Fit::Known(new.packet) } else { Fit::Contradiction(new.packet) }
    }

    /// Writes the bytes of a fragment into a held fragment that covers all of them, and returns the packet
    /// that is no longer needed.
    fn overwrite(&mut self, into: u32, new: Piece) -> Packet {
        if let Some(old) = &mut self.all[into as usize] {
            let mut at = (old.at + new.from - old.from) as usize;
            for bytes in new.bytes() {
                at += old.packet.write_at(at, bytes);
            }
        }
        new.packet
    }

    /// Removes a fragment that has no bytes left, passes its packet to `covered`, and returns the number of
    /// slots of packet memory that it took.
    fn uncover(&mut self, row: &mut Row, place: u32, covered: &mut impl FnMut(Packet)) -> i64 {
        let Some(piece) = self.take(row, place) else { return 0 };
        let slots = piece.slots();
        covered(piece.packet);
        slots.into()
    }

    fn take(&mut self, row: &mut Row, place: u32) -> Option<Piece> {
        let piece = self.all.get_mut(place as usize)?.take()?;
        self.links.remove(&mut row.pieces, place);
        self.free.push(place);
        row.length -= piece.length();
        row.count -= 1;
        Some(piece)
    }

    /// Removes the fragment with the lowest offset of a datagram, and returns it; `None` if there is none.
    pub(super) fn pop(&mut self, row: &mut Row) -> Option<Piece> {
        self.take(row, row.pieces.first)
    }

    /// Returns the fragments of a datagram in the order of their bytes.
    pub(super) fn of(&self, row: &Row) -> impl Iterator<Item = &Piece> {
        let mut place = row.pieces.first;
        std::iter::from_fn(move || {
            let piece = self.all.get(place as usize)?.as_ref()?;
            place = self.links.behind(place);
            Some(piece)
        })
    }
}
