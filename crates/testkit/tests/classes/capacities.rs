//! Tests that tables which packets can fill are bounded by default, and that some of them keep to a bound
//! that is configured.

use testkit::{RunResults, TestRun, classes};

/// For each class whose tables grow with the contents of packets: the argument that bounds them.
const BOUNDS: [(&str, &str); 28] = [
    ("IPRewriter", "MAPPING_CAPACITY"),
    ("TCPRewriter", "MAPPING_CAPACITY"),
    ("UDPRewriter", "MAPPING_CAPACITY"),
    ("IPAddrRewriter", "MAPPING_CAPACITY"),
    ("IPAddrPairRewriter", "MAPPING_CAPACITY"),
    ("ICMPPingRewriter", "MAPPING_CAPACITY"),
    ("FlowIPNAT", "MAPPING_CAPACITY"),
    ("FlowNAPTLoadBalancer", "MAPPING_CAPACITY"),
    ("EtherSwitch", "CAPACITY"),
    ("ListenEtherSwitch", "CAPACITY"),
    ("ARPQuerier", "CAPACITY"),
    ("ARPQuerier", "ENTRY_CAPACITY"),
    ("ARPTable", "CAPACITY"),
    ("ARPTable", "ENTRY_CAPACITY"),
    ("IP6NDSolicitor", "CAPACITY"),
    ("IP6NDSolicitor", "ENTRY_CAPACITY"),
    ("IPReassembler", "HIMEM"),
    ("AggregateIPFlows", "CAPACITY"),
    ("AggregateIPFlows", "FRAGMENT_CAPACITY"),
    ("AggregateCounter", "CAPACITY"),
    ("AggregatePacketCounter", "CAPACITY"),
    ("AggregateFirst", "CAPACITY"),
    ("AggregateLast", "CAPACITY"),
    ("IPRateMonitor", "MEMORY"),
    ("FlowCounter", "CAPACITY"),
    ("FlowIPLoadBalancer", "CAPACITY"),
    ("FlowL2LoadBalancer", "CAPACITY"),
    ("FlowSwitch", "CAPACITY"),
];

#[test]
fn every_table_has_a_bound_without_being_told() {
    let mut faults = Vec::new();
    for (class, bound) in BOUNDS {
        let class = classes().find(|known| known.name == class).unwrap();
        let default = class.args.iter().find(|arg| arg.name == bound).and_then(|arg| arg.default.text());
        let most = default.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if !(1..1 << 30).contains(&most) {
            faults.push(format!("{} {bound}: {default:?}", class.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A source of 200 packets of random flows, up to 200 different flows.
const FLOWS: &str =
    "FastUDPFlows(0, 200, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.9.9.9, 200, 1) -> MarkIPHeader(14)";

fn run(chain: &str, handlers: &[&str]) -> (RunResults, Vec<String>) {
    let outcome = TestRun::default().text(&format!("{FLOWS} -> {chain}"), handlers).unwrap();
    let values = outcome.values.iter().map(|value| value.clone().unwrap()).collect();
    (outcome, values)
}

#[test]
fn tables_keep_to_their_bounds() {
    // The number of different flows of the source; a few may be equal by chance.
    let all: usize =
        run("AggregateIPFlows -> a :: AggregateCounter -> Discard", &["a.nagg"]).1[0].parse().unwrap();
    assert!(all > 100, "{all}");
    let (_, values) = run(
        "f :: AggregateIPFlows(CAPACITY 50) -> a :: AggregateCounter -> c :: Counter -> Discard; f[1] -> o :: Counter -> Discard",
        &["a.nagg", "c.count", "o.count"],
    );
    assert_eq!(values[0], "50");
    assert_eq!(values[1].parse::<usize>().unwrap() + values[2].parse::<usize>().unwrap(), 200);
    let (_, values) = run(
        "AggregateIPFlows -> a :: AggregateCounter(CAPACITY 50) -> c :: Counter -> Discard; a[1] -> o :: Counter -> Discard",
        &["a.nagg", "a.count", "c.count", "a.overflows", "o.count"],
    );
    assert_eq!((&values[0], &values[1], &values[3]), (&"50".into(), &values[2], &values[4]));
    let (_, values) =
        run("AggregateIPFlows -> a :: AggregateFirst(CAPACITY 50) -> c :: Counter -> Discard", &["c.count"]);
    assert_eq!(values, ["50"]);
    let (outcome, _) = run("AggregateIPFlows -> a :: AggregateLast(CAPACITY 50) -> Discard", &[]);
    let last = outcome.report.elements.iter().find(|element| element.name == "a").unwrap();
    assert_eq!(last.drops.get("stop"), Some(&50), "{:?}", last.drops);
    assert!(last.drops.get("table full").is_some_and(|&n| n > 50), "{:?}", last.drops);
    let (_, values) = run(
        "AggregateIPFlows -> NumberPacket -> a :: AggregatePacketCounter(ANNO NONE, CAPACITY 50) -> Discard",
        &["a.count", "a.overflows"],
    );
    let [counted, overflows] = [&values[0], &values[1]].map(|text| text.parse::<usize>().unwrap());
    assert!(counted + overflows == 200 && overflows >= all - 50, "{counted} {overflows}");
}

#[test]
fn bounds_that_are_not_possible_are_refused() {
    for (element, told) in [
        ("AggregateIPFlows(CAPACITY 0)", "CAPACITY: a flow table of 0 entries is not possible"),
        ("AggregateIPFlows(CAPACITY 2000000000)", "CAPACITY: a flow table of 2000000000 entries"),
        ("AggregateCounter(CAPACITY 0)", "CAPACITY: at least 1"),
        ("AggregateFirst(CAPACITY 0)", "CAPACITY: at least 1"),
        ("AggregateLast(CAPACITY 0)", "CAPACITY: at least 1"),
        ("IPReassembler(HIMEM 100)", "HIMEM: at least"),
        ("IPReassembler(MAX_OPEN 0)", "MAX_OPEN: at least 1"),
        ("IPReassembler(MAX_FRAGMENTS 1)", "MAX_FRAGMENTS: at least 2"),
    ] {
        let error =
            TestRun::default().text(&format!("Idle -> {element} -> Discard"), &[]).err().unwrap_or_default();
        assert!(error.contains(told), "{element}: {error}");
    }
}
