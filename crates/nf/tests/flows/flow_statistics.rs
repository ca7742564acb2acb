//! Tests of FlowCounter and IPRateMonitor. The flows of FlowCounter are also compared with a straightforward
//! count.

use std::net::SocketAddr;

use proptest::prelude::*;
use testkit::plain::write_capture;
use testkit::{RunResults, TestRun};
use wire::build::Builder;

/// Runs packets, each with its time in milliseconds, through a configuration whose source is named `in`.
/// Returns the outcome with the values of the handlers.
fn run(config: &str, packets: &[(i64, Vec<u8>)], handlers: &[&str]) -> RunResults {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_capture(&path, packets);
    let text = format!("in :: FromDump({}, STOP true);\n{config}", path.display());
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(outcome.report.balances() && outcome.errors.is_empty(), "{outcome:?}");
    outcome
}

fn values(outcome: &RunResults) -> Vec<&str> {
    outcome.values.iter().map(|value| value.as_ref().map_or("error", String::as_str)).collect()
}

fn udp(from: &str, to: &str, payload: usize) -> Vec<u8> {
    Builder::udp(from.parse().unwrap(), to.parse().unwrap()).build(&vec![7; payload]).unwrap()
}

fn a_few() -> Vec<(i64, Vec<u8>)> {
    let [a, b, six] = ["10.0.0.1:7", "10.0.0.2:53", "[2001:db8::1]:9"];
    vec![
        (0, udp(a, b, 10)),
        (1, udp(b, a, 100)),
        (2, udp(six, "[2001:db8::2]:80", 0)),
        (5, udp(a, b, 20)),
        (9, vec![0x10; 30]),
    ]
}

const FIRST: &str = "10.0.0.1,7,10.0.0.2,53,17";

#[test]
fn one_direction_or_both() {
    let handlers = ["f.csv", "f.count", "f.open", "f.packets", "f.bytes", "f.others", "f.top"];
    let outcome = run("in -> f :: FlowCounter -> Discard;", &a_few(), &handlers);
    let csv = format!(
        "source,source_port,destination,destination_port,protocol,packets,bytes,first,last\n\
         {FIRST},2,86,1000.000000,1000.005000\n\
         10.0.0.2,53,10.0.0.1,7,17,1,128,1000.001000,1000.001000\n\
         2001:db8::1,9,2001:db8::2,80,17,1,48,1000.002000,1000.002000\n"
    );
    let top = "10.0.0.2:53 > 10.0.0.1:7 17 1 128\n10.0.0.1:7 > 10.0.0.2:53 17 2 86\n\
               [2001:db8::1]:9 > [2001:db8::2]:80 17 1 48\n";
    assert_eq!(values(&outcome), [&csv, "3", "3", "4", "262", "1", top]);
    let outcome = run("in -> f :: FlowCounter(BIDIRECTIONAL true) -> Discard;", &a_few(), &handlers);
    let csv = format!(
        "source,source_port,destination,destination_port,protocol,packets,bytes,first,last,reply_packets,reply_bytes\n\
         {FIRST},2,86,1000.000000,1000.005000,1,128\n\
         2001:db8::1,9,2001:db8::2,80,17,1,48,1000.002000,1000.002000,0,0\n"
    );
    assert_eq!(values(&outcome)[..3], [&csv, "2", "2"]);
}

#[test]
fn handlers_take_a_number_and_what_to_sort_by() {
    let script = "DriverManager(pause, print $(f.top 1 packets), print $(f.csv 1), print $(f.json 1), \
                  write f.clear, print $(f.json), print \"$(f.count) $(f.open) $(f.packets)\", stop)";
    let outcome = run(&format!("in -> f :: FlowCounter -> Discard; {script}"), &a_few(), &[]);
    let (lines, rest) = outcome.output.split_once("source").unwrap();
    assert_eq!(lines, "10.0.0.1:7 > 10.0.0.2:53 17 2 86\n");
    assert!(rest.contains("last\n10.0.0.2,53,10.0.0.1,7,17,1,128,"), "{rest}");
    let json = "[\n{\"source\": \"10.0.0.2\", \"source_port\": 53, \"destination\": \"10.0.0.1\", \
                \"destination_port\": 7, \"protocol\": 17, \"packets\": 1, \"bytes\": 128, \
                \"first\": 1000.001000, \"last\": 1000.001000}\n]\n[]\n0 0 0\n";
    assert!(rest.ends_with(json), "{rest}");
}

