//! # McastSocket
//! Sends its input packets to a multicast group over UDP, and emits the packets that others send to the
//! group.
//!
//! Packets do not go from the input to the output. The output emits the packets that any sender sends to
//! the group, including the element's own; with SOURCEIP it recognizes its own packets and ignores them.
//! Pushed packets wait in the element while the socket takes nothing, as in `Socket`.
//!
//! ## Usage
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP, SOURCEPORT, KEYWORDS])`
//!
//! ## Arguments
//! - `MCASTIP`: the group.
//! - `MCASTPORT`: the port of the group.
//! - `SOURCEIP`: the address to send from; the element sends and listens on the interface with this
//!   address. Otherwise the system's routes choose the interface.
//! - `SOURCEPORT`: the port to send from. Without SOURCEIP it has no effect, and a warning says so.
//! - `LOOP`: true if programs on this machine receive the packets as well.
//! - `SNAPLEN`: the largest number of bytes of a received packet; longer packets are cut.
//! - `TIMESTAMP`: true to set the time stamp of received packets to the current time.
//! - `SNDBUF`: the size of the system's buffer for sending.
//! - `RCVBUF`: the size of the system's buffer for receiving.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//!
//! ## Example
//! ```click
//! link :: McastSocket(239.0.0.1, 1234, 127.0.0.1) -> Print -> Discard;
//! InfiniteSource(LIMIT 3, STOP true) -> link
//! ```
//!
//! ## See also
//! Socket

use std::any::Any;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use element::args::UdpPort;
use element::class::{ArgInfo, Notes, Task};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Interest, Packet, StatePart, manual};
use socket2::{Domain, Protocol, SockAddr, Type};

use super::outgoing::{Line, Outgoing};
use super::{Common, LONGEST_DATAGRAM, MOST_RECEIVED, effects, failed};
use crate::losses::LastFailure;
use crate::reason;

