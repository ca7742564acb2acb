//! The declaration of what an element does to a packet, as data.
//!
//! Every mechanism decides from the declaration: the synthesizer composes the cases of a chain, the slicer
//! asks whether a chain reads payload, the sprayer asks whether state has one writer, and the engine asks
//! which annotations are used. So the declaration has to be true. A generic test checks this: it changes
//! fields that an element does not read according to its declaration, and expects the same outcome; and it
//! expects that fields which the element does not write keep their values.
//!
//! An element has a list of [`Case`]s per input. The first case that matches a packet applies, and together
//! the cases cover every packet. [`Effects::opaque`] gives the reason if a declaration is incomplete.

mod fields;
mod filter;
mod on_packet;

use classify::IntervalSet;
use packet::{Base, DropReason};

use crate::ElementId;

pub use fields::{DST_IP, DST_IP6, EXTRA_LENGTH, Field, HeaderKind, PAINT, wire_field};
pub use filter::{Filter, Predicate};
pub use on_packet::accepts;

/// A whole number that is computed from a packet: a constant, plus multiples of fields. Elements use it to
/// declare where a header ends or the length that a packet must have. Fields are big-endian and have at most
/// 16 bytes; a mask selects contiguous bits of a field. A header annotation counts as its offset from the
/// packet's start, which may be negative.
pub type Number = classify::linear::Linear<Field>;

/// Returns the sum of `number` and the number that is stored in four annotation bytes, from `offset` on, in
/// the machine's byte order.
#[must_use]
pub fn plus_annotation(number: Number, offset: u8) -> Number {
    (0..4).fold(number, |number, place| {
        let power = if cfg!(target_endian = "little") { place } else { 3 - place };
        number.plus(1 << (8 * power), Field::Annotation { offset: offset + place, length: 1 }, u128::MAX)
    })
}

/// A value to which an action sets a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A constant value: these bytes, as many as the field has.
    Constant(Vec<u8>),
    /// The value that another field had before the case's actions.
    Copy(Field),
    /// The value of a field before the case's actions, plus a number.
    Plus(Field, i64),
    /// A number, in big-endian order and in as many bytes as the field has.
    Number(Number),
    /// A number in the machine's byte order, in which annotations are stored.
    Native(Number),
    /// A change of some bits of the field: the bits in `mask` become the bits of `value`, all others stay.
    /// Mask and value are as long as the field.
    Bits {
        /// The bits that are written.
        mask: Vec<u8>,
        /// The values of the bits in `mask`.
        value: Vec<u8>,
    },
    /// The result of a function that depends on the fields in `reads` alone. The declaration does not say how
    /// the function computes the result.
    Pure {
        /// The name of the function. Elements of the same class and arguments use the same function under
        /// this name.
        name: &'static str,
        /// The fields that the function reads.
        reads: Vec<Field>,
    },
    /// A choice that the element makes while it runs, such as the port in a NAT or the server in a load
    /// balancer.
    Choose {
        /// The values that may be chosen.
        set: IntervalSet,
        /// The fields that identify a flow: all packets with the same values in them get the same choice.
        key: Vec<Field>,
    },
    /// The time at which the element processes the packet.
    Now,
}

/// A change to a packet. All values that an action reads are the values before the first action of the case.
/// The offsets at which it writes count from the packet's start and headers as the actions before it have
/// left them.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sets a field to a value. An empty [`Value::Constant`] unsets a header annotation.
    Set(Field, Value),
    /// Removes bytes at the front of the packet (positive), or adds bytes there (negative), with the values
    /// that they had before they were stripped, or zeros if they were never part of the packet. A packet
    /// with fewer bytes becomes empty. A packet may be dropped if its slot has too little headroom
    /// ([`DropReason::NoHeadroom`]), or if it has several slots and the first one has fewer bytes
    /// ([`DropReason::HeadersSplit`]).
    Strip(i32),
    /// Removes or adds bytes at the front like `Strip`, but the number of bytes is computed from the packet.
    Start(Number),
    /// Cuts the packet or makes it longer at its end. The new length is a function of the given fields. The
    /// packet may be dropped if it would be longer than a packet can be ([`DropReason::TooLong`]).
    Resize(Vec<Field>),
}

