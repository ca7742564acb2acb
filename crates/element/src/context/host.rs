//! The interface through which elements make requests to the engine, and the types of the requests.

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
use crate::args::Scope;
use crate::{ElementId, Rights};

/// A call of a handler: `element.handler value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The element that has the handler. `None` for a handler of the whole graph.
    pub element: Option<ElementId>,
    /// The handler's name.
    pub handler: String,
    /// The value that is written, or the parameter with which the handler is read.
    pub value: String,
    /// The rights of the caller, which decide where a write handler may create files.
    pub rights: Rights,
}

impl Call {
    /// Makes a call with the rights of the configuration.
    pub fn new(element: Option<ElementId>, handler: impl Into<String>, value: impl Into<String>) -> Call {
        Call { element, handler: handler.into(), value: value.into(), rights: Rights::default() }
    }

    /// Parses `element.handler value` for the element of the context `cx`. A bare `handler` belongs to the
    /// element that `own` returns for the handler's name, or to the graph if `own` returns `None`; `.handler`
    /// belongs to the graph. The call has the rights of the caller of the write handler that is being
    /// executed ([`Cx::rights`]), such as a client.
    ///
    /// # Errors
    /// Click's text for the error.
    pub fn parse(text: &str, cx: &Cx<'_>, own: impl Fn(&str) -> Option<ElementId>) -> Result<Call, String> {
        let call = Call::of_configuration(text, &cx.place(), own)?;
        Ok(Call { rights: cx.rights().clone(), ..call })
    }

    /// Parses `element.handler value`, like [`Call::parse`], in an argument of an element at `place`. The
    /// call has the rights of the configuration.
    ///
    /// # Errors
    /// Click's text for the error.
    pub fn of_configuration(
        text: &str,
        place: &Scope<'_>,
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

/// A handler call that an element will make during the run, as far as its arguments determine it. With it
/// the engine can check before the run that the handler exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The call, in the form that [`Call::parse`] parses.
    pub text: String,
    /// True if the call writes the handler, false if it reads it.
    pub writes: bool,
    /// True if the call is made in every run, so that a missing handler is an error.
    pub is_certain: bool,
    /// The index of the argument that contains the call, among all arguments of the element.
    pub argument: usize,
}

/// A signal of an element to elements upstream or downstream (Click's notifiers). Without room, elements
/// upstream need not push to the element; without packets, elements downstream need not pull from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A signal to elements downstream that pull from the element, directly or through other elements: it
    /// has packets.
    Packets,
    /// A signal to elements upstream that push to the element, directly or through other elements: it has
    /// room.
    Room,
}

/// The operation on a file for which an element waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Reading, or accepting a connection.
    Read,
    /// Writing.
    Write,
    /// Reading or writing.
    Both,
    /// Reading, for input that is of no use once the run has nothing else to do: the run ends without
    /// waiting for this input.
    Aside,
}

/// The destination of text that an element writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output: values that users asked for.
    Output,
    /// Standard error: messages and printed packets.
    Messages,
    /// Standard error: a line about the run. In a log, its time and severity precede it.
    Log(Severity),
}

/// The precision of a timer under the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Exact to the machine's clock. A worker without work wakes up earlier, by the delay with which its
    /// sleeps end, so that it is awake when the timer is due.
    Exact,
    /// Late by the delay with which a sleep of the worker ends. It is meant for timers that poll a device,
    /// which does not signal when it is ready, many times a millisecond.
    Coarse,
    /// Late like [`Coarse`](Self::Coarse), and no reason to go on: a run that ends when nothing is left to do
    /// ends although the timer is set. It is meant for work that is done at the end of a run in any case,
    /// such as writing a buffer to a file.
    Background,
}

/// The number of an element that has published a service, and the service.
pub type Nearby = (ElementId, Arc<dyn Any + Send + Sync>);