/// The element class McastSocket.
pub static CLASS: Class = Class {
    name: "McastSocket",
    ports: "0-1/0-1",
    processing: "a/h",
    notes: Notes { is_outside: true, task: Task::WherePulling, ..Notes::NONE },
    flow: "x/y",
    manual: manual!("mcast_socket.rs"),
    args: &[
        ArgInfo::required("MCASTIP", "IP address"),
        ArgInfo::required("MCASTPORT", "port"),
        ArgInfo::positional("SOURCEIP", "IP address", "").computed("any address"),
        ArgInfo::positional("SOURCEPORT", "port", "0"),
        ArgInfo::keyword("LOOP", "bool", "true"),
        ArgInfo::keyword("SNAPLEN", "unsigned", "2048"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("SNDBUF", "unsigned", ""),
        ArgInfo::keyword("RCVBUF", "unsigned", ""),
        ArgInfo::keyword("HEADROOM", "unsigned", "28"),
    ],
    state: &[StatePart::kept("sockets", &[]), StatePart::kept("packets", &[])],
    samples: &["239.0.0.1, 45454, 127.0.0.1, LOOP false -> 1/1", "239.0.0.1, 45454, 127.0.0.1 -> 0/1"],
    build: |args| {
        let ip = args.required_or("MCASTIP", Ipv4Addr::UNSPECIFIED);
        let port = args.required::<UdpPort>("MCASTPORT").0;
        let source_ip = args.get("SOURCEIP").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let source_port = args.value::<UdpPort>("SOURCEPORT").0;
        if source_port != 0 && source_ip.is_unspecified() {
            args.warn("SOURCEPORT has no effect without SOURCEIP");
        }
        let socket = McastSocket {
            group: SocketAddrV4::new(ip, port),
            wanted: SocketAddrV4::new(source_ip, source_port),
            source: SocketAddrV4::new(source_ip, source_port),
            loops: args.value("LOOP"),
            common: Common::read(args),
            receives: args.outputs() > 0,
            pulls: false,
            sockets: None,
            outgoing: Outgoing::new(),
            waits_to_write: false,
            failure: LastFailure::default(),
            buffer: Vec::new(),
        };
        args.finish()?;
        Ok(Box::new(socket))
    },
    ..Class::DEFAULT
};

/// The tokens of the watched files: `RECEIVER` of the socket that receives, and `SENDER` of the socket that
/// sends.
const RECEIVER: u32 = 0;
const SENDER: u32 = 1;

struct McastSocket {
    group: SocketAddrV4,
    /// The arguments SOURCEIP and SOURCEPORT.
    wanted: SocketAddrV4,
    /// The address and port from which packets are sent, by which the element recognizes its own packets;
    /// 0.0.0.0 without SOURCEIP.
    source: SocketAddrV4,
    loops: bool,
    common: Common,
    /// True if the element has an output. Otherwise it does not read from the socket.
    receives: bool,
    /// True if the input is a pull input.
    pulls: bool,
    sockets: Option<Sockets>,
    outgoing: Outgoing,
    waits_to_write: bool,
    /// The kind of the last error.
    failure: LastFailure<ErrorKind>,
    buffer: Vec<u8>,
}

/// The state that an element passes to the element of the same name that replaces it.
struct Legacy {
    /// `opened` has the settings with which the sockets were opened: group, SOURCEIP and SOURCEPORT, LOOP,
    /// and the arguments in common with Socket. `source` is the address from which packets are sent.
    opened: (SocketAddrV4, SocketAddrV4, bool, Common),
    source: SocketAddrV4,
    sockets: Sockets,
    outgoing: Outgoing,
}

struct Sockets {
    receiver: UdpSocket,
    sender: socket2::Socket,
    group: SockAddr,
}

impl Line for Sockets {
    const STREAM: bool = false;

    fn send(&self, _packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.sender.send_to_vectored(pieces, &self.group)
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }
}

impl McastSocket {
    /// Returns the settings that cannot be changed while the sockets are open.
    fn settings(&self) -> (SocketAddrV4, SocketAddrV4, bool, Common) {
        (self.group, self.wanted, self.loops, self.common.clone())
    }

    fn open(&mut self) -> Result<Sockets, String> {
        let new = || socket2::Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
        let receiver = new().map_err(failed("socket"))?;
        let sender = new().map_err(failed("socket"))?;
        self.common.set_send_buffer(&sender)?;
        self.common.set_receive_buffer(&receiver)?;
        // SO_REUSEADDR is set, because other programs on this machine may listen to the same group and port.
        receiver.set_reuse_address(true).map_err(failed("setsockopt(SO_REUSEADDR)"))?;
        receiver.bind(&self.group.into()).map_err(failed("bind"))?;
        let source = *self.source.ip();
        if !source.is_unspecified() {
            sender.bind(&self.source.into()).map_err(failed("bind"))?;
            let own = sender.local_addr().map_err(failed("getsockname"))?;
            self.source = own.as_socket_ipv4().unwrap_or(self.source);
            sender.set_multicast_if_v4(&source).map_err(failed("setsockopt(IP_MULTICAST_IF)"))?;
        }
        receiver
            .join_multicast_v4(self.group.ip(), &source)
            .map_err(failed("setsockopt(IP_ADD_MEMBERSHIP)"))?;
        sender.set_multicast_loop_v4(self.loops).map_err(failed("setsockopt(IP_MULTICAST_LOOP)"))?;
        receiver.set_nonblocking(true).map_err(failed("fcntl"))?;
        sender.set_nonblocking(true).map_err(failed("fcntl"))?;
        Ok(Sockets { receiver: receiver.into(), sender, group: self.group.into() })
    }

    fn receive(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..MOST_RECEIVED {
            let Some(sockets) = &self.sockets else { return };
            if !cx.has_room() {
                return;
            }
            match sockets.receiver.recv_from(&mut self.buffer) {
                Ok((_, from)) if from == self.source.into() => {}
                Ok((n, _)) => self.common.emit(cx, &self.buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.tell(cx, &error),
            }
        }
    }

    /// Reports an error, unless the last error was of the same kind and less than ten seconds ago.
    fn tell(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        if self.failure.is_new(error.kind(), cx.now()) {
            let why = reason(error);
            cx.warn(format_args!("{why}"));
        }
    }

    /// Sends waiting packets, as many as the socket takes. `presses` is true for pushed packets: then, if
    /// too many packets wait, the call waits for the socket, and the upstream elements with it.
    fn send(&mut self, cx: &mut Cx<'_>, presses: bool) {
        let Some(sockets) = &self.sockets else { return };
        let mut fault = self.outgoing.work(cx, sockets, presses);
        let waits = !self.outgoing.is_empty();
        if waits && !self.waits_to_write {
            fault = cx.files().watch(SENDER, sockets.file(), Interest::Write).err().or(fault);
        } else if !waits && self.waits_to_write {
            cx.files().unwatch(SENDER);
        }
        self.waits_to_write = waits;
        if let Some(error) = fault {
            self.tell(cx, &error);
        }
    }
}

impl Element for McastSocket {
    fn effects(&self) -> Effects {
        effects(&[])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let sockets = self.open()?;
        if self.receives {
            self.buffer = vec![0; LONGEST_DATAGRAM];
            cx.files().watch(RECEIVER, sockets.receiver.as_fd(), Interest::Read).map_err(failed("poll"))?;
        }
        self.sockets = Some(sockets);
        self.pulls = !cx.graph().input_is_push(0);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.outgoing.add(cx, batch);
        self.send(cx, true);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.outgoing.is_empty() {
            return false;
        }
        let batch = cx.pull(0, cx.burst());
        let worked = !batch.is_empty();
        self.outgoing.add(cx, batch);
        self.send(cx, false);
        if self.outgoing.is_empty() && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == RECEIVER {
            return self.receive(cx);
        }
        self.send(cx, false);
        if self.pulls && self.outgoing.is_empty() {
            cx.schedule();
        }
    }

    fn held(&self) -> usize {
        self.outgoing.len()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(sockets) = &self.sockets {
            self.outgoing.finish(cx, sockets);
        }
        self.outgoing.clear(cx, DropReason::Stop);
        self.outgoing.end(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.files().unwatch(RECEIVER);
        cx.files().unwatch(SENDER);
        self.sockets = None;
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let sockets = self.sockets.take()?;
        let outgoing = std::mem::replace(&mut self.outgoing, Outgoing::new());
        Some(Box::new(Legacy { opened: self.settings(), source: self.source, sockets, outgoing }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Ok(legacy) = state.downcast::<Legacy>() else { return Err("state of another element".into()) };
        let Legacy { opened, source, sockets, outgoing } = *legacy;
        self.outgoing = outgoing;
        if opened == self.settings() {
            // This element continues with the sockets of the element that it replaces. The sockets that this
            // element has opened itself are closed. No datagram is lost with them, because both elements'
            // sockets have received the same datagrams.
            if self.receives {
                let receiver = sockets.receiver.as_fd();
                cx.files().watch(RECEIVER, receiver, Interest::Read).map_err(failed("poll"))?;
            }
            (self.source, self.sockets) = (source, Some(sockets));
        }
        self.send(cx, false);
        Ok(())
    }
}
