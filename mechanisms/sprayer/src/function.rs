//! User-defined network functions: the programming model of the Sprayer paper (sections 3.2 to 3.4, Table 2,
//! Figure 5).
//!
//! A [`Function`] has a handler for connection packets, which come to the worker that owns the connection
//! and may change its state, and a handler for regular packets, which are handled on any worker and only
//! read the state. The compiler enforces this: the handler for regular packets gets [`FlowStates`] that it
//! cannot change. [`class`] makes an element class of a function, for use in configurations like any other
//! class. Without `--steering spray` the results are the same, but all packets of a flow are handled by the
//! worker that owns it.
//!
//! | here | in Table 2 |
//! | --- | --- |
//! | [`FlowStates::insert_local_flow`], [`FlowStates::insert_local_pair`] | `insert_local_flow` |
//! | [`FlowStates::remove_local_flow`] | `remove_local_flow` |
//! | [`FlowStates::get_local_flow`], [`FlowStates::update_local_flow`] | `get_local_flow` |
//! | [`FlowStates::get_flow`], [`FlowStates::get_flows`] | `get_flow` |
//!
//! Other work with flows is done outside of the function. The states of the flows of a batch are looked up
//! together, and packets of unknown flows are treated as connection packets. A flow ends after a time
//! without packets at any worker ([`Needs::timeout`]). A connection is closed by RST, or by FIN from both
//! ends; its state then stays readable for [`flow::LINGER`], for packets that are still in flight. If a
//! connection has a single entry, only one end's packets are seen, and the other end may go on after that
//! end's FIN. Such a connection ends with RST, or after [`Needs::timeout`] without packets.
//!
//! `examples/own-nf` has two functions, and a program with them.

mod flows;
mod running;

use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Args, Base, DropReason, Effects, Packet, Timestamp};
use flow::Plain;
use wire::FiveTuple;

pub use flows::FlowStates;
pub use running::{FunctionElement, class};

/// A network function. Each worker has an instance of its own.
pub trait Function: Sized + Send + 'static {
    /// The state that the function keeps for a flow: plain numbers, at most 64 bytes.
    type State: Plain + Send + Sync + 'static;

    /// Creates an instance from the element's arguments; errors are reported to `args`. Requirements that
    /// differ from the defaults are written to `needs`.
    fn init(args: &mut Args<'_>, needs: &mut Needs) -> Self;

    /// Handles packets of connections that this worker owns: packets that open or close a connection (TCP's
    /// SYN, FIN and RST), and packets of flows that have no state yet. The function sets the verdict of
    /// each packet. Several packets of one flow may arrive before the function has made its state.
    fn connection_packets(
        &mut self,
        flows: &mut FlowStates<'_, Self::State>,
        packets: &mut [FlowPacket<Self::State>],
    );

    /// Handles regular packets (all packets except those of [`connection_packets`](Self::connection_packets))
    /// and sets their verdicts. Any worker may own their flows. [`FlowPacket::state`] is present, unless the
    /// function keeps no state.
    fn regular_packets(
        &mut self,
        flows: &FlowStates<'_, Self::State>,
        packets: &mut [FlowPacket<Self::State>],
    );

    /// Handles the end of a flow that this worker owns, with the flow's last state: the flow was idle for its
    /// time-out, or was closed and has lingered. Not called for flows that the function itself removes.
    fn flow_ended(&mut self, _state: &Self::State) {}
}

/// The requirements of a function, which [`Function::init`] may change.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The number of flow entries for which each worker has room; a connection with two entries counts
    /// twice. 0 for a function without state: all packets then go to the handler for regular packets, and
    /// nothing is looked up.
    pub flows: usize,
    /// The time without packets, at any worker, after which a flow ends.
    pub timeout: Timestamp,
    /// The effects of the function on packets, except the state of flows. By default the effects are opaque,
    /// so that no mechanism relies on them; a function that does not change packets may remove
    /// [`Effects::opaque`]. A function that changes addresses and ensures that replies belong to the flow's
    /// worker ([`FlowStates::is_home`]) declares [`Leaves::AtHome`](element::effects::Leaves::AtHome);
    /// otherwise all work is done by one worker.
    pub effects: Effects,
}

impl Default for Needs {
    fn default() -> Needs {
        let reads = vec![
            Field::Payload,
            Field::Length,
            Field::HeaderOffset(Base::Network),
            Field::HeaderOffset(Base::Transport),
        ];
        // Packets without a five-tuple are dropped before the function sees them.
        let has_no_flow =
            Filter::Leaf(Predicate::Opaque { about: "packets without a five-tuple", reads: reads.clone() });
        let decides = Filter::Leaf(Predicate::Opaque { about: "what the function decides", reads });
        let cases = vec![
            Case::new(has_no_flow, Target::Drop(DropReason::Unsuitable)),
            Case::new(decides, Target::SomeOutput),
            Case::new(Filter::TRUE, Target::Drop(DropReason::Denied)),
        ];
        let effects =
            Effects { opaque: Some("what the function does is not declared"), ..Effects::cases(cases) };
        Needs { flows: 1 << 20, timeout: Timestamp::from_secs(300), effects }
    }
}

/// A packet of a flow, with its verdict: the output or the drop that the user-defined network function
/// decides for it.
pub struct FlowPacket<S> {
    /// The packet.
    pub packet: Packet,
    /// The five-tuple of the packet when it arrived.
    pub flow: FiveTuple,
    /// The byte of TCP flags; 0 for other protocols and fragments.
    pub flags: u8,
    /// The number of the input at which the packet arrived.
    pub input: usize,
    /// A copy of the state of the packet's flow; `None` for connection packets and for functions without
    /// state.
    pub state: Option<S>,
    /// The verdict on the packet: an output or a drop. By default, the packet leaves at the output with the
    /// number of its input.
    pub verdict: Verdict,
    /// The worker that owns the packet's flow. If packets are not spread or the function keeps no state,
    /// always the worker at which the packet arrived.
    owner: usize,
    way: Way,
}

/// The verdict of a user-defined function on a packet: the packet leaves at an output or is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet leaves at the output with this number.
    Output(usize),
    /// The packet is dropped for this reason.
    Drop(DropReason),
}

/// The next step for a packet: the handler that it is passed to, or the worker that it is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// [`Function::connection_packets`] at this worker.
    Connection,
    /// [`Function::regular_packets`] at this worker.
    Regular,
    /// The packet is sent to the worker that owns its flow.
    Home,
}
