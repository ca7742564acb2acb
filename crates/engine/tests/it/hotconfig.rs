//! Tests of replacing the graph of a running worker by another, in simulated time: elements of equal name and
//! class take over state and packets.

use std::fmt;
use std::sync::{Arc, Mutex};

use element::{Call, CallOrigin, Class, Cx, Effects, Element, OutputStream, Timestamp};
use engine::{ClockKind, Configured, End, Options, Plan, RebuildRequest, Rebuilt, Sink, Worker};

fn build(text: &str) -> Result<(Arc<Plan>, Configured), String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if !diagnostics.is_empty() {
        return Err(diagnostics.iter().map(|d| d.render(&sources)).collect());
    }
    let registry = testkit::registry().with(&[&EAGER, &LAST]);
    let all =
        |problems: Vec<engine::Problem>| problems.iter().map(|p| p.render(&sources)).collect::<String>();
    let plan = Arc::new(Plan::new(graph, &registry).map_err(all)?);
    let configured = plan.configure(None).map_err(all)?;
    Ok((plan, configured))
}

#[derive(Clone, Default)]
pub(crate) struct Lines(pub(crate) Arc<Mutex<String>>);

impl Sink for Lines {
    fn write(&mut self, _: OutputStream, text: fmt::Arguments<'_>) {
        *self.0.lock().unwrap() += &text.to_string();
    }

    fn flush(&mut self) {}
}

/// Runs the configuration `first` until a script stops it. `SECOND` in its text is replaced by the quoted
/// text of `second`. Returns the values of handlers, and the text that was written.
fn run(first: &str, second: &str, handlers: &[&str]) -> (Vec<String>, String) {
    let (plan, configured) = build(&first.replace("SECOND", &lang::args::quote(second))).unwrap();
    let start = Timestamp::from_secs(1_000_000_000);
    let options = Options {
        clock: ClockKind::Simulated { start, tick: Timestamp(1_000) },
        burst: 1,
        memory: 64 << 20,
        // The script passes the text of the second graph on with its quotes, so they are removed here.
        rebuild: Some(Arc::new(|request: &RebuildRequest| {
            assert_eq!(request.origin, CallOrigin::Configuration);
            let text = lang::args::unquote(request.value.as_deref().unwrap());
            let (plan, configured) = build(&text)?;
            let tell = Box::new(|problem: &engine::Problem| problem.render(&lang::Sources::new()));
            Ok(Rebuilt { plan, copies: vec![configured], text, tell, recomposer: None })
        })),
        ..Options::default()
    };
    let lines = Lines::default();
    let mut worker = Worker::new(plan, configured, Box::new(lines.clone()), options).unwrap();
    worker.initialize().unwrap();
    assert_eq!(worker.run(), End::Stopped);
    let values = handlers.iter().map(|name| {
        let (element, handler) = name.split_once('.').unwrap();
        let id = worker.plan().graph.find(element).unwrap();
        worker.read(Some(id), handler, "").unwrap()
    });
    let values = values.collect();
    worker.finish().unwrap();
    assert!(worker.report().balances(), "{:?}", worker.report());
    let text = lines.0.lock().unwrap().clone();
    (values, text)
}

