//! # ControlSocket
//! Lets programs read and write handlers over a socket, with Click's text protocol.
//!
//! A client connects, gets the line `Click::ControlSocket/1.3`, and sends commands, one per line: `READ
//! handler [parameter]`, `WRITE handler [value]`, `CHECKREAD handler`, `CHECKWRITE handler`, `READDATA
//! handler length`, `WRITEDATA handler length`, `READUNTIL handler [line]`, `WRITEUNTIL handler [line]`,
//! `HELP`, `QUIT`. A handler is `element.handler`, or `handler` for a handler of the whole graph. Each line
//! of a reply starts with a number of three digits (2xx is success); in the last line of the reply, a blank
//! follows the number. After a successful read, `DATA n` and n bytes follow.
//!
//! When another configuration replaces a running one, the listening socket and its clients go to the new
//! element of the same name and address. So give the element a name. A new element with the same address and
//! another name needs RETRIES of 1 or more: the address is in use until the old element is closed.
//!
//! The handler `reload` reads the file of the running configuration again (`WRITE reload`). The handler
//! `hotconfig` installs another configuration, if Tidegate was started with `--config-dir DIR`: its value is
//! the name of a file below that folder, `WRITE hotconfig edge.click`. The text of a configuration gives the
//! right to read and write files. Therefore it is taken only from clients of a Unix socket, and only with
//! `--allow-config`. The reply comes when the new configuration is ready or has turned out to be wrong.
//!
//! The file of a Unix socket that a killed program has left is replaced. If another process or element has
//! the socket open, the address counts as in use. If several programs start at once, one of them gets the
//! path.
//!
//! A client that begins with an HTTP request is disconnected: web pages can make a browser send requests to
//! the loopback address, with commands in their data.
//!
//! Some handlers write files, such as AggregateCounter's `write_text_file`. A client that calls such a
//! handler, or makes an element call it later, can write only ordinary files below the folder of `FILES`:
//! no name with `..`, and no name that a link leads out of the folder. A name that does not begin with `/`
//! is relative to the folder. The instructions of a Script that a client runs are part of the configuration
//! and are not restricted; nor is a configuration that `hotconfig` installs.
//!
//! Any client that can connect can do what the configuration allows: listen on the loopback address
//! (`LOCALHOST`) or on a Unix socket, unless other machines need access. A TCP socket that other machines
//! can reach is reported, unless it is `READONLY`. A Unix socket belongs to the user of the program: others
//! can connect only if they are in the `GROUP`.
//!
//! A client that sends a part of a command, or does not take its replies, is disconnected after `TIMEOUT`.
//! All clients together may keep 64 MiB of the program's memory with commands that are not complete; the
//! client that exceeds it is disconnected. Of more than 256 clients, the one that was silent for longest is.
//!
//! ## Usage
//! `ControlSocket(TYPE, ADDRESS [, KEYWORDS])`
//!
//! ## Arguments
//! - `TYPE`: `TCP` or `UNIX`; `SOCKET` for a connection that the program was started with.
//! - `ADDRESS`: the port (0 for any port, `N+` for N or one of the next eleven ports), also as `IP:PORT` to
//!   listen only on one of the machine's IPv4 addresses; the path of the socket; or the number of the
//!   connection's file descriptor. It is required, unless PORT or FILENAME is given.
//! - `PORT`: the same as ADDRESS, for `TCP`.
//! - `FILENAME`: the same as ADDRESS, for `UNIX`.
//! - `READONLY`: if true, writing is forbidden, and reading handlers that run a script, or that read a
//!   handler which the client names (HandlerAggregate).
//! - `PROXY`: an element that answers for all others: the handler named `E.H` of this element is called in
//!   place of the handler `H` of the element `E`.
//! - `LOCALHOST`: if true, a TCP socket listens only on the loopback address.
//! - `VERBOSE`: if true, connections are reported.
//! - `RETRIES`: the number of further attempts, one per second, if the address is in use or cannot be bound
//!   for another reason. If the last attempt fails, the run ends as failed.
//! - `RETRY_WARNINGS`: if true, each failure is reported.
//! - `GROUP`: a group of users whose members can connect to a Unix socket, too. Without it, only the user
//!   that runs the program can.
//! - `TIMEOUT`: the time after which a client is disconnected that does not go on with what it has begun.
//!   0 for ever.
//! - `FILES`: the folder below which clients can make handlers write files. Without it, clients cannot
//!   write files.
//!
//! ## Handlers
//! - `port`: the TCP port.
//! - `filename`: the path of the Unix socket.
//!
//! ## Example
//! ```click
//! ControlSocket(TCP, 0, LOCALHOST true);
//! InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard
//! ```
//!
//! ## See also
//! Script, DriverManager

