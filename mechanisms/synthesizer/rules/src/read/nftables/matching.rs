//! The match statements of nftables as products.

use std::collections::BTreeMap;

use classify::IntervalSet;
use classify::filter::{HeaderLayer, well_known_port};
use serde_json::Value;

use crate::fields::PacketField;
use crate::phrase::{PROTOCOLS, TCP_FLAGS, protocol_number};
use crate::product::{FieldSets, TooManyProducts, bounded, meet, minus};
use crate::question;

/// The named sets and maps, by table and name.
pub(super) type NamedSets<'j> = BTreeMap<(String, String), &'j Value>;

/// The values of a set or of a map, each with the value that the map assigns to it.
type Elements<'j> = Vec<(&'j Value, &'j Value)>;

/// The surroundings of a match: the named sets, and the table whose sets it can use.
pub(super) struct Matching<'m> {
    pub(super) sets: &'m NamedSets<'m>,
    pub(super) table: &'m str,
}

/// The left side of a match: the part of a packet that is compared.
#[derive(Clone)]
enum Compared {
    /// A field, of packets that are also in the products.
    Field { field: PacketField, shift: u32, bits: u32, kind: ValueKind, within: FieldSets },
    /// The version of the packet's IP header, which is 4.
    Version(ValueKind),
    /// A header of another protocol than IPv4, which no packet has.
    OtherVersion,
}

/// The kind of values on the right side of a match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Address,
    Port,
    Protocol,
    Number,
    Flags,
    Interface,
    State,
    IcmpType,
    /// `ip` or a number of Ethernet.
    EtherType,
    /// `ipv4` or a number of the kernel.
    NetworkProtocol,
}

fn many(error: TooManyProducts) -> String {
    error.to_string()
}

impl<'m> Matching<'m> {
    /// Returns the packets that a match accepts; `None` if it is about headers of another protocol than IPv4.
    pub(super) fn products(&self, value: &Value) -> Result<Option<Vec<FieldSets>>, String> {
        let part = |key: &str| value.get(key).ok_or_else(|| format!("a match has no '{key}'"));
        let (left, right) = (part("left")?, part("right")?);
        // Without an operator, a match is as with `in`.
        let op = value.get("op").and_then(Value::as_str).unwrap_or("in");
        if let Some([masked, mask]) = left.get("&").and_then(Value::as_array).map(Vec::as_slice) {
            return self.masked(masked, mask, op, right);
        }
        match op {
            "==" | "in" | "!=" => {
                if op != "in" {
                    self.check_states(left, right)?;
                }
                let Some(equal) = self.equal_in(left, right, op == "in")? else { return Ok(None) };
                let matched = match op {
                    // Only packets that have the field differ from a value.
                    "!=" => minus(&[self.within(left)?], &equal).map_err(many)?,
                    _ => equal,
                };
                // A match of the version that no IPv4 packet has is a rule for other packets.
                Ok(Some(matched).filter(|matched| !matched.is_empty() || !tests_version(left)))
            }
            "<" | "<=" | ">" | ">=" => {
                let (field, shift, bits, kind, within) = match compared(left)? {
                    Compared::Field { field, shift, bits, kind, within } => {
                        (field, shift, bits, kind, within)
                    }
                    Compared::Version(_) => return Err(NO_ORDER.into()),
                    Compared::OtherVersion => return Ok(None),
                };
                if [ValueKind::State, ValueKind::Interface].contains(&kind) {
                    return Err(NO_ORDER.into());
                }
                let (low, high) = single(right, kind)?;
                let top = (1u128 << bits) - 1;
                let set = match op {
                    "<" => low.checked_sub(1).map_or(IntervalSet::empty(), |end| IntervalSet::one(0, end)),
                    "<=" => IntervalSet::one(0, high),
                    ">" => IntervalSet::one(high + 1, top),
                    _ => IntervalSet::one(low, top),
                };
                Ok(Some(within.with(field, &placed(field, shift, bits, &set)).into_iter().collect()))
            }
            op => Err(format!("the operator '{op}' of a match has no meaning here")),
        }
    }

