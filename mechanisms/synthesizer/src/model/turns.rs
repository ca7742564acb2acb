//! Where packets that come of one have parted: copies, and packets that are made of others.
//!
//! Which of two comes first follows from the element at which they part, and from the ways that they take there, as long as
//! neither waits somewhere: packets are followed depth first.

use super::chain::Chain;
use super::diagrams::Bit;

/// By what a packet leaves an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// An output.
    Output(usize),
    /// As one that is declared beside the packet itself, with this number.
    Made(usize),
    /// One of several connections of an output.
    Connection(usize),
}

/// One of the ways at an element, or that a packet has waited there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Took(usize, Way),
    Waited,
}

/// The turns that a packet has taken where others that come of the same one have taken others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns(Vec<Turn>);

/// Packets that came in, and the turns that what has become of them has taken.
pub type Turned = (Bit, Turns);

/// What decides which of two packets that come of one is first.
#[derive(Debug, PartialEq, Eq)]
pub enum Order<'c> {
    /// They are one packet until the first one has been where it is.
    First,
    /// The same of the second one.
    Second,
    /// They part at an element of this function, by these ways.
    Parted(&'c str, Way, Way),
    /// More than that.
    Unknown,
}

impl Turns {
    /// And one more.
    #[must_use]
    pub fn taken(&self, element: usize, way: Way) -> Turns {
        let mut turns = self.clone();
        turns.0.push(Turn::Took(element, way));
        turns
    }

    /// Behind an element that holds packets. As long as there is only one, that does not matter.
    #[must_use]
    pub fn waited(mut self) -> Turns {
        if self.0.last().is_some_and(|last| *last != Turn::Waited) {
            self.0.push(Turn::Waited);
        }
        self
    }

    /// Which of two packets is first at its element.
    pub fn order<'c>(chain: &'c Chain, [a, b]: [(&Turns, usize); 2]) -> Order<'c> {
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
                let is_connection = [left, right].iter().any(|way| matches!(way, Way::Connection(_)));
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
