//! Tests of user-defined functions: which packets the handlers are given, and the state of flows.

use element::{Args, Class, DropReason, Timestamp};
use sprayer::function::{FlowPacket, FlowStates, Function, Needs, Verdict, class};
use sprayer::{Policy, SpreadSettings};
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, RST, SYN};

static CLASSES: &[&Class] = &[
    &Class { name: "Numbers", ..class::<Numbers>() },
    &Class { name: "Stateless", table: &(), ..class::<Stateless>() },
];

/// A test function that gives each connection of this worker a number as its state. It checks the states that
/// it reads, of a packet's own flow and of other flows.
struct Numbers {
    next: u64,
}

impl Function for Numbers {
    type State = [u64; 2];

    fn init(_args: &mut Args<'_>, needs: &mut Needs) -> Numbers {
        needs.flows = 64;
        Numbers { next: 0 }
    }

    fn connection_packets(
        &mut self,
        flows: &mut FlowStates<'_, [u64; 2]>,
        packets: &mut [FlowPacket<[u64; 2]>],
    ) {
        for packet in packets {
            assert!(packet.state.is_none() && flows.is_home(&packet.flow));
            let known = flows.get_local_flow(&packet.flow);
            assert_eq!(known, flows.get_flow(&packet.flow), "all workers see the same");
            if packet.flags & RST != 0 {
                assert_eq!(flows.remove_local_flow(&packet.flow), known);
                assert!(flows.get_local_flow(&packet.flow).is_none());
            } else if let Some([number, changes]) = known {
                assert!(flows.update_local_flow(&packet.flow, &[number, changes + 1]));
            } else if packet.flags & SYN != 0 {
                self.next += 1;
                assert!(!flows.update_local_flow(&packet.flow, &[0; 2]), "there is nothing to change");
                if flows.insert_local_flow(&packet.flow, &[self.next, 0]).is_err() {
                    packet.verdict = Verdict::Drop(DropReason::NoBuffer);
                }
            } else {
                packet.verdict = Verdict::Drop(DropReason::Denied);
            }
        }
    }

    fn regular_packets(&mut self, flows: &FlowStates<'_, [u64; 2]>, packets: &mut [FlowPacket<[u64; 2]>]) {
        let asked: Vec<_> = packets.iter().flat_map(|packet| [packet.flow, packet.flow.reversed()]).collect();
        let mut states = vec![None; asked.len()];
        // `states` is longer than `asked`: its last element must stay as it is.
        let beyond = Some([7; 2]);
        states.push(beyond);
        flows.get_flows(&asked, &mut states);
        assert_eq!(states.pop(), Some(beyond));
        for (packet, found) in packets.iter().zip(states.chunks(2)) {
            let state = packet.state.expect("it is known");
            assert_eq!((found, flows.get_flow(&packet.flow)), (&[Some(state), None][..], Some(state)));
        }
    }
}

/// A function that keeps no state of flows, so that no packet of a flow has to go to the flow's own worker.
struct Stateless;

impl Function for Stateless {
    type State = ();

    fn init(_args: &mut Args<'_>, needs: &mut Needs) -> Stateless {
        needs.flows = 0;
        Stateless
    }

    fn connection_packets(&mut self, _flows: &mut FlowStates<'_, ()>, _packets: &mut [FlowPacket<()>]) {
        unreachable!("there are no connections without state");
    }

    fn regular_packets(&mut self, _flows: &FlowStates<'_, ()>, packets: &mut [FlowPacket<()>]) {
        assert!(packets.iter().all(|packet| packet.state.is_none()));
    }
}

/// Returns packets of `connections` connections: for each element of `flags`, one packet of each
/// connection.
fn packets(connections: u16, flags: &[u8]) -> Vec<TestPacket> {
    let packet = |connection: u16, flags| {
        let from = ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection);
        let builder = Builder::tcp(from.into(), ([198, 51, 100, 7], 80).into(), flags);
        let bytes = builder.build(&connection.to_be_bytes()).unwrap();
        let time = Timestamp(1_000_000_000);
        TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), Some(0), Some(20)] }
    };
    flags.iter().flat_map(|&flags| (0..connections).map(move |n| packet(n, flags))).collect()
}

