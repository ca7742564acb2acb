//! Compares traffic that `trace::generate::campus` makes with the numbers of the Reframer paper, and prints
//! both in a table. Most numbers may differ by 10 %. The locality behind a Reframer is measured with the
//! element.

use std::fs::File;
use std::path::Path;

use capture::{Reader, Writer, WriterOptions};
use testkit::TestRun;
use trace::generate::campus::{Campus, CampusDirection, CampusGenerator, paper, pooled};
use trace::multiply::Windows;
use trace::{Options, TraceReport};

/// A number of the paper, and the number that was found in made traffic.
struct Row {
    direction: CampusDirection,
    what: String,
    place: &'static str,
    paper: f64,
    made: f64,
    limit: Limit,
}

/// The allowed difference between a made number and the paper's.
#[derive(Clone, Copy)]
enum Limit {
    /// By 10 % in either direction.
    Near,
    /// The paper's number is the least.
    AtLeast,
    /// The paper's number is the most.
    AtMost,
}

impl Row {
    fn is_met(&self) -> bool {
        match self.limit {
            Limit::Near => (self.made / self.paper - 1.0).abs() <= 0.1,
            Limit::AtLeast => self.made >= self.paper,
            Limit::AtMost => self.made <= self.paper,
        }
    }

    fn print(&self) {
        let sign = match self.limit {
            Limit::Near => "",
            Limit::AtLeast => "at least ",
            Limit::AtMost => "at most ",
        };
        let Row { direction, what, place, paper, made, .. } = self;
        println!("| {direction:?} | {what} | {place} | {sign}{paper:.4} | {made:.4} |");
    }
}

fn analyze(path: &Path) -> TraceReport {
    trace::analyze(&[path.to_path_buf()], Options::default(), |path| Reader::open(path)).unwrap()
}

/// Writes to `to` the packets of a capture that have a source or destination address in this /24 network.
fn only(capture: &Path, network: [u8; 3], to: &Path) {
    let mut reader = Reader::open(capture).unwrap();
    let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    let mut writer = Writer::new(File::create(to).unwrap(), options);
    while let Some(record) = reader.next().unwrap() {
        if record.data[26..29] == network || record.data[30..33] == network {
            writer.write(record.time, record.wire_len, [record.data]).unwrap();
        }
    }
    writer.flush().unwrap();
}

/// Returns the SLF before and behind a Reframer that holds packets of a capture for `micros` microseconds.
fn behind(capture: &Path, micros: u64) -> [f64; 2] {
    let text = format!(
        "FromDump(\"{}\", STOP true) -> r :: Reframer({micros}us, MIN_BURST 0, CAPACITY 2000000) -> Discard",
        capture.display()
    );
    let outcome = TestRun::trace().text(&text, &["r.slf_in", "r.slf_out"]).unwrap();
    [0, 1].map(|place: usize| outcome.values[place].as_deref().unwrap().trim().parse().unwrap())
}

