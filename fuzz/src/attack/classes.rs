//! Random elements for configurations. Any class of the [`Catalogue`] may be used with the sample arguments
//! of its own tests. For the classes of which programs are made there are generators, which know where the
//! headers of packets are at that point of the chain.

use std::collections::BTreeMap;

use element::effects::{Action, Depends, Effects, Field, Hold, Order, StateAccess, Target, Value};
use element::{Class, Sample, obstacles};
use fastrand::Rng;
use testkit::samples::PATTERNS;

/// An element without its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// The name of the class.
    pub(super) class: String,
    /// The arguments, as text.
    pub(super) config: String,
    /// The number of input ports.
    pub(super) inputs: usize,
    /// The number of output ports.
    pub(super) outputs: usize,
}

/// A class with its configurations that fit into a chain.
struct Known {
    class: &'static Class,
    samples: Vec<Setup>,
}

/// A configuration of a class, from its samples.
#[derive(Clone)]
struct Setup {
    element: Element,
    /// True if the element in this configuration can be part of a program.
    composes: bool,
}

/// The classes that random configurations may use: those that packets pass and that declare their effects.
pub(super) struct Catalogue {
    known: Vec<Known>,
    by_name: BTreeMap<&'static str, &'static Class>,
}

/// The properties of an element, from its declaration, that decide which aspects of a run can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habits {
    /// True if the element keeps state by which a packet can affect later packets.
    pub(super) keeps_state: bool,
    /// True if the element draws random numbers.
    pub(super) is_random: bool,
    /// True if the element holds packets, so that they leave later than they arrive.
    pub(super) holds: bool,
    /// True if packets leave the element with the present time as time stamp, or the element makes packets.
    pub(super) stamps: bool,
    /// True if the element may change the order of packets of different flows, in a way that depends on
    /// batches.
    pub(super) reorders: bool,
}

impl Habits {
    /// Derives the habits of an element from its declared effects.
    pub(super) fn of(effects: &Effects) -> Habits {
        let keeps = |access| !matches!(access, StateAccess::Soft | StateAccess::Read);
        let is_now = |action: &Action| *action == Action::Set(Field::TimeStamp, Value::Now);
        Habits {
            keeps_state: effects.state.iter().any(|state| keeps(state.access)),
            is_random: effects.depends.contains(&Depends::Random),
            holds: effects.hold != Hold::None,
            stamps: effects.cases.iter().flat_map(|case| &case.actions).any(is_now)
                || effects.emits.iter().any(|emit| !emit.is_copy()),
            reorders: !matches!(effects.order, Order::Keeps | Order::NeedsFlowOrder),
        }
    }
}

impl Catalogue {
    /// Collects the classes. Classes that need other elements, or whose results depend on the machine, are
    /// left out.
    pub(super) fn new() -> Catalogue {
        let mut known = Vec::new();
        let mut by_name = BTreeMap::new();
        for class in testkit::classes() {
            by_name.insert(class.name, class);
            let mut setups = Vec::new();
            for sample in Sample::all(class).into_iter().filter(|sample| !sample.pull) {
                let (inputs, outputs) = sample.shape;
                // Synthesized elements are the output of the synthesizer, and cannot be part of its input.
                if inputs == 0 || outputs == 0 || sample.config.contains('$') || class.name == "Synthesized" {
                    continue;
                }
                // This sample of TimeFilter moves the end of its time range by two seconds at a time, which
                // would take too many steps to reach the times of the packets.
                if sample.config.contains("extend_interval") {
                    continue;
                }
                let element =
                    Element { class: class.name.into(), config: sample.config.clone(), inputs, outputs };
                let Ok(effects) = testkit::samples::ClassSample::new(sample).effects() else { continue };
                let belongs = effects.support.sliced != element::effects::Sliced::default()
                    || effects.depends.contains(&Depends::Worker)
                    || effects.hold == Hold::Replay
                    || !effects.replaces.is_empty();
                // An element that sends packets out of the process may receive packets from elsewhere. For
                // example, a McastSocket of another test that runs at the same time is in the same group.
                let is_open = effects.cases.iter().any(|case| case.to == Target::Send);
                if effects.opaque.is_some() || belongs || is_open {
                    continue;
                }
                let composes = obstacles::to_synthesis(&effects).is_none();
                setups.push(Setup { element, composes });
            }
            if !setups.is_empty() {
                known.push(Known { class, samples: setups });
            }
        }
        Catalogue { known, by_name }
    }

