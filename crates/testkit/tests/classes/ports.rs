//! Tests that the classes have the ports of Click and FastClick, so that configurations for them can be
//! connected.
//!
//! `ports.txt` has a line for each element class of the two programs at user level, as FastClick's headers
//! have it (Click's, if FastClick does not have the class): its name, its port count code and its processing
//! code.

use std::collections::BTreeMap;

use testkit::registry;

/// The classes with other ports, each with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("ARPQuerier", "output 2 is for packets whose address is not answered (GIVE_UP)"),
    ("AggregateFilter", "has no limit of 254 outputs"),
    ("AggregateLength", "output 1, which the documentation describes, can be connected"),
    ("AggregatePacketCounter", "packets leave by the output with the number of their input"),
    ("AnonymizeIPAddr", "output 1 pushes also in a pull path"),
    ("Classifier", "without an output, there is no pattern"),
    ("FastTCPFlows", "works in a push path, too"),
    ("FastUDPSource", "works in a push path, too"),
    ("FlowCounter", "works in a pull path, too"),
    ("FromTcpdump", "is a name of FromDump, which has an output for packets that are not IP packets"),
    ("IP6NDSolicitor", "output 2 is for packets whose address is not answered"),
    ("LookupIPRouteMP", "pushes, as the other look-ups"),
    ("PaintSwitch", "without an output, all packets would be dropped"),
    ("ToDPDKDevice", "works in a pull path, too"),
    ("ToDevice", "packets may also be pushed to it"),
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
    let (mut wrong, mut left_out, mut compared) = (Vec::new(), Vec::new(), 0);
    for line in include_str!("ports.txt").lines() {
        let [name, ports, processing] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
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
    }
    assert!(
        wrong.is_empty(),
        "ports differ without a reason in OTHERS, or do not differ:\n{}",
        wrong.join("\n")
    );
    assert!(others.is_empty(), "no such classes here or in ports.txt: {others:?}");
    assert!(compared >= 250, "only {compared} are compared; not here: {}", left_out.join(" "));
}
