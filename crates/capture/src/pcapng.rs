//! The pcapng format (draft-ietf-opsawg-pcapng): a file is a sequence of blocks. A section header block
//! sets the byte order and starts a new list of interfaces. An interface description block sets a link type
//! and a unit of time. A packet block has a packet of one of these interfaces. Blocks of other types are
//! skipped.

use wire::LinkType;

use crate::MAX_CAPTURED;
use crate::buffer::{self, Buffer};
use crate::byte_order::ByteOrder;
use crate::error::ErrorKind;
use crate::record::Found;

pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
/// The type number of the obsolete packet block, which old files have.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The size in bytes of an empty block: type, length, and the length again at its end.
const MIN_BLOCK: usize = 12;
/// The size in bytes of a block's type and length, before its body.
const BLOCK_HEADER: usize = 8;

/// The largest number of interfaces in a section, more than in any real file. It limits the memory that a
/// malformed file takes.
const MAX_INTERFACES: usize = 65_536;

/// The state of reading a file: the byte order and the interfaces of the current section.
#[derive(Debug)]
pub(crate) struct Pcapng {
    order: ByteOrder,
    interfaces: Vec<Interface>,
    /// The first interface in the file; `None` if none has been read yet. It gives the link type, the unit of
    /// time and the snap length that the reader reports for the whole file.
    pub(crate) first: Option<Interface>,
}

/// An interface on which packets were captured, from its interface description block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface {
    pub(crate) link: LinkType,
    /// The largest number of bytes captured of a packet (snap length); 0 means no limit.
    pub(crate) snap_length: u32,
    unit: TimeUnit,
    /// The number of seconds that are added to all time stamps of the interface (option if_tsoffset).
    time_offset: i64,
}

/// The unit in which an interface counts time (option if_tsresol).
#[derive(Debug, Clone, Copy)]
enum TimeUnit {
    /// A tick is this number of nanoseconds.
    Nanoseconds(u64),
    /// A second has this number of ticks, a power of ten above 10^9; `u128::MAX` if the power does not fit.
    Fraction(u128),
    /// A second has 2^N ticks, where N is this number.
    PowerOfTwo(u32),
}

/// The first fields of a block: type and length, and the byte order in which the block is written.
#[derive(Debug, Clone, Copy)]
struct Header {
    order: ByteOrder,
    kind: u32,
    /// The size of the whole block in bytes: at least [`MIN_BLOCK`], and a multiple of 4.
    length: u32,
}

/// The result of reading one block.
enum Block {
    Packet(Found),
    Other,
    End,
}

impl Pcapng {
    /// Reads blocks up to the first interface description, so that the link type is known, or to the end of
    /// the file. Returns `None`, and consumes nothing, if the file does not start with a section header.
    pub(crate) fn open(input: &mut Buffer) -> Result<Option<Self>, ErrorKind> {
        if ByteOrder::Little.words(input.peek(4)?) != Some([SECTION_HEADER]) {
            return Ok(None);
        }
        let mut pcapng = Pcapng { order: ByteOrder::Little, interfaces: Vec::new(), first: None };
        while pcapng.first.is_none() {
            match pcapng.block(input)? {
                Block::Other => {}
                Block::Packet(_) | Block::End => break,
            }
        }
        Ok(Some(pcapng))
    }

    /// Finds the next packet, whose block stays in the buffer. Returns `None` at the end of the file.
    #[inline]
    pub(crate) fn find(&mut self, input: &mut Buffer) -> Result<Option<Found>, ErrorKind> {
        loop {
            match self.block(input)? {
                Block::Packet(found) => return Ok(Some(found)),
                Block::Other => {}
                Block::End => return Ok(None),
            }
        }
    }

    /// True if the time stamps of the file's first interface are finer than microseconds.
    pub(crate) fn nanoseconds(&self) -> bool {
        self.first.is_some_and(|interface| match interface.unit {
            TimeUnit::Nanoseconds(per_tick) => per_tick < 1_000,
            TimeUnit::Fraction(_) => true,
            TimeUnit::PowerOfTwo(bits) => bits > 19,
        })
    }

