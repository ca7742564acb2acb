//! From a file or text to a plan, with diagnostics for people.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ariadne::{Color, Config, Label, Report, ReportKind};
use capture::Content;
use device::dpdk::Running;
use element::steering::Spreading;
use element::{Class, Registry};
use engine::{Configured, Plan, Problem};
use lang::{Diagnostic, Graph, LibraryText, Parameters, Severity, Sources, Span};
use synthesizer::topology;

/// Where a configuration comes from.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Input {
    /// The configuration, or a chain of several (`.prop`); `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "expression")]
    pub(crate) file: Option<PathBuf>,
    /// The configuration itself, instead of a file
    #[arg(short = 'e', long, value_name = "TEXT")]
    pub(crate) expression: Option<String>,
    /// Start DPDK with its own arguments, up to `--`: `--dpdk --no-huge --vdev=net_tap0 -- FILE`
    #[arg(long, value_name = "ARGUMENT", num_args = 0.., allow_hyphen_values = true, value_terminator = "--")]
    pub(crate) dpdk: Option<Vec<String>>,
    /// Values for the configuration's parameters
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}

/// A configuration that has been read.
pub(crate) struct Loaded {
    pub(crate) sources: Sources,
    pub(crate) graph: Graph,
    pub(crate) problems: Vec<Problem>,
    /// The file's name.
    pub(crate) name: String,
    /// The configuration as it was written; a chain of several as it is when they are joined.
    pub(crate) text: String,
}

/// Errors that are shown, and warnings; further ones are counted.
const MOST_SHOWN: usize = 20;

/// Bytes of a line beyond which only the place of a problem is told.
const LONGEST_LINE: usize = 1000;

/// Classes that the program has beside those of the product.
static OWN_CLASSES: OnceLock<&[&Class]> = OnceLock::new();

/// Adds classes to those of the product, once, before any configuration is read.
pub(crate) fn add_classes(own: &'static [&'static Class]) {
    OWN_CLASSES.get_or_init(|| own);
}

/// All classes that configurations can use.
pub(crate) fn registry() -> Registry {
    let own = OWN_CLASSES.get().copied().unwrap_or_default();
    Registry::new()
        .with(nf::CLASSES)
        .with(device::CLASSES)
        .with(reframer::CLASSES)
        .with(juggler::CLASSES)
        .with(slicer::CLASSES)
        .with(synthesizer::CLASSES)
        .with(own)
}

/// Reads the text of a configuration. The error is ready to be printed.
pub(crate) fn read_text(file: &Path) -> Result<(String, String), String> {
    if file == Path::new("-") {
        // It can be read only once, but asked for twice.
        static INPUT: OnceLock<Result<String, String>> = OnceLock::new();
        let input = INPUT.get_or_init(|| {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map(|_| without_mark(text)).map_err(|error| format!("standard input: {error}"))
        });
        return input.clone().map(|text| ("<stdin>".into(), text));
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

/// A text without the byte order mark that some editors put in front of it.
fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map(String::from).unwrap_or(text)
}

/// The message about a file that is a capture, or compressed, or encoded in another way, and so no configuration.
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
    /// Reads and parses. `checks_classes` makes unknown classes errors. Values for parameters that the configuration does
    /// not have are errors, too.
    pub(crate) fn load(&self, checks_classes: bool) -> Result<Loaded, String> {
        let mut loaded = self.load_with_any_values(checks_classes)?;
        let parameters = loaded.graph.parameters.clone();
        check_values(&mut loaded, &self.values()?, &parameters, Severity::Error);
        Ok(loaded)
    }

    /// The values that are given to parameters, by name, in order.
    pub(crate) fn values(&self) -> Result<Vec<(String, String)>, String> {
        // With -e there is no file: the first word is a definition too.
        let first = self.file.as_ref().filter(|_| self.expression.is_some());
        let words = first.map(|first| first.display().to_string()).into_iter().chain(self.defines.clone());
        let value = |word: String| match word.split_once('=') {
            Some(("", _)) => Err(format!("'{word}' has no name in front of '='; write NAME=VALUE")),
            Some((name, value)) => Ok((name.to_string(), value.to_string())),
            None => Err(format!("'{word}' is neither a second configuration nor NAME=VALUE")),
        };
        words.map(value).collect()
    }

    /// Reads and parses, without a look at which parameters the values are for.
    pub(crate) fn load_with_any_values(&self, checks_classes: bool) -> Result<Loaded, String> {
        let defines = self.values()?;
        let file = self.file.as_ref().filter(|_| self.expression.is_none());
        let (name, text) = match (&self.expression, file) {
            (Some(text), _) => ("config".to_string(), text.clone()),
            (None, Some(file)) => read_text(file)?,
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

/// Adds to the problems of a configuration what is wrong with the values that the command line gives to parameters: each has to
/// be for one of these, and there has to be one for each.
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

/// True if messages on standard error are coloured: on a terminal, unless NO_COLOR is set (no-color.org).
fn shows_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// The message about a parameter that a configuration does not have, and what to do.
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

/// Starts DPDK, if that was asked for. It runs for as long as what this gives lives.
pub(crate) fn start_dpdk(arguments: Option<&[String]>) -> Result<Option<Running>, String> {
    arguments.map(device::dpdk::start).transpose()
}

/// A configuration that is to be parsed, and where its libraries are.
pub(crate) struct Texts<'a> {
    /// What messages call it.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Its file, if it stands in one.
    pub(crate) file: Option<&'a Path>,
    /// Folders for libraries, in place of those of CLICKPATH.
    pub(crate) folders: Option<&'a str>,
    /// Libraries may require each other in a circle.
    pub(crate) allows_circles: bool,
}

impl Texts<'_> {
    /// A text that stands in no file.
    pub(crate) fn of(name: &str, text: String) -> Texts<'static> {
        Texts { name: name.to_string(), text, file: None, folders: None, allows_circles: false }
    }
}

