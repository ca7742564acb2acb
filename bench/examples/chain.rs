//! Measures the cost per packet of chains given as arguments, downstream of a replay from memory: `cargo run
//! --release --example chain -- 'Counter -> Discard'`. The environment variable `PACKETS` sets the number of
//! packets in memory.

use bench::{Settings, measure_chain, table};

fn main() {
    let packets = std::env::var("PACKETS").ok().and_then(|n| n.parse().ok());
    let settings = Settings { packets: packets.unwrap_or(Settings::USUAL.packets), ..Settings::USUAL };
    let mut rows = Vec::new();
    for chain in std::env::args().skip(1) {
        match measure_chain("chain", &settings, 64, &chain) {
            Ok(row) => rows.push(row),
            Err(error) => eprintln!("{chain}: {error}"),
        }
    }
    print!("{}", table(&rows));
}
