//! The declared effects of the elements that slice or splice.

use element::Base;
use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, State, StateAccess, Target, Value};

use crate::headers::HEADERS;
use crate::token::TOKEN;

/// The start of an Ethernet frame, in bytes from its IP header: the start of packets that leave work to
/// devices.
pub(crate) const ETHERNET_START: i32 = -14;

/// Declares the table of payloads as state that workers share. Each worker has a table of its own, but
/// packets are handed over to the worker that has their payload.
pub(crate) fn table_state() -> State {
    State { table: "payloads", key: Vec::new(), both_directions: false, access: StateAccess::Shared }
}

/// Returns the declared effects of slicing or splicing on packets from `input` that leave by `output`:
/// bytes of the headers, the length and the extra length annotation change. `is_whole` is true if sliced
/// packets keep no part of their payload.
pub(crate) fn case(input: usize, output: usize, name: &'static str, is_whole: bool) -> Case {
    let reads = vec![Field::Payload, Field::Length, Field::HeaderOffset(Base::Network)];
    let length = (HEADERS + TOKEN) as u16;
    let front = Field::Bytes { base: Base::Data, offset: 0, length };
    let change = || Value::Pure { name, reads: reads.clone() };
    let case = Case::new(Filter::TRUE, Target::Output(output))
        .on(input)
        .with(Action::Set(front, change()))
        .with(Action::Set(EXTRA_LENGTH, change()))
        .with(Action::Resize(reads.clone()));
    // If a part of the payload stays in the packet, that part moves to another offset, which is a write to
    // the payload. Otherwise no payload byte is written.
    match is_whole {
        true => case,
        false => case.with(Action::Set(Field::Payload, change())),
    }
}