/// The reasons for which packets may be dropped if a file or an interface does not take them
/// ([`Target::Send`]).
pub const UNSENT: &[DropReason] = &[
    DropReason::WriteError,
    DropReason::NotConnected,
    DropReason::InterfaceDown,
    DropReason::SendQueueFull,
    DropReason::OtherLinkType,
    DropReason::TooLarge,
    DropReason::TooShort,
    DropReason::NoBuffer,
];

impl Action {
    /// Returns the reasons for which packets may be dropped if they have no room for the action: too little
    /// headroom, too few bytes in the first slot, or too great a length.
    fn refusals(&self) -> &'static [DropReason] {
        match self {
            Action::Strip(0) => &[],
            Action::Strip(1..) => &[DropReason::HeadersSplit],
            Action::Strip(_) => &[DropReason::NoHeadroom],
            Action::Start(_) | Action::Set(Field::HeaderOffset(Base::Data), _) => {
                &[DropReason::HeadersSplit, DropReason::NoHeadroom]
            }
            Action::Resize(_) | Action::Set(Field::Length, _) => &[DropReason::TooLong],
            Action::Set(..) => &[],
        }
    }
}

/// The outcome for the packets that match a case of a declaration: they leave, are held or are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The packet leaves by the output with this number; if it is not connected, the packet is dropped
    /// ([`Case::otherwise`]).
    Output(usize),
    /// A copy of the packet leaves by each output of the element.
    AllOutputs,
    /// The packet leaves by an output that the element chooses while it runs; the case's filter does not
    /// determine the output.
    SomeOutput,
    /// The packet is dropped for a reason.
    Drop(DropReason),
    /// The packet is stored in the element, and leaves by this output later.
    Hold(usize),
    /// The packet leaves the graph: the element writes it to a file or an interface. A packet that the file
    /// or the interface does not take is dropped, for one of the reasons in [`UNSENT`].
    Send,
}

/// The way in which an element treats the checksums that cover fields which it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The element leaves checksums unchanged, even if they become wrong.
    #[default]
    Untouched,
    /// The element adjusts the checksums of these headers by the difference that its writes make (RFC 1624).
    /// A wrong checksum stays wrong.
    Updated(Vec<HeaderKind>),
    /// The element computes the checksums of these headers from the packet's bytes. A wrong checksum
    /// becomes right.
    Recomputed(Vec<HeaderKind>),
}

/// The position in the configuration where the user wrote a [`Case`] of a declaration, for example as a rule
/// of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    /// The index of the argument among all arguments of the element, keyword arguments included.
    pub argument: usize,
    /// The number of the line, counted from 1, in the file that the argument names. `None` if the argument
    /// itself contains the case.
    pub line: Option<usize>,
}

/// A case of a declaration: a condition on packets, and what happens to packets that match it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The input by which the packets come in; `None` for any input.
    pub input: Option<usize>,
    /// The condition that the packets match.
    pub when: Filter,
    /// The changes to the packets, in order.
    pub actions: Vec<Action>,
    /// The treatment of checksums that cover changed fields.
    pub checksum: Checksum,
    /// The outcome: whether packets leave, are held or are dropped.
    pub to: Target,
    /// The drop reason of the packets if `to` is an output that the graph does not connect.
    pub otherwise: DropReason,
    /// The position in the configuration at which the user wrote this case. `None` if the case does not come
    /// from a rule that the user wrote.
    pub written: Option<Written>,
    /// True if packets of this case must come to the element itself and must not bypass it: it reports each
    /// of them to the user or to another element.
    pub is_shown: bool,
}

impl Case {
    /// Makes a case for packets that match `when`: they go to `to` unchanged, from any input.
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

    /// Restricts the case to packets that come in by one input.
    #[must_use]
    pub fn on(mut self, input: usize) -> Case {
        self.input = Some(input);
        self
    }

    /// Sets the position in the configuration at which the user wrote the case.
    #[must_use]
    pub fn written(mut self, place: Written) -> Case {
        self.written = Some(place);
        self
    }

    /// Sets the drop reason of the packets if the case's output is not connected.
    #[must_use]
    pub fn or_drop(mut self, reason: DropReason) -> Case {
        self.otherwise = reason;
        self
    }

    /// Marks the case as one whose packets must come to the element itself, because the element reports each
    /// of them to the user or to another element ([`is_shown`](Self::is_shown)).
    #[must_use]
    pub fn shown(mut self) -> Case {
        self.is_shown = true;
        self
    }

