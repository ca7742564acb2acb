//! # ChatterSocket
//! Sends the messages of the run to programs that connect to a socket.
//!
//! A client gets the line `Click::ChatterSocket/1.0`, and then a copy of each message that elements write to
//! standard error: warnings, the text of Message, and packets that elements such as Print and IPPrint print.
//! What the client sends is ignored. Messages from before the connection are not sent.
//!
//! Messages are kept for clients that do not take them at once: at most 500,000 bytes, however many clients
//! there are. A client that falls further behind is disconnected. Packets wait for no client. Of more than
//! 256 clients, the one that has connected first is disconnected.
//!
//! IPPrint can write to a channel of its own. Messages of such a channel go only to the ChatterSockets with
//! this CHANNEL.
//!
//! When another configuration replaces a running one, the listening socket and its clients go to the new
//! element of the same name, address and channel. So give the element a name.
//!
//! ## Usage
//! `ChatterSocket(TYPE, ADDRESS [, KEYWORDS])`
//!
//! ## Arguments
//! - `TYPE`: `TCP` or `UNIX`.
//! - `ADDRESS`: the port (0 for any port, `N+` for N or one of the next eleven ports), also as `IP:PORT` to
//!   listen only on one of the machine's IPv4 addresses; or the path of the socket. It is required, unless
//!   PORT or FILENAME is given.
//! - `PORT`: the same as ADDRESS, for `TCP`.
//! - `FILENAME`: the same as ADDRESS, for `UNIX`.
//! - `CHANNEL`: the channel whose messages clients get.
//! - `QUIET_CHANNEL`: if false, messages of a CHANNEL also go to standard error.
//! - `GREETING`: if false, the first line is left out.
//! - `LOCALHOST`: if true, a TCP socket listens only on the loopback address.
//! - `RETRIES`: the number of further attempts, one per second, if the address is in use or cannot be bound
//!   for another reason. If the last attempt fails, the run ends as failed.
//! - `RETRY_WARNINGS`: if true, each failure is reported.
//! - `GROUP`: a group of users whose members can connect to a Unix socket, too. Without it, only the user
//!   that runs the program can.
//!
//! ## Example
//! ```click
//! ChatterSocket(TCP, 0, LOCALHOST true);
//! InfiniteSource(LIMIT 5, STOP true) -> Print(packet) -> Discard
//! ```
//!
//! ## See also
//! ControlSocket, Print, IPPrint, Message

use std::any::Any;
use std::io::ErrorKind;
use std::sync::Arc;

use element::chatter::{DEFAULT_CHANNEL, Feed, FellBehind};
use element::class::ArgInfo;
use element::{Class, Cx, Effects, Element, Interest, StatePart, manual};

use crate::control_socket::listener::{Address, Stream};
use crate::control_socket::listening::{LISTENER, ListeningSocket, Passed};

/// The element class `ChatterSocket`.
pub static CLASS: Class = Class {
    name: "ChatterSocket",
    ports: "0/0",
    manual: manual!("chatter_socket.rs"),
    args: &[
        ArgInfo::required("TYPE", "word"),
        ArgInfo::positional("ADDRESS", "port or file", ""),
        ArgInfo::keyword("PORT", "port", ""),
        ArgInfo::keyword("FILENAME", "file", ""),
        ArgInfo::keyword("CHANNEL", "word", DEFAULT_CHANNEL),
        ArgInfo::keyword("QUIET_CHANNEL", "bool", "true"),
        ArgInfo::keyword("GREETING", "bool", "true"),
        ArgInfo::keyword("LOCALHOST", "bool", "false"),
        ArgInfo::keyword("RETRIES", "unsigned", "0"),
        ArgInfo::keyword("RETRY_WARNINGS", "bool", "true"),
        ArgInfo::keyword("GROUP", "word", ""),
    ],
    state: &[StatePart::kept("clients", &[])],
    samples: &["TCP, 0, LOCALHOST true", "TCP, 0, LOCALHOST true, CHANNEL x, QUIET_CHANNEL false"],
    build: |args| {
        let socket = ListeningSocket::read(args);
        if let Address::Given(_) = socket.address() {
            args.error("unknown socket type 'SOCKET'");
        }
        let socket = ChatterSocket {
            socket,
            channel: args.value("CHANNEL"),
            is_quiet: args.value("QUIET_CHANNEL"),
            greets: args.value("GREETING"),
            feed: None,
            clients: Vec::new(),
            next_token: NEWS + 1,
        };
        args.finish()?;
        Ok(Box::new(socket))
    },
    ..Class::DEFAULT
};

/// The first line that a client gets.
const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// The number by which the engine names the feed's file when it reports new messages. Clients have higher
/// numbers.
const NEWS: u32 = LISTENER + 1;
/// The largest number of clients.
const MOST_CLIENTS: usize = 256;
/// The number of bytes that are written at a time.
const PIECE: usize = 4096;
/// The largest number of pieces that a client gets each time that it is served, so that a client does not
/// delay packets.
const MOST_PIECES: usize = 16;

/// A client, and what it has got.
struct Client {
    token: u32,
    stream: Stream,
    /// The part of the greeting that is still to be sent.
    greeting: &'static [u8],
    /// The number of the next byte of the feed that is sent.
    position: u64,
    /// The events of the connection (readable, writable) for which the engine calls the element; `None`
    /// before the client is served for the first time.
    interest: Option<Interest>,
}

/// The state of a client after it has been served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// All messages have been sent.
    All,
    /// More messages can be sent when the connection can be written.
    Partly,
    /// The connection is lost, or the client has fallen too far behind.
    Lost,
}

