//! Tests that the classes have the ports and flow codes of Click and FastClick, so that configurations for
//! them can be connected, and agnostic elements push and pull as there.
//!
//! `ports.txt` has a line for each element class of the two programs at user level, as FastClick's headers
//! have it (Click's, if FastClick does not have the class): its name, its port count code, its processing
//! code, and its flow code, unless that is `x/x`.

use std::collections::BTreeMap;

use testkit::registry;

/// The classes with other ports, each with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("ARPQuerier", "output 2 is for packets whose address is not answered (GIVE_UP)"),
    ("AggregateFilter", "has no limit of 254 outputs"),
    ("AggregateLength", "output 1, which the documentation describes, can be connected"),
    ("AggregatePacketCounter", "packets leave by the output with the number of their input"),
    ("AnonymizeIPAddr", "output 1 pushes also in a pull path"),
    ("Block", "in a pull path, packets could not go to two outputs"),
    ("Bypass", "output 1 pushes also in a pull path"),
    ("CheckGREHeader", "output 1 pushes also in a pull path"),
    ("Classifier", "without an output, there is no pattern"),
    ("FastTCPFlows", "works in a push path, too"),
    ("FastUDPSource", "works in a push path, too"),
    ("FlowCounter", "works in a pull path, too"),
    ("FlowIPManagerHMP", "pushes, as its other variants"),
    ("FlowRoundRobinSwitch", "without an output, all packets would be dropped"),
    ("FromSocket", "is a name of Socket, which can also pull"),
    ("GetEtherAddress", "output 1 pushes also in a pull path"),
    ("IP6NDSolicitor", "output 2 is for packets whose address is not answered"),
    ("KernelTunMP", "works in a pull path, too"),
    ("LookupIPRouteMP", "pushes, as the other look-ups"),
    ("PaintSwitch", "without an output, all packets would be dropped"),
    ("RoundRobinUnqueue", "packets leave by the output with the number of their input"),
    ("ToDPDKDevice", "works in a pull path, too"),
    ("ToDPDKDeviceXCHG", "works in a pull path, too"),
    ("ToSocket", "is a name of Socket, to which packets may also be pushed"),
    ("ToDevice", "packets may also be pushed to it"),
];

/// The classes with other flow codes, each with the reason.
const OTHER_FLOWS: &[(&str, &str)] = &[
    ("IPRateMonitor", "packets leave by the output with the number of their input"),
    ("PathSpinlock", "packets leave by the output with the number of their input"),
    ("RoundRobinUnqueue", "packets leave by the output with the number of their input"),
    ("TimestampAccum", "packets leave by the output with the number of their input"),
    ("TimestampAccumMP", "packets leave by the output with the number of their input"),
    ("WorkPackage", "packets leave by the output with the number of their input"),
];

/// Returns both sides of a code; a code without a slash is for both.
fn sides(code: &str) -> [&str; 2] {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    [left, right]
}

/// Returns one side of a processing code without letters at its end that repeat the letter before them: the
/// last letter is for all further ports.
fn shortened(side: &str) -> &str {
    match side.as_bytes() {
        [.., a, b] if a == b => shortened(&side[..side.len() - 1]),
        _ => side,
    }
}

#[test]
fn ports_are_those_of_click_and_fastclick() {
    let registry = registry();
    let mut others: BTreeMap<_, _> = OTHERS.iter().copied().collect();
    let mut other_flows: BTreeMap<_, _> = OTHER_FLOWS.iter().copied().collect();
    let (mut wrong, mut left_out, mut compared) = (Vec::new(), Vec::new(), 0);
    for line in include_str!("ports.txt").lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("{line}"));
        let (name, ports, processing, flow) = (word(), word(), word(), words.next().unwrap_or("x"));
        let Some(class) = registry.get(name) else {
            left_out.push(name);
            continue;
        };
        compared += 1;
        let (counts, ours, theirs) = (sides(ports), sides(class.processing), sides(processing));
        // The processing of a side without ports does not matter.
        let is_same = sides(class.ports) == counts
            && (0..2).all(|side| counts[side] == "0" || shortened(ours[side]) == shortened(theirs[side]));
        if is_same == others.remove(name).is_some() {
            wrong.push(format!("{name}: {ports} {processing}, here {} {}", class.ports, class.processing));
        }
        if (sides(class.flow) == sides(flow)) == other_flows.remove(name).is_some() {
            wrong.push(format!("{name}: flow code {flow}, here {}", class.flow));
        }
    }
    assert!(
        wrong.is_empty(),
        "codes differ without a reason in OTHERS or OTHER_FLOWS, or do not differ:\n{}",
        wrong.join("\n")
    );
    assert!(others.is_empty(), "no such classes here or in ports.txt: {others:?}");
    assert!(other_flows.is_empty(), "no such classes here or in ports.txt: {other_flows:?}");
    assert!(compared >= 250, "only {compared} are compared; not here: {}", left_out.join(" "));
}
