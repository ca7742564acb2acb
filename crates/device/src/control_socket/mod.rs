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
//! (`LOCALHOST`) or on a Unix socket, unless other machines need access.
//!
//! ## Usage
//! `ControlSocket(TYPE, ADDRESS [, KEYWORDS])`
//!
//! ## Arguments
//! - `TYPE`: `TCP` or `UNIX`; `SOCKET` for a connection that the program was started with.
//! - `ADDRESS`: the port (0 for any port, `N+` for N or one of the next eleven ports), also as `IP:PORT` to
//!   listen only on one of the machine's IPv4 addresses; the path of the socket; or the number of the
//!   connection's file descriptor.
//! - `READONLY`: if true, writing is forbidden.
//! - `PROXY`: an element that answers for all others: the handler named `E.H` of this element is called in
//!   place of the handler `H` of the element `E`.
//! - `LOCALHOST`: if true, a TCP socket listens only on the loopback address.
//! - `VERBOSE`: if true, connections are reported.
//! - `RETRIES`: the number of further attempts, one per second, if the address is in use or cannot be bound
//!   for another reason. If the last attempt fails, the run ends as failed.
//! - `RETRY_WARNINGS`: if true, each failure is reported.
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

mod protocol;

use std::any::Any;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use element::args::{ArgType, TcpPort};
use element::class::ArgInfo;
use element::{
    Call, CallOrigin, Class, Cx, Effects, Element, ElementId, FileScope, Folder, Handler, Interest, Rights,
    StatePart, Timestamp, manual,
};

use nix::errno::Errno;
use protocol::{Handlers, Session};

use crate::reason;
use crate::unix_socket;

