//! The log of the mappings that a store makes and removes.

use std::sync::Arc;

use element::Timestamp;
use wire::ip_protocol;

use super::{Store, Written};
use crate::nat::session_event::SessionEvent;
use crate::nat::session_log::{Log, SessionLog};
use crate::nat::tuple::Tuple;

impl Store {
    /// Sets the log of the mappings of the translator with number `owner`.
    pub(in crate::nat) fn set_log(&mut self, owner: u16, log: Option<Arc<SessionLog>>) {
        if let Some(owner) = self.owners.get_mut(usize::from(owner)) {
            owner.log = log;
        }
    }

    /// Records in the log of the translator with number `owner`, if it has one, that a mapping was made or
    /// removed. `tuples` are those of the flow before and after translation.
    pub(super) fn record(&self, owner: u16, is_new: bool, protocol: u8, (mut from, mut to): (Tuple, Tuple)) {
        let owner = self.owners.get(usize::from(owner));
        let Some(log) = owner.and_then(|owner| owner.log.as_ref()) else { return };
        if protocol == ip_protocol::ICMP {
            // The identifier is the source port. Here the destination port tells requests from replies.
            (from.destination_port, to.destination_port) = (0, 0);
        }
        log.with(|log| log.record(&SessionEvent { time: self.now, is_new, protocol, from, to }));
    }

    /// Sets the time of events that are recorded before the next batch.
    pub(in crate::nat) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Records that a mapping of the translator with number `owner` has ended that another store had, or an
    /// earlier run, and that this store does not take.
    pub(in crate::nat) fn record_end(&self, owner: u16, written: &Written) {
        let [from, comes] = written.tuples;
        self.record(owner, false, written.protocol, (from, comes.reversed()));
    }

    /// Records the end of all mappings of the translator with number `owner`, because the translator ends.
    pub(in crate::nat) fn record_all_ends(&self, owner: u16) {
        let log = self.owners.get(usize::from(owner)).and_then(|owner| owner.log.as_ref());
        if let Some(log) = log {
            self.written(owner, None).iter().for_each(|written| self.record_end(owner, written));
            // The log may have been closed already. Its element reports faults.
            let _ = log.with(Log::flush);
        }
    }
}
