//! Loads configurations: reads and parses a file or text, builds the plan and the elements, and shows
//! problems to people.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ariadne::{Color, Config, Label, Report, ReportKind};
use capture::Content;
use device::dpdk::RunningDpdk;
use element::steering::Spreading;
use element::{Absent, Class, Registry};
use engine::{Configured, Declarations, Plan, Problem};
use lang::{Diagnostic, Graph, LibraryText, Parameters, Severity, Sources, Span};
use synthesizer::topology;

use crate::messages::{is_journal, say};
use crate::status::Failure;

/// The default of `run --burst`: the most packets per batch.
pub(crate) const BURST: usize = 32;

/// The arguments that name the configuration: a file or a text, values of parameters, and arguments for
/// DPDK.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Input {
    /// The configuration, or a chain of several (`.prop`); `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "expression")]
    pub(crate) file: Option<PathBuf>,
    /// The text of the configuration, instead of a file
    #[arg(short = 'e', long, value_name = "TEXT")]
    pub(crate) expression: Option<String>,
    /// Start DPDK with its own arguments, up to `--`: `--dpdk --no-huge --vdev=net_tap0 -- FILE`
    #[arg(long, value_name = "ARGUMENT", num_args = 0.., allow_hyphen_values = true, value_terminator = "--")]
    pub(crate) dpdk: Option<Vec<String>>,
    /// Values for the configuration's parameters
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}

impl Input {
    /// Returns the file of the configuration; `None` for a text and for standard input.
    pub(crate) fn own_file(&self) -> Option<&Path> {
        let file = self.file.as_deref().filter(|_| self.expression.is_none());
        file.filter(|file| *file != Path::new("-"))
    }
}

/// A configuration that has been read and parsed, with its problems so far.
pub(crate) struct Loaded {
    pub(crate) sources: Sources,
    pub(crate) graph: Graph,
    pub(crate) problems: Vec<Problem>,
    /// The name of the configuration in messages: its file, or a name such as `config` without a file.
    pub(crate) name: String,
    /// The text of the configuration as it was written; of a chain, the text of the joined configuration.
    pub(crate) text: String,
    /// The current declarations (effects, such as what an element reads and writes) of the elements of a run,
    /// by name. Empty for a configuration that does not run; then the declarations follow from the arguments
    /// of the elements.
    pub(crate) declared: Declarations,
}

/// The most errors that are shown, and the most warnings; further problems are only counted.
const MOST_SHOWN: usize = 20;

/// The length of a line in bytes above which a problem is shown as text only, without the line.
const LONGEST_LINE: usize = 1000;

/// The classes that a program with elements of its own adds to the product's classes.
static OWN_CLASSES: OnceLock<&[&Class]> = OnceLock::new();

/// Adds a program's own classes to the product's classes. Call this once, before any configuration is read.
pub(crate) fn add_classes(own: &'static [&'static Class]) {
    OWN_CLASSES.get_or_init(|| own);
}

/// Returns a registry of all classes that configurations can use.
pub(crate) fn registry() -> Registry {
    let own = OWN_CLASSES.get().copied().unwrap_or_default();
    Registry::new()
        .with(nf::CLASSES)
        .with(device::CLASSES)
        .with(reframer::CLASSES)
        .with(juggler::CLASSES)
        .with(slicer::CLASSES)
        .with(synthesizer::CLASSES)
        .with(runtime::CLASSES)
        .with(own)
}

/// Reads the text of a configuration, from standard input if the name is `-`. Returns the name of the
/// configuration in messages, and the text. The error is a message for the user.
pub(crate) fn read_text(file: &Path) -> Result<(String, String), String> {
    if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| format!("standard input: {error}"))?;
        return Ok(("<stdin>".into(), without_mark(text)));
    }
    let name = file.display().to_string();
    if file.is_dir() {
        return Err(format!("{name}: this is a folder; name a configuration"));
    }
    match std::fs::read(file) {
        Ok(bytes) => match not_text(&name, &bytes) {
            Some(text) => Err(text),
            None => Ok((name, without_mark(String::from_utf8_lossy(&bytes).into_owned()))),
        },
        Err(error) => Err(format!("{name}: {}", crate::reason(&error))),
    }
}

