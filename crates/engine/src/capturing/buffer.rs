//! The buffer between the workers, which capture packets, and the thread that writes them.

use std::io;

use element::view::link_number;
use element::{DropReason, ElementId, Packet, Timestamp};

use super::{CaptureFile, CapturedPacket, declaration};

/// The size of a buffer: bytes of packets, and packets.
const BYTES: usize = 4 << 20;
const PACKETS: usize = 8_192;

/// Packets that were captured, one after the other.
#[derive(Default)]
pub(super) struct Buffer {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

/// The place and the time at which packets are captured.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) worker: usize,
    pub(crate) element: ElementId,
    pub(crate) event: Event,
    pub(crate) now: Timestamp,
}

/// The event in which a packet is captured.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The packet came to an input.
    Came(usize),
    /// The packet left by an output.
    Left(usize),
    /// The packet was dropped for a reason.
    Dropped(DropReason),
}

struct Entry {
    moment: Moment,
    time: Timestamp,
    link: u16,
    /// The end of the packet's bytes in the buffer.
    end: usize,
}

impl Buffer {
    /// Makes an empty buffer, whose memory is allocated. `None` if there is not enough memory.
    pub(super) fn new() -> Option<Buffer> {
        let mut buffer = Buffer::default();
        buffer.entries.try_reserve_exact(PACKETS).ok()?;
        buffer.bytes.try_reserve_exact(BYTES).ok()?;
        Some(buffer)
    }

    /// Adds a copy of a packet. Returns false if there is no room.
    pub(super) fn add(&mut self, moment: &Moment, packet: &Packet) -> bool {
        let room = self.bytes.capacity() - self.bytes.len();
        if self.entries.len() == self.entries.capacity() || packet.len() > room {
            return false;
        }
        packet.chunks().for_each(|chunk| self.bytes.extend_from_slice(chunk));
        let time = if packet.time().is_set() { packet.time() } else { moment.now };
        let link = link_number(packet);
        self.entries.push(Entry { moment: *moment, time, link, end: self.bytes.len() });
        true
    }

    /// Writes all packets to a file, and empties the buffer. Returns the number of packets written.
    pub(super) fn write_to(
        &mut self,
        file: &mut dyn CaptureFile,
        graph: &lang::Graph,
    ) -> (u64, io::Result<()>) {
        let (mut start, mut written) = (0, 0);
        let mut result = Ok(());
        for Entry { moment, time, link, end } in self.entries.drain(..) {
            let data = self.bytes.get(start..end).unwrap_or_default();
            let packet = CapturedPacket { time, link, data, comment: &moment.comment(graph) };
            result = file.write(&packet);
            if result.is_err() {
                break;
            }
            (start, written) = (end, written + 1);
        }
        self.bytes.clear();
        // What is in the file so far can be read at any time.
        let result = result.and_then(|()| file.flush());
        (written, result)
    }
}

impl Moment {
    fn comment(&self, graph: &lang::Graph) -> String {
        let element = declaration(graph, self.element);
        let what = match self.event {
            Event::Came(input) => format!("came to input {input} of {element}"),
            Event::Left(output) => format!("left by output {output} of {element}"),
            Event::Dropped(reason) => format!("dropped at {element}: {reason}"),
        };
        format!("{what} (worker {})", self.worker)
    }
}