    /// Returns the packets whose compared part has the value `right`, or a value of the set `right`.
    pub(super) fn equal(&self, left: &Value, right: &Value) -> Result<Option<Vec<FieldSets>>, String> {
        self.equal_in(left, right, false)
    }

    /// Does the work of [`equal`](Self::equal). With `is_in`, one of several flags suffices.
    fn equal_in(&self, left: &Value, right: &Value, is_in: bool) -> Result<Option<Vec<FieldSets>>, String> {
        if let Some(lefts) = left.get("concat").and_then(Value::as_array) {
            let mut any = Vec::new();
            for element in self.elements(right)? {
                let parts = element.get("concat").and_then(Value::as_array);
                let parts = parts.filter(|parts| parts.len() == lefts.len());
                let parts = parts.ok_or("a set of concatenations has another element")?;
                let mut all = vec![FieldSets::ALL];
                for (left, part) in lefts.iter().zip(parts) {
                    let Some(one) = self.equal(left, part)? else { return Ok(None) };
                    all = meet(&all, &one).map_err(many)?;
                }
                any.extend(all);
            }
            return Ok(Some(bounded(any).map_err(many)?));
        }
        let compared = compared(left)?;
        let (Compared::Field { kind, .. } | Compared::Version(kind)) = compared else { return Ok(None) };
        let set = self.values(right, kind, is_in)?;
        Ok(restricted(compared, &set))
    }

    /// Returns the values that the right side of a match stands for. The elements of a set are alternatives;
    /// flags in a list are set together or, with `is_in`, one of them suffices.
    fn values(&self, right: &Value, kind: ValueKind, is_in: bool) -> Result<IntervalSet, String> {
        if kind == ValueKind::Flags && !is_set(right) {
            let flags = flags(right)?;
            let set = (0..=255u128).filter(|byte| if is_in { byte & flags != 0 } else { *byte == flags });
            return Ok(set.map(|byte| (byte, byte)).collect());
        }
        self.elements(right)?.into_iter().map(|element| single(element, kind)).collect()
    }

    /// Checks that states of connections are not compared with several states at once: a packet has one, and
    /// nftables compares the number of all of them.
    fn check_states(&self, left: &Value, right: &Value) -> Result<(), String> {
        let is_list = right.get("|").is_some() || right.as_array().is_some_and(|list| list.len() > 1);
        let is_state = left.get("ct").and_then(|ct| ct.get("key")?.as_str()) == Some("state");
        match is_state && is_list {
            true => Err("no connection has several states at a time; write a set of states in braces".into()),
            false => Ok(()),
        }
    }

    /// Returns the packets that have the compared part.
    fn within(&self, left: &Value) -> Result<FieldSets, String> {
        if let Some(lefts) = left.get("concat").and_then(Value::as_array) {
            return lefts.iter().try_fold(FieldSets::ALL, |all, left| {
                all.and(&self.within(left)?).ok_or_else(|| "no packet has all fields of a match".into())
            });
        }
        Ok(match compared(left)? {
            Compared::Field { within, .. } => within,
            _ => FieldSets::ALL,
        })
    }

    /// Returns the packets whose field, under a mask, is equal or unequal to a value.
    fn masked(
        &self,
        left: &Value,
        mask: &Value,
        op: &str,
        right: &Value,
    ) -> Result<Option<Vec<FieldSets>>, String> {
        let (field, shift, bits, kind, within) = match compared(left)? {
            Compared::Field { field, shift, bits, kind, within } => (field, shift, bits, kind, within),
            Compared::Version(_) => return Err(NO_MASK.into()),
            Compared::OtherVersion => return Ok(None),
        };
        let mask = match kind {
            ValueKind::State | ValueKind::Interface => return Err(NO_MASK.into()),
            ValueKind::Flags => flags(mask)?,
            kind => match single(mask, kind)? {
                (mask, high) if mask == high => mask,
                _ => return Err("the mask of a match is not a single value".into()),
            },
        };
        let values = self.values(right, kind, op == "in")?;
        let equal = program::question::preimage(mask, &values, bits)
            .ok_or("the mask of a match has too many gaps")?;
        let set = match op {
            "==" | "in" => equal,
            "!=" => equal.complement(bits),
            op => return Err(format!("the operator '{op}' with a mask has no meaning here")),
        };
        Ok(Some(within.with(field, &placed(field, shift, bits, &set)).into_iter().collect()))
    }