#[test]
fn state_and_packets_go_to_the_heirs() {
    // The queue of the second graph has room for 30 of the 40 packets that the first queue holds. The counter
    // `d` has no predecessor in the first graph, so it counts only these 30 packets.
    let (values, text) = run(
        "s :: InfiniteSource(LIMIT 40) -> c :: Counter -> q :: Queue(100) -> Idle;
         Script(wait 1s, write hotconfig SECOND)",
        "Idle -> c :: Counter -> q :: Queue(30) -> Unqueue -> d :: Counter -> Discard;
         Script(wait 1s, print \"hello\", stop)",
        &["c.count", "q.length", "q.highwater_length", "d.count"],
    );
    assert_eq!(values, ["40", "0", "40", "30"]);
    assert_eq!(text, "hello\n");
}

#[test]
fn heirs_know_what_another_element_has_done() {
    // The stand-in handles all packets in place of the counter. The engine adds their number to the counter's
    // state before the heir gets this state, although no handler has been read that would have caused this.
    let (values, _) = run(
        "InfiniteSource(LIMIT 40) -> UDPIPEncap(1.1.1.1, 1, 2.2.2.2, 2) -> s :: TestStandIn(c, f) -> Discard;
         s [1] -> Discard; Idle -> c :: Counter -> f :: IPFilter(allow udp, deny all) -> Discard;
         Script(wait 1s, write hotconfig SECOND)",
        "Idle -> c :: Counter -> Discard; Script(wait 1s, stop)",
        &["c.count", "c.byte_count"],
    );
    assert_eq!(values, ["40", "3880"]);
}

#[test]
fn what_has_no_heir_is_drained() {
    let (values, _) = run(
        "s :: InfiniteSource(LIMIT 40) -> q :: Queue(100) -> Idle; Script(wait 1s, write hotconfig SECOND)",
        "Idle -> other :: Queue -> d :: Idle; q :: Counter; Idle -> q -> Discard; Script(wait 1s, stop)",
        &["other.length", "q.count"],
    );
    assert_eq!(values, ["0", "0"]);
}

#[test]
fn mistakes_leave_the_old_graph() {
    for (second, error) in [
        ("Idle -> Strip(x) -> Discard", "LENGTH: 'x' is not a whole number"),
        ("Idle -> Nonesuch -> Discard", "unknown element class"),
        ("InfiniteSource(LIMIT 9) -> Discard; FromDump(/nonesuch) -> Discard", "While initializing"),
    ] {
        let (values, text) = run(
            "s :: InfiniteSource(LIMIT 40) -> c :: Counter -> Discard;
             Script(wait 1s, write hotconfig SECOND, print \"on it goes\", stop)",
            second,
            &["c.count"],
        );
        assert_eq!(values, ["40"]);
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn what_waits_for_a_shared_table_goes_on_waiting() {
    let (table, querier) = ("t :: ARPTable;", "q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t)");
    let rest = "-> c :: Counter -> Discard; Idle -> [1] q [1] -> Discard;";
    let script = "Script(wait 1s, print t.length, write t.insert 10.0.0.2 2:0:0:0:0:2, wait 1ms, print t.length, stop)";
    // In a reload, elements get the state of their predecessors in the order of the graph. The ARPTable may
    // come before or after the ARPQuerier that uses it.
    for order in [format!("{table} Idle -> {querier} {rest}"), format!("Idle -> {querier} {rest} {table}")] {
        let first = format!(
            "{table} InfiniteSource(LIMIT 3) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14) -> GetIPAddress(16)
                -> {querier} {rest} Script(wait 1s, write hotconfig SECOND)"
        );
        let (values, text) = run(&first, &format!("{order} {script}"), &["c.count", "q.length", "t.drops"]);
        assert_eq!((text.as_str(), values.join(" ")), ("3\n0\n", "3 0 0".into()), "{order}");
    }
    // The querier has another table in the second graph, so its waiting packets are dropped.
    let second = "Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE other) -> c :: Counter -> Discard;
        Idle -> [1] q [1] -> Discard; other :: ARPTable; Script(wait 1s, print other.drops, stop)";
    let first = format!(
        "{table} InfiniteSource(LIMIT 3) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14) -> GetIPAddress(16)
            -> {querier} {rest} Script(wait 1s, write hotconfig SECOND)"
    );
    assert_eq!(run(&first, second, &["q.length"]), (vec!["0".into()], "3\n".into()));
}

#[test]
fn a_switch_forgets_hosts_of_lans_that_it_has_no_more() {
    for (class, listener) in [("EtherSwitch", 0), ("ListenEtherSwitch", 1)] {
        let graph = |lans: usize, from: usize, data: &str, script: &str| {
            let idle = (0..lans).filter(|&other| other != from).map(|other| format!("Idle -> [{other}] s;"));
            let out = (0..lans + listener).map(|lan| format!("s[{lan}] -> c{lan} :: Counter -> Discard;"));
            let more: String = idle.chain(out).collect();
            format!(
                "s :: {class}; source{from} :: InfiniteSource(DATA \\<{data}0800>, LIMIT 1) -> [{from}] s; {more} {script}"
            )
        };
        let first =
            graph(3, 2, "ffffffffffff020000000001", "Script(wait 1s, print s.table, write hotconfig SECOND)");
        let second = graph(2, 0, "020000000001020000000002", "Script(wait 1s, print s.table, stop)");
        let (values, text) = run(&first, &second, &["c1.count"]);
        assert_eq!(text, "02-00-00-00-00-01 2\n02-00-00-00-00-02 0\n", "{class}");
        // Counter `c1` has counted one packet in the first graph. In the second graph it gets the packet for
        // the host that was at LAN 2, because this LAN is gone with its entry, and the packet is flooded.
        assert_eq!(values, ["2"], "{class}");
    }
}

#[test]
fn no_more_mappings_live_on_than_the_heir_has_room_for() {
    let flows = "FastUDPFlows(0, 200, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.9.9.9, 10, 20)";
    let (values, text) = run(
        &format!(
            "{flows} -> MarkIPHeader(14) -> rw :: UDPRewriter(keep 0 0) -> Discard;
             Script(wait 1s, print $(rw.table_size), write hotconfig SECOND)"
        ),
        "Idle -> rw :: UDPRewriter(keep 0 0, MAPPING_CAPACITY 4) -> Discard; Script(wait 1s, stop)",
        &["rw.table_size", "rw.size"],
    );
    assert!(text.trim().parse::<usize>().is_ok_and(|before| before >= 10), "{text}");
    assert_eq!(values, ["4", "4"]);
}

#[test]
fn mappings_of_a_translator_live_on() {
    let addresses = "2:0:0:0:0:1, 10.0.0.1, 1000, 2:0:0:0:0:2, 10.9.9.9, 53";
    let translator = "rw :: IPRewriter(pattern 192.0.2.1 2000-3000# - - 0 1, drop)";
    let (values, _) = run(
        &format!(
            "FastUDPSource(0, 3, 60, {addresses}) -> MarkIPHeader(14) -> {translator};
             Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard;
             Script(wait 1s, write hotconfig SECOND)"
        ),
        &format!(
            "FastUDPSource(0, 2, 60, {addresses}) -> MarkIPHeader(14) -> {translator};
             Idle -> [1] rw; rw[0] -> c :: Counter -> Discard; rw[1] -> Discard; Script(wait 1s, stop)"
        ),
        &["rw.table_size", "rw.udp_table", "c.count"],
    );
    assert_eq!([&values[0][..], &values[2][..]], ["1", "2"]);
    assert!(
        values[1].contains("(10.0.0.1, 1000, 10.9.9.9, 53) => (192.0.2.1, 2000, 10.9.9.9, 53)"),
        "{}",
        values[1]
    );
}

/// With END_STALE, a mapping that the new pattern could not have made ends, and its next packet opens another
/// one. Otherwise the mapping stays.
#[test]
fn mappings_that_the_new_pattern_could_not_have_made_stay_or_end() {
    let source = |packets: u32| {
        let addresses = "2:0:0:0:0:1, 10.0.0.1, 1000, 2:0:0:0:0:2, 10.9.9.9, 53";
        format!("FastUDPSource(0, {packets}, 60, {addresses}) -> MarkIPHeader(14)")
    };
    for (more, address) in [("", "192.0.2.1"), (", END_STALE true", "192.0.2.9")] {
        let rewriter = |address: &str| {
            format!("rw :: IPRewriter(pattern {address} 2000-3000# - - 0 0{more}) -> c :: Counter -> Discard")
        };
        let (values, _) = run(
            &format!("{} -> {}; Script(wait 1s, write hotconfig SECOND)", source(3), rewriter("192.0.2.1")),
            &format!("{} -> {}; Script(wait 1s, stop)", source(2), rewriter("192.0.2.9")),
            &["c.count", "rw.table_size", "rw.udp_table"],
        );
        assert_eq!([&values[0][..], &values[1][..]], ["5", "1"]);
        assert!(values[2].contains(&format!("=> ({address}, 2000,")), "{}", values[2]);
    }
}

/// Packets of a session that the new rules deny no longer come to the translator. A session that both the old
/// and the new rules allow goes on with its mapping.
#[test]
fn new_rules_apply_to_old_sessions() {
    let graph = |packets: u32, rules: &str, end: &str| {
        let source = |port: u16| {
            format!(
                "FastUDPSource(0, {packets}, 60, 2:0:0:0:0:1, 10.0.0.1, {port}, 2:0:0:0:0:2, 10.9.9.9, 53) -> in;"
            )
        };
        format!(
            "in :: MarkIPHeader(14) -> fw :: IPFilter({rules}) -> rw :: IPRewriter(pattern 192.0.2.1 2000-3000# - - 0 0)
             -> k :: IPClassifier(src port 2000, src port 2001); k[0] -> a :: Counter -> Discard;
             k[1] -> b :: Counter -> Discard; {} {} Script(wait 1s, {end})",
            source(1000),
            source(1001)
        )
    };
    let (values, _) = run(
        &graph(3, "allow all", "write hotconfig SECOND"),
        &graph(2, "deny src port 1000, allow all", "stop"),
        &["a.count", "b.count", "rw.table_size"],
    );
    assert_eq!(values, ["3", "5", "2"]);
}

/// A pattern that an operator has removed stays removed in the second graph. A pattern that only the second
/// graph has is active.
#[test]
fn patterns_of_a_mapper_that_were_taken_out_stay_so() {
    let mapper = "m :: MaglevIPMapper(- - 10.221.0.1 80 0 0, - - 10.221.0.2 80 0 0";
    let (values, _) = run(
        &format!(
            "{mapper}); Idle -> IPRewriter(m) -> Discard; Script(write m.remove_server 1, wait 1s, write hotconfig SECOND)"
        ),
        &format!("{mapper}, - - 10.221.0.3 80 0 0); Idle -> IPRewriter(m) -> Discard; Script(stop)"),
        &["m.servers", "m.nb_active_servers"],
    );
    let states: Vec<_> = values[0].lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!((states, &values[1][..]), (vec!["active", "inactive", "active"], "2"));
}

/// After the first pattern of the first graph, the next flow gets the pattern that follows it in the second
/// graph.
#[test]
fn turns_of_a_mapper_go_on() {
    let addresses = "0:0:0:0:0:0, 10.0.0.1, 1000, 1:1:1:1:1:1, 10.9.9.9, 53";
    let source = format!("FastUDPSource(0, 1, 60, {addresses}) -> MarkIPHeader(14)");
    let mapper = |servers: &[u8]| {
        let patterns: Vec<_> = servers.iter().map(|n| format!("- - 10.221.0.{n} 80 0 0")).collect();
        format!("m :: RoundRobinIPMapper({})", patterns.join(", "))
    };
    let (values, _) = run(
        &format!(
            "{}; {source} -> first :: UDPRewriter(m) -> Discard; Script(wait 1s, write hotconfig SECOND)",
            mapper(&[1, 2])
        ),
        &format!(
            "{}; {source} -> second :: UDPRewriter(m) -> Discard; Script(wait 1s, stop)",
            mapper(&[3, 1, 2])
        ),
        &["second.table"],
    );
    assert!(
        values[0].contains("10.0.0.1, 1000, 10.9.9.9, 53) => (10.0.0.1, 1000, 10.221.0.2, 80)"),
        "{}",
        values[0]
    );
}

/// Each graph has one new connection. The second goes to the server that follows the first one's.
#[test]
fn turns_of_a_load_balancer_go_on() {
    let graph = |port: u16, servers: &[u8], script: &str| {
        let servers: Vec<_> = servers.iter().map(|n| format!("DST 10.221.0.{n}")).collect();
        format!(
            "s{port} :: FastUDPSource(0, 1, 60, 0:0:0:0:0:0, 10.0.0.1, {port}, 1:1:1:1:1:1, 10.9.9.9, 53)
                -> MarkIPHeader(14) -> lb :: FlowIPLoadBalancer(VIP 10.9.9.9, {})
                -> k :: IPClassifier(dst host 10.221.0.2, -) -> c :: Counter -> Discard; k[1] -> Discard;
             Script(wait 1s, {script})",
            servers.join(", ")
        )
    };
    for servers in [&[1, 2][..], &[1, 2, 3], &[3, 1, 2], &[4, 2, 1]] {
        let second = graph(2, servers, "stop");
        let (values, _) = run(&graph(1, &[1, 2], "write hotconfig SECOND"), &second, &["c.count"]);
        assert_eq!(values, ["1"], "{servers:?}");
    }
}

/// An element that writes `hotconfig` while it is initialized, and prints the error.
static EAGER: Class = Class {
    name: "TestEager",
    ports: "0/0",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Eager))
    },
    ..Class::DEFAULT
};

struct Eager;

impl Element for Eager {
    fn effects(&self) -> Effects {
        Effects::default()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let call = Call::new(None, "hotconfig", "Idle -> Discard");
        let is_there = cx.graph().has_handler(&call, true);
        let error = cx.handlers().write(&call).unwrap_err();
        cx.messages().message(format_args!("{is_there}: {error}\n"));
        Ok(())
    }
}

/// The elements of the second graph are initialized while the first still runs. An element that then writes
/// `hotconfig` learns that it is too early; later the handler can be written.
#[test]
fn a_graph_that_is_being_built_builds_no_other() {
    let (_, text) = run(
        "Script(wait 1s, write hotconfig SECOND)",
        "TestEager; Script(wait 1s, write hotconfig \"Idle -> x\", print \"later\", stop)",
        &[],
    );
    assert!(text.starts_with("true: another configuration is being installed already\n"), "{text}");
    assert!(text.contains("undeclared element 'x'") && text.ends_with("later\n"), "{text}");
}

/// An element that asks for the end of the run when it is drained.
static LAST: Class = Class {
    name: "Last",
    ports: "0/0",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Last))
    },
    ..Class::DEFAULT
};

struct Last;

impl Element for Last {
    fn effects(&self) -> Effects {
        Effects::default()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        cx.stop();
    }
}

/// A request to stop holds for the run, although another graph replaces the one that has asked.
#[test]
fn a_request_to_stop_is_not_lost() {
    let second = "Script(wait 1s, print \"late\", stop)";
    let (_, text) = run("last :: Last; Script(write hotconfig SECOND)", second, &[]);
    assert!(!text.contains("late"), "{text}");
}
