//! The log of sessions.

use std::collections::HashSet;
use std::fs::read_to_string;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use netflow_parser::{NetflowPacket, NetflowParser};
use testkit::worker;

use super::*;

const TIMES: &str = "UDP_TIMEOUT 10, TCP_NODATA_TIMEOUT 10, REAP_INTERVAL 1";

/// Runs packets through a gateway that logs the sessions of IPRewriter to `file`.
fn run_logged(file: &Path, log: &str, nat: &str, packets: &[(i64, Vec<u8>)]) -> RunResults {
    let log = format!("log :: NATLog(FILE {}{log});\n", file.display());
    let config = log + &gateway("IPRewriter", &format!("{NAPT}, {TIMES}, LOG log{nat}"));
    run(&config, 2, packets, &["log.created", "log.deleted", "rw.table_size"]).0
}

fn from_inside(host: u8, port: u16) -> Vec<u8> {
    udp(end([10, 0, 0, host], port), end(REMOTE, 53))
}

fn counts(outcome: &RunResults) -> [&str; 3] {
    [0, 1, 2].map(|n| value(outcome, n))
}

#[test]
fn sessions_are_logged_with_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nat.csv");
    let answer = udp(end(REMOTE, 53), end(OUTER, 5000));
    // The second packet and the answer belong to the first session. The session of the other host begins
    // when the first one has ended.
    let packets = [
        (1000, from_inside(1, 5000)),
        (2000, from_inside(1, 5000)),
        (3000, answer.clone()),
        (60_000, from_inside(2, 6000)),
    ];
    let outcome = run_logged(&file, "", "", &packets);
    assert_eq!(counts(&outcome), ["2", "1", "1"]);
    let names = "time,event,protocol,source,source_port,nat_source,nat_source_port,\
                 destination,destination_port,nat_destination,nat_destination_port\n";
    let text = read_to_string(&file).unwrap();
    let expected = "1001.000000,create,17,10.0.0.1,5000,192.0.2.1,5000,,,,\n\
                    1060.000000,delete,17,10.0.0.1,5000,192.0.2.1,5000,,,,\n\
                    1060.000000,create,17,10.0.0.2,6000,192.0.2.1,6000,,,,\n\
                    1060.000000,delete,17,10.0.0.2,6000,192.0.2.1,6000,,,,\n";
    assert_eq!(text, format!("{names}{expected}"));
    // Another run continues the file, without a second line of names.
    let outcome = run_logged(&file, ", DESTINATIONS true", "", &packets[..1]);
    assert_eq!(counts(&outcome), ["1", "0", "1"]);
    let session = "17,10.0.0.1,5000,192.0.2.1,5000,2.0.0.2,53,2.0.0.2,53\n";
    let more = format!("1001.000000,create,{session}1001.000000,delete,{session}");
    assert_eq!(read_to_string(&file).unwrap(), format!("{names}{expected}{more}"));
}

/// Returns the sessions in a log that have begun and not ended, and the numbers of those that have begun and
/// ended. No session begins twice or ends without a beginning, and times do not go back.
fn open_sessions(file: &Path) -> (HashSet<String>, u64, u64) {
    let (mut open, mut created, mut deleted, mut before) = (HashSet::new(), 0, 0, 1.0);
    for line in read_to_string(file).unwrap().lines().skip(1) {
        let (time, event) = line.split_once(',').unwrap();
        let time: f64 = time.parse().unwrap();
        assert!(time >= before, "{line}");
        before = time;
        match event.split_once(',').unwrap() {
            ("create", session) => {
                assert!(open.insert(session.to_string()), "{line}");
                created += 1;
            }
            ("delete", session) => {
                assert!(open.remove(session), "{line}");
                deleted += 1;
            }
            _ => panic!("{line}"),
        }
    }
    (open, created, deleted)
}

