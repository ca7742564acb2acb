//! Elements that exchange packets over sockets of the operating system, and their common parts: the
//! arguments, and the emission of received bytes. `outgoing` holds packets that a socket has not taken yet.

pub mod mcast_socket;
mod outgoing;
pub mod socket;

use std::io;

use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, Target, Value};
use element::{Args, Cx, DropReason, Effects};
use packet::{Annotations, MAX_PACKET};
use socket2::Socket;

use crate::reason;

/// The largest number of reads from a socket per turn, so that a busy socket does not delay other elements.
const MOST_RECEIVED: usize = 64;
/// The size in bytes of a buffer for datagrams: no datagram is longer, so that the length of a datagram
/// that is cut at SNAPLEN is known.
const LONGEST_DATAGRAM: usize = MAX_PACKET;

/// The arguments that Socket and McastSocket have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Common {
    snap_length: usize,
    time_stamps: bool,
    receive_buffer: Option<u32>,
    send_buffer: Option<u32>,
}

impl Common {
    fn read(args: &mut Args<'_>) -> Common {
        // Accepted without effect, because packets always have 256 bytes of headroom.
        args.value::<u32>("HEADROOM");
        Common {
            snap_length: (args.value::<u32>("SNAPLEN") as usize).clamp(1, MAX_PACKET),
            time_stamps: args.value("TIMESTAMP"),
            receive_buffer: args.get("RCVBUF"),
            send_buffer: args.get("SNDBUF"),
        }
    }

    fn set_send_buffer(&self, socket: &Socket) -> Result<(), String> {
        let set = self.send_buffer.map_or(Ok(()), |size| socket.set_send_buffer_size(size as usize));
        set.map_err(failed("setsockopt(SO_SNDBUF)"))
    }

    fn set_receive_buffer(&self, socket: &Socket) -> Result<(), String> {
        let set = self.receive_buffer.map_or(Ok(()), |size| socket.set_recv_buffer_size(size as usize));
        set.map_err(failed("setsockopt(SO_RCVBUF)"))
    }

    /// Makes a packet of received bytes and emits it at output 0. Bytes beyond SNAPLEN are cut off; the
    /// extra length annotation is their number. Bytes are lost if there is no memory for a packet.
    fn emit(&self, cx: &mut Cx<'_>, bytes: &[u8]) {
        let kept = &bytes[..bytes.len().min(self.snap_length)];
        let Some(mut packet) = cx.packet(kept) else { return };
        if kept.len() < bytes.len() {
            packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, (bytes.len() - kept.len()) as u32);
        }
        if self.time_stamps {
            packet.set_time(cx.now());
        }
        cx.emit_one(0, packet, DropReason::NoOutput);
    }
}

/// Returns the effects that Socket and McastSocket declare: packets that come in are sent to the socket, and
/// packets that go out are new. `observes` lists fields that the element reads besides the bytes.
fn effects(observes: &[Field]) -> Effects {
    // The case matches no input packet, because received packets are new. It tells other elements that the
    // extra length annotation is set.
    let length = Value::Pure { name: "length of the datagram", reads: Vec::new() };
    let received = Case::new(Filter::FALSE, Target::Output(0)).with(Action::Set(EXTRA_LENGTH, length));
    let sent = Case::new(Filter::TRUE, Target::Send);
    Effects {
        cases: vec![received, sent],
        hold: element::effects::Hold::Fifo { may_drop: true },
        ..Effects::source("received packet").observing(&[Field::Length, Field::Payload]).observing(observes)
    }
}

/// Returns a function that makes a message of an error: the name of the failed step, and the reason.
fn failed(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{what}: {}", reason(&error))
}
