//! Runs the example configurations between machines (network namespaces). Their captures are replaced by
//! interfaces: other sources and sinks. Skipped with a message if network namespaces cannot be created.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use lab::{
    Namespace, Net, RunningProgram, exchange_datagrams, gets_no_echo_reply, gets_no_reply, hops, ping,
    transfer,
};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");
const MEGABYTE: usize = 1 << 20;

/// Two hosts in separate networks, and the machine between them.
struct Networks {
    left: Namespace,
    between: Namespace,
    right: Namespace,
    _net: Net,
}

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);

impl Networks {
    fn new() -> Option<Networks> {
        let mut net = Net::or_skip()?;
        let [left, between, right] = ["left", "between", "right"].map(|name| net.space(name).unwrap());
        net.cable([(&left, "eth0", "10.1.0.1/24"), (&between, "left", "")]).unwrap();
        net.cable([(&right, "eth0", "10.2.0.1/24"), (&between, "right", "")]).unwrap();
        left.ip("route add default via 10.1.0.254").unwrap();
        right.ip("route add default via 10.2.0.254").unwrap();
        Some(Networks { left, between, right, _net: net })
    }

    /// Runs an example with parts of its text replaced, and returns when its elements run.
    fn run(&self, example: &str, changes: &[(&str, &str)], options: &[&str]) -> RunningProgram {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = std::fs::read_to_string(folder.join("configs").join(example)).unwrap();
        // The script that prints results at the end of the example is left out, because the test does not
        // read its output.
        let end = text.find("DriverManager(").unwrap_or(text.len());
        text.truncate(end);
        for (from, to) in changes {
            assert!(text.contains(from), "{example} has no {from}");
            text = text.replace(from, to);
        }
        text = text.replace("configs/data", &folder.join("configs/data").display().to_string());
        self.between
            .start(TIDEGATE, &[&["run", "-e", &(text + "Script(print \"ready\")")], options].concat())
            .unwrap()
    }
}

#[test]
fn the_router() {
    let Some(networks) = Networks::new() else { return };
    let Networks { left, between, right, .. } = &networks;
    let changes = [
        ("FromDump($LEFT_IN)", "FromDevice(left)"),
        ("FromDump($RIGHT_IN)", "FromDevice(right)"),
        ("ToDump($LEFT_OUT, SNAPLEN 0, ENCAP ETHER)", "Counter -> Queue -> ToDevice(left)"),
        ("ToDump($RIGHT_OUT, SNAPLEN 0, ENCAP ETHER)", "Counter -> Queue -> ToDevice(right)"),
    ];
    for threads in ["1", "2"] {
        let running = networks.run("router.click", &changes, &["--threads", threads]);
        assert_eq!(ping(left, RIGHT, 3), 3, "{threads} workers");
        assert_eq!(ping(right, Ipv4Addr::new(10, 1, 0, 254), 3), 3, "the router's other address");
        for (from, to, address) in [(left, right, RIGHT), (right, left, LEFT)] {
            // The network on the right has an MTU of 1280 bytes. The router tells senders on the left by ICMP
            // errors.
            transfer(from, to, SocketAddr::from((address, 7000)), 4 * MEGABYTE, || ()).unwrap();
            let lengths = [0, 1, 700, 1200, 4000];
            let back = exchange_datagrams(from, to, SocketAddr::from((address, 7001)), &lengths);
            assert_eq!(back, lengths.len(), "{threads} workers");
        }
        assert_eq!(hops(left, RIGHT, 5), [Ipv4Addr::new(10, 1, 0, 254), RIGHT], "{threads} workers");
        assert_eq!(hops(right, LEFT, 5), [Ipv4Addr::new(10, 2, 0, 254), LEFT], "{threads} workers");
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
        // Both machines have to resolve link addresses again in the next run, so that ARP is tested with each
        // number of workers.
        for space in [left, right] {
            space.ip("neigh flush all").unwrap();
        }
        assert!(between.has("left"));
    }
}

#[test]
fn the_firewall() {
    let Some(mut net) = Net::or_skip() else { return };
    let [left, between, right] = ["left", "between", "right"].map(|name| net.space(name).unwrap());
    net.cable([(&left, "eth0", "10.1.0.1/24"), (&between, "left", "")]).unwrap();
    net.cable([(&right, "eth0", "10.1.0.2/24"), (&between, "right", "")]).unwrap();
    let networks = Networks { left, between, right, _net: net };
    let Networks { left, right, .. } = &networks;
    // The configuration has one copy of the firewall per direction. Packets that are not IPv4, such as ARP,
    // pass it.
    let right_address = Ipv4Addr::new(10, 1, 0, 2);
    for threads in ["1", "2"] {
        let both = [("left", "right"), ("right", "left")].map(|(from, to)| {
            let source = format!("FromDevice({from}, PROMISC true)");
            let sink = format!("out :: Queue -> ToDevice({to})");
            let changes = [
                ("FromDump($IN)", source.as_str()),
                ("ToDump($OUT, SNAPLEN 0)", sink.as_str()),
                ("others :: Counter -> Discard", "others :: Counter -> out"),
            ];
            networks.run("firewall.click", &changes, &["--threads", threads])
        });
        assert_eq!(ping(left, right_address, 3), 3, "{threads} workers");
        assert!(gets_no_echo_reply(right, LEFT), "nobody may ask the left one");
        let allowed = SocketAddr::from((right_address, 40001));
        transfer(left, right, allowed, 4 * MEGABYTE, || ()).unwrap();
        let back = exchange_datagrams(left, right, SocketAddr::from((right_address, 40000)), &[1, 1000]);
        assert_eq!(back, 2, "{threads} workers");
        let denied = SocketAddr::from((right_address, 40002));
        assert!(gets_no_reply(left, right, denied, 1), "no rule allows that");
        for running in both {
            let (good, [_, messages]) = running.stop();
            assert!(good, "{messages}");
        }
    }
}

