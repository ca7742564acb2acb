//! The contract between elements, the engine that runs them, and the mechanisms that optimise them.
//!
//! An element is a small state machine ([`Element`]) with a description of its class ([`Class`]: ports,
//! processing, arguments, handlers, manual) and a declaration of what it does to packets ([`Effects`]). The
//! engine runs elements, and each mechanism decides from the declarations. Neither engine nor mechanisms
//! know an element by its name, except where the synthesizer writes configurations.
//!
//! - [`effects`]: the declaration, on which all mechanisms depend; [`obstacles`]: the reasons for which a
//!   declaration prevents a mechanism
//! - [`class`]: the description of a class, and the registry of classes
//! - [`args`]: typed reading of configuration arguments, with Click's rules and error texts; [`setup`]: the
//!   state that elements share while they are configured
//! - [`background`]: threads for work beside the workers
//! - [`chatter`]: the messages of a run, for elements that pass them on
//! - [`context`]: the requests that an element can make to the engine while it handles packets ([`Cx`])
//! - [`ports`]: Click's port count and processing codes
//! - [`five_tuple`](mod@five_tuple): the flow that a packet belongs to; [`frame`]: the offset of the IP
//!   header in a frame, and its VLANs
//! - [`handlers`]: tables of handlers
//! - [`lease`]: flows that an element leases to another element
//! - [`histogram`]: histograms that elements show
//! - [`names`]: names that configurations give to [`addresses`] and ports
//! - [`reload`]: the state that a class keeps, and what a reload does with it
//! - [`save`]: the form in which an element writes its state to a file, for a restart
//! - [`services`]: names of ports that the machine knows
//! - [`steering`]: the worker that a packet belongs to
//! - [`tally`]: counts of packets that another element processed in place of this element
//! - [`mod@manual`]: reading the doc block of an element's file

mod absent;
pub mod addresses;
pub mod args;
pub mod background;
pub mod chatter;
pub mod checksums;
pub mod class;
pub mod context;
pub mod effects;
mod facts;
mod files;
pub mod five_tuple;
pub mod frame;
pub mod handlers;
pub mod histogram;
mod interfaces;
pub mod lease;
pub mod manual;
pub mod metrics;
pub mod names;
pub mod obstacles;
pub mod offload;
pub mod ports;
mod random;
pub mod reload;
mod rights;
pub mod runs;
mod sample;
pub mod save;
pub mod services;
pub mod setup;
pub mod steering;
pub mod tally;
pub mod view;
mod write_timer;

use std::any::Any;

pub use absent::Absent;
pub use args::{Args, Complaint, Invalid};
pub use class::{Access, ArgInfo, Class, ConfigurePhase, DefaultValue, HandlerInfo, Notes, Registry};
pub use context::{
    Call, Core, Counters, Cx, Host, Interest, OutputStream, PlannedCall, Precision, Signal, WholeLengths,
};
pub use effects::Effects;
pub use facts::Facts;
pub use files::{FileScope, Folder};
pub use handlers::Handler;
pub use lang::Severity;
pub use metrics::{Metric, MetricKind};
pub use packet::{Base, Batch, DropReason, Packet, Timestamp};
pub use random::Random;
pub use reload::{OnReload, StatePart};
pub use rights::{CallOrigin, Rights};
pub use sample::Sample;
pub use save::{Damaged, Loaded, SavedState, StateReader, StateWriter};
pub use setup::Setup;
pub use tally::Tally;
pub use write_timer::WriteTimer;

/// The number of an element: its index among all elements of its graph.
pub type ElementId = usize;

/// An element of a running graph.
///
/// Contract: every packet that comes in is emitted, held (and then counted by [`held`](Element::held)),
/// sent or dropped with a reason before the call returns; debug builds check this after each call, and
/// every run at its end. An element never calls another element: it hands batches to [`Cx::emit`], and the
/// engine runs the element that is connected. After warm-up no call may allocate memory per batch, except
/// to make text for people.
pub trait Element: Send + Any {
    /// Returns the declaration of what the element does to packets, for its configuration and its number of
    /// ports.
    fn effects(&self) -> Effects;

