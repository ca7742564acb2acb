//! Network functions of one's own: the paper's programming model (sections 3.2 to 3.4, Table 2, Figure 5).
//!
//! A [`Function`] has a part for packets that open and close connections, which come to the worker that the connection belongs
//! to and may change its state, and one for all others, which are handled wherever they are and only read it. The
//! compiler sees to it: the latter gets [`Flows`] that it cannot change. [`class`] makes an element class of a function, for
//! configurations like any other one; without `--steering spray` it does the same, each flow at its worker.
//!
//! | here | in Table 2 |
//! | --- | --- |
//! | [`Flows::insert_local_flow`], [`Flows::insert_local_pair`] | `insert_local_flow` |
//! | [`Flows::remove_local_flow`] | `remove_local_flow` |
//! | [`Flows::get_local_flow`], [`Flows::update_local_flow`] | `get_local_flow` |
//! | [`Flows::get_flow`], [`Flows::get_flows`] | `get_flow` |
//!
//! What else there is to do about flows is done around the function: the states of a batch's flows are looked up together, and
//! packets of unknown flows are treated as those that open connections. When flows were last seen is known from all workers, and
//! flows that nobody sees end. A connection is closed by RST, or by FIN from both ends; its state stays readable for
//! [`flow::LINGER`] then, for packets that are still on their way. Of a connection with one entry only one end is seen,
//! and the other one may go on behind its FIN: such a connection ends with RST, or when nobody sees it.
//!
//! `examples/own-nf` has two functions, and a program with them.

mod flows;
mod running;

use element::effects::{Case, Field, Filter, Target};
use element::{Args, Base, DropReason, Effects, Packet, Timestamp};
use flow::Plain;
use wire::FiveTuple;

pub use flows::Flows;
pub use running::{FLOWS, class};

/// A network function: one for each worker's copy of the element.
pub trait Function: Sized + Send + 'static {
    /// What is kept of a flow: numbers, at most 64 bytes.
    type State: Plain + Send + Sync + 'static;

    /// A function from the element's arguments. What it needs otherwise than usual it says in `needs`.
    fn init(args: &mut Args<'_>, needs: &mut Needs) -> Self;

    /// Handles packets of connections that belong to this worker: those that open or close one (TCP's SYN, FIN and RST), and
    /// those of flows without state, several of which may come for one flow.
    fn connection_packets(
        &mut self,
        flows: &mut Flows<'_, Self::State>,
        packets: &mut [FlowPacket<Self::State>],
    );

    /// Handles all other packets, whichever worker their flow belongs to. [`FlowPacket::state`] is there, unless the function
    /// keeps none.
    fn regular_packets(&mut self, flows: &Flows<'_, Self::State>, packets: &mut [FlowPacket<Self::State>]);

    /// A flow of this worker has ended that had this state: it was idle, or closed for long enough. It is not called for flows
    /// that the function itself removes.
    fn flow_ended(&mut self, _state: &Self::State) {}

    /// The value of a read handler of the class, of this worker alone: whether several workers' are added up, the class says.
    fn read(&self, _name: &str) -> Option<String> {
        None
    }
}

/// What a function needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Flows that each worker has room for; one with two entries counts twice. 0 for a function without state: packets are all
    /// regular then, and nothing is looked up.
    pub flows: usize,
    /// How long nobody sees a flow before it ends.
    pub timeout: Timestamp,
    /// What the function does to packets, but for the state of flows. At first that is not known, so that nobody relies
    /// on anything; a function that leaves packets as they are may take [`Effects::opaque`] away. Whoever changes addresses
    /// and sees to it that replies belong to the flow's worker ([`Flows::is_home`]) says so in [`Effects::chooses_home`];
    /// otherwise all is done by one worker.
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
        let decides = Filter::Opaque { about: "what the function decides", reads };
        let cases = vec![
            Case::new(decides, Target::SomeOutput),
            Case::new(Filter::Any, Target::Drop(DropReason::Denied)),
        ];
        let effects =
            Effects { opaque: Some("what the function does is not declared"), ..Effects::cases(cases) };
        Needs { flows: 1 << 20, timeout: Timestamp::from_secs(300), effects }
    }
}

/// A packet, and what becomes of it.
pub struct FlowPacket<S> {
    /// The packet.
    pub packet: Packet,
    /// The flow that it came with.
    pub flow: FiveTuple,
    /// TCP's flags, 0 if it is something else or a fragment.
    pub flags: u8,
    /// The input that it came by.
    pub input: usize,
    /// Its flow's state, for a regular packet.
    pub state: Option<S>,
    /// What becomes of it: at first, it leaves by the output with its input's number.
    pub verdict: Verdict,
    /// The worker that it belongs to.
    owner: usize,
    way: Way,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by this output.
    Output(usize),
    /// It ends.
    Drop(DropReason),
}

/// Who handles a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// This worker: [`Function::connection_packets`].
    Connection,
    /// This worker: [`Function::regular_packets`].
    Regular,
    /// The worker that it belongs to.
    Home,
}
