//! Sprayer: one flow on all cores.
//!
//! Interfaces give each flow to one core (receive-side scaling), so one large flow has one core, and a few flows are spread
//! unevenly. Spraying gives packets to cores instead. Packets that open and close a connection go to the core that has
//! the flow's state; all others are handled wherever they are, and only read it (Sadok et al., "A Case for Spraying Packets in
//! Software Middleboxes", HotNets 2018).
//!
//! | policy | a regular packet goes |
//! | --- | --- |
//! | [`Spray`] | to each core in turn, or to each of a few that the flow has |
//! | [`Flowlets`] | where the one before it went, unless there was a pause between them |
//! | [`Auto`] | to each core in turn if its flow is large, else to the core that its flow belongs to |
//!
//! [`function`] is for network functions of one's own, which keep state of flows that are spread.
//!
//! The engine asks for a core where packets come from one place or from an interface that has not spread them already
//! ([`element::steering::Spread`]). Flow state is in [`flow::CoreStates`]; elements that have some find that of flows of other
//! cores, and send packets home that they find nothing for.

mod auto;
mod classes;
mod flowlets;
pub mod function;
mod spray;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use element::Timestamp;
use element::steering::{Spread, Spreading};

pub use auto::Auto;
pub use classes::Classes;
pub use flowlets::Flowlets;
pub use spray::Spray;

/// Which packets are spread, and how.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How.
    pub policy: Policy,
    /// Cores that one flow is spread over, chosen by its hash; all if there are none.
    pub cores: usize,
    /// Which packets.
    pub classes: Classes,
    /// Whether packets leave in the order in which they came.
    pub keeps_order: bool,
}

/// How packets are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Each packet for itself.
    #[default]
    Spray,
    /// A flow may change core after a pause of this length.
    Flowlets(Timestamp),
    /// Large flows only.
    Auto,
}

impl Settings {
    /// For the engine.
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

    fn spread(&self, worker: usize, workers: usize) -> Box<dyn Spread> {
        let cores = if self.cores == 0 { workers } else { self.cores.min(workers) };
        let spray = Spray::new(worker, workers, cores, self.classes.clone());
        match self.policy {
            Policy::Spray => Box::new(spray),
            Policy::Flowlets(gap) => Box::new(Flowlets::new(spray, gap)),
            Policy::Auto => Box::new(Auto::new(spray)),
        }
    }
}
