//! What the engine does for elements, and what they say to each other through it.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flow::rss;
use lang::Severity;
use packet::{Batch, Packet, Timestamp};
use wire::LinkType;

use super::{Core, Cx};
use crate::args::Place;
use crate::{ElementId, Rights};

/// A handler call that a configuration asks for: `element.handler value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The element; `None` for a handler of the whole graph.
    pub element: Option<ElementId>,
    /// The handler's name.
    pub handler: String,
    /// The value or parameter.
    pub value: String,
    /// What it may have done.
    pub rights: Rights,
}

impl Call {
    /// A call of the configuration's.
    pub fn new(element: Option<ElementId>, handler: impl Into<String>, value: impl Into<String>) -> Call {
        Call { element, handler: handler.into(), value: value.into(), rights: Rights::default() }
    }

    /// Reads `element.handler value` as written by the element at hand. A bare `handler` is the element's
    /// own if `own` knows it, else the graph's; so is `.handler`. Where the text comes from a client, the call has the
    /// client's rights.
    ///
    /// # Errors
    /// Click's words for what is wrong.
    pub fn parse(text: &str, cx: &Cx<'_>, own: impl Fn(&str) -> Option<ElementId>) -> Result<Call, String> {
        let call = Call::of_configuration(text, &cx.place(), own)?;
        Ok(Call { rights: cx.rights().clone(), ..call })
    }

    /// Reads `element.handler value` that stands in a configuration, for an element at `place`, as [`Call::parse`] does.
    ///
    /// # Errors
    /// Click's words for what is wrong.
    pub fn of_configuration(
        text: &str,
        place: &Place<'_>,
        own: impl Fn(&str) -> Option<ElementId>,
    ) -> Result<Call, String> {
        let text = text.trim();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (target, value) = (&text[..end], text[end..].trim().to_string());
        if target.is_empty() || target.ends_with('.') {
            return Err("syntax error".into());
        }
        let (element, handler) = match target.rsplit_once('.') {
            None => (own(target), target),
            Some(("", handler)) => (None, handler),
            Some((element, handler)) => {
                let id = place.element(element).ok_or_else(|| format!("no element named '{element}'"))?;
                (Some(id), handler)
            }
        };
        Ok(Call::new(element, handler, value))
    }
}

/// A handler call that an element is going to make, as far as its arguments tell: for who looks whether there is such a handler
/// before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The call, as for [`Call::parse`].
    pub text: String,
    /// True if it writes.
    pub writes: bool,
    /// True if it is made in every run.
    pub is_certain: bool,
    /// The number of the argument that it stands in.
    pub argument: usize,
}

/// What an element tells its neighbours over the pull and push paths (Click's notifiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// To those who pull from it, directly or through others: there are packets.
    Packets,
    /// To those who push to it, directly or through others: there is room.
    Room,
}

/// What an element waits for a file to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Reading, or accepting a connection.
    Read,
    /// Writing.
    Write,
    /// Either.
    Both,
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: values that users asked for.
    Output,
    /// Standard error: messages and printed packets.
    Messages,
    /// Standard error: a line about the run, which has its time and severity in front where it belongs into a log.
    Log(Severity),
}

/// The precision of a timer under the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A worker without work is awake when the timer is due, for as long before as its sleeps end late.
    Exact,
    /// The timer runs as late as a sleep ends: for looks, many times a millisecond, at a device that does not tell when it is ready.
    Coarse,
}

/// An element that has published a service, and the service.
pub type Nearby = (ElementId, Arc<dyn Any + Send + Sync>);

/// The engine's side: everything that an element asks for less than once per batch, and pulling.
pub trait Host {
    /// Pulls at most `max` packets from what is connected to an input.
    fn pull(&mut self, core: &mut Core, element: ElementId, input: usize, max: usize) -> Batch;
    /// Schedules or unschedules the element's task.
    fn schedule(&mut self, element: ElementId, on: bool);
    /// Whether the task is scheduled.
    fn is_scheduled(&self, element: ElementId) -> bool;
    /// Sets the element's timer `token`, or clears it.
    fn set_timer(&mut self, element: ElementId, token: u32, at: Option<(Timestamp, Precision)>);
    /// Waits for a file on behalf of the element, or stops waiting.
    fn watch(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>);
    /// Lets the element hear of a signal of the operating system, or not any more.
    ///
    /// # Errors
    /// For a signal that cannot be waited for.
    fn on_os_signal(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()>;
    /// Changes a signal that the element gives.
    fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool);
    /// Whether any element that the signal can come from, over the port, gives it; true if one of them gives
    /// no signals at all.
    fn signal(&self, element: ElementId, signal: Signal, port: usize) -> bool;
    /// Calls a read handler.
    ///
    /// # Errors
    /// What the user should know.
    fn read(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<String, String>;
    /// Calls a write handler.
    ///
    /// # Errors
    /// What the user should know.
    fn write(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<(), String>;
    /// Asks the driver to stop.
    fn stop(&mut self);
    /// Writes text.
    fn print(&mut self, stream: Stream, text: fmt::Arguments<'_>);
    /// Which worker's copy of the graph this is, and how many there are.
    fn worker(&self) -> (usize, usize);
    /// How many workers do the work of an element.
    fn copies(&self, element: ElementId) -> usize;
    /// The arguments of the element of the same name and class that is at work, in the place of which this one is made.
    fn predecessor(&self, element: ElementId) -> Option<&[String]>;
    /// The key of the hash by which packets belong to workers.
    fn steering_key(&self) -> rss::Key;
    /// The worker that a frame belongs to.
    fn worker_of(&self, frame: &[u8], link: LinkType) -> usize;
    /// The worker whose copy of an element a packet belongs to.
    fn owner_of(&self, element: ElementId, packet: &Packet) -> usize;
    /// The same for packets between two ends.
    fn worker_between(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize;
    /// Where names in the element's values are looked up.
    fn place(&self, element: ElementId) -> Place<'_>;
    /// The element's name and class.
    fn name(&self, element: ElementId) -> (&str, &'static str);
    /// Whether an output (or an input) of an element is a push port.
    fn is_push(&self, element: ElementId, output: bool, port: usize) -> bool;
    /// A service that an element has published, by its type.
    fn service(&self, element: ElementId, of: std::any::TypeId) -> Option<Arc<dyn Any + Send + Sync>>;
    /// The nearest elements that have published a service of a type, along every path that packets can take
    /// from the element's outputs (or to its inputs), and their services.
    fn nearest(&self, element: ElementId, downstream: bool, of: std::any::TypeId) -> Vec<Nearby>;

    /// All elements that packets may come to that leave by an output.
    fn reached(&self, element: ElementId, output: usize) -> std::collections::BTreeSet<ElementId>;

    /// The state of what a port hears of a signal: for each giver its number among all that give this signal,
    /// and whether it is on. `None` where somebody on the way gives none.
    fn givers(&self, element: ElementId, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>>;
    /// A counter of processor cycles, for meters; not reproducible.
    fn cycles(&self) -> u64;
    /// Whether the handler exists and can be read (or written).
    fn has_handler(&self, call: &Call, write: bool) -> bool;
}
