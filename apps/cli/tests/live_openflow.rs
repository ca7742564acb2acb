//! Open vSwitch with flow entries made of the access lists of three Internet service providers: the switch
//! gives each packet the class that the synthesized program has for it, and a chain sends the same packets
//! with the switch as without it. Skipped with a message if network namespaces, Open vSwitch or the lists are
//! missing.

mod detour;
#[path = "../../../mechanisms/synthesizer/tests/frames/mod.rs"]
mod frames;
mod line;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use detour::carry;
use frames::{Machine, at_borders, damage, finish, of_rule};
use lab::{Namespace, Net, RunningProgram, openvswitch};
use line::TIDEGATE;
use program::{Exit, Program, text};
use serde::Deserialize;
use synthesizer::openflow::REST;

/// The most frames that are sent, each for one rule of the list.
const MOST_SENT: usize = 300;
/// The number of copies of each undamaged frame that are sent (`COPIES`). The copies of `IN_TURN` frames are
/// interleaved: each frame once, then each frame again.
const COPIES: u16 = 3;
const IN_TURN: usize = 5;

/// The switch's interfaces that lead to the software (`OUT`), and the software's interfaces at the other ends
/// of the cables (`BEHIND`). The software's interface `nf1` leads to the server.
const OUT: [&str; 4] = ["out", "out2", "out3", "out4"];
const BEHIND: [&str; 4] = ["nf0", "nf2", "nf3", "nf4"];
/// The value of `--switch-ports`: port 1 leads to the client. Ports 2 to 5 are the interfaces `OUT`, one for
/// each class of packets, which lead to the software's interfaces `BEHIND`.
const PORTS: &str = "1:2+3=nf2+4=nf3+5=nf4";

/// Four machines in a row: `client` - `switch` - `software` - `server`. The client sends, the server
/// receives.
struct Place {
    client: Namespace,
    switch: Namespace,
    software: Namespace,
    server: Namespace,
    // This field is last so that it is dropped last, when all programs in the namespaces have ended.
    _net: Net,
}

impl Place {
    /// Creates the machines with the switch between them and `cables` cables from the switch to the software;
    /// with 0, there is no switch: one cable connects client and software.
    fn new(cables: usize) -> Option<Place> {
        let mut net = Net::or_skip()?;
        let [client, switch, software, server] =
            ["client", "switch", "software", "server"].map(|name| net.space(name).unwrap());
        match cables {
            0 => net.cable([(&client, "eth0", ""), (&software, "nf0", "")]).unwrap(),
            cables => {
                net.cable([(&client, "eth0", ""), (&switch, "in", "")]).unwrap();
                for (out, interface) in OUT.into_iter().zip(BEHIND).take(cables) {
                    net.cable([(&switch, out, ""), (&software, interface, "")]).unwrap();
                }
            }
        }
        net.cable([(&software, "nf1", ""), (&server, "eth0", "")]).unwrap();
        Some(Place { client, switch, software, server, _net: net })
    }
}

/// A chain of elements with an access list, which the software can run alone, and its divided form, in which
/// the switch classifies packets and the software does the rest.
struct Chain {
    folder: tempfile::TempDir,
    /// The number of cables between switch and software.
    cables: usize,
    /// The program of the whole chain (`whole`), and the program of the software downstream of the switch
    /// (`behind`).
    whole: Program,
    behind: Program,
}

impl Chain {
    /// Returns the chain with an access list of `rules` rules, between the interfaces `nf0` and `nf1`. The
    /// switch is connected to the software by `cables` cables. Returns `None` if the list is missing.
    fn new(rules: usize, cables: usize) -> Option<Chain> {
        let path = testkit::found::path(&format!("rules/snf/real-acl/real_acl_{rules}.nf1.click"))?;
        let text = fs::read_to_string(path).unwrap();
        // The interfaces have other names here, and the configuration runs until it is stopped.
        let text = text.replace("netmap:nf1veth", "nf").replace("NETMAP", "LINUX");
        let (before, rest) = text.split_once("DriverManager(").unwrap();
        let (_, behind) = rest.split_once(");").unwrap();
        Some(Chain::of(&format!("{before}{behind}"), cables))
    }

