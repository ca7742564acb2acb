//! Connections whose packets several workers handle, between machines with their own TCP. Skipped with a
//! message if network namespaces cannot be created.

mod line;

use std::net::SocketAddr;

use lab::{exchange_datagrams, transfer};

use crate::line::{Line, MEGABYTE, RIGHT, has_xdp, run};

/// Returns the configuration of a translator between `left` and `right`: it replaces addresses and ports, and
/// updates checksums that senders have not completed. `from` is the class that receives; `to` is the elements
/// that send.
fn translator(from: &str, to: &str) -> String {
    let end = |side: &str, own: &str, last: u8| {
        format!(
            "{from}({side}) -> {side} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
             {side}[0] -> ARPResponder({own} 2:0:0:0:1:{last}) -> {side}_out :: {to}({side});
             {side}[1] -> [1] {side}_arp :: ARPQuerier({own}, 2:0:0:0:1:{last}) -> {side}_out;
             {side}[3] -> Discard;"
        )
    };
    end("left", "10.1.0.254", 1)
        + &end("right", "10.77.0.254", 2)
        + "rw :: IPRewriter(pattern 10.77.0.254 1024-65535 - - 0 1, drop);
           left[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> there :: Counter -> rw;
           right[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> back :: Counter -> [1] rw;
           rw[0] -> DecIPTTL -> right_arp; rw[1] -> DecIPTTL -> left_arp"
}

/// Gives `left` an address and a route behind the translator, and gives the interfaces of the machine in the
/// middle the translator's link addresses.
fn address(line: &Line) {
    line.left.ip("addr flush dev eth0").unwrap();
    line.left.ip("addr add 10.1.0.1/24 dev eth0").unwrap();
    line.left.ip("route add default via 10.1.0.254").unwrap();
    // With these link addresses, the interfaces accept frames to the translator without promiscuous mode.
    line.between.ip("link set left address 2:0:0:0:1:1").unwrap();
    line.between.ip("link set right address 2:0:0:0:1:2").unwrap();
}

/// Runs a translator for a connection and some datagrams, and returns the report.
fn exchange(line: &Line, config: &str, options: &str) -> String {
    let given: Vec<_> = options.split(' ').collect();
    let running = run(&line.between, config, &given);
    transfer(&line.left, &line.right, SocketAddr::from((RIGHT, 7000)), 8 * MEGABYTE, || ()).unwrap();
    let port = SocketAddr::from((RIGHT, 7001));
    let back = exchange_datagrams(&line.left, &line.right, port, &[1, 700, 1472]);
    assert_eq!(back, 3, "{options}");
    let (good, [_, report]) = running.stop();
    assert!(good, "{report}");
    report
}

/// Returns the packets that came in at each worker, and the number of packets that were handed over.
fn of_workers(report: &str) -> (Vec<u64>, u64) {
    let rows: Vec<Vec<&str>> = report.lines().map(|row| row.split_whitespace().collect()).collect();
    let rows = rows.iter().filter(|row| row.first() == Some(&"worker"));
    let [came, handed]: [Vec<u64>; 2] =
        [2, 10].map(|column| rows.clone().map(|row| row[column].parse().unwrap()).collect());
    (came, handed.iter().sum())
}

#[test]
fn a_connection_goes_through_all_workers_of_a_translator() {
    let Some(line) = Line::new() else { return };
    address(&line);
    for options in [
        "--threads 1 --steering rss",
        "--threads 2 --steering rss",
        "--threads 2 --steering spray",
        "--threads 4 --steering spray --spray-cores 2",
        "--threads 2 --steering spray --order keep",
        "--threads 2 --steering flowlet",
        "--threads 2 --steering auto",
    ] {
        let report = exchange(&line, &translator("FromDevice", "Queue -> ToDevice"), options);
        if options.starts_with("--threads 1") {
            continue;
        }
        let (came, handed) = of_workers(&report);
        let all = came.iter().sum::<u64>();
        let used: Vec<_> = came.iter().filter(|&&n| n > all / 100).collect();
        let is_even = used.len() == 2 && used.iter().all(|&&n| n > all / 4);
        match options.split_once("--steering ").unwrap().1 {
            // With `rss`, the kernel gives each packet to the socket of the worker that owns its flow. If it
            // did not, about half of the packets would be handed over. A few packets are handed to the worker
            // that owns the connection while that worker changes shared state, for which it may have to wait
            // for its core.
            "rss" => assert!(used.len() == 1 && handed < all / 5, "{options}\n{report}"),
            "spray" | "spray --spray-cores 2" => {
                assert!(is_even && handed < all * 2 / 5, "{options}\n{report}")
            }
            "spray --order keep" => assert!(handed > all / 4, "{options}\n{report}"),
            _ => {}
        }
    }
}

#[test]
fn a_connection_goes_through_all_workers_by_xdp() {
    // With as many queues as workers, each worker sends its packets by its own queue.
    for (queues, options) in [
        (1, "--threads 2 --steering rss"),
        (1, "--threads 2 --steering spray"),
        (2, "--threads 2 --steering spray"),
        (4, "--threads 4 --steering spray --spray-cores 2"),
        (1, "--threads 2 --steering spray --order keep"),
        (2, "--threads 2 --steering auto"),
    ] {
        let Some(line) = Line::wide(queues).filter(has_xdp) else { return };
        address(&line);
        let report = exchange(&line, &translator("FromXDP", "ToXDP"), options);
        let (came, handed) = of_workers(&report);
        let all = came.iter().sum::<u64>();
        let used: Vec<_> = came.iter().filter(|&&n| n > all / 100).collect();
        let is_even = used.len() == 2 && used.iter().all(|&&n| n > all / 4);
        match options.split_once("--steering ").unwrap().1 {
            "rss" => assert_eq!(used.len(), 1, "{options}\n{report}"),
            "spray" | "spray --spray-cores 2" => {
                assert!(is_even && (queues == 1 || handed < all * 2 / 5), "{options}\n{report}");
            }
            _ => {}
        }
    }
}
