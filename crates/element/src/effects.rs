//! The declaration of what an element does to a packet, as data.
//!
//! Every mechanism decides from the declaration: the synthesizer composes the cases of a chain, the slicer
//! asks whether a chain reads payload, the sprayer asks whether state has one writer, and the engine asks
//! which annotations are used. So the declaration has to be true: a generic test changes the fields that an
//! element does not read by its declaration, and compares the fields that it does not write.
//!
//! An element has a list of [`Case`]s per input. The first case that matches a packet applies, and together
//! the cases cover every packet. [`Effects::opaque`] says that a declaration is incomplete, with the
//! reason.

mod fields;

use classify::IntervalSet;
use packet::{Base, DropReason};

use crate::ElementId;

pub use fields::{DST_IP, DST_IP6, EXTRA_LENGTH, Field, Header, PAINT, wire_field};

/// A whole number: a constant, plus multiples of fields. Elements use it to declare where a header ends or
/// the length that a packet must have. Fields are big-endian and have at most 16 bytes; a mask selects
/// contiguous bits. A header annotation counts from the packet's start, and may be negative.
pub type Number = classify::linear::Linear<Field>;

/// Adds a number of four bytes that annotations hold in the machine's byte order.
#[must_use]
pub fn plus_annotation(number: Number, offset: u8) -> Number {
    (0..4).fold(number, |number, place| {
        let power = if cfg!(target_endian = "little") { place } else { 3 - place };
        number.plus(1 << (8 * power), Field::Annotation { offset: offset + place, length: 1 }, u128::MAX)
    })
}

/// A condition on a packet, which selects the packets of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every packet.
    Any,
    /// True if the field, as a big-endian number and under the mask, lies in the set. False if the packet
    /// is too short to have the field.
    In {
        /// The field.
        field: Field,
        /// The bits that are compared; all bits set for the whole field.
        mask: u128,
        /// The accepted values.
        set: IntervalSet,
    },
    /// True if the header annotation is set, and the fixed part of the header lies inside the packet.
    Present(Header),
    /// True if the header's checksum is right, over the length that the header itself gives. Other filters
    /// have to check these lengths: the result is undefined if the lengths are invalid.
    RightChecksum {
        /// The header.
        header: Header,
        /// The base from which the offset of the header counts.
        base: Base,
        /// The offset of the header from the base, in bytes.
        offset: i32,
    },
    /// True if the first number is at most as large as the second. False if the packet is too short to have
    /// one of the fields.
    AtMost(Number, Number),
    /// True if the element's state has an entry for the key, or if it has none (see `hit`).
    State {
        /// The name of the table.
        table: &'static str,
        /// True for a hit.
        hit: bool,
    },
    /// True if the inner filter is false.
    Not(Box<Filter>),
    /// True if all filters are true.
    All(Vec<Filter>),
    /// True if at least one filter is true.
    One(Vec<Filter>),
    /// A decision that only the element itself can take, from the fields that it reads.
    Opaque {
        /// The subject, for the user. Decisions of one element with the same subject are one decision: if
        /// it is false for a packet in one case, it is false in all others.
        about: &'static str,
        /// The fields that the decision depends on.
        reads: Vec<Field>,
    },
}

/// A value that a field is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Constant bytes.
    Constant(Vec<u8>),
    /// The value of another field.
    Copy(Field),
    /// The value of a field, plus a number.
    Plus(Field, i64),
    /// A number, in as many bytes as the field has.
    Number(Number),
    /// A number in the machine's byte order, which annotations use.
    Native(Number),
    /// Some bits of the field: the bits in `mask` get the bits of `value`, all others stay. Both have the
    /// field's length.
    Bits {
        /// The bits that are written.
        mask: Vec<u8>,
        /// The values of these bits.
        value: Vec<u8>,
    },
    /// A function of the fields that it reads.
    Pure {
        /// The name of the function. Elements of the same class and arguments use the same function under
        /// this name.
        name: &'static str,
        /// The fields that the function reads.
        reads: Vec<Field>,
    },
    /// A choice that the element makes while it runs: a NAT's port, a balancer's server.
    Choose {
        /// The values that may be chosen.
        set: IntervalSet,
        /// The fields for which the choice stays the same.
        key: Vec<Field>,
    },
    /// The current time.
    Now,
}

