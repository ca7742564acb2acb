//! The common parts of elements that send packets over sockets of the operating system: options, outgoing
//! packets and incoming packets.

pub mod mcast_socket;
mod outgoing;
pub mod socket;

use std::io;

use element::effects::{Action, Case, EXTRA_LENGTH, Field, Filter, Target, Value};
use element::{Args, Cx, DropReason, Effects};
use packet::{Annotations, MAX_PACKET};
use socket2::Socket;

use crate::reason;

/// The largest number of packets taken from a socket per turn, so that a busy socket does not keep others
/// waiting.
const MOST_RECEIVED: usize = 64;
/// Room in bytes for any datagram, so that the length of a datagram that is cut is known.
const LONGEST_DATAGRAM: usize = MAX_PACKET;

/// The keyword arguments of every socket.
struct Common {
    snap_length: usize,
    time_stamps: bool,
    receive_buffer: Option<u32>,
    send_buffer: Option<u32>,
}

impl Common {
    fn read(args: &mut Args<'_>) -> Common {
        // Packets always have the same headroom.
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

    /// Makes a packet of received bytes, cut at SNAPLEN, and emits it.
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

/// Returns the declaration of an element whose packets end at its input, and whose output emits other
/// packets.
fn effects(observes: &[Field]) -> Effects {
    // Other elements have to know the fields that are set in packets from outside.
    let length = Value::Pure { name: "length of the datagram", reads: Vec::new() };
    let received =
        Case::new(Filter::One(Vec::new()), Target::Output(0)).with(Action::Set(EXTRA_LENGTH, length));
    let sent = Case::new(Filter::Any, Target::Send);
    Effects {
        cases: vec![received, sent],
        hold: element::effects::Hold::Fifo { may_drop: true },
        ..Effects::source("received packet").observing(&[Field::Length, Field::Payload]).observing(observes)
    }
}

/// Returns a function that prefixes an error's text with the name of the failed step.
fn failed(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{what}: {}", reason(&error))
}
