//! The contract between elements and everything else.
//!
//! An element is a small state machine ([`Element`]) with a description of its class ([`Class`]: ports,
//! processing, arguments, handlers, manual) and a declaration of what it does to packets ([`Effects`]). The
//! engine runs elements, and each mechanism decides from the declarations; neither knows any element by name.
//!
//! - [`effects`]: the declaration, the spine of the product
//! - [`class`]: what is known of a class before any element of it exists, and the registry
//! - [`args`]: typed reading of configuration arguments, with Click's rules and error texts
//! - [`context`]: what an element can ask of the engine while it handles packets ([`Cx`])
//! - [`ports`]: Click's port count and processing codes
//! - [`five_tuple`](mod@five_tuple): which flow a packet belongs to
//! - [`lease`]: flows that an element lets another one deal with
//! - [`histogram`]: histograms that elements show
//! - [`names`]: addresses and ports that configurations give names to
//! - [`services`]: names of ports that the machine knows
//! - [`steering`]: which worker a packet belongs to
//! - [`tally`]: packets that another element has dealt with in an element's place
//! - [`mod@manual`]: reading the doc block of an element's file

pub mod args;
pub mod class;
pub mod context;
pub mod effects;
mod facts;
mod files;
pub mod five_tuple;
pub mod histogram;
mod interfaces;
pub mod lease;
pub mod manual;
pub mod names;
pub mod obstacles;
pub mod ports;
mod rights;
mod sample;
pub mod services;
pub mod setup;
pub mod steering;
pub mod tally;
mod write_timer;

use std::any::Any;

pub use args::{Args, Complaint, Invalid};
pub use class::{Access, ArgInfo, Class, HandlerInfo, Notes, Phase, Registry};
pub use context::{
    Call, Core, Counters, Cx, Host, Interest, Lengths, PlannedCall, Precision, Signal, Stream,
};
pub use effects::Effects;
pub use facts::Facts;
pub use files::{Files, Folder};
pub use lang::Severity;
pub use packet::{Base, Batch, DropReason, Packet, Timestamp};
pub use rights::{Origin, Rights};
pub use sample::Sample;
pub use setup::Setup;
pub use tally::Tally;
pub use write_timer::WriteTimer;

/// Number of an element in its graph.
pub type ElementId = usize;

/// An element of a running graph.
///
/// Contract: every packet that comes in is emitted, held (and then counted by [`held`](Element::held)) or
/// dropped with a reason before the call returns, or the engine reports the element. An element never calls
/// another one: it hands batches to [`Cx::emit`], and the engine runs whoever is connected. After warm-up no
/// call may allocate per batch.
pub trait Element: Send {
    /// What the element does to packets, for its configuration and its number of ports.
    fn effects(&self) -> Effects;

    /// Called once before the first packet: open files, look up services and other elements, start tasks.
    ///
    /// # Errors
    /// A text that says what is wrong and what to do; the graph will not run.
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Takes the packets that arrive on a push input. What it returns goes on to output 0, behind everything
    /// that it has emitted: the shortest way through the engine. The default runs
    /// [`process`](Element::process) and returns the batch.
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        self.process(cx, &mut batch);
        Some(batch)
    }

    /// Gives at most `max` packets to whoever pulls from an output. The default pulls from input 0 and runs
    /// [`process`](Element::process).
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.pull(0, max);
        self.process(cx, &mut batch);
        batch
    }

    /// The one function of an element that does the same whether packets are pushed or pulled: it changes the
    /// batch in place, and may emit packets to side outputs.
    fn process(&mut self, _cx: &mut Cx<'_>, _batch: &mut Batch) {}

    /// Runs the element's task, if it is scheduled. True if there was something to do. The task is then
    /// unscheduled unless it asks for another turn ([`Cx::schedule`]).
    fn run(&mut self, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// Runs when a timer that the element has set expires; [`Cx::now`] is the timer's own time under the trace
    /// and manual clocks.
    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {}

    /// Runs when a file that the element watches ([`Cx::watch`]) can be read or written, or has come to its end.
    /// It runs again for as long as that is so.
    fn ready(&mut self, _cx: &mut Cx<'_>, _token: u32) {}

    /// Runs when the process has got a signal that the element waits for ([`Cx::on_os_signal`]).
    fn os_signal(&mut self, _cx: &mut Cx<'_>, _number: i32) {}

    /// For sources that follow a capture's time stamps: when their next packet is due. Under the trace clock
    /// the engine lets the source with the earliest time run, after all timers due by then.
    fn next_time(&self) -> Option<Timestamp> {
        None
    }

    /// At the end of a run, in graph order: mechanisms push out what they hold, stores drop it with
    /// [`DropReason::Stop`]. Afterwards [`held`](Element::held) is zero unless a timer still has work to do. It
    /// runs again where something came in since.
    fn drain(&mut self, _cx: &mut Cx<'_>) {}

    /// After draining: flush and close files and devices.
    ///
    /// # Errors
    /// A text that says what could not be written.
    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Packets that the element holds now.
    fn held(&self) -> usize {
        0
    }

    /// Packets that have come for the element outside, to an interface, and were lost there for want of room, as far as it
    /// has heard: for the report, in which they are in no other count.
    fn missed(&self) -> u64 {
        0
    }

    /// Answers the read handler `name`.
    ///
    /// # Errors
    /// A text for the user.
    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Err(format!("'{name}' is not a read handler"))
    }

    /// Executes the write handler `name`.
    ///
    /// # Errors
    /// A text for the user; nothing was changed.
    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _value: &str) -> Result<(), String> {
        Err(format!("'{name}' is not a write handler"))
    }

    /// Counts packets that another element has dealt with in this one's place, as if they had come here. Only for elements
    /// that declare [`Counts::Told`](effects::Counts::Told) is it needed; the engine's own counts are not theirs to keep.
    fn tally(&mut self, _tally: &Tally) {}

    /// For elements that stand for others ([`Effects::stands_for`]): tells what has been done for each of them since it was
    /// asked last, and forgets it.
    ///
    /// It is asked before handlers of any element are read or written, before state is taken, and before the report.
    fn settle(&mut self, _tell: &mut dyn FnMut(ElementId, Tally)) {}

    /// For elements that stand for others: one of these does not do any more what it declared at the start, because of a
    /// handler. From now on packets must be left to itself.
    fn outdated(&mut self, _element: ElementId) {}

    /// Handlers that depend on the configuration, beside those of the class; [`class::ANY_HANDLER`] stands for
    /// all further names.
    fn own_handlers(&self) -> Vec<(String, Access)> {
        Vec::new()
    }

    /// The handler calls that the element's arguments lead to, where they are more than arguments whose type is
    /// `HANDLER [VALUE]`, or `N HANDLER [VALUE]`.
    fn planned_calls(&self) -> Vec<PlannedCall> {
        Vec::new()
    }

    /// Asked when the driver is about to stop, if the element manages the driver (see [`Notes`]): true if the
    /// run really ends now.
    fn stop_requested(&mut self, _cx: &mut Cx<'_>) -> bool {
        true
    }

    /// Gives up the state that a new element of the same class and name could go on with.
    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Goes on with the state of an earlier element.
    ///
    /// # Errors
    /// A text that says why it does not fit; the element then starts afresh.
    fn put_state(&mut self, _cx: &mut Cx<'_>, _state: Box<dyn Any + Send>) -> Result<(), String> {
        Err("this element keeps no state".into())
    }
}