/// A change to a packet. An action reads the packet as it was before the first action of the case. It
/// writes relative to the packet's start and headers as the earlier actions have left them.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes a field. An empty constant unsets a header annotation.
    Set(Field, Value),
    /// Removes bytes at the front (positive), or returns bytes to the front (negative) with their old
    /// values. A packet with fewer bytes becomes empty. Bytes that were never part of the packet are zero.
    Strip(i32),
    /// Like `Strip`, for a number of bytes that differs from packet to packet.
    Start(Number),
    /// Cuts the packet or makes it longer at the end. The new length is a function of the given fields.
    Resize(Vec<Field>),
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The packet leaves by this output.
    Output(usize),
    /// A copy of the packet leaves by each output.
    AllOutputs,
    /// The packet leaves by one output, chosen while running; the case's filter does not determine which.
    SomeOutput,
    /// The packet is dropped with a reason.
    Drop(DropReason),
    /// The packet is stored, and leaves by this output later.
    Hold(usize),
    /// The packet leaves the graph: it is written to a file or an interface.
    Send,
}

/// The way in which an element treats the checksums of headers that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The element leaves checksums unchanged.
    #[default]
    Untouched,
    /// The element updates these checksums for the fields that it writes.
    Updated(Vec<Header>),
    /// The element computes these checksums from the packet.
    Recomputed(Vec<Header>),
}

/// The place in the configuration where the user wrote a case, such as a rule of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    /// The argument, counted from 0, keywords included.
    pub argument: usize,
    /// The line, counted from 1, of the file that the argument names.
    pub line: Option<usize>,
}

/// A case: a condition on a packet, and what happens to packets that match it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The input; `None` for any input.
    pub input: Option<usize>,
    /// The condition on the packets.
    pub when: Filter,
    /// The changes to the packet.
    pub actions: Vec<Action>,
    /// The treatment of checksums.
    pub checksum: Checksum,
    /// The fate of the packet.
    pub to: Target,
    /// The drop reason if the graph has no such output.
    pub otherwise: DropReason,
    /// The place where the user wrote this case, if it is a rule of its own.
    pub written: Option<Written>,
    /// True if packets have to come to the element itself, even if nothing else requires it: it reports
    /// each of them to people or to another element.
    pub is_shown: bool,
}

impl Case {
    /// Makes a case in which packets that match `when` go to `to` unchanged.
    pub fn new(when: Filter, to: Target) -> Case {
        Case {
            input: None,
            when,
            actions: Vec::new(),
            checksum: Checksum::Untouched,
            to,
            otherwise: DropReason::NoOutput,
            written: None,
            is_shown: false,
        }
    }

    /// Restricts the case to one input.
    #[must_use]
    pub fn on(mut self, input: usize) -> Case {
        self.input = Some(input);
        self
    }

    /// Sets the place where the user wrote the case.
    #[must_use]
    pub fn written(mut self, place: Written) -> Case {
        self.written = Some(place);
        self
    }

    /// Sets the reason with which packets are dropped if the graph has no such output.
    #[must_use]
    pub fn or_drop(mut self, reason: DropReason) -> Case {
        self.otherwise = reason;
        self
    }

    /// Marks the case as one whose packets are reported to people.
    #[must_use]
    pub fn shown(mut self) -> Case {
        self.is_shown = true;
        self
    }

    /// Adds a change.
    #[must_use]
    pub fn with(mut self, action: Action) -> Case {
        self.actions.push(action);
        self
    }

    /// Declares that the element updates the checksums of these headers.
    #[must_use]
    pub fn updating(mut self, headers: &[Header]) -> Case {
        self.checksum = Checksum::Updated(headers.to_vec());
        self
    }
}

/// The way in which packets wait in an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Packets do not wait.
    #[default]
    None,
    /// Packets wait in a first-in, first-out queue.
    Fifo {
        /// True if a full queue drops packets.
        may_drop: bool,
    },
    /// Packets wait for a time.
    Delay,
    /// Packets wait per flow.
    PerFlow,
    /// Packets are taken in once, before the run proper, and sent many times.
    Replay,
}

