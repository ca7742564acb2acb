//! Changes random routers with firewalls in one place. For each change with an effect the verifier finds an
//! example packet; each change without effect is proven equivalent.

use std::collections::BTreeSet;

use fastrand::Rng;
use testkit::chains::{compare, read};
use verify::equivalence::{Conclusion, Difference};

/// The number of random routers on which each change is tried.
const ROUTERS: u64 = 6;

/// A rule of the firewall: allow or deny, and the filter expression for its packets.
#[derive(Clone, PartialEq)]
struct Rule {
    action: &'static str,
    packets: String,
}

/// A port of the router: source and destination address of the Ethernet header of packets that leave by it.
#[derive(Clone)]
struct Port {
    source: [u8; 6],
    destination: [u8; 6],
}

/// A router with several ports. The firewall upstream of the route look-up denies packets that no rule
/// allows.
#[derive(Clone)]
struct Router {
    rules: Vec<Rule>,
    /// The route table: second and third byte of a network in 10.0.0.0/8, the prefix length, and the port of
    /// the network's packets. All other packets go to port 0.
    routes: Vec<(u8, u8, u8, usize)>,
    ports: Vec<Port>,
    dscp: u8,
}

impl Router {
    /// Returns a random router in which each rule matters: an allowed part of a network, the denied network,
    /// then three allowed services, no two of which share packets, and at last UDP from high ports.
    fn random(r: &mut Rng) -> Router {
        let allow = |packets: String| Rule { action: "allow", packets };
        let denied = r.u8(20..100);
        let mut rules = vec![
            allow(format!("src net 10.{denied}.{}.0/24 && udp", r.u8(..))),
            Rule { action: "deny", packets: format!("src net 10.{denied}.0.0/16") },
        ];
        let mut services = BTreeSet::new();
        while services.len() < 3 {
            services.insert(r.u16(1..1000));
        }
        for service in services {
            let protocol = if r.bool() { "tcp" } else { "udp" };
            rules.push(allow(format!("dst {protocol} port {service}")));
        }
        rules.push(allow(format!("src udp port > {}", r.u16(2000..3000))));
        let first = r.u8(100..200);
        let routes = r.u8(2..5);
        let ports = r.usize(2..usize::from(routes) + 2);
        let routes = (0..routes)
            .map(|n| (first + n, r.u8(..) & 0xf0, r.u8(16..21), 1 + usize::from(n) % (ports - 1)))
            .collect();
        let mut mac = || {
            let mut address = [0; 6];
            address.fill_with(|| r.u8(..));
            address
        };
        let ports = (0..ports).map(|_| Port { source: mac(), destination: mac() }).collect();
        Router { rules, routes, ports, dscp: r.u8(1..64) }
    }

    fn text(&self) -> String {
        let rules: Vec<String> =
            self.rules.iter().map(|rule| format!("{} {}", rule.action, rule.packets)).collect();
        let routes: Vec<String> = self
            .routes
            .iter()
            .map(|(first, second, length, _)| format!("dst net 10.{first}.{second}.0/{length}"))
            .collect();
        let mut text = format!(
            "in :: FromDump(x.pcap);
             kind :: Classifier(12/0800, -);
             firewall :: IPFilter({}, deny all);
             routes :: IPClassifier({}, -);
             in -> kind -> Strip(14) -> CheckIPHeader -> firewall -> SetIPDSCP({}) -> routes;
             kind [1] -> Discard;\n",
            rules.join(", "),
            routes.join(", "),
            self.dscp,
        );
        for (number, port) in self.ports.iter().enumerate() {
            let (source, destination) = (address(port.source), address(port.destination));
            text += &format!(
                "port{number} :: DecIPTTL -> EtherEncap(0x0800, {source}, {destination}) -> out{number} :: ToDump(out{number}.pcap);\n"
            );
        }
        for (output, (.., port)) in self.routes.iter().enumerate() {
            text += &format!("routes [{output}] -> port{port};\n");
        }
        text + &format!("routes [{}] -> port0;\n", self.routes.len())
    }
}

fn address(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02X}")).join(":")
}

fn verdict(a: &str, b: &str) -> Conclusion {
    compare(&read(a), &read(b)).verdict
}

/// Applies `change` to random routers and compares each with the changed text. They have to be equivalent
/// if `equal` is true, else different.
fn try_out(change: impl Fn(&Router, &mut Rng) -> String, equal: bool) {
    for seed in 0..ROUTERS {
        let r = &mut Rng::with_seed(seed);
        let router = Router::random(r);
        let (before, after) = (router.text(), change(&router, r));
        assert_ne!(before, after, "nothing was changed");
        let verdict = verdict(&before, &after);
        let is_right = match verdict {
            Conclusion::Equivalent => equal,
            // A run of both chains on the example packet has confirmed the difference.
            Conclusion::Different(Difference::Packet { .. }) => !equal,
            _ => false,
        };
        assert!(is_right, "{before}---\n{after}---\n{verdict:?}");
    }
}

