//! nftables with the rules that `tidegate rules convert` writes: the kernel decides about each packet as the
//! rule set does, with the same rule. What `nft -j` prints of the loaded rules is read as the same rule set.
//! Skipped with a message if network namespaces, nftables or a rule set are missing.

mod detour;
mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use detour::is_installed;
use lab::{Namespace, PATIENCE};
use line::{Control, Line, TIDEGATE, run, send};
use rules::diff::diff;
use rules::fields::{FieldValues, PacketField};
use rules::model::{RuleAction, RuleSet};
use rules::read::{RuleFormat, nftables, read};
use rules::space::PacketSpace;
use rules::write::nftables::{NftTable, write};
use serde_json::Value;
use wire::checksum::Sum;

/// The number of packets that are sent for each rule set.
const PACKETS: usize = 10_000;
/// The number of packets per second, which all interfaces can receive.
const RATE: usize = 10_000;
/// The total length of all IP packets.
const LENGTH: usize = 60;

/// Connects the ends of a line by a bridge of the kernel. Returns `None`, with a message, if this machine
/// does not have all that is needed.
fn bridge() -> Option<Line> {
    let line = Line::new()?;
    if !is_installed("nft") {
        return None;
    }
    let steps = [
        "link add name bridge type bridge mcast_snooping 0",
        "link set left master bridge",
        "link set right master bridge",
        "link set bridge up",
    ];
    let bridged = steps.iter().try_for_each(|step| line.between.ip(step).map(drop));
    if let Err(error) = bridged {
        println!("skipped: no bridge here: {error}");
        return None;
    }
    match load(&line.between, "table bridge probe {\nchain c {\ntype filter hook forward priority 0;\n}\n}\n")
    {
        Ok(()) => Some(line),
        Err(error) => {
            println!("skipped: no nftables for bridges here: {error}");
            None
        }
    }
}

/// Replaces all rules of a namespace. The error is what `nft` says.
fn load(space: &Namespace, rules: &str) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("flush ruleset\n{rules}")).unwrap();
    let output = space.command("nft").arg("-f").arg(file.path()).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Returns all rules of a namespace as JSON.