impl Client {
    /// Reads and discards bytes that the client has sent. Returns false if the client has closed the
    /// connection.
    fn ignore(&mut self) -> bool {
        match self.stream.read(&mut [0; PIECE]) {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Sends messages until all are sent, the connection takes no more, or there were many.
    fn serve(&mut self, feed: &Feed) -> Served {
        let mut buffer = [0; PIECE];
        for _ in 0..MOST_PIECES {
            let piece = match feed.read(self.position, &mut buffer) {
                Err(FellBehind) => return Served::Lost,
                _ if !self.greeting.is_empty() => self.greeting,
                Ok(0) => return Served::All,
                Ok(count) => &buffer[..count],
            };
            match self.stream.write(piece) {
                Ok(0) => return Served::Lost,
                Ok(count) if !self.greeting.is_empty() => self.greeting = &self.greeting[count..],
                Ok(count) => self.position += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Served::Partly,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Served::Lost,
            }
        }
        Served::Partly
    }
}

/// The state that an element passes to the element of the same name that replaces it in a new configuration.
struct Clients {
    socket: Passed,
    feed: Option<Arc<Feed>>,
    clients: Vec<Client>,
    next_token: u32,
}

struct ChatterSocket {
    socket: ListeningSocket,
    channel: String,
    is_quiet: bool,
    greets: bool,
    /// The messages; `None` before the element is initialised.
    feed: Option<Arc<Feed>>,
    /// The clients, in the order in which they have connected.
    clients: Vec<Client>,
    next_token: u32,
}

impl ChatterSocket {
    fn is_shown(&self) -> bool {
        !self.is_quiet && self.channel != DEFAULT_CHANNEL
    }

    fn welcome(&mut self, cx: &mut Cx<'_>, feed: &Feed, stream: Stream) {
        if self.clients.len() >= MOST_CLIENTS {
            self.end(cx, 0);
        }
        if self.clients.is_empty() && cx.files().watch(NEWS, feed.news(), Interest::Read).is_err() {
            return;
        }
        feed.set_open(true);
        let token = self.next_token;
        self.next_token = self.next_token.wrapping_add(1).max(NEWS + 1);
        let greeting = if self.greets { GREETING } else { &[] };
        self.clients.push(Client { token, stream, greeting, position: feed.end(), interest: None });
        self.serve(cx, self.clients.len() - 1);
    }

    /// Sends messages to a client. Disconnects it if it is lost.
    fn serve(&mut self, cx: &mut Cx<'_>, index: usize) {
        let (Some(client), Some(feed)) = (self.clients.get_mut(index), &self.feed) else { return };
        let served = client.serve(feed);
        let interest = if served == Served::Partly { Interest::Both } else { Interest::Read };
        let is_watched = client.interest == Some(interest)
            || cx.files().watch(client.token, client.stream.file(), interest).is_ok();
        if served == Served::Lost || !is_watched {
            return self.end(cx, index);
        }
        client.interest = Some(interest);
    }

    fn end(&mut self, cx: &mut Cx<'_>, index: usize) {
        let client = self.clients.remove(index);
        cx.files().unwatch(client.token);
        if self.clients.is_empty() {
            cx.files().unwatch(NEWS);
            self.feed.iter().for_each(|feed| feed.set_open(false));
        }
    }
}

impl Element for ChatterSocket {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let feed = Feed::new(&self.channel, self.is_shown()).map_err(|error| crate::reason(&error))?;
        let feed = Arc::new(feed);
        cx.messages().chatter().add(&feed);
        self.feed = Some(feed);
        self.socket.begin(cx).map(drop)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        self.socket.timer(cx, token);
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        let Some(feed) = self.feed.clone() else { return };
        match token {
            LISTENER => {
                while let Some((stream, _)) = self.socket.accept(cx) {
                    self.welcome(cx, &feed, stream);
                }
            }
            NEWS => {
                feed.take_note();
                // From the last to the first, because clients that are lost are removed.
                for index in (0..self.clients.len()).rev() {
                    if self.clients[index].interest == Some(Interest::Read) {
                        self.serve(cx, index);
                    }
                }
            }
            _ => {
                let Some(index) = self.clients.iter().position(|client| client.token == token) else {
                    return;
                };
                match self.clients[index].ignore() {
                    true => self.serve(cx, index),
                    false => self.end(cx, index),
                }
            }
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(feed) = &self.feed {
            self.clients.iter_mut().for_each(|client| _ = client.serve(feed));
        }
        while !self.clients.is_empty() {
            self.end(cx, 0);
        }
        self.socket.close(cx)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Clients {
            socket: self.socket.pass(),
            feed: self.feed.clone(),
            clients: std::mem::take(&mut self.clients),
            next_token: self.next_token,
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state: Clients = *state.downcast().map_err(|_| "not the state of a chatter socket")?;
        self.socket.take_over(cx, state.socket)?;
        let Some(feed) = state.feed.filter(|feed| feed.channel() == self.channel) else {
            return Err("another channel: clients are not taken over".into());
        };
        while !self.clients.is_empty() {
            self.end(cx, 0);
        }
        feed.set_shown(self.is_shown());
        self.feed = Some(Arc::clone(&feed));
        (self.clients, self.next_token) = (state.clients, state.next_token);
        if !self.clients.is_empty() {
            cx.files().watch(NEWS, feed.news(), Interest::Read).map_err(|error| error.to_string())?;
        }
        for client in &mut self.clients {
            client.interest = Some(Interest::Both);
            let watched = cx.files().watch(client.token, client.stream.file(), Interest::Both);
            watched.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
