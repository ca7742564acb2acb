//! Drives packets through a benchmark's chain without measuring time; `bench/instructions` runs this
//! program to count the instructions that the processor executes.
//!
//! Usage: `drive NAME PACKETS [PACKETS IN MEMORY]`, where NAME is a benchmark or a chain such as `Null ->
//! Discard`; with `16: Null -> Discard`, packets come in runs of 16 packets of one flow.

fn main() -> Result<(), String> {
    let usage = "usage: drive NAME PACKETS [PACKETS IN MEMORY]";
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or(usage)?;
    let packets = args.next().and_then(|n| n.parse().ok()).ok_or(usage)?;
    let in_memory = args.next().map(|n| n.parse().map_err(|_| usage)).transpose()?;
    bench::drive_only(&name, packets, in_memory)
}
