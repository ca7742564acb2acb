//! Symbolic packets on their path through a chain: packets that arrive at an input, and packets that wait at
//! an element.

use std::collections::BTreeMap;

use super::branches::BranchHistory;
use super::diagrams::Bit;
use super::packet::PacketModel;

/// Symbolic packets of one layout that arrive at an input, or leave an element, on one path or several paths
/// that were merged.
#[derive(Clone)]
pub struct Arrival {
    /// The path condition: the input packets from which a packet arrives here.
    pub condition: Bit,
    /// The packet as it arrives: each of its bits is a function of the input packet.
    pub packet: PacketModel,
    /// The branches that the packet has taken at elements where other packets from the same input packet took
    /// other branches. They decide the order of these packets.
    pub history: BranchHistory,
}

/// The packets that wait at one element, by the index of the input at which they arrived.
pub type Waiting = BTreeMap<usize, Vec<Arrival>>;