#[test]
fn files_have_every_flow() {
    let folder = tempfile::tempdir().unwrap();
    for (name, format) in [("flows.csv", ""), ("flows.json", ""), ("flows", ", FORMAT JSON")] {
        let path = folder.path().join(name);
        let config = format!("in -> FlowCounter(TIMEOUT 3ms, FILE {}{format}) -> Discard;", path.display());
        run(&config, &a_few(), &[]);
        let text = std::fs::read_to_string(&path).unwrap();
        let is_json = name != "flows.csv";
        assert_eq!(text.starts_with("[\n{") && text.ends_with("}\n]\n"), is_json, "{text}");
        // The first flow was idle for longer than TIMEOUT, and so has two rows.
        let rows = text.lines().filter(|line| line.contains("10.0.0.") || line.contains("2001:")).count();
        assert_eq!(rows, 4, "{text}");
    }
    let config = "in -> FlowCounter(FILE /nowhere/at/all) -> Discard;";
    assert!(
        TestRun::default().text(&config.replace("in ->", "Idle ->"), &[]).unwrap_err().contains("/nowhere")
    );
    for (arguments, error) in [
        ("FORMAT xml", "FORMAT: should be 'csv' or 'json'"),
        ("CAPACITY 0", "CAPACITY:"),
        ("TIMEOUT -1", "TIMEOUT: must not be negative"),
    ] {
        let text = format!("Idle -> FlowCounter({arguments}) -> Discard");
        assert!(TestRun::default().text(&text, &[]).unwrap_err().contains(error), "{arguments}");
    }
}

#[test]
fn flows_without_room_are_counted_and_room_comes_back() {
    let mut packets: Vec<_> =
        (0..6u16).map(|n| (0, udp(&format!("10.0.0.1:{}", n + 1), "10.0.0.2:2", 2))).collect();
    packets.push((1, udp("10.0.0.1:1", "10.0.0.2:2", 2)));
    packets.push((2_000, udp("10.0.0.1:9", "10.0.0.2:2", 2)));
    packets.push((3_000, udp("10.0.0.1:9", "10.0.0.2:2", 2)));
    let handlers = ["f.count", "f.open", "f.overflows", "f.overflow_bytes", "f.expired", "f.packets"];
    let outcome = run("in -> f :: FlowCounter(CAPACITY 4, TIMEOUT 1s) -> Discard;", &packets, &handlers);
    // At 2 s, the four flows in the table have timed out, so the new flow finds room. At 3 s, this flow
    // itself has timed out, and begins again.
    assert_eq!(values(&outcome), ["6", "1", "2", "60", "5", "7"]);
}

/// A flow in the straightforward count, with packets and bytes in each direction and the times of its first
/// and last packet.
#[derive(Clone, Debug)]
struct Counted {
    from: SocketAddr,
    to: SocketAddr,
    counts: [(u64, u64); 2],
    first: i64,
    last: i64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_a_list(
        steps in prop::collection::vec((0i64..400, 0u16..3, 0u16..3, 0usize..50, any::<bool>()), 1..80),
        both: bool,
    ) {
        let mut now = 0;
        let (mut packets, mut open, mut ended) = (Vec::new(), Vec::<Counted>::new(), Vec::new());
        for (gap, a, b, payload, six) in steps {
            now += gap;
            let address = |n: u16| if six { format!("[2001:db8::{n}]:{}", 80 + n) } else { format!("10.0.0.{n}:{}", 80 + n) };
            let (from, to): (SocketAddr, SocketAddr) = (address(a).parse().unwrap(), address(b).parse().unwrap());
            let bytes = udp(&from.to_string(), &to.to_string(), payload);
            let same = |flow: &Counted| match (flow.from, flow.to) {
                ends if ends == (from, to) => Some(0),
                ends if both && ends == (to, from) => Some(1),
                _ => None,
            };
            if let Some(place) = open.iter().position(|flow| same(flow).is_some() && now - flow.last >= 1_000) {
                ended.push(open.remove(place));
            }
            let found = open.iter_mut().find_map(|flow| same(flow).map(|direction| (flow, direction)));
            match found {
                Some((flow, direction)) => {
                    flow.counts[direction].0 += 1;
                    flow.counts[direction].1 += bytes.len() as u64;
                    flow.last = now;
                }
                None => open.push(Counted { from, to, counts: [(1, bytes.len() as u64), (0, 0)], first: now, last: now }),
            }
            packets.push((now, bytes));
        }
        let expected: String = open.iter().filter(|flow| now - flow.last < 1_000).map(|flow| {
            let stamp = |ms: i64| format!("{}.{:03}000", 1000 + ms / 1000, ms % 1000);
            let Counted { from, to, counts: [(packets, bytes), (back, bytes_back)], .. } = flow;
            let ends = format!("{},{},{},{}", from.ip(), from.port(), to.ip(), to.port());
            let replies = if both { format!(",{back},{bytes_back}") } else { String::new() };
            format!("{ends},17,{packets},{bytes},{},{}{replies}\n", stamp(flow.first), stamp(flow.last))
        }).collect();
        let config = format!("in -> f :: FlowCounter(TIMEOUT 1s, BIDIRECTIONAL {both}) -> Discard;");
        let outcome = run(&config, &packets, &["f.csv", "f.count"]);
        let [csv, count] = values(&outcome)[..] else { unreachable!() };
        prop_assert_eq!(csv.split_once('\n').unwrap().1, expected);
        prop_assert_eq!(count.parse::<usize>().unwrap(), open.len() + ended.len());
    }
}