    /// Returns the names of the classes that chains are made of.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().map(|known| known.class.name)
    }

    /// Returns the class with this name, of all classes; `None` if there is none.
    pub(super) fn class(&self, name: &str) -> Option<&'static Class> {
        self.by_name.get(name).copied()
    }

    /// Returns an element of the class with index `number` (modulo the number of classes), with one of its
    /// samples. Consecutive numbers use every class.
    pub(super) fn in_turn(&self, r: &mut Rng, number: u64) -> Element {
        let known = &self.known[(number % self.known.len() as u64) as usize];
        known.samples[r.usize(..known.samples.len())].element.clone()
    }

    /// Returns an element of a random class with one of its samples; mostly one that can be part of a
    /// program.
    pub(super) fn any(&self, r: &mut Rng) -> Element {
        loop {
            let known = &self.known[r.usize(..self.known.len())];
            let setup = &known.samples[r.usize(..known.samples.len())];
            if setup.composes || r.u8(..3) == 0 {
                return setup.element.clone();
            }
        }
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Catalogue::new()
    }
}

/// The knowledge about most packets at a point of a chain. Generators choose arguments accordingly, so that
/// elements affect packets and do not just drop them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// The offset in bytes of the IP header from the packet's first byte; negative if it has been stripped.
    pub(super) at: i32,
    /// True if an element upstream has marked the IP header.
    pub(super) marked: bool,
    /// True if packets are IPv6, false if they are IPv4.
    pub(super) six: bool,
    /// The offset in bytes, in the IP header, of the byte that the previous element has written without an
    /// update of the checksum; `None` if it has not written one.
    pub(super) spoiled: Option<i32>,
    /// True if an element upstream has updated the checksum of the IP header that is now the first.
    pub(super) updated: bool,
    /// True if an IP header whose checksum was updated has been stripped, and no new header has been
    /// prepended since.
    pub(super) hidden: bool,
}

impl Default for Context {
    fn default() -> Self {
        Context { at: 14, marked: false, six: false, spoiled: None, updated: false, hidden: false }
    }
}

/// The classes whose elements update or compute the checksum of the IP header when they write.
const UPDATING: [&str; 6] = ["DecIPTTL", "SetIPDSCP", "SetIPECN", "MarkIPCE", "SetIPChecksum", "FixIPSrc"];

fn pick<T: Copy>(r: &mut Rng, of: &[T]) -> T {
    of[r.usize(..of.len())]
}

fn one(class: &str, config: impl Into<String>) -> Element {
    Element { class: class.into(), config: config.into(), inputs: 1, outputs: 1 }
}

fn some(class: &str, config: impl Into<String>, outputs: usize) -> Element {
    Element { outputs, ..one(class, config) }
}

/// Returns one of a few Ethernet addresses, so that rules match addresses that other elements write.
fn mac(r: &mut Rng) -> String {
    format!("2:0:0:0:0:{}", r.u8(1..4))
}

/// Returns one of the IPv4 addresses that the random packets have.
fn address(r: &mut Rng) -> &'static str {
    pick(
        r,
        &["10.0.0.1", "10.0.0.2", "10.0.1.2", "10.0.1.3", "192.168.1.9", "192.0.2.7", "8.8.8.8", "1.0.0.1"],
    )
}

fn address6(r: &mut Rng) -> &'static str {
    pick(r, &["2001:db8::a00:1", "2001:db8::a00:102", "2001:db8::9", "fe80::1"])
}

fn annotation(r: &mut Rng) -> &'static str {
    pick(r, &["16", "17", "18", "20", "22", "24", "40"])
}

