//! The results of an evaluation, in a folder. Each figure has NAME.csv (all values), NAME.svg (the plots)
//! and NAME.json (the conclusion and its origin); evaluation.md describes all of them.
//!
//! A figure is complete if its NAME.json was written by the same program with the same amount of
//! measurement, while the machine was not busy. So an interrupted evaluation continues at the first
//! incomplete figure.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ALL, Figure, FigureResults, Finding, MISSING, Need, plot};
use crate::origin::Origin;
use crate::varies;

/// The option for a small run, which only shows that each figure can be made.
const SMALL: &str = "--small";

/// A folder with the results of figures.
pub struct Results {
    folder: PathBuf,
    stamp: Stamp,
}

/// The program that made a result, and the amount of measurement. A figure whose result has another stamp is
/// measured again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// A hash of the program file, which differs between builds.
    program: String,
    /// The amount of measurement, written as the command-line options that give it.
    amount: String,
}

/// The content of NAME.json of a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    stamp: Stamp,
    date: String,
    seconds: u64,
    #[serde(flatten)]
    finding: Finding,
    /// The quartiles of the floor in nanoseconds; None if it was not measured.
    #[serde(default)]
    floor_quartiles_ns: Option<[f64; 2]>,
    /// True if the floor varied by more than a third, so that the machine was too busy for a conclusion.
    #[serde(default)]
    is_unsteady: bool,
    /// The program, machine, load and inputs of the result; None in old files.
    #[serde(default)]
    origin: Option<Origin>,
}

/// A figure that was not made, and the reason.
#[derive(Clone, Debug)]
pub struct NotMade {
    /// The figure's name.
    pub name: &'static str,
    /// The reason why the figure was not made.
    pub reason: String,
}

