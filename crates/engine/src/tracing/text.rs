//! Traces of packets as text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use element::view::PacketFields;

use super::record::{StepOutcome, TraceStep, Traces};

/// The names of fields that the first line about a packet has, in this order.
const SUMMARY: &[(&str, &str)] = &[
    ("ARP operation", "ARP "),
    ("ARP sender", "from "),
    ("ARP target", "for "),
    ("VLAN", "VLAN "),
    ("IP protocol", ""),
    ("next header", ""),
];

/// Describes a packet in a few words: protocol, addresses, ports, flags and length.
fn summary(view: &PacketFields) -> String {
    let value =
        |name: &str| view.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
    let mut words: Vec<String> = Vec::new();
    for (name, before) in SUMMARY {
        words.extend(value(name).map(|value| format!("{before}{value}")));
    }
    let end = |address: &str, port: &str| {
        let (address, port) = (value(address)?, value(port));
        Some(match port {
            Some(port) if address.contains(':') => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address.to_string(),
        })
    };
    if let (Some(from), Some(to)) =
        (end("IP source", "source port"), end("IP destination", "destination port"))
    {
        words.push(format!("{from} > {to}"));
    } else if words.is_empty() {
        words.extend(value("Ethernet type").map(|kind| format!("Ethernet type {kind}")));
    }
    words.extend(value("TCP flags").map(|flags| format!("[{flags}]")));
    let length = value("length").unwrap_or("0");
    let details = [("TTL", "TTL"), ("hop limit", "hop limit")];
    let details = details.iter().filter_map(|(name, text)| Some(format!(", {text} {}", value(name)?)));
    format!("{}{}, {length} bytes", words.join(" "), details.collect::<String>())
}

/// Describes the way of each packet. The function `place` returns the place in the configuration of the rule
/// that an element has applied, if it knows the place.
pub fn trace_text(steps: &[TraceStep], place: &dyn Fn(&TraceStep) -> Option<String>) -> String {
    let mut text = String::new();
    let mut packets: BTreeMap<u32, Vec<&TraceStep>> = BTreeMap::new();
    for step in steps {
        packets.entry(step.packet).or_default().push(step);
    }
    let names: BTreeMap<usize, &str> = steps.iter().map(|step| (step.element, step.name.as_str())).collect();
    for (packet, steps) in packets {
        let Some(first) = steps.first() else { continue };
        let origin = match first.made_from {
            Some(other) => format!("made from packet {other} by {}", first.name),
            None => format!("enters at {}", first.name),
        };
        let _ = writeln!(text, "packet {packet}, {origin}: {}", summary(&first.view));
        let several = steps.iter().any(|step| step.worker != first.worker);
        for step in &steps {
            let worker = if several { format!(", worker {}", step.worker) } else { String::new() };
            let came =
                step.input.filter(|&input| input > 0).map_or(String::new(), |input| format!("[{input}] "));
            let outcome = outcome_text(step, &names);
            let _ = writeln!(text, "  {came}{} :: {}{worker}: {outcome}", step.name, step.class);
            details(&mut text, step, place);
        }
    }
    text
}

fn outcome_text(step: &TraceStep, names: &BTreeMap<usize, &str>) -> String {
    let held = if step.was_held { "has held it until now; " } else { "" };
    let what = match &step.outcome {
        StepOutcome::Left { output, to: Some((to, input)) } => {
            let input = if *input == 0 { String::new() } else { format!("[{input}] ") };
            match names.get(to) {
                Some(name) => format!("output {output}, to {input}{name}"),
                None => format!("output {output}"),
            }
        }
        StepOutcome::Left { output, to: None } => format!("dropped: output {output} is not connected"),
        StepOutcome::HandedOver => "handed over to another worker".into(),
        StepOutcome::Held => "held".into(),
        StepOutcome::HeldOrDropped(reasons) => format!("held, or dropped: {}", reasons.join(" or ")),
        StepOutcome::Sent => "sent out of the graph".into(),
        StepOutcome::Dropped(reasons) => format!("dropped: {}", reasons.join(" or ")),
        StepOutcome::Consumed => "ends here, neither sent nor dropped".into(),
        StepOutcome::Lost => "dropped later, after it was seen here last".into(),
    };
    format!("{held}{what}")
}

fn details(text: &mut String, step: &TraceStep, place: &dyn Fn(&TraceStep) -> Option<String>) {
    if let Some(case) = &step.case {
        let likely = if case.is_likely { " (likely)" } else { "" };
        let at = place(step).map_or(String::new(), |place| format!(", {place}"));
        let line = case.written.and_then(|place| place.line);
        match (&case.rule, line) {
            (Some(rule), _) => drop(writeln!(text, "      rule '{rule}'{at}{likely}")),
            (None, Some(line)) if at.is_empty() => drop(writeln!(text, "      rule in line {line}{likely}")),
            (None, Some(_)) => drop(writeln!(text, "      rule{at}{likely}")),
            (None, None) => {}
        }
        for (table, hit) in &case.state {
            let found = match hit {
                Some(true) => "an entry was found or made",
                Some(false) => "no entry was found",
                None => "an entry may have been found or made",
            };
            let _ = writeln!(text, "      {table}: {found}{likely}");
        }
    }
    for change in &step.changes {
        let line = match (&change.before, &change.after) {
            (Some(before), Some(after)) => format!("{}: {before} -> {after}", change.field),
            (None, Some(after)) => format!("{}: none -> {after}", change.field),
            (Some(before), None) => format!("{}: {before} -> none", change.field),
            (None, None) => change.field.to_string(),
        };
        let _ = writeln!(text, "      {line}");
    }
}

/// The text of the traces so far, and how many packets are still wanted.
impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", trace_text(&self.steps(), &|_| None))?;
        match self.wanted() {
            _ if self.is_full() => writeln!(f, "tracing has ended: no more steps are recorded"),
            0 => Ok(()),
            1 => writeln!(f, "1 more packet is wanted"),
            more => writeln!(f, "{more} more packets are wanted"),
        }
    }
}