    /// Returns the elements of the right side of a match: a single value, a list, a set, or a named set.
    fn elements<'v>(&'v self, right: &'v Value) -> Result<Vec<&'v Value>, String> {
        let list = match right {
            Value::Array(list) => list,
            Value::String(name) if name.starts_with('@') => {
                return self.named(name)?.iter().map(plain).collect();
            }
            Value::Object(object) if object.contains_key("set") => match &object["set"] {
                Value::Array(list) => list,
                single => return Ok(vec![plain(single)?]),
            },
            single => return Ok(vec![plain(single)?]),
        };
        list.iter().map(plain).collect()
    }

    /// Returns the elements of a verdict map, in braces or named.
    pub(super) fn map_elements<'v>(&'v self, data: &'v Value) -> Result<Elements<'v>, String> {
        let list = match data {
            Value::String(name) => self.named(name)?,
            data => data.get("set").and_then(Value::as_array).ok_or("a verdict map has no elements")?,
        };
        let pairs = list.iter().map(|pair| match pair.as_array().map(Vec::as_slice) {
            Some([key, verdict]) => Ok((plain(key)?, verdict)),
            _ => Err("an element of a map is no pair".to_string()),
        });
        pairs.collect()
    }

    /// Returns the elements of a named set or map.
    fn named<'v>(&'v self, name: &str) -> Result<&'v [Value], String> {
        let key = (self.table.to_string(), name.trim_start_matches('@').to_string());
        let set = self
            .sets
            .get(&key)
            .ok_or_else(|| format!("there is no set {name} in the table {}", self.table))?;
        let flags = set.get("flags").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let is_flag = |flag: &&Value| ["timeout", "dynamic"].iter().any(|name| flag.as_str() == Some(name));
        if let Some(flag) = flags.iter().find(is_flag) {
            return Err(format!("the elements of {name} change at run time (flag {flag}); remove the rule"));
        }
        if let Some(statement) = set.get("stmt").and_then(changing_of) {
            return Err(format!(
                "the statement '{statement}' of the set {name} depends on time or on earlier packets; remove the rule"
            ));
        }
        Ok(set.get("elem").and_then(Value::as_array).map_or(&[], Vec::as_slice))
    }
}

/// The parts of an element of a set, besides its value, that do not change what the set matches.
const BESIDES: [&str; 6] = ["val", "comment", "counter", "last", "timeout", "expires"];

/// Returns an element of a set without its counter and comment.
fn plain(element: &Value) -> Result<&Value, String> {
    let Some(object) = element.get("elem").and_then(Value::as_object) else { return Ok(element) };
    match object.keys().find(|key| !BESIDES.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "the statement '{key}' of an element has no meaning for `tidegate rules`; remove the rule"
        )),
        None => Ok(object.get("val").unwrap_or(element)),
    }
}

/// Returns the name of a statement, of those of a set, that does not only count packets.
pub(super) fn changing_of(statements: &Value) -> Option<String> {
    let list = match statements {
        Value::Array(list) => &list[..],
        single => std::slice::from_ref(single),
    };
    let name = |statement: &Value| match statement {
        Value::String(name) => Some(name.clone()),
        statement => statement.as_object()?.keys().next().cloned(),
    };
    list.iter().filter_map(name).find(|name| !["counter", "last"].contains(&name.as_str()))
}

/// True if the right side of a match is a set, in braces or named, whose elements are alternatives.
fn is_set(right: &Value) -> bool {
    right.get("set").is_some() || right.as_str().is_some_and(|name| name.starts_with('@'))
}

