//! What an element does to a packet, as data.
//!
//! The declaration is what every mechanism decides from: the synthesizer composes the cases of a chain, the
//! slicer asks whether a chain reads payload, the sprayer whether state has one writer, the engine which
//! annotations anybody uses. So it has to be true: a generic test changes what an element says it does not
//! read, and compares what it says it does not write.
//!
//! An element is a list of [`Case`]s per input, the first that matches wins, and together they cover every
//! packet. What a declaration cannot say is [`Effects::opaque`], with the reason.

mod fields;

use classify::IntervalSet;
use packet::{Base, DropReason};

use crate::ElementId;

pub use fields::{DST_IP, DST_IP6, EXTRA_LENGTH, Field, Header, PAINT, wire_field};

/// A whole number: a constant, plus multiples of fields. How an element says where a header ends or how long a
/// packet has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Number {
    /// What is there without any field.
    pub constant: i64,
    /// Factor, field (big-endian, at most 16 bytes), and the bits of it that count: contiguous ones, the lowest of
    /// which has the value one. A header annotation counts from the packet's start, and may be negative.
    pub terms: Vec<(i64, Field, u128)>,
}

impl Number {
    /// A constant.
    pub const fn constant(constant: i64) -> Number {
        Number { constant, terms: Vec::new() }
    }

    /// A field.
    pub fn of(field: Field) -> Number {
        Number::constant(0).plus(1, field, u128::MAX)
    }

    /// The same, plus a multiple of some bits of a field.
    #[must_use]
    pub fn plus(mut self, factor: i64, field: Field, mask: u128) -> Number {
        self.terms.push((factor, field, mask));
        self
    }

    /// The same, plus a number of four bytes that is kept in annotations in the machine's byte order.
    #[must_use]
    pub fn plus_annotation(mut self, offset: u8) -> Number {
        for place in 0..4 {
            let power = if cfg!(target_endian = "little") { place } else { 3 - place };
            let byte = Field::Annotation { offset: offset + place, length: 1 };
            self.terms.push((1 << (8 * power), byte, u128::MAX));
        }
        self
    }

    /// The same, plus a constant.
    #[must_use]
    pub fn plus_constant(mut self, more: i64) -> Number {
        self.constant += more;
        self
    }

    /// The fields.
    pub fn reads(&self) -> impl Iterator<Item = &Field> {
        self.terms.iter().map(|(_, field, _)| field)
    }
}

/// Which packets a case is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every packet.
    Any,
    /// The field, as a big-endian number and under the mask, lies in the set. False where the packet is too
    /// short to have the field.
    In {
        /// The field.
        field: Field,
        /// Bits that count; all ones for the whole field.
        mask: u128,
        /// Accepted values.
        set: IntervalSet,
    },
    /// The header annotation is set, and the fixed part of the header lies inside the packet.
    Present(Header),
    /// The header's checksum is right, as far as its own lengths say that it reaches. Those are for other filters
    /// to check: where they make no sense, the outcome is not said.
    RightChecksum {
        /// The header.
        header: Header,
        /// Where it starts: so many bytes behind a base.
        base: Base,
        /// How many.
        offset: i32,
    },
    /// The first number is at most as large as the second. False where the packet is too short to have a field.
    AtMost(Number, Number),
    /// The element's state has an entry for the key, or has not.
    State {
        /// The name of the table.
        table: &'static str,
        /// True for a hit.
        hit: bool,
    },
    /// None of it.
    Not(Box<Filter>),
    /// All of them.
    All(Vec<Filter>),
    /// One of them.
    One(Vec<Filter>),
    /// A decision that only the element itself can take, from what it reads.
    Opaque {
        /// The subject, for the user. One element's decisions with the same subject are one decision: if it is false for a packet
        /// in one case, it is false in all others.
        about: &'static str,
        /// What it depends on.
        reads: Vec<Field>,
    },
}

