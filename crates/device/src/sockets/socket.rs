//! # Socket
//! Sends its input packets over a TCP, UDP or Unix socket, and emits the packets that arrive there.
//!
//! Packets do not go from the input to the output. With `TCP` and `UNIX`, the element is a server or a
//! client. A server waits at its address for one connection at a time; a client connects when the graph
//! starts. The streams have no packet boundaries: packets are sent as bytes, and bytes that are read together
//! become a packet. With `UDP` and `UNIX_DGRAM`, each packet is a datagram. A server sends to the sender of
//! the last datagram that was not empty; a client sends to the address that it was given. The file of a Unix
//! socket that a killed program has left is replaced; if another process or element has the socket open, the
//! element fails.
//!
//! Pushed packets wait in the element while the socket takes nothing. When 4096 packets wait, the upstream
//! element has to wait, too. If nothing can be sent for a second, further packets are dropped. Packets that
//! are pushed while there is no connection, or no known peer, are dropped. With a pull input, the element
//! pulls as the socket takes packets, and only while there is a connection.
//!
//! ## Usage
//! `Socket(TCP, ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT, KEYWORDS])`, also with `UDP`;
//! `Socket(UNIX, FILENAME [, LOCAL_FILENAME, KEYWORDS])`, also with `UNIX_DGRAM`
//!
//! ## Arguments
//! - `TYPE`: `TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`.
//! - `ADDR`: the IP address of the server to connect to, or of this server. A UDP client with 0.0.0.0 sends
//!   each packet to its destination address annotation.
//! - `PORT`: the port; with 0, the system chooses the port of a server.
//! - `LOCAL_ADDR`: the address from which a client connects or sends.
//! - `LOCAL_PORT`: the port from which a client connects or sends.
//! - `WAIT_LEARN`: if true, the element is a server, and sends to the sender of the last datagram.
//! - `FILENAME`: the path of a Unix socket; a zero byte at the start (`"\<00>name"`) makes it an abstract
//!   name.
//! - `LOCAL_FILENAME`: the path of the client itself.
//! - `CLIENT`: if true, the element is a client. If not given, it is a client if it has no output or a local
//!   address.
//! - `SNAPLEN`: the most bytes of a packet that arrives. A longer datagram is cut; on a stream, longer data
//!   become several packets.
//! - `TIMESTAMP`: if true, packets that arrive get the current time as their time stamp.
//! - `NODELAY`: if true, TCP sends small packets immediately.
//! - `SNDBUF`: the size of the system's buffer for sending.
//! - `RCVBUF`: the size of the system's buffer for receiving.
//! - `VERBOSE`: if true, connections and failures are reported.
//! - `HEADROOM`: accepted, without effect; packets always have 256 bytes of headroom.
//! - `PROPER`: accepted; it was for PlanetLab.
//! - `ALLOW`: not supported yet.
//! - `DENY`: not supported yet.
//!
//! ## Example
//! ```click
//! Socket(UDP, 127.0.0.1, 0) -> Print -> Discard;
//! InfiniteSource(LIMIT 3, STOP true) -> Socket(UDP, 127.0.0.1, 9)
//! ```
//!
//! ## See also
//! McastSocket, ControlSocket

use std::any::Any;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use element::args::IpPort;
use element::class::{ArgInfo, Notes, Task};
use element::effects::DST_IP;
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Interest, Packet, StatePart, Timestamp, manual,
};
use socket2::{Domain, Protocol, SockAddr, Type};

use super::outgoing::{Line, Outgoing};
use super::{Common, LONGEST_DATAGRAM, MOST_RECEIVED, effects, failed};
use crate::handover::{Claimant, Registry};
use crate::reason;
use crate::unix_socket;