    /// Adds a change to the packets of the case, after the changes so far.
    #[must_use]
    pub fn with(mut self, action: Action) -> Case {
        self.actions.push(action);
        self
    }

    /// Declares that the element updates the checksums of these headers for its changes.
    #[must_use]
    pub fn updating(mut self, headers: &[HeaderKind]) -> Case {
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
    /// Packets wait for a time that the element determines.
    Delay,
    /// Packets wait in a queue per flow.
    PerFlow,
    /// Packets are stored before the first of them is emitted, and each of them is emitted many times.
    Replay,
}

/// The use of flow marks ([`crate::Packet::flow_mark`]). An element that has looked up the flow of a packet
/// can mark the packet with it, so that elements downstream need not look the flow up again.
///
/// Packets with the same mark have the same IPv4 addresses, protocol and ports. They are TCP or UDP, and
/// either whole or first fragments; their network and transport header annotations are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowMarks {
    /// The element leaves marks unchanged, and does not use them.
    #[default]
    None,
    /// The element marks packets if another element relies on the marks
    /// ([`crate::context::GraphView::uses_flow_marks`]). It then removes marks from all packets whose flows
    /// it does not know.
    Gives,
    /// The element may rely on marks instead of looking flows up, if
    /// [`crate::context::GraphView::uses_flow_marks`] returns true. The outcome for packets is the same as
    /// without marks.
    Takes,
}

/// The outputs and inputs at which the element parks payloads and joins them again (Slicer). Packets that
/// leave by the output `parks` have no payload until they come in by the input `joins` of an element with
/// the same table ([`crate::obstacles::to_sliced`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// The output by which packets leave without their payload, and the element that owns the table of
    /// parked payloads. `None` if this element parks no payloads.
    pub parks: Option<(usize, ElementId)>,
    /// The input at which packets get their payload back, and the element that owns the table of parked
    /// payloads. `None` if this element joins no payloads.
    pub joins: Option<(usize, ElementId)>,
    /// True if sliced packets get another DSCP, which marks them as sliced.
    pub marks: bool,
}

/// Something other than the packet on which the outcome for a packet depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    /// The current time.
    Time,
    /// A random number.
    Random,
    /// The number of packets that have come before.
    Counter,
    /// A setting of the element that a write handler changes.
    Handler,
    /// The worker that processes the packet.
    Worker,
}

/// The way in which an element's handlers, and its other output for users, count packets. It determines what
/// another element that replaces this element has to report to it ([`Effects::replaces`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Handlers show no counts of packets that leave by an output. Packets that end in the element, dropped
    /// or sent, have to come to the element itself.
    #[default]
    None,
    /// Handlers show only counts that a tally can update ([`crate::Element::tally`]). Elements in which
    /// packets end declare it too if no handler shows these packets: there is nothing for a tally to update.
    Tallied,
    /// Handlers show counts that only the packets themselves can update. No other element may replace this
    /// element.
    Own,
}

/// The effect of an element on the order of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Packets leave each output in the order in which they came.
    #[default]
    Keeps,
    /// Packets of one flow leave in the order in which they came; packets of different flows may change
    /// places.
    KeepsPerFlow,
    /// Packets may leave in any order.
    MayReorder,
    /// Packets of a flow leave in the order in which the sender sent them, as far as possible, even if they
    /// come in reordered.
    Restores,
    /// Packets leave in the order in which they came, and the element works properly only if the packets of
    /// a flow come in order.
    NeedsFlowOrder,
}

/// A table of state that an element keeps about packets or flows.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The name of the table, which messages show to the user.
    pub table: &'static str,
    /// The fields of a packet that identify its entry in the table; empty if the table has only one entry.
    pub key: Vec<Field>,
    /// True if both directions of a flow share an entry.
    pub both_directions: bool,
    /// The use of the entry by packets: it determines which workers may process packets of a flow.
    pub access: StateAccess,
}

/// The way in which packets use the entry of state that belongs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAccess {
    /// Packets only read the entry; no packet writes it.
    Read,
    /// Packets that open or close a connection write the entry; all other packets of the connection only
    /// read it.
    Connection,
    /// Each worker keeps an entry of its own, and readers merge the entries of all workers: counters, times
    /// of the last packet.
    Soft,
    /// Any packet may write the entry, and the next packet must see the change.
    EveryPacket,
    /// All workers use one entry and synchronize their accesses.
    Shared,
}