#[test]
fn the_translator() {
    let Some(networks) = Networks::new() else { return };
    let Networks { left, right, .. } = &networks;
    // No outside host has a route to the inner network.
    right.ip("route del default").unwrap();
    let end = |side: &str, own: &str, mac: &str| {
        format!(
            "FromDevice({side}) -> {side} :: Classifier(12/0806 20/0001, 12/0806 20/0002, -);
             {side}[0] -> ARPResponder({own} {mac}) -> {side}_out :: Queue -> ToDevice({side});
             {side}[1] -> [1] {side}_arp :: ARPQuerier({own}/24, {mac}) -> {side}_out; {side}[2] -> both;"
        )
    };
    let source = "both :: Null;".to_string()
        + &end("left", "10.1.0.254", "02:00:00:00:01:fe")
        + &end("right", "10.2.0.254", "02:00:00:00:02:fe")
        + "both";
    let changes = [
        ("FromDump($IN)", source.as_str()),
        ("outside :: Counter -> out :: ToDump($OUT, SNAPLEN 0, ENCAP IP)", "outside :: Counter -> right_arp"),
        ("inside :: Counter -> out", "inside :: Counter -> left_arp"),
    ];
    for threads in ["1", "2"] {
        let options = ["INNER=10.1.0.0/24", "OUTER=10.2.0.254", "--threads", threads];
        let running = networks.run("nat.click", &changes, &options);
        assert_eq!(ping(left, RIGHT, 3), 3, "{threads} workers");
        transfer(left, right, SocketAddr::from((RIGHT, 7000)), 4 * MEGABYTE, || ()).unwrap();
        let lengths = [0, 1, 700, 1472, 4000];
        let back = exchange_datagrams(left, right, SocketAddr::from((RIGHT, 7001)), &lengths);
        assert_eq!(back, lengths.len(), "{threads} workers");
        // In a traceroute, the gateway answers with its outer address.
        assert_eq!(hops(left, RIGHT, 5), [Ipv4Addr::new(10, 2, 0, 254), RIGHT], "{threads} workers");
        assert!(gets_no_echo_reply(right, LEFT), "nobody outside can ask");
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
        for space in [left, right] {
            space.ip("neigh flush all").unwrap();
        }
    }
}

/// The chain of an Internet provider between its customers, other hosts of its domain and the Internet.
#[test]
fn the_providers_chain() {
    let Some(mut net) = Net::or_skip() else { return };
    let between = net.space("between").unwrap();
    // The addresses of each end and of its next hop, which answers no ARP.
    let ends = [
        ("customers", "204.152.185.9/21", "204.152.191.254", "01:fe", "01:01"),
        ("domain", "204.152.3.4/24", "204.152.3.254", "02:fe", "02:02"),
        ("internet", "192.0.2.7/24", "192.0.2.254", "03:fe", "03:02"),
    ];
    let [customers, domain, internet] = ends.map(|(name, address, next, own, others)| {
        let space = net.space(name).unwrap();
        net.cable([(&space, "eth0", address), (&between, name, "")]).unwrap();
        space.ip(&format!("link set eth0 address 02:00:00:00:{own}")).unwrap();
        space.ip(&format!("neigh replace {next} lladdr 02:00:00:00:{others} dev eth0")).unwrap();
        space.ip(&format!("route replace default via {next}")).unwrap();
        space
    });
    let folder = tempfile::tempdir().unwrap();
    for name in ["isp.prop", "firewall.click", "router.click", "translator.click"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/isp").join(name);
        let mut text = std::fs::read_to_string(from).unwrap();
        if name == "router.click" {
            text += "Script(set now ready, print $now)";
        }
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let chain = folder.path().join("isp.prop").display().to_string();
    let running = between.start(TIDEGATE, &["run", &chain]).unwrap();
    let [at_customers, at_domain, at_internet] = [[204, 152, 185, 9], [204, 152, 3, 4], [192, 0, 2, 7]];
    let lengths = [0, 1, 700, 1200];
    // Hosts of the domain can connect to each other and to the Internet. Hosts on the Internet cannot open a
    // connection into the domain.
    for (from, to, address) in [
        (&customers, &domain, at_domain),
        (&domain, &customers, at_customers),
        (&customers, &internet, at_internet),
        (&domain, &internet, at_internet),
    ] {
        transfer(from, to, SocketAddr::from((address, 7000)), MEGABYTE, || ()).unwrap();
        let back = exchange_datagrams(from, to, SocketAddr::from((address, 7001)), &lengths);
        assert_eq!(back, lengths.len(), "{address:?}");
    }
    assert!(gets_no_reply(&domain, &customers, SocketAddr::from((at_customers, 137)), 100));
    assert!(gets_no_reply(&internet, &customers, SocketAddr::from((at_customers, 7001)), 100));
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
}
