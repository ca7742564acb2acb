//! The branch history of a packet: at which elements it has separated from other packets that come from the
//! same input packet, and by which branches.
//!
//! The order of two packets from one input packet follows from the element at which they separate, and from
//! their branches there, because packets are processed depth first. If an element holds one of the two, the
//! order is unknown.

use super::diagrams::Bit;
use program::chain::Chain;

/// The branch by which a packet leaves an element if the element sends several packets for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The output with this index.
    Output(usize),
    /// The packet was made by the emission with this index in the element's declaration.
    Made(usize),
    /// The connection with this index, if several connections leave one output.
    Connection(usize),
}

/// An entry of a branch history: the branch taken at an element, or a wait in an element that holds
/// packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BranchEntry {
    Took(usize, Branch),
    Waited,
}

/// The branches that a packet has taken, from the entry on, at elements where other packets from the same
/// input packet took different branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchHistory(Vec<BranchEntry>);

/// A condition on the input packets, and the branch history of the packets that come from these input
/// packets.
pub type WithHistory = (Bit, BranchHistory);

/// The order of two packets from one input packet, each of which reaches an element: the facts that decide
/// which packet arrives first. If they are equal in two chains, the order is equal.
#[derive(Debug, PartialEq, Eq)]
pub enum BranchOrder<'c> {
    /// The first packet arrives first: the element that it reaches is upstream of the point where the two
    /// packets separate or, if they do not separate, ranks before the element that the second packet reaches.
    First,
    /// The second packet arrives first: the element that it reaches is upstream of the point where the two
    /// packets separate or, if they do not separate, ranks before the element that the first packet reaches.
    Second,
    /// The packets separate at an element with this function
    /// ([`ChainNode::function`](program::chain::ChainNode::function)); the first packet takes the first of
    /// the two branches, the second packet the other branch.
    SeparatedAt(&'c str, Branch, Branch),
    /// The order cannot be derived: for example, one of the packets waits, is on a loop, or separates by a
    /// connection.
    Unknown,
}

impl BranchHistory {
    /// Returns the history after the packet has left `element` by the branch `way`.
    #[must_use]
    pub fn taken(&self, element: usize, way: Branch) -> BranchHistory {
        let mut history = self.clone();
        history.0.push(BranchEntry::Took(element, way));
        history
    }

    /// Returns the history after the packet has waited in an element that holds packets. Waits without a
    /// branch between them count once. A wait before the first branch is not recorded, because all packets of
    /// the input packet share it.
    #[must_use]
    pub fn waited(mut self) -> BranchHistory {
        if self.0.last().is_some_and(|last| *last != BranchEntry::Waited) {
            self.0.push(BranchEntry::Waited);
        }
        self
    }

    /// Returns the relation that decides which of two packets reaches its element first. Each packet is
    /// given by its history and by the number of the element that it reaches.
    pub fn order<'c>(chain: &'c Chain, [a, b]: [(&BranchHistory, usize); 2]) -> BranchOrder<'c> {
        let ((x, at), (y, other)) = (a, b);
        let common = x.0.iter().zip(&y.0).take_while(|(x, y)| x == y).count();
        if [at, other].iter().any(|&node| chain.nodes[node].loop_id.is_some()) {
            return BranchOrder::Unknown;
        }
        match (&x.0[common..], &y.0[common..]) {
            ([], []) if chain.rank(at) < chain.rank(other) => BranchOrder::First,
            ([], []) if chain.rank(at) > chain.rank(other) => BranchOrder::Second,
            ([], []) => BranchOrder::Unknown,
            ([], _) => BranchOrder::First,
            (_, []) => BranchOrder::Second,
            ([BranchEntry::Took(node, left), x @ ..], [BranchEntry::Took(same, right), y @ ..])
                if node == same =>
            {
                let waits = x.contains(&BranchEntry::Waited) || y.contains(&BranchEntry::Waited);
                let is_connection = [left, right].iter().any(|way| matches!(way, Branch::Connection(_)));
                let function = chain.nodes.get(*node).map(|node| node.function.as_str());
                match function.filter(|function| !function.is_empty()) {
                    Some(function) if !waits && !is_connection => {
                        BranchOrder::SeparatedAt(function, *left, *right)
                    }
                    _ => BranchOrder::Unknown,
                }
            }
            _ => BranchOrder::Unknown,
        }
    }
}