/// Returns the first element of a chain, of a class that forwards most packets, and notes in `c` where
/// headers are after it.
pub(super) fn first(r: &mut Rng, c: &mut Context) -> Element {
    let element = match r.u8(..20) {
        0..=8 => check_header(r, c),
        9 => one("MarkIPHeader", "14"),
        10 => some("VLANDecap", "", r.usize(1..=1)),
        11 => {
            let (list, outputs) = pick(
                r,
                &[
                    ("12/0800, -", 2),
                    ("12/0800, 12/0806, -", 3),
                    ("12/0800, 12/86dd, -", 3),
                    ("12/0800 14/45, 12/8100, -", 3),
                ],
            );
            Element { outputs, ..one("Classifier", list) }
        }
        12 | 13 => one("Strip", "14"),
        14 | 15 => {
            c.six = true;
            check_header6(r, c)
        }
        16 => one("MarkIPHeader", pick(r, &["0", "18", "4", "34"]).to_string()),
        17 => one("IPInputCombo", pick(r, &["1", "0, INTERFACES 10.0.0.1/8"]).to_string()),
        18 => one("StripEtherVLANHeader", ""),
        _ => check_length(r),
    };
    c.follow(&element);
    element
}

impl Context {
    /// Changes the context to what is known of packets after `element`.
    pub(super) fn follow(&mut self, element: &Element) {
        let number = element.config.split(',').next().and_then(|text| text.trim().parse::<i32>().ok());
        let last = element.config.rsplit(',').next().unwrap_or_default().trim();
        self.spoiled = match element.class.as_str() {
            "StoreData" | "MoveData" => number.map(|number| number - self.at),
            "SetIP6ECN" | "SetIP6DSCP" => Some(1),
            "StoreIPAddress" => last.parse().ok().map(|number: i32| number - self.at),
            _ => None,
        };
        let is_updated = UPDATING.contains(&element.class.as_str())
            || element.class == "StoreIPAddress" && self.spoiled.is_none();
        self.updated |= is_updated && self.marked && !self.six;
        let takes_off = match element.class.as_str() {
            "StripIPHeader" => self.marked,
            // The header is stripped at least up to the end of its checksum.
            "Strip" => number.is_some_and(|number| number >= self.at + 12),
            _ => false,
        };
        let encapsulates = ["EtherEncap", "EtherVLANEncap", "IPEncap", "UDPIPEncap", "IP6Encap"]
            .contains(&element.class.as_str());
        if takes_off {
            (self.hidden, self.updated) = (self.updated, false);
        } else if encapsulates {
            self.hidden = false;
        }
        match element.class.as_str() {
            "Strip" => self.at -= number.unwrap_or_default(),
            "Unstrip" => self.at += number.unwrap_or_default(),
            "EtherEncap" => self.at += 14,
            "EtherVLANEncap" => self.at += 18,
            "VLANEncap" => self.at += 4,
            "StripEtherVLANHeader" => self.at -= 14,
            "StripToNetworkHeader" => self.at = 0,
            // Packets of a tunnel have another IP header after the stripped one.
            "StripIPHeader" if self.marked => (self.at, self.marked) = (0, false),
            "IPEncap" | "UDPIPEncap" => (self.at, self.marked, self.six) = (0, true, false),
            "IP6Encap" => (self.at, self.marked, self.six) = (0, true, true),
            "CheckIPHeader" | "MarkIPHeader" | "CheckIPHeader2" | "IPInputCombo" => self.marked = true,
            "CheckIP6Header" | "MarkIP6Header" => self.marked = true,
            _ => {}
        }
    }
}

/// Returns a random element that fits the context `c`, and changes `c` to what is known after it.
pub(super) fn next(r: &mut Rng, catalogue: &Catalogue, c: &mut Context) -> Element {
    let element = make(r, catalogue, c);
    c.follow(&element);
    element
}

