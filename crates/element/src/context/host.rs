//! The interface that the engine implements for elements, and the types of their requests.

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
    /// The element. `None` for a handler of the whole graph.
    pub element: Option<ElementId>,
    /// The handler's name.
    pub handler: String,
    /// The value or parameter.
    pub value: String,
    /// The rights of the call.
    pub rights: Rights,
}

impl Call {
    /// Makes a call on behalf of the configuration.
    pub fn new(element: Option<ElementId>, handler: impl Into<String>, value: impl Into<String>) -> Call {
        Call { element, handler: handler.into(), value: value.into(), rights: Rights::default() }
    }

    /// Parses `element.handler value` as written by the current element. A bare `handler` belongs to the
    /// element that `own` returns for it, otherwise to the graph; `.handler` belongs to the graph. If the
    /// text comes from a client, the call has the client's rights.
    ///
    /// # Errors
    /// Click's text for the error.
    pub fn parse(text: &str, cx: &Cx<'_>, own: impl Fn(&str) -> Option<ElementId>) -> Result<Call, String> {
        let call = Call::of_configuration(text, &cx.place(), own)?;
        Ok(Call { rights: cx.rights().clone(), ..call })
    }

    /// Parses `element.handler value` in a configuration, for an element at `place`, like [`Call::parse`].
    ///
    /// # Errors
    /// Click's text for the error.
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

/// A handler call that an element will make, as far as its arguments determine it. It allows a check that
/// the handler exists before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The call, as for [`Call::parse`].
    pub text: String,
    /// True if the call writes the handler.
    pub writes: bool,
    /// True if the call is made in every run.
    pub is_certain: bool,
    /// The number of the argument that contains the call.
    pub argument: usize,
}

/// A signal of an element to other elements along the pull and push paths (Click's notifiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A signal to elements that pull from it, directly or through others, that there are packets.
    Packets,
    /// A signal to elements that push to it, directly or through others, that there is room.
    Room,
}

/// The operation for which an element waits on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Reading, or accepting a connection.
    Read,
    /// Writing.
    Write,
    /// Reading or writing.
    Both,
    /// Reading, for input that is of use only while the run goes on: the run does not wait for this input
    /// if it has nothing else to do.
    Aside,
}

/// The destination of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: values that users asked for.
    Output,
    /// Standard error: messages and printed packets.
    Messages,
    /// Standard error: a line about the run. In a log its time and severity come first.
    Log(Severity),
}

/// The precision of a timer under the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A worker without work is awake when the timer is due: it wakes up earlier by the delay with which
    /// its sleeps end.
    Exact,
    /// The timer is late by the delay with which a sleep ends. It is meant for polling, many times a
    /// millisecond, a device that does not signal when it is ready.
    Coarse,
}

/// An element that has published a service, and the service.
pub type Nearby = (ElementId, Arc<dyn Any + Send + Sync>);

/// The engine's side: pulling, and everything that an element requests less than once per batch.
pub trait Host {
    /// Pulls at most `max` packets from the element that is connected to an input.
    fn pull(&mut self, core: &mut Core, element: ElementId, input: usize, max: usize) -> Batch;
    /// Schedules or unschedules the element's task.
    fn schedule(&mut self, element: ElementId, on: bool);
    /// True if the task is scheduled.
    fn is_scheduled(&self, element: ElementId) -> bool;
    /// Sets the element's timer `token`, or clears it.
    fn set_timer(&mut self, element: ElementId, token: u32, at: Option<(Timestamp, Precision)>);
    /// Waits for a file on behalf of the element, or stops waiting.
    fn watch(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>);
    /// Makes the element receive a signal of the operating system, or ends this.
    ///
    /// # Errors
    /// If the signal cannot be waited for.
    fn on_os_signal(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()>;
    /// Changes a signal that the element gives.
    fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool);
    /// True if any element that the signal can come from, over the port, gives the signal, or if one of
    /// them gives no signals at all.
    fn signal(&self, element: ElementId, signal: Signal, port: usize) -> bool;
    /// Calls a read handler.
    ///
    /// # Errors
    /// A text for the user.
    fn read(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<String, String>;
    /// Calls a write handler.
    ///
    /// # Errors
    /// A text for the user.
    fn write(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<(), String>;
    /// Asks the driver to stop.
    fn stop(&mut self);
    /// Writes text.
    fn print(&mut self, stream: Stream, text: fmt::Arguments<'_>);
    /// Returns the worker that this copy of the graph belongs to, and the number of workers.
    fn worker(&self) -> (usize, usize);
    /// Returns the number of workers at which an element works.
    fn copies(&self, element: ElementId) -> usize;
    /// Returns the arguments of the running element of the same name and class whose place this element is
    /// to take, if there is one.
    fn predecessor(&self, element: ElementId) -> Option<&[String]>;
    /// Returns the key of the hash that determines to which worker packets belong.
    fn steering_key(&self) -> rss::Key;
    /// Returns the worker that a frame belongs to.
    fn worker_of(&self, frame: &[u8], link: LinkType) -> usize;
    /// Returns the worker whose copy of an element a packet belongs to.
    fn owner_of(&self, element: ElementId, packet: &Packet) -> usize;
    /// Returns the worker whose copy of an element packets between two ends belong to.
    fn worker_between(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize;
    /// Returns the place at which names in the element's values are looked up.
    fn place(&self, element: ElementId) -> Place<'_>;
    /// Returns the element's name and class.
    fn name(&self, element: ElementId) -> (&str, &'static str);
    /// True if an output (or an input) of an element is a push port.
    fn is_push(&self, element: ElementId, output: bool, port: usize) -> bool;
    /// Returns a service that an element has published, by its type.
    fn service(&self, element: ElementId, of: std::any::TypeId) -> Option<Arc<dyn Any + Send + Sync>>;
    /// Returns the nearest elements that have published a service of a type, along every path that packets
    /// can take from the element's outputs (or to its inputs), and their services.
    fn nearest(&self, element: ElementId, downstream: bool, of: std::any::TypeId) -> Vec<Nearby>;

    /// Returns all elements that packets which leave by an output may come to.
    fn reached(&self, element: ElementId, output: usize) -> std::collections::BTreeSet<ElementId>;

    /// Returns the state of a signal at a port. For each element that gives the signal, it has the
    /// element's number among all elements that give this signal, and true if the signal is on. `None` if
    /// an element on the path gives no signal.
    fn signal_sources(&self, element: ElementId, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>>;
    /// Returns a counter of processor cycles, for meters; it is not reproducible.
    fn cycles(&self) -> u64;
    /// True if the handler exists and can be read (or written).
    fn has_handler(&self, call: &Call, write: bool) -> bool;
}
