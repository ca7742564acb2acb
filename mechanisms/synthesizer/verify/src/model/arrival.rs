//! Symbolic packets on their way: those that arrive at an input, and those that wait at an element.

use std::collections::BTreeMap;

use super::branches::BranchHistory;
use super::diagrams::Bit;
use super::packet::PacketModel;

/// Symbolic packets of one layout that arrive at an input, or leave, on one or several paths.
#[derive(Clone)]
pub struct Arrival {
    /// The path condition: the input packets from which a packet arrives here.
    pub condition: Bit,
    /// The packet as it arrives: each of its bits is a function of the input packet.
    pub packet: PacketModel,
    /// The branches that the packet has taken where other packets from the same input packets took
    /// different branches. They decide the order of the packets.
    pub history: BranchHistory,
}

/// The packets that wait at one element, by the index of the input at which they arrived.
pub type Waiting = BTreeMap<usize, Vec<Arrival>>;