/// The use of flow marks ([`crate::Packet::flow_mark`]). With a mark, an element downstream of an element
/// that has found the packets' flows need not look the flows up again.
///
/// Packets with the same mark have the same IPv4 addresses, protocol and ports. They are TCP or UDP, and
/// either whole or first fragments; their network and transport header annotations are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// The element leaves marks unchanged.
    #[default]
    None,
    /// The element marks packets if another element relies on it ([`crate::context::Graph::uses_flow_marks`]), and
    /// removes marks from all packets whose flows it does not know.
    Gives,
    /// The element may rely on marks if [`crate::context::Graph::uses_flow_marks`] returns true. It does the same
    /// without marks.
    Takes,
}

/// The parking of payloads. Packets that leave by the output `parks` have no payload until they come in by
/// the input `joins` of an element with the same table ([`crate::obstacles::to_sliced`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// The output after which payloads are parked, and the element that owns the table.
    pub parks: Option<(usize, ElementId)>,
    /// The input at which payloads are joined again, and the element that owns the table.
    pub joins: Option<(usize, ElementId)>,
    /// True if the DSCP of sliced packets marks them as sliced.
    pub marks: bool,
}

/// A dependence of the outcome on something other than the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    /// The clock.
    Time,
    /// Random numbers.
    Random,
    /// The number of packets seen before.
    Counter,
    /// A switch that handlers set.
    Handler,
    /// The worker that the packet is at.
    Worker,
}

/// The counts that an element shows people of packets that have gone through it. They determine what
/// another element has to do that replaces it ([`Effects::replaces`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// No counts of packets that leave by an output. Packets that end in the element have to come to the
    /// element itself.
    #[default]
    None,
    /// Counts that a tally can update ([`crate::Element::tally`]). This is also the value for elements in
    /// which packets end and no handler shows it: a tally has nothing to update there.
    Tallied,
    /// Counts that only the packets themselves can update: no other element may replace this element.
    Own,
}

/// The effect of an element on the order of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Packets leave each output in the order in which they came.
    #[default]
    Keeps,
    /// Only the order within a flow is kept.
    KeepsPerFlow,
    /// Packets may leave in any order.
    MayReorder,
    /// Packets of a flow leave in the order in which they were sent, as far as possible, in whatever order
    /// they come in.
    Restores,
    /// Packets keep their order, and the element relies on flows that arrive in order.
    NeedsFlowOrder,
}

/// State that an element keeps about packets.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The name of the table, for the user.
    pub table: &'static str,
    /// The fields that identify an entry; empty if the table has only one entry.
    pub key: Vec<Field>,
    /// True if both directions of a flow share an entry.
    pub both_directions: bool,
    /// The packets that may write the state.
    pub access: Access,
}

/// The access of packets to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Packets only read the state.
    Read,
    /// Packets that open and close connections write the state; other packets read it.
    Connection,
    /// Each core keeps its own part, and the parts are merged: counters, last-seen stamps.
    Soft,
    /// Each packet may write the state, and the next packet must see the change.
    EveryPacket,
    /// All workers share one state and synchronize their accesses.
    Shared,
}

/// Packets that the element makes from others: ICMP errors, ARP, fragments, copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Emit {
    /// The name of this kind of packet.
    pub name: &'static str,
    /// The input of the packets from which they are made; `None` for any input.
    pub input: Option<usize>,
    /// The fields from which they are made.
    pub reads: Vec<Field>,
    /// The output by which they leave; `None` for every output.
    pub output: Option<usize>,
    /// The header with which they start, if they are not copies.
    pub starts: Option<Header>,
    /// The condition on the packets for which some are made.
    pub when: Filter,
}

impl Emit {
    /// Makes a declaration of copies of unchanged packets.
    pub fn copies(output: Option<usize>) -> Emit {
        Emit { name: "copy", input: None, reads: Vec::new(), output, starts: None, when: Filter::Any }
    }

    /// True if the packets are copies.
    pub fn is_copy(&self) -> bool {
        self.name == "copy"
    }
}

/// The worker at which packets leave an element. Each flow has one worker as its home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// Packets leave at the worker that they came to, or that made them. If the element makes packets, or
    /// gives flows other addresses or ports, their home may be another worker.
    #[default]
    Here,
    /// Packets that came at the home of their flow also leave at its home. An element that gives flows
    /// other addresses or ports chooses them such that replies belong to the same worker
    /// ([`crate::context::Workers::is_home`]). In a source with queues, the queue of each worker has the
    /// flows that belong to the worker.
    AtHome,
    /// Packets of one flow leave at several workers: a source with queues, over which an interface spreads
    /// them.
    Spread,
}