mod connection;
pub(crate) mod listener;
pub(crate) mod listening;
mod protocol;

use std::any::Any;
use std::net::Shutdown;
use std::os::fd::AsRawFd;

use connection::{Connection, Reach, own_value};
use element::class::ArgInfo;
use element::{
    Call, CallOrigin, Class, Cx, Effects, Element, ElementId, FileScope, Folder, Handler, Interest, Rights,
    StatePart, Timestamp, manual,
};
use listener::{Address, Stream};
use listening::{LISTEN_AGAIN, LISTENER, ListeningSocket, Passed};
use protocol::Session;

use crate::reason;

/// The element class ControlSocket.
pub static CLASS: Class = Class {
    name: "ControlSocket",
    ports: "0/0",
    manual: manual!("mod.rs"),
    args: &[
        ArgInfo::required("TYPE", "word"),
        ArgInfo::positional("ADDRESS", "port or file", ""),
        ArgInfo::keyword("PORT", "port", ""),
        ArgInfo::keyword("FILENAME", "file", ""),
        ArgInfo::keyword("READONLY", "bool", "false"),
        ArgInfo::keyword("PROXY", "element", ""),
        ArgInfo::keyword("LOCALHOST", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("RETRIES", "unsigned", "0"),
        ArgInfo::keyword("RETRY_WARNINGS", "bool", "true"),
        ArgInfo::keyword("GROUP", "word", ""),
        ArgInfo::keyword("TIMEOUT", "seconds", "60"),
        ArgInfo::keyword("FILES", "folder", ""),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("clients", &["port", "filename"])],
    samples: &["TCP, 0, LOCALHOST true"],
    build: |args| {
        let socket = ListeningSocket::read(args);
        let proxy = args.get::<String>("PROXY").and_then(|name| {
            let found = args.place().element(&name);
            if found.is_none() {
                args.error(format!("PROXY: no element named '{name}'"));
            }
            found
        });
        let socket = ControlSocket {
            socket,
            timeout: args.value("TIMEOUT"),
            is_timed: false,
            proxy,
            read_only: args.value("READONLY"),
            verbose: args.value("VERBOSE"),
            folder: args.get("FILES"),
            rights: Rights { files: FileScope::Nowhere, origin: CallOrigin::Anybody },
            connections: Vec::new(),
            next_token: LISTENER + 1,
            heard: 0,
        };
        args.finish()?;
        Ok(Box::new(socket))
    },
    ..Class::DEFAULT
};

/// The largest number of bytes that are kept for all clients together, and that one client may always have.
const MOST_KEPT: usize = 64 << 20;
const LEAST_KEPT: usize = 64 << 10;
/// The number of the timer that looks for clients that do not go on.
const LOOK: u32 = LISTEN_AGAIN + 1;
/// The largest number of connections. If there are as many, a new connection makes the element close the
/// connection that has been silent for longest.
const MOST_CONNECTIONS: usize = 256;

/// The state that an element passes to the element of the same name that replaces it in a new
/// configuration: the listening socket and the connections.
struct Clients {
    socket: Passed,
    connections: Vec<Connection>,
    next_token: u32,
}

struct ControlSocket {
    socket: ListeningSocket,
    /// The element that gets all handler calls of clients (PROXY).
    proxy: Option<ElementId>,
    /// The time after which a client is disconnected that does not go on (TIMEOUT).
    timeout: Timestamp,
    /// True if the timer [`LOOK`] is set.
    is_timed: bool,
    read_only: bool,
    verbose: bool,
    /// The folder below which clients can make handlers write files (FILES), as the configuration names it.
    folder: Option<String>,
    /// The rights of clients, which each of their writes carries: the files that may be written, and if the
    /// client came by a Unix socket.
    rights: Rights,
    connections: Vec<Connection>,
    next_token: u32,
    /// A counter that increases with each new connection, and each time that a connection is served.
    heard: u64,
}

impl ControlSocket {
    /// Returns the value of `port` or `filename`; an error if this type of socket does not have it.
    fn own_value(&self, cx: &Cx<'_>, name: &str) -> Result<String, String> {
        let call = Call::new(Some(cx.id()), name, "");
        let value = own_value(self.socket.address(), self.socket.port(), &call, cx.id());
        value.ok_or_else(|| "not for this type of socket".into())
    }

    /// Opens the listening socket, or takes the given connection.
    ///
    /// # Errors
    /// If the address cannot be bound and there is no further attempt, or the given connection cannot be
    /// used.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Address::Given(file) = *self.socket.address() else {
            if self.socket.begin(cx)? {
                self.warn_if_open(cx);
            }
            return Ok(());
        };
        let stream = Stream::given(file).map_err(|error| format!("SOCKET {file}: {}", reason(&error)))?;
        let own = socket2::SockRef::from(&stream.file()).local_addr();
        self.rights.origin = match own.is_ok_and(|own| own.is_unix()) {
            true => CallOrigin::UnixClient,
            false => CallOrigin::Anybody,
        };
        self.welcome(cx, stream, "");
        Ok(())
    }

    /// Warns if other machines can reach the socket and write handlers.
    fn warn_if_open(&self, cx: &mut Cx<'_>) {
        if let (Address::Tcp { host, .. }, Some(port), false) =
            (self.socket.address(), self.socket.port(), self.read_only)
            && !host.is_loopback()
        {
            cx.warn(format_args!(
                "every machine that reaches port {port} can write handlers; `LOCALHOST true` listens on this \
                 machine only, `READONLY true` forbids writing"
            ));
        }
    }

    fn welcome(&mut self, cx: &mut Cx<'_>, stream: Stream, from: &str) {
        if self.connections.len() >= MOST_CONNECTIONS {
            let oldest = self.connections.iter().enumerate().min_by_key(|(_, c)| c.heard);
            if let Some((index, _)) = oldest {
                self.end(cx, index);
            }
        }
        let token = self.next_token;
        self.next_token = self.next_token.wrapping_add(1).max(LISTENER + 1);
        if cx.files().watch(token, stream.file(), Interest::Both).is_err() {
            return;
        }
        if self.verbose {
            let file = stream.file().as_raw_fd();
            cx.note(format_args!("opened connection {file}{from}"));
        }
        let session = Session::new(self.read_only);
        self.heard += 1;
        let heard = self.heard;
        let served = cx.now();
        self.connections.push(Connection { token, stream, session, interest: Interest::Both, heard, served });
        self.look_later(cx);
    }

    /// Sets the timer that looks for clients that do not go on. Under the trace clock, the time is that of
    /// captures and not that of clients.
    fn look_later(&mut self, cx: &mut Cx<'_>) {
        if !self.is_timed && self.timeout > Timestamp::ZERO && !cx.follows_captures() {
            self.is_timed = true;
            cx.set_background_timer(LOOK, cx.now() + self.timeout);
        }
    }

    /// Disconnects the clients that have not gone on in time. A client whose result comes later waits for
    /// this program.
    fn look(&mut self, cx: &mut Cx<'_>) {
        self.is_timed = false;
        let now = cx.now();
        for index in (0..self.connections.len()).rev() {
            let Connection { session, served, .. } = &self.connections[index];
            if session.is_halfway() && !session.is_awaiting() && now - *served >= self.timeout {
                self.end(cx, index);
            }
        }
        if !self.connections.is_empty() {
            self.look_later(cx);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>, index: usize) {
        let connection = self.connections.swap_remove(index);
        cx.files().unwatch(connection.token);
        if let Stream::Given(file) = &connection.stream {
            // Another descriptor of this connection, with which the program was started, stays open. So the
            // connection is shut down, because otherwise the client would not see its end.
            let _ = socket2::SockRef::from(file).shutdown(Shutdown::Both);
        }
        if self.verbose {
            let file = connection.stream.file().as_raw_fd();
            cx.note(format_args!("closed connection {file}"));
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, index: usize) {
        self.heard += 1;
        let kept: usize = self.connections.iter().map(|connection| connection.session.kept()).sum();
        let connection = &mut self.connections[index];
        (connection.heard, connection.served) = (self.heard, cx.now());
        if kept > MOST_KEPT && connection.session.kept() > LEAST_KEPT {
            return self.end(cx, index);
        }
        // If the client has not taken earlier replies, no more of its commands are read.
        let mut open = !connection.session.output.is_empty() || connection.receive();
        open &= connection.send();
        // Commands that have arrived are executed, until about 1 MiB of replies is waiting to be sent. This
        // is repeated as long as the client takes all replies.
        let mut more = true;
        while open && more && connection.session.output.is_empty() {
            more = connection.session.execute(&mut Reach {
                socket: self.socket.address(),
                port: self.socket.port(),
                proxy: self.proxy,
                rights: &self.rights,
                token: connection.token,
                cx,
            });
            open &= connection.send();
        }
        let waits = !connection.session.output.is_empty();
        if open && !waits && connection.session.is_awaiting() {
            // Until the result of its command is known, nothing is read from the client. The value `Both`
            // differs from each interest that is computed below. So the connection is watched again the next
            // time that it is served and no result is awaited.
            cx.files().unwatch(connection.token);
            connection.interest = Interest::Both;
            return;
        }
        if open && (waits || !connection.session.quits) {
            let interest = if waits { Interest::Write } else { Interest::Read };
            if interest == connection.interest
                || cx.files().watch(connection.token, connection.stream.file(), interest).is_ok()
            {
                connection.interest = interest;
                return;
            }
        }
        self.end(cx, index);
    }
}

impl Element for ControlSocket {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(path) = &self.folder {
            let folder = Folder::new(path).map_err(|error| format!("FILES: {path}: {}", reason(&error)))?;
            self.rights.files = FileScope::Below(folder);
        }
        if let Address::Unix(_) = self.socket.address() {
            self.rights.origin = CallOrigin::UnixClient;
        }
        self.open(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == LOOK {
            return self.look(cx);
        }
        if self.socket.timer(cx, token) {
            self.warn_if_open(cx);
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == LISTENER {
            while let Some((stream, from)) = self.socket.accept(cx) {
                self.welcome(cx, stream, &from);
            }
        } else if let Some(index) = self.connections.iter().position(|c| c.token == token) {
            self.serve(cx, index);
        }
    }

    fn answered(&mut self, cx: &mut Cx<'_>, token: u32, result: Result<(), String>) {
        if let Some(index) = self.connections.iter().position(|c| c.token == token) {
            self.connections[index].session.answered(result);
            self.serve(cx, index);
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for connection in &mut self.connections {
            connection.send();
            cx.files().unwatch(connection.token);
        }
        self.connections.clear();
        self.socket.close(cx)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Clients {
            socket: self.socket.pass(),
            connections: std::mem::take(&mut self.connections),
            next_token: self.next_token,
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state: Clients = *state.downcast().map_err(|_| "not the state of a control socket")?;
        self.socket.take_over(cx, state.socket)?;
        // Connections that this element has accepted came by its own listening socket, which is now replaced
        // by the socket of the old element.
        for connection in self.connections.drain(..) {
            cx.files().unwatch(connection.token);
        }
        (self.connections, self.next_token) = (state.connections, state.next_token);
        self.look_later(cx);
        for connection in &mut self.connections {
            connection.session.read_only = self.read_only;
            cx.files()
                .watch(connection.token, connection.stream.file(), Interest::Both)
                .map_err(|error| error.to_string())?;
            connection.interest = Interest::Both;
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<ControlSocket>] = &[
    Handler::read("port", |e, cx, _| e.own_value(cx, "port")),
    Handler::read("filename", |e, cx, _| e.own_value(cx, "filename")),
];