    /// Reads the next block. The block of a packet stays in the buffer; all other blocks are consumed.
    fn block(&mut self, input: &mut Buffer) -> Result<Block, ErrorKind> {
        let Some(header) = Header::read(self.order, input.peek(MIN_BLOCK)?)? else { return Ok(Block::End) };
        self.order = header.order;
        let truncated = |have| ErrorKind::Truncated { need: header.length.into(), have };
        if !header.is_known() {
            let skipped = input.skip(header.length.into())?;
            return if skipped == u64::from(header.length) {
                Ok(Block::Other)
            } else {
                Err(truncated(skipped))
            };
        }
        let total = header.length as usize;
        if total > buffer::CAPACITY {
            return Err(header.fault("a block of this type cannot be that long"));
        }
        let block = input.peek(total)?;
        if block.len() < total {
            return Err(truncated(block.len() as u64));
        }
        let (body, trailer) = block.split_at(total - 4);
        if header.order.words(trailer) != Some([header.length]) {
            return Err(header.fault("the length at its end differs"));
        }
        let body = body.get(BLOCK_HEADER..).unwrap_or_default();
        match header.kind {
            SECTION_HEADER => self.start_section(&header, body)?,
            INTERFACE_DESCRIPTION => self.add_interface(&header, body)?,
            _ => return self.packet(&header, body).map(Block::Packet),
        }
        input.take(total);
        Ok(Block::Other)
    }

    fn start_section(&mut self, header: &Header, body: &[u8]) -> Result<(), ErrorKind> {
        let [_magic, version] = header.words(body)?;
        match header.order.halves(version) {
            (1, _) => {
                self.interfaces.clear();
                Ok(())
            }
            (major, minor) => Err(ErrorKind::Version { major, minor }),
        }
    }

    fn add_interface(&mut self, header: &Header, body: &[u8]) -> Result<(), ErrorKind> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(header.fault("more than 65536 interfaces"));
        }
        let interface = Interface::parse(header, body)?;
        self.interfaces.push(interface);
        self.first.get_or_insert(interface);
        Ok(())
    }

    #[inline]
    fn packet(&self, header: &Header, body: &[u8]) -> Result<Found, ErrorKind> {
        let (interface, time, captured, wire_len, data_offset);
        if header.kind == SIMPLE_PACKET {
            [wire_len] = header.words(body)?;
            interface = self.interface(0)?;
            time = 0;
            data_offset = 4;
            // A simple packet block has no captured length: it follows from the length on the wire, the
            // snap length and the size of the block. The block is not larger than the buffer, so that the
            // cast cannot overflow.
            let limit = if interface.snap_length == 0 { u32::MAX } else { interface.snap_length };
            captured = wire_len.min(limit).min((body.len() - data_offset) as u32);
        } else {
            let (id, high, low);
            [id, high, low, captured, wire_len] = header.words(body)?;
            // In the obsolete packet block, only the first 16 bits are the interface; the others count
            // dropped packets.
            let id = if header.kind == PACKET { header.order.halves(id).0.into() } else { id };
            interface = self.interface(id)?;
            time = interface.time(u64::from(high) << 32 | u64::from(low));
            data_offset = 20;
        }
        if captured as usize > MAX_CAPTURED {
            return Err(ErrorKind::TooLong { captured });
        }
        if captured as usize > body.len() - data_offset {
            return Err(header.fault("the packet's captured length is larger than the block"));
        }
        Ok(Found {
            time,
            wire_len,
            link: interface.link,
            data_offset: BLOCK_HEADER + data_offset,
            captured: captured as usize,
            total: header.length as usize,
        })
    }

    fn interface(&self, id: u32) -> Result<Interface, ErrorKind> {
        let known = self.interfaces.len();
        self.interfaces.get(id as usize).copied().ok_or(ErrorKind::Interface { id, known })
    }
}