/// What a field is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// These bytes.
    Constant(Vec<u8>),
    /// What another field holds.
    Copy(Field),
    /// What a field holds, plus a number.
    Plus(Field, i64),
    /// A number, as many bytes as the field has.
    Number(Number),
    /// A number in the machine's byte order, as annotations hold them.
    Native(Number),
    /// These bits of the field where the mask has ones; others stay. Both have the field's length.
    Bits {
        /// Which bits.
        mask: Vec<u8>,
        /// Their values.
        value: Vec<u8>,
    },
    /// A function of what it reads.
    Pure {
        /// Its name; the same function in elements of the same class and arguments.
        name: &'static str,
        /// What it reads.
        reads: Vec<Field>,
    },
    /// A choice that the element makes while it runs: a NAT's port, a balancer's server.
    Choose {
        /// What may be chosen.
        set: IntervalSet,
        /// Fields for which the choice stays the same.
        key: Vec<Field>,
    },
    /// The current time.
    Now,
}

/// One change to a packet. What actions read is as it was before the first one of their case; where they write is
/// where those before them have put the packet's start and its headers.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes a field. An empty constant unsets a header annotation.
    Set(Field, Value),
    /// Removes (positive) or gives back (negative) so many bytes at the front; their values stand. A packet with
    /// fewer bytes becomes empty. Bytes that were never part of the packet are zero.
    Strip(i32),
    /// The same, for a number of bytes that is different from packet to packet.
    Start(Number),
    /// Cuts the packet or makes it longer at the end; the length is a function of what it reads.
    Resize(Vec<Field>),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Leaves by this output.
    Output(usize),
    /// A copy leaves by each output.
    AllOutputs,
    /// One output, chosen while running; the case's filter does not say which.
    SomeOutput,
    /// Ends with a reason.
    Drop(DropReason),
    /// Is stored, and leaves by this output later.
    Hold(usize),
    /// Leaves the graph: written to a file or an interface.
    Send,
}

/// What the element does about checksums of what it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing.
    #[default]
    Untouched,
    /// Updates them for the fields that it writes.
    Updated(Vec<Header>),
    /// Computes them afresh.
    Recomputed(Vec<Header>),
}

/// Where a case is written, if the user wrote it: a rule of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    /// The argument, counted from 0, keywords included.
    pub argument: usize,
    /// The line, counted from 1, of the file that the argument names.
    pub line: Option<usize>,
}

/// One case: when a packet is like this, that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The input, or any.
    pub input: Option<usize>,
    /// Which packets.
    pub when: Filter,
    /// What changes.
    pub actions: Vec<Action>,
    /// What happens to checksums.
    pub checksum: Checksum,
    /// What becomes of the packet.
    pub to: Target,
    /// Why it ends where the graph has no such output.
    pub otherwise: DropReason,
    /// Where the user wrote that, if it is a rule of its own.
    pub written: Option<Written>,
    /// True if packets have to come to the element itself, although nothing else is in the way: it says something about
    /// each of them to people or to another element.
    pub is_shown: bool,
}

impl Case {
    /// The packets of `when` go to `to` unchanged.
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

    /// The same, for one input.
    #[must_use]
    pub fn on(mut self, input: usize) -> Case {
        self.input = Some(input);
        self
    }

    /// The same, written there.
    #[must_use]
    pub fn written(mut self, place: Written) -> Case {
        self.written = Some(place);
        self
    }

    /// The same, with what packets are dropped for where the graph has no such output.
    #[must_use]
    pub fn or_drop(mut self, reason: DropReason) -> Case {
        self.otherwise = reason;
        self
    }

    /// The same, of packets that people hear of.
    #[must_use]
    pub fn shown(mut self) -> Case {
        self.is_shown = true;
        self
    }

    /// The same, with a change.
    #[must_use]
    pub fn with(mut self, action: Action) -> Case {
        self.actions.push(action);
        self
    }

    /// The same, with the checksums of these headers kept right.
    #[must_use]
    pub fn updating(mut self, headers: &[Header]) -> Case {
        self.checksum = Checksum::Updated(headers.to_vec());
        self
    }
}

/// How packets wait in an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// They do not.
    #[default]
    None,
    /// In a first-in, first-out queue.
    Fifo {
        /// Whether a full queue drops.
        may_drop: bool,
    },
    /// For a time.
    Delay,
    /// Per flow.
    PerFlow,
    /// Before the run proper: they are taken in once and sent many times.
    Replay,
}