/// Returns the end of a message about a file that does not exist: the file of the same folder with the
/// nearest name. Empty if the file exists or no name is near.
fn near_file(file: &Path) -> String {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let there = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let names: Vec<String> = there.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let name = file.file_name().and_then(OsStr::to_str).filter(|_| file != Path::new("-") && !file.exists());
    let near = name.and_then(|name| lang::nearest(name, names.iter().map(String::as_str)));
    near.map_or_else(String::new, |near| format!("; did you mean {}?", file.with_file_name(near).display()))
}

/// Removes the byte order mark that some editors write at the start of a text.
fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map(String::from).unwrap_or(text)
}

/// Returns the message about a file that is no configuration, because it is a capture, compressed, or in
/// UTF-16. Returns `None` for any other file.
fn not_text(name: &str, bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Some(format!("{name}: this is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"));
    }
    Some(match capture::content(bytes)? {
        Content::Capture => format!(
            "{name}: this is a capture, not a configuration; write `tidegate analyze {name}`, or \
             `tidegate run FILE IN={name}` with a configuration that has a parameter IN"
        ),
        Content::Compressed(format) => format!(
            "{name}: this is compressed with {format}, and so no configuration; if it is a capture, write \
             `tidegate analyze {name}`"
        ),
        Content::Unread { format, command } => format!(
            "{name}: this is compressed with {format}, and so no configuration; unpack it first: {command} {name}"
        ),
    })
}

impl Input {
    /// Reads and parses the configuration. With `checks_classes`, unknown classes are errors. A value for a
    /// parameter that the configuration does not have, and a second value for a parameter, are also errors.
    pub(crate) fn load(&self, checks_classes: bool) -> Result<Loaded, String> {
        let mut loaded = self.load_with_any_values(checks_classes)?;
        let parameters = loaded.graph.parameters.clone();
        check_values(&mut loaded, &self.values()?, &parameters, Severity::Error);
        Ok(loaded)
    }

    /// Returns the names and values of parameters, in the order of the command line.
    ///
    /// # Errors
    /// If a word is not NAME=VALUE: the message for the user.
    pub(crate) fn values(&self) -> Result<Vec<(String, String)>, String> {
        // With `-e` there is no file, so the word in the place of the file is a parameter, too.
        let first = self.file.as_ref().filter(|_| self.expression.is_some());
        let words = first.map(|first| first.display().to_string()).into_iter().chain(self.defines.clone());
        let value = |word: String| match word.split_once('=') {
            Some(("", _)) => Err(format!("'{word}' has no name before '='; write NAME=VALUE")),
            Some((name, value)) => Ok((name.to_string(), value.to_string())),
            None => Err(format!(
                "'{word}' is not NAME=VALUE, which gives a parameter a value; only one configuration can be given"
            )),
        };
        words.map(value).collect()
    }

    /// Reads and parses the configuration, without checking that it has a parameter for each given value.
    /// `verify` uses this for two configurations that share values.
    pub(crate) fn load_with_any_values(&self, checks_classes: bool) -> Result<Loaded, String> {
        let defines = self.values()?;
        let file = self.file.as_ref().filter(|_| self.expression.is_none());
        let (name, text) = match (&self.expression, file) {
            (Some(text), _) => ("config".to_string(), text.clone()),
            (None, Some(file)) => read_text(file).map_err(|error| error + &near_file(file))?,
            (None, None) => return Err("no configuration given".into()),
        };
        if file.and_then(|file| file.extension()).is_some_and(|extension| extension == "prop") {
            return Ok(parse_chain(name, text, &defines, checks_classes));
        }
        let file = file.map(PathBuf::as_path);
        let texts = Texts { name, text, file, folders: None, allows_circles: false };
        Ok(parse(texts, &defines, checks_classes))
    }
}

