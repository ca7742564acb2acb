//! `tidegate trace-packet`: what a configuration does with one packet.

mod described;
mod picture;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::{Reader, Writer, WriterOptions};
use engine::{ClockKind, Options, Plan, StandardStreams, StepOutcome, TraceOrder, TraceStep, Traces, Worker};
use lang::Graph;
use lang::args::quote;
use serde_json::{Value, json};
use verify::run::{SILENCE, SINK};
use wire::LinkType;

use crate::analyze::{can_write, save};
use crate::load::{Input, Loaded};
use crate::reasoning::Reasoned;
use crate::status::{Failure, SUCCESS, Status};
use crate::{example, explain, print, reasoning};
use described::Bytes;

const AFTER: &str = "A packet is described as
  '[ether MAC > MAC] [vlan ID] tcp|udp ADDRESS:PORT > ADDRESS:PORT'
  '... icmp ADDRESS > ADDRESS' or '... ip PROTOCOL ADDRESS > ADDRESS'
followed by any of: ttl N, tos N, length N (of the frame), syn, ack, fin, rst, psh, urg.

The packet is traced in a run of its own: no interface is opened, and no file is written. \
    State, such as the mappings of a translator, is empty at first; --earlier fills it by the packets of the capture before.";

/// The arguments of `trace-packet`.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The packet as hexadecimal digits
    #[arg(long, value_name = "HEX", conflicts_with = "from", value_parser = described::bytes, allow_hyphen_values = true)]
    packet: Option<Bytes>,
    /// The packet with number N of a capture, counted from 1; without #N, its first packet
    #[arg(long, value_name = "CAPTURE#N", value_parser = parse_from, allow_hyphen_values = true)]
    from: Option<(PathBuf, u64)>,
    /// Let the packets of the capture before this packet go first, so that there is state from them
    #[arg(long, requires = "from")]
    earlier: bool,
    /// The element at which the packet enters; needed only if packets enter at several
    #[arg(long, value_name = "ELEMENT")]
    at: Option<String>,
    /// The packet starts with its IP header, not with an Ethernet header
    #[arg(long, conflicts_with = "from")]
    ip: bool,
    /// Write the result as JSON to this file; `-` for standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Draw the graph with the way of the packet into this file, as SVG, or for Graphviz if it ends in .dot
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// The packet to trace: its number in a capture, and whether the packets before it go first.
struct Traced {
    capture: PathBuf,
    number: u64,
    earlier: bool,
    /// The file that is removed at the end, if the capture was made for this command.
    _made: Option<tempfile::NamedTempFile>,
}

pub(crate) fn run(args: &Args) -> Status {
    can_write(&args.json)?;
    can_write(&args.picture)?;
    let mut input = args.input.clone();
    // With a text instead of a file, the first word may be the packet.
    let is_word =
        |file: &PathBuf| input.expression.is_some() && described::is_description(&file.to_string_lossy());
    let first = input.file.take_if(|file| is_word(file)).map(|file| file.to_string_lossy().into_owned());
    let words = first.into_iter().chain(input.defines);
    let (described, defines): (Vec<String>, Vec<String>) =
        words.partition(|word| described::is_description(word));
    input.defines = defines;
    let traced = find(args, &described)?;
    let reasoned = reasoning::read(&input)?;
    reasoned.loaded.show();
    if reasoned.loaded.has_errors() {
        return Err(Failure::shown());
    }
    let entry = entry(&reasoned, args.at.as_deref())?;
    let steps = trace(&reasoned, entry, &traced)?;
    if let Some(file) = &args.picture {
        let picture = picture::draw(&reasoned.graph, &reasoned.loaded.name, &steps, is_dot(file))?;
        save(file, &picture)?;
    }
    if let Some(file) = &args.json {
        let text =
            serde_json::to_string_pretty(&json(&reasoned, &steps)).map_err(|error| error.to_string())?;
        save(file, &(text + "\n"))?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        print(&engine::trace_text(&steps, &|step| place(&reasoned, step)))?;
    }
    Ok(SUCCESS)
}

fn is_dot(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "dot")
}

