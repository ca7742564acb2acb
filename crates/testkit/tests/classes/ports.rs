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

/// Returns a code with both sides, without letters that repeat the letter before them.
fn both_sides(code: &str) -> String {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    let short = |side: &str| {
        let mut letters: Vec<char> = side.chars().collect();
        while letters.len() > 1 && letters[letters.len() - 1] == letters[letters.len() - 2] {
            letters.pop();
        }
        letters.into_iter().collect::<String>()
    };
    format!("{}/{}", short(left), short(right))
}

#[test]
fn ports_are_those_of_click_and_fastclick() {
    let registry = registry();
    let others: BTreeMap<_, _> = OTHERS.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in include_str!("ports.txt").lines() {
        let [name, ports, processing] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let Some(class) = registry.get(name) else { continue };
        compared += 1;
        // The processing of a side without ports does not matter.
        let side = |code: &str, output: bool| {
            let both = both_sides(code);
            let (left, right) = both.split_once('/').map(|(l, r)| (l.to_string(), r.to_string())).unwrap();
            let (none_in, none_out) = (ports.starts_with("0/"), ports.ends_with("/0"));
            if output {
                if none_out { String::new() } else { right }
            } else if none_in {
                String::new()
            } else {
                left
            }
        };
        let same = both_sides(class.ports) == both_sides(ports)
            && [false, true].iter().all(|&output| side(class.processing, output) == side(processing, output));
        if same == others.contains_key(name) {
            wrong.push(format!("{name}: {ports} {processing}, here {} {}", class.ports, class.processing));
        }
    }
    assert!(compared > 250, "{compared}");
    assert!(
        wrong.is_empty(),
        "ports differ without a reason in OTHERS, or do not differ:\n{}",
        wrong.join("\n")
    );
}
