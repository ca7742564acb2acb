//! `tidegate generate`: writes a capture of synthetic traffic with a given number of flows, locality, sizes
//! and rate.

use std::io::Write;

use capture::{Writer, WriterOptions};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use trace::generate::campus::{Campus, CampusDirection, CampusGenerator};
use trace::generate::{Generated, Generator, Protocols, SizeMix, Specification};

use crate::numbers::{not_negative, whole};
use crate::status::{Failure, SUCCESS, Status};

/// The arguments of `generate`.
#[derive(clap::Args)]
#[command(after_help = "\
The trace is a pcap file with nanoseconds. The same arguments give the same bytes. Flows are directed; a TCP flow \
starts with a SYN, has sequence numbers that match its payload, and ends with a FIN. Packets come in runs of one \
flow; `tidegate analyze` reports the requested SLF within 1 %.

With `--like campus`, the sizes of flows and packets, the rate and the times are as the Reframer paper tells of the \
traffic of a campus: up to 10 % in each of the paper's numbers, with two million packets. Packets are IPv4, of one \
direction.")]
pub(crate) struct Args {
    /// The file to write; compressed if its name ends with .gz, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: String,
    /// Make traffic with the distributions of a known trace
    #[arg(
        long, help_heading = "Like a known trace", value_enum,
        conflicts_with_all = ["flows", "slf", "zipf", "sizes", "rate", "protocol", "ipv6", "answers"]
    )]
    like: Option<Like>,
    /// The direction of the packets of the known trace
    #[arg(long, help_heading = "Like a known trace", value_enum, default_value_t = Way::Tx, requires = "like")]
    direction: Way,
    /// The mean number of flows alive at a time; a thousandth of the packets by default
    ///
    /// A flow is alive between its first and its last packet. More flows alive need more packets, because
    /// each flow ends within the trace.
    #[arg(
        long, help_heading = "Like a known trace", value_name = "N", requires = "like",
        value_parser = whole(1..=u32::MAX), allow_negative_numbers = true
    )]
    flows_alive: Option<u32>,
    /// Cut longer frames to this number of bytes; whole by default
    #[arg(
        long, help_heading = "Packets", value_name = "BYTES",
        value_parser = whole(54..=u32::MAX), allow_negative_numbers = true
    )]
    snap_length: Option<u32>,
    /// The number of directed flows, without the flows of answers
    ///
    /// Each flow has at least one packet.
    #[arg(
        long, help_heading = "Flows", value_name = "N", default_value_t = 1000,
        value_parser = whole(1..=u32::MAX), allow_negative_numbers = true
    )]
    flows: u32,
    /// The number of packets, without answers
    #[arg(
        long, help_heading = "Packets", value_name = "N", default_value_t = 100_000,
        value_parser = whole(0..=u64::MAX), allow_negative_numbers = true
    )]
    packets: u64,
    /// The spatial locality factor: the mean number of packets of a flow in a row
    #[arg(
        long, help_heading = "Flows", value_name = "X", default_value_t = 1.0,
        value_parser = not_negative, allow_negative_numbers = true
    )]
    slf: f64,
    /// The exponent of Zipf's law for the flows' shares; 0 gives equal shares
    ///
    /// No flow has more than half of the runs.
    #[arg(
        long, help_heading = "Flows", value_name = "S", default_value_t = 1.0,
        value_parser = not_negative, allow_negative_numbers = true
    )]
    zipf: f64,
    /// Frame sizes in bytes with weights, such as 60:7,590:4,1514:1; `imix` stands for exactly this mix
    ///
    /// The frame check sequence does not count.
    #[arg(long, help_heading = "Packets", value_name = "MIX", default_value = "imix")]
    sizes: SizeMix,
    /// The rate in packets per second; packets are evenly spaced
    #[arg(
        long, help_heading = "Packets", value_name = "PPS", default_value_t = 1e6,
        value_parser = not_negative, allow_negative_numbers = true
    )]
    rate: f64,
    /// The protocol of the flows
    #[arg(long, help_heading = "Flows", value_enum, default_value_t = Protocol::Tcp)]
    protocol: Protocol,
    /// The share of the flows that are IPv6, from 0 to 1
    #[arg(
        long, help_heading = "Flows", value_name = "SHARE", default_value_t = 0.0,
        value_parser = not_negative, allow_negative_numbers = true
    )]
    ipv6: f64,
    /// Answer each TCP packet by an ACK in the opposite flow
    #[arg(long, help_heading = "Packets")]
    answers: bool,
    /// The seed of all random choices
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = whole(0..=u64::MAX), allow_negative_numbers = true
    )]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Like {
    /// The Reframer paper's trace of a campus (section 3)
    Campus,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// From the Internet to the campus
    Rx,
    /// From the campus to the Internet
    Tx,
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
    /// TCP or UDP at random for each flow
    Mix,
}

pub(crate) fn run(args: &Args) -> Status {
    if let Some(Like::Campus) = args.like {
        let campus = Campus {
            direction: match args.direction {
                Way::Rx => CampusDirection::Rx,
                Way::Tx => CampusDirection::Tx,
            },
            packets: args.packets,
            alive: args.flows_alive,
            seed: args.seed,
        };
        let generator = CampusGenerator::new(campus).map_err(|error| Failure::usage(error.to_string()))?;
        return finish(generator.packets(), generator, args);
    }
    let specification = Specification {
        flows: args.flows,
        packets: args.packets,
        slf: args.slf,
        zipf: args.zipf,
        sizes: args.sizes.clone(),
        rate: args.rate,
        protocol: match args.protocol {
            Protocol::Tcp => Protocols::Tcp,
            Protocol::Udp => Protocols::Udp,
            Protocol::Mix => Protocols::Mix,
        },
        ipv6: args.ipv6,
        answers: args.answers,
        seed: args.seed,
    };
    let generator = Generator::new(specification).map_err(|error| Failure::usage(error.to_string()))?;
    // `--answers` adds an ACK for each TCP packet but none for UDP packets, so the progress bar, which
    // expects one for every packet, may end before it is full.
    finish(args.packets.saturating_mul(1 + u64::from(args.answers)), generator, args)
}

/// Writes the packets to the file of `args`. `expected` is their number, for the progress bar.
fn finish(expected: u64, packets: impl Iterator<Item = Generated>, args: &Args) -> Status {
    write(expected, packets, args).map_err(|error| format!("{}: {}", args.output, crate::reason(&error)))?;
    Ok(SUCCESS)
}

fn write(expected: u64, packets: impl Iterator<Item = Generated>, args: &Args) -> std::io::Result<()> {
    /// The number of packets between two updates of the progress bar.
    const STRIDE: u64 = 4096;
    let file: Box<dyn Write> = match args.output.as_str() {
        "-" => Box::new(std::io::stdout().lock()),
        name => capture::create(name)?,
    };
    let mut options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    options.snap_length = args.snap_length.unwrap_or(options.snap_length);
    let mut writer = Writer::new(file, options);
    let progress = ProgressBar::new(expected);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} packets, {per_sec}, {eta} left")
    {
        progress.set_style(style);
    }
    for (number, packet) in (1u64..).zip(packets) {
        writer.write(packet.time, packet.frame.len() as u32, [&packet.frame[..]])?;
        if number.is_multiple_of(STRIDE) {
            progress.set_position(number);
        }
    }
    progress.finish_and_clear();
    writer.flush()
}