/// True if the left side of a match contains the version of the IP header.
fn tests_version(left: &Value) -> bool {
    match left.get("concat").and_then(Value::as_array) {
        Some(lefts) => lefts.iter().any(tests_version),
        None => matches!(compared(left), Ok(Compared::Version(_))),
    }
}

const NO_MASK: &str = "a mask of connection states, interfaces or protocol families has no meaning for \
                       `tidegate rules`; write the names";
const NO_ORDER: &str = "connection states, interfaces and protocol families have no order; write the names";

/// Returns the values of a field whose `bits` bits above the lowest `shift` bits have a value of a set.
fn placed(field: PacketField, shift: u32, bits: u32, set: &IntervalSet) -> IntervalSet {
    let above = 0..1u128 << (field.bits() - shift - bits);
    let moved = |high: u128| {
        let first = high << (shift + bits);
        let values = set.intersection(&IntervalSet::full(bits));
        let intervals = values.intervals().iter();
        let moved =
            intervals.map(|&(low, last)| (first | low << shift, first | last << shift | ((1 << shift) - 1)));
        moved.collect::<Vec<_>>()
    };
    above.flat_map(moved).collect()
}

/// Returns the packets whose compared part is in a set.
fn restricted(compared: Compared, set: &IntervalSet) -> Option<Vec<FieldSets>> {
    match compared {
        Compared::Field { field, shift, bits, within, .. } => {
            Some(within.with(field, &placed(field, shift, bits, set)).into_iter().collect())
        }
        // The version matches all packets or, for IPv6, none.
        Compared::Version(kind) => {
            let four = if kind == ValueKind::EtherType { 0x0800 } else { 2 };
            Some(if set.contains(four) { vec![FieldSets::ALL] } else { Vec::new() })
        }
        Compared::OtherVersion => None,
    }
}

/// Returns the part of a packet that the left side of a match names.
fn compared(left: &Value) -> Result<Compared, String> {
    let text = |kind: &str, key: &str| left.get(kind).and_then(|part| part.get(key)?.as_str());
    let field = |field: PacketField, kind, within| {
        Ok(Compared::Field { field, shift: 0, bits: field.bits(), kind, within })
    };
    let all = FieldSets::ALL;
    if let (Some(protocol), Some(name)) = (text("payload", "protocol"), text("payload", "field")) {
        return payload(protocol, name);
    }
    if let Some(base) = text("payload", "base") {
        return raw(base, left);
    }
    if let Some(key) = text("meta", "key") {
        return match key {
            "l4proto" => field(PacketField::Protocol, ValueKind::Protocol, all),
            "iifname" | "iif" => field(PacketField::InInterface, ValueKind::Interface, all),
            "oifname" | "oif" => field(PacketField::OutInterface, ValueKind::Interface, all),
            "protocol" => Ok(Compared::Version(ValueKind::EtherType)),
            "nfproto" => Ok(Compared::Version(ValueKind::NetworkProtocol)),
            key => Err(format!("'meta {key}' has no meaning for `tidegate rules`; remove the rule")),
        };
    }
    match text("ct", "key") {
        Some("state") => field(PacketField::ConnectionState, ValueKind::State, all),
        Some(key) => Err(format!("'ct {key}' has no meaning for `tidegate rules`; remove the rule")),
        None => {
            let name = left.as_object().and_then(|object| object.keys().next()).map_or("?", String::as_str);
            Err(format!("a match of '{name}' has no meaning for `tidegate rules`; remove the rule"))
        }
    }
}