impl Header {
    /// Parses the first 12 bytes of a block, which are read in byte order `order`. A section header sets
    /// its own byte order. Returns `None` if `bytes` is empty.
    #[inline]
    fn read(order: ByteOrder, bytes: &[u8]) -> Result<Option<Header>, ErrorKind> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let Some([kind, length, magic]) = order.words(bytes) else {
            return Err(ErrorKind::Truncated { need: MIN_BLOCK as u64, have: bytes.len() as u64 });
        };
        let mut header = Header { order, kind, length };
        // The type number of a section header is a palindrome, the same in both byte orders. The magic
        // number after it shows the order.
        if kind == SECTION_HEADER && magic != BYTE_ORDER_MAGIC {
            if magic.swap_bytes() != BYTE_ORDER_MAGIC {
                return Err(header.fault("its byte-order magic is none"));
            }
            header.order = order.other();
            header.length = length.swap_bytes();
        }
        if (header.length as usize) < MIN_BLOCK {
            return Err(header.fault("a block has at least 12 bytes"));
        }
        if !header.length.is_multiple_of(4) {
            return Err(header.fault("lengths of blocks are multiples of 4"));
        }
        Ok(Some(header))
    }

    /// True if the reader uses blocks of this type; blocks of other types are skipped.
    #[inline]
    fn is_known(&self) -> bool {
        matches!(self.kind, SECTION_HEADER | INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET)
    }

    /// Returns the first `N` words of the block's body; fails if the body is shorter.
    #[inline]
    fn words<const N: usize>(&self, body: &[u8]) -> Result<[u32; N], ErrorKind> {
        self.order.words(body).ok_or_else(|| self.fault("too short for its type"))
    }

    #[cold]
    fn fault(&self, what: &'static str) -> ErrorKind {
        ErrorKind::Block { kind: self.kind, length: self.length, what }
    }
}

impl Interface {
    /// Parses the body of an interface description block. Options that are malformed are ignored; an option
    /// that extends beyond the block ends the list.
    fn parse(header: &Header, body: &[u8]) -> Result<Self, ErrorKind> {
        let order = header.order;
        let [link_reserved, snap_length] = header.words(body)?;
        let (link, _reserved) = order.halves(link_reserved);
        let mut interface = Interface {
            link: LinkType::from_number(link),
            snap_length,
            unit: TimeUnit::Nanoseconds(1_000),
            time_offset: 0,
        };
        let mut options = body.get(8..).unwrap_or_default();
        while let Some([header]) = order.words(options) {
            let (code, length) = order.halves(header);
            let value = options.get(4..).unwrap_or_default();
            match (code, value.get(..length.into())) {
                (0, _) | (_, None) => break,
                // Option if_tsresol: the unit of time.
                (9, Some(&[resolution, ..])) => interface.unit = TimeUnit::from_resolution(resolution),
                // Option if_tsoffset: the seconds to add to time stamps.
                (14, Some(seconds)) => interface.time_offset = order.long(seconds).unwrap_or(0) as i64,
                _ => {}
            }
            options = value.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(interface)
    }

    /// Converts a time stamp in ticks to nanoseconds since 1970. A value that 64 bits cannot hold becomes
    /// the nearest that they can.
    #[inline]
    fn time(&self, ticks: u64) -> i64 {
        let since_offset = match self.unit {
            TimeUnit::Nanoseconds(per_tick) => u128::from(ticks) * u128::from(per_tick),
            TimeUnit::Fraction(per_second) => u128::from(ticks) * 1_000_000_000 / per_second,
            TimeUnit::PowerOfTwo(bits) => (u128::from(ticks) * 1_000_000_000) >> bits,
        };
        // `since_offset` is below 2^64 * 10^9, and the time offset adds less than 2^63 * 10^9, so that the
        // sum fits into 128 bits.
        let time = since_offset as i128 + i128::from(self.time_offset) * 1_000_000_000;
        time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

impl TimeUnit {
    /// Parses the option if_tsresol. With the top bit set, a second has 2 to the power of the other 7 bits
    /// of ticks; otherwise 10 to the power of the value.
    fn from_resolution(resolution: u8) -> Self {
        match resolution {
            0..=9 => TimeUnit::Nanoseconds(10u64.pow(9 - u32::from(resolution))),
            // 10^39 ticks per second and more do not fit into 128 bits. In their place, `u128::MAX` ticks per
            // second make all times of such an interface zero.
            10..=127 => TimeUnit::Fraction(10u128.checked_pow(resolution.into()).unwrap_or(u128::MAX)),
            128.. => TimeUnit::PowerOfTwo(u32::from(resolution & 0x7f)),
        }
    }
}