impl Results {
    /// Opens a folder of results for this program and an amount of measurement. Creates the folder if it
    /// does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created or the program file cannot be read.
    pub fn new(folder: &Path, amount: &str) -> Result<Results, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(told)?;
        let program = std::env::current_exe().and_then(std::fs::read).map_err(told)?;
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        let stamp = Stamp { program: format!("{:016x}", hasher.finish()), amount: amount.into() };
        Ok(Results { folder: folder.into(), stamp })
    }

    /// True if the figure is complete: made by the same program with the same amount of measurement, while
    /// the machine was not busy.
    pub fn has(&self, figure: &Figure) -> bool {
        self.record(figure).is_some_and(|record| record.stamp == self.stamp && !record.is_unsteady)
    }

    fn record(&self, figure: &Figure) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(self.file(figure, "json")).ok()?).ok()
    }

    fn file(&self, figure: &Figure, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", figure.name))
    }

    /// Writes the files of a figure. `floor` is the quartiles of the floor's cost during the run, if it was
    /// measured. If this cost or the floor of a table row varied by more than a third, the conclusion is
    /// replaced by a warning, which is also returned.
    ///
    /// # Errors
    /// If the table or plots cannot be made, or a file cannot be written.
    pub fn keep(
        &self,
        figure: &Figure,
        outcome: FigureResults,
        floor: Option<[f64; 2]>,
        origin: Origin,
    ) -> Result<Option<String>, String> {
        let unsteady =
            [floor, outcome.table.worst_floor()].into_iter().flatten().find(|floor| varies(*floor));
        let warning = unsteady.map(|[lower, upper]| {
            format!("The machine was busy (floor {lower:.1} to {upper:.1} ns): do not quote, measure again.")
        });
        let mut finding = outcome.finding;
        if let Some(warning) = &warning {
            finding.here = format!("no conclusion. {warning}");
        }
        let record = Record {
            stamp: self.stamp.clone(),
            date: origin.began.split('T').next().unwrap_or_default().into(),
            seconds: origin.seconds.round() as u64,
            finding,
            floor_quartiles_ns: floor,
            is_unsteady: warning.is_some(),
            origin: Some(origin),
        };
        // NAME.json is written last, because a figure without it is incomplete.
        let record = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())? + "\n";
        let subject = plot::Subject { title: figure.paper, about: figure.about };
        let parts = [
            ("csv", outcome.table.csv()?),
            ("svg", plot::svg(&subject, &outcome.panels, warning.as_deref())?),
            ("json", record),
        ];
        for (extension, text) in parts {
            self.write(&self.file(figure, extension), &text)?;
        }
        Ok(warning)
    }

    /// Writes evaluation.md about all results in the folder and all figures without a result; `left` has the
    /// figures that were not made, with the reasons. Returns the path of the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn report(&self, left: &[NotMade]) -> Result<PathBuf, String> {
        let file = self.folder.join("evaluation.md");
        self.write(&file, &self.text(left))?;
        Ok(file)
    }

    fn text(&self, left: &[NotMade]) -> String {
        let mut text = String::from("# The papers' evaluations\n\n");
        let _ = writeln!(
            text,
            "Each figure of the five papers as it comes out here, made by `tidegate evaluate NAME`. Points are \
             medians of interleaved runs, bars their quartiles; values of a paper are grey and dashed. Where the \
             paper gives numbers in the unit of another machine, they are shown in multiples of one of their own \
             points. NAME.json describes program, machine, load and inputs.\n"
        );
        if self.stamp.amount.starts_with(SMALL) {
            text += "**Measured once with few packets, to check that each figure can be made: these results mean \
                     nothing.**\n\n";
        }
        let mut open = Vec::new();
        for figure in ALL {
            let Some(record) = self.record(figure) else {
                open.push(figure);
                continue;
            };
            let Record { date, seconds, finding, stamp, origin, .. } = record;
            let Figure { name, paper, about, .. } = figure;
            let _ = writeln!(text, "## {paper}\n\n{about}.\n\n![{paper}: {about}]({name}.svg)\n");
            let _ = writeln!(text, "**The paper:** {} **Here:** {}", finding.paper, finding.here);
            if !finding.bound.is_empty() {
                let _ = writeln!(text, "**What bounds it:** {}", finding.bound);
            }
            if figure.needs.contains(&Need::Tcp) {
                let _ = writeln!(text, "**TCP's congestion control:** {}.", lab::CONTROL);
            }
            let amount = if stamp.amount.is_empty() { String::new() } else { format!(" {}", stamp.amount) };
            let _ = writeln!(
                text,
                "\n`tidegate evaluate {name}{amount}`, {date}, {seconds} s; [all figures]({name}.csv)\n"
            );
            if let Some(origin) = origin {
                let _ = writeln!(text, "{}", origin.lines());
            }
        }
        let _ = writeln!(text, "## Not there\n");
        for figure in open {
            let reason = left.iter().find(|left| left.name == figure.name);
            let reason = reason.map_or("not run yet", |left| &left.reason);
            let _ = writeln!(text, "- {} (`{}`): {reason}", figure.paper, figure.name);
        }
        for (figures, reason) in MISSING {
            let _ = writeln!(text, "- {figures}: {reason}");
        }
        text
    }

    /// Writes a file atomically: first under another name, which then replaces the old file.
    fn write(&self, file: &Path, text: &str) -> Result<(), String> {
        let new = file.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;
    use crate::origin::{Begun, Build};

    fn origin() -> Origin {
        let program = Build {
            version: "0.0.0".into(),
            commit: "unknown".into(),
            features: Vec::new(),
            is_debug_build: true,
        };
        Begun::now(program, None).origin([])
    }

    fn outcome() -> FigureResults {
        let finding =
            Finding { paper: "it falls.".into(), here: "it falls, too.".into(), bound: "memory.".into() };
        FigureResults { table: Table::new(&["slf", "ns"]), panels: Vec::new(), finding }
    }

    #[test]
    fn what_stands_there_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, ..] = ALL else { panic!("two figures at least") };
        let results = Results::new(folder.path(), "").unwrap();
        assert!(!results.has(first));
        assert_eq!(results.keep(first, outcome(), None, origin()).unwrap(), None);
        assert!(results.has(first) && !results.has(second));
        // A result of another amount of measurement does not count, nor does an incomplete NAME.json.
        assert!(!Results::new(folder.path(), "--small").unwrap().has(first));
        std::fs::write(results.file(first, "json"), "{").unwrap();
        assert!(!results.has(first));
    }

    #[test]
    fn figures_of_a_busy_machine_are_marked_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let [first, ..] = ALL else { panic!("a figure at least") };
        let results = Results::new(folder.path(), "").unwrap();
        assert_eq!(results.keep(first, outcome(), Some([9.0, 11.9]), origin()).unwrap(), None);
        assert!(results.has(first));
        let warning = results.keep(first, outcome(), Some([9.0, 12.1]), origin()).unwrap().unwrap();
        assert!(warning.contains("floor 9.0 to 12.1 ns"), "{warning}");
        assert!(!results.has(first));
        let svg = std::fs::read_to_string(results.file(first, "svg")).unwrap();
        let text = std::fs::read_to_string(results.report(&[]).unwrap()).unwrap();
        assert!(svg.contains("The machine was busy"), "{svg}");
        assert!(
            text.contains("no conclusion. The machine was busy") && !text.contains("it falls, too"),
            "{text}"
        );
    }

    #[test]
    fn the_report_says_what_there_is_and_what_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, ..] = ALL else { panic!("two figures at least") };
        let results = Results::new(folder.path(), "--small").unwrap();
        assert_eq!(results.keep(first, outcome(), None, origin()).unwrap(), None);
        let left = NotMade { name: second.name, reason: "needs nginx".into() };
        let text = std::fs::read_to_string(results.report(&[left]).unwrap()).unwrap();
        let of_first = format!("`tidegate evaluate {} --small`", first.name);
        assert!(!text.contains("congestion control"), "{text}");
        for said in ["it falls, too.", "memory.", &of_first, "needs nginx", "not run yet", "SmartNIC"] {
            assert!(text.contains(said), "{said} is not in {text}");
        }
        // The report names the congestion control of figures that depend on it.
        let tcp = ALL.iter().filter(|figure| figure.needs.contains(&Need::Tcp));
        for figure in tcp {
            results.keep(figure, outcome(), None, origin()).unwrap();
        }
        let text = std::fs::read_to_string(results.report(&[]).unwrap()).unwrap();
        for figure in
            ALL.iter().filter(|figure| figure.paper.starts_with("Juggler") && !figure.needs.is_empty())
        {
            // Juggler's Figure 9 compares congestion controls, so the report names no single one for this
            // figure.
            let (_, behind) = text.split_once(&format!("]({}.svg)", figure.name)).unwrap_or_default();
            let own = behind.split("## ").next().unwrap_or_default();
            assert_eq!(
                own.contains("control:** cubic."),
                figure.name != "juggler-9",
                "{}: {own}",
                figure.name
            );
        }
    }
}