/// Returns the field that a match of bytes names by their offset (`@th,16,16`).
fn raw(base: &str, left: &Value) -> Result<Compared, String> {
    let number =
        |key: &str| left.get("payload")?.get(key)?.as_u64().and_then(|number| u32::try_from(number).ok());
    let header = match base {
        "nh" => Some(HeaderLayer::Network),
        "th" => Some(HeaderLayer::Transport),
        _ => None,
    };
    let bytes = header.zip(number("offset")).zip(number("len")).and_then(|((header, offset), length)| {
        let is_whole = offset % 8 == 0 && length % 8 == 0 && length > 0;
        is_whole
            .then(|| PacketField::containing(header, offset / 8, length / 8))?
            .map(|place| (place, length))
    });
    match bytes {
        Some(((field, shift), bits)) => {
            Ok(Compared::Field { field, shift, bits, kind: ValueKind::Number, within: FieldSets::ALL })
        }
        None => Err(format!("the bytes '@{base}' have no meaning for `tidegate rules`; remove the rule")),
    }
}

/// Returns a header field that a match names.
fn payload(protocol: &str, name: &str) -> Result<Compared, String> {
    let other =
        || Err(format!("the field '{protocol} {name}' has no meaning for `tidegate rules`; remove the rule"));
    let whole = |field: PacketField, kind, within: FieldSets| {
        Ok(Compared::Field { field, shift: 0, bits: field.bits(), kind, within })
    };
    let ip = FieldSets::ALL;
    match (protocol, name) {
        ("ip", "saddr") => whole(PacketField::Source, ValueKind::Address, ip),
        ("ip", "daddr") => whole(PacketField::Destination, ValueKind::Address, ip),
        ("ip", "protocol") => whole(PacketField::Protocol, ValueKind::Protocol, ip),
        ("ip", "ttl") => whole(PacketField::TimeToLive, ValueKind::Number, ip),
        ("ip", "length") => whole(PacketField::TotalLength, ValueKind::Number, ip),
        ("ip", "frag-off") => whole(PacketField::Fragment, ValueKind::Number, ip),
        ("ip", "dscp") => Ok(Compared::Field {
            field: PacketField::TypeOfService,
            shift: 2,
            bits: 6,
            kind: ValueKind::Number,
            within: ip,
        }),
        ("ip6" | "icmpv6", _) => Ok(Compared::OtherVersion),
        ("ip" | "ether" | "arp" | "vlan", _) => other(),
        (protocol, name) => {
            let number = PROTOCOLS.iter().find(|(known, _)| *known == protocol).map(|(_, number)| *number);
            let protocols = match (number, protocol) {
                (Some(number), _) => IntervalSet::one(number.into(), number.into()),
                (None, "th") => PacketField::Protocol.all(),
                _ => return other(),
            };
            // The kernel also compares later fragments, with the bytes after their IP header, unless it has
            // put fragments together before, as it does for connection tracking.
            let within = FieldSets::of(PacketField::Protocol, protocols);
            let within = within.unwrap_or(FieldSets::ALL);
            let part = |shift| {
                Ok(Compared::Field {
                    field: PacketField::SourcePort,
                    shift,
                    bits: 8,
                    kind: if shift == 8 { ValueKind::IcmpType } else { ValueKind::Number },
                    within: within.clone(),
                })
            };
            match (protocol, name) {
                ("icmp", "type") => part(8),
                ("icmp", "code") => part(0),
                (_, "sport") => whole(PacketField::SourcePort, ValueKind::Port, within),
                (_, "dport") => whole(PacketField::DestinationPort, ValueKind::Port, within),
                ("tcp", "flags") => whole(PacketField::TcpFlags, ValueKind::Flags, within),
                _ => other(),
            }
        }
    }
}

