//! A chain of several configurations as one graph: what the SNF paper calls the service chain configurator and parser.
//!
//! A `.prop` file names the configurations of network functions, says which of their interfaces are joined, and by which
//! packets come in. [`read`] gives one flat graph of all of it:
//!
//! - names of elements stand behind the name of their function (`NF_1/router/in0`), so that what functions call the same is
//!   not the same, addresses and patterns with names included;
//! - elements at the two ends of a link become a [`Cable`](mod@crate::cable), which packets cross one way;
//! - a queue that only fed a joined interface is left out: nothing waits there. From other elements that are pulled, an
//!   Unqueue pulls;
//! - what receives where nothing comes in becomes Idle;
//! - scripts that only print counts and stop are left out.
//!
//! `prop` reads the text, `function` knows interfaces, `wiring` what the topology means, `join` makes the graph. Nothing here
//! opens a file: texts come from the caller.

mod function;
mod join;
mod prop;
mod wiring;

use std::collections::{HashMap, HashSet};

use element::Registry;
use lang::{Diagnostic, Graph, LibraryText, Severity, SourceId, Sources};

use function::Function;
use join::{Group, Joined};
use wiring::listed;

/// Gives the name (for messages) and the text of a file that another file names: by its name, and by that of the other one.
///
/// # Errors
/// Why there is none, for people.
pub type Files<'a> = &'a dyn Fn(&str, &str) -> Result<(String, String), String>;

/// What besides the texts decides what a chain is.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The classes that exist. Which elements are interfaces, and which are queues, is read off them.
    pub registry: &'a Registry,
    /// Values for parameters of all configurations, as in [`lang::Options`].
    pub defines: &'a [(String, String)],
    /// Whether unknown classes are errors.
    pub checks_classes: bool,
    /// Where configurations and libraries come from.
    pub files: Files<'a>,
}

/// Reads a chain. The text of the `.prop` file is one of the sources, and the configurations are added to them. If one of
/// the diagnostics is an error, the graph is empty. Diagnostics come in the order of their places, the `.prop` file first.
pub fn read(sources: &mut Sources, source: SourceId, options: &Options<'_>) -> (Graph, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let text = sources.text(source).to_string();
    let prop = prop::parse(source, &text, &mut diagnostics);
    let own_name = sources.name(source).to_string();
    let mut classes = options.registry.names();
    // They are not there, but where they are joined nobody needs them.
    classes.extend(["FromNetmapDevice", "ToNetmapDevice"]);
    let classes = options.checks_classes.then_some(&classes[..]);
    let mut known = HashMap::new();
    let mut functions = Vec::new();
    for module in &prop.modules {
        let mut function = Function {
            name: module.name.clone(),
            graph: Graph::default(),
            devices: Vec::new(),
            is_whole: false,
        };
        match (options.files)(&module.file.text, &own_name) {
            Ok((name, text)) => {
                let id = *known.entry(name.clone()).or_insert_with(|| sources.add(name.clone(), text));
                let library = |library: &str, required_by: &str| {
                    let found = (options.files)(library, required_by);
                    let (name, text) = found.map_err(|reason| format!("{reason}; {BESIDE}"))?;
                    Ok(LibraryText { file: name.clone(), name, text })
                };
                let parsing = lang::Options {
                    defines: options.defines,
                    library: Some(&library),
                    file: Some(&name),
                    classes,
                    ..lang::Options::default()
                };
                let (graph, found) = lang::parse(sources, id, &parsing);
                function.is_whole = !has_errors(&found);
                function.devices = function::devices(&graph, options.registry);
                function.graph = graph;
                diagnostics.extend(found);
            }
            Err(reason) => {
                let message = format!("{}: {reason}", module.name.text);
                diagnostics.push(Diagnostic::error(module.file.span, message).with_hint(BESIDE));
            }
        }
        functions.push(function);
    }
    let wiring = wiring::wire(&prop, &functions, &mut diagnostics);
    let mut graph = Graph::default();
    if !has_errors(&diagnostics) {
        let joined = join::join(&functions, &wiring, options.registry);
        diagnostics.extend(notes(&joined));
        graph = joined.graph;
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    // A configuration that several functions have says its errors several times.
    let mut seen = HashSet::new();
    diagnostics.retain(|diagnostic| seen.insert((diagnostic.span, diagnostic.message.clone())));
    (graph, diagnostics)
}

/// Where files are looked for that another one names.
const BESIDE: &str =
    "names are those of files beside this one, in the current folder, or in a folder of CLICKPATH";

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// What has become of elements of its functions.
fn notes(joined: &Joined) -> Vec<Diagnostic> {
    let groups = [
        (&joined.queues, "left out, as nothing waits between functions", "such queues are never full"),
        (
            &joined.scripts,
            "left out, as they only print and stop",
            "a chain runs for as long as packets come",
        ),
        (
            &joined.silent,
            "idle, as nothing comes in there",
            "packets come in by entry points and by links that lead there",
        ),
    ];
    let note = |(group, what, hint): (&Group, &str, &str)| {
        let names: Vec<&str> = group.names.iter().map(String::as_str).collect();
        Some(Diagnostic::note(group.place?, format!("{what}: {}", listed(&names))).with_hint(hint))
    };
    groups.into_iter().filter_map(note).collect()
}