/// Sends packets through an element of a function. Under the trace clock workers take turns, so no state
/// changes while another worker reads it.
fn run(how: TestRun, element: &str, packets: Vec<TestPacket>, handlers: &[&str]) -> (RunResults, Vec<Seen>) {
    let exchange = offer(vec![packets]);
    let text = format!("TestSource({exchange}, 0) -> f :: {element} -> TestSink({exchange}, 0)");
    let outcome = how.with(CLASSES).text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(exchange))
}

fn ways() -> impl Iterator<Item = TestRun> {
    [1, 2, 4].into_iter().flat_map(|workers| {
        let run = TestRun::trace().on(workers);
        let auto = || SpreadSettings { policy: Policy::Auto, ..SpreadSettings::default() }.spreading();
        [run, run.spread(|| SpreadSettings::default().spreading()), run.spread(auto)]
    })
}

#[test]
fn state_is_what_its_worker_says() {
    for how in ways() {
        let flags = [SYN, ACK, SYN | ACK, ACK, ACK, FIN | ACK, ACK, RST, ACK, SYN, ACK];
        let (outcome, seen) = run(how, "Numbers", packets(40, &flags), &["f.flows"]);
        // The packet between RST and the next SYN belongs to an unknown connection, and is denied. With
        // several workers it may arrive before the RST is handled, so the number then is not exact.
        let denied = outcome.report.totals.drops.get("denied").map_or(0, |&denied| denied as usize);
        assert!(denied == 40 || how.spreading.is_some() && how.workers > 1, "{denied} {how:?}");
        assert_eq!(seen.len() + denied, 40 * flags.len(), "{how:?}");
        assert_eq!(outcome.values, [Ok("40".to_string())]);
    }
}

/// Sets up a connection of which the function sees only one end's packets. The other end may go on sending
/// after this end's FIN, even after a long pause: the connection must still be known.
#[test]
fn a_half_closed_connection_is_still_known() {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    let of_one = packets(1, &[SYN, ACK, FIN | ACK, ACK, ACK]);
    for (input, second) in of_one.iter().zip([100, 101, 102, 130, 400]) {
        writer.write(second * 1_000_000_000, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
    for how in ways() {
        let exchange = offer(vec![Vec::new()]);
        let path = file.path().display();
        let text = format!("FromDump({path}) -> MarkIPHeader -> f :: Numbers -> TestSink({exchange}, 0)");
        how.with(CLASSES).text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(collect(exchange).len(), 5, "{how:?}");
    }
}

#[test]
fn full_tables_are_the_functions_business() {
    for how in ways() {
        let (outcome, seen) = run(how, "Numbers", packets(1000, &[SYN, ACK, ACK]), &["f.flows"]);
        let known: usize = outcome.values[0].as_ref().unwrap().parse().unwrap();
        assert_eq!(known, 64 * how.workers, "{how:?}");
        assert_eq!(seen.len(), 3 * known);
    }
}

#[test]
fn without_state_packets_are_handled_anywhere() {
    for how in ways() {
        let all = packets(20, &[SYN, ACK, FIN, ACK]);
        let count = all.len();
        let (outcome, seen) = run(how, "Stateless", all, &[]);
        assert_eq!(seen.len(), count);
        let handed: u64 = outcome.report.workers.iter().map(|worker| worker.handed).sum();
        assert!(handed <= 2 * count as u64, "to where they are spread and to the end, no further: {how:?}");
    }
}

#[test]
fn what_is_not_ip_ends() {
    let mut all = packets(4, &[SYN]);
    let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
    all.push(TestPacket { bytes: arp, headers: [Some(0), None, None], ..all[0].clone() });
    for how in ways() {
        let (outcome, seen) = run(how, "Numbers", all.clone(), &[]);
        assert_eq!((seen.len(), outcome.report.totals.drops.get("unsuitable packet")), (4, Some(&1)));
    }
}
