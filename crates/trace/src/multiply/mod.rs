//! Multiplication of the load of a capture: consecutive windows of the capture are played at the same time,
//! as the Reframer paper makes its traces (section 5.1, Figure 11).
//!
//! Window `w` has the packets whose time since the first packet is at least `w` and less than `w` + 1 window
//! lengths; window 0 also has the packets with an earlier time than the first packet. In the result, all
//! windows begin together, and the addresses of each window after the first are moved to separate networks
//! (`networks`). So the load and the number of flows multiply, and the time between packets of a flow stays
//! the same.
//!
//! The capture is read once. Each window is stored in an unnamed temporary file. Then the files are merged
//! in the order of the packets' times. So memory does not depend on the length of the capture.

mod networks;
mod rewrite;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::IpAddr;

use capture::{LinkType, Reader, Writer, WriterOptions};

use networks::{Moves, Networks, NoRoom, stays};
use rewrite::rewrite;

/// The largest number of windows. It is limited because each window has an open file.
pub const MOST_WINDOWS: usize = 256;

/// The division of a capture into windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// The number of windows, up to [`MOST_WINDOWS`].
    pub count: usize,
    /// The length of each window, in nanoseconds.
    pub length: i64,
}

/// The result of [`multiply()`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multiplied {
    /// The number of packets read in each window.
    pub packets: Vec<u64>,
    /// The number of packets after the last window, which are not in the result.
    pub after_windows: u64,
    /// The number of packets that are not in the result because all of their addresses are fixed (multicast
    /// or reserved) and cannot be moved. Only the first window keeps such packets; in other windows they
    /// would add to the same flows.
    pub left_out: u64,
    /// The length in bits of the IPv4 prefixes that are replaced, 8 to 24. The bits after the prefix stay
    /// the same.
    pub prefix: u32,
}