/// Checks the values that the command line gives to parameters, and adds a problem of this severity for
/// each mistake. Each name must be one of `parameters`, and no name may be given twice.
pub(crate) fn check_values(
    loaded: &mut Loaded,
    values: &[(String, String)],
    parameters: &Parameters,
    severity: Severity,
) {
    let words: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut at = 0;
    let mut source = None;
    for (number, ((name, _), word)) in values.iter().zip(&words).enumerate() {
        let start = at;
        at += word.len() + 1;
        let is_again = values.iter().take(number).any(|(earlier, _)| earlier == name);
        let (message, hint) = if !parameters.has(name) {
            unknown_parameter(name, parameters)
        } else if is_again {
            (format!("{name} is given twice"), "leave one of the two out".to_string())
        } else {
            continue;
        };
        let source = *source.get_or_insert_with(|| loaded.sources.add("command line", words.join(" ")));
        let mut diagnostic =
            Diagnostic::error(Span { source, start, end: start + name.len() }, message).with_hint(hint);
        diagnostic.severity = severity;
        loaded.problems.push(Problem::new(diagnostic));
    }
}

/// True if messages on standard error are coloured: if it is a terminal, and NO_COLOR is not set or is empty
/// (no-color.org).
fn shows_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Returns the message about a parameter that a configuration does not have, and a hint with the parameters
/// that it has.
fn unknown_parameter(name: &str, parameters: &Parameters) -> (String, String) {
    let known = parameters.defined.iter().chain(&parameters.mentioned).map(String::as_str);
    let guess = lang::nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let hint = match parameters.defined.as_slice() {
        [] => "the configuration defines no parameters".to_string(),
        [only] => format!("the only one is {only}"),
        all => format!("there are: {}", all.join(", ")),
    };
    (format!("no `define` has a parameter {name}{guess}"), hint)
}

/// Starts DPDK if there are arguments for it. DPDK runs until the result is dropped.
pub(crate) fn start_dpdk(arguments: Option<&[String]>) -> Result<Option<RunningDpdk>, String> {
    arguments.map(device::dpdk::start).transpose()
}

/// The text of a configuration that is to be parsed, and the folders in which its libraries (files that it
/// requires) are searched.
pub(crate) struct Texts<'a> {
    /// The name of the configuration in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The file of the configuration, if it has one. Libraries that the configuration requires are searched
    /// in the folder of this file, too.
    pub(crate) file: Option<&'a Path>,
    /// The folders in which required libraries are searched, separated by colons, instead of the folders in
    /// CLICKPATH.
    pub(crate) folders: Option<&'a str>,
    /// True if libraries (files that a configuration requires) may require each other in a cycle, as in
    /// Click; otherwise a cycle is an error.
    pub(crate) allows_circles: bool,
}

impl Texts<'_> {
    /// Returns the texts for a configuration that is in no file.
    pub(crate) fn of(name: &str, text: String) -> Texts<'static> {
        Texts { name: name.to_string(), text, file: None, folders: None, allows_circles: false }
    }
}

/// Parses a configuration with these values of parameters. With `checks_classes`, unknown classes are
/// errors.
pub(crate) fn parse(texts: Texts<'_>, defines: &[(String, String)], checks_classes: bool) -> Loaded {
    let Texts { name, text, file, folders, allows_circles } = texts;
    let mut sources = Sources::new();
    let source = sources.add(name.clone(), text.clone());
    let registry = registry();
    let names = registry.names();
    let folders = folders.map_or_else(click_path, |folders| folders.into());
    let library = |library: &str, required_by: &str| find_library(library, required_by, &folders);
    let identity = file.map(identity);
    let options = lang::Options {
        defines,
        library: Some(&library),
        file: identity.as_deref(),
        allows_circles,
        classes: checks_classes.then_some(&names[..]),
        ..lang::Options::default()
    };
    let (graph, mut diagnostics) = lang::parse(&mut sources, source, &options);
    diagnostics.iter_mut().for_each(|diagnostic| tell_absent(diagnostic, &sources));
    Loaded::new(sources, (graph, diagnostics), name, text)
}

