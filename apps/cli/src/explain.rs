//! The output of `tidegate check` about a configuration besides its errors: where packets end, which elements
//! and rules never act, and what prevents each mechanism.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use element::effects::{Sliced, Target, Written};
use element::obstacles::{to_order, to_slicing, to_spraying};
use engine::{Configured, Placement, Plan, Problem};
use indicatif::ProgressBar;
use lang::{Diagnostic, Span};
use packet::PacketKind;
use program::chain::Chain;
use verify::lint::regions::{is_end, obstacle, regions};
use verify::lint::rules::MOST_NAMED;
use verify::lint::{EntryFates, Findings, check};
use verify::model::diagrams::nodes_in;
use verify::run::exits;

use crate::example::run;
use crate::packets::describe as describe_packet;
use crate::reasoning::Reasoned;

/// The most warnings about elements and rules that never act that are shown with the lines of the
/// configuration. Further warnings are counted or, with `--all`, shown as text only.
const PICTURES: usize = 5;

/// The most names in one list of names; further names are counted.
const NAMES: usize = 6;

/// Follows all possible packets through the configuration at once, by symbolic execution, until `end` or
/// until `memory` bytes are used. Shows progress on a terminal.
pub(crate) fn find(reasoned: &Reasoned, end: Instant, memory: usize) -> Findings {
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(100));
    let findings = check(&reasoned.chain, Some(end), Some(nodes_in(memory)), &mut |element| {
        progress.set_message(format!("looking at {element}"))
    });
    progress.finish_and_clear();
    findings
}

/// Returns warnings about elements that no packet reaches and rules that decide about no packet. The first
/// [`PICTURES`] warnings are returned as problems, which are shown with the lines of the configuration. The
/// second result is text: all further warnings if `all`, otherwise one line with their number.
pub(crate) fn idle(reasoned: &Reasoned, findings: &Findings, all: bool) -> (Vec<Problem>, String) {
    let elements = &reasoned.graph.elements;
    let unreached = findings.unreached.iter().map(|&node| {
        let text = format!("no packet reaches '{}'", elements[node].name);
        Problem::new(Diagnostic::warning(elements[node].span, text))
    });
    let rules = findings.idle.iter().map(|rule| {
        let element = &elements[rule.node];
        let (written, named) = place(reasoned, rule.node, rule.rule);
        let covers = rule.covered_by.iter().map(|&cover| place(reasoned, rule.node, cover).1);
        let elsewhere = rule.elsewhere.map(|other| place(reasoned, rule.node, other).1);
        let why = reason(&covers.collect::<Vec<_>>(), elsewhere);
        let text = format!("'{}': {named} never decides: {why}", element.name);
        let mut diagnostic = Diagnostic::warning(written, text);
        for &cover in &rule.covered_by {
            let (span, named) = place(reasoned, rule.node, cover);
            diagnostic = diagnostic.with_related(span, format!("{named} comes first"));
        }
        Problem::new(diagnostic)
    });
    let mut problems: Vec<Problem> = unreached.chain(rules).collect();
    let more = problems.split_off(problems.len().min(PICTURES));
    let sources = &reasoned.loaded.sources;
    let text = match more.len() {
        0 => String::new(),
        _ if all => more.iter().map(|problem| problem.render(sources)).collect(),
        1 => "1 more never does anything; --all shows it\n".into(),
        n => format!("{n} more elements and rules never do anything; --all shows each of them\n"),
    };
    (problems, text)
}

/// Returns the reason why a rule of an element decides about no packet. `covers` names the rules ahead of it
/// that take all its packets. `elsewhere` names one of them that sends some of these packets to another
/// target than the rule would.
fn reason(covers: &[String], elsewhere: Option<String>) -> String {
    let fate = match elsewhere {
        None => "with the same fate".to_string(),
        Some(other) if matches!(covers, [one] if *one == other) => "with another fate".to_string(),
        Some(other) => format!("and {other} sends some of them elsewhere"),
    };
    match covers {
        [] => "no packet that arrives there matches".into(),
        [one] => format!("{one} takes its packets, {fate}"),
        several => {
            let names = several.join(", ");
            let more = if several.len() == MOST_NAMED { " and others" } else { "" };
            format!("{names}{more} take its packets together, {fate}")
        }
    }
}

