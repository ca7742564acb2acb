//! Capture files: a streaming [`Reader`] of pcap and pcapng, plain or compressed, a [`Writer`] of pcap, and a
//! [`PcapngWriter`] of packets with comments.
//!
//! | file | holds |
//! | --- | --- |
//! | `reader.rs`, `record.rs` | [`Reader`], [`Record`]: one interface to all formats |
//! | `classic.rs`, `pcapng.rs` | the two formats: find and parse the next record |
//! | `input.rs`, `stream.rs`, `gzip.rs`, `zstd.rs` | decompression, by magic number |
//! | `buffer.rs` | the read buffer |
//! | `writer.rs`, `pcapng_writer.rs` | [`Writer`], [`PcapngWriter`] |
//! | `summary/` | [`summary`]: IP summary dumps |
//! | `content.rs` | [`content`]: detects the content of a file by its first bytes |
//! | `error.rs` | [`Error`]: file, packet, offset, error and hint |
//!
//! Memory does not grow with the size of a file, and reading a record of a plain pcap file allocates nothing.
//!
//! ```
//! use capture::{LinkType, Reader, Writer, WriterOptions};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, WriterOptions { nanoseconds: true, ..WriterOptions::default() });
//! writer.write(1_000_000_001, 60, [&b"a captured "[..], b"frame"])?;
//! writer.flush()?;
//! drop(writer);
//!
//! let mut reader = Reader::from_read(std::io::Cursor::new(file), "example")?;
//! assert_eq!(reader.link(), LinkType::Ethernet);
//! while let Some(record) = reader.next()? {
//!     assert_eq!((record.time, record.data, record.wire_len), (1_000_000_001, &b"a captured frame"[..], 60));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffer;
mod byte_order;
mod classic;
mod content;
mod error;
mod gzip;
mod input;
mod pcapng;
mod pcapng_writer;
mod reader;
mod record;
mod stream;
pub mod summary;
mod writer;
mod zstd;

pub use content::{Content, content};
pub use error::{Error, ErrorKind};
pub use pcapng_writer::PcapngWriter;
pub use reader::Reader;
pub use record::Record;
pub use wire::LinkType;
pub use writer::{Writer, WriterOptions, buffer as writer_buffer, create};

/// The largest number of captured bytes of one packet: 256 KiB, the limit of libpcap.
pub const MAX_CAPTURED: usize = 262_144;