/// Returns a single value, a range or a prefix as the lowest and highest number.
fn single(value: &Value, kind: ValueKind) -> Result<(u128, u128), String> {
    let wrong = || format!("{value} is not a value that is known here");
    if let Some([low, high]) = value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        return Ok((single(low, kind)?.0, single(high, kind)?.1));
    }
    if let Some(prefix) = value.get("prefix") {
        let length = prefix.get("len").and_then(Value::as_u64).ok_or_else(wrong)?;
        let address = prefix.get("addr").ok_or_else(wrong)?;
        // Prefixes of names are texts with a star.
        let text = format!("{}/{length}", address.as_str().ok_or_else(wrong)?);
        return question::address(&text).ok_or_else(wrong);
    }
    if let Some(number) = value.as_u64() {
        return Ok((number.into(), number.into()));
    }
    let text = value.as_str().ok_or_else(wrong)?;
    if kind == ValueKind::Address && text.contains(':') {
        return Err(format!("{value} is an address of IPv6 where one of IPv4 is expected"));
    }
    let number = |number: Option<u128>| number.map(|number| (number, number)).ok_or_else(wrong);
    match kind {
        ValueKind::Address => question::address(text).ok_or_else(wrong),
        ValueKind::Interface => question::interface(text).ok_or_else(wrong),
        ValueKind::State => question::state(text).ok_or_else(wrong),
        ValueKind::Port => number(well_known_port(text).map(u128::from)),
        ValueKind::Protocol => number(protocol_number(text).map(u128::from)),
        ValueKind::EtherType => number(match text {
            "ip" => Some(0x0800),
            "ip6" => Some(0x86dd),
            "arp" => Some(0x0806),
            "vlan" => Some(0x8100),
            _ => None,
        }),
        ValueKind::NetworkProtocol => number(match text {
            "ipv4" => Some(2),
            "ipv6" => Some(10),
            _ => None,
        }),
        ValueKind::IcmpType => number(
            match text {
                "echo-request" => Some(8),
                "echo-reply" => Some(0),
                "destination-unreachable" => Some(3),
                "source-quench" => Some(4),
                "router-advertisement" => Some(9),
                "router-solicitation" => Some(10),
                "time-exceeded" => Some(11),
                "parameter-problem" => Some(12),
                "timestamp-request" => Some(13),
                "info-request" => Some(15),
                "info-reply" => Some(16),
                "address-mask-request" => Some(17),
                "address-mask-reply" => Some(18),
                text => wire::icmp_names::kind(text),
            }
            .map(u128::from),
        ),
        ValueKind::Number => number(dscp(text).or_else(|| icmp_code(text))),
        ValueKind::Flags => flags(value).map(|flags| (flags, flags)),
    }
}

/// Returns the number of a named code of ICMP's type for unreachable destinations.
fn icmp_code(name: &str) -> Option<u128> {
    Some(match name {
        "net-unreachable" => 0,
        "host-unreachable" => 1,
        "prot-unreachable" => 2,
        "port-unreachable" => 3,
        "frag-needed" => 4,
        "net-prohibited" => 9,
        "host-prohibited" => 10,
        "admin-prohibited" => 13,
        _ => return None,
    })
}

/// Returns the number of a named DSCP value, which is `cs0` to `cs7`, `af11` to `af43` or `ef`.
fn dscp(name: &str) -> Option<u128> {
    let digit = |at: usize| {
        name.as_bytes().get(at).filter(|byte| byte.is_ascii_digit()).map(|b| u128::from(b - b'0'))
    };
    match (name.get(..2)?, name.len()) {
        ("cs", 3) => digit(2).filter(|class| *class < 8).map(|class| class << 3),
        ("af", 4) => Some(digit(2)? << 3 | digit(3)? << 1),
        ("ef", 2) => Some(46),
        _ => None,
    }
}

/// Returns the bits of TCP flags: a name, a number, a list, or names that are joined by `|`.
fn flags(value: &Value) -> Result<u128, String> {
    let parts = value.get("|").unwrap_or(value);
    match parts {
        Value::Array(list) => list.iter().try_fold(0, |all, part| Ok(all | flags(part)?)),
        Value::Number(number) => {
            number.as_u64().map(u128::from).ok_or_else(|| format!("{value} are no flags"))
        }
        Value::String(name) => {
            let name = if name == "ece" { "ecn" } else { name };
            let bit = TCP_FLAGS.iter().position(|flag| *flag == name);
            bit.map(|bit| 1 << bit).ok_or_else(|| format!("'{name}' is not a TCP flag"))
        }
        _ => Err(format!("{value} are no TCP flags")),
    }
}