/// The element class ControlSocket.
pub static CLASS: Class = Class {
    name: "ControlSocket",
    ports: "0/0",
    manual: manual!("mod.rs"),
    args: &[
        ArgInfo::required("TYPE", "word"),
        ArgInfo::required("ADDRESS", "port or file"),
        ArgInfo::keyword("READONLY", "bool", "false"),
        ArgInfo::keyword("PROXY", "element", ""),
        ArgInfo::keyword("LOCALHOST", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("RETRIES", "unsigned", "0"),
        ArgInfo::keyword("RETRY_WARNINGS", "bool", "true"),
        ArgInfo::keyword("FILES", "folder", ""),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("clients", &["port", "filename"])],
    samples: &["TCP, 0, LOCALHOST true"],
    build: |args| {
        let kind = args.required::<String>("TYPE").to_ascii_uppercase();
        let address: String = args.required("ADDRESS");
        let written = [kind.clone(), address.clone()];
        let localhost = args.value::<bool>("LOCALHOST");
        let address = match kind.as_str() {
            "TCP" => {
                let (host, port) = match address.rsplit_once(':') {
                    Some((host, port)) => (
                        Some(host.parse().unwrap_or_else(|_| {
                            args.error(format!("ADDRESS: '{host}' is no IPv4 address"));
                            Ipv4Addr::LOCALHOST
                        })),
                        port,
                    ),
                    None => (None, address.as_str()),
                };
                if localhost && host.is_some_and(|host: Ipv4Addr| !host.is_loopback()) {
                    args.error("LOCALHOST: ADDRESS says something else");
                }
                let default = if localhost { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let host = host.unwrap_or(default);
                let (number, more) = match port.strip_suffix('+') {
                    Some(number) => (number, MORE_PORTS),
                    None => (port, 0),
                };
                let port = TcpPort::parse(number, &args.place());
                if port.is_err() {
                    args.error("PORT requires TCP port");
                }
                Address::Tcp { host, port: port.unwrap_or_default().0, more }
            }
            "SOCKET" => match address.parse() {
                Ok(file) => Address::Given(file),
                Err(_) => {
                    args.error("SOCKET requires a file descriptor");
                    Address::Given(-1)
                }
            },
            "UNIX" => {
                if address.len() > LONGEST_PATH {
                    args.error("filename too long");
                }
                Address::Unix(address)
            }
            other => {
                args.error(format!("unknown socket type '{other}'"));
                Address::Unix(String::new())
            }
        };
        let proxy = args.get::<String>("PROXY").and_then(|name| {
            let found = args.place().element(&name);
            if found.is_none() {
                args.error(format!("PROXY: no element named '{name}'"));
            }
            found
        });
        let socket = ControlSocket {
            address,
            written,
            proxy,
            read_only: args.value("READONLY"),
            verbose: args.value("VERBOSE"),
            retries: args.value::<u32>("RETRIES"),
            retry_warnings: args.value("RETRY_WARNINGS"),
            folder: args.get("FILES"),
            rights: Rights { files: FileScope::Nowhere, origin: CallOrigin::Anybody },
            awaits_heritage: false,
            listener: None,
            port: None,
            connections: Vec::new(),
            next_token: LISTENER + 1,
            heard: 0,
            fault: None,
        };
        args.finish()?;
        Ok(Box::new(socket))
    },
    ..Class::DEFAULT
};

/// The number of further ports that are tried if a port is in use and ADDRESS ends with `+`.
const MORE_PORTS: u16 = 11;
/// The largest length in bytes of a Unix socket's path (unix(7)).
const LONGEST_PATH: usize = 107;
/// The number by which the engine names the listening socket when it reports events of watched files (its
/// token). Connections have higher tokens.
const LISTENER: u32 = 0;
/// The numbers of the element's timers: one for another attempt to bind the address (`OPEN_AGAIN`), and one
/// to watch the listening socket again (`LISTEN_AGAIN`).
const OPEN_AGAIN: u32 = 0;
const LISTEN_AGAIN: u32 = 1;
/// The largest number of connections. If there are as many, a new connection makes the element close the
/// connection that has been silent for longest.
const MOST_CONNECTIONS: usize = 256;
/// The largest number of bytes that are read from a connection each time that it is served, so that a busy
/// client does not delay packets.
const MOST_READ: usize = 64 << 10;

#[derive(Clone, PartialEq, Eq)]
enum Address {
    Tcp {
        host: Ipv4Addr,
        port: u16,
        more: u16,
    },
    Unix(String),
    /// A connection that the program was started with (SOCKET), by the number of its file descriptor.
    Given(RawFd),
}

/// The state that an element passes to the element of the same name that replaces it in a new
/// configuration: the listening socket and the connections.
struct Clients {
    address: Address,
    listener: Option<Listener>,
    port: Option<u16>,
    connections: Vec<Connection>,
    next_token: u32,
}

impl Clients {
    /// Closes the sockets and removes the file of a Unix socket, because the element that replaces this one
    /// has another address.
    fn end(self) {
        if let (Some(_), Address::Unix(path)) = (&self.listener, &self.address) {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct ControlSocket {
    address: Address,
    /// The arguments TYPE and ADDRESS as they stand in the configuration.
    written: [String; 2],
    /// The element that gets all handler calls of clients (PROXY).
    proxy: Option<ElementId>,
    read_only: bool,
    verbose: bool,
    retries: u32,
    retry_warnings: bool,
    /// The folder below which clients can make handlers write files (FILES), as the configuration names it.
    folder: Option<String>,
    /// The rights of clients, which each of their writes carries: the files that may be written, and if the
    /// client came by a Unix socket.
    rights: Rights,
    /// True if the element that this element replaces has the same address. The address may then be in use
    /// until that element passes its listening socket on.
    awaits_heritage: bool,
    listener: Option<Listener>,
    /// The TCP port on which the element listens; `None` before it listens, and for other sockets.
    port: Option<u16>,
    connections: Vec<Connection>,
    next_token: u32,
    /// A counter that increases with each new connection, and each time that a connection is served.
    heard: u64,
    /// The error for which this element stopped the driver. [`close`](Element::close) returns it, so that
    /// the run counts as failed.
    fault: Option<String>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<(Stream, String)> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // Replies are small, and each client waits for its reply, so they are not delayed to be
                // combined.
                stream.set_nodelay(true)?;
                (Stream::Tcp(stream), format!(" from {}.{}", from.ip(), from.port()))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                (Stream::Unix(stream), String::new())
            }
        })
    }

    fn file(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Given(File),
}

impl Stream {
    fn file(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Given(file) => file.as_fd(),
        }
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
            Stream::Given(file) => file.read(to),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Given(file) => file.write(bytes),
        }
    }
}

struct Connection {
    token: u32,
    stream: Stream,
    session: Session,
    /// The events of the connection (readable, writable) for which the engine calls the element.
    interest: Interest,
    /// The value of the element's `heard` when this connection was last served. The connection with the
    /// smallest value has been silent for longest.
    heard: u64,
}