/// A kind of packet that the element makes, from packets that come in or as a source: ICMP errors, ARP
/// requests, fragments, copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Emit {
    /// A name for the kind of packet, for the user; "copy" for copies of unchanged packets.
    pub name: &'static str,
    /// The input of the packets from which the new packets are made; `None` for any input, and for sources.
    pub input: Option<usize>,
    /// The fields of the incoming packets from which the new packets are made.
    pub reads: Vec<Field>,
    /// The output by which the new packets leave; `None` if they may leave by every output.
    pub output: Option<usize>,
    /// The header with which the new packets start. `None` for copies, and if the header is not declared.
    pub starts: Option<HeaderKind>,
    /// The condition on the incoming packets for which new packets are made.
    pub when: Filter,
}

impl Emit {
    /// Declares copies of unchanged packets that leave by an output, or by every output (`None`).
    pub fn copies(output: Option<usize>) -> Emit {
        Emit { name: "copy", input: None, reads: Vec::new(), output, starts: None, when: Filter::TRUE }
    }

    /// True if the new packets are copies of unchanged packets.
    pub fn is_copy(&self) -> bool {
        self.name == "copy"
    }
}

/// The worker at which packets leave an element. Each flow has one worker as its home, which has the state of
/// the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// Packets leave at the worker that they came to, or that made them. If the element makes packets, or
    /// gives flows other addresses or ports, the home of these flows (the worker that has their state) may be
    /// another worker.
    #[default]
    Here,
    /// Packets that came at the home of their flow also leave at its home. An element that gives flows
    /// other addresses or ports chooses them such that replies belong to the same worker
    /// ([`crate::context::PacketOwners::is_home`]). In a source with queues, the queue of each worker has the
    /// flows that belong to the worker.
    AtHome,
    /// Packets of one flow leave at several workers. A source with queues declares it if an interface spreads
    /// the packets of one flow over the queues.
    Spread,
}

/// Facts about an element that matter to one mechanism each. Most elements declare none of them.
///
/// | field | asked by |
/// | --- | --- |
/// | `leases` | elements that replace others, for packets of known flows |
/// | `offloads`, `finishes_offloads` | the engine, before sources leave work to devices |
/// | `marks` | the engine, so that a flow is looked up once |
/// | `finds_runs` | the engine, so that packets are compared once |
/// | `trusts_checksums`, `sets_checksum_bit` | the engine, so that verified checksums are not summed again |
/// | `restores_checksums` | the engine, so that payloads are not read where large segments are cut again |
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
    /// True if no frames that leave work to a device leave the element, although it accepts them.
    pub finishes_offloads: bool,
    /// The use of flow marks by the element.
    pub marks: FlowMarks,
    /// True if the element finds the runs of batches ([`crate::Cx::find_runs`]), or numbers the runs of the
    /// packets that it sends ([`crate::Cx::new_run`]).
    pub finds_runs: bool,
    /// True if the element checks transport checksums, and trusts the bit for verified checksums
    /// ([`crate::checksums::is_known_right`]). The outcome for packets is the same as if it checked them.
    pub trusts_checksums: bool,
    /// True if the element marks the transport checksum of every packet that leaves it as right or unknown
    /// ([`crate::Packet::set_right_checksum`]). Sources need not declare it.
    pub sets_checksum_bit: bool,
    /// True if the element cuts every large segment that comes to it, and gives each of the packets the
    /// checksum with which it arrived, even if that is wrong, as long as the elements upstream allow it
    /// ([`crate::context::GraphView::restores_checksums`]).
    pub restores_checksums: bool,
    /// The outputs and inputs at which the element takes payloads out of packets and parks them in a table,
    /// and joins them with their packets again (Slicer).
    pub sliced: Sliced,
    /// True if the length that the element reads is the length of the whole packet, even if the packet's
    /// payload is parked in a table of the Slicer ([`crate::Cx::lengths`]).
    pub whole_length: bool,
    /// True if the element reads and writes nothing of the network header after the fixed 20 bytes except
    /// options, that is, bytes of an IPv4 header up to the header length in it. It then writes nothing after
    /// the IP header, and the outcome does not depend on bytes that it reads there.
    pub keeps_to_header: bool,
}