/// Facts about an element that matter to one mechanism each. Most elements declare none of them.
///
/// | field | asked by |
/// | --- | --- |
/// | `leases` | elements that replace others, for packets of known flows |
/// | `offloads` | the engine, before sources leave work to devices |
/// | `marks` | the engine, so that a flow is looked up once |
/// | `sliced` | the engine, which checks the elements between parking and joining of payloads |
/// | `whole_length` | the engine, for elements between parking and joining of payloads |
/// | `keeps_to_header` | the verifier, for bytes after the network header |
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Support {
    /// The packets of known flows that leases exclude, if the element leases flows ([`crate::lease`]):
    /// packets that may change the state of the element. Flows are identified by IPv4 addresses, protocol
    /// and ports.
    pub leases: Option<Filter>,
    /// The offset from the IP header at which frames start that leave some work to a device (large
    /// segments, partial checksums), -14 for Ethernet. It is set if the element accepts such frames, or
    /// makes them when all elements downstream accept them: see [`crate::obstacles::to_offloads`].
    pub offloads: Option<i32>,
    /// The use of flow marks.
    pub marks: Marks,
    /// The parking of payloads.
    pub sliced: Sliced,
    /// True if the length that the element reads is the length of the whole packet, also if its payload is
    /// parked ([`crate::Cx::lengths`]).
    pub whole_length: bool,
    /// True if the element reads and writes nothing of the network header after the fixed 20 bytes except
    /// options, that is, bytes of an IPv4 header up to the header length in it. It then writes nothing
    /// after the header, and the bytes that it reads there do not matter.
    pub keeps_to_header: bool,
}

/// The whole declaration of an element.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The cases. The first case that matches a packet applies, and one always matches.
    pub cases: Vec<Case>,
    /// The way in which packets wait.
    pub hold: Hold,
    /// The packets that the element makes from others.
    pub emits: Vec<Emit>,
    /// The other things that the outcome depends on.
    pub depends: Vec<Depends>,
    /// The state that the element keeps.
    pub state: Vec<State>,
    /// The worker at which packets leave the element.
    pub leaves: Leaves,
    /// True if the packets of one flow may come to any worker: the element finds the state of flows that
    /// belong to other workers, and sends packets that may change this state home
    /// ([`crate::Cx::send_home`]).
    pub finds_state: bool,
    /// The elements whose state it uses. If one of them works at one worker only, this element does so too.
    pub beside: Vec<ElementId>,
    /// The elements that this element replaces: it does to packets what they would do, so that the packets
    /// bypass them, and reports this when asked ([`crate::Element::settle`]). If one of them works at one
    /// worker only, this element does so too.
    pub replaces: Vec<ElementId>,
    /// The counts of packets that its handlers, and any other output for people, show. It has no effect if
    /// another part of the declaration prevents that the element is replaced
    /// ([`crate::obstacles::to_synthesis`]).
    pub counts: Counts,
    /// The effect on the order of packets.
    pub order: Order,
    /// The fields that the element reads for people (printers, recorders, counters). The fate of packets
    /// does not depend on them.
    pub observes: Vec<Field>,
    /// The facts that single mechanisms ask for.
    pub support: Support,
    /// The reason why the cases are not complete, if they are not.
    pub opaque: Option<&'static str>,
}

impl Effects {
    /// Makes a declaration from cases.
    pub fn cases(cases: Vec<Case>) -> Effects {
        Effects { cases, ..Effects::default() }
    }

