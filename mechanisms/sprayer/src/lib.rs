//! Sprayer: the packets of one flow on all cores.
//!
//! Interfaces give each flow to one core (receive-side scaling). So a single large flow uses one core, and
//! a few flows are spread unevenly. Spraying gives packets to cores instead. Connection packets, which open
//! or close a connection, go to the core that owns the state of the flow. Regular packets are all others:
//! they are handled on any core, and only read the state (Sadok et al., "A Case for Spraying Packets in
//! Software Middleboxes", HotNets 2018).
//!
//! | policy | destination of a regular packet |
//! | --- | --- |
//! | [`Spray`] | each core in turn, or each of the few cores of its flow in turn |
//! | [`Flowlets`] | the core of the flow's last packet, unless there was a pause between them |
//! | [`Auto`] | the owner of the flow; less busy cores, if the owner is overloaded and the flow is large |
//!
//! [`function`] is for user-defined network functions, which keep state of flows that are spread.
//!
//! The engine asks for a core if packets come from a single place, or from an interface that has not spread
//! them already ([`element::steering::Spread`]). Flow state is in [`flow::CoreStates`]. Elements with flow
//! state read the state of flows that other cores own, and send packets home for which they find no state.

mod auto;
mod classes;
mod flowlets;
pub mod function;
mod spray;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use element::Timestamp;
use element::steering::{Load, Spread, Spreading};

pub use auto::Auto;
pub use classes::Classes;
pub use flowlets::Flowlets;
pub use spray::Spray;

/// The settings that say which packets are spread, and how.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// The number of cores that a flow is spread over, chosen by its hash; 0 for all cores.
    pub cores: usize,
    /// The packets that are spread.
    pub classes: Classes,
    /// True if packets leave in the order in which they arrived.
    pub keeps_order: bool,
}

/// The policy that selects the core of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Each packet is spread independently.
    #[default]
    Spray,
    /// A flow may change its core after a pause of this length.
    Flowlets(Timestamp),
    /// Large connections of workers that are busier than others are spread.
    Auto,
}

impl Settings {
    /// Returns the settings as a trait object for the engine.
    pub fn spreading(self) -> Arc<dyn Spreading> {
        Arc::new(self)
    }
}

impl Spreading for Settings {
    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    fn by_interfaces(&self) -> Option<usize> {
        let is_simple =
            self.policy == Policy::Spray && !self.keeps_order && self.classes == Classes::default();
        is_simple.then_some(self.cores)
    }

    fn spread(&self, worker: usize, loads: &Arc<[Load]>) -> Box<dyn Spread> {
        let workers = loads.len();
        let cores = if self.cores == 0 { workers } else { self.cores.min(workers) };
        let spray = Spray::new(worker, workers, cores, self.classes.clone());
        match self.policy {
            Policy::Spray => Box::new(spray),
            Policy::Flowlets(gap) => Box::new(Flowlets::new(spray, gap)),
            Policy::Auto => Box::new(Auto::new(spray, Arc::clone(loads))),
        }
    }
}