/// Returns the span of the element's argument that has the rule, or that names the file with the rule, and a
/// name of the rule for messages: its line number in the configuration or in that file.
pub(crate) fn place(reasoned: &Reasoned, node: usize, rule: Written) -> (Span, String) {
    let element = &reasoned.graph.elements[node];
    let args = lang::args::split(&element.config);
    let Some(arg) = args.get(rule.argument) else { return (element.span, "a rule".into()) };
    let span = element.config_place(arg.range.clone());
    match rule.line {
        None => {
            let line = reasoned.loaded.sources.locate(span).line;
            (span, format!("line {line}"))
        }
        Some(line) => {
            let file = arg.text.split_whitespace().last().unwrap_or_default();
            (span, format!("line {line} of {file}"))
        }
    }
}

/// Passes the part of the report that follows the warnings to `give`: at which elements packets end, what is
/// not known, and the state of each mechanism. It is passed piece by piece, because running the example
/// packets takes time.
pub(crate) fn describe(reasoned: &Reasoned, findings: &Findings, end: Instant, give: &mut dyn FnMut(&str)) {
    let chain = &reasoned.chain;
    if findings.entries.is_empty() && !findings.exhausted {
        give("\nNo element gives packets.\n");
    }
    let mut set_up = 0;
    for entry in &findings.entries {
        give(&fates(reasoned, entry, end, &mut set_up));
    }
    let names =
        |nodes: &mut dyn Iterator<Item = &usize>| list(nodes.map(|&node| chain.nodes[node].name.as_str()));
    if findings.exhausted {
        give(&format!(
            "\nTime or memory was not enough to follow all packets from {} (--seconds gives more time, --memory more \
             memory up to 900M).\nElements that no packet reaches and rules that never decide are not known.\n",
            names(&mut findings.unknown.iter()),
        ));
    }
    if !findings.round.is_empty() {
        give(&format!(
            "\nPackets come back to {}; after the third time any packet is assumed possible.\n",
            names(&mut findings.round.iter()),
        ));
    }
    let mut text = String::new();
    mechanisms(&mut text, chain, findings);
    give(&text);
}

/// The number of elements set up, summed over the runs of example packets, from which on no further example
/// is run. Each run sets up all elements of the configuration.
const MOST_SET_UP: usize = 200_000;