/// What an element does about marks of flows ([`crate::Packet::flow_mark`]), by which elements behind one that has found
/// the packets' flows need not look these up again.
///
/// Packets with the same mark have the same IPv4 addresses, protocol and ports. They are TCP or UDP and no fragments behind
/// the first; their network and transport header annotations are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// It leaves them alone.
    #[default]
    None,
    /// It marks packets where somebody relies on it ([`crate::Cx::uses_flow_marks`]), and takes marks from all packets whose
    /// flows it does not know.
    Gives,
    /// It may rely on them, where [`crate::Cx::uses_flow_marks`] says so. It does the same without marks.
    Takes,
}

/// Where payloads are left aside: packets that leave by an output have none until they come in by an input of an element that
/// has the same table ([`crate::obstacles::to_sliced`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// The output, and whose the table is.
    pub parks: Option<(usize, ElementId)>,
    /// The input, and whose the table is.
    pub joins: Option<(usize, ElementId)>,
    /// Whether the DSCP says so meanwhile.
    pub marks: bool,
}

/// Beyond the packet, what the outcome depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    /// The clock.
    Time,
    /// Random numbers.
    Random,
    /// Packets seen before, counted.
    Counter,
    /// A switch that handlers turn.
    Handler,
    /// The worker that the packet is at.
    Worker,
}

/// What an element shows people of packets that have gone through it, and so what another element has to do that stands for
/// it ([`Effects::stands_for`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// Nothing of those that leave by an output. Those that end there have to come to the element itself.
    #[default]
    None,
    /// What can be told ([`crate::Element::tally`]). Where packets end without a trace in handlers, that is nothing, too.
    Told,
    /// What only the packets themselves can tell: nobody may stand for the element.
    Own,
}

/// What the element does to the order of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Packets leave each output in the order in which they came.
    #[default]
    Keeps,
    /// Only the order within a flow is kept.
    KeepsPerFlow,
    /// Not even that.
    MayReorder,
    /// Packets of a flow leave in the order in which they were sent, as far as it can, whatever order they come in.
    Restores,
    /// Kept, and the element relies on flows arriving in order.
    NeedsFlowOrder,
}

/// State that an element keeps of packets.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The table's name, for the user.
    pub table: &'static str,
    /// What an entry is found by; empty for one entry in all.
    pub key: Vec<Field>,
    /// Whether both directions of a flow share an entry.
    pub both_directions: bool,
    /// Who may write it, and when.
    pub access: Access,
}

/// Access to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Packets only read it.
    Read,
    /// Packets that open and close connections write it, others read it.
    Connection,
    /// Kept per core and merged: counters, last-seen stamps.
    Soft,
    /// Each packet may write it, and the next one must see it.
    EveryPacket,
    /// There is one for all workers, which take care of each other.
    Shared,
}

/// Packets that the element makes from others: ICMP errors, ARP, fragments, copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Emit {
    /// What they are.
    pub name: &'static str,
    /// The input of the packets that they are made from, or any.
    pub input: Option<usize>,
    /// What they are made from.
    pub reads: Vec<Field>,
    /// Where they leave; `None` for every output.
    pub output: Option<usize>,
    /// The header that they start with, if they are not copies.
    pub starts: Option<Header>,
    /// For which packets there are some.
    pub when: Filter,
}

impl Emit {
    /// Copies of packets as they are.
    pub fn copies(output: Option<usize>) -> Emit {
        Emit { name: "copy", input: None, reads: Vec::new(), output, starts: None, when: Filter::Any }
    }

    /// Whether they are copies.
    pub fn is_copy(&self) -> bool {
        self.name == "copy"
    }
}