fn make(r: &mut Rng, catalogue: &Catalogue, c: &mut Context) -> Element {
    // The updated checksum is in stripped bytes now. New headers that are prepended may overwrite it, which
    // programs have to get right.
    if c.hidden && r.bool() {
        let (from, to) = (mac(r), mac(r));
        return match r.u8(..4) {
            0 => one("EtherEncap", format!("0x0800, {from}, {to}")),
            1 => one("EtherVLANEncap", format!("0x0800, {from}, {to}, VLAN_ID {}", r.u8(..9))),
            _ => encapsulate(r),
        };
    }
    // Without a marked IP header, the next element usually marks one, or restores a header that was stripped.
    if !c.marked && r.u8(..4) > 0 {
        return match (c.at, c.six) {
            (-256..0, _) => one("Unstrip", (-c.at).to_string()),
            (_, true) => check_header6(r, c),
            _ => check_header(r, c),
        };
    }
    // After a write without an update of the checksum, an element that updates it is the most interesting:
    // the checksum then has to stay wrong.
    if let Some(byte) = c.spoiled.filter(|_| !c.six) {
        match r.u8(..12) {
            0..=7 => return update(r, byte),
            8..=10 => {
                let byte = r.i32(..20);
                return update(r, byte);
            }
            _ => {}
        }
    }
    if c.updated && r.u8(..10) == 0 {
        let behind = c.at.max(0) + pick(r, &[12, 20, 20, 24]);
        return if r.u8(..3) > 0 { one("StripIPHeader", "") } else { one("Strip", behind.to_string()) };
    }
    match r.u8(..100) {
        0..=7 => filter(r),
        8..=23 => field(r, c),
        24..=31 => data(r, c),
        32..=40 => start(r, c),
        41..=48 => link(r, c),
        49..=54 => annotate(r),
        55..=59 => check(r, c),
        60..=63 => route(r, c),
        64..=66 => encapsulate(r),
        67..=69 => router(r),
        70..=72 => one(pick(r, &["Counter", "Null", "AverageCounter"]), ""),
        _ => catalogue.any(r),
    }
}

/// Returns an element that writes the byte of the IP header at offset `byte`, and updates the checksum. If no
/// element class writes this byte, the element writes another byte, chosen at random.
fn update(r: &mut Rng, byte: i32) -> Element {
    match byte {
        0 | 1 if r.bool() => one("SetIPDSCP", r.u8(..64).to_string()),
        0 | 1 => one("SetIPECN", r.u8(..4).to_string()),
        8 => one("DecIPTTL", ""),
        12..16 => one("StoreIPAddress", format!("{}, src", address(r))),
        16..20 => one("StoreIPAddress", format!("{}, dst", address(r))),
        _ => {
            let other = pick(r, &[1, 8, 12, 16]);
            update(r, other)
        }
    }
}

fn check_header(r: &mut Rng, c: &Context) -> Element {
    let at = c.at.max(0);
    let config = match r.u8(..8) {
        0 => format!("{at}, CHECKSUM false"),
        1 => format!("{at}, INTERFACES 10.0.0.1/24 192.168.0.1/16"),
        2 => format!("{at}, BADSRC 10.0.0.2 8.8.8.8, GOODDST 10.0.1.2"),
        _ => at.to_string(),
    };
    match r.u8(..12) {
        0 => one("MarkIPHeader", at.to_string()),
        1 => one("CheckIPHeader2", at.to_string()),
        _ => some("CheckIPHeader", config, r.usize(1..=2)),
    }
}

fn check_header6(r: &mut Rng, c: &Context) -> Element {
    let at = c.at.max(0);
    match r.u8(..5) {
        0 => one("MarkIP6Header", at.to_string()),
        1 => some("CheckIP6Header", format!("2001:db8::9, {at}, PROCESS_EH true"), r.usize(1..=2)),
        _ => some("CheckIP6Header", format!("OFFSET {at}"), r.usize(1..=2)),
    }
}

fn check_length(r: &mut Rng) -> Element {
    let length = pick(r, &[20, 41, 46, 59, 60, 63, 64, 100, 300, 1000]);
    let extra = if r.u8(..4) == 0 { ", EXTRA_LENGTH true" } else { "" };
    some("CheckLength", format!("{length}{extra}"), r.usize(1..=2))
}

/// Returns a random filter expression, as IPFilter and IPClassifier take it.
fn expression(r: &mut Rng) -> String {
    let simple = |r: &mut Rng| {
        let side = pick(r, &["src", "dst"]);
        match r.u8(..22) {
            0 => format!("{side} host {}", address(r)),
            1 => format!("{side} net {}/{}", address(r), r.u8(7..33)),
            2 => "tcp".into(),
            3 => "udp".into(),
            4 => format!("{side} udp port {}", pick(r, &[53, 80, 1000, 1024])),
            5 => format!("{side} port > {}", pick(r, &[80, 1000, 1024])),
            6 => format!("ip ttl {}", pick(r, &[0, 1, 2, 64])),
            7 => "ip frag".into(),
            8 => format!("ip dscp {}", pick(r, &[0, 4, 10, 46])),
            9 => format!("{side} tcp port {}", pick(r, &[80, 443, 1000])),
            10 => "ip proto 17".into(),
            11 => "icmp".into(),
            12 => "icmp type echo".into(),
            13 => "tcp opt syn".into(),
            14 => format!("ip tos {}", pick(r, &[0, 0x28, 0xb8])),
            15 => format!("ip hl {}", pick(r, &[5, 6])),
            16 => "ip unfrag".into(),
            17 => format!("ip[{}:1] > {}", r.u8(..24), r.u8(..)),
            18 => "ip6 udp".into(),
            19 => format!("ether host {}", mac(r)),
            20 => format!("ip vers {}", pick(r, &[4, 6])),
            _ => format!("{side} port >= 1024"),
        }
    };
    let first = simple(r);
    match r.u8(..6) {
        0 => format!("not {first}"),
        1 => format!("{first} and {}", simple(r)),
        2 => format!("{first} or {}", simple(r)),
        3 => format!("({first} or {}) and not {}", simple(r), simple(r)),
        _ => first,
    }
}

