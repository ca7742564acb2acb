//! From a file or text to a plan, with diagnostics for people.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ariadne::{Color, Config, Label, Report, ReportKind};
use device::dpdk::Running;
use element::steering::Spreading;
use element::{Class, Registry};
use engine::{Configured, Plan, Problem};
use lang::{Graph, Severity, Sources, Span};
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

/// Classes that the program has beside those of the product.
/// Errors that are shown, and warnings; further ones are counted.
const MOST_SHOWN: usize = 20;

/// Bytes of a line beyond which only the place of a problem is told.
const LONGEST_LINE: usize = 1000;

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
            read.map(|_| text).map_err(|error| format!("standard input: {error}"))
        });
        return input.clone().map(|text| ("<stdin>".into(), text));
    }
    let name = file.display().to_string();
    match std::fs::read(file) {
        Ok(bytes) => Ok((name, String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) => Err(format!("{name}: {}", crate::reason(&error))),
    }
}

impl Input {
    /// Reads and parses. `checks_classes` makes unknown classes errors.
    pub(crate) fn load(&self, checks_classes: bool) -> Result<Loaded, String> {
        let mut defines = Vec::new();
        let mut file = self.file.clone();
        let mut words = self.defines.clone();
        if self.expression.is_some()
            && let Some(first) = file.take()
        {
            // With -e there is no file: the first word is a definition too.
            words.insert(0, first.display().to_string());
        }
        for word in &words {
            match word.split_once('=') {
                Some((name, value)) => defines.push((name.to_string(), value.to_string())),
                None => return Err(format!("'{word}' is neither a second configuration nor NAME=VALUE")),
            }
        }
        let (name, text) = match (&self.expression, &file) {
            (Some(text), _) => ("config".to_string(), text.clone()),
            (None, Some(file)) => read_text(file)?,
            (None, None) => return Err("no configuration given".into()),
        };
        if file.as_deref().and_then(Path::extension).is_some_and(|extension| extension == "prop") {
            return Ok(parse_chain(name, text, &defines, checks_classes));
        }
        Ok(parse(name, text, file.as_deref().and_then(Path::parent), &defines, checks_classes))
    }
}

/// Starts DPDK, if that was asked for. It runs for as long as what this gives lives.
pub(crate) fn start_dpdk(arguments: Option<&[String]>) -> Result<Option<Running>, String> {
    arguments.map(device::dpdk::start).transpose()
}

/// Parses a configuration. Libraries are looked for beside it.
pub(crate) fn parse(
    name: String,
    text: String,
    folder: Option<&Path>,
    defines: &[(String, String)],
    checks_classes: bool,
) -> Loaded {
    let mut sources = Sources::new();
    let source = sources.add(name.clone(), text.clone());
    let registry = registry();
    let names = registry.names();
    let library = |library: &str| {
        let beside = folder.map(|folder| folder.join(library));
        let path = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(library));
        std::fs::read_to_string(path).ok()
    };
    let options = lang::Options {
        defines,
        library: Some(&library),
        classes: checks_classes.then_some(&names[..]),
        ..lang::Options::default()
    };
    let (graph, diagnostics) = lang::parse(&mut sources, source, &options);
    Loaded { sources, graph, problems: diagnostics.into_iter().map(Problem::new).collect(), name, text }
}

/// Joins the configurations that a `.prop` file names. They are looked for beside it, then in the current folder.
fn parse_chain(name: String, text: String, defines: &[(String, String)], checks_classes: bool) -> Loaded {
    let mut sources = Sources::new();
    let source = sources.add(name.clone(), text);
    let files = |file: &str, named_by: &str| {
        let beside = Path::new(named_by).with_file_name(file);
        let path = if beside.exists() { beside } else { PathBuf::from(file) };
        read_text(&path)
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
            if count > MOST_SHOWN {
                crate::tell(format_args!(
                    "{name}: {count} {what}, of which the first {MOST_SHOWN} are shown"
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
        let config = Config::default()
            .with_color(std::io::stderr().is_terminal())
            .with_index_type(ariadne::IndexType::Byte);
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