/// Compares a made trace of one direction with the paper.
fn rows(direction: CampusDirection, packets: u64, alive: u32) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.pcap");
    let options = WriterOptions { nanoseconds: true, snap_length: 100, ..WriterOptions::default() };
    let mut writer = Writer::new(File::create(&whole).unwrap(), options);
    for packet in CampusGenerator::new(Campus { direction, packets, alive: Some(alive), seed: 1 }).unwrap() {
        writer.write(packet.time, packet.frame.len() as u32, [&packet.frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    let mut rows = Vec::new();
    let mut add = |what: &str, place, paper, made, limit| {
        rows.push(Row { direction, what: what.into(), place, paper, made, limit });
    };
    let (facts, report) = (direction.facts(), analyze(&whole));
    let near = Limit::Near;
    add("packets per second", "section 3", direction.rate(), report.packets_per_s, near);
    add("bytes of a packet, mean", "section 3", facts.mean_packet_bytes, report.mean_packet_bytes, near);
    let sizes = &report.tcp_flow_sizes.packets;
    let all = report.packets as f64;
    add("packets of a TCP flow, least", "Figure 6", 1.0, sizes.min as f64, near);
    add("packets of a TCP flow, mean", "Figure 6", facts.mean_flow_packets, sizes.mean, near);
    let largest = facts.largest_flow_packets / facts.packets;
    add("share of packets in the largest flow", "Figure 6", largest, sizes.max as f64 / all, near);
    let flows = facts.tcp_flows / facts.packets;
    add("TCP flows by packets", "Figure 6", flows, sizes.count as f64 / all, near);
    let distance = &report.spatial_distance;
    let adjacent: u64 = distance.bins.iter().filter(|bin| bin.to == 0).map(|bin| bin.count).sum();
    let behind_another = 1.0 - adjacent as f64 / distance.count as f64;
    add("share of packets behind another flow", "Figure 7a", facts.behind_another, behind_another, near);
    let temporal = report.temporal_distance_ns.p50 as f64 / 1e3;
    add(
        "us between packets of a flow, median",
        "Figure 7b",
        paper::TEMPORAL_DISTANCE_US,
        temporal,
        Limit::AtMost,
    );
    let switches = report.switches[&1024];
    let fewer = switches.as_is as f64 / switches.ordered as f64;
    add("switches between flows, by ordered", "Figure 8", paper::FEWER_SWITCHES, fewer, Limit::AtLeast);
    let most = report.batch_uncapped[&128].max as f64;
    add("packets of a flow in 128 us, most", "Figure 23", paper::LARGEST_BATCH as f64, most, near);
    for (number, servers) in [(1, &paper::CLOUD_1[..]), (2, &paper::CLOUD_2)] {
        let file = folder.path().join("cloud.pcap");
        only(&whole, [198, 19, number], &file);
        let cloud = analyze(&file);
        let sizes = &cloud.tcp_flow_sizes.packets;
        let [flows, mean, median, _] = pooled(servers, direction);
        let name = |what: &str| format!("cloud {number}, {what}");
        let share = sizes.count as f64 / report.tcp_flows as f64;
        add(&name("share of the TCP flows"), "Table 1", flows / facts.tcp_flows, share, near);
        add(&name("packets of a flow, mean"), "Table 1", mean, sizes.mean, near);
        add(&name("packets of a flow, median"), "Table 1", median, sizes.p50 as f64, near);
        // The paper gives the batches of the first cloud for RX, and of the second for TX.
        if direction as usize + 1 == number as usize {
            let paper = paper::BATCH_32_US[direction as usize] as f64;
            add(&name("third quartile in 32 us"), "Figure 9", paper, cloud.batch[&32].p75 as f64, near);
        }
    }
    // The SLF of the paper is a mean over traces in which 1, 2, 4, 8, 16 or 32 parts of the trace are played
    // at the same time.
    let length = (report.duration_s * 1e9 / 32.0).min(20e6) as i64;
    let mut sums = [0.0; 1 + paper::SLF_BEHIND.len()];
    for count in paper::WINDOWS {
        let several = folder.path().join("several.pcap");
        let (mut reader, output) = (Reader::open(&whole).unwrap(), File::create(&several).unwrap());
        let windows = Windows { count, length };
        trace::multiply(&mut reader, windows, folder.path(), output, &mut |_| {}).unwrap();
        for (place, (micros, _)) in paper::SLF_BEHIND.iter().enumerate() {
            let [before, after] = behind(&several, *micros);
            sums[0] += before / paper::SLF_BEHIND.len() as f64;
            sums[place + 1] += after;
        }
    }
    let means = sums.map(|sum| sum / paper::WINDOWS.len() as f64);
    // The trace of section 5 has 2.2 Gb/s, which is the rate of TX. RX has 1.6 Gb/s. As three of five packets
    // of RX follow another flow, its SLF is at least 1.6.
    if direction == CampusDirection::Tx {
        add("SLF, 1 to 32 parts at a time", "section 5.1", paper::SLF, means[0], near);
    }
    for ((micros, paper), made) in paper::SLF_BEHIND.iter().zip(&means[1..]) {
        add(&format!("SLF behind a Reframer of {micros} us"), "section 5.1", *paper, *made, near);
    }
    rows
}

fn compare(traces: [(CampusDirection, u64, u32); 2]) {
    println!("| direction | number | in the paper | paper | made |\n| --- | --- | --- | ---: | ---: |");
    let mut missed = Vec::new();
    for (direction, packets, alive) in traces {
        for row in rows(direction, packets, alive) {
            row.print();
            if !row.is_met() {
                missed.push(format!("{direction:?}, {}: {} instead of {}", row.what, row.made, row.paper));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn made_traffic_is_like_the_campus() {
    compare([(CampusDirection::Rx, 2_000_000, 1_500), (CampusDirection::Tx, 2_000_000, 1_500)]);
}

/// Compares traffic with 300,000 flows alive at a time.
#[test]
#[ignore = "takes some minutes and 20 GB of disk"]
fn much_made_traffic_is_like_the_campus() {
    compare([(CampusDirection::Rx, 70_000_000, 300_000), (CampusDirection::Tx, 150_000_000, 300_000)]);
}
