//! The table of one worker's parked payloads, which wait for their headers.
//!
//! Entries are assigned in rotation. An entry that is still in use when the rotation reaches it again loses
//! one of its *turns*, and is not assigned. When it has lost all turns, its payload expires: the network
//! function has presumably dropped the headers (NFSlicer paper, section III-C). A payload also expires when
//! it has waited for too long, so that no payload stays after the last packet.
//!
//! Invariants: a payload is taken out at most once; `take` takes it out only under the generation under which
//! it was parked. At most as many payloads wait as there are entries.

use element::Packet;
use packet::prefetch_line;
use wire::checksum::Sum;

use crate::headers::Original;
use crate::offloads::payload_on_wire;
use crate::token::GENERATIONS;
use crate::tunnel::sum_between;

/// A parked payload: the whole packet in which it arrived, and how the packet was sliced.
#[derive(Debug)]
pub struct Parked {
    /// The whole original packet, with unchanged headers.
    pub packet: Packet,
    /// The offset in bytes of the IP header in `packet`.
    pub l3: u16,
    /// The offset in bytes of the payload in `packet`.
    pub payload: u16,
    /// The number of payload bytes, from its start, that are not in the sliced packet.
    pub removed: u32,
    /// The number of bytes at the end of the payload that the sliced packet kept, after its token.
    pub rest: u32,
    /// The number of bytes after the IP packet, which are also in the sliced packet.
    pub trailer: u32,
    /// The time of parking, in the units of time that [`ParkedPayloads::sweep`] uses.
    pub stamp: u32,
    /// The changes that slicing made to the headers.
    pub original: Original,
}

impl Parked {
    /// Returns the length of the whole payload in bytes.
    pub fn payload_length(&self) -> usize {
        (self.removed + self.rest) as usize
    }

    /// Returns the checksum of the whole payload.
    pub fn sum(&self) -> Sum {
        let start = usize::from(self.payload);
        sum_between(&self.packet, start, start + self.payload_length())
    }

    /// Returns the length in bytes of the payload that the packet has on the wire; of a large segment, that
    /// of its first segment.
    pub fn on_wire(&self) -> usize {
        let payload = self.payload_length();
        if self.original.is_unfinished { payload_on_wire(&self.packet, payload) } else { payload }
    }

    /// Returns the changes to the headers, and a copy of the first bytes of the payload, at most `most`. Of a
    /// large segment, both are about its first segment, because no router has seen the others.
    pub fn quote(&self, most: usize) -> (Original, Vec<u8>) {
        let on_wire = self.on_wire();
        let mut payload = vec![0; on_wire.min(most)];
        self.packet.read_at(self.payload.into(), &mut payload);
        let others = self.payload_length() - on_wire;
        (self.original.without(others), payload)
    }
}

/// The maximum number of entries: tokens have no room for larger indices.
pub const MOST: usize = 1 << 24;

/// The number of entries that a timer checks for expiry in one call.
pub const SWEEP: usize = 4096;

/// The reason for which a valid token finds no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The payload has expired, by its turns or by time, or its entry has been assigned again or does not
    /// exist.
    Expired,
    /// The payload was joined already, or was freed because its packet was dropped or quoted in an ICMP
    /// error. Also if a smaller table had no entry for it and the table has grown again.
    Taken,
}

/// The error if the next entry of the rotation is in use. The entry has lost a turn; if it was the last turn,
/// the entry's payload has expired and is returned, so that the caller frees it.
#[derive(Debug)]
pub struct Occupied(pub Option<Parked>);

struct Entry {
    parked: Option<Parked>,
    /// The generation of the payload that is in the entry, or was the last in it.
    generation: u64,
    /// The number of times that the rotation still has to reach the entry until the payload expires.
    turns: u32,
    /// True if the last payload of the entry has expired, false if it was taken out.
    is_expired: bool,
}

// An entry occupies one cache line, so that a look-up causes one cache miss.
const _: () = assert!(size_of::<Entry>() == 64);

/// The table of one worker's payloads.
pub struct ParkedPayloads {
    entries: Vec<Entry>,
    next: usize,
    turns: u32,
    waiting: usize,
    /// The index of the entry that [`sweep`](Self::sweep) checks next.
    cursor: usize,
    /// An upper bound of the generations of all entries that [`resize`](Self::resize) has removed.
    latest: u64,
}