/// The requests that the engine executes for elements: pulling, and everything that an element requests less
/// than once per batch. The parameter `element` is the number of the element that makes the request or that
/// the request is about.
pub trait Host {
    /// Pulls at most `max` packets from the element that is connected to an input of `element`.
    fn pull(&mut self, core: &mut Core, element: ElementId, input: usize, max: usize) -> Batch;
    /// Schedules the element's task, or unschedules it if `on` is false.
    fn schedule(&mut self, element: ElementId, on: bool);
    /// True if the element's task is scheduled.
    fn is_scheduled(&self, element: ElementId) -> bool;
    /// Sets the element's timer `token` to a time; `None` clears it.
    fn set_timer(&mut self, element: ElementId, token: u32, at: Option<(Timestamp, Precision)>);
    /// Watches a file for the element under the number `token`; `None` stops watching.
    fn watch(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>);
    /// Makes the element receive the signal `number` of the operating system; stops this if `on` is false.
    ///
    /// # Errors
    /// If the operating system does not allow to wait for the signal.
    fn on_os_signal(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()>;
    /// Switches a signal that the element gives on or off.
    fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool);
    /// True if an element whose signal reaches the port has switched the signal on. Also true if a path from
    /// the port ends at an element that gives no such signal, because packets (or room) must then be expected
    /// at any time, and for [`Signal::Room`] if no signal reaches the port.
    fn signal(&self, element: ElementId, signal: Signal, port: usize) -> bool;
    /// Reads a handler for the element `caller`.
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be read.
    fn read(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<String, String>;
    /// Writes a handler for the element `caller`.
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be written.
    fn write(&mut self, core: &mut Core, caller: ElementId, call: &Call) -> Result<(), String>;
    /// Writes a handler for the element `caller`, as [`Handlers::write_later`](super::Handlers::write_later)
    /// does.
    fn write_later(
        &mut self,
        core: &mut Core,
        caller: ElementId,
        call: &Call,
        _token: u32,
    ) -> Option<Result<(), String>> {
        Some(self.write(core, caller, call))
    }
    /// Asks the driver to stop.
    fn stop(&mut self);
    /// Writes text to a destination.
    fn print(&mut self, stream: OutputStream, text: fmt::Arguments<'_>);
    /// Returns the number of the worker that this copy of the graph belongs to, from 0, and the number of
    /// workers.
    fn worker(&self) -> (usize, usize);
    /// Returns the number of workers that have a working copy of an element: one, or all to which flows
    /// belong.
    fn copies(&self, element: ElementId) -> usize;
    /// Returns the arguments, as one text, of the running element that `element` will replace, which has the
    /// same name and class. `None` if it replaces no element.
    fn predecessor(&self, element: ElementId) -> Option<&str>;
    /// True if the graph replaces or has replaced another one.
    fn is_of_reload(&self) -> bool;
    /// Returns the key of the hash that determines to which worker a packet belongs.
    fn steering_key(&self) -> rss::ToeplitzKey;
    /// Returns the worker to which a frame with a link header of type `link` belongs.
    fn worker_of(&self, frame: &[u8], link: LinkType) -> usize;
    /// Returns the worker whose copy of `element` has to process a packet.
    fn owner_of(&self, element: ElementId, packet: &Packet) -> usize;
    /// Returns the worker whose copy of `element` has to process packets between two endpoints, each an
    /// address and a port.
    fn worker_between(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize;
    /// Returns the element's place in the configuration, by which names in values of its handlers are
    /// resolved.
    fn place(&self, element: ElementId) -> Scope<'_>;
    /// Returns the name of an element and the name of its class.
    fn name(&self, element: ElementId) -> (&str, &'static str);
    /// True if an output of an element (or an input, if `output` is false) is a push port.
    fn is_push(&self, element: ElementId, output: bool, port: usize) -> bool;
    /// Returns the service of a type that an element has published; `None` if it has published none.
    fn service(&self, element: ElementId, of: std::any::TypeId) -> Option<Arc<dyn Any + Send + Sync>>;
    /// Returns the nearest elements that have published a service of a type, with their services. The
    /// search follows every path that packets can take from the element's outputs (or to its inputs, if
    /// `downstream` is false).
    fn nearest(&self, element: ElementId, downstream: bool, of: std::any::TypeId) -> Vec<Nearby>;

    /// Returns the numbers of all elements to which packets that leave by an output may come.
    fn reached(&self, element: ElementId, output: usize) -> std::collections::BTreeSet<ElementId>;

    /// Returns the state of a signal at a port. Each element from which the signal can come has an entry: its
    /// number in the list of all elements that give this signal, and true if the signal is on. `None` if the
    /// signal counts as always on, for example because an element on the path gives no such signal
    /// ([`signal`](Self::signal)).
    fn signal_sources(&self, element: ElementId, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>>;
    /// Returns a count of processor cycles, for meters. It differs from run to run.
    fn cycles(&self) -> u64;
    /// True if the handler of a call exists and can be read (or written, if `write` is true).
    fn has_handler(&self, call: &Call, write: bool) -> bool;
    /// True if reading the handler of a call may run a script, which may change the graph.
    fn runs_script(&self, call: &Call) -> bool;
}