impl Connection {
    /// Reads bytes that have arrived, at most `MOST_READ`, into the session. Returns false if the
    /// connection is lost.
    fn receive(&mut self) -> bool {
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
    fn send(&mut self) -> bool {
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

/// Returns a stream on a second descriptor of the connection with this file descriptor. The first
/// descriptor stays open, because the process that started this program may expect it.
#[allow(unsafe_code)]
fn given(file: RawFd) -> io::Result<Stream> {
    if file < 0 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: the file is not closed during the call, which only asks the system for a second descriptor,
    // and that fails if there is no such file.
    let file = unsafe { BorrowedFd::borrow_raw(file) }.try_clone_to_owned()?;
    socket2::SockRef::from(&file).set_nonblocking(true)?;
    Ok(Stream::Given(file.into()))
}

/// The access of this element's clients to the handlers of the graph, for the execution of one client's
/// commands.
struct Reach<'a, 'b> {
    socket: &'a Address,
    port: Option<u16>,
    proxy: Option<ElementId>,
    rights: &'a Rights,
    /// The token of the client's connection.
    token: u32,
    cx: &'a mut Cx<'b>,
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

/// True if the error concerns only this attempt to accept a client: the client is gone already, or a signal
/// arrived.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Returns the value of a handler of this element itself: `port` of a TCP socket, or `filename` of a Unix
/// socket. Returns `None` for all other handlers. The two handlers are answered here because the engine
/// cannot call an element while this element is running.
fn own_value(address: &Address, port: Option<u16>, call: &Call, own: ElementId) -> Option<String> {
    match (address, call.handler.as_str()) {
        _ if call.element != Some(own) => None,
        (Address::Tcp { .. }, "port") => Some(port.unwrap_or_default().to_string()),
        (Address::Unix(path), "filename") => Some(path.clone()),
        _ => None,
    }
}

/// True if the arguments of another control socket begin with this type and address.
fn is_same_address([kind, address]: &[String; 2], other: &[String]) -> bool {
    matches!(other, [other_kind, other, ..] if kind.eq_ignore_ascii_case(other_kind) && address == other)
}

impl ControlSocket {
    /// Returns the value of `port` or `filename`; an error if this type of socket does not have it.
    fn own_value(&self, cx: &Cx<'_>, name: &str) -> Result<String, String> {
        let call = Call::new(Some(cx.id()), name, "");
        let value = own_value(&self.address, self.port, &call, cx.id());
        value.ok_or_else(|| "not for this type of socket".into())
    }

    /// Creates the socket that clients connect to.
    fn bind(&mut self) -> Result<(), String> {
        let path = match &self.address {
            Address::Unix(path) => path.clone(),
            Address::Tcp { .. } | Address::Given(_) => {
                return self.bind_tcp().map_err(|error| reason(&error));
            }
        };
        let listener = unix_socket::bind(&path, || UnixListener::bind(&path))?;
        listener.set_nonblocking(true).map_err(|error| reason(&error))?;
        self.listener = Some(Listener::Unix(listener));
        Ok(())
    }

    fn bind_tcp(&mut self) -> io::Result<()> {
        let Address::Tcp { host, port, more } = self.address else { return Ok(()) };
        let mut tries = (port..=port.saturating_add(more)).map(|port| TcpListener::bind((host, port)));
        let mut result = tries.next().unwrap_or_else(|| Err(ErrorKind::AddrInUse.into()));
        while let Err(error) = &result
            && error.kind() == ErrorKind::AddrInUse
            && let Some(next) = tries.next()
        {
            result = next;
        }
        let listener = result?;
        listener.set_nonblocking(true)?;
        self.port = Some(listener.local_addr()?.port());
        self.listener = Some(Listener::Tcp(listener));
        Ok(())
    }

    /// Opens the listening socket, or takes the given connection. If the address cannot be bound, sets a
    /// timer for another attempt as RETRIES allows. While the replaced element may have the address, a first
    /// failure does not count.
    ///
    /// # Errors
    /// If there is no attempt left, the given connection cannot be used, or the socket cannot be watched.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Address::Given(file) = self.address {
            let stream = given(file).map_err(|error| format!("SOCKET {file}: {}", reason(&error)))?;
            let own = socket2::SockRef::from(&stream.file()).local_addr();
            self.rights.origin = match own.is_ok_and(|own| own.is_unix()) {
                true => CallOrigin::UnixClient,
                false => CallOrigin::Anybody,
            };
            self.welcome(cx, stream, "");
            return Ok(());
        }
        match self.bind() {
            Ok(()) => self.listen(cx),
            Err(_) if self.awaits_heritage => {
                cx.set_timer(OPEN_AGAIN, cx.now());
                Ok(())
            }
            Err(reason) => {
                if self.retries == 0 {
                    return Err(format!("bind: {reason}"));
                }
                if self.retry_warnings {
                    let left = self.retries;
                    let plural = if left == 1 { "try" } else { "tries" };
                    cx.warn(format_args!("bind: {reason} ({left} {plural} left)"));
                }
                self.retries -= 1;
                cx.set_timer(OPEN_AGAIN, cx.now() + Timestamp::from_secs(1));
                Ok(())
            }
        }
    }

    fn listen(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(listener) = &self.listener else { return Ok(()) };
        cx.files().watch(LISTENER, listener.file(), Interest::Read).map_err(|error| error.to_string())
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        while let Some(listener) = &self.listener {
            // Each client takes two file descriptors: the connection, and a copy of it that the engine
            // watches. A copy of the listening socket's descriptor is made and closed to see if a second
            // descriptor is available. If it is not, the client is not accepted, and waits in the kernel's
            // queue of connections.
            let second = listener.file().try_clone_to_owned();
            match second.and_then(|second| listener.accept().map(|accepted| (accepted, second))) {
                Ok(((stream, from), second)) => {
                    drop(second);
                    self.welcome(cx, stream, &from);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if passes(&error) => {}
                Err(error) => {
                    let why = reason(&error);
                    cx.warn(format_args!("accept: {why}"));
                    // The client that could not be accepted stays in the kernel's queue, and the kernel would
                    // report it again at once. The listening socket is watched again after a second.
                    cx.files().unwatch(LISTENER);
                    cx.set_timer(LISTEN_AGAIN, cx.now() + Timestamp::from_secs(1));
                    return;
                }
            }
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
        self.connections.push(Connection { token, stream, session, interest: Interest::Both, heard });
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
        let connection = &mut self.connections[index];
        connection.heard = self.heard;
        // If the client has not taken earlier replies, no more of its commands are read.
        let mut open = !connection.session.output.is_empty() || connection.receive();
        open &= connection.send();
        // Commands that have arrived are executed, until about 1 MiB of replies is waiting to be sent. This
        // is repeated as long as the client takes all replies.
        let mut more = true;
        while open && more && connection.session.output.is_empty() {
            more = connection.session.execute(&mut Reach {
                socket: &self.address,
                port: self.port,
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
        if let Address::Unix(_) = self.address {
            self.rights.origin = CallOrigin::UnixClient;
        }
        self.awaits_heritage = cx.predecessor().is_some_and(|other| is_same_address(&self.written, &other));
        self.open(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        self.awaits_heritage = false;
        let result = if token == LISTEN_AGAIN { self.listen(cx) } else { self.open(cx) };
        if let Err(error) = result {
            self.fault = Some(error);
            cx.stop();
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == LISTENER {
            self.accept(cx);
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
        cx.files().unwatch(LISTENER);
        // The file at the path belongs to this element as long as its socket is open. Therefore the file is
        // removed before the socket is closed.
        if self.listener.is_some()
            && let Address::Unix(path) = &self.address
        {
            let _ = std::fs::remove_file(path);
        }
        self.listener = None;
        self.fault.take().map_or(Ok(()), Err)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Clients {
            address: self.address.clone(),
            listener: self.listener.take(),
            port: self.port,
            connections: std::mem::take(&mut self.connections),
            next_token: self.next_token,
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state: Clients = *state.downcast().map_err(|_| "not the state of a control socket")?;
        if state.address != self.address {
            state.end();
            // The replaced element's socket, which has just been closed, may have kept this element from
            // binding its address. So the element tries again now.
            if self.listener.is_none() {
                cx.set_timer(OPEN_AGAIN, cx.now());
            }
            return Err("another address: clients are not taken over".into());
        }
        // Connections that this element has accepted came by its own listening socket, which is now replaced
        // by the socket of the old element.
        for connection in self.connections.drain(..) {
            cx.files().unwatch(connection.token);
        }
        if state.listener.is_some() {
            cx.clear_timer(OPEN_AGAIN);
            (self.listener, self.port) = (state.listener, state.port);
        }
        (self.connections, self.next_token) = (state.connections, state.next_token);
        for connection in &mut self.connections {
            connection.session.read_only = self.read_only;
            cx.files()
                .watch(connection.token, connection.stream.file(), Interest::Both)
                .map_err(|error| error.to_string())?;
            connection.interest = Interest::Both;
        }
        self.listen(cx)
    }
}

const HANDLERS: &[Handler<ControlSocket>] = &[
    Handler::read("port", |e, cx, _| e.own_value(cx, "port")),
    Handler::read("filename", |e, cx, _| e.own_value(cx, "filename")),
];
