//! Branch history of copies: the elements at which packets derived from one input packet have separated.
//!
//! The order of two such packets follows from the element at which they separate and from the branches that
//! they take there, as long as neither is held by an element: packets are processed depth first.

use super::diagrams::Bit;
use program::chain::Chain;

/// The way by which a packet leaves an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// An output.
    Output(usize),
    /// The emitted packet with this index in the element's declaration.
    Made(usize),
    /// The connection with this index among several connections of an output.
    Connection(usize),
}

/// An entry of a history: the branch taken at an element, or a wait in an element that holds packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Took(usize, Branch),
    Waited,
}

/// The branches that a packet has taken where other packets from the same input packet took different
/// branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchHistory(Vec<Turn>);

/// A condition on the input packets, and the branch history of the packets derived from them.
pub type Turned = (Bit, BranchHistory);

/// The relation that decides which of two packets from one input packet comes first.
#[derive(Debug, PartialEq, Eq)]
pub enum Order<'c> {
    /// The first packet: the two separate only after the first has reached its element.
    First,
    /// The second packet: the two separate only after the second has reached its element.
    Second,
    /// The packets separate at an element with this function, by these branches.
    Parted(&'c str, Branch, Branch),
    /// No order can be derived.
    Unknown,
}

impl BranchHistory {
    /// Returns the history with one more branch.
    #[must_use]
    pub fn taken(&self, element: usize, way: Branch) -> BranchHistory {
        let mut turns = self.clone();
        turns.0.push(Turn::Took(element, way));
        turns
    }

    /// Returns the history after an element that holds packets. Waiting does not matter before the first
    /// branch.
    #[must_use]
    pub fn waited(mut self) -> BranchHistory {
        if self.0.last().is_some_and(|last| *last != Turn::Waited) {
            self.0.push(Turn::Waited);
        }
        self
    }

    /// Returns the relation that decides which of two packets reaches its element first.
    pub fn order<'c>(chain: &'c Chain, [a, b]: [(&BranchHistory, usize); 2]) -> Order<'c> {
        let ((x, at), (y, other)) = (a, b);
        let common = x.0.iter().zip(&y.0).take_while(|(x, y)| x == y).count();
        if [at, other].iter().any(|&node| chain.nodes[node].circle.is_some()) {
            return Order::Unknown;
        }
        match (&x.0[common..], &y.0[common..]) {
            ([], []) if chain.rank(at) < chain.rank(other) => Order::First,
            ([], []) if chain.rank(at) > chain.rank(other) => Order::Second,
            ([], []) => Order::Unknown,
            ([], _) => Order::First,
            (_, []) => Order::Second,
            ([Turn::Took(node, left), x @ ..], [Turn::Took(same, right), y @ ..]) if node == same => {
                let waits = x.contains(&Turn::Waited) || y.contains(&Turn::Waited);
                let is_connection = [left, right].iter().any(|way| matches!(way, Branch::Connection(_)));
                let function = chain.nodes.get(*node).map(|node| node.function.as_str());
                match function.filter(|function| !function.is_empty()) {
                    Some(function) if !waits && !is_connection => Order::Parted(function, *left, *right),
                    _ => Order::Unknown,
                }
            }
            _ => Order::Unknown,
        }
    }
}
