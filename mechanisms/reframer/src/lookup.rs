//! The result of the flow look-up of a batch and of one packet.

use flow::FlowId;
use packet::BATCH_CAPACITY;

use crate::key::{Brief, FlowKey};

/// The memory for the look-up of a batch: at index `i`, kind and flags, key, hash and flow of packet `i`.
pub(crate) struct Scratch {
    pub(crate) located: [Option<Brief>; BATCH_CAPACITY],
    pub(crate) keys: [FlowKey; BATCH_CAPACITY],
    pub(crate) hashes: [u32; BATCH_CAPACITY],
    pub(crate) ids: [Option<FlowId>; BATCH_CAPACITY],
}

impl Scratch {
    pub(crate) fn new() -> Box<Scratch> {
        Box::new(Scratch {
            located: [None; BATCH_CAPACITY],
            keys: [FlowKey::NONE; BATCH_CAPACITY],
            hashes: [0; BATCH_CAPACITY],
            ids: [None; BATCH_CAPACITY],
        })
    }
}

/// The flow of one packet: kind and TCP flags, key, hash, and the flow's entry if the look-up found one.
pub(crate) struct Known<'k> {
    pub(crate) brief: Brief,
    pub(crate) key: &'k FlowKey,
    pub(crate) hash: u32,
    pub(crate) id: Option<FlowId>,
}
