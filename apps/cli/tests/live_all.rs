//! Checks that all five mechanisms, between two machines with the kernel's TCP, deliver what the machines
//! send each other. Skipped with a message if network namespaces cannot be created.

mod line;

use crate::line::{Line, run};

/// Returns the configuration of a firewall and a translator between `left` and `right`. Upstream of them,
/// in both directions, TCP segments are put in order, flows are brought together, and payloads are parked.
fn all_five() -> String {
    let end = |side: &str, own: &str, last: u8| {
        format!(
            "FromDevice({side}) -> {side} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
             {side}[0] -> ARPResponder({own} 2:0:0:0:1:{last}) -> {side}_out :: Queue -> ToDevice({side});
             {side}[1] -> [1] {side}_arp :: ARPQuerier({own}, 2:0:0:0:1:{last}) -> {side}_out;
             {side}[3] -> Discard;
             {side}[2] -> {side}_order :: Juggler(OFO_TIMEOUT 500us) -> {side}_bursts :: Reframer(64us)
                 -> Slice(payloads) -> Strip(14) -> CheckIPHeader -> IPFilter(deny udp && dst port 161, allow all)
                 -> {side}_in :: Counter;
             "
        )
    };
    end("left", "10.1.0.254", 1)
        + &end("right", "10.77.0.254", 2)
        + "payloads :: PayloadTable;
           rw :: IPRewriter(pattern 10.77.0.254 1024-65535 - - 0 1, drop);
           left_in -> IPClassifier(tcp or udp) -> rw;
           right_in -> IPClassifier(tcp or udp) -> [1] rw;
           rw[0] -> DecIPTTL -> Splice(payloads) -> right_arp;
           rw[1] -> DecIPTTL -> Splice(payloads) -> left_arp"
}

#[test]
fn connections_go_through_all_five() {
    let Some(line) = Line::new() else { return };
    line.left.ip("addr flush dev eth0").unwrap();
    line.left.ip("addr add 10.1.0.1/24 dev eth0").unwrap();
    line.left.ip("route add default via 10.1.0.254").unwrap();
    line.between.ip("link set left address 2:0:0:0:1:1").unwrap();
    line.between.ip("link set right address 2:0:0:0:1:2").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let report = report.to_str().unwrap();
    for options in
        [&[][..], &["--synthesize=all"], &["--synthesize=all", "--threads", "2", "--steering", "auto"]]
    {
        let running = run(&line.between, &all_five(), &[options, &["--json", report]].concat());
        let address = std::net::SocketAddr::from((line::RIGHT, 7000));
        lab::transfer(&line.left, &line.right, address, 8 * line::MEGABYTE, || ()).unwrap();
        let address = std::net::SocketAddr::from((line::RIGHT, 7001));
        let lengths = [0, 1, 700, 1472];
        assert_eq!(lab::exchange_datagrams(&line.left, &line.right, address, &lengths), lengths.len());
        let (good, [_, errors]) = running.stop();
        assert!(good, "{options:?}: {errors}");
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
        let of = |name: &str| report["totals"][name].as_u64().unwrap();
        assert_eq!(of("in"), of("out") + of("held") + of("dropped"), "{options:?}: {}", report["totals"]);
        let joined =
            report["elements"].as_array().unwrap().iter().filter(|element| element["class"] == "Splice");
        assert!(joined.map(|element| element["in"].as_u64().unwrap()).sum::<u64>() > 5_000, "{options:?}");
    }
}