    fn of(text: &str, cables: usize) -> Chain {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{text}\nScript(print \"ready\");\n");
        fs::write(folder.path().join("chain.click"), text).unwrap();
        let whole = program(&synthesize(folder.path(), "chain.click", &["--emit", "click"]));
        let ports = ["--switch-ports", if cables == 1 { "1:2" } else { PORTS }];
        let options = [&["--emit", "click", "--behind-switch"], &ports[..]].concat();
        let text = synthesize(folder.path(), "chain.click", &options);
        let behind = program(&text);
        fs::write(folder.path().join("behind.click"), text).unwrap();
        let flows = synthesize(folder.path(), "chain.click", &[&["--emit", "openflow"], &ports[..]].concat());
        fs::write(folder.path().join("flows"), flows).unwrap();
        Chain { folder, cables, whole, behind }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts one of the two configurations, `chain.click` (whole) or `behind.click` (downstream of the
    /// switch).
    fn start(&self, place: &Place, name: &str) -> RunningProgram {
        place.software.start(TIDEGATE, &["run", &self.file(name).display().to_string()]).unwrap()
    }

    /// Returns at most `most` frames, each of which matches a rule of the access list, with the outcome of
    /// this rule. The rules are spread evenly over the list.
    fn frames(&self, most: usize, random: &mut fastrand::Rng) -> Vec<(Vec<u8>, u32)> {
        let Some(list) = self.whole.lists.first() else { return Vec::new() };
        let step = list.rules.len().div_ceil(most);
        let rules = (0..list.rules.len()).step_by(step);
        rules.filter_map(|rule| Some((of_rule(list, rule, random)?, list.rules[rule].outcome))).collect()
    }
}

fn synthesize(folder: &Path, name: &str, options: &[&str]) -> String {
    let output = Command::new(TIDEGATE)
        .args(["synthesize", "--all", "--seconds", "0", "--unproven"])
        .args(options)
        .arg(folder.join(name))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Reads the synthesized program (element `Synthesized`) in the text of a configuration.
fn program(config: &str) -> Program {
    let mut sources = lang::Sources::new();
    let id = sources.add("synthesized", config);
    let (graph, _) = lang::parse(&mut sources, id, &lang::Options::default());
    let element = graph.elements.iter().find(|element| element.class == "Synthesized").unwrap();
    let lines: Vec<String> = lang::args::split(&element.config).into_iter().map(|arg| arg.text).collect();
    let outputs =
        graph.connections.iter().filter(|way| graph.elements[way.from.0].name == element.name).count();
    text::read(&lines, outputs).unwrap()
}

/// Open vSwitch with the OpenFlow entries for a chain's classes of packets.
struct Switch {
    _running: [RunningProgram; 2],
    folder: tempfile::TempDir,
}

impl Switch {
    fn new(place: &Place, flows: &Path, cables: usize) -> Switch {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<&str> = ["in"].into_iter().chain(OUT.into_iter().take(cables)).collect();
        let running = openvswitch::bridge(&place.switch, &ports, folder.path(), "netdev").unwrap();
        openvswitch::load(&place.switch, folder.path(), flows).unwrap();
        Switch { _running: running, folder }
    }

    /// Returns the class that the switch gives to each frame, by the command `ofproto/trace`
    /// (ovs-vswitchd(8)), with all requests over one connection (ovs-appctl(8)).
    fn trace(&self, frames: &[(Vec<u8>, u32)]) -> Vec<u16> {
        let mut socket = UnixStream::connect(self.folder.path().join("switch.ctl")).unwrap();
        socket.set_read_timeout(Some(lab::PATIENCE)).unwrap();
        let mut answers = serde_json::Deserializer::from_reader(socket.try_clone().unwrap());
        let class = |(number, (frame, _)): (usize, &(Vec<u8>, u32))| {
            let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            let params = ["bridge", "in_port=1", &digits];
            let request = serde_json::json!({"id": number, "method": "ofproto/trace", "params": params});
            socket.write_all(request.to_string().as_bytes()).unwrap();
            let answer = serde_json::Value::deserialize(&mut answers).unwrap();
            let text = answer["result"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string();
            let actions = text.lines().find_map(|line| line.strip_prefix("Datapath actions: ")).unwrap();
            let number = actions.strip_prefix("push_vlan(vid=").and_then(|rest| rest.split_once(','));
            number.unwrap_or_else(|| panic!("{text}")).0.parse().unwrap()
        };
        frames.iter().enumerate().map(class).collect()
    }
}

/// True if Open vSwitch is installed; otherwise a message is printed.
fn has_switch() -> bool {
    let is_there = openvswitch::is_installed();
    if !is_there {
        println!("skipped: no Open vSwitch here");
    }
    is_there
}

/// Loads the OpenFlow entries of a chain with `rules` rules into Open vSwitch. Traces a frame for each of the
/// `deciding` rules that decide about packets, and a damaged frame for every fourth of them, and checks the
/// classes that the switch gives the frames.
fn trace(rules: usize, deciding: usize) {
    let Some(chain) = Chain::new(rules, 1).filter(|_| has_switch()) else { return };
    let Some(place) = Place::new(1) else { return };
    let switch = Switch::new(&place, &chain.file("flows"), 1);
    let mut random = fastrand::Rng::with_seed(rules as u64);
    let frames = chain.frames(rules, &mut random);
    assert_eq!(frames.len(), deciding);
    let (mut whole, mut behind) = (Machine::new(chain.whole), Machine::new(chain.behind));
    let mut classes: BTreeMap<u32, u16> = BTreeMap::new();
    for ((frame, outcome), class) in frames.iter().zip(switch.trace(&frames)) {
        let is_new = class != REST && *classes.entry(*outcome).or_insert(class) == class;
        // The switch does not classify a frame whose ports are both zero. It gives the frame the class
        // `REST`, which the software classifies.
        assert!(is_new || class == REST && frame[34..38] == [0; 4], "{class} for {frame:02x?}: {classes:?}");
        assert_eq!(whole.run(frame, None), behind.run(frame, Some(class)), "{class} for {frame:02x?}");
    }
    let [refused, allowed] = classes.values().collect::<Vec<_>>()[..] else { panic!("{classes:?}") };
    assert_ne!(refused, allowed);
    // The switch sends damaged frames to the software, which alone can classify them.
    let mut damaged: Vec<_> = frames.into_iter().step_by(4).collect();
    damaged.iter_mut().for_each(|(frame, _)| damage(frame, &mut random));
    damaged.retain(|(frame, _)| frame.len() >= 14);
    for ((frame, _), class) in damaged.iter().zip(switch.trace(&damaged)) {
        assert_eq!(whole.run(frame, None), behind.run(frame, Some(class)), "{class} for {frame:02x?}");
    }
}

#[test]
fn the_switch_has_the_class_of_each_of_251_rules() {
    // 43 of the rules never decide, as `check` says.
    trace(251, 208);
}

#[test]
fn the_switch_has_the_class_of_each_of_713_rules() {
    trace(713, 713);
}

#[test]
fn the_switch_has_the_class_of_each_of_8550_rules() {
    trace(8550, 8550);
}

/// The value of the IPv4 identification in marks. A mark is a frame whose arrival shows that all frames sent
/// before it have arrived or were dropped.
const MARK: [u8; 2] = [0xbe, 0xef];

/// Writes a number into the IPv4 identification of a frame, and updates the frame's header checksum.
fn number(frame: &mut [u8], number: u16) {
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    finish(frame);
}

/// Returns copies of the frames, with the number `copy` in their IPv4 identification.
fn copies(frames: &[Vec<u8>], copy: u16) -> Vec<Vec<u8>> {
    let mut frames = frames.to_vec();
    frames.iter_mut().for_each(|frame| number(frame, copy));
    frames
}

/// True if all copies of each frame that has arrived are there, in order.
fn are_in_order(frames: &[Vec<u8>]) -> bool {
    let mut seen: BTreeMap<Vec<u8>, u16> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.len() > 26) {
        let copy = u16::from_be_bytes([frame[18], frame[19]]);
        if copy < COPIES {
            // The copies of a frame differ in the identification, which is the number of the copy, and so in
            // the header checksum. All other bytes identify the frame.
            let rest = [&frame[..18], &frame[20..24], &frame[26..]].concat();
            let next = seen.entry(rest).or_default();
            if copy != *next {
                return false;
            }
            *next += 1;
        }
    }
    seen.values().all(|&copies| copies == COPIES)
}

/// Checks that a chain sends the same frames with the switch as without it, byte for byte.
fn same(chain: Option<Chain>, seed: u64) {
    let Some(chain) = chain.filter(|_| has_switch()) else { return };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut machine = Machine::new(chain.whole.clone());
    let mut frames: Vec<Vec<u8>> =
        chain.frames(MOST_SENT, &mut random).into_iter().map(|(frame, _)| frame).collect();
    frames.extend((0..MOST_SENT / 2).map(|_| at_borders(&chain.whole, &mut random)));
    frames.iter_mut().for_each(|frame| number(frame, u16::MAX));
    let mut damaged = frames.clone();
    damaged.iter_mut().for_each(|frame| damage(frame, &mut random));
    // A frame that is shorter than an Ethernet header cannot be sent.
    damaged.retain(|frame| frame.len() >= 14);
    damaged.iter_mut().filter(|frame| frame.get(18..20) == Some(&MARK)).for_each(|frame| frame[18] = 0);
    random.shuffle(&mut frames);
    let in_turn = |some: &[Vec<u8>]| (0..COPIES).flat_map(|copy| copies(some, copy)).collect::<Vec<_>>();
    let mut runs: Vec<Vec<Vec<u8>>> = frames.chunks(IN_TURN).map(in_turn).collect();
    runs.extend(damaged.into_iter().map(|frame| vec![frame]));
    random.shuffle(&mut runs);
    let frames = runs.concat();
    // The mark is a frame that the chain forwards, so that its arrival can be awaited after each group of
    // frames.
    let marked = frames.iter().filter(|frame| frame.len() > 54).map(|frame| {
        let mut mark = frame.clone();
        mark[18..20].copy_from_slice(&MARK);
        mark[22] = 64;
        finish(&mut mark);
        mark
    });
    let mark = marked.into_iter().find(|mark| machine.run(mark, None).exit == Exit::Output(0)).unwrap();
    let groups = frames.chunks(20).flat_map(|some| some.iter().chain([&mark]));
    // Two more marks end the list. When the last mark has arrived, no frame is in transit any more.
    let frames: Vec<Vec<u8>> = groups.chain([&mark, &mark]).cloned().collect();
    let arrived = [false, true].map(|has_switch| {
        let place = Place::new(if has_switch { chain.cables } else { 0 })?;
        let _switch = has_switch.then(|| Switch::new(&place, &chain.file("flows"), chain.cables));
        let software = chain.start(&place, if has_switch { "behind.click" } else { "chain.click" });
        let ends = [&place.client, &place.server];
        let arrived = carry(ends, &frames, |frame| frame.get(18..20) == Some(&MARK), "18/beef");
        let (good, [_, messages]) = software.stop();
        assert!(good, "{messages}");
        Some(arrived.frames)
    });
    let [Some(without), Some(with)] = arrived else { return };
    assert!(without.len() > frames.len() / 10, "{} of {}", without.len(), frames.len());
    // Packets that take different paths through the chain may overtake one another, but not copies of a
    // frame.
    let [without, with] = [without, with].map(|mut frames| {
        assert!(are_in_order(&frames));
        frames.sort();
        frames
    });
    let only = |some: &[Vec<u8>], others: &[Vec<u8>]| {
        some.iter().find(|frame| others.binary_search(frame).is_err()).cloned()
    };
    let (lost, new) = (only(&without, &with), only(&with, &without));
    assert!(lost.is_none() && new.is_none(), "only without: {lost:02x?}\nonly with: {new:02x?}");
    assert_eq!(without, with);
}

#[test]
fn nothing_changes_behind_251_rules_in_a_switch() {
    same(Chain::new(251, 1), 251);
}

#[test]
fn nothing_changes_behind_713_rules_in_a_switch() {
    same(Chain::new(713, 1), 713);
}

#[test]
fn nothing_changes_behind_8550_rules_in_a_switch() {
    same(Chain::new(8550, 1), 8550);
}

#[test]
fn nothing_changes_where_each_class_has_a_port() {
    same(Chain::new(713, BEHIND.len()), 713);
}

/// An access list with few rules becomes a program that tests packet fields one after the other (questions)
/// and has many classes of packets.
#[test]
fn nothing_changes_behind_questions_in_a_switch() {
    let chain = Chain::of(
        "FromDevice(nf0, PROMISC true) -> Strip(14) -> MarkIPHeader -> f :: IPFilter(
            drop src net 10.0.0.0/8, allow udp && src port > 1024 && dst port > 33434 && dst port < 33600,
            drop tcp && not (dst port > 22 && dst port < 1024) && src net 172.16.0.0/12, allow ip proto 47,
            drop tcp opt syn && src net 172.16.0.0/12, allow tcp && dst port 80,
            drop icmp type echo && dst net 192.168.0.0/16, allow dst port 53, allow dst net 204.152.184.0/21, drop all)
            -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> Queue -> ToDevice(nf1); f[1] -> Discard;",
        1,
    );
    same(Some(chain), 1);
}