impl ParkedPayloads {
    /// Creates a table with `entries` entries, limited to the range from 1 to [`MOST`]. A payload expires
    /// when the rotation finds its entry in use `turns` times (0 counts as 1).
    pub fn new(entries: usize, turns: u32) -> ParkedPayloads {
        let entry = |_| Entry { parked: None, generation: 0, turns: 0, is_expired: false };
        ParkedPayloads {
            entries: (0..entries.clamp(1, MOST)).map(entry).collect(),
            next: 0,
            turns: turns.max(1),
            waiting: 0,
            cursor: 0,
            latest: 0,
        }
    }

    /// Returns the number of entries.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of payloads that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the index of the next entry of the rotation, if it is free. The entry stays the next one
    /// until [`park`](Self::park).
    ///
    /// # Errors
    /// If the entry is in use. The rotation moves on to the following entry.
    #[inline]
    pub fn reserve(&mut self) -> Result<u32, Occupied> {
        let index = self.next;
        let entry = &mut self.entries[index];
        if entry.parked.is_none() {
            return Ok(index as u32);
        }
        self.pass_on();
        let entry = &mut self.entries[index];
        entry.turns -= 1;
        if entry.turns > 0 {
            return Err(Occupied(None));
        }
        entry.is_expired = true;
        self.waiting -= 1;
        Err(Occupied(entry.parked.take()))
    }

    /// Returns the generations of the next payloads in the entries from index `first` on, up to the last
    /// entry.
    pub fn next_generations(&self, first: u32) -> impl Iterator<Item = u64> + '_ {
        let entries = self.entries.get(first as usize..).unwrap_or_default();
        entries.iter().map(|entry| (entry.generation + 1) % GENERATIONS)
    }

    /// Prefetches the entry with this index, if it exists.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            prefetch_line(std::ptr::from_ref(entry).cast());
        }
    }

    /// Parks a payload in the entry that [`reserve`](Self::reserve) returned, and moves the rotation on.
    #[inline(always)]
    pub fn park(&mut self, parked: Parked) {
        let entry = &mut self.entries[self.next];
        debug_assert!(entry.parked.is_none());
        entry.parked = Some(parked);
        entry.generation = (entry.generation + 1) % GENERATIONS;
        (entry.turns, entry.is_expired) = (self.turns, false);
        self.waiting += 1;
        self.pass_on();
    }

    /// Checks at most `most` entries, from where the last call stopped; from the first entry if the last
    /// call reached the end or `most` is the number of entries or more. Passes to `gone` the payloads that
    /// have waited for more than `longest` units of time at the time `now`. Times count modulo 2^32.
    pub fn sweep(&mut self, (now, longest): (u32, u32), most: usize, mut gone: impl FnMut(Parked)) {
        if self.cursor >= self.entries.len() || most >= self.entries.len() {
            self.cursor = 0;
        }
        let end = self.cursor.saturating_add(most).min(self.entries.len());
        for entry in &mut self.entries[self.cursor..end] {
            let is_old = |parked: &mut Parked| now.wrapping_sub(parked.stamp) as i32 > longest as i32;
            if let Some(parked) = entry.parked.take_if(is_old) {
                entry.is_expired = true;
                self.waiting -= 1;
                gone(parked);
            }
        }
        self.cursor = end;
    }

    fn pass_on(&mut self) {
        self.next = if self.next + 1 == self.entries.len() { 0 } else { self.next + 1 };
    }

    /// Takes out the payload with this generation in the entry with this index.
    ///
    /// # Errors
    /// Returns the reason for which there is no such payload.
    #[inline]
    pub fn take(&mut self, index: u32, generation: u64) -> Result<Parked, Missing> {
        let entry = self.entries.get_mut(index as usize).ok_or(Missing::Expired)?;
        if entry.generation != generation {
            // The entry has been assigned to another payload since. `Expired` is returned even if the earlier
            // payload was taken, because the entry only remembers the end of its last payload.
            return Err(Missing::Expired);
        }
        match entry.parked.take() {
            Some(parked) => {
                self.waiting -= 1;
                Ok(parked)
            }
            None if entry.is_expired => Err(Missing::Expired),
            None => Err(Missing::Taken),
        }
    }

    /// Returns the payload with this generation in the entry with this index, which stays in the table;
    /// `None` if it is not there.
    pub fn get(&self, index: u32, generation: u64) -> Option<&Parked> {
        let entry = self.entries.get(index as usize)?;
        entry.parked.as_ref().filter(|_| entry.generation == generation)
    }

    /// Iterates over all payloads that wait, in the order of entries.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Parked> {
        self.entries.iter_mut().filter_map(|entry| entry.parked.as_mut())
    }

    /// Returns an iterator that removes the parked payloads. They count as expired.
    pub fn clear(&mut self) -> impl Iterator<Item = Parked> + '_ {
        self.waiting = 0;
        self.entries.iter_mut().filter_map(|entry| {
            entry.is_expired |= entry.parked.is_some();
            entry.parked.take()
        })
    }

    /// Changes the numbers of entries and turns. Returns the payloads whose entries were removed, to be
    /// freed. Generations continue in entries that are added later, so that old tokens match no newer
    /// payloads.
    pub fn resize(&mut self, entries: usize, turns: u32) -> Vec<Parked> {
        self.turns = turns.max(1);
        let entries = entries.clamp(1, MOST);
        // The highest generation is kept, from which entries that are added later start.
        self.latest = self.entries.iter().map(|entry| entry.generation).fold(self.latest, u64::max);
        let gone: Vec<Parked> = match self.entries.get_mut(entries..) {
            Some(more) => more.iter_mut().filter_map(|entry| entry.parked.take()).collect(),
            None => Vec::new(),
        };
        self.waiting -= gone.len();
        let first = self.latest;
        self.entries.resize_with(entries, || Entry {
            parked: None,
            generation: first,
            turns: 0,
            is_expired: false,
        });
        self.next %= entries;
        gone
    }
}

