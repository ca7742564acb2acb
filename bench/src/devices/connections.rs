//! The benchmark `connections`: the kernel's TCP through workers that share a connection (Sprayer, figures
//! 6b and 7b).
//!
//! An IPRewriter with an adjustable amount of work per packet connects two machines. It runs on one worker or
//! on two. With two workers, each connection stays at one worker, or the packets of each connection are
//! spread over both workers, with or without restoring their order. Senders and receivers share the cores
//! with the translator.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lab::{Connections, Namespace, Net};

use super::kernel::count;
use super::{Interrupt, PORT, Program, SEGMENT, is_possible};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median};

/// The amounts of work per packet for measurements with one connection (`WORK`): the number of random numbers
/// computed, at three or four cycles each. And the numbers of connections for measurements with the largest
/// amount of work (`CONNECTIONS`).
const WORK: [u64; 3] = [0, 700, 2500];
const CONNECTIONS: [u16; 2] = [4, 16];

/// A way to assign packets to workers: the values of the program's options `--steering`, `--order` and
/// `--threads`.
struct Variant {
    steering: &'static str,
    order: &'static str,
    threads: &'static str,
}

const VARIANTS: [Variant; 6] = [
    Variant { steering: "rss", order: "none", threads: "1" },
    Variant { steering: "rss", order: "none", threads: "2" },
    Variant { steering: "spray", order: "none", threads: "2" },
    Variant { steering: "spray", order: "keep", threads: "2" },
    // A Juggler, downstream of the workers, restores the order by TCP sequence numbers and merges segments.
    Variant { steering: "spray", order: JUGGLER, threads: "2" },
    Variant { steering: "auto", order: "none", threads: "2" },
];
const JUGGLER: &str = "juggler";

/// Addresses: of the sender, of the translator towards the sender, of the translator towards the receiver
/// (from which connections appear to come), and of the receiver.
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const INNER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 254);
const OUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// The results of one variant in one round, with one connection or with several connections together.
struct Sample {
    /// The bits of data per second.
    rate: f64,
    /// The number of segments that the sender retransmitted (`again`), and of segments that arrived after a
    /// gap (`behind_gap`), per thousand segments that arrived.
    again: f64,
    behind_gap: f64,
}

/// Measures a row for each variant, amount of work and number of connections. Prints a message and returns
/// no rows if network namespaces, `ip` or `ethtool` cannot be used.
pub(crate) fn run(settings: &Settings) -> std::result::Result<Vec<Row>, String> {
    let interrupt = Interrupt::new().map_err(|error| error.to_string())?;
    if let Err(error) = is_possible() {
        eprintln!("connections: {error}; no rows without root, ip and ethtool");
        return Ok(Vec::new());
    }
    measure_all(settings, &interrupt).map_err(|error| error.to_string())
}

