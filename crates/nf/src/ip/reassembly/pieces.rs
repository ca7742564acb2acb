//! Fragments that are held, in the order of their bytes and without overlaps.

use std::collections::TryReserveError;

use element::Packet;

use super::links::{Links, List, NONE, put};
use crate::memory::reserved;

/// A fragment, or the part of it that later fragments have not replaced.
pub(crate) struct Piece {
    pub(crate) packet: Packet,
    /// The offset of the fragment's bytes in the whole payload; they end at `to`.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The offset of the fragment's bytes in the packet that holds them.
    pub(crate) at: u32,
}

impl Piece {
    /// Returns the number of the fragment's bytes.
    pub(crate) fn length(&self) -> u32 {
        self.to - self.from
    }

    /// Returns the number of slots that the fragment takes.
    pub(super) fn slots(&self) -> u32 {
        self.packet.chunks().count() as u32
    }

    /// Returns the bytes, slot by slot.
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

/// The fragments of one packet.
pub(super) struct Row {
    pieces: List,
    pub(super) count: u32,
    /// The number of bytes that have arrived.
    pub(super) length: u32,
    /// The end of the payload, once it is known.
    pub(super) end: Option<u32>,
}

impl Row {
    pub(super) const EMPTY: Row = Row { pieces: List::EMPTY, count: 0, length: 0, end: None };

    /// True if there is no hole. No byte is held twice, so that counting bytes suffices.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.length)
    }
}

/// The result of adding a fragment.
pub(crate) enum Fit {
    /// The fragment is held; the number is the change in held slots.
    Held(i64),
    /// The fragment was there before, byte for byte, or its bytes were written into another fragment.
    Known(Packet),
    /// The fragment contradicts the fragments that are held.
    Contradiction(Packet),
}

/// The fragments of all packets in a store.
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

    /// Adds a fragment to its row. Without `overlaps`, a fragment that has bytes in common with others
    /// contradicts them, unless it equals one of them. With `overlaps`, the new bytes replace the old;
    /// fragments that have no bytes left are passed to `covered`.
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
        // Fragments mostly arrive in order, so the search begins at the end.
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

    /// Returns the result for a fragment that overlaps others, if this is not allowed: only an equal
    /// fragment may arrive twice (RFC 8200, section 4.5).
    fn compare(&self, row: &Row, before: u32, new: Piece, is_last: bool) -> Fit {
        let same = self.all.get(before as usize).and_then(Option::as_ref).is_some_and(|old| {
            (old.from, old.to) == (new.from, new.to)
                && (row.end == Some(old.to)) == is_last
                && old.has_the_bytes_of(&new)
        });
        if same { Fit::Known(new.packet) } else { Fit::Contradiction(new.packet) }
    }

    /// Writes the bytes of a fragment into a fragment that covers all of them.
    fn overwrite(&mut self, into: u32, new: Piece) -> Packet {
        if let Some(old) = &mut self.all[into as usize] {
            let mut at = (old.at + new.from - old.from) as usize;
            for bytes in new.bytes() {
                at += old.packet.write_at(at, bytes);
            }
        }
        new.packet
    }

    /// Removes a fragment that has no bytes left, and returns the number of slots that it held.
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

    /// Removes the first fragment of a row, and returns it.
    pub(super) fn pop(&mut self, row: &mut Row) -> Option<Piece> {
        self.take(row, row.pieces.first)
    }

    /// Returns the fragments of a row in the order of their bytes.
    pub(super) fn of(&self, row: &Row) -> impl Iterator<Item = &Piece> {
        let mut place = row.pieces.first;
        std::iter::from_fn(move || {
            let piece = self.all.get(place as usize)?.as_ref()?;
            place = self.links.behind(place);
            Some(piece)
        })
    }
}
