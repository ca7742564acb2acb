//! Runs a single packet through a configuration whose interfaces are not opened, and whose files are not
//! written. Commands show such runs as examples, and check predictions by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use element::class::{ArgInfo, ArgKind};
use element::{Class, Registry};
use engine::{ClockKind, Options, Plan, Worker};
use lang::{Graph, args};
use verify::example::Example;
use verify::lint::Fate;
use verify::run::{Came, ChainExit, PACKETS, prepare};

use crate::reasoning::{Reasoned, registry_for};

/// The outcome of running one packet through a configuration.
pub(crate) struct Ran {
    /// For each exit, the packets that left by it, sorted. Exits without packets are not in the map.
    pub(crate) out: BTreeMap<String, Vec<Came>>,
    /// The elements that dropped packets, each with the reason.
    pub(crate) dropped: Vec<(String, &'static str)>,
}

struct Quiet;

impl engine::Sink for Quiet {
    fn write(&mut self, _stream: element::OutputStream, _text: std::fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

/// The longest time that a run of one packet may take. A packet that circles in the graph would never end.
const LONGEST: Duration = Duration::from_secs(1);

/// The file that elements write in place of theirs.
const NOWHERE: &str = "/dev/null";

/// Runs one packet through a configuration, from the element `entry`. Returns `None` if the configuration
/// cannot be run here ([`contain`]), or if the run takes longer than [`LONGEST`] or until after `end`.
pub(crate) fn run(
    reasoned: &Reasoned,
    entry: usize,
    example: &Example,
    exits: &BTreeMap<usize, ChainExit>,
    end: Instant,
) -> Option<Ran> {
    let left = end.saturating_duration_since(Instant::now()).min(LONGEST);
    if left.is_zero() {
        return None;
    }
    let mut graph = prepare(&reasoned.graph, &reasoned.chain, entry, example, exits);
    let (registry, unknown) = registry_for(&graph);
    if !unknown.is_empty() || !contain(&mut graph, &registry) {
        return None;
    }
    let plan = Arc::new(Plan::new(graph, &registry).ok()?);
    let configured = plan.configure(Some(1)).ok()?;
    let interrupt = Arc::new(AtomicBool::new(false));
    let options = Options {
        clock: ClockKind::Trace,
        burst: 1,
        interrupt: Arc::clone(&interrupt),
        ..Options::default()
    };
    let mut worker = Worker::new(plan, configured, Box::new(Quiet), options).ok()?;
    worker.initialize().ok()?;
    let (ended, ends) = mpsc::channel::<()>();
    let flag = Arc::clone(&interrupt);
    let watch = thread::spawn(move || {
        if ends.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Timeout) {
            flag.store(true, Ordering::Relaxed);
        }
    });
    worker.run();
    drop(ended);
    let _ = watch.join();
    let texts = exits.keys().map(|&node| worker.read(Some(node), PACKETS, ""));
    let texts: Result<Vec<String>, _> = texts.collect();
    // Packets that are still in the graph after the run leave it, or are dropped, when the worker finishes.
    let _ = worker.finish();
    if interrupt.load(Ordering::Relaxed) {
        return None;
    }
    let mut out = BTreeMap::new();
    for (exit, text) in exits.values().zip(texts.ok()?) {
        let mut packets: Vec<Came> = text.lines().filter_map(Came::read).collect();
        packets.sort();
        if !packets.is_empty() {
            out.insert(exit.name.clone(), packets);
        }
    }
    let drops = worker.report().elements.into_iter().flat_map(|element| {
        let name = element.name.clone();
        element.drops.into_keys().map(move |reason| (name.clone(), reason)).collect::<Vec<_>>()
    });
    Some(Ran { out, dropped: drops.collect() })
}

/// Makes the elements of a configuration write [`NOWHERE`] in place of their files. Returns false if the
/// configuration would have effects outside of it nevertheless: by a socket in the way of packets, or by a
/// script that writes files.
fn contain(graph: &mut Graph, registry: &Registry) -> bool {
    let on_the_way: BTreeSet<usize> = graph.connections.iter().flat_map(|c| [c.from.0, c.to.0]).collect();
    graph.elements.iter_mut().enumerate().all(|(number, element)| {
        let Some(class) = registry.get(&element.class) else { return false };
        contain_one(element, class) || !class.notes.runs_script && !on_the_way.contains(&number)
    })
}

/// Makes an element write [`NOWHERE`] in place of its files. Returns false if the element would have effects
/// outside of the configuration nevertheless.
pub(crate) fn contain_one(element: &mut lang::GraphElement, class: &Class) -> bool {
    if class.notes.runs_script {
        let writes = |word: &&str| element.config.contains(*word);
        return ![">", "save", "append"].iter().any(writes);
    }
    let written = with_files(&element.config, class);
    let is_contained = !class.notes.is_outside || written.is_some() && is_of_file(class);
    element.config = written.unwrap_or_else(|| std::mem::take(&mut element.config));
    is_contained
}

/// True if the elements of a class always use a file, and not a socket or an interface in its place.
pub(crate) fn is_of_file(class: &Class) -> bool {
    class.args.iter().any(|info| info.ty == "file" && info.kind == ArgKind::Required)
}

/// Returns a configuration string with [`NOWHERE`] in place of the names of files; `None` if it names none.
fn with_files(config: &str, class: &Class) -> Option<String> {
    let is_file = |info: &&ArgInfo| info.ty == "file";
    if !class.args.iter().any(|info| is_file(&info)) {
        return None;
    }
    let mut positional = class.args.iter().filter(|info| info.kind != ArgKind::Keyword);
    let mut has_files = false;
    let args = args::split(config).into_iter().map(|arg| {
        let keyword = args::split_spaces(&arg.text).into_iter().next().map(|word| word.text);
        let named = class.args.iter().find(|info| Some(info.name) == keyword.as_deref());
        match named.or_else(|| positional.next()).filter(is_file) {
            Some(info) => {
                has_files = true;
                format!("{} {NOWHERE}", info.name)
            }
            None => arg.text,
        }
    });
    let text = args.collect::<Vec<_>>().join(", ");
    has_files.then_some(text)
}

impl Ran {
    /// Returns the reasons for which packets were dropped, by any element.
    pub(crate) fn reasons(&self) -> BTreeSet<&'static str> {
        self.dropped.iter().map(|end| end.1).collect()
    }

    /// True if the packet had the fate that a check predicted: it left by the predicted exit, or left by no
    /// exit and was dropped by the predicted element for the predicted reason.
    pub(crate) fn met(&self, fate: &Fate, reasoned: &Reasoned, exits: &BTreeMap<usize, ChainExit>) -> bool {
        match fate.reason {
            None => exits.get(&fate.node).is_some_and(|exit| self.out.contains_key(&exit.name)),
            Some(reason) => {
                let name = &reasoned.chain.nodes[fate.node].name;
                self.out.is_empty()
                    && self.dropped.iter().any(|end| (&end.0, end.1) == (name, reason.as_str()))
            }
        }
    }
}
