//! Results of an evaluation in a folder: for each figure NAME.csv, NAME.svg and NAME.json (what was said, and what of), and
//! evaluation.md with all of them. A figure is done when its NAME.json stands there and was made by the same program with
//! the same amount, so that an evaluation that was interrupted goes on where it was.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ALL, Figure, Finding, MISSING, Need, Outcome, plot};

/// The amount that is only to see that it works.
const SMALL: &str = "--small";

/// A folder with results.
pub struct Results {
    folder: PathBuf,
    stamp: Stamp,
}

/// What results are made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// A number that any other build of the program has not.
    program: String,
    /// How much was measured.
    amount: String,
}

/// What stands beside a table and a plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    stamp: Stamp,
    date: String,
    seconds: u64,
    #[serde(flatten)]
    finding: Finding,
}

/// Why there is nothing of a figure.
#[derive(Clone, Debug)]
pub struct Left {
    /// The figure's name.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

impl Results {
    /// Results in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// What is in the way.
    pub fn new(folder: &Path, amount: &str) -> Result<Results, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(told)?;
        let program = std::env::current_exe().and_then(std::fs::read).map_err(told)?;
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        let stamp = Stamp { program: format!("{:016x}", hasher.finish()), amount: amount.into() };
        Ok(Results { folder: folder.into(), stamp })
    }

    /// Whether this figure has been made with the same program and amount.
    pub fn has(&self, figure: &Figure) -> bool {
        self.record(figure).is_some_and(|record| record.stamp == self.stamp)
    }

    fn record(&self, figure: &Figure) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(self.file(figure, "json")).ok()?).ok()
    }

    fn file(&self, figure: &Figure, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", figure.name))
    }

    /// Keeps what came of a figure.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn keep(&self, figure: &Figure, outcome: Outcome, seconds: u64) -> Result<(), String> {
        let now = time::OffsetDateTime::now_utc();
        let date = format!("{}-{:02}-{:02}", now.year(), u8::from(now.month()), now.day());
        let record = Record { stamp: self.stamp.clone(), date, seconds, finding: outcome.finding };
        // The record last: as long as it is not there, nothing is.
        let record = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())? + "\n";
        let parts = [("csv", outcome.table.csv()?), ("svg", plot::svg(&outcome.panels)?), ("json", record)];
        for (extension, text) in parts {
            self.write(&self.file(figure, extension), &text)?;
        }
        Ok(())
    }

    /// Writes evaluation.md of all that stands in the folder, with what was left, and says where it is.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn report(&self, left: &[Left]) -> Result<PathBuf, String> {
        let file = self.folder.join("evaluation.md");
        self.write(&file, &self.text(left))?;
        Ok(file)
    }

    fn text(&self, left: &[Left]) -> String {
        let mut text = String::from("# The papers' evaluations\n\n");
        let _ = writeln!(
            text,
            "Each figure of the five papers as it comes out here, made by `tidegate evaluate NAME`. Points are medians of runs \
             that took turns, with their quartiles; what a paper reports is grey. {}\n",
            machine()
        );
        if self.stamp.amount.starts_with(SMALL) {
            text += "**Measured once and little, to see that each figure comes about: what is said here means nothing.**\n\n";
        }
        let mut open = Vec::new();
        for figure in ALL {
            let Some(record) = self.record(figure) else {
                open.push(figure);
                continue;
            };
            let Record { date, seconds, finding, stamp } = record;
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

    /// Whole or not at all.
    fn write(&self, file: &Path, text: &str) -> Result<(), String> {
        let new = file.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// What it was measured on, in a sentence.
fn machine() -> String {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name);
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Measured on {cores} cores of {model}, Linux {}.", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;

    fn outcome() -> Outcome {
        let finding =
            Finding { paper: "it falls.".into(), here: "it falls, too.".into(), bound: "memory.".into() };
        Outcome { table: Table::new(&["slf", "ns"]), panels: Vec::new(), finding }
    }

    #[test]
    fn what_stands_there_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, ..] = ALL else { panic!("two figures at least") };
        let results = Results::new(folder.path(), "").unwrap();
        assert!(!results.has(first));
        results.keep(first, outcome(), 3).unwrap();
        assert!(results.has(first) && !results.has(second));
        // Another amount is another figure, and so is half of one.
        assert!(!Results::new(folder.path(), "--small").unwrap().has(first));
        std::fs::write(results.file(first, "json"), "{").unwrap();
        assert!(!results.has(first));
    }

    #[test]
    fn the_report_says_what_there_is_and_what_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, ..] = ALL else { panic!("two figures at least") };
        let results = Results::new(folder.path(), "--small").unwrap();
        results.keep(first, outcome(), 3).unwrap();
        let left = Left { name: second.name, reason: "needs nginx".into() };
        let text = std::fs::read_to_string(results.report(&[left]).unwrap()).unwrap();
        let of_first = format!("`tidegate evaluate {} --small`", first.name);
        assert!(!text.contains("congestion control"), "{text}");
        for said in ["it falls, too.", "memory.", &of_first, "needs nginx", "not run yet", "SmartNIC"] {
            assert!(text.contains(said), "{said} is not in {text}");
        }
        // Figures that depend on it say by which congestion control they came about.
        let tcp = ALL.iter().filter(|figure| figure.needs.contains(&Need::Tcp));
        for figure in tcp {
            results.keep(figure, outcome(), 3).unwrap();
        }
        let text = std::fs::read_to_string(results.report(&[]).unwrap()).unwrap();
        for figure in
            ALL.iter().filter(|figure| figure.paper.starts_with("Juggler") && !figure.needs.is_empty())
        {
            // Figure 9 compares congestion controls.
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