fn told_apart(change: impl Fn(&Router, &mut Rng) -> String) {
    try_out(change, false);
}

fn proven_equal(change: impl Fn(&Router, &mut Rng) -> String) {
    try_out(change, true);
}

/// Replaces a part of the text; panics if it does not exist.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no '{from}' in {text}");
    text.replacen(from, to, 1)
}

#[test]
fn another_prefix_length() {
    told_apart(|router, r| {
        let mut router = router.clone();
        let n = r.usize(..router.routes.len());
        router.routes[n].2 += 1;
        router.text()
    });
    told_apart(|router, _| router.text().replace("0.0/16", "0.0/17"));
    told_apart(|router, _| router.text().replace("0/24 &&", "0/25 &&"));
}

#[test]
fn another_port() {
    told_apart(|router, r| {
        let mut router = router.clone();
        let rule = &mut router.rules[r.usize(2..5)];
        let (words, port) = rule.packets.rsplit_once(' ').unwrap();
        rule.packets = format!("{words} {}", port.parse::<u16>().unwrap() + 1000);
        router.text()
    });
    told_apart(|router, _| router.text().replace("port > 2", "port > 3"));
    told_apart(|router, _| router.text().replace("port >", "port >="));
}

#[test]
fn swapped_outputs() {
    told_apart(|router, r| {
        let one = format!("routes [{}] ", r.usize(..router.routes.len()));
        let last = format!("routes [{}] ", router.routes.len());
        let text = replaced(&router.text(), &one, "routes [x] ");
        replaced(&replaced(&text, &last, &one), "routes [x] ", &last)
    });
    told_apart(|router, _| {
        let text = replaced(&router.text(), "kind ->", "kind [1] ->");
        replaced(&text, "kind [1] -> Discard", "kind [0] -> Discard")
    });
}

#[test]
fn a_missing_decrement() {
    told_apart(|router, r| {
        let port = format!("port{} ::", r.usize(..router.ports.len()).min(1));
        replaced(&router.text(), &format!("{port} DecIPTTL"), &format!("{port} Null"))
    });
}

#[test]
fn a_missing_checksum() {
    // StoreData writes the byte, but does not update the checksum.
    told_apart(|router, _| {
        let dscp = router.dscp;
        let stored = format!("StoreData(1, \\<{:02x}>, MASK \\<fc>)", dscp << 2);
        replaced(&router.text(), &format!("SetIPDSCP({dscp})"), &stored)
    });
    // The checksum is computed before the write.
    told_apart(|router, _| {
        let (dscp, text) = (router.dscp, router.text());
        let stored = format!("SetIPChecksum -> StoreData(1, \\<{:02x}>, MASK \\<fc>)", dscp << 2);
        replaced(&text, &format!("SetIPDSCP({dscp})"), &stored)
    });
    // The checksum is computed after the write, which has the same effect as an update.
    proven_equal(|router, _| {
        let (dscp, text) = (router.dscp, router.text());
        let stored = format!("StoreData(1, \\<{:02x}>, MASK \\<fc>) -> SetIPChecksum", dscp << 2);
        replaced(&text, &format!("SetIPDSCP({dscp})"), &stored)
    });
}

#[test]
fn overlapping_rules_exchanged() {
    told_apart(|router, _| {
        let mut router = router.clone();
        router.rules.swap(0, 1);
        router.text()
    });
    told_apart(|router, r| {
        let mut router = router.clone();
        router.rules.swap(1, r.usize(2..6));
        router.text()
    });
}

#[test]
fn a_rule_that_mattered() {
    told_apart(|router, r| {
        let mut router = router.clone();
        router.rules.remove(r.usize(..router.rules.len()));
        router.text()
    });
    told_apart(|router, r| {
        let mut router = router.clone();
        let rule = &mut router.rules[r.usize(..6)];
        rule.action = if rule.action == "allow" { "deny" } else { "allow" };
        router.text()
    });
}

#[test]
fn another_ethernet_address() {
    told_apart(|router, r| {
        let mut router = router.clone();
        let port = &mut router.ports[r.usize(..2)];
        let address = if r.bool() { &mut port.source } else { &mut port.destination };
        address[r.usize(..6)] ^= 1 << r.u8(..8);
        router.text()
    });
    told_apart(|router, _| replaced(&router.text(), "EtherEncap(0x0800", "EtherEncap(0x0801"));
}

#[test]
fn disjoint_rules_exchanged() {
    proven_equal(|router, r| {
        let mut router = router.clone();
        // All rules from index 2 on, after the rule for the denied network, allow packets, so their order
        // does not matter.
        let (a, b) = (r.usize(2..4), r.usize(4..6));
        router.rules.swap(a, b);
        router.text()
    });
    proven_equal(|router, r| {
        let mut router = router.clone();
        let n = r.usize(..router.routes.len() - 1);
        router.routes.swap(n, n + 1);
        router.text()
    });
    // The deny rule and the allow rules are about different networks.
    for seed in 0..ROUTERS {
        let router = Router::random(&mut Rng::with_seed(seed));
        let packets = "src net 11.0.0.0/8 && dst net 10.0.0.0/9".to_string();
        let [first, second] = [0, 2].map(|place| {
            let mut router = router.clone();
            router.rules.insert(place, Rule { action: "deny", packets: packets.clone() });
            router.text()
        });
        let verdict = verdict(&first, &second);
        assert!(matches!(verdict, Conclusion::Equivalent), "{verdict:?}");
    }
}