fn filter(r: &mut Rng) -> Element {
    let long = if r.u8(..8) == 0 { 24 } else { 3 };
    let rules = r.usize(1..=long);
    match r.u8(..3) {
        0 => {
            let mut list: Vec<String> = (0..rules).map(|_| expression(r)).collect();
            list.push("-".into());
            let outputs = list.len();
            Element { outputs, ..one("IPClassifier", list.join(", ")) }
        }
        1 => {
            let outputs = r.usize(1..3);
            let actions = ["allow", "deny", "drop", if outputs == 2 { "1" } else { "0" }];
            let mut list: Vec<String> = (0..rules)
                .map(|_| {
                    let action = pick(r, &actions);
                    format!("{action} {}", expression(r))
                })
                .collect();
            list.push(if outputs == 2 { "1 all" } else { "allow all" }.into());
            Element { outputs, ..one("IPFilter", list.join(", ")) }
        }
        _ => {
            let mut list: Vec<&str> = (0..r.usize(1..4)).map(|_| pick(r, &PATTERNS)).collect();
            if r.u8(..4) > 0 {
                list.push("-");
            }
            Element { outputs: list.len(), ..one("Classifier", list.join(", ")) }
        }
    }
}

/// Returns an element that writes header fields, such as addresses, time to live or DSCP.
fn field(r: &mut Rng, c: &Context) -> Element {
    if c.six && r.u8(..5) > 0 {
        return match r.u8(..8) {
            0 => one("SetIP6DSCP", r.u8(..64).to_string()),
            1 => one("SetIP6ECN", r.u8(..4).to_string()),
            2 => one("SetIP6FlowLabel", r.u32(..1 << 20).to_string()),
            3 => one("SetIP6Hlim", r.u8(..).to_string()),
            4 => some("DecIP6HLIM", "", r.usize(1..=2)),
            5 => one("SetTransportChecksumIP6", ""),
            6 => one("IP6Mirror", ""),
            _ => {
                let config = match r.u8(..3) {
                    0 => format!("{}, {}", address6(r), pick(r, &["src", "dst", "8", "24", "30"])),
                    _ => pick(r, &["src", "dst", "8"]).to_string(),
                };
                some("StoreIP6Address", config, r.usize(1..=2))
            }
        };
    }
    let network = c.at.max(0);
    match r.u8(..24) {
        0..=3 => {
            let config = pick(r, &["", "", "", "MULTICAST false", "ACTIVE false"]);
            some("DecIPTTL", config, r.usize(1..=2))
        }
        4 | 5 => one("SetIPDSCP", r.u8(..64).to_string()),
        6 | 7 => one("SetIPECN", r.u8(..4).to_string()),
        8 => one("MarkIPCE", pick(r, &["", "true"])),
        9 => one("SetIPChecksum", ""),
        10 => some("SetUDPChecksum", "", r.usize(1..=2)),
        11 => one("SetTCPChecksum", pick(r, &["", "true"])),
        12..=14 => {
            let side = pick(r, &["src", "dst"]);
            let offset = network + pick(r, &[12, 16, 10, 8, 14, 20]);
            let config = match r.u8(..5) {
                0 => side.to_string(),
                1 => offset.to_string(),
                2 => format!("{}, {offset}", address(r)),
                _ => format!("{}, {side}", address(r)),
            };
            some("StoreIPAddress", config, r.usize(1..=2))
        }
        15 => one("FixIPSrc", address(r)),
        16 | 17 => one("IPMirror", pick(r, &["", "false"])),
        18 => one("SetIPAddress", address(r)),
        19 => one("GetIPAddress", pick(r, &["IP src", "IP dst", "26", "30", "16"]).to_string()),
        20 => one("SetIP6ECN", r.u8(..4).to_string()),
        21 => one("SetIP6DSCP", r.u8(..64).to_string()),
        22 => one("EtherMirror", ""),
        _ => one("SetTCPChecksum", ""),
    }
}

