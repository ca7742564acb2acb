//! The connections of a control socket's clients, and what their commands reach.

use std::io::ErrorKind;

use element::{Call, Cx, ElementId, Interest, Rights, Timestamp};

use super::listener::{Address, Stream};
use super::protocol::{Handlers, Session};

/// The largest number of bytes that are read from a connection each time that it is served, so that a busy
/// client does not delay packets.
const MOST_READ: usize = 64 << 10;

/// The connection of a client.
pub(super) struct Connection {
    pub(super) token: u32,
    pub(super) stream: Stream,
    pub(super) session: Session,
    /// The events of the connection (readable, writable) for which the engine calls the element.
    pub(super) interest: Interest,
    /// The value of the element's `heard` when this connection was last served. The connection with the
    /// smallest value has been silent for longest.
    pub(super) heard: u64,
    /// The time at which the connection was last served.
    pub(super) served: Timestamp,
}

impl Connection {
    /// Reads bytes that have arrived, at most `MOST_READ`, into the session. Returns false if the
    /// connection is lost.
    pub(super) fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..MOST_READ / buffer.len() {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.session.take_in(&[]);
                    return true;
                }
                Ok(n) => self.session.take_in(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends output until all is sent or the connection takes no more. Returns false if the connection is
    /// lost.
    pub(super) fn send(&mut self) -> bool {
        let mut sent = 0;
        let open = loop {
            match self.stream.write(&self.session.output[sent..]) {
                _ if sent == self.session.output.len() => break true,
                Ok(0) => break false,
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        self.session.output.drain(..sent);
        open
    }
}

/// The access of this element's clients to the handlers of the graph, for the execution of one client's
/// commands.
pub(super) struct Reach<'a, 'b> {
    pub(super) socket: &'a Address,
    pub(super) port: Option<u16>,
    pub(super) proxy: Option<ElementId>,
    pub(super) rights: &'a Rights,
    /// The token of the client's connection.
    pub(super) token: u32,
    pub(super) cx: &'a mut Cx<'b>,
}

impl Handlers for Reach<'_, '_> {
    fn element(&self, name: &str) -> Option<ElementId> {
        let by_number =
            || name.parse::<usize>().ok()?.checked_sub(1).filter(|&id| id < self.cx.place().elements());
        self.cx.place().element(name).or_else(by_number)
    }

    fn proxy(&self) -> Option<ElementId> {
        self.proxy
    }

    fn has(&self, call: &Call, write: bool) -> bool {
        match own_value(self.socket, self.port, call, self.cx.id()) {
            Some(_) => !write,
            None => self.cx.graph().has_handler(call, write),
        }
    }

    fn runs_script(&self, call: &Call) -> bool {
        self.cx.graph().runs_script(call)
    }

    fn read(&mut self, call: &Call) -> Result<String, String> {
        match own_value(self.socket, self.port, call, self.cx.id()) {
            Some(value) => Ok(value),
            None => self.cx.handlers().read(call),
        }
    }

    fn write(&mut self, call: &Call) -> Option<Result<(), String>> {
        let call = Call { rights: self.rights.clone(), ..call.clone() };
        self.cx.handlers().write_later(&call, self.token)
    }
}

/// Returns the value of a handler of this element itself: `port` of a TCP socket, or `filename` of a Unix
/// socket. Returns `None` for all other handlers. The two handlers are answered here because the engine
/// cannot call an element while this element is running.
pub(super) fn own_value(address: &Address, port: Option<u16>, call: &Call, own: ElementId) -> Option<String> {
    match (address, call.handler.as_str()) {
        _ if call.element != Some(own) => None,
        (Address::Tcp { .. }, "port") => Some(port.unwrap_or_default().to_string()),
        (Address::Unix(path), "filename") => Some(path.clone()),
        _ => None,
    }
}
