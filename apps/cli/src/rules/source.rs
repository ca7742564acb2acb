//! Reads the rule set of a file, whatever its format.

use std::collections::HashMap;
use std::path::Path;

use clap::ValueEnum;
use element::effects::Written;
use rules::model::{RulePlace, RuleSet};
use rules::read::{self, RuleError, RuleFormat, declared};

use crate::load::{Input, read_text};
use crate::reasoning::{self, Reasoned};
use crate::status::Failure;

/// The options that say how a rule set is read.
#[derive(clap::Args, Clone)]
pub(super) struct Source {
    /// The format, if it is not recognised
    #[arg(long, value_enum)]
    from: Option<FormatName>,
    /// The element whose rules are read, if a configuration has several with rules
    #[arg(long, value_name = "NAME")]
    element: Option<String>,
    /// The chain of nftables or iptables, if several have rules: INPUT, or 'inet filter input'
    #[arg(long, value_name = "NAME")]
    chain: Option<String>,
}

/// The name of a format of rule sets on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// A configuration in the Click language
    Click,
    /// Rules of IPFilter, one per line
    Ipfilter,
    /// ClassBench's format
    Classbench,
    /// The JSON of `nft -j list ruleset`
    Nftables,
    /// The output of iptables-save
    Iptables,
}

/// The most errors that are shown.
const MOST_SHOWN: usize = 20;

impl Source {
    /// Reads a rule set.
    ///
    /// # Errors
    /// If the file cannot be read or has errors, or its format lacks a chain or element that is asked for.
    pub(super) fn read(&self, file: &Path) -> Result<RuleSet, Failure> {
        let (set, format) = self.any(file)?;
        self.check([format])?;
        Ok(set)
    }

    /// Reads two rule sets, which may have different formats.
    ///
    /// # Errors
    /// If one of the files cannot be read or has errors, or both formats lack what is asked for.
    pub(super) fn read_both(&self, files: [&Path; 2]) -> Result<[RuleSet; 2], Failure> {
        let ((a, first), (b, second)) = (self.any(files[0])?, self.any(files[1])?);
        self.check([first, second])?;
        Ok([a, b])
    }

    /// Checks that one of the formats has the chain or the element that is asked for.
    fn check<const N: usize>(&self, formats: [RuleFormat; N]) -> Result<(), Failure> {
        let has_chains = |format| matches!(format, RuleFormat::Nftables | RuleFormat::Iptables);
        if self.chain.is_some() && !formats.into_iter().any(has_chains) {
            return Err(Failure::usage(
                "--chain selects a chain of nftables or iptables, and the file has no chains",
            ));
        }
        if self.element.is_some() && !formats.contains(&RuleFormat::Configuration) {
            return Err(Failure::usage(
                "--element selects an element of a configuration, and the file is a list of rules",
            ));
        }
        Ok(())
    }

    /// Reads a rule set, and returns its format as well. Shows up to [`MOST_SHOWN`] errors.
    fn any(&self, file: &Path) -> Result<(RuleSet, RuleFormat), Failure> {
        let (name, text) = read_text(file)?;
        let format = match self.from {
            None => read::format_of(&text),
            Some(FormatName::Click) => RuleFormat::Configuration,
            Some(FormatName::Ipfilter) => RuleFormat::Lines,
            Some(FormatName::Classbench) => RuleFormat::ClassBench,
            Some(FormatName::Nftables) => RuleFormat::Nftables,
            Some(FormatName::Iptables) => RuleFormat::Iptables,
        };
        let result = match format {
            RuleFormat::Configuration => self.configuration(file)?,
            format => read::read(format, &name, &text, self.chain.as_deref()),
        };
        result.map(|set| (set, format)).map_err(|errors| {
            let shown = errors.iter().take(MOST_SHOWN).map(RuleError::to_string);
            let mut text = shown.collect::<Vec<_>>().join("\n");
            if errors.len() > MOST_SHOWN {
                text += &format!("\nand {} more", errors.len() - MOST_SHOWN);
            }
            text.into()
        })
    }

    /// Reads the rules of an element of a configuration.
    fn configuration(&self, file: &Path) -> Result<Result<RuleSet, Vec<RuleError>>, Failure> {
        let input = Input { file: Some(file.to_path_buf()), ..Input::default() };
        let reasoned = reasoning::read(&input)?;
        let node = self.node(&reasoned)?;
        let element = &reasoned.chain.nodes[node];
        let name = format!("{} {}", reasoned.loaded.name, element.name);
        let mut places = Places::new(&reasoned, node);
        let written: Vec<Written> = element.effects.cases.iter().filter_map(|case| case.written).collect();
        let known: HashMap<Written, (RulePlace, String)> =
            written.into_iter().map(|written| (written, places.of(written))).collect();
        let place = |written| known.get(&written).cloned().unwrap_or_default();
        Ok(declared::read(name, &element.effects, place))
    }

    /// Returns the element whose rules are read: the given one, or the only one with rules.
    fn node(&self, reasoned: &Reasoned) -> Result<usize, Failure> {
        let nodes = &reasoned.chain.nodes;
        let with_rules: Vec<usize> =
            (0..nodes.len()).filter(|&node| declared::rules_of(&nodes[node].effects) > 0).collect();
        let names =
            || with_rules.iter().map(|&node| nodes[node].name.as_str()).collect::<Vec<_>>().join(", ");
        let file = &reasoned.loaded.name;
        match (&self.element, &with_rules[..]) {
            (Some(name), _) => {
                let found = with_rules.iter().copied().find(|&node| nodes[node].name == *name);
                found.ok_or_else(|| {
                    format!("{file}: no element '{name}' has rules; there are: {}", names()).into()
                })
            }
            (None, [only]) => Ok(*only),
            (None, []) => {
                Err(format!("{file}: no element has rules, as IPFilter and IPClassifier do").into())
            }
            (None, _) => {
                Err(format!("{file}: several elements have rules; write --element with one of: {}", names())
                    .into())
            }
        }
    }
}

/// Finds the places and texts of an element's rules.
struct Places<'r> {
    reasoned: &'r Reasoned,
    node: usize,
    args: Vec<lang::args::Arg>,
    /// The lines of the files that arguments name.
    files: HashMap<String, Vec<String>>,
}

impl<'r> Places<'r> {
    fn new(reasoned: &'r Reasoned, node: usize) -> Places<'r> {
        let args = lang::args::split(&reasoned.graph.elements[node].config);
        Places { reasoned, node, args, files: HashMap::new() }
    }

    fn of(&mut self, written: Written) -> (RulePlace, String) {
        let element = &self.reasoned.graph.elements[self.node];
        let Some(arg) = self.args.get(written.argument) else { return Default::default() };
        if let Some(line) = written.line {
            let file = arg.text.split_whitespace().last().unwrap_or_default().to_string();
            let lines = self.files.entry(file.clone()).or_insert_with(|| {
                let text = std::fs::read(&file).unwrap_or_default();
                String::from_utf8_lossy(&text).lines().map(|line| line.trim().to_string()).collect()
            });
            let text = lines.get(line - 1).cloned().unwrap_or_default();
            return (RulePlace { file, line: Some(line), name: String::new() }, text);
        }
        let location = self.reasoned.loaded.sources.locate(element.config_place(arg.range.clone()));
        let place = RulePlace { file: location.file, line: Some(location.line), name: String::new() };
        (place, arg.text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}