/// Returns an element that writes or copies bytes at given offsets, or changes the packet's length at one end
/// or at both ends.
fn data(r: &mut Rng, c: &Context) -> Element {
    // Returns the offset of a field in the IP or transport header, or any offset below 70.
    let place = |r: &mut Rng| {
        let inside = [
            0, 1, 1, 1, 2, 3, 4, 6, 8, 8, 8, 9, 10, 11, 12, 12, 12, 16, 16, 16, 19, 20, 22, 24, 28, 32, 36,
            40,
        ];
        let network = c.at.max(0);
        if r.u8(..4) == 0 { r.i32(0..70) } else { network + pick(r, &inside) }
    };
    match r.u8(..12) {
        0..=3 => {
            let (offset, value) = (place(r), r.u8(..));
            let grow = if r.u8(..6) == 0 { ", GROW true" } else { "" };
            match r.u8(..3) {
                0 => one("StoreData", format!("{offset}, \\<{value:02x}>{grow}")),
                1 => one(
                    "StoreData",
                    format!("{offset}, \\<{value:02x}{:02x}{:02x}>{grow}", r.u8(..4), r.u8(..)),
                ),
                _ => {
                    let mask = pick(r, &[1u8, 3, 0x0f, 0xf0, 0x80, 0xff]);
                    one("StoreData", format!("{offset}, \\<{value:02x}>, MASK \\<{mask:02x}>"))
                }
            }
        }
        4..=6 => {
            let (to, from, length) = (place(r), place(r), pick(r, &[1, 1, 2, 4, 6, 20]));
            let grow = if r.u8(..6) == 0 { ", GROW false" } else { "" };
            one("MoveData", format!("{to}, {from}, {length}{grow}"))
        }
        7 | 8 => {
            let config =
                pick(r, &["60", "64", "46", "100", "LENGTH 0, MAXLENGTH 3000", "200, MAXLENGTH 100"]);
            one("Pad", config)
        }
        9 | 10 => {
            let config = pick(r, &["60", "40", "54", "34", "100", "0", "46, EXTRA_LENGTH false", "28"]);
            one("Truncate", config)
        }
        _ => one("Resize", pick(r, &["-4, 0", "4, -4", "-14, 4", "0, 10", "14, 0"]).to_string()),
    }
}

/// Returns an element that moves the packet's start, or marks headers.
fn start(r: &mut Rng, c: &Context) -> Element {
    match r.u8(..20) {
        0 | 1 if c.at > 0 => one("Strip", c.at.to_string()),
        0 | 1 if (-256..0).contains(&c.at) => one("Unstrip", (-c.at).to_string()),
        0..=3 => one("Strip", pick(r, &["14", "4", "12", "20", "34", "1", "8", "60"]).to_string()),
        4 | 5 => one("Unstrip", pick(r, &["14", "4", "12", "20", "34", "1"]).to_string()),
        6..=9 => one("StripIPHeader", ""),
        10 => one("StripToNetworkHeader", ""),
        11 => one("StripTransportHeader", ""),
        12 => one("StripTCPHeader", ""),
        13 => one("UnstripIPHeader", ""),
        14 => one("UnstripTransportHeader", ""),
        15 | 16 => {
            let at = c.at.max(0);
            let odd = [at, at + 20, 0, 1, 14, 18, 33, 34];
            one("MarkIPHeader", pick(r, &odd).to_string())
        }
        17 => one("MarkIP6Header", c.at.max(0).to_string()),
        18 => one("MarkMACHeader", pick(r, &["", "2, 14", "14"])),
        _ => check_header(r, c),
    }
}