/// Finds the packet to trace. A packet that is not from a capture is written to a capture of its own.
fn find(args: &Args, described: &[String]) -> Result<Traced, Failure> {
    let frame = match (described, &args.packet, &args.from) {
        ([], None, Some((capture, number))) => return Ok(in_capture(capture, *number, args.earlier)?),
        ([], Some(Bytes(bytes)), None) => bytes.clone(),
        ([description], None, None) => {
            let frame = described::frame(description)?;
            frame[if args.ip { 14 } else { 0 }..].to_vec()
        }
        ([], None, None) => {
            let text = format!(
                "which packet? Give --packet HEX, --from CAPTURE#N, or a description: {}",
                described::FORMS
            );
            return Err(Failure::usage(text));
        }
        _ => {
            return Err(Failure::usage(
                "only one packet can be traced: give one description, --packet or --from",
            ));
        }
    };
    let link = if args.ip { LinkType::RawIp } else { LinkType::Ethernet };
    let made = tempfile::NamedTempFile::new().map_err(|error| format!("a temporary file: {error}"))?;
    let mut writer = Writer::new(made.as_file(), WriterOptions { link, ..WriterOptions::default() });
    let written = writer.write(0, frame.len() as u32, [&frame[..]]).and_then(|()| writer.flush());
    drop(writer);
    written.and_then(|()| made.as_file().flush()).map_err(|error| format!("a temporary file: {error}"))?;
    Ok(Traced { capture: made.path().to_path_buf(), number: 1, earlier: false, _made: Some(made) })
}

/// Parses `CAPTURE#N`. The number is 1 without #N.
fn parse_from(text: &str) -> Result<(PathBuf, u64), String> {
    match text.rsplit_once('#') {
        // A file with '#' in its name is a capture without a number.
        Some((name, number)) if !Path::new(text).exists() => {
            let number = number.parse().ok().filter(|&number: &u64| number > 0);
            let number = number.ok_or("the number of the packet after '#' has to be 1 or more")?;
            Ok((name.into(), number))
        }
        _ if text.starts_with('-') || text.is_empty() => Err("this is no capture".into()),
        _ => Ok((text.into(), 1)),
    }
}

/// Checks that a capture has a packet of this number.
fn in_capture(capture: &Path, number: u64, earlier: bool) -> Result<Traced, String> {
    let mut reader = Reader::open(capture).map_err(|error| error.to_string())?;
    let mut count = 0;
    while count < number {
        match reader.next().map_err(|error| error.to_string())? {
            Some(_) => count += 1,
            None => {
                let name = capture.display();
                return Err(format!("{name} has only {count} packets; there is no packet {number}"));
            }
        }
    }
    Ok(Traced { capture: capture.into(), number, earlier, _made: None })
}

/// Returns the number of the element at which packets enter, `at` if it is given.
fn entry(reasoned: &Reasoned, at: Option<&str>) -> Result<usize, String> {
    let entries = reasoned.chain.entries();
    let name = |&node: &usize| reasoned.chain.nodes[node].name.as_str();
    let names = || entries.iter().map(name).collect::<Vec<_>>().join(", ");
    match (at, &entries[..]) {
        (_, []) => Err("no element of the configuration gives packets".into()),
        (None, [only]) => Ok(*only),
        (None, _) => Err(format!("packets enter at several elements; choose one with --at: {}", names())),
        (Some(at), _) => entries
            .iter()
            .copied()
            .find(|node| name(node) == at)
            .ok_or_else(|| format!("--at: no packets enter at '{at}', but at: {}", names())),
    }
}

/// Runs the configuration with the packet, and returns the steps that it made. Elements have their own
/// classes in the steps, also where others took their places.
fn trace(reasoned: &Reasoned, entry: usize, traced: &Traced) -> Result<Vec<TraceStep>, Failure> {
    let (graph, registry) = prepare(reasoned, entry, traced)?;
    let loaded = &reasoned.loaded;
    let failed = |problems: &[engine::Problem]| {
        problems.iter().for_each(|problem| crate::show(format_args!("{}", problem.render(&loaded.sources))));
        Failure::shown()
    };
    let plan = Arc::new(Plan::new(graph, &registry).map_err(|problems| failed(&problems))?);
    let configured = plan.configure(Some(1)).map_err(|problems| failed(&problems))?;
    let traces = Arc::new(Traces::default());
    let skipped = if traced.earlier { traced.number } else { 1 };
    traces.begin(TraceOrder::one(&reasoned.chain.nodes[entry].name, skipped));
    let options = Options {
        clock: ClockKind::Trace,
        burst: 1,
        traces: Some(Arc::clone(&traces)),
        ..Options::default()
    };
    let streams = Box::new(StandardStreams::new(Default::default()).yielding_output(true));
    let mut worker = Worker::new(plan, configured, streams, options).map_err(|error| error.to_string())?;
    worker.initialize().map_err(|problem| failed(&[*problem]))?;
    worker.run();
    let finished = worker.finish();
    worker.flush();
    finished.map_err(|errors| errors.join("\n"))?;
    let mut steps = traces.steps();
    if steps.is_empty() {
        let text = format!("the packet did not enter at {}", reasoned.chain.nodes[entry].name);
        return Err(text.into());
    }
    for step in &mut steps {
        step.class.clone_from(&reasoned.graph.elements[step.element].class);
    }
    Ok(steps)
}