/// Describes the fates of the packets that enter the graph at one element: the exit or the dropping element,
/// with an example packet. If a run of the example confirms the fate, the line says `such as`. Otherwise it
/// says `perhaps`, because the fate depends on the state at run time, or the example was not run.
fn fates(reasoned: &Reasoned, entry: &EntryFates, end: Instant, set_up: &mut usize) -> String {
    let chain = &reasoned.chain;
    let [exits, _] = exits([chain; 2]);
    let mut text = format!("\nPackets from {}\n", chain.nodes[entry.node].name);
    let mut rows: Vec<[String; 3]> = Vec::new();
    let (mut runs, mut left_out) = (0, 0);
    for fate in &entry.fates {
        let example = fate.example.as_ref();
        let packet = example
            .map(|example| describe_packet(&example.bytes, PacketKind::from_number(example.kind)))
            .unwrap_or_default();
        let has_room = *set_up < MOST_SET_UP;
        let ran = example.filter(|_| has_room).and_then(|example| {
            *set_up += reasoned.graph.elements.len();
            run(reasoned, entry.node, example, &exits, end)
        });
        *(if has_room { &mut runs } else { &mut left_out }) += usize::from(example.is_some());
        let is_so = ran.is_some_and(|ran| ran.met(fate, reasoned, &exits));
        let (verb, why) = match fate.reason {
            None => ("leave by", String::new()),
            Some(reason) => ("end in", format!(" ({reason})")),
        };
        rows.push([
            verb.to_string(),
            format!("{}{why}", chain.nodes[fate.node].name),
            format!("{} {packet}", if is_so { "such as" } else { "perhaps" }),
        ]);
    }
    let in_time = Instant::now() < end;
    for &node in &entry.round {
        let what = "where they end then is not known".to_string();
        rows.push(["come back to".into(), chain.nodes[node].name.clone(), what]);
    }
    let is_known = entry.opaque.is_empty() && entry.round.is_empty();
    if is_known && entry.fates.iter().all(|fate| fate.reason.is_some()) {
        rows.insert(0, ["leave by".into(), "no element".into(), String::new()]);
    }
    for &node in &entry.opaque {
        let why = chain.nodes[node].effects.opaque.unwrap_or_default();
        rows.push([
            "come to".into(),
            chain.nodes[node].name.clone(),
            format!("what it does is not known ({why})"),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(44);
    let (first, second) = (width(0), width(1));
    let mut last = "";
    for [verb, place, packet] in &rows {
        let shown = if verb == last { "" } else { verb };
        last = verb;
        let line = format!("  {shown:first$}  {place:second$}  {packet}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if !in_time {
        text.push_str("  There was no time to run all of these examples (--seconds gives more time).\n");
    } else if left_out > 0 {
        let _ = writeln!(
            text,
            "  {runs} of these {} examples were run: each run sets up all {} elements.",
            runs + left_out,
            reasoned.graph.elements.len()
        );
    }
    text
}

/// Lists the first [`NAMES`] names, and the number of names that are left out.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn mechanisms(text: &mut String, chain: &Chain, findings: &Findings) {
    text.push_str("\nMechanisms\n");
    let all: Vec<usize> = {
        let mut all: Vec<usize> = (0..chain.nodes.len()).filter(|&n| !is_end(chain, n)).collect();
        all.sort_by_key(|&node| chain.rank(node));
        all
    };
    let regions = regions(chain);
    let name = |&node: &usize| chain.nodes[node].name.as_str();
    let head = match regions.len() {
        0 => "nothing to compose".to_string(),
        1 if regions[0].len() == all.len() => "everything can be composed".to_string(),
        1 => "1 region can be composed".to_string(),
        n => format!("{n} regions can be composed"),
    };
    let mut rows = vec![("synthesizer", head)];
    rows.extend(regions.iter().map(|region| ("", format!("  {}", list(region.iter().map(name))))));
    let obstacles = in_the_way(chain, &all, |node| obstacle(chain, node));
    if !obstacles.is_empty() {
        rows.push(("", "in the way".into()));
        rows.extend(obstacles.into_iter().map(|line| ("", line)));
    }
    let mut judge = |mechanism, good: &str, bad: &str, why: &dyn Fn(usize) -> Option<String>| {
        let lines = in_the_way(chain, &all, why);
        rows.push((mechanism, if lines.is_empty() { good } else { bad }.to_string()));
        rows.extend(lines.into_iter().map(|line| ("", line)));
    };
    let effects = |node: usize| &chain.nodes[node].effects;
    judge("slicer", "shallow: nothing needs the payload", "not shallow", &|node| deep(chain, findings, node));
    judge("sprayer", "packets of one flow can go to all cores", "flows stay on one core", &|node| {
        to_spraying(effects(node))
    });
    judge("order", "packets stay in order", "order matters", &|node| {
        to_order(effects(node)).map(str::to_string)
    });
    for (mechanism, line) in rows {
        let _ = writeln!(text, "{}", format!("  {mechanism:12} {line}").trim_end());
    }
}

/// Returns the reason why an element needs more of its packets than their headers, so that it cannot process
/// sliced packets. `None` if the headers are enough, or if the element parks or joins payloads itself.
fn deep(chain: &Chain, findings: &Findings, node: usize) -> Option<String> {
    if chain.nodes[node].effects.support.sliced != Sliced::default() {
        // By its declaration, this element parks payloads or joins them with their packets.
        return None;
    }
    let known = findings.starts.get(&node).filter(|starts| !starts.is_empty());
    // If the possible starts of packets at this element (such as at the Ethernet or IP header) are not known,
    // packets are assumed to start with their IP header.
    let starts = known.cloned().unwrap_or_else(|| [0].into());
    starts.into_iter().find_map(|start| to_slicing(&chain.nodes[node].effects, start))
}

/// Returns an error for each element that needs more than the headers of packets, for `--sliced`.
pub(crate) fn not_shallow(reasoned: &Reasoned, findings: &Findings) -> Vec<Problem> {
    let (chain, elements) = (&reasoned.chain, &reasoned.graph.elements);
    let nodes = (0..chain.nodes.len()).filter(|&node| !is_end(chain, node));
    let refused = nodes.filter_map(|node| {
        let why = deep(chain, findings, node)?;
        let text = format!("'{}' cannot work on sliced packets: {why}", elements[node].name);
        Some(Problem::new(Diagnostic::error(elements[node].span, text)))
    });
    refused.collect()
}

/// Returns a warning about the first element that sends packets out of the graph, for `--sliced`. A network
/// downstream of this element may encrypt or compress the sliced packets, so that their payloads cannot be
/// joined again.
pub(crate) fn out_of_sight(reasoned: &Reasoned) -> Option<Problem> {
    let (chain, elements) = (&reasoned.chain, &reasoned.graph.elements);
    let sends = |&node: &usize| chain.nodes[node].effects.cases.iter().any(|case| case.to == Target::Send);
    let node = (0..chain.nodes.len()).find(sends)?;
    let text = format!(
        "sliced packets leave by '{}': if they are encrypted or compressed downstream (ESP), their payloads cannot be \
         joined again",
        elements[node].name
    );
    Some(Problem::new(Diagnostic::warning(elements[node].span, text)))
}

/// Returns the rows of the table of mechanisms that are about runs with several workers: elements that run on
/// one worker only, the keys of the hash that spreads flows, and elements that need the ports of IP
/// fragments.
pub(crate) fn workers(plan: &Plan, configured: &Configured) -> String {
    let placement = Placement::new(plan, &configured.effects, &configured.setup, 2);
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (id, reason) in placement.reasons.iter().enumerate() {
        let Some(reason) =
            reason.as_deref().filter(|_| !plan.inputs[id].is_empty() || !plan.outputs[id].is_empty())
        else {
            continue;
        };
        let name = plan.graph.elements[id].name.as_str();
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let mut rows = vec![("workers", "every element works on all of them".to_string())];
    if !by_reason.is_empty() {
        rows[0].1 = "on one worker only".into();
        let line = |(reason, names): (&str, Vec<&str>)| format!("  {}: {reason}", list(names.into_iter()));
        rows.extend(by_reason.into_iter().map(|reason| ("", line(reason))));
    }
    let has_own_key = |id: &usize| plan.classes[*id].notes.has_own_key;
    let own: Vec<_> = (0..plan.len()).filter(has_own_key).collect();
    if !own.is_empty() {
        let names = list(own.iter().map(|&id| plan.graph.elements[id].name.as_str()));
        let line = format!(
            "a secret key spreads flows over workers, and a key of the interface spreads them over the queues of \
             {names}: it is secret if the interface accepts a secret key, which run reports, and RSS_KEY is not \
             `own`; else it may be known"
        );
        rows.push(("keys", line));
    }
    rows.extend(fragments(&placement, plan, configured).map(|line| ("fragments", line)));
    rows.iter().map(|(what, line)| format!("{}\n", format!("  {what:12} {line}").trim_end())).collect()
}

/// Returns a message about elements that need the ports of IP fragments: with several workers, a fragment,
/// which has no ports, may go to another worker than its flow. `None` if no such element may get fragments.
fn fragments(placement: &Placement, plan: &Plan, configured: &Configured) -> Option<String> {
    let mind = placement.meet_fragments(plan, &configured.effects);
    let names = list(mind.iter().map(|&id| plan.graph.elements[id].name.as_str()));
    (!mind.is_empty()).then(|| {
        format!(
            "with several workers, fragments may go to another worker than their flow, which {names} cannot detect; \
             put an IPReassembler upstream"
        )
    })
}

/// Returns a warning about elements that need the ports of fragments, for a run with several workers.
/// `None` with one worker, or if no such element may get fragments.
pub(crate) fn warn_of_fragments(plan: &Plan, configured: &Configured, workers: usize) -> Option<Problem> {
    let placement = Placement::new(plan, &configured.effects, &configured.setup, workers);
    let first = *placement.meet_fragments(plan, &configured.effects).first()?;
    let text = fragments(&placement, plan, configured)?;
    let span = plan.graph.elements[first].span;
    (plan.owners(workers) > 1).then(|| Problem::new(Diagnostic::warning(span, format!("fragments: {text}"))))
}

/// Returns a line for each reason that `why` gives for elements, with the names of the elements that have
/// this reason.
fn in_the_way(chain: &Chain, nodes: &[usize], why: impl Fn(usize) -> Option<String>) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    let mut by_reason: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for &node in nodes {
        let Some(reason) = why(node) else { continue };
        if !reasons.contains(&reason) {
            reasons.push(reason.clone());
        }
        by_reason.entry(reason).or_default().push(node);
    }
    let names = |reason: &String| list(by_reason[reason].iter().map(|&node| chain.nodes[node].name.as_str()));
    reasons.iter().map(|reason| format!("  {}: {reason}", names(reason))).collect()
}