#[test]
fn a_shadowed_rule() {
    proven_equal(|router, r| {
        let mut router = router.clone();
        // The new rule can decide about no packet: its packets are denied already by the rule with index 1,
        // or allowed already by the rule with index 2.
        let denied = router.rules[1].packets.replace(".0.0/16", &format!(".{}.0/24", r.u8(..)));
        let service = format!("{} && src net 10.0.0.0/8", router.rules[2].packets);
        let place = r.usize(3..router.rules.len());
        let action = if r.bool() { "allow" } else { "deny" };
        let packets = if r.bool() { denied } else { service };
        router.rules.insert(place, Rule { action, packets });
        router.text()
    });
    proven_equal(|router, _| {
        let mut router = router.clone();
        router.rules.push(Rule { action: "deny", packets: "src host 1.2.3.4 && tcp".into() });
        router.text()
    });
}

#[test]
fn other_names() {
    proven_equal(|router, _| {
        router.text().replace("firewall", "guard").replace("port0", "away").replace("kind", "what")
    });
    let counted = |router: &Router, class: &str| {
        replaced(&router.text(), "-> firewall ->", &format!("-> firewall -> {class} ->"))
    };
    proven_equal(|router, _| counted(router, "CounterMP"));
    for seed in 0..ROUTERS {
        let router = Router::random(&mut Rng::with_seed(seed));
        let verdict = verdict(&counted(&router, "Counter"), &counted(&router, "CounterMP"));
        assert!(matches!(verdict, Conclusion::Equivalent), "{verdict:?}");
    }
}

#[test]
fn an_inlined_compound() {
    proven_equal(|router, _| {
        let mut text = String::from(
            "elementclass Way { $source, $destination |
               input -> DecIPTTL -> EtherEncap(0x0800, $source, $destination) -> output }\n",
        );
        for line in router.text().lines() {
            text += &line.replace("DecIPTTL -> EtherEncap(0x0800, ", "Way(");
            text.push('\n');
        }
        text
    });
    proven_equal(|router, _| {
        let text = router.text().replace("Strip(14) -> CheckIPHeader ->", "Begin ->");
        format!("elementclass Begin {{ input -> s :: Strip(14) -> CheckIPHeader -> output; }}\n{text}")
    });
}

#[test]
fn elements_that_do_nothing() {
    for element in
        ["Null", "Counter", "AverageCounter", "Null -> Counter -> Null", "Queue(500) -> Unqueue", "PushNull"]
    {
        proven_equal(|router, r| {
            let text = router.text();
            // The element is inserted at a random connection.
            let arrows: Vec<usize> = text.match_indices(" -> ").map(|(place, _)| place).collect();
            let at = arrows[r.usize(..arrows.len())];
            format!("{} -> {element}{}", &text[..at], &text[at..])
        });
    }
}

#[test]
fn arguments_in_other_words() {
    for (from, to) in [
        ("0x0800", "2048"),
        (".0.0/16", ".0.0 mask 255.255.0.0"),
        ("src net", "ip src net"),
        ("&& udp", "and ip proto udp"),
        ("&& udp", "&& ip proto 17"),
        ("port > ", "port  > "),
        ("deny all", "deny  /* the rest */ all"),
        ("deny all", "drop -"),
        ("DecIPTTL", "DecIPTTL(MULTICAST true)"),
        ("Strip(14)", "Strip(LENGTH 14)"),
        ("Strip(14)", "Strip( 14 )"),
        ("CheckIPHeader", "CheckIPHeader(OFFSET 0)"),
        ("12/0800", "12/0800 12/08"),
        ("allow dst tcp", "allow tcp && dst"),
        ("dst net", "not not dst net"),
    ] {
        for seed in 0..2 {
            let text = Router::random(&mut Rng::with_seed(seed)).text();
            if text.contains(from) {
                let verdict = verdict(&text, &text.replace(from, to));
                assert!(matches!(verdict, Conclusion::Equivalent), "{from} -> {to}: {verdict:?}");
            }
        }
    }
    // These texts look alike, but differ in meaning.
    told_apart(|router, _| replaced(&router.text(), "12/0800", "12/08??"));
    told_apart(|router, _| replaced(&router.text(), "&& udp", "|| udp"));
    // Ethernet addresses in lower case and without leading zeros.
    proven_equal(|router, _| {
        let mut text = router.text();
        for port in &router.ports {
            for address_of in [port.source, port.destination] {
                text =
                    text.replace(&address(address_of), &address_of.map(|byte| format!("{byte:x}")).join(":"));
            }
        }
        text
    });
}
