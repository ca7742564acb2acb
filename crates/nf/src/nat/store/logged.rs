//! The log of the mappings that a store makes and removes.

use std::sync::Arc;

use wire::ip_protocol;

use super::Store;
use crate::nat::session_event::SessionEvent;
use crate::nat::session_log::SessionLog;
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
        log.lock().record(&SessionEvent { time: self.now, is_new, protocol, from, to });
    }
}