/// Changes an error about a class that does not exist here but in Click or FastClick: it says what the class
/// is for, and what to use instead.
fn tell_absent(diagnostic: &mut Diagnostic, sources: &Sources) {
    let Span { source, start, end } = diagnostic.span;
    // The place of the error names the class, or is an arrow such as `~tcp>` that stands for it.
    let quoted = diagnostic.message.split('\'').nth(1).map(String::from);
    let written = sources.text(source).get(start..end).unwrap_or_default();
    let name = match quoted {
        Some(quoted) if diagnostic.is_unknown_class => quoted,
        _ => written.to_string(),
    };
    let name = name.as_str();
    // A class that is used without arguments may also be meant as an element.
    let is_undeclared = || diagnostic.message == format!("undeclared element '{name}'");
    if let Some(absent) = Absent::find(name).filter(|_| diagnostic.is_unknown_class || is_undeclared()) {
        diagnostic.message = absent.error(name);
        diagnostic.hint = Some(absent.advice.into());
    }
}

/// Returns the problems in the order of their places. (The order in which they were found is that of Click,
/// which [`crate::click`] keeps.)
fn in_reading_order<'p>(problems: &'p [Problem], sources: &Sources) -> Vec<&'p Problem> {
    let mut problems: Vec<&Problem> = problems.iter().collect();
    problems.sort_by_cached_key(|problem| sources.reading_order(problem.diagnostic.span));
    problems
}

/// Returns the text of the problems without the lines that they are about, in the order of their places.
pub(crate) fn rendered(problems: &[Problem], sources: &Sources) -> String {
    in_reading_order(problems, sources).into_iter().map(|problem| problem.render(sources)).collect()
}

/// Returns the folders for libraries in the environment variable CLICKPATH. Empty if it is not set.
pub(crate) fn click_path() -> OsString {
    std::env::var_os("CLICKPATH").unwrap_or_default()
}

/// Returns the canonical path of a file, by which a library is recognised if it is required again.
fn identity(file: &Path) -> String {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string()
}

/// Finds a file that the file `named_by` names. The search begins in the folder of that file and in the
/// current folder. Then, for each folder in `folders` (separated by colons), it looks in the subfolder
/// `conf` and in the folder. Pipes and devices are skipped, because reading them might never end.
///
/// # Errors
/// If there is no such file. The error is `None`, or a message if there is something else of this name.
fn find_file(name: &str, named_by: &Path, folders: &OsStr) -> Result<PathBuf, Option<String>> {
    let listed = std::env::split_paths(folders).filter(|folder| !folder.as_os_str().is_empty());
    let listed = listed.flat_map(|folder| [folder.join("conf").join(name), folder.join(name)]);
    let places: Vec<_> =
        [named_by.with_file_name(name), PathBuf::from(name)].into_iter().chain(listed).collect();
    let instead =
        || places.iter().find_map(|place| Some(format!("{}: {}", place.display(), no_file(place)?)));
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(instead)
}

/// Returns the message about a path that exists but is no file, or that cannot be accessed. `None` for a
/// file, and for a path that does not exist.
fn no_file(path: &Path) -> Option<String> {
    match path.metadata() {
        Ok(there) if there.is_dir() => Some("this is a folder; name a file".into()),
        Ok(there) if !there.is_file() => {
            Some("this is a pipe, a socket or a device, which might never end; name a file".into())
        }
        Err(error) if error.kind() != ErrorKind::NotFound && error.kind() != ErrorKind::NotADirectory => {
            Some(crate::reason(&error))
        }
        _ => None,
    }
}

/// Finds a library that a configuration requires, and reads it. The error is a message for the user.
fn find_library(name: &str, required_by: &str, folders: &OsStr) -> Result<LibraryText, String> {
    let file = find_file(name, Path::new(required_by), folders).map_err(|instead| {
        let listed = if folders.is_empty() {
            "CLICKPATH can list further folders".to_string()
        } else {
            format!("in the folders of CLICKPATH ({})", folders.display())
        };
        instead.unwrap_or_else(|| {
            format!("libraries are searched in the folder of the requiring file and in the current folder; {listed}")
        })
    })?;
    let (_, text) = read_text(&file)?;
    // Messages show the path of a library relative to the current folder, if the library is in the current
    // folder or in a folder below it.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = file.strip_prefix(here).unwrap_or(&file).display().to_string();
    Ok(LibraryText { name: shown, file: identity(&file), text })
}