#[cfg(test)]
mod tests {
    use packet::Pool;

    use super::*;

    fn payload(pool: &mut Pool, byte: u8) -> Parked {
        let packet = pool.packet(&[byte]).unwrap();
        Parked {
            packet,
            l3: 0,
            payload: 0,
            removed: 1,
            rest: 0,
            trailer: 0,
            stamp: 0,
            original: Original::default(),
        }
    }

    fn put(table: &mut ParkedPayloads, pool: &mut Pool, byte: u8) -> Option<(u32, u64)> {
        let index = table.reserve().ok()?;
        let generation = table.next_generations(index).next()?;
        let parked = payload(pool, byte);
        table.park(parked);
        Some((index, generation))
    }

    fn get(
        table: &mut ParkedPayloads,
        pool: &mut Pool,
        (index, generation): (u32, u64),
    ) -> Result<u8, Missing> {
        table.take(index, generation).map(|parked| {
            let byte = parked.packet.data()[0];
            pool.free(parked.packet);
            byte
        })
    }

    #[test]
    fn each_payload_is_taken_once_by_whoever_has_its_place() {
        let (mut pool, mut table) = (Pool::new(64 << 20).unwrap(), ParkedPayloads::new(2, 3));
        let first = put(&mut table, &mut pool, 1).unwrap();
        let second = put(&mut table, &mut pool, 2).unwrap();
        assert_eq!((first.0, second.0, table.waiting()), (0, 1, 2));
        assert_eq!(get(&mut table, &mut pool, (0, first.1 + 1)), Err(Missing::Expired), "another generation");
        assert_eq!(get(&mut table, &mut pool, (2, 1)), Err(Missing::Expired), "no such entry");
        assert_eq!(get(&mut table, &mut pool, second), Ok(2));
        assert_eq!(get(&mut table, &mut pool, second), Err(Missing::Taken));
        assert_eq!(get(&mut table, &mut pool, first), Ok(1));
        let third = put(&mut table, &mut pool, 3).unwrap();
        assert_eq!(third, (0, first.1 + 1), "round and round");
        assert_eq!(get(&mut table, &mut pool, first), Err(Missing::Expired), "never somebody else's payload");
        assert_eq!(get(&mut table, &mut pool, third), Ok(3));
        assert_eq!((table.waiting(), pool.stats().in_use), (0, 0));
    }

