//! Route look-ups in running configurations: handlers, messages, declarations, and a full table of the Internet.

use std::net::Ipv4Addr;
use std::process::Command;

use element::Timestamp;
use element::effects::{Action, Case, DST_IP, Filter, Target, Value};
use engine::Worker;
use tidegate_testkit::elements::{Input, collect, offer};
use tidegate_testkit::{Run, worker};

/// A router with three outputs.
fn router(class: &str, routes: &str) -> Result<Worker, String> {
    let text = format!(
        "AddressInfo(gate 10.0.0.1, lab 192.168.0.0/16); Idle -> rt :: {class}({routes});
         rt[0] -> Discard; rt[1] -> Discard; rt[2] -> Discard"
    );
    worker(&text, Run::default())
}

fn read(worker: &mut Worker, handler: &str, param: &str) -> Result<String, String> {
    let id = worker.plan().graph.find("rt");
    worker.read(id, handler, param)
}

fn write(worker: &mut Worker, handler: &str, value: &str) -> Result<(), String> {
    let id = worker.plan().graph.find("rt");
    worker.write(id, handler, value)
}

/// The table with one space between columns.
fn table(worker: &mut Worker) -> Vec<String> {
    let table = read(worker, "table", "").unwrap();
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

const CHANGING: [&str; 5] =
    ["LinearIPLookup", "SortedIPLookup", "RadixIPLookup", "DirectIPLookup", "RangeIPLookup"];
const FIXED: [&str; 3] = ["StaticIPLookup", "LookupIPRoute", "LookupIPRouteMP"];

#[test]
fn routes_are_added_set_and_removed() {
    for class in CHANGING {
        let mut rt = router(class, "10/8 0, lab gate 1").unwrap();
        let text = "10.0.0.0/8\t\t-\t\t0\n192.168.0.0/16\t\t10.0.0.1\t1\n";
        assert_eq!(read(&mut rt, "table", "").as_deref(), Ok(text), "{class}");
        assert_eq!(write(&mut rt, "add", "10.1/16 gate 2"), Ok(()));
        let conflict = Err("conflict with existing route '10.1.0.0/16 10.0.0.1 2'".into());
        assert_eq!(write(&mut rt, "add", "10.1.2.3/255.255.0.0 1"), conflict, "{class}");
        assert_eq!(write(&mut rt, "set", "10/8 - 1"), Ok(()));
        for (address, found) in [
            ("10.0.0.0", "1"),
            ("10.1.255.255", "2 10.0.0.1"),
            ("gate", "1"),
            ("192.168.3.4", "1 10.0.0.1"),
            ("192.169.0.0", "-1"),
        ] {
            assert_eq!(read(&mut rt, "lookup", address).as_deref(), Ok(found), "{class} {address}");
        }
        assert_eq!(read(&mut rt, "lookup", "nowhere"), Err("expected IP address".into()));
        for (asked, error) in [
            ("10/9", "route '10.0.0.0/9 - -1' not found"),
            ("10/8 0", "route '10.0.0.0/8 - 0' not found"),
            ("10/8 gate 1", "route '10.0.0.0/8 10.0.0.1 1' not found"),
            ("10/8 3", "bad OUTPUT"),
            ("10/8 -2", "bad OUTPUT"),
            ("somewhere", "expected 'ADDR/MASK [GATEWAY OUTPUT]'"),
        ] {
            assert_eq!(write(&mut rt, "remove", asked), Err(error.into()), "{class}");
        }
        for (asked, error) in [
            ("10/8", "expected 'ADDR/MASK [GATEWAY] OUTPUT'"),
            ("", "expected 'ADDR/MASK [GATEWAY] OUTPUT'"),
            ("10/8 -1", "bad OUTPUT"),
            ("10/8 3", "bad OUTPUT"),
        ] {
            assert_eq!(write(&mut rt, "set", asked), Err(error.into()), "{class}");
        }
        assert_eq!(write(&mut rt, "remove", "10/8 1"), Ok(()));
        assert_eq!(write(&mut rt, "remove", "10.1/16"), Ok(()));
        assert_eq!(read(&mut rt, "lookup", "10.1.1.1").as_deref(), Ok("-1"));
        assert_eq!(table(&mut rt), ["192.168.0.0/16 10.0.0.1 1"], "{class}");
        let flushes = ["DirectIPLookup", "RangeIPLookup"].contains(&class);
        assert_eq!(write(&mut rt, "flush", "").is_ok(), flushes, "{class}");
        assert_eq!(table(&mut rt).is_empty(), flushes, "{class}");
    }
}

#[test]
fn a_group_of_changes_is_made_as_a_whole_or_not_at_all() {
    for class in CHANGING {
        let mut rt = router(class, "10/8 0, 11/8 0, 12/8 0").unwrap();
        let commands = "add 13/8 1\n\n  set 11/8 gate 2 \nremove 10/8\nset 14/8 1";
        let before = table(&mut rt);
        for (bad, error) in [
            ("add 12/8 1", "conflict with existing route '12.0.0.0/8 - 0'"),
            ("remove 10/8", "route '10.0.0.0/8 - -1' not found"),
            ("drop 12/8", "bad command 'drop'"),
            ("add 15/8 7", "bad OUTPUT"),
            ("add 15/8", "expected 'ADDR/MASK [GATEWAY] OUTPUT'"),
        ] {
            assert_eq!(write(&mut rt, "ctrl", &format!("{commands}\n{bad}\nadd 16/8 1")), Err(error.into()));
            let mut after = table(&mut rt);
            after.sort();
            assert_eq!(after, before, "{class}: {bad}");
            assert_eq!(read(&mut rt, "lookup", "11.1.1.1").as_deref(), Ok("0"));
        }
        assert_eq!(write(&mut rt, "ctrl", commands), Ok(()));
        let mut after = table(&mut rt);
        after.sort();
        assert_eq!(after, ["11.0.0.0/8 10.0.0.1 2", "12.0.0.0/8 - 0", "13.0.0.0/8 - 1", "14.0.0.0/8 - 1"]);
    }
}

#[test]
fn fixed_tables_have_no_handlers_to_change_them() {
    for class in FIXED {
        let mut rt = router(class, "10/8 0, lab gate 1").unwrap();
        for handler in ["add", "set", "remove", "ctrl", "flush"] {
            assert_eq!(write(&mut rt, handler, "11/8 0"), Err(format!("no 'rt.{handler}' write handler")));
        }
        let looked_up = read(&mut rt, "lookup", "192.168.1.1");
        assert_eq!(
            looked_up.ok().as_deref(),
            (class != "LookupIPRouteMP").then_some("1 10.0.0.1"),
            "{class}"
        );
    }
}

#[test]
fn bad_arguments_are_named() {
    let complaint = |class: &str, routes: &str| router(class, routes).err().unwrap_or_default();
    for class in CHANGING.iter().chain(&FIXED[..2]) {
        let text = complaint(class, "10/8 0, 10/40 0, 10/8, 11/8 3, 12/8 x 1");
        for expected in [
            "argument 2 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
            "argument 3 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
            "argument 4 bad OUTPUT",
            "argument 5 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        ] {
            assert!(text.contains(expected), "{class}: {text}");
        }
        assert!(!text.contains("argument 1 "), "{text}");
    }
    for (routes, expected) in [
        ("10/8 - 0", "argument 1 should be 'DADDR/MASK [GATEWAY] OUTPUT'"),
        ("10/8 0, 11/8 -1", "argument 2 should be 'DADDR/MASK [GATEWAY] OUTPUT'"),
        ("10/8 4", "need 5 or more output ports"),
    ] {
        let text = complaint("LookupIPRouteMP", routes);
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(complaint("LookupIPRouteMP", ""), "");
    // The first of several counts.
    let mut rt = router("LinearIPLookup", "10/8 0, 10.1.1.1/8 1").unwrap();
    assert_eq!(read(&mut rt, "lookup", "10.2.3.4").as_deref(), Ok("0"));
}

#[test]
fn packets_follow_the_table_as_it_is_changed() {
    let text = "s :: InfiniteSource(DATA \\<0a010203>, LIMIT 100, ACTIVE false) -> GetIPAddress(0)
            -> rt :: RangeIPLookup(10/8 0);
        rt[0] -> a :: Counter -> Discard; rt[1] -> b :: Counter -> Discard";
    let mut worker = worker(text, Run::default()).unwrap();
    let find = |worker: &Worker, name: &str| worker.plan().graph.find(name);
    let changes =
        [("add", "10.1/16 1"), ("add", "10.1.2.128/25 0"), ("set", "10.1.2.3 9.9.9.9 0"), ("flush", "")];
    for ((handler, value), counts) in
        changes.into_iter().zip([["0", "100"], ["0", "200"], ["100", "200"], ["100", "200"]])
    {
        write(&mut worker, handler, value).unwrap();
        let source = find(&worker, "s");
        worker.write(source, "reset", "").unwrap();
        worker.write(source, "active", "true").unwrap();
        while worker.step(100) {}
        for (name, count) in ["a", "b"].into_iter().zip(counts) {
            let id = find(&worker, name);
            assert_eq!(worker.read(id, "count", "").as_deref(), Ok(count), "{handler} {value}: {name}");
        }
    }
    worker.finish().unwrap();
    assert!(worker.report().balances());
}

/// What a declaration says about an address: output and annotation.
fn declared(cases: &[Case], address: u32) -> Option<(usize, u32)> {
    let takes = |filter: &Filter| match filter {
        Filter::In { field, mask, set } if *field == DST_IP => set.contains(u128::from(address) & mask),
        other => panic!("not a filter of the annotation: {other:?}"),
    };
    let case = cases.iter().find(|case| takes(&case.when)).expect("the cases are total");
    let mut gateway = case.actions.iter().map(|action| match action {
        Action::Set(field, Value::Constant(bytes)) if *field == DST_IP => {
            u32::from_be_bytes(bytes[..].try_into().unwrap())
        }
        other => panic!("{other:?}"),
    });
    match case.to {
        Target::Output(output) => Some((output, gateway.next_back().unwrap_or(address))),
        _ => None,
    }
}

/// Routes, each within the last of them every now and then.
fn random_routes(random: &mut fastrand::Rng, n: usize) -> Vec<(u32, u8, usize, u32)> {
    let mut routes: Vec<(u32, u8, usize, u32)> = Vec::new();
    while routes.len() < n {
        let length = random.u8(0..=32);
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let near = routes.last().map_or(0, |route| route.0) ^ (random.u32(..) >> random.u32(0..32));
        let address = near & mask;
        if routes.iter().all(|route| (route.0, route.1) != (address, length)) {
            let gateway = if random.bool() { 0 } else { 0x0909_0900 + random.u32(1..3) };
            routes.push((address, length, random.usize(0..3), gateway));
        }
    }
    routes
}

fn scan(routes: &[(u32, u8, usize, u32)], address: u32) -> Option<(usize, u32)> {
    let mask = |length: u8| u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    let fitting = routes.iter().filter(|route| address & mask(route.1) == route.0);
    let &(_, _, output, gateway) = fitting.max_by_key(|route| route.1)?;
    Some((output, if gateway == 0 { address } else { gateway }))
}

#[test]
fn packets_and_declarations_agree_with_a_linear_scan() {
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..20 {
        let routes = random_routes(&mut random, 1 + 3 * round);
        let configured: Vec<String> = routes
            .iter()
            .map(|(a, l, o, g)| format!("{}/{l} {} {o}", Ipv4Addr::from_bits(*a), Ipv4Addr::from_bits(*g)))
            .collect();
        let inputs: Vec<Input> = (0..400)
            .map(|_| {
                let near = routes[random.usize(..routes.len())].0 ^ (random.u32(..) >> random.u32(0..32));
                let mut annotations = [0; 48];
                annotations[..4].copy_from_slice(&near.to_be_bytes());
                Input {
                    bytes: near.to_be_bytes().to_vec(),
                    time: Timestamp(1),
                    annotations,
                    headers: [None; 3],
                }
            })
            .collect();
        let addresses: Vec<u32> =
            inputs.iter().map(|i| u32::from_be_bytes(i.bytes[..].try_into().unwrap())).collect();
        let number = offer(vec![inputs]);
        let mut text = format!("TestSource({number}, 0) -> rt :: DirectIPLookup({});", configured.join(", "));
        (0..3).for_each(|output| text += &format!("rt[{output}] -> TestSink({number}, {output});"));
        let built = worker(&text, Run::default()).unwrap();
        let id = built.plan().graph.find("rt").unwrap();
        let effects = built.effects()[id].clone();
        drop(built);
        let outcome = Run::default().text(&text, &[]).unwrap();
        assert_eq!(outcome.messages, "");
        let seen = collect(number);
        for (i, &address) in addresses.iter().enumerate() {
            let expected = scan(&routes, address);
            let found = seen
                .iter()
                .find(|seen| seen.id == i as u32 + 1)
                .map(|seen| (seen.sink, u32::from_be_bytes(seen.annotations[..4].try_into().unwrap())));
            assert_eq!(found, expected, "{address:#x} {configured:?}");
            assert_eq!(declared(&effects.cases, address), expected, "{address:#x} {configured:?}");
        }
    }
}

/// The prefixes of a full table, if there is one beside the repository (or where `TIDEGATE_DATA` says).
fn full_table() -> Option<Vec<(u32, u8)>> {
    let file = tidegate_testkit::found::path("routes/bart-tier1-prefixes.txt.gz")?;
    let output = Command::new("gzip").arg("-dc").arg(&file).output().ok().filter(|o| o.status.success());
    let Some(output) = output else {
        println!("skipped: gzip cannot read {}", file.display());
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let prefix = |line: &str| {
        let (address, length) = line.split_once('/')?;
        Some((address.parse::<Ipv4Addr>().ok()?.to_bits(), length.parse().unwrap()))
    };
    Some(text.lines().filter_map(prefix).collect())
}

#[test]
fn a_full_table_loads_and_agrees_with_a_linear_scan() {
    let Some(prefixes) = full_table() else { return };
    assert!(prefixes.len() > 900_000);
    let mut random = fastrand::Rng::with_seed(5);
    let routes: Vec<(u32, u8, usize, u32)> = prefixes
        .iter()
        .map(|&(address, length)| (address, length, random.usize(0..3), random.u32(0..20)))
        .collect();
    let lines: Vec<String> = routes
        .iter()
        .map(|(a, l, o, g)| format!("{}/{l} {} {o}", Ipv4Addr::from_bits(*a), Ipv4Addr::from_bits(*g)))
        .collect();
    let start = std::time::Instant::now();
    let mut rt = router("RadixIPLookup", &lines.join(", ")).unwrap();
    println!("{} routes loaded and declared in {:?}", routes.len(), start.elapsed());
    let id = rt.plan().graph.find("rt").unwrap();
    // Each output and gateway, and no route at all.
    assert_eq!(rt.effects()[id].cases.len(), 61);
    for number in 0..400 {
        // Half of them anywhere, half of them where there are routes.
        let address = match number % 2 {
            0 => random.u32(..),
            _ => prefixes[random.usize(..prefixes.len())].0 | random.u32(0..256),
        };
        let expected = scan(&routes, address);
        assert_eq!(declared(&rt.effects()[id].cases, address), expected, "{address:#x}");
        let found = read(&mut rt, "lookup", &Ipv4Addr::from_bits(address).to_string()).unwrap();
        let shown = match expected {
            None => "-1".into(),
            Some((output, gateway)) if gateway == address => output.to_string(),
            Some((output, gateway)) => format!("{output} {}", Ipv4Addr::from_bits(gateway)),
        };
        assert_eq!(found, shown, "{address:#x}");
    }
    // A change is made at once, and taken back.
    let some = &lines[lines.len() / 2];
    let prefix = some.split(' ').next().unwrap();
    assert_eq!(write(&mut rt, "remove", prefix), Ok(()));
    assert_eq!(write(&mut rt, "add", some), Ok(()));
    assert_eq!(table(&mut rt).len(), routes.len());
}