    /// Declares that every packet goes from its input to output 0 unchanged.
    pub fn pass() -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Output(0))])
    }

    /// Declares a source, to which no packets come.
    pub fn source(name: &'static str) -> Effects {
        Effects {
            emits: vec![Emit {
                name,
                input: None,
                reads: Vec::new(),
                output: None,
                starts: None,
                when: Filter::Any,
            }],
            ..Effects::default()
        }
    }

    /// Declares that every packet is dropped.
    pub fn drop(reason: DropReason) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Drop(reason))])
    }

    /// Declares no packets and no effects, for information elements.
    pub fn none() -> Effects {
        Effects::default()
    }

    /// Adds fields that the element observes.
    #[must_use]
    pub fn observing(mut self, fields: &[Field]) -> Effects {
        self.observes.extend_from_slice(fields);
        self
    }

    /// Adds a dependence on something other than the packet.
    #[must_use]
    pub fn depending_on(mut self, what: Depends) -> Effects {
        self.depends.push(what);
        self
    }

    /// Adds state that every packet changes and the next packet must see, of whatever flow it is: a rate, a
    /// sequence number.
    #[must_use]
    pub fn sharing(mut self, table: &'static str) -> Effects {
        let access = Access::EveryPacket;
        self.state.push(State { table, key: Vec::new(), both_directions: false, access });
        self
    }

    /// Sets the counts that the handlers show.
    #[must_use]
    pub fn counting(mut self, counts: Counts) -> Effects {
        self.counts = counts;
        self
    }

    /// True if another element may process packets of a case in place of this element, as far as people can
    /// see. `outputs` is the number of outputs of this element.
    pub fn may_be_tallied(&self, case: &Case, outputs: usize) -> bool {
        let ends = match case.to {
            Target::Output(output) | Target::Hold(output) => output >= outputs,
            Target::AllOutputs | Target::SomeOutput => outputs == 0,
            Target::Drop(_) | Target::Send => true,
        };
        match self.counts {
            Counts::None => !case.is_shown && !ends,
            Counts::Tallied => !case.is_shown,
            Counts::Own => false,
        }
    }

    /// Returns the fields that the fate or the bytes of packets depend on.
    pub fn reads(&self) -> Vec<Field> {
        self.reads_where(|_, _| true)
    }

    /// Like [`reads`](Self::reads), without fields that are read only to change themselves. For example, a
    /// sum that no other element reads need not be kept.
    pub fn reads_for_others(&self) -> Vec<Field> {
        self.reads_where(|changed, read| changed != read)
    }

    /// Like [`reads`](Self::reads), but calls `counts` with a field that is set and a field that its value
    /// is made from, and leaves out the second field if the result is false.
    fn reads_where(&self, counts: impl Fn(&Field, &Field) -> bool) -> Vec<Field> {
        let mut reads = Vec::new();
        for case in &self.cases {
            case.when.collect_reads(&mut reads);
            // An updated checksum depends on its old value and on the overwritten fields, a recomputed
            // checksum on all that it covers.
            match &case.checksum {
                Checksum::Untouched => {}
                Checksum::Updated(headers) => {
                    reads.extend(headers.iter().filter_map(|header| header.checksum()));
                    let written = case.actions.iter().filter_map(|action| match action {
                        Action::Set(field @ Field::Bytes { .. }, _) => Some(field.clone()),
                        _ => None,
                    });
                    reads.extend(written);
                }
                Checksum::Recomputed(headers) => {
                    reads.extend(headers.iter().map(|header| header.extent()));
                    reads.push(Field::Length);
                }
            }
            for action in &case.actions {
                match action {
                    Action::Set(to, value) => {
                        reads.extend(value.reads(to).into_iter().filter(|from| counts(to, from)));
                    }
                    Action::Start(number) => reads.extend(number.variables().cloned()),
                    Action::Resize(more) => reads.extend_from_slice(more),
                    Action::Strip(_) => {}
                }
            }
        }
        for emit in &self.emits {
            reads.extend_from_slice(&emit.reads);
            emit.when.collect_reads(&mut reads);
        }
        reads.extend(self.state.iter().flat_map(|s| s.key.iter().cloned()));
        reads.sort();
        reads.dedup();
        reads
    }

    /// Returns the fields that packets may leave with other values than they came with, checksums included.
    pub fn writes(&self) -> Vec<Field> {
        let mut writes = Vec::new();
        for case in &self.cases {
            for action in &case.actions {
                match action {
                    Action::Set(field, _) => writes.push(field.clone()),
                    Action::Strip(_) | Action::Start(_) => {
                        writes.extend([Field::HeaderOffset(Base::Data), Field::Length]);
                    }
                    Action::Resize(_) => writes.push(Field::Length),
                }
            }
            if let Checksum::Updated(headers) | Checksum::Recomputed(headers) = &case.checksum {
                writes.extend(headers.iter().filter_map(|h| h.checksum()));
            }
        }
        writes.sort();
        writes.dedup();
        writes
    }
}

