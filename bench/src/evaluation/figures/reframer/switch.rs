//! Reframer's Figure 3: the latency of Open vSwitch over the length of the runs in which packets arrive.

use std::fmt::Write;
use std::fs::File;
use std::time::Duration;

use super::{FLOWS, SLF};
use crate::devices::{Passed, Switching};
use crate::evaluation::figures::{first, panels, relative};
use crate::evaluation::plot::{Axis, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{median, source};

/// The numbers of rules in the flow table of the switch.
const RULES: [usize; 2] = [1_000, 10_000];
/// The datapaths of the switch and their names in the legend.
const DATAPATHS: [(&str, &str); 2] = [("netdev", "sockets"), ("dpdk", "DPDK")];
/// The size of a frame in bytes, and the number of packets sent per second.
const FRAME: usize = 1500;
const RATE: u64 = 60_000;

/// Returns a flow table of `count` rules that match Ethernet and IP addresses. Only the last rule matches
/// the packets that are sent, and it matches all of them.
fn rules(count: usize) -> String {
    let mut text = String::new();
    for number in 1..count {
        let [a, b] = [number >> 8, number & 0xff];
        let _ = writeln!(
            text,
            "priority={},ip,in_port=1,dl_src=02:00:00:00:{a:02x}:{b:02x},nw_src=172.{}.{}.0/24,nw_dst=172.16.{b}.{}/32,actions=output:2",
            1 + number % 60_000,
            a & 15,
            b,
            a & 0xff
        );
    }
    text + "priority=65000,ip,in_port=1,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.0/8,nw_dst=11.0.0.0/8,actions=output:2\n"
}

pub(in super::super) fn switch(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let failed = |error: std::io::Error| error.to_string();
    let switching = Switching::new().map_err(failed)?;
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = |name: String| folder.path().join(name);
    let packets = if run.is_small() { 4096 } else { 32 * FLOWS };
    let lengths = run.some(&SLF);
    for slf in &lengths {
        let capture = File::create(file(format!("{slf}.pcap"))).map_err(failed)?;
        source::write_runs(&capture, packets, FLOWS, *slf, FRAME).map_err(failed)?;
    }
    for count in RULES {
        std::fs::write(file(format!("{count}.flows")), rules(count)).map_err(failed)?;
    }
    let mut datapaths = DATAPATHS.to_vec();
    let with_dpdk = match lab::openvswitch::has_dpdk() {
        true => {
            switching.set_up("dpdk", &file(format!("{}.flows", RULES[0])), None).map(drop).map_err(failed)
        }
        false => Err("it is not installed (apt-get install openvswitch-switch-dpdk)".into()),
    };
    if let Err(reason) = with_dpdk {
        eprintln!("reframer-3: without Open vSwitch with DPDK: {reason}");
        datapaths.retain(|(datapath, _)| *datapath != "dpdk");
    }
    let switches: Vec<(&str, &str, usize)> = datapaths
        .into_iter()
        .flat_map(|(datapath, name)| RULES.map(|rules| (datapath, name, rules)))
        .collect();
    let time = if run.is_small() { Duration::from_millis(200) } else { Duration::from_millis(1500) };
    let mut passed: Vec<Vec<Vec<Passed>>> =
        switches.iter().map(|_| lengths.iter().map(|_| Vec::new()).collect()).collect();
    for round in 1..=run.settings.rounds {
        for ((datapath, name, count), passed) in switches.iter().zip(&mut passed) {
            let flows = file(format!("{count}.flows"));
            let switch = switching.set_up(datapath, &flows, None).map_err(failed)?;
            // The packets that are sent first are not measured, because Open vSwitch classifies them on its
            // slow path.
            let first = file(format!("{}.pcap", lengths[0]));
            switch.drive(&first, Some(RATE), time / 4).map_err(failed)?;
            for (slf, passed) in lengths.iter().zip(passed) {
                run.step(&format!("{name}, {count} rules, SLF {slf} ({round} of {})", run.settings.rounds))?;
                let capture = file(format!("{slf}.pcap"));
                match switch.drive(&capture, Some(RATE), time) {
                    Ok(one) => passed.push(one),
                    Err(error) => eprintln!("reframer-3: {name}, {count} rules, SLF {slf}: {error}"),
                }
            }
        }
    }
    let mut table = Table::new(&[
        "datapath",
        "rules",
        "slf",
        "p25_us",
        "median_us",
        "p75_us",
        "p99_us",
        "kpps",
        "rounds",
    ]);
    let mut all: [Vec<Series>; 2] = [Vec::new(), Vec::new()];
    let mut said = Vec::new();
    for ((datapath, name, count), passed) in switches.iter().zip(&passed) {
        let mut points = [Vec::new(), Vec::new()];
        for (slf, passed) in lengths.iter().zip(passed) {
            let of = |n: usize| median(passed.iter().map(|one| one.micros[n]).collect());
            let figures = [of(0), of(1), of(2), of(3), median(passed.iter().map(|one| one.kpps).collect())];
            let first: [Cell; 3] = [(*datapath).into(), (*count).into(), (*slf).into()];
            table.push(first.into_iter().chain(figures.map(Cell::from)).chain([passed.len().into()]));
            let x = *slf as f64;
            points[0].push(Point { x, y: figures[1], quartiles: Some([figures[0], figures[2]]) });
            points[1].push(Point { x, y: figures[3], quartiles: None });
        }
        let told = |point: Option<&Point>| {
            let Some(Point { y, quartiles: Some([lower, upper]), .. }) = point else {
                return "nothing".into();
            };
            format!("{lower:.0}, {y:.0} and {upper:.0} µs")
        };
        let (few, many) = (told(points[0].first()), told(points[0].last()));
        said.push(format!("{name}, {count} rules: {few} at SLF 1 and {many} at SLF 32"));
        let series = |points| Series::new(format!("{name}, {count} rules"), points);
        all.iter_mut().zip(points).for_each(|(all, points)| all.push(series(points)));
    }
    let finding = Finding {
        paper: "quartiles of latency vary between 126 and 343 µs at SLF 1, and are 2.5 to 5 times less from SLF 20 on, with 10,000 rules as with 1,000."
            .into(),
        here: format!("25, 50 and 75 of 100 packets take at most: {}.", said.join("; ")),
        bound: format!(
            "Open vSwitch runs in user space on packet sockets here, as this kernel has no Open vSwitch datapath; \
             DPDK polls packet sockets, too, without huge pages. Sender, switch and receiver share two cores, with \
             {RATE} packets per second: most of a packet's time is spent in the kernel, whatever the order. All \
             10,000 flows are one entry of its cache of megaflows."
        ),
    };
    let titles = [
        ("Latency, median and quartiles", Axis::log("latency, µs").less_is_better()),
        ("Latency, 99th percentile", Axis::log("latency, µs").less_is_better()),
        ("Median, as a part of what it is at SLF 1", Axis::linear("latency, SLF 1 = 1").less_is_better()),
    ];
    let mut shares = relative(&all[0], first);
    shares.push(Series::of_paper(
        "Reframer paper, 1000 and 10000 rules",
        [(1.0, 1.0), (20.0, 0.5), (24.0, 0.5)],
    ));
    let [medians, tails] = all;
    let x = Axis::log("packets of a flow in a row (SLF)");
    Ok(FigureResults { table, panels: panels(&x, titles, [medians, tails, shares]), finding })
}
