//! Elements that set the aggregate annotation of packets, and elements that filter, count and record
//! packets by it.

pub mod aggregate_counter;
pub mod aggregate_counter_vector;
pub mod aggregate_filter;
pub mod aggregate_first;
pub mod aggregate_ip;
pub mod aggregate_ip_addr_pair;
pub mod aggregate_ip_flows;
pub mod aggregate_last;
pub mod aggregate_length;
pub mod aggregate_packet_counter;
pub mod aggregate_paint;
mod counts;
mod fragments;
mod ip_field;
mod notifier;
mod trace_info;

use element::effects::{Action, Case, Field, Filter, Target, Value};
use element::{Args, Batch, Cx, DropReason, Invalid, Packet};
use packet::Annotations;
use std::collections::TryReserveError;

use crate::memory::refusal;

/// The aggregate annotation as a field of declarations.
pub(crate) const AGGREGATE: Field = Field::Annotation { offset: Annotations::AGGREGATE as u8, length: 4 };

/// The fields from which an element computes a packet's aggregate number, for the declaration of its
/// effects.
struct Source {
    /// The name that distinguishes this computation from others with the same fields.
    name: &'static str,
    /// The fields that are read.
    reads: Vec<Field>,
}

impl Source {
    /// Returns the case of an element's declared effects for packets for which `when` holds: they get an
    /// aggregate number and go to output 0. With `incremental`, the number depends on the old aggregate, too.
    fn case(self, when: Filter, incremental: bool) -> Case {
        let Source { name, mut reads } = self;
        if incremental {
            reads.push(AGGREGATE);
        }
        Case::new(when, Target::Output(0)).with(Action::Set(AGGREGATE, Value::Pure { name, reads }))
    }
}

/// Returns the new aggregate of a packet: `value`; or, with `incremental`, the old aggregate shifted left
/// by `bits`, plus `value`.
fn combined(packet: &Packet, bits: u32, value: u32, incremental: bool) -> u32 {
    match incremental {
        true => aggregate_of(packet).checked_shl(bits).unwrap_or(0).wrapping_add(value),
        false => value,
    }
}

/// Reads CAPACITY, the last argument of a class, and calls `make` with it; `make` reserves memory for this
/// number of aggregates.
///
/// # Errors
/// If CAPACITY is 0, the memory cannot be reserved, or another argument is invalid; the error has then been
/// reported to `args`.
fn for_capacity<T>(
    args: &mut Args<'_>,
    make: impl FnOnce(usize) -> Result<T, TryReserveError>,
) -> Result<T, Invalid> {
    let capacity = args.value::<u32>("CAPACITY");
    if capacity == 0 {
        args.error("CAPACITY: at least 1");
    }
    args.finish()?;
    let made = make(capacity as usize).map_err(|error| args.error(refusal("CAPACITY", "aggregates", &error)));
    args.finish()?;
    made.map_err(|()| Invalid)
}

fn aggregate_of(packet: &Packet) -> u32 {
    packet.annotations().u32(Annotations::AGGREGATE)
}

/// Sets each packet's aggregate to the result of `number`. If it is an error, the packet goes to output 1,
/// or is dropped for this reason.
fn annotate(cx: &mut Cx<'_>, batch: &mut Batch, mut number: impl FnMut(&Packet) -> Result<u32, DropReason>) {
    batch.sift(
        |packet| {
            let number = number(packet)?;
            packet.annotations_mut().set_u32(Annotations::AGGREGATE, number);
            Ok(())
        },
        |packet, reason| cx.emit_one(1, packet, reason),
    );
}
