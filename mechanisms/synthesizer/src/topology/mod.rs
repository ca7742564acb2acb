//! The linker: it joins the configurations of several network functions into one chain (service chain
//! configurator and parser in the SNF paper).
//!
//! A `.prop` file names the configurations of the network functions, the interfaces that are joined, and
//! the interfaces at which packets enter. [`read`] returns one flat graph of all of it:
//!
//! - The name of a function is a prefix of the names of its elements (`NF_1/router/in0`). So equal names in
//!   different functions do not collide, including names of addresses and patterns.
//! - The elements at the two ends of a link become a [`Cable`](mod@crate::cable), which packets cross in
//!   one direction.
//! - A queue that only fed a joined interface, and that no element mentions, is removed, because packets do
//!   not wait at a cable. After other elements that packets are pulled from, an Unqueue is inserted.
//! - A receiver of an interface at which no packets enter becomes Idle.
//! - Scripts that only print, read and save values, wait or stop are removed.
//!
//! `prop` parses the text, `function` finds the interfaces of each configuration, `wiring` resolves the
//! topology, and `join` makes the graph. No function of this module opens a file: texts come from the
//! caller.

mod function;
mod join;
mod prop;
mod wiring;

use std::collections::{HashMap, HashSet};

use element::Registry;
use lang::{Diagnostic, Graph, LibraryText, Severity, SourceId, Sources};

use function::Function;
use join::{Joined, Removed};
use wiring::listed;

/// A function that finds a file. Its arguments are the name of the file, and the name of the file that
/// refers to it. It returns the name that messages use, and the text.
///
/// # Errors
/// If there is no such file. The error is the reason as text for people.
pub type FindFile<'a> = &'a dyn Fn(&str, &str) -> Result<(String, String), String>;

/// The inputs of linking, besides the text of the `.prop` file.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The known element classes. They determine which elements are interfaces or queues.
    pub registry: &'a Registry,
    /// Values for parameters of all configurations, as in [`lang::Options`].
    pub defines: &'a [(String, String)],
    /// True if an element of unknown class is an error.
    pub checks_classes: bool,
    /// The function that finds configurations and libraries.
    pub files: FindFile<'a>,
}

/// Reads a chain: parses the `.prop` file `source`, and all configurations that it names, and links them.
/// The configurations are added to `sources`. Returns the graph, and the diagnostics sorted by position,
/// those of the `.prop` file first. If any diagnostic is an error, the graph is empty.
pub fn read(sources: &mut Sources, source: SourceId, options: &Options<'_>) -> (Graph, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let text = sources.text(source).to_string();
    let prop = prop::parse(source, &text, &mut diagnostics);
    let own_name = sources.name(source).to_string();
    let mut classes = options.registry.names();
    // Classes that Tidegate does not have, but that count as known: at joined interfaces, their elements
    // are replaced.
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
                    let (name, text) = found.map_err(|reason| format!("{reason}; {SEARCHED}"))?;
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
                diagnostics.push(Diagnostic::error(module.file.span, message).with_hint(SEARCHED));
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
    // If several functions have the same configuration, its errors occur several times and are reported
    // once.
    let mut seen = HashSet::new();
    diagnostics.retain(|diagnostic| seen.insert((diagnostic.span, diagnostic.message.clone())));
    (graph, diagnostics)
}

/// The hint about the folders that are searched for a file.
const SEARCHED: &str =
    "files are searched in the folder of this file, in the current folder and in the folders of CLICKPATH";

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Returns notes for the user about the elements that linking removed or replaced.
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
    let note = |(group, what, hint): (&Removed, &str, &str)| {
        let names: Vec<&str> = group.names.iter().map(String::as_str).collect();
        Some(Diagnostic::note(group.place?, format!("{what}: {}", listed(&names))).with_hint(hint))
    };
    groups.into_iter().filter_map(note).collect()
}