/// The element class Socket.
pub static CLASS: Class = Class {
    name: "Socket",
    aliases: &["FromSocket", "ToSocket"],
    ports: "0-1/0-1",
    processing: "a/h",
    notes: Notes { is_outside: true, task: Task::WherePulling, ..Notes::NONE },
    flow: "x/y",
    manual: manual!("socket.rs"),
    args: &[
        ArgInfo::required("TYPE", "word"),
        ArgInfo::positional("ADDR", "IP address", ""),
        ArgInfo::positional("PORT", "port", ""),
        ArgInfo::positional("LOCAL_ADDR", "IP address", "").computed("any address"),
        ArgInfo::positional("LOCAL_PORT", "port", "").computed("the kernel's choice"),
        ArgInfo::positional("WAIT_LEARN", "bool", "false"),
        ArgInfo::positional("FILENAME", "file", ""),
        ArgInfo::positional("LOCAL_FILENAME", "file", ""),
        ArgInfo::keyword("CLIENT", "bool", ""),
        ArgInfo::keyword("SNAPLEN", "unsigned", "2048"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("NODELAY", "bool", "true"),
        ArgInfo::keyword("SNDBUF", "unsigned", ""),
        ArgInfo::keyword("RCVBUF", "unsigned", ""),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "unsigned", "28"),
        ArgInfo::keyword("PROPER", "bool", "false"),
        ArgInfo::keyword("ALLOW", "element", ""),
        ArgInfo::keyword("DENY", "element", ""),
    ],
    state: &[StatePart::kept("connection", &[]), StatePart::kept("packets", &[])],
    samples: &[
        "UDP, 0.0.0.0, 0 -> 0/1",
        "UDP, 127.0.0.1, 9 -> 1/0",
        "UDP, 0.0.0.0, 9, CLIENT true -> 1/1",
        "TCP, 127.0.0.1, 0 -> 1/1",
        "UNIX_DGRAM, \"\\<00>absent\", CLIENT true -> 1/0",
    ],
    build: |args| {
        let kind = args.required::<String>("TYPE").to_ascii_uppercase();
        let common = Common::read(args);
        let client: Option<bool> = args.get("CLIENT");
        let (no_delay, verbose) = (args.value::<bool>("NODELAY"), args.value::<bool>("VERBOSE"));
        args.value::<bool>("PROPER");
        for name in ["ALLOW", "DENY"] {
            if args.get::<String>(name).is_some() {
                args.error(format!("{name}: route tables are not supported yet"));
            }
        }
        let stream = matches!(kind.as_str(), "TCP" | "UNIX");
        let mut learns = false;
        let (address, local) = match kind.as_str() {
            "TCP" => internet::<{ wire::ip_protocol::TCP }>(args, &mut learns),
            "UDP" => internet::<{ wire::ip_protocol::UDP }>(args, &mut learns),
            "UNIX" | "UNIX_DGRAM" => unix(args),
            _ => {
                if args.was_given("TYPE") {
                    args.error(format!("unknown socket type `{kind}'"));
                }
                (Address::Unix(String::new()), None)
            }
        };
        let default = args.outputs() == 0 || local.is_some();
        let client = !learns && client.unwrap_or(default);
        let settings = Settings { stream, address, local, client, no_delay, common };
        let socket = Socket {
            settings,
            seat: None,
            configuration: Arc::clone(&args.setup.common),
            waits: false,
            verbose,
            receives: args.outputs() > 0,
            pulls: false,
            listener: None,
            connection: None,
            outgoing: Outgoing::new(),
            buffer: Vec::new(),
            made: None,
        };
        args.finish()?;
        Ok(Box::new(socket))
    },
    ..Class::DEFAULT
};

/// The tokens of the watched files: `LISTENER` of the listening socket, and `CONNECTION` of the connection or
/// datagram socket.
const LISTENER: u32 = 0;
const CONNECTION: u32 = 1;
/// The number of connections that may wait for `accept` while another connection is served, as in Click.
const BACKLOG: i32 = 2;
/// `CONNECT` is the longest time for connecting to a server over TCP. `PAUSE` is the time in seconds until
/// the next attempt after `accept` has failed.
const CONNECT: Duration = Duration::from_secs(10);
const PAUSE: i64 = 1;
/// The largest length in bytes of a Unix socket's path, and of an abstract name after its zero byte
/// (unix(7)).
const LONGEST_PATH: usize = 107;