#[test]
fn rates_of_networks() {
    // One host sends 100 packets per second for five seconds, then one more packet.
    let mut packets: Vec<_> = (0..500).map(|n| (n * 10, udp("18.26.4.9:1", "9.1.2.3:2", 72))).collect();
    packets.push((5_000, udp("18.26.4.9:1", "9.1.2.3:2", 72)));
    let handlers = ["m.look", "m.thresh", "m.mem", "m.memmax"];
    let outcome = run("in -> m :: IPRateMonitor(PACKETS, 1, 50) -> Discard;", &packets, &handlers);
    let [look, thresh, mem, memmax] = values(&outcome)[..] else { unreachable!() };
    let lines: Vec<Vec<&str>> = look.lines().map(|line| line.rsplitn(3, '\t').collect()).collect();
    assert_eq!(lines[0], ["625"]);
    let names: Vec<&str> = lines[1..].iter().map(|line| line[2]).collect();
    assert_eq!(names, ["18", "\t18.26", "\t\t18.26.4", "\t\t\t18.26.4.9"]);
    for line in &lines[1..] {
        let rate: f64 = line[1].parse().unwrap();
        assert!((90.0..=110.0).contains(&rate) && line[0] == "0", "{look}");
    }
    assert_eq!((thresh, mem, memmax), ("50", (4 * 2080 + 4 * 40).to_string().as_str(), "67108864"));
    let bytes = "in -> m :: IPRateMonitor(BYTES, 1, 1000000, 1) -> c :: AggregateCounter -> Discard;";
    let outcome = run(bytes, &packets, &["m.look", "m.memmax"]);
    let [look, memmax] = values(&outcome)[..] else { unreachable!() };
    let rate: f64 = look.lines().nth(1).unwrap().split('\t').nth(1).unwrap().parse().unwrap();
    assert!((9_000.0..=11_000.0).contains(&rate), "{look}");
    assert_eq!(memmax, "102400");
    for (arguments, error) in [
        ("FRAMES, 1, 1", "monitor type should be \"PACKETS\" or \"BYTES\""),
        ("BYTES, 1.5, 1", "ratio must be between 0 and 1"),
        ("BYTES, 1", "THRESH: required argument missing"),
    ] {
        let text = format!("Idle -> IPRateMonitor({arguments}) -> Discard");
        assert!(TestRun::default().text(&text, &[]).unwrap_err().contains(error), "{arguments}");
    }
}

#[test]
fn flows_that_are_due_make_room_for_others() {
    let mut packets: Vec<_> = (0..4).map(|n| (n, udp(&format!("10.0.0.1:{n}"), "10.0.0.2:53", 10))).collect();
    packets.push((1_000_000, udp("10.0.0.3:9", "10.0.0.2:53", 10)));
    let handlers = ["f.overflows", "f.count", "f.open", "f.expired"];
    let outcome = run("in -> f :: FlowCounter(CAPACITY 4, TIMEOUT 1) -> Discard;", &packets, &handlers);
    assert_eq!(values(&outcome), ["0", "5", "1", "4"]);
}