/// Reasons for which [`multiply()`] fails.
#[derive(Debug)]
pub enum Error {
    /// The number of windows or their length is out of range; the message says which.
    Windows(String),
    /// The capture cannot be read.
    Capture(capture::Error),
    /// The capture has no packet in one of the windows.
    Short {
        /// The first window without packets, counted from 1.
        window: usize,
        /// The time from the first packet to the last, in nanoseconds.
        lasts: i64,
        /// The requested windows.
        windows: Windows,
    },
    /// A packet has another link type than the first packet, so a pcap file cannot hold both. Has the
    /// packet's number.
    Link(u64),
    /// The capture has too many networks to move each window to networks of its own.
    NoRoom(NoRoom),
    /// A window could not be stored, or the trace could not be written.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |nanoseconds: i64| nanoseconds as f64 / 1e9;
        match self {
            Error::Windows(what) => f.write_str(what),
            Error::Capture(error) => error.fmt(f),
            Error::Short { window, lasts, windows } => write!(
                f,
                "window {window} of {} has no packets: the capture lasts {} s, and {} windows of {} s take {} s; ask for fewer \
                 or shorter ones",
                windows.count,
                seconds(*lasts),
                windows.count,
                seconds(windows.length),
                seconds(windows.length.saturating_mul(windows.count as i64)),
            ),
            Error::Link(number) => {
                write!(
                    f,
                    "packet {number} has another link layer than the first one, which a pcap file has no room for"
                )
            }
            Error::NoRoom(error) => error.fmt(f),
            Error::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<capture::Error> for Error {
    fn from(error: capture::Error) -> Error {
        Error::Capture(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// The next packet of a window: its time since the start of the window in nanoseconds, its window, and its
/// length on the wire in bytes. `Reverse` makes the heap return the earliest packet first.
type Waiting = Reverse<(i64, usize, u32)>;

/// Plays the windows of a capture at the same time and writes the result to `output` as a pcap file, in the
/// order of the packets' times. The temporary files of the windows are in `folder`. `progress` is called
/// after each packet with the sum of the packets that have been read and the packets that have been merged.
///
/// # Errors
/// See [`Error`]. `output` may then hold a part of the result.
pub fn multiply<W: Write>(
    trace: &mut Reader,
    windows: Windows,
    folder: &std::path::Path,
    output: W,
    progress: &mut dyn FnMut(u64),
) -> Result<Multiplied, Error> {
    if !(1..=MOST_WINDOWS).contains(&windows.count) {
        return Err(Error::Windows(format!(
            "there can be 1 to {MOST_WINDOWS} windows, not {}",
            windows.count
        )));
    }
    if windows.length <= 0 {
        return Err(Error::Windows("a window has to be longer than nothing".into()));
    }
    let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    let mut parts = Parts { first: None, last: i64::MIN, files: Vec::new(), packets: vec![0; windows.count] };
    let mut networks = Networks::none();
    let (mut after_windows, mut done) = (0, 0);
    let mut frame = Vec::new();
    while let Some(record) = trace.next()? {
        let (first, link) = *parts.first.get_or_insert((record.time, record.link));
        if record.link != link {
            return Err(Error::Link(record.number));
        }
        parts.last = parts.last.max(record.time);
        // Times may go back. A packet with an earlier time than the first packet goes into the first
        // window.
        let window =
            usize::try_from(record.time.saturating_sub(first).max(0) / windows.length).unwrap_or(usize::MAX);
        if window >= windows.count {
            after_windows += 1;
        } else {
            frame.clear();
            frame.extend_from_slice(record.data);
            rewrite(&mut frame, link, &mut |address| {
                match address {
                    IpAddr::V4(address) => networks.add_v4(address.to_bits()),
                    IpAddr::V6(address) => networks.add_v6(address.to_bits()),
                }
                address
            });
            parts.file(window, folder, WriterOptions { link, ..options })?.write(
                record.time,
                record.wire_len,
                [record.data],
            )?;
            parts.packets[window] += 1;
        }
        done += 1;
        progress(done);
    }
    let (first, link) = parts.first.unwrap_or((0, LinkType::Ethernet));
    if let Some(window) = parts.packets.iter().position(|packets| *packets == 0) {
        return Err(Error::Short {
            window: window + 1,
            lasts: parts.last.saturating_sub(first).max(0),
            windows,
        });
    }
    let moves = networks.moves(windows.count).map_err(Error::NoRoom)?;
    let mut multiplied =
        Multiplied { packets: parts.packets.clone(), after_windows, left_out: 0, prefix: moves.v4_bits() };
    let mut readers = parts.readers()?;
    let mut frames = vec![Vec::new(); windows.count];
    let mut waiting: BinaryHeap<Waiting> = BinaryHeap::with_capacity(windows.count);
    let mut take = |window: usize, frames: &mut [Vec<u8>], waiting: &mut BinaryHeap<Waiting>| {
        if let Some(record) = readers[window].next()? {
            frames[window].clear();
            frames[window].extend_from_slice(record.data);
            let time = record.time.saturating_sub(first).max(0) - windows.length * window as i64;
            waiting.push(Reverse((time, window, record.wire_len)));
        }
        Ok::<(), Error>(())
    };
    for window in 0..windows.count {
        take(window, &mut frames, &mut waiting)?;
    }
    let mut writer = Writer::new(output, WriterOptions { link, ..options });
    while let Some(Reverse((time, window, wire_len))) = waiting.pop() {
        match moved(&mut frames[window], link, &moves, window as u32) {
            true => writer.write(first + time, wire_len, [&frames[window][..]])?,
            false => multiplied.left_out += 1,
        }
        take(window, &mut frames, &mut waiting)?;
        done += 1;
        progress(done);
    }
    writer.flush()?;
    Ok(multiplied)
}

/// Moves the addresses of a packet to the networks of its time window of the capture. False if the packet
/// must be left out: it has addresses, all of them are fixed (multicast or reserved, so that they stay the
/// same in every window), and `window` is not the first.
fn moved(frame: &mut [u8], link: LinkType, moves: &Moves, window: u32) -> bool {
    let (mut seen, mut moved) = (false, false);
    rewrite(frame, link, &mut |address| {
        seen = true;
        moved |= !stays(address);
        match address {
            IpAddr::V4(address) => IpAddr::from(moves.v4(address.to_bits(), window).to_be_bytes()),
            IpAddr::V6(address) => IpAddr::from(moves.v6(address.to_bits(), window).to_be_bytes()),
        }
    });
    window == 0 || !seen || moved
}

/// The windows of the capture, each stored in a temporary file.
struct Parts {
    /// The time in nanoseconds and the link type of the first packet; `None` without packets.
    first: Option<(i64, LinkType)>,
    last: i64,
    /// The file of each window and its writer. Windows after the last window with packets have none.
    files: Vec<(File, Writer<File>)>,
    packets: Vec<u64>,
}

impl Parts {
    fn file(
        &mut self,
        window: usize,
        folder: &std::path::Path,
        options: WriterOptions,
    ) -> io::Result<&mut Writer<File>> {
        while self.files.len() <= window {
            let file = tempfile::tempfile_in(folder)?;
            self.files.push((file.try_clone()?, Writer::new(file, options)));
        }
        Ok(&mut self.files[window].1)
    }

    /// Finishes the files and returns a reader for each window, at its first packet.
    fn readers(self) -> Result<Vec<Reader>, Error> {
        let read = |(number, (mut file, mut writer)): (usize, (File, Writer<File>))| {
            writer.flush()?;
            file.rewind()?;
            Ok(Reader::from_read(file, format!("window {}", number + 1))?)
        };
        self.files.into_iter().enumerate().map(read).collect()
    }
}
