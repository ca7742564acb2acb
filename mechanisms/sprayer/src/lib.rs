//! Sprayer: spreads the packets of one flow over several workers.
//!
//! Interfaces give each flow to one worker (receive-side scaling, RSS). So a single large flow uses one
//! worker, and a few flows are spread unevenly. Spraying gives packets to workers instead. Connection
//! packets, which open or close a connection, go to the worker that owns the state of the flow. Regular
//! packets are the other packets of kinds that may be spread ([`Classes`]): they are handled on any worker,
//! and only read the state (Sadok et al., "A Case for Spraying Packets in Software Middleboxes", HotNets
//! 2018; the paper's *cores* are workers here). All other packets go to the owner, too.
//!
//! | policy | destination of a regular packet |
//! | --- | --- |
//! | [`Spray`] | all workers evenly, or the few workers of its flow evenly |
//! | [`Flowlets`] | the worker of the flow's last packet, unless there was a pause between them |
//! | [`Auto`] | the owner of the flow; less busy workers, if the owner is overloaded and the flow large |
//!
//! [`function`] is for user-defined network functions, which keep state of flows that are spread.
//!
//! The engine asks a policy for a worker if packets come from a single place, or from an interface that has
//! not spread them already ([`element::steering::Spread`]). Flow state is in [`flow::CoreStates`]. Elements
//! with flow state read the state of flows that other workers own. If they find no state for a packet, they
//! send it to the owner of its flow.

mod auto;
mod classes;
mod flowlets;
pub mod function;
mod spray;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use element::Timestamp;
use element::steering::{Spread, Spreading, WorkerLoad};

pub use auto::Auto;
pub use classes::Classes;
pub use flowlets::Flowlets;
pub use spray::Spray;

/// The settings of spreading: which packets are spread, over which workers, and in which order they leave.
#[derive(Clone, Debug, Default)]
pub struct SpreadSettings {
    /// The policy that selects workers.
    pub policy: Policy,
    /// The number of workers that a flow is spread over, starting with the worker that owns it; 0 for all
    /// workers.
    pub workers_per_flow: usize,
    /// The packets that may be spread; others go to the owner of their flow.
    pub classes: Classes,
    /// True if the packets of a flow must leave in the order in which they arrived.
    pub keeps_order: bool,
}

/// The policy that selects the worker of a regular packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Regular packets go to all workers of their flow evenly; the worker of each is selected by steps of the
    /// golden ratio.
    #[default]
    Spray,
    /// A flow may change its worker after a pause in its packets that is longer than this time.
    Flowlets(Timestamp),
    /// Large connections of workers that are much busier than others are spread; other flows stay with
    /// their owner.
    Auto,
}

impl SpreadSettings {
    /// Returns the settings in the form that the engine takes.
    pub fn spreading(self) -> Arc<dyn Spreading> {
        Arc::new(self)
    }
}

impl Spreading for SpreadSettings {
    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    fn by_interfaces(&self) -> Option<usize> {
        let is_simple =
            self.policy == Policy::Spray && !self.keeps_order && self.classes == Classes::default();
        is_simple.then_some(self.workers_per_flow)
    }

    fn spread(&self, worker: usize, loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread> {
        let workers = loads.len();
        let workers_per_flow =
            if self.workers_per_flow == 0 { workers } else { self.workers_per_flow.min(workers) };
        let spray = Spray::new(worker, workers, workers_per_flow, self.classes.clone());
        match self.policy {
            Policy::Spray => Box::new(spray),
            Policy::Flowlets(gap) => Box::new(Flowlets::new(spray, gap)),
            Policy::Auto => Box::new(Auto::new(spray, Arc::clone(loads))),
        }
    }
}
