//! The flow state that functions may use: [`FlowStates`].

use element::Timestamp;
use flow::{CoreStates, FiveTupleKey, InsertError, KeyHasher, Opened, Plain, StateId};
use wire::FiveTuple;

/// The maximum number of flows that are looked up together.
pub(super) const WINDOW: usize = 32;

/// The keys and the hashes of up to [`WINDOW`] flows, for one look-up.
type Keys = ([FiveTupleKey; WINDOW], [u32; WINDOW]);

/// The states of flows, as one worker sees them. The worker changes the state of its own flows, and reads
/// the state of all flows. A flow is identified by its five-tuple, in one direction; the other direction of
/// the connection is another flow, which the same worker owns.
pub struct FlowStates<'a, S: Plain> {
    pub(super) states: &'a mut CoreStates<FiveTupleKey, S>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now: Timestamp,
    pub(super) worker_of: &'a dyn Fn(&FiveTuple) -> usize,
}

impl<S: Plain> FlowStates<'_, S> {
    /// Returns the time of the current batch.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if this worker owns a flow. A function that changes addresses must choose them so that this is
    /// true for the replies.
    pub fn is_home(&self, flow: &FiveTuple) -> bool {
        (self.worker_of)(flow) == self.states.core()
    }

    /// Adds a flow that this worker owns. If the flow exists already, it gets the new state, and is open
    /// again if it was closed.
    ///
    /// # Errors
    /// If there is no room for another flow.
    pub fn insert_local_flow(&mut self, flow: &FiveTuple, state: &S) -> Result<(), InsertError> {
        self.insert(flow, state).map(drop)
    }

    /// Adds the two directions of a connection, which end together. This is for functions that identify the
    /// directions by different addresses, or keep different state for each.
    ///
    /// A direction that is in the table already gets its new state. If it is already paired with some other
    /// flow, it stays paired with that flow, and `there` and `back` are not paired with each other.
    ///
    /// # Errors
    /// If the table has no room for both directions; then neither is added. If the flow `there` was in the
    /// table before, it stays there with its new state.
    pub fn insert_local_pair(
        &mut self,
        there: (&FiveTuple, &S),
        back: (&FiveTuple, &S),
    ) -> Result<(), InsertError> {
        let (one, is_new) = self.insert(there.0, there.1)?;
        match self.insert(back.0, back.1) {
            Ok((other, _)) => _ = self.states.pair_local(one, other),
            Err(error) => {
                if is_new {
                    self.states.remove_local(one);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds a flow or updates its state. Returns its id, and true if it is new.
    fn insert(&mut self, flow: &FiveTuple, state: &S) -> Result<(StateId, bool), InsertError> {
        let (key, hash) = self.key(flow);
        let opened = self.states.insert_local(&key, hash, state, self.now)?;
        if let Opened::Present(id) = opened {
            self.states.update_local(id, state);
        }
        Ok((opened.id(), matches!(opened, Opened::New(_))))
    }

    /// Removes a flow of this worker now, and the flow that is its pair. Returns the state that the flow
    /// had; `None` if there is no such flow.
    pub fn remove_local_flow(&mut self, flow: &FiveTuple) -> Option<S> {
        let id = self.own(flow)?.0;
        self.states.remove_local(id)
    }

    /// Returns the state of a flow that this worker owns; `None` if there is no such flow.
    pub fn get_local_flow(&self, flow: &FiveTuple) -> Option<S> {
        self.own(flow).map(|(_, state)| state)
    }

    /// Replaces the state of a flow that this worker owns. Returns false if there is no such flow.
    pub fn update_local_flow(&mut self, flow: &FiveTuple, state: &S) -> bool {
        self.own(flow).is_some_and(|(id, _)| self.states.update_local(id, state))
    }

    /// Returns the state of a flow that any worker owns. `None` if there is no such flow, or if its worker
    /// is changing the state at this moment.
    pub fn get_flow(&self, flow: &FiveTuple) -> Option<S> {
        let (key, hash) = self.key(flow);
        self.states.get((self.worker_of)(flow), &key, hash).map(|(_, state)| state)
    }

    /// Looks up many flows at once, like [`get_flow`](Self::get_flow), so that cache misses overlap:
    /// `states[i]` becomes the state of `flows[i]`. If the slices have different lengths, flows and states
    /// beyond the shorter length are ignored and stay as they are.
    pub fn get_flows(&self, flows: &[FiveTuple], states: &mut [Option<S>]) {
        for (flows, states) in flows.chunks(WINDOW).zip(states.chunks_mut(WINDOW)) {
            let mut owners = [0; WINDOW];
            for (owner, flow) in owners.iter_mut().zip(flows) {
                *owner = (self.worker_of)(flow);
            }
            let found = self.find(flows.iter(), &owners);
            for (state, found) in states.iter_mut().zip(found).take(flows.len()) {
                *state = found.map(|(_, state)| state);
            }
        }
    }

    /// Looks up at most [`WINDOW`] flows, of which `owners[i]` owns flow `i`. Returns id and state of each;
    /// `None` for a flow that is unknown, or whose worker is changing its state at this moment.
    pub(super) fn find<'f>(
        &self,
        flows: impl Iterator<Item = &'f FiveTuple>,
        owners: &[usize; WINDOW],
    ) -> [Option<(StateId, S)>; WINDOW] {
        let (mut keys, mut hashes): Keys = ([FiveTupleKey::NONE; WINDOW], [0; WINDOW]);
        let mut count = 0;
        for (flow, (key, hash)) in flows.zip(keys.iter_mut().zip(&mut hashes)) {
            (*key, *hash) = self.key(flow);
            count += 1;
        }
        let mut found = [None; WINDOW];
        self.states.get_batch(&owners[..count], &keys[..count], &hashes[..count], &mut found[..count]);
        found
    }

    pub(super) fn own(&self, flow: &FiveTuple) -> Option<(StateId, S)> {
        let (key, hash) = self.key(flow);
        self.states.get_local(&key, hash)
    }

    fn key(&self, flow: &FiveTuple) -> (FiveTupleKey, u32) {
        let key = FiveTupleKey::new(flow, 0);
        (key, self.hasher.hash(&key))
    }
}