/// Returns an element that adds, changes or removes link headers.
fn link(r: &mut Rng, c: &Context) -> Element {
    let (from, to) = (mac(r), mac(r));
    let encapsulates = c.at == 0 && r.u8(..4) > 0;
    match r.u8(..16) {
        _ if encapsulates && r.u8(..4) == 0 => {
            one("EtherVLANEncap", format!("0x0800, {from}, {to}, VLAN_ID {}", r.u8(..9)))
        }
        _ if encapsulates => one("EtherEncap", format!("0x0800, {from}, {to}")),
        0..=2 => one("EtherEncap", format!("0x0800, {from}, {to}")),
        3..=5 => one("EtherRewrite", format!("{from}, {to}")),
        6 | 7 => one("EtherMirror", ""),
        8 | 9 => one("VLANEncap", pick(r, &["", "7, 3", "ANNO, NATIVE_VLAN 5", "5, ETHERTYPE 0x88a8"])),
        10 => one("VLANDecap", pick(r, &["", "false", "ETHERTYPE 0x88a8"])),
        11 => some("StripEtherVLANHeader", pick(r, &["", "7", "-1"]), r.usize(1..=1)),
        12 => one("SetVLANAnno", pick(r, &["", "7, 3"])),
        13 => {
            let config = match r.u8(..3) {
                0 => format!("{from}, src"),
                1 => format!("{from}, {}", pick(r, &[0, 3, 6, 20, 30])),
                _ => "OFFSET dst, ANNO 20".into(),
            };
            some("StoreEtherAddress", config, r.usize(1..=2))
        }
        14 => some(
            "HostEtherFilter",
            format!("{from}{}", pick(r, &["", ", true, false", ", OFFSET 6"])),
            r.usize(1..=2),
        ),
        _ => some("DropBroadcasts", "", r.usize(1..=2)),
    }
}

fn annotate(r: &mut Rng) -> Element {
    match r.u8(..12) {
        0 | 1 => one("Paint", r.u8(..4).to_string()),
        2 => one("Paint", format!("{}, {}", r.u8(..4), annotation(r))),
        3 => some("CheckPaint", r.u8(..4).to_string(), r.usize(1..=2)),
        4 => some("CheckPaint", format!("{}, {}", r.u8(..4), annotation(r)), r.usize(1..=2)),
        5 | 6 => some("PaintSwitch", "", r.usize(1..=3)),
        7 => one("SetAnnoByte", format!("{}, {}", annotation(r), r.u8(..))),
        8 => one("SetPacketType", pick(r, &["BROADCAST", "HOST", "OTHERHOST", "loopback"])),
        9 => one("GetIPAddress", format!("{}, ANNO {}", pick(r, &[26, 30, 16, 12]), pick(r, &[0, 20, 40]))),
        10 => one("SetTimestamp", "12.5"),
        _ => one("SetIPAddress", format!("{}, ANNO {}", address(r), pick(r, &[0, 20, 40]))),
    }
}

fn check(r: &mut Rng, c: &Context) -> Element {
    let plain = pick(r, &["", "", "CHECKSUM false"]);
    match r.u8(..6) {
        0 => some("CheckTCPHeader", plain, r.usize(1..=2)),
        1 => some("CheckUDPHeader", plain, r.usize(1..=2)),
        2 => some("CheckICMPHeader", plain, r.usize(1..=2)),
        3 => check_header(r, c),
        4 => check_header6(r, c),
        _ => check_length(r),
    }
}

fn route(r: &mut Rng, c: &Context) -> Element {
    if c.six {
        let routes = "2001:db8::/96 0, 2001:db8::a00:0/112 ::1 1, ::/0 fe80::9 1";
        return Element { outputs: 2, ..one("LookupIP6Route", routes) };
    }
    let outputs = r.usize(1..4);
    let mut routes: Vec<String> = (0..r.usize(1..6))
        .map(|_| {
            let gateway = if r.bool() { format!(" {}", address(r)) } else { String::new() };
            let length = pick(r, &[8, 9, 16, 24, 32]);
            let network = match length {
                8 | 9 => "10.0.0.0",
                16 => pick(r, &["10.0.0.0", "192.168.0.0"]),
                24 => pick(r, &["10.0.0.0", "10.0.1.0", "192.0.2.0"]),
                _ => address(r),
            };
            format!("{network}/{length}{gateway} {}", r.usize(..outputs))
        })
        .collect();
    if r.u8(..3) > 0 {
        routes.push(format!("0.0.0.0/0 {}", r.usize(..outputs)));
    }
    let classes = [
        "RadixIPLookup",
        "StaticIPLookup",
        "LinearIPLookup",
        "DirectIPLookup",
        "RangeIPLookup",
        "LookupIPRouteMP",
    ];
    Element { outputs, ..one(pick(r, &classes), routes.join(", ")) }
}

