//! Tables in which each worker publishes the state of its flows for the other workers; used by elements
//! whose flows are spread over workers.
//!
//! Each worker has one such table, its board. An element keeps the flows of its worker in a table of its
//! own and copies to the board what other workers need to know about a flow. A worker that receives a
//! packet of another worker's flow handles the packet with the entry on that worker's board. If the board
//! has no entry for the flow, or if the packet would change the flow's state, the packet is sent to the
//! flow's home ([`element::Cx::send_home`]).

use std::any::Any;

use element::{Args, Invalid, Timestamp};
use flow::{CoreStates, Key, KeyHasher, Opened, Plain, StateId};

/// The maximum number of flows on each worker's board. Packets of further flows are handled only by the
/// worker that owns the flow. The memory is reserved at the start, but its pages are allocated when flows
/// first use them.
const CAPACITY: usize = 1 << 21;

/// The maximum number of flows in one call of [`Board::look`].
pub(crate) const WINDOW: usize = 32;

/// The boards of all workers as one worker sees them: it reads and writes its own board and reads the
/// boards of the other workers.
pub(crate) struct Board<K: Key, V: Plain> {
    states: CoreStates<K, V>,
    hasher: KeyHasher,
}

/// The id and the state of a flow on another worker's board; `None` if the flow is not on the board, or
/// cannot be read at this moment because that worker is changing it.
pub(crate) type Seen<V> = Option<(StateId, V)>;

impl<K: Key + Any + Send + Sync, V: Plain + Any + Send + Sync> Board<K, V> {
    /// Returns the board for the element that `args` configures, or `None` if flows are not spread over
    /// workers and no board is needed.
    ///
    /// # Errors
    /// If there is no memory for the board; the error has then been reported to `args`.
    pub(crate) fn of(args: &mut Args<'_>) -> Result<Option<Board<K, V>>, Invalid> {
        if !args.setup.is_spread() {
            return Ok(None);
        }
        match args.setup.flow_states(args.id(), CAPACITY) {
            Ok((states, hasher)) => Ok(Some(Board { states, hasher })),
            Err(error) => {
                args.error(format!(
                    "what other workers have to know of flows: {error}; or use `--steering rss`"
                ));
                Err(Invalid)
            }
        }
    }
}

impl<K: Key, V: Plain> Board<K, V> {
    /// Looks up flows of other workers: sets `seen[i]` to the entry for `keys[i]` on the board of worker
    /// `owners[i]`. The slices have the same length, at most [`WINDOW`].
    pub(crate) fn look(&self, owners: &[usize], keys: &[K], seen: &mut [Seen<V>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.states.get_batch(owners, keys, &hashes, seen);
    }

    /// Records on the board of another worker that a packet of its flow `id` has arrived at this worker at
    /// the time `now`.
    #[inline]
    pub(crate) fn note(&self, id: StateId, now: Timestamp) {
        self.states.see(id, now);
    }

    /// True if some worker has recorded a packet of another worker's flow `id` in the current interval, so
    /// that no further record is needed. Intervals are 2 to the power of `slice` nanoseconds long, but at
    /// least one [`flow::TICK`].
    #[inline]
    pub(crate) fn is_fresh(&self, id: StateId, now: Timestamp, slice: u32) -> bool {
        let slice = slice.max(flow::TICK.0.ilog2());
        // The recorded time is the end of its tick. One nanosecond before, it lies inside of the tick, and
        // a tick lies inside of one interval.
        let is_in = |last: Timestamp| ((last.0 - 1) ^ now.0) >> slice == 0;
        is_in(self.states.last_seen_here(id)) || is_in(self.states.last_seen_by_any(id))
    }

    /// Records that a packet of a flow of this worker has arrived at `now`, if the flow is on the board.
    pub(crate) fn touch(&self, key: &K, now: Timestamp) {
        if let Some(id) = self.own(key) {
            self.states.see(id, now);
        }
    }

    /// Adds a flow of this worker to the board, or replaces the state of a flow that is there. If the board
    /// has no room, the flow is not added, and other workers send all its packets to this worker.
    pub(crate) fn show(&mut self, key: &K, value: &V, now: Timestamp) {
        let hash = self.hasher.hash(key);
        if let Ok(Opened::Present(id)) = self.states.insert_local(key, hash, value, now) {
            self.states.update_local(id, value);
        }
    }

    /// Replaces the state of a flow of this worker on the board; does nothing if the flow is not there.
    pub(crate) fn change(&mut self, key: &K, value: &V) {
        if let Some(id) = self.own(key) {
            self.states.update_local(id, value);
        }
    }

    /// Removes a flow of this worker from the board, so that other workers send its packets to this worker.
    pub(crate) fn hide(&mut self, key: &K) {
        if let Some(id) = self.own(key) {
            self.states.remove_local(id);
        }
    }

    /// Returns the latest time at which any worker has received a packet of a flow of this worker. The time
    /// is rounded up to the end of a [`flow::TICK`]. `None` if the flow is not on the board.
    pub(crate) fn last_seen(&self, key: &K) -> Option<Timestamp> {
        self.states.last_seen(self.own(key)?)
    }

    fn own(&self, key: &K) -> Option<StateId> {
        self.states.get_local(key, self.hasher.hash(key)).map(|(id, _)| id)
    }
}
