//! The benchmark `monitoring`: the cost of a chain while a scraper of metrics asks ten times a second, beside
//! the same chain in a run that no other thread can watch.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use control::{About, HttpLimits, HttpServer};
use engine::{Inspector, Options, Worker};

use crate::floor::Floor;
use crate::forwarding::FORWARD;
use crate::frames::Start;
use crate::runner::{drive, frames, running, text_of, worker};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// The time between two scrapes.
const INTERVAL: Duration = Duration::from_millis(100);

/// Returns a worker for `forward` to which other threads have access, and which can trace packets, as the
/// workers of a run with `--http`.
pub(crate) fn watched(packets: usize, inspector: Inspector) -> Result<Worker, String> {
    let options = Options { inspector: Some(inspector), traces: Some(Arc::default()), ..Options::default() };
    running(text_of(&frames(packets, (packets, 1), 64, Start::Frame), Start::Frame, FORWARD), options)
}

/// Measures `forward` without and with a scraper, in interleaved pairs.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut plain = worker(settings.packets, 64, Start::Frame, FORWARD)?;
    let inspector = Inspector::new(1);
    let mut watched = watched(settings.packets, inspector.clone())?;
    let server = HttpServer::bind(&"0".parse()?, &[], None, HttpLimits::default())?;
    let address = server.address();
    let about = About {
        version: String::new(),
        commit: String::new(),
        configuration: "benchmark".into(),
        manual: |_| String::new(),
    };
    let _serving = server.start(inspector, about, SystemTime::now()).map_err(|error| error.to_string())?;
    let mut floor = Floor::new(settings.packets, 64).map_err(|error| error.to_string())?;
    // A first run loads the packets and touches all memory.
    for worker in [&mut plain, &mut watched] {
        drive(worker, settings.packets.max(settings.per_run / 2))?;
    }
    floor.measure(settings.packets);
    let mut pairs = [Vec::new(), Vec::new()];
    for _ in 0..settings.repeats {
        let alone = drive(&mut plain, settings.per_run)?;
        let scraped = drive_scraped(&mut watched, settings.per_run, address)?;
        let floor = floor.measure(settings.per_run);
        for (pairs, cost) in pairs.iter_mut().zip([alone, scraped]) {
            pairs.push(Pair { cost, floor });
        }
    }
    for mut worker in [plain, watched] {
        worker.finish().map_err(|errors| errors.join("; "))?;
    }
    let rows = pairs.iter().zip([0, 10]);
    Ok(rows.map(|(pairs, rate)| Row::new("monitoring", &[("scrapes", Param::Number(rate))], pairs)).collect())
}

/// Drives a worker like [`drive`] while a thread scrapes the metrics at `address`.
fn drive_scraped(worker: &mut Worker, packets: usize, address: SocketAddr) -> Result<f64, String> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let scraper = scope.spawn(|| -> Result<(), String> {
            while !ends.load(Ordering::Relaxed) {
                scrape(address).map_err(|error| format!("scraping {address}: {error}"))?;
                thread::sleep(INTERVAL);
            }
            Ok(())
        });
        let cost = drive(worker, packets);
        ends.store(true, Ordering::Relaxed);
        // The worker has to answer the last scrape.
        while !scraper.is_finished() {
            drive(worker, 1)?;
        }
        scraper.join().unwrap_or_else(|_| Err("the scraper failed".into()))?;
        cost
    })
}

/// Reads the metrics once.
fn scrape(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.starts_with("HTTP/1.1 200") && answer.contains("tidegate_element_packets") {
        true => Ok(()),
        false => Err(std::io::Error::other(answer.lines().next().unwrap_or("no answer").to_string())),
    }
}