fn internet<const PROTOCOL: u8>(args: &mut Args<'_>, learns: &mut bool) -> (Address, Option<Address>) {
    let ip = args.required_or("ADDR", Ipv4Addr::UNSPECIFIED);
    let IpPort::<PROTOCOL>(port) = args.required("PORT");
    let local_ip: Option<Ipv4Addr> = args.get("LOCAL_ADDR");
    let local_port: Option<IpPort<PROTOCOL>> = args.get("LOCAL_PORT");
    *learns = args.value("WAIT_LEARN");
    let local = (local_ip.is_some() || local_port.is_some()).then(|| {
        let port = local_port.unwrap_or_default().0;
        Address::Internet(SocketAddrV4::new(local_ip.unwrap_or(Ipv4Addr::UNSPECIFIED), port))
    });
    (Address::Internet(SocketAddrV4::new(ip, port)), local)
}

fn unix(args: &mut Args<'_>) -> (Address, Option<Address>) {
    let path: String = args.required("FILENAME");
    let local: Option<String> = args.get("LOCAL_FILENAME");
    for (which, path) in [("remote", Some(&path)), ("local", local.as_ref())] {
        if let Some(path) = path
            && path.len() > LONGEST_PATH + usize::from(path.starts_with('\0'))
        {
            args.error(format!("{which} filename '{path}' too long"));
        }
    }
    (Address::Unix(path), local.map(Address::Unix))
}

/// The address of a socket, or of its peer: an IPv4 address and port, or the path of a Unix socket.
#[derive(Clone, PartialEq, Eq)]
enum Address {
    Internet(SocketAddrV4),
    Unix(String),
}

impl Address {
    fn raw(&self) -> io::Result<SockAddr> {
        match self {
            Address::Internet(address) => Ok((*address).into()),
            Address::Unix(path) => SockAddr::unix(path),
        }
    }

    /// Returns the address as text for messages.
    fn shown(&self) -> String {
        match self {
            Address::Internet(address) => address.to_string(),
            Address::Unix(path) => path.clone(),
        }
    }
}

/// The settings of sockets that elements of this process have open.
static OPENED: Registry<Settings> = Registry::new();

/// The settings with which a socket is opened. On a reload, an element with the same settings continues with
/// the socket.
#[derive(Clone, PartialEq, Eq)]
struct Settings {
    stream: bool,
    address: Address,
    /// The address from which a client connects or sends, if LOCAL_ADDR, LOCAL_PORT or LOCAL_FILENAME gives
    /// it.
    local: Option<Address>,
    client: bool,
    no_delay: bool,
    common: Common,
}

/// The state that an element passes to the element of the same name that replaces it.
struct Legacy {
    settings: Settings,
    listener: Option<socket2::Socket>,
    connection: Option<Connection>,
    outgoing: Outgoing,
    made: Option<String>,
}

struct Socket {
    settings: Settings,
    /// The entry for the socket in [`OPENED`]. An element that waits for the socket of a running element has
    /// the same entry.
    seat: Option<Arc<Settings>>,
    /// The objects that the elements of this configuration share.
    configuration: Arc<element::setup::Common>,
    /// True if this element will replace a running element and waits for its socket.
    waits: bool,
    verbose: bool,
    /// True if the element has an output. Otherwise it does not read from the socket.
    receives: bool,
    /// True if the input is a pull input.
    pulls: bool,
    /// The listening socket of a server on a stream; `None` for clients and datagrams.
    listener: Option<socket2::Socket>,
    connection: Option<Connection>,
    outgoing: Outgoing,
    /// The buffer into which bytes or a datagram are received.
    buffer: Vec<u8>,
    /// The path of the Unix socket's file that this element has created. The element removes the file when
    /// it is closed.
    made: Option<String>,
}

/// The connected stream, or the datagram socket.
struct Connection {
    socket: socket2::Socket,
    /// The socket as a type of the standard library, which returns the sender of a datagram.
    receiver: Receiver,
    /// The peer to which datagrams are sent; `None` while no peer is known, and for streams.
    remote: Option<SockAddr>,
    /// The destination port, if the destination annotation of each packet gives the address.
    port: Option<u16>,
    /// The events of the socket for which the engine calls the element; `None` if it watches none.
    interest: Option<Interest>,
}