/// Mappings end in many ways: they expire, are evicted, make way for others, or end with the run. The log
/// has all of them.
#[test]
fn the_log_tells_at_each_time_which_mappings_exist() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for (name, nat) in [
        ("expiry", ""),
        ("capacity", ", MAPPING_CAPACITY 20, UDP_GUARANTEE 0, TCP_GUARANTEE 0"),
        ("guarantee", ", MAPPING_CAPACITY 20"),
        ("endpoints", ", INDEPENDENT_MAPPING true"),
        ("subscribers", ", SUBSCRIBER_CAPACITY 4"),
    ] {
        let file = folder.path().join(name);
        let packets: Vec<_> = (0..3000i64)
            .map(|n| {
                let (host, port) = (random.u8(1..9), random.u16(5000..5010));
                let (from, to) = (end([10, 0, 0, host], port), end(REMOTE, random.u16(50..53)));
                let flags = [SYN, ACK, FIN | ACK, RST][random.usize(..4)];
                (n * 100, if random.bool() { udp(from, to) } else { tcp(from, to, flags, b"") })
            })
            .collect();
        let outcome = run_logged(&file, ", DESTINATIONS true", nat, &packets);
        // The handlers were read before the run ended, and with it the remaining sessions.
        let (open, created, deleted) = open_sessions(&file);
        assert!(open.is_empty() && created == deleted && created > 100, "{name}: {created} {open:?}");
        let [logged, ended, left] = counts(&outcome).map(|count| count.parse::<u64>().unwrap());
        assert!(
            logged == created && ended > 10 && ended + left == created,
            "{name}: {logged} {ended} {left}"
        );
    }
}

const LOGGED: &str = "log :: NATLog(FILE, DESTINATIONS true); in -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, LOG log) -> Discard;";

/// Opens 400 sessions in the graph `first`, and then replaces it by the graph `second`. Returns the sessions
/// that have begun and not ended in the file of `second`, and the values of handlers.
fn across(first: &str, second: &str, handlers: &[&str]) -> (usize, Vec<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nat.csv");
    let with_file = |graph: &str| graph.replace("FILE", &format!("FILE {}", file.display()));
    let source =
        "FastUDPFlows(RATE 0, LIMIT 400, LENGTH 60, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
        DSTIP 198.51.100.1, FLOWS 400, FLOWSIZE 1) -> Strip(14) -> CheckIPHeader -> in :: Null;";
    let first = format!("{source} {} Script(wait 60s, stop);", with_file(first));
    let second = format!("Idle -> in :: Null; {} Script(wait 0.1s, stop);", with_file(second));
    let mut worker = worker(&first, TestRun::real()).unwrap_or_else(|error| panic!("{error}"));
    while worker.read(worker.plan().graph.find("log"), "created", "").unwrap() != "400" {
        worker.step(100);
    }
    worker.write(None, "hotconfig", &second).unwrap();
    // The new graph is built by another thread. Its script stops the run.
    worker.run();
    let mut read = |name: &str| {
        let (element, handler) = name.split_once('.').unwrap();
        let id = worker.plan().graph.find(element);
        worker.read(id, handler, "").unwrap().trim().parse().unwrap()
    };
    let values = handlers.iter().map(|name| read(name)).collect();
    worker.write(worker.plan().graph.find("log"), "reopen", "").unwrap();
    let open = open_sessions(&file).0.len();
    let _ = worker.finish();
    // All sessions have ended with the run.
    assert_eq!(open_sessions(&file).0.len(), 0);
    (open, values)
}

#[test]
fn a_reload_keeps_the_log_and_loses_no_event() {
    let handlers = ["rw.table_size", "log.created", "log.deleted"];
    assert_eq!(across(LOGGED, LOGGED, &handlers), (400, vec![400, 400, 0]));
    // The translator is declared before its log, and continues before it. It has one output more, so its
    // mappings are moved one by one, and a smaller capacity, which ends some.
    let before = "in -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, LOG log, MAPPING_CAPACITY 300)
            -> Discard; log :: NATLog(FILE, DESTINATIONS true);";
    let two = LOGGED.to_owned() + "Idle -> [1] rw;";
    let two = two.replace("0 0, LOG", "0 0, drop, LOG");
    for (first, second) in [(LOGGED, before), (&two, before), (before, LOGGED)] {
        let (open, values) = across(first, second, &handlers);
        assert_eq!((open as u64, values[1] - values[2]), (values[0], values[0]), "{first} {second}");
        assert_eq!(values[1], 400, "{first} {second}");
    }
    // A log with other settings continues with the counts.
    let other = LOGGED.replace("true)", "true, DOMAIN 7)");
    assert_eq!(across(LOGGED, &other, &handlers).1, [400, 400, 0]);
}