    #[test]
    fn a_place_in_use_is_passed_over_until_its_turns_are_over() {
        let (mut pool, mut table) = (Pool::new(64 << 20).unwrap(), ParkedPayloads::new(2, 3));
        let lost = put(&mut table, &mut pool, 1).unwrap();
        let mut rounds = 0;
        let expired = loop {
            let place = put(&mut table, &mut pool, 2).unwrap();
            assert_eq!((place.0, get(&mut table, &mut pool, place)), (1, Ok(2)));
            rounds += 1;
            if let Err(Occupied(Some(expired))) = table.reserve() {
                break expired;
            }
        };
        // The payload of entry 0 expires when the rotation reaches the entry for the third time, because the
        // payload has three turns.
        assert_eq!((rounds, expired.packet.data(), table.waiting()), (3, &[1][..], 0));
        pool.free(expired.packet);
        assert_eq!(get(&mut table, &mut pool, lost), Err(Missing::Expired));
        assert_eq!(put(&mut table, &mut pool, 3).unwrap().0, 1, "its turn was over");
        assert_eq!(put(&mut table, &mut pool, 4).unwrap(), (0, lost.1 + 1));
        table.clear().for_each(|parked| pool.free(parked.packet));
        assert_eq!((table.waiting(), pool.stats().in_use), (0, 0));
    }

    #[test]
    fn what_waits_for_too_long_goes() {
        let (mut pool, mut table) = (Pool::new(64 << 20).unwrap(), ParkedPayloads::new(SWEEP + 2, 3));
        // The stamps lie around the wrap of time at 2^32.
        let stamps = [u32::MAX - 1, u32::MAX, 0, 1];
        let place = |table: &mut ParkedPayloads, pool: &mut Pool, stamp: u32| {
            let (index, parked) = (table.reserve().unwrap(), payload(pool, stamp as u8));
            let generation = table.next_generations(index).next().unwrap();
            table.park(Parked { stamp, ..parked });
            (index, generation)
        };
        let mut places: Vec<_> = stamps.iter().map(|&stamp| place(&mut table, &mut pool, stamp)).collect();
        for _ in 4..SWEEP {
            let empty = put(&mut table, &mut pool, 0).unwrap();
            get(&mut table, &mut pool, empty).unwrap();
        }
        places.push(place(&mut table, &mut pool, u32::MAX));
        let mut gone = Vec::new();
        // The payload in entry `SWEEP` is found by the second of two sweeps, because one call checks `SWEEP`
        // entries only, here the entries below `SWEEP`.
        for (now, expected) in
            [(1, vec![]), (1, vec![]), (2, vec![254]), (2, vec![]), (3, vec![255]), (3, vec![255])]
        {
            table.sweep((now, 3), SWEEP, |parked| {
                gone.push(parked.packet.data()[0]);
                pool.free(parked.packet);
            });
            assert_eq!(std::mem::take(&mut gone), expected, "{now}");
        }
        assert_eq!(table.waiting(), 2);
        assert_eq!(get(&mut table, &mut pool, places[0]), Err(Missing::Expired));
        assert_eq!(get(&mut table, &mut pool, places[4]), Err(Missing::Expired));
        assert_eq!(get(&mut table, &mut pool, places[2]), Ok(0));
        assert_eq!(get(&mut table, &mut pool, places[3]), Ok(1));
        assert_eq!((table.waiting(), pool.stats().in_use), (0, 0));
    }

    #[test]
    fn payloads_stay_when_the_size_changes() {
        let (mut pool, mut table) = (Pool::new(64 << 20).unwrap(), ParkedPayloads::new(3, 3));
        let places: Vec<_> = (0..3).map(|byte| put(&mut table, &mut pool, byte).unwrap()).collect();
        let gone = table.resize(2, 3);
        assert_eq!((gone.len(), table.waiting()), (1, 2));
        gone.into_iter().for_each(|parked| pool.free(parked.packet));
        assert!(table.resize(4, 3).is_empty());
        assert_eq!(get(&mut table, &mut pool, places[1]), Ok(1));
        assert_eq!(get(&mut table, &mut pool, places[2]), Err(Missing::Taken), "it went");
        assert_eq!(get(&mut table, &mut pool, places[0]), Ok(0));
        assert_eq!(pool.stats().in_use, 0);
    }
}
