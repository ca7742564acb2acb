//! A writer of pcapng files with a comment on each packet. They are little-endian on every machine, so that
//! the same packets give the same bytes everywhere.

use std::io::{self, Write};

use wire::LinkType;

use crate::MAX_CAPTURED;
use crate::pcapng::{BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER};

/// The number of bytes after which the buffer is written to the stream.
const BUFFER: usize = 64 << 10;

/// The numbers of options of blocks.
const COMMENT: u16 = 1;
const INTERFACE_NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;

/// A writer of a pcapng file to any stream. Time stamps are in nanoseconds. The packets of each link type
/// have an interface of their own in the file; all interfaces have the same name.
///
/// Call [`PcapngWriter::flush`] at the end: dropping the writer does not write the buffer.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    inner: W,
    buffer: Vec<u8>,
    name: String,
    /// The link types of the interfaces described so far, by the number of the interface.
    links: Vec<LinkType>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a file. The section header goes into the buffer. `name` is the name of the interfaces.
    pub fn new(inner: W, name: &str) -> Self {
        let mut writer =
            PcapngWriter { inner, buffer: Vec::new(), name: name.to_string(), links: Vec::new() };
        writer.block(SECTION_HEADER, |body| {
            body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            // Version 1.0, and a section of unknown length (-1).
            body.extend([1, 0, 0, 0]);
            body.extend([0xff; 8]);
        });
        writer
    }

    /// Adds a packet to the buffer. If the buffer then has at least 64 KiB, writes it to the stream.
    ///
    /// `time` is in nanoseconds since 1970; times before become 1970. `wire_len` is the number of bytes that
    /// the packet had; if more bytes are given, their number is written. Bytes beyond [`MAX_CAPTURED`], and
    /// bytes of the comment beyond 65,535, are left out.
    ///
    /// # Errors
    /// If the stream fails.
    pub fn write(
        &mut self,
        time: i64,
        link: LinkType,
        wire_len: u32,
        data: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        let known = self.links.iter().position(|other| *other == link);
        let interface = known.unwrap_or_else(|| self.describe(link)) as u32;
        let time = u64::try_from(time).unwrap_or(0);
        let kept = data.get(..MAX_CAPTURED).unwrap_or(data);
        let length = wire_len.max(u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.block(ENHANCED_PACKET, |body| {
            for word in [interface, (time >> 32) as u32, time as u32, kept.len() as u32, length] {
                body.extend(word.to_le_bytes());
            }
            body.extend_from_slice(kept);
            pad(body);
            option(body, COMMENT, comment.as_bytes());
            option(body, 0, &[]);
        });
        if self.buffer.len() >= BUFFER { self.write_out() } else { Ok(()) }
    }

    /// Writes the contents of the buffer, and flushes the stream.
    ///
    /// # Errors
    /// If the stream fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out()?;
        self.inner.flush()
    }

    /// Describes an interface for packets of a link type, and returns its number.
    fn describe(&mut self, link: LinkType) -> usize {
        self.links.push(link);
        let name = self.name.clone();
        self.block(INTERFACE_DESCRIPTION, |body| {
            body.extend(u32::from(link.number()).to_le_bytes());
            body.extend((MAX_CAPTURED as u32).to_le_bytes());
            option(body, INTERFACE_NAME, name.as_bytes());
            // A tick is 10^-9 seconds.
            option(body, TIME_RESOLUTION, &[9]);
            option(body, 0, &[]);
        });
        self.links.len() - 1
    }

    /// Adds a block to the buffer, whose body `fill` appends.
    fn block(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        self.buffer.extend(kind.to_le_bytes());
        self.buffer.extend([0; 4]);
        fill(&mut self.buffer);
        // The length of a block stands at its start and at its end.
        let length = ((self.buffer.len() - start + 4) as u32).to_le_bytes();
        self.buffer.extend(length);
        if let Some(place) = self.buffer.get_mut(start + 4..start + 8) {
            place.copy_from_slice(&length);
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let result = self.inner.write_all(&self.buffer);
        self.buffer.clear();
        result
    }
}

/// Appends zeros up to a multiple of 4 bytes. All blocks in the buffer have a multiple of 4 bytes.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Appends an option. A value that is too long is cut at the start of a UTF-8 character.
fn option(body: &mut Vec<u8>, number: u16, value: &[u8]) {
    let mut end = value.len().min(usize::from(u16::MAX));
    while end < value.len() && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    body.extend(number.to_le_bytes());
    body.extend((end as u16).to_le_bytes());
    body.extend_from_slice(&value[..end]);
    pad(body);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::Reader;

    #[test]
    fn another_implementation_reads_packets_and_comments() {
        let packets: Vec<(i64, LinkType, Vec<u8>, String)> = (0..70usize)
            .map(|n| {
                let link = if n % 3 == 0 { LinkType::RawIp } else { LinkType::Ethernet };
                (1_700_000_000_000_000_123 + n as i64, link, vec![n as u8; n * 40], format!("number {n} é"))
            })
            .collect();
        let mut file = Vec::new();
        let mut writer = PcapngWriter::new(&mut file, "nat[0]");
        for (time, link, data, comment) in &packets {
            writer.write(*time, *link, 1000, data, comment).unwrap();
        }
        writer.flush().unwrap();
        drop(writer);

        let mut theirs = pcap_file::pcapng::PcapNgReader::new(Cursor::new(&file)).unwrap();
        let mut ours = Reader::from_read(Cursor::new(file.clone()), "test").unwrap();
        let mut rest = packets.iter();
        while let Some(block) = theirs.next_block() {
            let block = match block.unwrap() {
                pcap_file::pcapng::Block::EnhancedPacket(block) => block.into_owned(),
                pcap_file::pcapng::Block::InterfaceDescription(block) => {
                    let name =
                        pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption::IfName(
                            "nat[0]".into(),
                        );
                    assert!(block.options.contains(&name), "{:?}", block.options);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let (time, _, data, comment) = rest.next().unwrap();
            let option = pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption::Comment(
                comment.as_str().into(),
            );
            assert_eq!((&*block.data, &block.options[..]), (&data[..], &[option][..]));
            assert_eq!(block.original_len, 1000.max(data.len() as u32));
            let record = ours.next().unwrap().unwrap();
            assert_eq!((record.time, record.data), (*time, &data[..]));
        }
        assert!(rest.next().is_none());
        assert!(ours.next().unwrap().is_none());
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let mut body = Vec::new();
        option(&mut body, COMMENT, "é".repeat(40_000).as_bytes());
        let length = usize::from(u16::from_le_bytes([body[2], body[3]]));
        assert_eq!(length, 65_534);
        assert!(std::str::from_utf8(&body[4..4 + length]).is_ok());
        assert_eq!(body.len() % 4, 0);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = PcapngWriter::new(Full, "x");
        assert!(writer.flush().is_err());
        assert!(writer.flush().is_ok(), "what failed is not written again");
    }
}