#[test]
fn mappings_that_a_reload_does_not_keep_have_ended() {
    // The input of the mappings is gone, or the translator.
    let two =
        "log :: NATLog(FILE, DESTINATIONS true); in -> [1] rw :: IPRewriter(drop, pattern 192.0.2.1 1024-65535 - - 0 0, LOG log)
            -> Discard; Idle -> rw;";
    let (open, values) = across(two, LOGGED, &["rw.table_size", "log.deleted"]);
    assert_eq!((open, values), (0, vec![0, 400]));
    let (open, values) =
        across(LOGGED, "log :: NATLog(FILE, DESTINATIONS true); in -> Discard;", &["log.deleted"]);
    assert_eq!((open, values), (0, vec![400]));
}

#[test]
fn workers_share_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let (input, file) = (folder.path().join("in.pcap"), folder.path().join("nat.csv"));
    let packets: Vec<_> = (0..400u16).map(|n| (i64::from(n), from_inside(n as u8, 5000 + n))).collect();
    write_capture(&input, &packets);
    let config = format!(
        "log :: NATLog(FILE {});
         FromDump({}, FORCE_IP true) -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, LOG log) -> Discard;",
        file.display(),
        input.display()
    );
    let handlers = ["log.created", "rw.table_size"];
    let outcome = TestRun::trace().on(2).text(&config, &handlers).unwrap();
    assert_eq!([value(&outcome, 0), value(&outcome, 1)], ["400", "400"]);
    let text = read_to_string(&file).unwrap();
    let sessions: HashSet<&str> = text.lines().skip(1).collect();
    assert_eq!((sessions.len(), text.lines().count()), (800, 801));
}

#[test]
fn pings_are_logged_with_their_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nat.csv");
    let config = format!(
        "log :: NATLog(FILE {}, DESTINATIONS true);
         in -> rw :: ICMPPingRewriter(pattern 192.0.2.1 700-700 - - 0 0, LOG log);",
        file.display()
    );
    run(&config, 1, &[(5, echo(INSIDE, REMOTE, 8, 17))], &[]);
    let text = read_to_string(&file).unwrap();
    let line = "1000.005000,create,1,10.0.0.1,17,192.0.2.1,700,2.0.0.2,0,2.0.0.2,0";
    assert_eq!(text.lines().nth(1), Some(line));
}

#[test]
fn a_collector_gets_every_session() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let config = format!("log :: NATLog(COLLECTOR {}, DOMAIN 5);\n", collector.local_addr().unwrap());
    let config = config + &gateway("IPRewriter", &format!("{NAPT}, {TIMES}, LOG log"));
    let mut packets: Vec<_> = (0..100u16).map(|n| (i64::from(n), from_inside(1, 5000 + n))).collect();
    packets.push((60_000, from_inside(2, 6000)));
    let (outcome, _) = run(&config, 2, &packets, &["log.created", "log.deleted", "log.unsent"]);
    assert_eq!(counts(&outcome), ["101", "100", "0"]);
    let mut parser = NetflowParser::default();
    let (mut records, mut bytes) = (0, [0; 2048]);
    while let Ok(length) = collector.recv(&mut bytes) {
        for packet in parser.parse_bytes(&bytes[..length]).packets {
            let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
            assert_eq!(packet.header.observation_domain_id, 5);
            assert_eq!(packet.header.sequence_number, records);
            records += packet
                .flowsets
                .iter()
                .map(|set| format!("{set:?}").matches("10.0.0.").count())
                .sum::<usize>() as u32;
        }
    }
    assert_eq!(records, 202);
}

#[test]
fn mistakes_are_told() {
    let error = |config: &str| TestRun::trace().text(config, &[]).err().unwrap_or_default();
    assert!(error("NATLog").contains("FILE or COLLECTOR must be given"));
    assert!(error("NATLog(COLLECTOR here)").contains("an address such as 192.0.2.1"));
    assert!(error("NATLog(FILE /nowhere/nat.csv)").contains("/nowhere/nat.csv"));
    let nat = "c :: Idle -> IPRewriter(drop, LOG c) -> Discard";
    assert!(error(nat).contains("LOG: the element is no NATLog"), "{}", error(nat));
}
