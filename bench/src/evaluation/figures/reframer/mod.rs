//! Reframer's figures: the benefit of packets in the order of flows for network functions, and the benefit
//! and the cost of holding packets for microseconds to restore this order.

mod captures;
mod classes;
mod cores;
mod functions;
mod load;
mod marked;
mod misses;
mod queues;
mod receiver;
mod switch;
mod web;
mod workload;

pub(super) use classes::differentiated;
pub(super) use cores::rate_per_core;
pub(super) use functions::functions;
pub(super) use load::{in_chain, outside};
pub(super) use misses::{elements, misses};
pub(super) use queues::queues;
pub(super) use receiver::receiver;
pub(super) use switch::switch;
pub(super) use web::web;
pub(super) use workload::{Workload, characteristics};

/// The values of the SLF (mean packets per run of a flow) at which network functions are measured.
const SLF: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The size of a frame in bytes.
const FRAME: usize = 1024;
/// The number of flows, unless the run is small.
const FLOWS: usize = 10_000;

/// Returns the number of packets in memory and the number of their flows. Each flow has at least as many
/// packets as the largest SLF, so that runs of this length are possible.
fn amount(run: &super::super::FigureRun<'_>) -> (usize, usize) {
    let most = SLF[SLF.len() - 1];
    let packets = if run.is_small() { run.settings.packets } else { FLOWS * most };
    (packets, packets.div_ceil(most).min(FLOWS))
}
