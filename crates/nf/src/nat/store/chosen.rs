//! The data from which mappings are made.

use super::super::state::Kind;
use super::super::tuple::Tuple;

/// The new tuple (addresses and ports) that was chosen for a flow, and the port or address that the mapping
/// reserves (`claim`).
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Chosen {
    pub(in crate::nat) to: Tuple,
    pub(in crate::nat) claim: Claim,
}

/// The outside port or address that a mapping reserves. It is not chosen for another mapping of the same
/// pool, a set of mappings whose replies would otherwise be equal: see [`Store::pool`](super::Store::pool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nat) enum Claim {
    /// No number is reserved, because the new tuple has no value that was chosen from a range.
    Nothing,
    /// The outside port is reserved towards the flow's destination. Mappings to other destinations may have
    /// the same port.
    Port,
    /// The outside address is reserved towards the flow's destination. Mappings to other destinations may
    /// have the same address.
    Address,
    /// The outside port is reserved for all destinations. The mappings of one inside endpoint share it.
    Endpoint,
}

/// The data from which a mapping is made. `from` is the flow's tuple before translation, and `outputs` are
/// the outputs of the flow and of its replies.
#[derive(Clone, Copy, Debug)]
pub(in crate::nat) struct Fresh {
    pub(in crate::nat) space: u32,
    pub(in crate::nat) from: Tuple,
    pub(in crate::nat) chosen: Chosen,
    pub(in crate::nat) input: u16,
    pub(in crate::nat) outputs: [u16; 2],
    pub(in crate::nat) kind: Kind,
    pub(in crate::nat) policy: u8,
    pub(in crate::nat) protocol: u8,
}