enum Receiver {
    Stream,
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Connection {
    fn stream(socket: socket2::Socket) -> Connection {
        Connection { socket, receiver: Receiver::Stream, remote: None, port: None, interest: None }
    }

    /// Receives the next bytes of a stream, or a datagram, into `to`. Returns the number of bytes. With
    /// `learns`, the sender of a datagram that is not empty becomes the peer.
    fn receive(&mut self, to: &mut [u8], learns: bool) -> io::Result<usize> {
        let (n, from) = match &self.receiver {
            Receiver::Stream => return (&self.socket).read(to),
            Receiver::Udp(socket) => {
                let (n, from) = socket.recv_from(to)?;
                (n, Some(SockAddr::from(from)))
            }
            Receiver::Unix(socket) => {
                let (n, from) = socket.recv_from(to)?;
                (n, unix_address(&from))
            }
        };
        if learns && n > 0 {
            self.remote = from;
        }
        Ok(n)
    }
}

/// Returns the address of a datagram's sender, for answers. Returns `None` if the sender's socket has no
/// address, so that it can get no answers.
fn unix_address(from: &UnixAddress) -> Option<SockAddr> {
    match (from.as_pathname(), from.as_abstract_name()) {
        (Some(path), _) => SockAddr::unix(path).ok(),
        (None, Some(name)) => {
            let name = [b"\0", name].concat();
            SockAddr::unix(std::ffi::OsStr::from_bytes(&name)).ok()
        }
        (None, None) => None,
    }
}

/// A stream, to which [`Outgoing`] sends the bytes of packets.
struct Bytes<'a>(&'a socket2::Socket);

impl Line for Bytes<'_> {
    const STREAM: bool = true;

    fn send(&self, _packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(pieces)
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A datagram socket, to which [`Outgoing`] sends a datagram per packet.
struct Datagrams<'a>(&'a Connection);