/// The whole declaration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The cases; the first that matches a packet counts, and one always does.
    pub cases: Vec<Case>,
    /// How packets wait.
    pub hold: Hold,
    /// Further packets.
    pub emits: Vec<Emit>,
    /// What else the outcome depends on.
    pub depends: Vec<Depends>,
    /// State.
    pub state: Vec<State>,
    /// Where it gives flows other addresses and ports: whether it chooses them such that replies belong to the worker
    /// that the flow belongs to ([`crate::Cx::is_home`]). Where it is a source with queues: whether each worker's queue
    /// has the flows that belong to the worker.
    pub chooses_home: bool,
    /// Where packets of one flow are spread over workers: whether it finds the state of flows that belong to other
    /// workers, and sends packets home ([`crate::Cx::send_home`]) that may change it; for [`Access::Soft`] state, whether it
    /// does not matter that several workers have some of a flow. Where it is a source with queues: whether packets come spread.
    pub is_spread: bool,
    /// Elements whose state it uses: where one of them works at one worker, it does, too.
    pub beside: Vec<ElementId>,
    /// Elements that it takes packets past, doing what they would do, and says so when it is asked
    /// ([`crate::Element::settle`]): where one of them works at one worker, it does, too.
    pub stands_for: Vec<ElementId>,
    /// What its handlers, and whatever else it does for people, show of packets that have gone through it. It says nothing
    /// where another part of the declaration keeps others from standing for the element
    /// ([`crate::obstacles::to_synthesis`]).
    pub counts: Counts,
    /// Whether it leases flows that it knows ([`crate::lease`]), and then for which packets of them it does not: those that
    /// may change what it keeps. Flows are told apart by IPv4 addresses, protocol and ports.
    pub leases: Option<Filter>,
    /// Order.
    pub order: Order,
    /// What the element looks at for people (printers, recorders, counters); the packets' fate does not
    /// depend on it.
    pub observes: Vec<Field>,
    /// Whether the element takes frames in which something is left for a device to do (large segments, partial
    /// checksums), or makes some where nobody minds: see [`crate::obstacles::to_offloads`]. The number says where such
    /// frames start: so many bytes behind their IP header, -14 for Ethernet.
    pub offloads: Option<i32>,
    /// What it does about marks of flows.
    pub marks: Marks,
    /// Whether it parks payloads or puts them back.
    pub sliced: Sliced,
    /// Whether the length that it looks at is that of the whole packet, also where payloads are left aside
    /// ([`crate::Cx::lengths`]).
    pub whole_length: bool,
    /// Whether all that it reads and writes of the network header behind the fixed 20 bytes are options: bytes of an IPv4
    /// header, as far as that says it reaches. Behind it nothing is written then, and nothing read matters.
    pub keeps_to_header: bool,
    /// Why the cases do not tell the whole truth, if they do not.
    pub opaque: Option<&'static str>,
}

impl Effects {
    /// From cases.
    pub fn cases(cases: Vec<Case>) -> Effects {
        Effects { cases, ..Effects::default() }
    }

