//! The packets that are replayed to a chain: their kinds, and the source element that supplies them.

use element::class::{ArgInfo, Notes};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Signal};

use crate::source;

/// The kind of packets that are replayed to a chain, and the header at which they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// UDP over IPv4, starting with the Ethernet header; the position of the IP header is not recorded in the
    /// packet.
    Frame,
    /// UDP over IPv4, starting with the Ethernet header; the position of the IP header is recorded in the
    /// packet (marked).
    Ethernet,
    /// UDP over IPv4, starting with the IP header, which is marked.
    Ip,
    /// TCP over IPv4, starting with the Ethernet header; the IP header is marked.
    Tcp,
    /// UDP over IPv6, starting with the Ethernet header; the IPv6 header is marked.
    Ip6,
}

impl Start {
    /// Returns the elements that mark the IP header and, for `Ip`, strip the Ethernet header; an arrow stands
    /// ahead of each element.
    pub(crate) fn marks(self) -> &'static str {
        match self {
            Start::Frame => "",
            Start::Ethernet | Start::Tcp => "-> MarkIPHeader(14)",
            Start::Ip => "-> Strip(14) -> MarkIPHeader",
            Start::Ip6 => "-> MarkIP6Header(14)",
        }
    }
}

/// The class of a source of benchmark packets, which supplies each packet once. The argument START chooses
/// the packets: 0 for UDP, 1 for TCP, 2 for UDP over IPv6. TOGETHER flows take turns until each has sent
/// LENGTH packets; then other flows follow.
pub(crate) static FRAMES: Class = Class {
    name: "BenchmarkFrames",
    ports: "0/1",
    processing: "l/l",
    args: &[
        ArgInfo::required("PACKETS", "unsigned"),
        ArgInfo::required("FLOWS", "unsigned"),
        ArgInfo::required("FRAME", "unsigned"),
        ArgInfo::positional("START", "unsigned", "0"),
        ArgInfo::positional("LENGTH", "unsigned", "1"),
        ArgInfo::positional("TOGETHER", "unsigned", "1"),
    ],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    build: |args| {
        let frames = Frames {
            left: args.required("PACKETS"),
            flows: args.required("FLOWS"),
            frame: args.required("FRAME"),
            start: match args.value("START") {
                0 => Start::Frame,
                1 => Start::Tcp,
                _ => Start::Ip6,
            },
            length: args.value("LENGTH"),
            together: args.value("TOGETHER"),
        };
        args.finish()?;
        Ok(Box::new(frames))
    },
    ..Class::DEFAULT
};

struct Frames {
    left: usize,
    flows: usize,
    frame: usize,
    start: Start,
    /// The number of packets that a flow sends in a train (`length`), and the number of flows that send their
    /// trains at the same time, one packet each in turn (`together`).
    length: usize,
    together: usize,
}

impl Element for Frames {
    fn effects(&self) -> Effects {
        Effects::source("frame")
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        give(cx, max, || {
            self.left = self.left.checked_sub(1)?;
            let number = source::in_trains(self.left, self.length, self.together);
            Some(match self.start {
                Start::Tcp => source::tcp_frame(number, self.flows, self.frame),
                Start::Ip6 => source::ip6_frame(number, self.flows, self.frame),
                Start::Frame | Start::Ethernet | Start::Ip => source::frame(number, self.flows, self.frame),
            })
        })
    }
}

/// Returns the text of a source element that supplies `packets` packets of 64 bytes of `flows` flows in
/// trains: `together` flows take turns until each has sent `length` packets ([`source::in_trains`]).
pub(crate) fn trains(packets: usize, flows: usize, (length, together): (usize, usize)) -> String {
    format!("BenchmarkFrames({packets}, {flows}, 64, 0, {length}, {together})")
}

/// Returns a batch of at most `max` packets with the frames that `next` returns. If `next` returns None,
/// the source signals that it has no more packets.
pub(crate) fn give(cx: &mut Cx<'_>, max: usize, mut next: impl FnMut() -> Option<Vec<u8>>) -> Batch {
    let mut batch = cx.batch();
    while batch.len() < max {
        let Some(bytes) = next() else {
            cx.set_signal(Signal::Packets, false);
            break;
        };
        if let Some(packet) = cx.packet(&bytes)
            && let Err(packet) = batch.push(packet)
        {
            cx.drop(packet, DropReason::NoBuffer);
        }
    }
    batch
}
