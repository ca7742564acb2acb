//! `tidegate multiply`: makes a capture in which several windows of a capture are played at the same time.

use std::path::PathBuf;

use element::args::parse_seconds;
use trace::multiply::{Multiplied, Windows};

use crate::analyze::{is_stream, no_place, open, progress};
use crate::numbers::whole;
use crate::status::{Failure, SUCCESS, Status};

/// The arguments of `multiply`.
#[derive(clap::Args)]
#[command(after_help = "\
Window 1 begins with the first packet, window 2 begins S later, and so forth. In the result all windows begin \
together. The first window keeps its addresses; the addresses of each other window move to networks that the capture \
does not use, network by network, so that no two windows share a flow, and both directions of a connection stay \
together. Addresses in ARP messages and in the packets that ICMP errors quote move too; of tunnels, only the outer \
addresses move. Correct checksums stay correct. Multicast addresses and 255.255.255.255 do not change.")]
pub(crate) struct Args {
    /// The capture: pcap or pcapng, plain, gzip or zstd; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The number of windows to take from the start of the capture, one after the other, at most 256
    #[arg(long, value_name = "N", value_parser = whole(0..=usize::MAX), allow_negative_numbers = true)]
    windows: usize,
    /// The length of each window in seconds, or with a unit: `2.5`, `500ms`
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    length: String,
    /// The file to write; compressed if its name ends with .gz, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Status {
    let Some(length) = parse_seconds(&args.length) else {
        let text = format!("--length: '{}' is no time; write seconds, or '500ms'", args.length);
        return Err(Failure::usage(text));
    };
    let is_same = |(trace, output): (PathBuf, PathBuf)| trace == output;
    if args.trace.canonicalize().ok().zip(args.output.canonicalize().ok()).is_some_and(is_same) {
        let text = format!("{}: would be written over itself; name another file", args.trace.display());
        return Err(Failure::usage(text));
    }
    no_place(&args.output).map_err(Failure::usage)?;
    let windows = Windows { count: args.windows, length: length.0 };
    tell(&multiply(args, windows)?, windows);
    Ok(SUCCESS)
}

fn multiply(args: &Args, windows: Windows) -> Result<Multiplied, String> {
    /// The number of packets between two updates of the progress bar.
    const STRIDE: u64 = 4096;
    let bar = progress(std::slice::from_ref(&args.trace));
    let mut reader = open(&args.trace, &bar).map_err(|error| error.to_string())?;
    let name = args.output.display().to_string();
    // The output file is created with the first bytes of the result, so that an early error leaves an
    // existing file unchanged.
    let mut output = Output { name: &name, file: None };
    let mut report = |packets: u64| {
        if packets.is_multiple_of(STRIDE) {
            bar.set_message(format!("{packets} packets read and written"));
        }
    };
    let multiplied = trace::multiply(&mut reader, windows, &std::env::temp_dir(), &mut output, &mut report);
    bar.finish_and_clear();
    if let Some(warning) = reader.warning() {
        crate::tell(format_args!("{warning}"));
    }
    multiplied.map_err(|error| match error {
        trace::multiply::Error::Io(error) => format!("{name}: {}", crate::reason(&error)),
        other => format!("{}: {other}", args.trace.display()),
    })
}

/// A file that is created when the first bytes are written to it.
struct Output<'n> {
    name: &'n str,
    file: Option<Box<dyn std::io::Write>>,
}

impl Output<'_> {
    fn file(&mut self) -> std::io::Result<&mut Box<dyn std::io::Write>> {
        if self.file.is_none() {
            let is_stream = is_stream(self.name.as_ref());
            self.file =
                Some(if is_stream { Box::new(std::io::stdout()) } else { capture::create(self.name)? });
        }
        self.file.as_mut().ok_or(std::io::ErrorKind::NotFound.into())
    }
}

impl std::io::Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file()?.flush()
    }
}

fn tell(multiplied: &Multiplied, windows: Windows) {
    let Multiplied { packets, after_windows: omitted, left_out, prefix } = multiplied;
    let all: u64 = packets.iter().sum();
    let (least, most) = (packets.iter().min().unwrap_or(&0), packets.iter().max().unwrap_or(&0));
    let seconds = windows.length as f64 / 1e9;
    crate::tell(format_args!(
        "{} windows of {seconds} s with {least} to {most} packets each: {all} packets in {seconds} s",
        packets.len()
    ));
    if packets.len() > 1 {
        crate::tell(format_args!("networks of {prefix} bits and more are recognisable in every window"));
    }
    if *left_out > 0 {
        crate::tell(format_args!(
            "{left_out} packets between addresses of groups are in the first window only"
        ));
    }
    if *omitted > 0 {
        crate::tell(format_args!("{omitted} packets after the last window are omitted"));
    }
}