    /// Every packet goes from its input to output 0 as it is.
    pub fn pass() -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Output(0))])
    }

    /// A source: no packets come in.
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

    /// Every packet is dropped.
    pub fn drop(reason: DropReason) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Drop(reason))])
    }

    /// No packets and no effects at all: information elements.
    pub fn none() -> Effects {
        Effects::default()
    }

    /// The same, watching these fields.
    #[must_use]
    pub fn observing(mut self, fields: &[Field]) -> Effects {
        self.observes.extend_from_slice(fields);
        self
    }

    /// The same, depending on something beyond the packet.
    #[must_use]
    pub fn depending_on(mut self, what: Depends) -> Effects {
        self.depends.push(what);
        self
    }

    /// The same, with something that every packet changes and the next one must see, whatever flow it is of: a rate, a
    /// number in sequence.
    #[must_use]
    pub fn sharing(mut self, table: &'static str) -> Effects {
        let access = Access::EveryPacket;
        self.state.push(State { table, key: Vec::new(), both_directions: false, access });
        self
    }

    /// The same, with handlers that show this of packets.
    #[must_use]
    pub fn counting(mut self, counts: Counts) -> Effects {
        self.counts = counts;
        self
    }

    /// Whether another element may deal with packets of a case in this one's place, as far as it matters for what people see
    /// of them. `outputs` is how many this one has.
    pub fn may_be_told(&self, case: &Case, outputs: usize) -> bool {
        let ends = match case.to {
            Target::Output(output) | Target::Hold(output) => output >= outputs,
            Target::AllOutputs | Target::SomeOutput => outputs == 0,
            Target::Drop(_) | Target::Send => true,
        };
        match self.counts {
            Counts::None => !case.is_shown && !ends,
            Counts::Told => !case.is_shown,
            Counts::Own => false,
        }
    }

    /// Fields that the fate or the bytes of packets depend on.
    pub fn reads(&self) -> Vec<Field> {
        self.reads_where(|_, _| true)
    }

    /// The same without fields that are read only to change themselves: a sum that nobody else looks at need not be
    /// kept.
    pub fn reads_for_others(&self) -> Vec<Field> {
        self.reads_where(|changed, read| changed != read)
    }

    /// The same, where a field that another one is set from is asked about first.
    fn reads_where(&self, counts: impl Fn(&Field, &Field) -> bool) -> Vec<Field> {
        let mut reads = Vec::new();
        for case in &self.cases {
            case.when.collect_reads(&mut reads);
            // An updated checksum depends on what it was and on what is overwritten, a computed one on all that it
            // covers.
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
                    Action::Start(number) => reads.extend(number.reads().cloned()),
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

    /// Fields that packets may leave with other values than they came with, checksums included.
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
    /// Fields that it is made from when it is given to a field.
    fn reads(&self, to: &Field) -> Vec<Field> {
        match self {
            Value::Constant(_) | Value::Now => Vec::new(),
            Value::Copy(field) | Value::Plus(field, _) => vec![field.clone()],
            Value::Number(number) | Value::Native(number) => number.reads().cloned().collect(),
            Value::Bits { .. } => vec![to.clone()],
            Value::Pure { reads, .. } | Value::Choose { key: reads, .. } => reads.clone(),
        }
    }
}

impl Filter {
    /// This filter, and others.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::All(std::iter::once(self).chain(more).collect())
    }

    /// The opposite.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "reads better than an operator in declarations")]
    pub fn not(self) -> Filter {
        Filter::Not(Box::new(self))
    }

    /// The packet reaches at least to `offset + length` bytes behind the base, which is set.
    pub fn reaches(base: Base, offset: i32, length: u16) -> Filter {
        let set = IntervalSet::one(0, 0);
        Filter::In { field: Field::Bytes { base, offset, length }, mask: 0, set }
    }

    /// The field equals a number.
    pub fn equals(field: Field, value: u128) -> Filter {
        Filter::In { field, mask: u128::MAX, set: IntervalSet::one(value, value) }
    }

    /// Adds the fields that it looks at.
    pub fn collect_reads(&self, reads: &mut Vec<Field>) {
        match self {
            Filter::Any | Filter::State { .. } => {}
            Filter::In { field, .. } => reads.push(field.clone()),
            Filter::Present(header) => reads.extend([Field::Length, Field::HeaderOffset(header.base())]),
            Filter::RightChecksum { header: Header::Ipv4, base, offset } => {
                reads.push(Field::Bytes { base: *base, offset: *offset, length: 60 });
            }
            // Other checksums cover everything behind the header, and often addresses before it.
            Filter::RightChecksum { base, .. } => {
                reads.extend([Field::Payload, Field::Length, Field::HeaderOffset(*base)]);
            }
            Filter::AtMost(a, b) => reads.extend(a.reads().chain(b.reads()).cloned()),
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
        let may = |effects: &Effects| effects.may_be_told(&effects.cases[0], 1);
        assert!(may(&Effects::pass()));
        assert!(!may(&Effects::drop(DropReason::NoMatch)), "it may have something to say about it");
        assert!(may(&Effects::drop(DropReason::NoMatch).counting(Counts::Told)));
        assert!(!may(&Effects::pass().counting(Counts::Own)));
        let side = Case::new(Filter::Any, Target::Output(1));
        assert!(!may(&Effects::cases(vec![side.clone()])), "it ends here");
        assert!(Effects::default().may_be_told(&side, 2));
        assert!(!may(&Effects::cases(vec![side.shown()]).counting(Counts::Told)));
    }
}