fn measure_all(settings: &Settings, interrupt: &Interrupt) -> Result<Vec<Row>> {
    let program = Program::new()?;
    let with_work = WORK.map(|work| (work, 1));
    let with_connections = CONNECTIONS.map(|connections| (WORK[WORK.len() - 1], connections));
    let mut cases: Vec<_> = with_work
        .into_iter()
        .chain(with_connections)
        .map(|case| (case, VARIANTS.map(|_| Vec::new())))
        .collect();
    let start = Instant::now();
    for round in 1..=settings.rounds as u32 {
        for ((work, connections), samples) in &mut cases {
            for (way, samples) in VARIANTS.iter().zip(samples) {
                interrupt.check()?;
                let sample = measure(&program, way, *work, *connections, settings.window);
                interrupt.check()?;
                if let Err(error) = &sample {
                    eprintln!("connections: {} {} {connections} {work}: {error}", way.steering, way.order);
                }
                samples.push(sample.ok());
            }
        }
        // Ends the benchmark if another round (of all variants), of average length, would exceed the time
        // limit.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(cases.iter().flat_map(|(case, samples)| rows(*case, samples)).collect())
}

/// Returns a row for each variant that could be measured.
fn rows((work, connections): (u64, u16), samples: &[Vec<Option<Sample>>; VARIANTS.len()]) -> Vec<Row> {
    let nanoseconds = |sample: &Sample| 1e9 * 8.0 * SEGMENT / sample.rate;
    let [one, ..] = samples;
    let of_way = |(way, samples): (&Variant, &Vec<Option<Sample>>)| {
        // The floor of each row is the cost of the first variant, which runs on one worker.
        let both = samples.iter().zip(one).filter_map(|(sample, one)| sample.as_ref().zip(one.as_ref()));
        let pairs: Vec<_> =
            both.map(|(sample, one)| Pair { cost: nanoseconds(sample), floor: nanoseconds(one) }).collect();
        if pairs.is_empty() {
            return None;
        }
        let threads = if way.threads == "1" { 1 } else { 2 };
        let params = [
            ("steering", Param::Word(way.steering)),
            ("order", Param::Word(way.order)),
            ("control", Param::Word(lab::CONTROL)),
            ("threads", Param::Number(threads)),
            ("work", Param::Number(work)),
            ("connections", Param::Number(connections.into())),
        ];
        let of = |what: fn(&Sample) -> f64| median(samples.iter().flatten().map(what).collect());
        let speedup =
            (threads > 1).then(|| median(pairs.iter().map(|pair| pair.floor / pair.cost).collect()));
        Some(Row {
            unit: "segment",
            speedup,
            tcp: Some([
                of(|sample| sample.rate / 1e9),
                of(|sample| sample.again),
                of(|sample| sample.behind_gap),
            ]),
            ..Row::new("connections", &params, &pairs)
        })
    };
    VARIANTS.iter().zip(samples).filter_map(of_way).collect()
}

fn measure(
    program: &Program,
    way: &Variant,
    work: u64,
    connections: u16,
    window: Duration,
) -> Result<Sample> {
    let mut net = Net::new()?;
    let [sender, between, receiver] = ["sender", "between", "receiver"].map(|name| net.space(name));
    let (sender, between, receiver) = (sender?, between?, receiver?);
    net.cable([(&sender, "eth0", &format!("{SENDER}/24")), (&between, "left", "")])?;
    net.cable([(&receiver, "eth0", &format!("{RECEIVER}/24")), (&between, "right", "")])?;
    sender.ip(&format!("route add default via {INNER}"))?;
    for (interface, number) in [("left", 1), ("right", 2)] {
        between.ip(&format!("link set {interface} address 2:0:0:0:1:{number}"))?;
    }
    let options = ["--threads", way.threads, "--steering", way.steering];
    let is_juggled = way.order == JUGGLER;
    let order = ["--order", if is_juggled { "none" } else { way.order }];
    let options = [&options[..], if way.steering == "rss" { &[] } else { &order }].concat();
    let _running = program.run(&between, &options, &translator(work, is_juggled))?;
    let before = Segments::of(&sender, &receiver)?;
    let address = SocketAddr::from((RECEIVER, PORT));
    let received = lab::flows(&sender, &receiver, address, &Connections::new(connections), window)?;
    let rate = received.iter().map(|one| one.rate).sum();
    let after = Segments::of(&sender, &receiver)?;
    let thousands = (after.arrived - before.arrived).max(1) as f64 / 1000.0;
    Ok(Sample {
        rate,
        again: (after.again - before.again) as f64 / thousands,
        behind_gap: (after.behind_gap - before.behind_gap) as f64 / thousands,
    })
}

/// Returns a configuration: a translator with `work` random numbers per packet, elements that answer ARP
/// for its two addresses, and a Juggler towards the receiver if `is_juggled`.
fn translator(work: u64, is_juggled: bool) -> String {
    let juggler = if is_juggled { "Juggler(OFO_TIMEOUT 200us) -> " } else { "" };
    let end = |side: &str, own: Ipv4Addr, last: u8| {
        format!(
            "FromDevice({side}) -> {side} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
             {side}[0] -> ARPResponder({own} 2:0:0:0:1:{last}) -> {side}_out :: Queue -> ToDevice({side});
             {side}[1] -> [1] {side}_arp :: ARPQuerier({own}, 2:0:0:0:1:{last}) -> {side}_out;
             {side}[3] -> Discard;"
        )
    };
    format!(
        "{}{} rw :: IPRewriter(pattern {OUTER} 1024-65535 - - 0 1, drop);
         left[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp) -> rw;
         right[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp) -> [1] rw;
         rw[0] -> WorkPackage(W {work}) -> DecIPTTL -> {juggler}right_arp;
         rw[1] -> WorkPackage(W {work}) -> DecIPTTL -> left_arp",
        end("left", INNER, 1),
        end("right", OUTER, 2)
    )
}

/// Counters of the kernels of sender and receiver: segments that arrived at the receiver, retransmitted
/// segments of the sender, and segments that arrived after a gap.
struct Segments {
    arrived: u64,
    again: u64,
    behind_gap: u64,
}

impl Segments {
    fn of(sender: &Namespace, receiver: &Namespace) -> Result<Segments> {
        Ok(Segments {
            arrived: count(receiver, "snmp", "Tcp", "InSegs")?,
            again: count(sender, "snmp", "Tcp", "RetransSegs")?,
            behind_gap: count(receiver, "netstat", "TcpExt", "TCPOFOQueue")?,
        })
    }
}