    /// Prepares the element before its first packet: opens files, looks up services and other elements,
    /// schedules its task. The engine calls it once, after all elements were configured. If the element or
    /// its graph replaces another one that runs, the engine calls it while that one still runs.
    ///
    /// # Errors
    /// A text that says what is wrong and what to do. The graph then does not run; a running graph goes on
    /// as it was.
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Processes the packets that arrive on the push input `port`. The returned batch leaves by output 0,
    /// after everything that the element has emitted in the call; this is faster than emitting it. The
    /// default runs [`process`](Element::process) and returns the batch.
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        self.process(cx, &mut batch);
        Some(batch)
    }

    /// Returns at most `max` packets to the element that pulls from the output `port`. An empty batch means
    /// that there are no packets now. The default pulls from input 0 and runs [`process`](Element::process).
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.pull(0, max);
        self.process(cx, &mut batch);
        batch
    }

    /// Changes the packets of a batch in place, may remove packets from it, and may emit packets to outputs
    /// other than 0. An element that does the same to pushed and pulled packets needs only this function:
    /// `push` and `pull` call it.
    fn process(&mut self, _cx: &mut Cx<'_>, _batch: &mut Batch) {}

    /// Runs the element's task. The engine calls it if the task is scheduled, and unschedules the task
    /// before; the element schedules it again by [`Cx::schedule`]. Returns true if there was something to
    /// do.
    fn run(&mut self, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// Runs when a timer of the element expires. `token` is the number under which the element has set the
    /// timer ([`Cx::set_timer`]). Under the trace clock, [`Cx::now`] is the time for which the timer was set,
    /// or a later time that was reached before.
    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {}

    /// Runs when a file that the element watches ([`context::FileEvents::watch`]) can be read or written,
    /// or is at its end. The engine runs it again as long as the file stays so. `token` is the number under
    /// which the element watches the file.
    fn ready(&mut self, _cx: &mut Cx<'_>, _token: u32) {}

    /// Runs when the process has received a signal of the operating system that the element waits for
    /// ([`context::FileEvents::on_os_signal`]). `number` is the number of the signal.
    fn os_signal(&mut self, _cx: &mut Cx<'_>, _number: i32) {}

    /// The time stamp of the next packet, for sources that follow a capture's time stamps. `None` if there is
    /// no further packet, and for all other elements. Under the trace clock the engine runs the source with
    /// the earliest time. Before that, it runs the timers that are due until that time. It leaves out timers
    /// that are due too long after the last packet of any capture, and further timers if too many have run in
    /// a row without a change of time.
    fn next_time(&self) -> Option<Timestamp> {
        None
    }

    /// Empties the element at the end of a run, and when a changed configuration replaces the element's
    /// graph. The engine calls it for upstream elements first. Elements that hold packets for a time emit
    /// them, and stores drop them with [`DropReason::Stop`]. Afterwards [`held`](Element::held) is zero
    /// unless a timer still has work to do. The engine repeats the calls as long as elements hold packets and
    /// packets move.
    fn drain(&mut self, _cx: &mut Cx<'_>) {}

    /// Flushes and closes the files and devices of the element, after [`drain`](Element::drain).
    ///
    /// # Errors
    /// A text that says what could not be written.
    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// The number of packets that the element holds now. The engine uses it to check that no packet was
    /// lost.
    fn held(&self) -> usize {
        0
    }

    /// The number of packets that a network interface dropped because its memory was full, before they came
    /// to the element. It is the number that the interface has reported so far. The report shows this
    /// number; no other counter includes these packets.
    fn missed(&self) -> u64 {
        0
    }

    /// Counts packets that another element processed in place of this element, as if they had come here.
    /// Only elements that declare [`Counting::Tallied`](effects::Counting::Tallied) need it. The engine
    /// updates its own counters of the element ([`Counters`]) by itself.
    fn tally(&mut self, _tally: &Tally) {}

    /// Calls `tell` with each tally for an element that this element replaces ([`Effects::replaces`]), and
    /// then resets the tallies. A tally covers the packets since the last call.
    ///
    /// The engine calls it before a handler of any element is read or written, before it takes the state of
    /// an element ([`take_state`](Element::take_state)), before the report, and at the end of the run.
    fn settle(&mut self, _tell: &mut dyn FnMut(ElementId, Tally)) {}

    /// Tells this element that an element which it replaces ([`Effects::replaces`]) no longer does what it
    /// declared at the start. The reason is a write to a handler of that element, or of an element whose
    /// state it uses. From now on packets must go to that element itself.
    fn outdated(&mut self, _element: ElementId) {}

    /// The handler calls that the element will make according to its arguments, so that the engine can
    /// check them before the run. Keyword arguments of type `HANDLER [VALUE]` or `N HANDLER [VALUE]` need
    /// not be listed: the engine reads them itself.
    fn planned_calls(&self) -> Vec<PlannedCall> {
        Vec::new()
    }

    /// Returns the current arguments in the form in which the handler `config` and the flat configuration
    /// show them. An element of the same class that is made with them does the same. `None` if they are shown
    /// as they were given at the start or written last.
    ///
    /// Classes whose handler `config` has a text of its own in Click implement it.
    fn configuration(&self) -> Option<String> {
        None
    }

    /// True if the run may end now. When the driver is about to stop, the engine asks the elements that
    /// manage the driver ([`Notes::manages_driver`]), one after the other, until one of them refuses.
    fn stop_requested(&mut self, _cx: &mut Cx<'_>) -> bool {
        true
    }

    /// Takes the result of a handler that the element has written by
    /// [`write_later`](context::Handlers::write_later), with the token of that call.
    fn answered(&mut self, _cx: &mut Cx<'_>, _token: u32, _result: Result<(), String>) {}

    /// Hands over the state with which a new element of the same class and name can continue, when the
    /// configuration changes while the graph runs. `None` if there is nothing to continue. The class
    /// declares what the state contains ([`Class::state`]).
    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Continues with the state that an earlier element of the same class and name has returned
    /// ([`take_state`](Element::take_state)).
    ///
    /// # Errors
    /// A text that says why the state does not fit. The element then starts without it.
    fn put_state(&mut self, _cx: &mut Cx<'_>, _state: Box<dyn Any + Send>) -> Result<(), String> {
        Err("this element keeps no state".into())
    }

    /// Writes a piece of the state that survives a restart to `out`, in the form of [`Class::saved_form`].
    /// Returns the position at which the next call continues, or `None` if the state is complete. The engine
    /// passes this position as `from`; the first call gets 0. The engine calls it between batches while the
    /// run goes on, so it must return when the piece is full ([`StateWriter::is_full`]). An entry that
    /// changes its position between calls may be written twice or not at all.
    fn save_state(&mut self, _cx: &mut Cx<'_>, _from: u64, _out: &mut StateWriter) -> Option<u64> {
        None
    }

    /// Continues with the state that an element of the same class and name has written
    /// ([`save_state`](Element::save_state)) in an earlier run. The engine calls it after all elements were
    /// initialised and before the first packet, if there is such a state in the form of
    /// [`Class::saved_form`]. The copy of each worker gets the pieces of all workers, in no special order,
    /// and takes the entries whose packets may come to its worker ([`context::PacketOwners::between`]).
    ///
    /// # Errors
    /// If the bytes are damaged. The element then starts without any of the state.
    fn load_state(&mut self, _cx: &mut Cx<'_>, _state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        Ok(Loaded::default())
    }
}
