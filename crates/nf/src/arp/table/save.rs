//! The entries of a table of neighbours as bytes, for a restart.

use element::{Cx, Damaged, Loaded, SavedState, StateReader, StateWriter, Timestamp};
use wire::MacAddr;

use super::{Address, NoWaiters, Table, now};

/// The version of the form in which elements save their neighbours.
pub(crate) const FORM: Option<u16> = Some(1);

/// The number of nanoseconds in a millisecond, the unit of the times in a [`Table`]. Saved times are in
/// nanoseconds.
const MILLISECOND: i64 = 1_000_000;

/// The largest number of entries that are examined for one piece of the saved state.
const LOOKS: usize = 4096;

/// An entry of a table of neighbours, as it was saved in an earlier run. The broadcast address stands for an
/// Ethernet address that is not known.
struct Saved<A> {
    address: A,
    mac: MacAddr,
    is_asked: bool,
    live: i64,
}

impl<A: Address> Saved<A> {
    fn load(reader: &mut StateReader<'_>) -> Result<Saved<A>, Damaged> {
        let address = A::from_number(u128::from_le_bytes(reader.array()?));
        Ok(Saved {
            address: address.ok_or(Damaged("an address is too long"))?,
            mac: MacAddr(reader.array()?),
            is_asked: reader.bool()?,
            live: reader.time()?.0.div_euclid(MILLISECOND),
        })
    }
}

impl<A: Address> Table<A> {
    /// Writes a piece of the table's entries, from the index `from` in `entries` on. Returns the index at
    /// which the next piece begins; `None` after the last.
    pub(crate) fn save(&self, from: u64, out: &mut StateWriter) -> Option<u64> {
        let start = from as usize;
        let mut next = start;
        for (entry, place) in self.entries.iter().zip(0u32..).skip(start).take(LOOKS) {
            if out.is_full() {
                break;
            }
            next += 1;
            // An index that is free still has its former entry in `entries`, but `places` no longer leads
            // from the address to this index.
            if self.places.get(&entry.address) == Some(&place) {
                out.raw(&entry.address.number().to_le_bytes());
                out.raw(&if entry.is_known { entry.mac } else { MacAddr::BROADCAST }.0);
                out.u8(u8::from(entry.is_asked));
                out.time(Timestamp(entry.live.saturating_mul(MILLISECOND)));
            }
        }
        (next < self.entries.len()).then_some(next as u64)
    }

    /// Adds to the table the entries of an earlier run that have not expired. If the bound of entries is
    /// lower now, the oldest are refused.
    ///
    /// # Errors
    /// If the bytes are not entries of such a table. Then the table stays as it is.
    pub(crate) fn load(&mut self, cx: &Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        let mut all: Vec<Saved<A>> = Vec::new();
        state.each(Saved::load, |saved| all.push(saved))?;
        // Entries are inserted in the order of their times, because their order is their age. If an address
        // was saved twice, its later entry replaces the earlier one.
        all.sort_by_key(|saved| saved.live);
        let (now, timeout) = (now(cx), self.limits.timeout);
        let mut loaded = Loaded::default();
        for Saved { address, mac, is_asked, live } in all {
            if timeout > 0 && live + timeout < now {
                loaded.ended += 1;
                continue;
            }
            let is_new = !self.contains(address);
            match self.insert(address, mac, live, &mut NoWaiters) {
                true => loaded.taken += u64::from(is_new),
                false => loaded.refused += 1,
            }
            if let Some(&place) = self.places.get(&address)
                && let Some(entry) = self.entry(place)
            {
                entry.is_asked = is_asked;
            }
        }
        let evicted = loaded.taken.saturating_sub(self.len() as u64);
        loaded.taken -= evicted;
        loaded.refused += evicted;
        Ok(loaded)
    }
}