/// The whole declaration of an element.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The cases. The first case that matches a packet applies; one of the cases always matches, unless
    /// `opaque` is set.
    pub cases: Vec<Case>,
    /// The way in which packets wait.
    pub hold: Hold,
    /// The kinds of packets that the element makes, from incoming packets or as a source.
    pub emits: Vec<Emit>,
    /// The things other than the packet and the `state` on which the outcome for a packet depends.
    pub depends: Vec<Depends>,
    /// The state that the element keeps.
    pub state: Vec<State>,
    /// The worker at which packets leave the element.
    pub leaves: Leaves,
    /// True if the packets of one flow may come to any worker: the element finds the state of flows that
    /// belong to other workers, and sends packets that may change this state home
    /// ([`crate::Cx::send_home`]).
    pub finds_state: bool,
    /// The elements whose state this element uses. If one of them works at one worker only, this element does
    /// so too.
    pub beside: Vec<ElementId>,
    /// The elements that this element replaces: it does to packets what the replaced elements would do, so
    /// that the packets bypass them, and reports this when asked ([`crate::Element::settle`]). If one of them
    /// works at one worker only, this element does so too.
    pub replaces: Vec<ElementId>,
    /// The way in which the element's handlers, and any other output for people, count packets. It has no
    /// effect if another part of the declaration prevents that the element is replaced
    /// ([`crate::obstacles::to_synthesis`]).
    pub counts: Counting,
    /// True if the element may write handlers of other elements while packets pass, because of a handler
    /// call among its arguments, or one that a handler has set.
    pub calls: bool,
    /// The effect on the order of packets.
    pub order: Order,
    /// The fields that the element reads for people (printers, recorders, counters). The outcome for packets
    /// does not depend on these fields.
    pub observes: Vec<Field>,
    /// The facts that single mechanisms ask for.
    pub support: Support,
    /// The reason why the cases are not complete, if they are not.
    pub opaque: Option<&'static str>,
}

impl Effects {
    /// Declares an element with these cases and nothing else: it makes no packets, keeps no state and keeps
    /// the order of packets, unless further methods declare otherwise.
    pub fn cases(cases: Vec<Case>) -> Effects {
        Effects { cases, ..Effects::default() }
    }