fn listed(space: &Namespace) -> String {
    let output = space.command("nft").args(["-j", "list", "ruleset"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns random packets: for each of them, values that a random rule matches, some of which are changed.
fn packets(set: &RuleSet, random: &mut fastrand::Rng) -> Vec<FieldValues> {
    let rules: Vec<_> = set.rules.iter().filter(|rule| !rule.products.is_empty()).collect();
    let mut packets = Vec::new();
    while packets.len() < PACKETS {
        let rule = rules[random.usize(..rules.len())];
        let product = &rule.products[random.usize(..rule.products.len())];
        let mut packet = product.random_packet(random);
        if product.set(PacketField::Fragment).is_none() && random.u8(..10) > 0 {
            packet[PacketField::Fragment as usize] = 0;
        }
        if product.set(PacketField::Protocol).is_none() {
            packet[PacketField::Protocol as usize] = [1, 6, 17, 47][random.usize(..4)];
        }
        // Values next to those of a rule often belong to another rule.
        for field in [
            PacketField::Source,
            PacketField::Destination,
            PacketField::DestinationPort,
            PacketField::Protocol,
        ] {
            if random.u8(..8) == 0 {
                let value = &mut packet[field as usize];
                *value = if random.bool() { (*value + 1).min(field.top()) } else { value.saturating_sub(1) };
            }
        }
        packet[PacketField::TotalLength as usize] = LENGTH as u128;
        packets.push(packet);
    }
    packets
}

/// Returns a packet as a frame with `number` in the identification of the IP header.
fn frame(packet: &FieldValues, number: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + LENGTH];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14] = 0x45;
    // The length of a TCP header in words of 32 bits.
    frame[46] = 0x50;
    for field in PacketField::ALL {
        let Some((header, offset)) = field.place() else { continue };
        let start = if header == classify::filter::HeaderLayer::Network { 14 } else { 34 } + offset as usize;
        let length = field.bits() as usize / 8;
        let bytes = packet[field as usize].to_be_bytes();
        frame[start..start + length].copy_from_slice(&bytes[16 - length..]);
    }
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    let sum = Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Sends frames through the bridge. Returns the identifications of those that arrive; waits until `least`
/// have arrived.
fn pass(line: &Line, frames: &[Vec<u8>], least: usize) -> BTreeSet<u16> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [sent, got, control] = ["sent.pcap", "got.pcap", "control"].map(path);
    detour::write(&sent, frames);
    let record = format!(
        "ControlSocket(UNIX, {control}); FromDevice(eth0, PROMISC true) -> got :: Counter -> ToDump({got}, SNAPLEN 0)"
    );
    let getter = run(&line.right, &record, &[]);
    let source = format!("FromDump({sent}) -> Queue(100000) -> RatedUnqueue({RATE})");
    send(&line.left, "eth0", &source, frames.len() as u64);
    let mut count = Control::open(Path::new(&control));
    let until = Instant::now() + PATIENCE;
    while count.number("got.count") < least as u64 && Instant::now() < until {
        sleep(Duration::from_millis(5));
    }
    // More may arrive than should.
    sleep(Duration::from_millis(200));
    let (good, [_, messages]) = getter.stop();
    assert!(good, "{messages}");
    let frames = detour::read(&got).into_iter();
    // The machines also send frames of their own, such as IGMP.
    let of_ip =
        frames.filter(|frame| frame.get(6..14) == Some(&[2, 0, 0, 0, 0, 1, 8, 0]) && frame.len() >= 20);
    of_ip.map(|frame| u16::from_be_bytes([frame[18], frame[19]])).collect()
}

/// Returns the number of packets that the kernel has counted for each comment of a rule.
fn counted(json: &str) -> BTreeMap<String, u64> {
    let json: Value = serde_json::from_str(json).unwrap();
    let mut counts = BTreeMap::new();
    for rule in json["nftables"].as_array().unwrap().iter().filter_map(|object| object.get("rule")) {
        let counter =
            rule["expr"].as_array().unwrap().iter().find_map(|expression| expression.get("counter"));
        let count = counter.and_then(|counter| counter["packets"].as_u64()).unwrap_or(0);
        *counts.entry(rule["comment"].as_str().unwrap_or_default().to_string()).or_default() += count;
    }
    counts
}

/// Loads a rule set, and compares what the kernel does with packets with what the rule set says.
fn check(line: &Line, set: &RuleSet, name: &str) {
    let table = NftTable { family: "bridge".into(), ..NftTable::default() };
    let text = write(set, &table).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    load(&line.between, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
    compare(line, set, name);
    let again =
        nftables::read(name, &listed(&line.between), None).unwrap_or_else(|errors| panic!("{errors:?}"));
    let space = PacketSpace::new(1 << 22, None);
    let differences = diff([set, &again], &space, 3).unwrap();
    assert!(differences.is_empty(), "{name}: {differences:?}");
}

/// Compares what the loaded rules do with packets with what a rule set says.
fn compare(line: &Line, set: &RuleSet, name: &str) {
    let mut random = fastrand::Rng::with_seed(3);
    let packets = packets(set, &mut random);
    let deciders: Vec<Option<usize>> = packets.iter().map(|packet| set.decider(packet)).collect();
    let passes: BTreeSet<u16> = deciders
        .iter()
        .zip(0..)
        .filter(|(decider, _)| *set.action(**decider) == RuleAction::Accept)
        .map(|(_, number)| number)
        .collect();
    let frames: Vec<Vec<u8>> =
        packets.iter().zip(0..).map(|(packet, number)| frame(packet, number)).collect();
    let arrived = pass(line, &frames, passes.len());
    let wrong: Vec<u16> = arrived.symmetric_difference(&passes).copied().collect();
    let shown = wrong.first().map(|&number| {
        let decider = deciders[usize::from(number)].map(|rule| set.rules[rule].place.to_string());
        (number, packets[usize::from(number)], decider)
    });
    assert!(wrong.is_empty(), "{name}: {} of {PACKETS} differ: {shown:?}", wrong.len());
    // Where rules have counters and comments, the same rules have decided.
    let counts = counted(&listed(&line.between));
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for decider in deciders.iter().flatten() {
        *expected.entry(set.rules[*decider].place.to_string()).or_default() += 1;
    }
    if counts.keys().any(|comment| expected.contains_key(comment)) {
        let counts: BTreeMap<String, u64> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let differ =
            counts.iter().chain(&expected).filter(|(place, _)| counts.get(*place) != expected.get(*place));
        let differ: BTreeSet<_> =
            differ.map(|(place, _)| (place, counts.get(place), expected.get(place))).collect();
        assert!(differ.is_empty(), "{name}: place, counted, expected: {differ:?}");
    }
    println!(
        "{name}: {} rules, {} of {PACKETS} packets pass, decided by {} rules",
        set.rules.len(),
        passes.len(),
        expected.len()
    );
}

/// Reads a rule set that was found. Rules without actions accept and drop in turn.
fn found(name: &str) -> Option<RuleSet> {
    let path = testkit::found::path(name)?;
    let text = if name.ends_with(".click") {
        let output =
            Command::new(TIDEGATE).args(["rules", "convert", "--to", "ipfilter"]).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    } else {
        fs::read_to_string(path).unwrap()
    };
    let format = if text.starts_with('@') { RuleFormat::ClassBench } else { RuleFormat::Lines };
    let mut set = read(format, "rules", &text, None).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    for (number, rule) in set.rules.iter_mut().enumerate() {
        match rule.action {
            RuleAction::Other(_) if number % 2 == 0 => rule.action = RuleAction::Accept,
            RuleAction::Other(_) => rule.action = RuleAction::Drop,
            // The end of the Reframer's list forwards the rest to another output.
            RuleAction::Output(_) => rule.action = RuleAction::Drop,
            _ => {}
        }
    }
    set.default = RuleAction::Drop;
    Some(set)
}

fn check_found(names: &[&str]) {
    let Some(line) = bridge() else { return };
    for name in names {
        if let Some(set) = found(name) {
            check(&line, &set, name);
        }
    }
}

#[test]
fn rule_sets_of_classbench_decide_in_the_kernel_as_here() {
    check_found(&[
        "rules/classbench/acl1_1k",
        "rules/classbench/acl3_1k",
        "rules/classbench/acl5_1k",
        "rules/classbench/fw1_1k",
        "rules/classbench/fw5_1k",
        "rules/classbench/ipc1_1k",
        "rules/wustl/acl1",
        "rules/wustl/acl1_1K",
    ]);
}

#[test]
fn long_rule_sets_of_classbench_decide_in_the_kernel_as_here() {
    check_found(&["rules/classbench/acl1_10k", "rules/classbench/fw1_10k", "rules/classbench/ipc1_10k"]);
}

#[test]
fn firewalls_of_papers_decide_in_the_kernel_as_here() {
    check_found(&[
        "rules/reframer/fw-rules",
        "rules/snf/real-acl/real_acl_251.nf1.click",
        "rules/snf/real-acl/real_acl_713.nf1.click",
        "rules/snf/real-acl/real_acl_8550.nf1.click",
    ]);
}

/// Rules with most kinds of conditions, written for nftables: what is read from `nft -j` decides as the
/// kernel.
#[test]
fn rules_of_nftables_are_understood_as_the_kernel_does() {
    let Some(line) = bridge() else { return };
    let sets = [
        "chain forward { type filter hook forward priority 0; policy drop;
            ip saddr 192.0.2.0/24 tcp dport { 22, 80, 443, 8000-8100 } counter accept
            ip saddr != 10.0.0.0/8 udp sport 1024-65535 udp dport 53 accept
            tcp flags & (fin|syn|rst|ack) == syn ip daddr 198.51.100.7 accept
            tcp flags syn ip daddr 198.51.100.8 drop
            icmp type { echo-request, echo-reply } accept
            ip protocol { 47, 50 } ip ttl > 5 accept
            ip frag-off & 0x1fff != 0 drop
            meta l4proto { tcp, udp } th dport 7 drop
            ip dscp ef accept
        }",
        "set admins { type ipv4_addr; flags interval; elements = { 10.1.0.0/16, 10.2.3.4, 10.5.0.0-10.5.0.99 } }
         set pairs { type ipv4_addr . inet_service; elements = { 192.0.2.1 . 80, 192.0.2.2 . 443 } }
         map services { type inet_service : verdict; elements = { 22 : jump ssh, 25 : drop, 80 : accept, 110 : goto mail } }
         chain ssh { ip saddr @admins accept
            ip saddr 10.0.0.0/8 return
            counter drop
         }
         chain mail {
            ip saddr 192.0.2.0/24 accept
         }
         chain forward { type filter hook forward priority 0; policy accept;
            ip daddr . tcp dport @pairs accept
            tcp dport vmap @services
            udp dport vmap { 53 : accept, 123 : jump ssh, 500-600 : drop }
            ip daddr vmap { 10.0.0.0/9 : accept, 10.128.0.0/9 : drop }
            ip saddr != @admins tcp dport != 22 drop
            ip ttl < 10 drop
        }",
    ];
    for (number, text) in sets.into_iter().enumerate() {
        let name = format!("rules of nftables {number}");
        load(&line.between, &format!("table bridge t {{\n{text}\n}}\n"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let json = listed(&line.between);
        let set = nftables::read(&name, &json, None).unwrap_or_else(|errors| panic!("{errors:?}\n{json}"));
        compare(&line, &set, &name);
        check(&line, &set, &format!("{name}, written again"));
    }
}

/// Rules as iptables-save prints them, with most kinds of conditions that concern packets.
#[test]
fn rules_of_iptables_decide_in_the_kernel_as_here() {
    let Some(line) = bridge() else { return };
    let text = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:services - [0:0]
:spoofed - [0:0]
-A FORWARD -s 127.0.0.0/8 -j spoofed
-A FORWARD -s 224.0.0.0/4 -j spoofed
-A FORWARD -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -d 192.0.2.0/25 -j ACCEPT
-A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A FORWARD -p icmp -m icmp --icmp-type 3/4 -j ACCEPT
-A FORWARD -f -j DROP
-A FORWARD -d 192.0.2.0/24 -g services
-A FORWARD -p udp -m udp --sport 53 -m iprange --dst-range 10.0.0.10-10.0.0.90 -j ACCEPT
-A FORWARD -p tcp -m multiport --ports 6000:6010,7000 -j ACCEPT
-A FORWARD -m ttl --ttl-gt 200 -j ACCEPT
-A services ! -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j RETURN
-A services -p tcp -m multiport --dports 22,80,443 -j ACCEPT
-A services -p udp -m udp --dport 5000:5999 -j ACCEPT
-A spoofed -m ttl --ttl-eq 255 -j ACCEPT
-A spoofed -j DROP
COMMIT
";
    let set = read(RuleFormat::Iptables, "rules", text, None).unwrap_or_else(|errors| panic!("{errors:?}"));
    check(&line, &set, "rules of iptables");
}
