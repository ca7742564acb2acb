//! The files of packets that are captured in a running graph (the handler `capture`).

use std::fs::File;
use std::io;

use capture::{LinkType, PcapngWriter};
use engine::{CaptureFile, CapturedPacket, Captures};

/// Returns the captures of a run, whose files are pcapng.
pub(crate) fn captures() -> Captures {
    Captures::new(Box::new(|file, place| Box::new(Pcapng(PcapngWriter::new(file, place)))))
}

struct Pcapng(PcapngWriter<File>);

impl CaptureFile for Pcapng {
    fn write(&mut self, packet: &CapturedPacket<'_>) -> io::Result<()> {
        let CapturedPacket { time, link, data, comment } = *packet;
        self.0.write(time.0, LinkType::from_number(link), data.len() as u32, data, comment)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