/// Returns the configuration for the run: the packet enters at the element `entry`, all other entries give
/// nothing, and no file is written. Elements that would use an interface or a socket are replaced by sinks.
fn prepare(
    reasoned: &Reasoned,
    entry: usize,
    traced: &Traced,
) -> Result<(Graph, element::Registry), Failure> {
    let (registry, unknown) = reasoning::registry_for(&reasoned.graph);
    if let Some(class) = unknown.first() {
        return Err(format!("the class {class} is not known, so that no packet can be traced").into());
    }
    let mut graph = reasoned.graph.clone();
    let entries = reasoned.chain.entries();
    let source = quote(traced.capture.display().to_string());
    let first = if traced.earlier { 1 } else { traced.number };
    for (number, element) in graph.elements.iter_mut().enumerate() {
        if number == entry {
            element.class = source::NAME.into();
            element.config = format!("{source}, {first}, {}", traced.number);
            continue;
        }
        if entries.contains(&number) {
            element.class = SILENCE.name.into();
            element.config.clear();
            continue;
        }
        let Some(class) = registry.get(&element.class) else { continue };
        // What sends packets elsewhere than to a file sends them to an interface or a socket.
        let is_interface = reasoned.chain.is_exit(number) && !example::is_of_file(class);
        if is_interface || !example::contain_one(element, class) {
            element.class = SINK.name.into();
            element.config = "\"\"".into();
        }
    }
    Ok((graph, registry.with(source::CLASSES)))
}

/// Returns the place of the rule that decided in a step.
fn place(reasoned: &Reasoned, step: &TraceStep) -> Option<String> {
    let written = step.case.as_ref()?.written?;
    let (span, line) = explain::place(reasoned, step.element, written);
    let Loaded { sources, .. } = &reasoned.loaded;
    Some(match written.line {
        Some(_) => line,
        None => {
            let at = sources.locate(span);
            format!("{}:{}", at.file, at.line)
        }
    })
}

fn json(reasoned: &Reasoned, steps: &[TraceStep]) -> Value {
    let step = |step: &TraceStep| {
        let fields: BTreeMap<&str, &str> =
            step.view.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let changes: Vec<Value> = step
            .changes
            .iter()
            .map(|change| json!({"field": change.field, "before": change.before, "after": change.after}))
            .collect();
        let name = |element: usize| reasoned.graph.elements[element].name.as_str();
        let outcome = match &step.outcome {
            StepOutcome::Left { output, to } => json!({
                "what": "left", "output": output,
                "to": to.map(|(element, _)| name(element)), "input": to.map(|(_, input)| input),
            }),
            StepOutcome::HandedOver => json!({"what": "handed over"}),
            StepOutcome::Held => json!({"what": "held"}),
            StepOutcome::HeldOrDropped(reasons) => json!({"what": "held or dropped", "reasons": reasons}),
            StepOutcome::Sent => json!({"what": "sent"}),
            StepOutcome::Dropped(reasons) => json!({"what": "dropped", "reasons": reasons}),
            StepOutcome::Consumed => json!({"what": "consumed"}),
            StepOutcome::Lost => json!({"what": "dropped later"}),
        };
        let case = step.case.as_ref().map(|case| {
            let state: BTreeMap<&str, Option<bool>> = case.state.iter().copied().collect();
            json!({"rule": case.rule, "place": place(reasoned, step), "state": state, "certain": !case.is_likely})
        });
        json!({
            "packet": step.packet, "made_from": step.made_from, "time_ns": step.time.0,
            "element": step.name, "class": step.class, "input": step.input, "was_held": step.was_held,
            "fields": fields, "changes": changes, "case": case, "outcome": outcome,
        })
    };
    let ended: BTreeSet<u32> = steps.iter().map(|step| step.packet).collect();
    json!({
        "configuration": reasoned.loaded.name,
        "packets": ended.len(),
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
    })
}