fn encapsulate(r: &mut Rng) -> Element {
    match r.u8(..6) {
        0 | 1 => one("IPEncap", format!("{}, 18.26.4.24, {}", pick(r, &["ipip", "17", "41"]), address(r))),
        2 => one("IPEncap", "17, 1.2.3.4, DST_ANNO, DSCP 46, ECT 2, DF true, TTL 9"),
        3 => one(
            "UDPIPEncap",
            pick(r, &["10.0.0.1, 1234, 10.0.0.2, 53", "10.0.0.1, 1234, DST_ANNO, 80, false"]),
        ),
        4 => one("IP6Encap", "4, 2000:10:1::2, 2000:20:1::2, HLIM 20"),
        _ => one("ICMPPingEncap", "10.0.0.1, 10.0.0.2"),
    }
}

fn router(r: &mut Rng) -> Element {
    match r.u8(..8) {
        0 => one("IPInputCombo", r.u8(..4).to_string()),
        1 => Element { outputs: 5, ..one("IPOutputCombo", format!("{}, 10.0.0.1, 1500", r.u8(..3))) },
        2 | 3 => some("IPGWOptions", pick(r, &["10.0.0.1", "10.0.0.9, 10.0.1.1"]), r.usize(1..=2)),
        4 | 5 => some("IPFragmenter", pick(r, &["576", "100, false", "68", "60"]), r.usize(1..=2)),
        6 => one("ICMPError", pick(r, &["10.0.0.1, timeexceeded", "10.0.0.1, parameterproblem"])),
        _ => Element { outputs: 2, ..one("PaintTee", r.u8(..3).to_string()) },
    }
}

/// Returns an element that keeps state of flows. If `both` is true, a rewriter has an input for each
/// direction; other elements have one input.
pub(super) fn stateful(r: &mut Rng, both: bool) -> Element {
    let class = pick(
        r,
        &[
            "IPRewriter",
            "IPRewriter",
            "IPRewriter",
            "TCPRewriter",
            "UDPRewriter",
            "IPAddrRewriter",
            "IPAddrPairRewriter",
            "ICMPPingRewriter",
            "FlowIPLoadBalancer",
            "FlowSwitch",
        ],
    );
    match class {
        "FlowIPLoadBalancer" => return one(class, "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2"),
        "FlowSwitch" => return Element { outputs: 2, ..one(class, "") },
        _ => {}
    }
    let first = match class {
        "IPAddrRewriter" => pick(r, &["pattern 1.0.0.1-1.0.0.9# - 0 1", "keep 0 1", "pattern 1.0.0.1 - 0 1"]),
        "IPAddrPairRewriter" => pick(r, &["pattern 1.0.0.1-1.0.0.9# 2.0.0.2 0 1", "keep 0 1"]),
        _ => pick(
            r,
            &[
                "pattern 1.0.0.1 1024-65535# - - 0 1",
                "pattern 1.0.0.1 1024-65535# - - 0 1",
                "pattern 1.0.0.1 1024-65535 - - 0 1",
                "pattern 1.0.0.1 1024-1030# - - 0 1",
                "pattern 1.0.0.1 4000-4001? - - 0 1",
                "pattern - - 10.0.0.2 80 0 1",
                "keep 0 1",
                "keep 0 1",
                "keep 0 0",
                "pass 0",
            ],
        ),
    };
    let second = pick(r, &["drop", "drop", "pass 1", "pass 0", "keep 1 0"]);
    let keywords = match class {
        "IPRewriter" => pick(
            r,
            &["", "", "", ", DST_ANNO false", ", UDP_TIMEOUT 1, REAP_INTERVAL 1", ", MAPPING_CAPACITY 2"],
        ),
        "ICMPPingRewriter" => pick(r, &["", ", TIMEOUT 2"]),
        _ => "",
    };
    let (inputs, config) = match both {
        true => (2, format!("{first}, {second}{keywords}")),
        false => (1, format!("{first}{keywords}")),
    };
    Element { class: class.into(), config, inputs, outputs: 2 }
}