/// Joins the configurations that the text of a `.prop` file names to one configuration.
fn parse_chain(name: String, text: String, defines: &[(String, String)], checks_classes: bool) -> Loaded {
    let mut sources = Sources::new();
    let source = sources.add(name.clone(), text);
    let files = |file: &str, named_by: &str| match find_file(file, Path::new(named_by), &click_path()) {
        Ok(found) => read_text(&found),
        Err(Some(instead)) => Err(instead),
        Err(None) => read_text(Path::new(file)),
    };
    let registry = registry();
    let options = topology::Options { registry: &registry, defines, checks_classes, files: &files };
    let (graph, diagnostics) = topology::read(&mut sources, source, &options);
    let text = lang::flatten(&graph);
    Loaded::new(sources, (graph, diagnostics), name, text)
}

impl Loaded {
    /// Makes a configuration that does not run from what a parser has returned.
    fn new(
        sources: Sources,
        (graph, diagnostics): (Graph, Vec<Diagnostic>),
        name: String,
        text: String,
    ) -> Loaded {
        let problems = diagnostics.into_iter().map(Problem::new).collect();
        Loaded { sources, graph, problems, name, text, declared: Declarations::new() }
    }

    /// Returns a copy of the configuration without its problems.
    pub(crate) fn copied(&self) -> Loaded {
        Loaded {
            sources: self.sources.clone(),
            graph: self.graph.clone(),
            problems: Vec::new(),
            name: self.name.clone(),
            text: self.text.clone(),
            declared: self.declared.clone(),
        }
    }

    /// Checks that the configuration has elements, so that it may replace a running configuration. An empty
    /// file is usually one that an editor is just writing. A configuration with errors passes.
    ///
    /// # Errors
    /// If the configuration has neither elements nor errors: the message for the user.
    pub(crate) fn check_has_elements(&self) -> Result<(), String> {
        if !self.graph.elements.is_empty() || self.has_errors() {
            return Ok(());
        }
        Err(format!(
            "{}: the configuration has no elements; if a program is still writing it, reload when it is complete; \
             `stop` or a signal ends the run",
            self.name
        ))
    }

    /// True if elements receive packets from interfaces.
    pub(crate) fn is_live(&self) -> bool {
        let registry = registry();
        let class = |name: &str| registry.get(name);
        self.graph.elements.iter().any(|element| class(&element.class).is_some_and(|c| c.notes.is_live))
    }

    /// True if the configuration has errors.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// True if the configuration has errors other than unknown classes.
    pub(crate) fn has_other_errors(&self) -> bool {
        self.errors().any(|problem| !problem.diagnostic.is_unknown_class)
    }

    fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.diagnostic.severity == Severity::Error)
    }

    /// Shows the problems. Returns the failure of a command that cannot go on because of them.
    pub(crate) fn into_failure(self: Box<Loaded>) -> Failure {
        self.show();
        Failure::shown()
    }

    /// Builds the plan and the elements, and adds new problems to the configuration's problems. `burst` is
    /// the most packets of a burst, as for [`Plan::configure`]. Returns `None` if there are errors.
    pub(crate) fn build(&mut self, burst: Option<usize>) -> Option<(Arc<Plan>, Configured)> {
        let (plan, copies) = self.build_copies(burst, 1, None, &[])?;
        Some((plan, copies.into_iter().next()?))
    }

    /// Builds the plan and the elements as [`build`](Self::build) does, with a copy of the elements for each
    /// of `workers` workers. `spreading` is as for [`Plan::configure_all`]. `offloaded` are the names for
    /// [`Plan::offload`].
    pub(crate) fn build_copies(
        &mut self,
        burst: Option<usize>,
        workers: usize,
        spreading: Option<&Arc<dyn Spreading>>,
        offloaded: &[String],
    ) -> Option<(Arc<Plan>, Vec<Configured>)> {
        if self.has_errors() {
            return None;
        }
        let mut plan = match Plan::new(self.graph.clone(), &registry()) {
            Ok(plan) => plan,
            Err(problems) => {
                self.problems.extend(problems);
                return None;
            }
        };
        if let Err(name) = plan.offload(offloaded) {
            let text = format!(
                "--offload {name}: the configuration has no element and no class of this name; \
                 `tidegate flatten FILE` lists its elements with their classes"
            );
            let source = self.sources.add("--offload", &*name);
            let span = Span { source, start: 0, end: name.len() };
            self.problems.push(Problem::new(Diagnostic::error(span, text)));
            return None;
        }
        plan.locate(&self.sources);
        match plan.configure_all(burst, workers, spreading) {
            Ok(mut copies) => {
                // The warnings are the same for each worker.
                self.problems.append(&mut copies.first_mut()?.warnings);
                Some((Arc::new(plan), copies))
            }
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    /// Shows the first [`MOST_SHOWN`] errors and the first [`MOST_SHOWN`] warnings, in the order of their
    /// places, on standard error, each with the lines that it is about. Then shows the number of errors if
    /// there are several, and of warnings if some are not shown.
    pub(crate) fn show(&self) {
        if self.problems.is_empty() {
            return;
        }
        let texts = self.sources.ids();
        let mut texts = ariadne::sources(
            texts.map(|id| (self.sources.name(id).to_string(), self.sources.text(id).to_string())),
        );
        let (mut errors, mut warnings) = (0, 0);
        for problem in in_reading_order(&self.problems, &self.sources) {
            let is_error = problem.diagnostic.severity == Severity::Error;
            let count = if is_error { &mut errors } else { &mut warnings };
            *count += 1;
            if *count <= MOST_SHOWN {
                match is_journal() {
                    true => say(problem.diagnostic.severity, &problem.render(&self.sources)),
                    false => crate::show(format_args!("{}", self.picture(problem, &mut texts))),
                }
            }
        }
        for (count, what, severity) in
            [(warnings, "warnings", Severity::Warning), (errors, "errors", Severity::Error)]
        {
            let name = &self.name;
            let count_text = match count > lang::MOST_FINDINGS {
                true => format!("more than {}", lang::MOST_FINDINGS),
                false => count.to_string(),
            };
            if count > MOST_SHOWN {
                say(
                    severity,
                    &format!("{name}: {count_text} {what}, of which the first {MOST_SHOWN} are shown"),
                );
            } else if count > 1 && what == "errors" {
                say(severity, &format!("{name}: {count} errors"));
            }
        }
    }

    /// Returns the text of a problem with the lines that it is about. If a line is too long to be read,
    /// returns the text without lines.
    fn picture(&self, problem: &Problem, texts: &mut impl ariadne::Cache<String>) -> String {
        let related = problem.diagnostic.related.iter().map(|(span, _)| *span);
        let mut lines = related.chain([problem.diagnostic.span]).map(|span| self.sources.line_text(span));
        if lines.any(|line| line.len() > LONGEST_LINE) {
            return problem.render(&self.sources);
        }
        let diagnostic = &problem.diagnostic;
        let (kind, colour) = match diagnostic.severity {
            Severity::Error => (ReportKind::Error, Color::Red),
            Severity::Warning => (ReportKind::Warning, Color::Yellow),
            Severity::Note => (ReportKind::Advice, Color::Cyan),
        };
        let message = match &problem.context {
            Some(context) => format!("{context}: {}", diagnostic.message),
            None => diagnostic.message.clone(),
        };
        let place = |span: Span| {
            let name = self.sources.name(span.source).to_string();
            // Spans are byte offsets, as the index type of the report says below. An empty span is shown as
            // the byte after it.
            (name, span.start..span.end.max(span.start + 1).min(self.sources.text(span.source).len().max(1)))
        };
        let config = Config::default().with_color(shows_colours()).with_index_type(ariadne::IndexType::Byte);
        let mut report =
            Report::build(kind, place(diagnostic.span)).with_config(config).with_message(message);
        report =
            report.with_label(Label::new(place(diagnostic.span)).with_message("here").with_color(colour));
        for (span, text) in &diagnostic.related {
            report = report.with_label(Label::new(place(*span)).with_message(text).with_color(Color::Cyan));
        }
        if let Some(hint) = &diagnostic.hint {
            report = report.with_help(hint);
        }
        let mut out = Vec::new();
        match report.finish().write(texts, &mut out) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => problem.render(&self.sources),
        }
    }
}
