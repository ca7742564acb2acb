//! Elements that measure cycles, times, and the lengths of batches and bursts, and HandlerAggregate, which
//! combines handlers of several elements.

pub mod average_batch_counter;
pub mod batch_stats;
pub mod burst_stats;
pub mod cycle_count_accum;
pub mod handler_aggregate;
pub(crate) mod histogram;
pub mod set_cycle_count;
pub mod timestamp_accum;

use element::effects::{Counting, Field, State, StateAccess};
use element::{Effects, Packet};

/// The offset of the 8-byte annotation in which SetCycleCount stores the processor's cycle counter.
const PERFCTR: usize = 40;
const PERFCTR_FIELD: Field = Field::Annotation { offset: PERFCTR as u8, length: 8 };

fn cycles_of(packet: &Packet) -> u64 {
    let bytes = &packet.annotations().bytes()[PERFCTR..];
    bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Returns the effects of elements that count packets and forward them unchanged; their counts depend on
/// the fields `seen`.
fn metering(seen: &[Field]) -> Effects {
    let state = State { table: "meter", key: Vec::new(), both_directions: false, access: StateAccess::Soft };
    Effects { state: vec![state], counts: Counting::Own, ..Effects::pass() }.observing(seen)
}