impl Value {
    /// Returns the fields from which the value is made when it is written to the field `to`.
    fn reads(&self, to: &Field) -> Vec<Field> {
        match self {
            Value::Constant(_) | Value::Now => Vec::new(),
            Value::Copy(field) | Value::Plus(field, _) => vec![field.clone()],
            Value::Number(number) | Value::Native(number) => number.variables().cloned().collect(),
            Value::Bits { .. } => vec![to.clone()],
            Value::Pure { reads, .. } | Value::Choose { key: reads, .. } => reads.clone(),
        }
    }
}

impl Filter {
    /// Combines this filter with others: all must be true.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::All(std::iter::once(self).chain(more).collect())
    }

    /// Negates the filter.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "reads better than an operator in declarations")]
    pub fn not(self) -> Filter {
        Filter::Not(Box::new(self))
    }

    /// True if the packet reaches at least to `offset + length` bytes from the base, and the base is set.
    pub fn reaches(base: Base, offset: i32, length: u16) -> Filter {
        let set = IntervalSet::one(0, 0);
        Filter::In { field: Field::Bytes { base, offset, length }, mask: 0, set }
    }

    /// True if the field equals a number.
    pub fn equals(field: Field, value: u128) -> Filter {
        Filter::In { field, mask: u128::MAX, set: IntervalSet::one(value, value) }
    }

    /// Adds the fields that the filter reads to `reads`.
    pub fn collect_reads(&self, reads: &mut Vec<Field>) {
        match self {
            Filter::Any | Filter::State { .. } => {}
            Filter::In { field, .. } => reads.push(field.clone()),
            Filter::Present(header) => reads.extend([Field::Length, Field::HeaderOffset(header.base())]),
            Filter::RightChecksum { header: Header::Ipv4, base, offset } => {
                reads.push(Field::Bytes { base: *base, offset: *offset, length: 60 });
            }
            // Other checksums cover everything after the header, and often addresses in the header before
            // it.
            Filter::RightChecksum { base, .. } => {
                reads.extend([Field::Payload, Field::Length, Field::HeaderOffset(*base)]);
            }
            Filter::AtMost(a, b) => reads.extend(a.variables().chain(b.variables()).cloned()),
            Filter::Not(inner) => inner.collect_reads(reads),
            Filter::All(inner) | Filter::One(inner) => inner.iter().for_each(|f| f.collect_reads(reads)),
            Filter::Opaque { reads: more, .. } => reads.extend_from_slice(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_follow_from_the_cases() {
        let ttl = wire_field::IP_TTL;
        let effects = Effects::cases(vec![
            Case::new(
                Filter::In { field: ttl.clone(), mask: 0xff, set: IntervalSet::one(0, 1) },
                Target::Output(1),
            ),
            Case::new(Filter::Any, Target::Output(0))
                .with(Action::Set(ttl.clone(), Value::Plus(ttl.clone(), -1)))
                .updating(&[Header::Ipv4]),
        ]);
        assert_eq!(effects.reads(), [ttl.clone(), wire_field::IP_CHECKSUM]);
        assert_eq!(effects.writes(), [ttl, wire_field::IP_CHECKSUM]);
        assert_eq!(Effects::pass().observing(&[PAINT]).reads(), []);
    }

    #[test]
    fn packets_are_told_where_people_see_no_difference() {
        let may = |effects: &Effects| effects.may_be_tallied(&effects.cases[0], 1);
        assert!(may(&Effects::pass()));
        assert!(!may(&Effects::drop(DropReason::NoMatch)), "it may have something to say about it");
        assert!(may(&Effects::drop(DropReason::NoMatch).counting(Counts::Tallied)));
        assert!(!may(&Effects::pass().counting(Counts::Own)));
        let side = Case::new(Filter::Any, Target::Output(1));
        assert!(!may(&Effects::cases(vec![side.clone()])), "it ends here");
        assert!(Effects::default().may_be_tallied(&side, 2));
        assert!(!may(&Effects::cases(vec![side.shown()]).counting(Counts::Tallied)));
    }
}