/// Parses a configuration.
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
    let (graph, diagnostics) = lang::parse(&mut sources, source, &options);
    Loaded { sources, graph, problems: diagnostics.into_iter().map(Problem::new).collect(), name, text }
}

/// The folders that the environment lists for libraries.
fn click_path() -> OsString {
    std::env::var_os("CLICKPATH").unwrap_or_default()
}

/// A file's name that is the same however the file is named.
fn identity(file: &Path) -> String {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string()
}

/// Finds a file that another one names: beside that one, in the current folder, then in each of `folders`, which colons
/// separate, and in its `conf`. Pipes and devices are passed over: they might never end.
///
/// # Errors
/// What there is of that name instead, if there is something.
fn find_file(name: &str, named_by: &Path, folders: &OsStr) -> Result<PathBuf, Option<String>> {
    let listed = std::env::split_paths(folders).filter(|folder| !folder.as_os_str().is_empty());
    let listed = listed.flat_map(|folder| [folder.join("conf").join(name), folder.join(name)]);
    let places: Vec<_> =
        [named_by.with_file_name(name), PathBuf::from(name)].into_iter().chain(listed).collect();
    let instead =
        || places.iter().find_map(|place| Some(format!("{}: {}", place.display(), no_file(place)?)));
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(instead)
}

/// The message about something that is there and no file, or cannot be looked at.
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

/// Finds a library and reads it.
fn find_library(name: &str, required_by: &str, folders: &OsStr) -> Result<LibraryText, String> {
    let file = find_file(name, Path::new(required_by), folders).map_err(|instead| {
        let listed = if folders.is_empty() {
            "CLICKPATH can list further folders".to_string()
        } else {
            format!("in the folders of CLICKPATH ({})", folders.display())
        };
        instead.unwrap_or_else(|| {
            format!("it is looked for beside the file that requires it and in the current folder; {listed}")
        })
    })?;
    let (_, text) = read_text(&file)?;
    // Files are found by whole paths, of which only the end tells people something.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = file.strip_prefix(here).unwrap_or(&file).display().to_string();
    Ok(LibraryText { name: shown, file: identity(&file), text })
}

/// Joins the configurations that a `.prop` file names.
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
    Loaded { sources, graph, problems: diagnostics.into_iter().map(Problem::new).collect(), name, text }
}

impl Loaded {
    /// The same once more, without what was found wrong with it.
    pub(crate) fn copied(&self) -> Loaded {
        Loaded {
            sources: self.sources.clone(),
            graph: self.graph.clone(),
            problems: Vec::new(),
            name: self.name.clone(),
            text: self.text.clone(),
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.diagnostic.severity == Severity::Error)
    }

    /// Builds plan and elements, and adds to the problems what is found on the way. `None` if there are errors.
    pub(crate) fn build(&mut self, burst: Option<usize>) -> Option<(Arc<Plan>, Configured)> {
        let (plan, copies) = self.build_copies(burst, 1, None)?;
        Some((plan, copies.into_iter().next()?))
    }

    /// The same with elements for each of so many workers.
    pub(crate) fn build_copies(
        &mut self,
        burst: Option<usize>,
        workers: usize,
        spreading: Option<&Arc<dyn Spreading>>,
    ) -> Option<(Arc<Plan>, Vec<Configured>)> {
        if self.has_errors() {
            return None;
        }
        let plan = match Plan::new(self.graph.clone(), &registry()) {
            Ok(plan) => plan,
            Err(problems) => {
                self.problems.extend(problems);
                return None;
            }
        };
        match plan.configure_all(burst, workers, spreading) {
            Ok(mut copies) => {
                // The same for each worker.
                self.problems.append(&mut copies.first_mut()?.warnings);
                Some((Arc::new(plan), copies))
            }
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    /// Shows problems on standard error, with the lines that they are about: the first errors and the first warnings. How many
    /// there are is said.
    pub(crate) fn show(&self) {
        if self.problems.is_empty() {
            return;
        }
        let texts = self.sources.ids();
        let mut texts = ariadne::sources(
            texts.map(|id| (self.sources.name(id).to_string(), self.sources.text(id).to_string())),
        );
        let (mut errors, mut warnings) = (0, 0);
        for problem in &self.problems {
            let is_error = problem.diagnostic.severity == Severity::Error;
            let count = if is_error { &mut errors } else { &mut warnings };
            *count += 1;
            if *count <= MOST_SHOWN {
                crate::show(format_args!("{}", self.picture(problem, &mut texts)));
            }
        }
        for (count, what) in [(warnings, "warnings"), (errors, "errors")] {
            let name = &self.name;
            let count_text = match count > lang::MOST_FINDINGS {
                true => format!("more than {}", lang::MOST_FINDINGS),
                false => count.to_string(),
            };
            if count > MOST_SHOWN {
                crate::tell(format_args!(
                    "{name}: {count_text} {what}, of which the first {MOST_SHOWN} are shown"
                ));
            } else if count > 1 && what == "errors" {
                crate::tell(format_args!("{name}: {count} errors"));
            }
        }
    }

    /// A problem with its lines, where these are not too long to be read.
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
            // Byte offsets are what ariadne is told to count in; an empty span shows as its next byte.
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