impl Line for Datagrams<'_> {
    const STREAM: bool = false;

    fn send(&self, packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Connection { socket, remote, port, .. } = self.0;
        if let Some(port) = port {
            let ip = Ipv4Addr::from(packet.destination());
            return socket.send_to_vectored(pieces, &SocketAddrV4::new(ip, *port).into());
        }
        match remote {
            Some(remote) => socket.send_to_vectored(pieces, remote),
            None => Err(ErrorKind::NotConnected.into()),
        }
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl Socket {
    fn tell(&self, cx: &mut Cx<'_>, text: std::fmt::Arguments<'_>) {
        if self.verbose {
            cx.warn(format_args!("{text}"));
        }
    }

    fn tell_reason(&self, cx: &mut Cx<'_>, error: &io::Error) {
        if self.verbose {
            self.tell(cx, format_args!("{}", reason(error)));
        }
    }

    /// Creates the socket, sets its options, and binds it to its own address: a server always, a client if
    /// a local address is given.
    fn open(&mut self) -> Result<socket2::Socket, String> {
        let (domain, protocol) = match (&self.settings.address, self.settings.stream) {
            (Address::Unix(_), _) => (Domain::UNIX, None),
            (Address::Internet(_), true) => (Domain::IPV4, Some(Protocol::TCP)),
            (Address::Internet(_), false) => (Domain::IPV4, Some(Protocol::UDP)),
        };
        let kind = if self.settings.stream { Type::STREAM } else { Type::DGRAM };
        let socket = socket2::Socket::new(domain, kind, protocol).map_err(failed("socket"))?;
        let internet = domain == Domain::IPV4;
        if internet && self.settings.stream {
            socket.set_tcp_nodelay(self.settings.no_delay).map_err(failed("setsockopt(TCP_NODELAY)"))?;
            // A server can start on its port although connections of an earlier run are still being closed
            // there (SO_REUSEADDR).
            if !self.settings.client {
                socket.set_reuse_address(true).map_err(failed("setsockopt(SO_REUSEADDR)"))?;
            }
        }
        self.settings.common.set_send_buffer(&socket)?;
        self.settings.common.set_receive_buffer(&socket)?;
        let own =
            if self.settings.client { self.settings.local.as_ref() } else { Some(&self.settings.address) };
        if let Some(own) = own {
            let bind = || own.raw().and_then(|own| socket.bind(&own));
            match own {
                Address::Unix(path) if !path.starts_with('\0') => {
                    unix_socket::bind(path, bind).map_err(|error| format!("bind: {error}"))?;
                    self.made = Some(path.clone());
                }
                _ => bind().map_err(failed("bind"))?,
            }
        }
        Ok(socket)
    }

    /// Creates the socket and puts it into operation: a stream client connects, a stream server listens,
    /// and a datagram socket waits for datagrams.
    fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let socket = self.open()?;
        let file = socket.as_raw_fd();
        if self.settings.stream && !self.settings.client {
            socket.listen(BACKLOG).map_err(failed("listen"))?;
            socket.set_nonblocking(true).map_err(failed("fcntl"))?;
            let at = socket.local_addr().ok().and_then(|at| at.as_socket());
            let at = at.map_or_else(|| self.settings.address.shown(), |at| at.to_string());
            self.tell(cx, format_args!("listening for connections on {at} ({file})"));
            self.listener = Some(socket);
            return self.listen(cx);
        }
        let remote = self.settings.address.raw().map_err(failed("connect"))?;
        let connection = if self.settings.stream {
            connect(&socket, &self.settings.address, &remote).map_err(failed("connect"))?;
            let to = self.settings.address.shown();
            self.tell(cx, format_args!("opened connection {file} to {to}"));
            Connection::stream(socket)
        } else {
            let copy = socket.try_clone().map_err(failed("socket"))?;
            let (receiver, port) = match &self.settings.address {
                Address::Internet(to) => {
                    let by_packet = self.settings.client && to.ip().is_unspecified();
                    (Receiver::Udp(copy.into()), by_packet.then_some(to.port()))
                }
                Address::Unix(_) => (Receiver::Unix(OwnedFd::from(copy).into()), None),
            };
            let remote = self.settings.client.then_some(remote);
            Connection { receiver, remote, port, ..Connection::stream(socket) }
        };
        connection.socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        self.connection = Some(connection);
        self.wait(cx).map_err(failed("poll"))
    }

    /// Returns true if a running element with the same settings will hand its socket over to this element.
    /// Otherwise lists the settings in [`OPENED`].
    fn may_wait(&mut self, cx: &mut Cx<'_>) -> bool {
        let by = Claimant::new(cx, &self.configuration);
        let running = OPENED.claim(&by, |settings| *settings == self.settings).filter(|_| cx.is_heir());
        let waits = running.is_some();
        self.seat = Some(running.unwrap_or_else(|| {
            let seat = Arc::new(self.settings.clone());
            OPENED.list(&by, &seat, true);
            seat
        }));
        waits
    }

    fn listen(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        match &self.listener {
            Some(listener) => {
                cx.files().watch(LISTENER, listener.as_fd(), Interest::Read).map_err(failed("poll"))
            }
            None => Ok(()),
        }
    }

    /// Accepts the next connection, unless there is one already. If the system cannot accept, tries again
    /// after a second; if the client has gone, does nothing.
    fn accept(&mut self, cx: &mut Cx<'_>) {
        let Some(listener) = self.listener.as_ref().filter(|_| self.connection.is_none()) else { return };
        let (socket, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                use ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                if !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
                    let why = reason(&error);
                    cx.warn(format_args!("accept: {why}"));
                    // The connection stays in the kernel's queue, and would be reported again at once. The
                    // listening socket is watched again after a second.
                    cx.files().unwatch(LISTENER);
                    cx.set_timer(LISTENER, cx.now() + Timestamp::from_secs(PAUSE));
                }
                return;
            }
        };
        let from = match from.as_socket() {
            Some(from) => from.to_string(),
            None => from.as_pathname().map(|path| path.display().to_string()).unwrap_or_default(),
        };
        let file = socket.as_raw_fd();
        self.tell(cx, format_args!("opened connection {file} from {from}"));
        let internet = matches!(self.settings.address, Address::Internet(_));
        let ready = socket.set_nonblocking(true);
        if ready.is_err() || (internet && socket.set_tcp_nodelay(self.settings.no_delay).is_err()) {
            return;
        }
        // Only one connection is served at a time. Further clients wait in the kernel's queue.
        cx.files().unwatch(LISTENER);
        self.connection = Some(Connection::stream(socket));
        if self.wait(cx).is_err() {
            self.hang_up(cx);
        } else if self.pulls {
            cx.schedule();
        }
    }

    /// True if packets can be sent: to a connected stream, or to a peer of the datagram socket that is
    /// known.
    fn goes_somewhere(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|c| self.settings.stream || c.remote.is_some() || c.port.is_some())
    }

    /// Makes the engine watch the socket: for reading if there is an output, for writing if packets wait.
    fn wait(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let interest = match (self.receives, self.outgoing.is_empty()) {
            (true, true) => Some(Interest::Read),
            (true, false) => Some(Interest::Both),
            (false, true) => None,
            (false, false) => Some(Interest::Write),
        };
        if interest != connection.interest {
            match interest {
                Some(interest) => cx.files().watch(CONNECTION, connection.socket.as_fd(), interest)?,
                None => cx.files().unwatch(CONNECTION),
            }
            connection.interest = interest;
        }
        Ok(())
    }

    /// Closes the connection and drops packets that cannot be sent any more. A server then waits for the
    /// next connection.
    fn hang_up(&mut self, cx: &mut Cx<'_>) {
        let Some(connection) = self.connection.take() else { return };
        cx.files().unwatch(CONNECTION);
        let file = connection.socket.as_raw_fd();
        self.tell(cx, format_args!("closed connection {file}"));
        // Packets that were pulled go to the next client, except for a packet of which a part has been
        // sent.
        if self.pulls && self.listener.is_some() {
            self.outgoing.cut(cx);
        } else {
            self.outgoing.clear(cx, DropReason::WriteError);
        }
        if let Err(error) = self.listen(cx) {
            cx.warn(format_args!("{error}"));
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..MOST_RECEIVED {
            let Some(connection) = &mut self.connection else { return };
            if !cx.has_room() {
                return;
            }
            match connection.receive(&mut self.buffer, !self.settings.client) {
                // On a stream, 0 bytes mean that the peer has closed it. An empty datagram is ignored.
                Ok(0) if self.settings.stream => return self.hang_up(cx),
                Ok(0) => {}
                Ok(n) => {
                    self.settings.common.emit(cx, &self.buffer[..n]);
                    // A stream that returned fewer bytes than there is room for has no more bytes at the
                    // moment.
                    if self.settings.stream && n < self.buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.tell_reason(cx, &error);
                    // An error of a datagram socket concerns one datagram. Other datagrams may still
                    // arrive.
                    return if self.settings.stream {
                        self.hang_up(cx)
                    };
                }
            }
        }
    }

    /// Sends waiting packets, as many as the socket takes. `presses` is true for pushed packets: then, if
    /// too many packets wait, the call waits for the socket, and the upstream elements with it.
    fn send(&mut self, cx: &mut Cx<'_>, presses: bool) {
        let Some(connection) = &self.connection else { return };
        let fault = if self.settings.stream {
            self.outgoing.work(cx, &Bytes(&connection.socket), presses)
        } else {
            self.outgoing.work(cx, &Datagrams(connection), presses)
        };
        if let Some(error) = fault {
            self.tell_reason(cx, &error);
            if self.settings.stream {
                return self.hang_up(cx);
            }
        }
        if let Err(error) = self.wait(cx) {
            self.tell_reason(cx, &error);
            self.hang_up(cx);
        }
    }
}