    /// Declares that every packet goes from its input to output 0 unchanged.
    pub fn pass() -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0))])
    }

    /// Declares that the packets of each of `ports` inputs go to the output of the same number unchanged.
    pub fn port_by_port(ports: usize) -> Effects {
        let case = |port| Case::new(Filter::TRUE, Target::Output(port)).on(port);
        Effects::cases((0..ports).map(case).collect())
    }

    /// Declares a source: no packets come in, and the packets that it makes are called `name`.
    pub fn source(name: &'static str) -> Effects {
        Effects {
            emits: vec![Emit {
                name,
                input: None,
                reads: Vec::new(),
                output: None,
                starts: None,
                when: Filter::TRUE,
            }],
            ..Effects::default()
        }
    }

    /// Declares that every packet is dropped for a reason.
    pub fn drop(reason: DropReason) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Drop(reason))])
    }

    /// Declares that no packets come to the element and that it makes none, for elements that only give
    /// information.
    pub fn none() -> Effects {
        Effects::default()
    }

    /// Adds fields that the element reads only to show them to users.
    #[must_use]
    pub fn observing(mut self, fields: &[Field]) -> Effects {
        self.observes.extend_from_slice(fields);
        self
    }

    /// Adds something other than the packet on which the outcome depends.
    #[must_use]
    pub fn depending_on(mut self, what: Depends) -> Effects {
        self.depends.push(what);
        self
    }

    /// Adds a table with a single entry that every packet changes, of whatever flow it is, and whose change
    /// the next packet must see: a rate limit, a sequence number.
    #[must_use]
    pub fn sharing(mut self, table: &'static str) -> Effects {
        let access = StateAccess::EveryPacket;
        self.state.push(State { table, key: Vec::new(), both_directions: false, access });
        self
    }

    /// Sets the way in which the element counts packets.
    #[must_use]
    pub fn counting(mut self, counts: Counting) -> Effects {
        self.counts = counts;
        self
    }

    /// Declares if the element may write handlers of other elements while packets pass.
    #[must_use]
    pub fn calling(mut self, calls: bool) -> Effects {
        self.calls = calls;
        self
    }

    /// True if another element may process packets of a case in place of this element without a difference
    /// that users can see. `outputs` is the number of connected outputs of this element.
    pub fn may_be_tallied(&self, case: &Case, outputs: usize) -> bool {
        let ends = match case.to {
            Target::Output(output) | Target::Hold(output) => output >= outputs,
            Target::AllOutputs | Target::SomeOutput => outputs == 0,
            Target::Drop(_) | Target::Send => true,
        };
        match self.counts {
            Counting::None => !case.is_shown && !ends,
            Counting::Tallied => !case.is_shown,
            Counting::Own => false,
        }
    }

    /// Returns the reasons for which the element may drop packets if `outputs` of its outputs are connected.
    /// The reason [`DropReason::Stop`], for which held packets are dropped at the end of the run, is not
    /// among them.
    pub fn drop_reasons(&self, outputs: usize) -> Vec<DropReason> {
        let of_case = |case: &Case| match case.to {
            Target::Drop(reason) => vec![reason],
            Target::Output(output) | Target::Hold(output) if output >= outputs => vec![case.otherwise],
            Target::SomeOutput => vec![DropReason::NoOutput],
            Target::Send => UNSENT.to_vec(),
            Target::Output(_) | Target::Hold(_) | Target::AllOutputs => Vec::new(),
        };
        let of_actions = self.cases.iter().flat_map(|case| &case.actions).flat_map(Action::refusals);
        self.cases.iter().flat_map(of_case).chain(of_actions.copied()).collect()
    }

    /// Returns the fields on which the outcome for packets, their bytes or the element's state depend,
    /// sorted and without duplicates.
    pub fn reads(&self) -> Vec<Field> {
        self.reads_where(|_, _| true)
    }

    /// Returns the fields that [`reads`](Self::reads) returns, without the fields that an action reads only
    /// to set the same field, as in `x = x + 1`. An annotation that is only counted up in this way, and that
    /// no other element reads, need not be written.
    pub fn reads_for_others(&self) -> Vec<Field> {
        self.reads_where(|changed, read| changed != read)
    }

    /// Returns the fields that the element reads, sorted and without duplicates. Calls `counts` for each
    /// field that an action sets and each field from which the new value is made, and leaves out the latter
    /// field if `counts` returns false.
    fn reads_where(&self, counts: impl Fn(&Field, &Field) -> bool) -> Vec<Field> {
        let mut reads = Vec::new();
        for case in &self.cases {
            case.when.leaves().for_each(|leaf| leaf.collect_reads(&mut reads));
            // An updated checksum depends on its old value and on the overwritten fields, a recomputed
            // checksum on all bytes that it covers.
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
            emit.when.leaves().for_each(|leaf| leaf.collect_reads(&mut reads));
        }
        reads.extend(self.state.iter().flat_map(|s| s.key.iter().cloned()));
        reads.sort();
        reads.dedup();
        reads
    }

    /// Returns the fields whose values the element may change, checksums included, sorted and without
    /// duplicates.
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
    /// Returns the fields from which this value is made if an action sets the field `to` to it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_follow_from_the_cases() {
        let ttl = wire_field::IP_TTL;
        let effects = Effects::cases(vec![
            Case::new(
                Filter::Leaf(Predicate::In { field: ttl.clone(), mask: 0xff, set: IntervalSet::one(0, 1) }),
                Target::Output(1),
            ),
            Case::new(Filter::TRUE, Target::Output(0))
                .with(Action::Set(ttl.clone(), Value::Plus(ttl.clone(), -1)))
                .updating(&[HeaderKind::Ipv4]),
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
        assert!(may(&Effects::drop(DropReason::NoMatch).counting(Counting::Tallied)));
        assert!(!may(&Effects::pass().counting(Counting::Own)));
        let side = Case::new(Filter::TRUE, Target::Output(1));
        assert!(!may(&Effects::cases(vec![side.clone()])), "it ends here");
        assert!(Effects::default().may_be_tallied(&side, 2));
        assert!(!may(&Effects::cases(vec![side.shown()]).counting(Counting::Tallied)));
    }
}
