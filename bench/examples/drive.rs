//! Drives packets through a benchmark's chain without measuring time; `bench/instructions` counts what the
//! processor executes meanwhile. Usage: `drive NAME PACKETS`, where NAME may also be a chain: `Null -> Discard`.

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("usage: drive NAME PACKETS")?;
    let packets = args.next().and_then(|n| n.parse().ok()).ok_or("usage: drive NAME PACKETS")?;
    tidegate_bench::drive_only(&name, packets)
}