/// Connects a socket, in at most [`CONNECT`] over TCP. The time for a Unix socket cannot be limited.
fn connect(socket: &socket2::Socket, address: &Address, raw: &SockAddr) -> io::Result<()> {
    match address {
        Address::Internet(_) => socket.connect_timeout(raw, CONNECT),
        Address::Unix(_) => socket.connect(raw),
    }
}

impl Element for Socket {
    fn effects(&self) -> Effects {
        effects(&[DST_IP])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let room = if self.settings.stream { self.settings.common.snap_length } else { LONGEST_DATAGRAM };
        self.buffer = vec![0; room];
        self.pulls = !cx.graph().input_is_push(0);
        if self.may_wait(cx) {
            // The running element hands its socket over. If it does not, the timer opens a socket.
            self.waits = true;
            cx.set_timer(LISTENER, cx.now());
            return Ok(());
        }
        self.start(cx)?;
        if self.pulls && self.connection.is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if !self.goes_somewhere() {
            self.outgoing.refuse(cx, batch);
            return None;
        }
        self.outgoing.add(cx, batch);
        self.send(cx, true);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.goes_somewhere() || !self.outgoing.is_empty() {
            return false;
        }
        let batch = cx.pull(0, cx.burst());
        let worked = !batch.is_empty();
        self.outgoing.add(cx, batch);
        self.send(cx, false);
        if self.connection.is_some() && self.outgoing.is_empty() && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == LISTENER {
            return self.accept(cx);
        }
        let could_pull = self.goes_somewhere() && self.outgoing.is_empty();
        if self.receives {
            self.receive(cx);
        }
        if !self.outgoing.is_empty() {
            self.send(cx, false);
        }
        if self.pulls && !could_pull && self.goes_somewhere() && self.outgoing.is_empty() {
            cx.schedule();
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if std::mem::take(&mut self.waits)
            && let Err(error) = self.start(cx)
        {
            cx.warn(format_args!("{error}"));
        }
        if self.connection.is_none()
            && let Err(error) = self.listen(cx)
        {
            cx.warn(format_args!("{error}"));
        }
    }

    fn held(&self) -> usize {
        self.outgoing.len()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(connection) = &self.connection {
            if self.settings.stream {
                self.outgoing.finish(cx, &Bytes(&connection.socket));
            } else {
                self.outgoing.finish(cx, &Datagrams(connection));
            }
        }
        self.outgoing.clear(cx, DropReason::Stop);
        self.outgoing.end(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // The file at the path belongs to this element as long as its socket is open. Therefore the file is
        // removed before the socket is closed.
        if let Some(path) = self.made.take() {
            let _ = std::fs::remove_file(path);
        }
        cx.files().unwatch(LISTENER);
        cx.files().unwatch(CONNECTION);
        (self.listener, self.seat) = (None, None);
        if let Some(connection) = self.connection.take() {
            // The call fails if the peer has closed the connection already.
            let _ = connection.socket.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        // The state is handed over only if the element that replaces this one waits for the socket. An
        // element with other settings has opened a socket of its own.
        let is_awaited = self.seat.as_ref().is_some_and(|seat| Arc::strong_count(seat) > 1);
        is_awaited.then(|| {
            Box::new(Legacy {
                settings: self.settings.clone(),
                listener: self.listener.take(),
                connection: self.connection.take(),
                outgoing: std::mem::replace(&mut self.outgoing, Outgoing::new()),
                made: self.made.take(),
            }) as Box<dyn Any + Send>
        })
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Ok(legacy) = state.downcast::<Legacy>() else { return Err("state of another element".into()) };
        let Legacy { settings, listener, connection, mut outgoing, made } = *legacy;
        if !self.waits || settings != self.settings {
            outgoing.clear(cx, DropReason::Stop);
            return Err("the socket was opened with other arguments, and is closed".into());
        }
        self.waits = false;
        (self.listener, self.made, self.outgoing) = (listener, made, outgoing);
        self.connection = connection.map(|connection| Connection { interest: None, ..connection });
        if self.connection.is_none() {
            return self.listen(cx);
        }
        self.wait(cx).map_err(failed("poll"))?;
        if self.pulls && self.goes_somewhere() && self.outgoing.is_empty() {
            cx.schedule();
        }
        Ok(())
    }
}
