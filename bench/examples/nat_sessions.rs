//! Creates about ten million sessions of an IPRewriter, lets them expire, and does both again, to measure
//! memory and to check that all ports are released: `cargo run --release --example nat_sessions`. The
//! environment variable `SESSIONS` sets another number of sessions. The number is rounded down to a multiple
//! of 64,512, the number of ports, and is at least 64,512.

fn main() -> Result<(), String> {
    let sessions: usize = std::env::var("SESSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let phases = bench::measure_sessions((sessions / 64_512).max(1))?;
    println!("{:16} {:>10} {:>9} {:>9} {:>9}", "behind", "sessions", "failures", "seconds", "MiB");
    for phase in phases {
        let bench::SessionPhase { name, sessions, failures, seconds, resident } = phase;
        println!("{name:16} {sessions:>10} {failures:>9} {seconds:>9.2} {resident:>9}");
    }
    Ok(())
}
