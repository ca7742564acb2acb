//! The memory of flows between their bursts. Only some arguments need it: PRIORITY SHORTEST_FLOW and
//! OLDEST_FLOW, COMPRESS, SLO and QUIC_ID, and MODEL and BYPASS_AFTER_FAIL of SFMaker. With the others, a
//! flow is forgotten when its packets leave.

use std::io::ErrorKind;

use element::Timestamp;
use flow::{FlowTable, InsertError, TableError};

use crate::key::FlowKey;

/// The time without bursts after which a flow is forgotten. The longest delay is added, so that a flow is not
/// forgotten while it holds packets.
const TIME: Timestamp = Timestamp::from_secs(10);
/// The number of flows that are checked for their age when there is no room for a new flow.
const SEARCH: usize = 64;

/// The memory of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The number of packets that were held and have left so far; stops at the maximum of the type.
    pub sent: u32,
    /// The number of flows that came before this flow.
    pub seen: u32,
    /// A score, which each element uses for one of two purposes. With BYPASS_AFTER_FAIL: the number of bursts
    /// of one packet minus the number of longer bursts. Under an SLO: a saturating counter that predicts
    /// whether the next packet arrives in time; a packet that arrives in time adds 1, a late packet subtracts
    /// 1.
    pub score: i8,
    /// For COMPRESS, the highest acknowledgment number that left; `None` before the first ACK.
    pub acknowledged: Option<u32>,
}

/// The memory of all flows of one element.
pub struct Memory {
    table: FlowTable<FlowKey>,
    /// The memory of each flow, by its number, which is its index in `table`.
    flows: Vec<Remembered>,
    /// The number of flows that came so far, modulo 2^32.
    seen: u32,
}

impl Memory {
    /// Makes memory for up to `capacity` flows. Its pages are touched only as they are used.
    ///
    /// # Errors
    /// If `capacity` is not possible, or the memory cannot be allocated.
    pub fn new(capacity: usize) -> Result<Memory, TableError> {
        let table = FlowTable::new(capacity)?;
        let mut flows = Vec::new();
        let refused = |_| TableError::Refused { capacity, source: ErrorKind::OutOfMemory.into() };
        flows.try_reserve_exact(capacity).map_err(refused)?;
        Ok(Memory { table, flows, seen: 0 })
    }

    /// Returns the number of flows.
    pub fn count(&self) -> u64 {
        self.table.stats().entries as u64
    }

    /// True if a flow is remembered.
    pub fn knows(&self, (key, hash): (&FlowKey, u32)) -> bool {
        self.table.lookup(key, hash).is_some()
    }

    /// Returns the number of a flow, and the time of its last burst (under an SLO, of its last packet), which
    /// becomes `now`. `None` if the flow is not remembered.
    pub fn see(&mut self, (key, hash): (&FlowKey, u32), now: Timestamp) -> Option<(u32, Timestamp)> {
        let id = self.table.lookup(key, hash)?;
        let before = self.table.last_seen(id)?;
        self.table.touch(id, now);
        Some((id.index(), before))
    }

    /// Remembers a flow that is not remembered, and returns its number.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no room before older flows are forgotten ([`make_room`]). Making
    /// room does not help against other errors.
    ///
    /// [`make_room`]: Self::make_room
    pub fn add(&mut self, (key, hash): (&FlowKey, u32), now: Timestamp) -> Result<u32, InsertError> {
        let number = self.table.insert(key, hash, now)?.id().index();
        let new = Remembered { seen: self.seen, ..Remembered::default() };
        self.seen = self.seen.wrapping_add(1);
        let length = self.flows.len().max(number as usize + 1);
        // This does not allocate, because `flows` has the capacity of the table.
        self.flows.resize(length, Remembered::default());
        self.flows[number as usize] = new;
        Ok(number)
    }

    /// Forgets flows that have had no burst for the longest delay. The caller has let packets leave that are
    /// due, so these flows hold none. Looks at few flows.
    pub fn make_room(&mut self, now: Timestamp, longest_delay: Timestamp) {
        self.table.expire(now, longest_delay, SEARCH, |_, _| ());
    }

    /// Forgets flows that have had no burst for ten seconds, and the longest delay. Looks at `count` flows.
    pub fn forget_old(&mut self, now: Timestamp, longest_delay: Timestamp, count: usize) {
        self.table.expire(now, TIME + longest_delay, count, |_, _| ());
    }

    /// Forgets the acknowledgment numbers of all flows.
    pub fn forget_acknowledged(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.acknowledged = None);
    }

    /// Returns the memory of a flow.
    #[inline]
    pub fn flow(&mut self, number: u32) -> Option<&mut Remembered> {
        self.flows.get_mut(number as usize)
    }
}
