//! A random attack on the synthesizer and the verifier.
//!
//! Random configurations, of all classes that declare their effects, run with random packets, as they are and
//! with programs; the runs have to be equal, with the exceptions in `case.rs`. The verifier gets random pairs
//! of chains; its verdicts have to agree with runs of packets through both.
//!
//! - `classes.rs`: random elements; `network.rs`: random configurations; `packets.rs`: random packets
//! - `ends.rs`: the sources and sinks of packets
//! - `programs.rs`: the synthesized forms of a configuration, and their proofs
//! - `outcome.rs`: runs, and the differences between two runs
//! - `case.rs`: a configuration with its packets; `pairs.rs`: two chains; `shrink.rs`: the smallest case of
//!   a failure
//!
//! All cases follow from their seeds: `cargo run --release -p tidegate-fuzz --example attack -- --help`.

mod case;
mod classes;
mod ends;
mod network;
mod outcome;
mod packets;
mod pairs;
mod programs;
mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::time::{Duration, Instant};

use case::{Case, Checked, Finding, Label};
use classes::Catalogue;
use packets::Kind;
use pairs::{Pair, Verdicts};
use programs::{Effort, Proof};

/// The number of cases of an attack, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The seed of the first configuration and of the first pair; each further one has the next number.
    pub seed: u64,
    /// The number of random configurations.
    pub chains: u64,
    /// The number of random pairs of chains for the verifier.
    pub pairs: u64,
    /// The time limit for the proof of one configuration with programs.
    pub proof: Duration,
    /// The time limit for the comparison of one pair.
    pub comparison: Duration,
    /// The maximum number of decision diagram nodes of each proof or comparison; `None` for the largest
    /// possible.
    pub nodes: Option<usize>,
    /// The number of threads that work on cases.
    pub jobs: usize,
    /// The maximum number of failures of each kind that are shrunk and shown.
    pub show: usize,
    /// Failures of configurations are only shown if the name of their kind contains this text; `None` to show
    /// all kinds. Failures of pairs do not depend on it.
    pub only: Option<&'static str>,
}

/// The results of an attack: counts of configurations, packets and verdicts, and the failures.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of configurations, valid or not.
    pub chains: u64,
    /// The number of configurations of which at least one program can be made.
    pub with_program: u64,
    /// The number of configurations for which the proof of a program was tried. Only proven programs would
    /// run.
    pub would_run: u64,
    /// The number of configurations, among those with a tried proof, with at least one proven program.
    pub proven: u64,
    /// By reason, the number of configurations, among those with a tried proof, without a proven program.
    pub not_proven: BTreeMap<String, u64>,
    /// The number of configurations with an element that keeps state.
    pub stateful: u64,
    /// The number of configurations that give different results in two runs without programs, and the first
    /// seeds of these.
    pub uncertain: (u64, Vec<u64>),
    /// The number of random texts that are not valid configurations, or cannot be started.
    pub invalid: u64,
    /// The first reasons why texts are not valid, each with its seed.
    pub reasons: Vec<String>,
    /// The number of configurations with a program for which no run differs.
    pub same: u64,
    /// The number of elements that programs bypass, in all configurations together.
    pub passed: u64,
    /// The number of packets of each kind.
    packets: BTreeMap<Kind, u64>,
    /// By class: the number of configurations in which packets can reach an element of that class.
    pub classes: BTreeMap<String, u64>,
    /// By kind of failure: the number of configurations with such a failure, and the first seeds.
    pub failures: BTreeMap<String, (u64, Vec<u64>)>,
    /// The verdicts on pairs of chains, and the failures among these.
    verdicts: Verdicts,
    /// The descriptions of shrunk failures.
    pub shown: Vec<String>,
}

impl Outcome {
    /// True if no configuration and no pair failed.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.verdicts.failures.is_empty()
    }

    /// Returns the share of packets that are odd (of any kind but `Kind::Plain`), from 0 to 1.
    pub fn odd(&self) -> f64 {
        let all: u64 = self.packets.values().sum();
        let odd: u64 = packets::ODD.iter().filter_map(|kind| self.packets.get(kind)).sum();
        odd as f64 / all.max(1) as f64
    }

    /// Returns what the attack has covered too little, as text: for example too few configurations with a
    /// program. Empty if all goals are met.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut at_least = |what: &str, part: f64, least: f64| {
            if part < least {
                all.push(format!("{what}: {:.1} %, which is less than {:.0} %", part * 100.0, least * 100.0));
            }
        };
        let of = |part: u64| part as f64 / self.chains.max(1) as f64;
        if self.chains > 0 {
            at_least("chains with a program", of(self.with_program), 0.7);
            at_least("chains that keep state", of(self.stateful), 0.3);
            at_least("odd packets", self.odd(), 0.2);
            at_least("texts that are configurations", of(self.chains.saturating_sub(self.invalid)), 0.9);
        }
        if self.chains >= 10_000 {
            let catalogue = Catalogue::new();
            for name in catalogue.names() {
                let times = self.classes.get(name).copied().unwrap_or_default();
                if times < 50 {
                    all.push(format!("{name} is part of {times} chains only"));
                }
            }
        }
        all
    }

    /// Formats all counts as a table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<44} {value}");
        };
        let of = |part: u64, all: u64| format!("{part} ({:.1} %)", part as f64 * 100.0 / all.max(1) as f64);
        if self.chains > 0 {
            row("chains", self.chains.to_string());
            row("  texts that are no configurations", self.invalid.to_string());
            row("  with a program", of(self.with_program, self.chains));
            row("  with a program that would run", of(self.would_run, self.chains));
            row("    proven", of(self.proven, self.would_run));
            for (reason, times) in &self.not_proven {
                row(&format!("    {reason}"), of(*times, self.would_run));
            }
            row("  the same with every program", of(self.same, self.chains));
            row("  with state", of(self.stateful, self.chains));
            let (uncertain, seeds) = &self.uncertain;
            let seeds = if seeds.is_empty() { String::new() } else { format!(", seeds {seeds:?}") };
            row("  not the same twice", format!("{uncertain}{seeds}"));
            row(
                "elements passed by programs, per chain",
                format!("{:.1}", self.passed as f64 / self.chains as f64),
            );
            let least = self.classes.iter().min_by_key(|(_, times)| **times);
            row("classes", self.classes.len().to_string());
            if let Some((name, times)) = least {
                row("  the rarest", format!("{name}, in {times} chains"));
            }
            let packets: u64 = self.packets.values().sum();
            row("packets", packets.to_string());
            row("  odd", format!("{:.1} %", self.odd() * 100.0));
            for (kind, times) in &self.packets {
                row(&format!("    {kind:?}"), of(*times, packets));
            }
        }
        if self.verdicts.pairs > 0 {
            self.verdicts.table(&mut row);
        }
        for (label, (times, seeds)) in self.failures.iter().chain(&self.verdicts.failures) {
            row(&format!("FAILED: {label}"), format!("{times}, seeds {seeds:?}"));
        }
        text
    }

    /// Adds the results of a case to the counts. Returns the kinds of its failures, with their descriptions.
    fn add(
        &mut self,
        (seed, case, kinds): (u64, &Case, &[Kind]),
        checked: Result<Checked, String>,
    ) -> Vec<(Label, String)> {
        self.chains += 1;
        for kind in kinds {
            *self.packets.entry(*kind).or_default() += 1;
        }
        let checked = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                self.invalid += 1;
                if self.reasons.len() < 60 {
                    self.reasons.push(format!("seed {seed}: {reason}"));
                }
                return Vec::new();
            }
        };
        for class in case.network.classes().collect::<BTreeSet<&str>>() {
            *self.classes.entry(class.to_string()).or_default() += 1;
        }
        self.with_program += u64::from(checked.programs[1] > 0);
        self.would_run += u64::from(checked.proof.is_some());
        self.passed += checked.passed as u64;
        self.stateful += u64::from(checked.keeps_state);
        if checked.is_uncertain {
            self.uncertain.0 += 1;
            if self.uncertain.1.len() < 8 {
                self.uncertain.1.push(seed);
            }
        }
        self.same += u64::from(checked.findings.is_empty() && checked.programs[1] > 0);
        match &checked.proof {
            Some(Proof::Same) => self.proven += 1,
            Some(Proof::Different(_)) => *self.not_proven.entry("different".into()).or_default() += 1,
            Some(Proof::Undecided(reason)) => {
                let reason = reason.rsplit(": ").next().unwrap_or_default();
                *self.not_proven.entry(format!("not proven: {reason}")).or_default() += 1;
            }
            Some(Proof::NotAsked) | None => {}
        }
        for finding in &checked.findings {
            let (times, seeds) = self.failures.entry(named(finding)).or_default();
            *times += 1;
            if seeds.len() < 8 {
                seeds.push(seed);
            }
        }
        checked.findings.into_iter().map(|finding| (finding.label, finding.what)).collect()
    }
}

/// Returns the name of the kind of a failure, with the result of the proof.
fn named(finding: &Finding) -> String {
    let proof = match &finding.proof {
        Proof::NotAsked => "",
        Proof::Same => ", proven",
        Proof::Different(_) => ", refused by the proof",
        Proof::Undecided(_) => ", not proven",
    };
    format!("{}{proof}", finding.label)
}

/// An observer of an attack in progress.
pub trait Watch: Sync {
    /// Called after each case, with the number of cases that are finished, of all cases, and of cases that
    /// failed.
    fn progress(&self, done: u64, all: u64, failed: u64);

    /// Called with text for people: the table of counts if anything failed, and each failure that is shown.
    fn tell(&self, text: &str);
}

/// An observer that ignores all reports.
pub struct Unseen;

impl Watch for Unseen {
    fn progress(&self, _done: u64, _all: u64, _failed: u64) {}
    fn tell(&self, _text: &str) {}
}

/// Runs an attack: first all configurations, then all pairs, then shrinks failures. Messages of panics are
/// suppressed meanwhile.
pub fn attack(settings: Settings, watch: &dyn Watch) -> Outcome {
    let quiet = Quiet::begin();
    let catalogue = Catalogue::new();
    let mut outcome = Outcome::default();
    let effort = Effort { time: settings.proof, nodes: settings.nodes };
    let all = settings.chains + settings.pairs;
    let mut labels: BTreeMap<Label, Vec<(u64, String)>> = BTreeMap::new();
    let (mut done, mut failed) = (0, 0);
    let seeds = settings.seed..settings.seed + settings.chains;
    in_order(
        settings.jobs,
        seeds,
        |seed| {
            let (case, kinds) = Case::random(seed, &catalogue);
            let checked = case.check(&catalogue, effort, None);
            (case, kinds, checked)
        },
        |seed, (case, kinds, checked)| {
            let found = outcome.add((seed, &case, &kinds), checked);
            (done, failed) = (done + 1, failed + u64::from(!found.is_empty()));
            for (label, what) in found {
                labels.entry(label).or_default().push((seed, what));
            }
            watch.progress(done, all, failed);
        },
    );
    let mut smalls = Vec::new();
    let longer = Effort { time: settings.comparison, nodes: settings.nodes };
    let seeds = settings.seed..settings.seed + settings.pairs;
    in_order(
        settings.jobs,
        seeds,
        |seed| {
            let pair = Pair::random(seed, &catalogue);
            pair.check(&catalogue, longer)
        },
        |seed, judged| {
            done += 1;
            if let Some(failure) = outcome.verdicts.add(seed, judged) {
                failed += 1;
                smalls.push((failure, seed));
            }
            watch.progress(done, all, failed);
        },
    );
    if !outcome.is_clean() {
        watch.tell(&outcome.table());
    }
    let wanted = |label: &Label| settings.only.is_none_or(|only| label.to_string().contains(only));
    let shown: Vec<(Label, &(u64, String))> = labels
        .iter()
        .filter(|(label, _)| wanted(label))
        .flat_map(|(label, failures)| {
            failures.iter().take(settings.show).map(move |failure| (*label, failure))
        })
        .collect();
    let mut shows = |text: String| {
        watch.tell(&text);
        outcome.shown.push(text);
    };
    in_order(
        settings.jobs,
        0..shown.len() as u64,
        |number| {
            let (label, (seed, what)) = shown[number as usize];
            show(&catalogue, effort, label, (*seed, what))
        },
        |_, text| shows(text),
    );
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (failure, seed) in &smalls {
        let times = seen.entry(failure).or_default();
        *times += 1;
        if *times <= settings.show {
            shows(Pair::random(*seed, &catalogue).show(&catalogue, longer, failure, *seed));
        }
    }
    drop(quiet);
    outcome
}

/// Creates the case of a seed again, shrinks it while it still has a failure of kind `label`, and describes
/// it. If the case does not fail again, for example because the failure depends on time, describes the whole
/// case, with the description `what` of the failure.
fn show(catalogue: &Catalogue, effort: Effort, label: Label, (seed, what): (u64, &str)) -> String {
    let (case, _) = Case::random(seed, catalogue);
    let find = |case: &Case| {
        let checked = case.check(catalogue, effort, Some(label)).ok()?;
        checked.findings.into_iter().find(|finding| finding.label == label)
    };
    let Some(first) = find(&case) else {
        return format!("seed {seed}, {label}: is not found again\n{what}\n{}", case.describe(catalogue));
    };
    let small = shrink::shrink(case, &mut |case| find(case).is_some());
    let finding = find(&small).unwrap_or(first);
    format!("seed {seed}, {}\n{}\n{}", named(&finding), finding.what, small.describe(catalogue))
}

/// Calls `work` for each number in `jobs` threads, and `take` with the results in the order of the numbers.
fn in_order<T: Send>(
    jobs: usize,
    numbers: std::ops::Range<u64>,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(u64, T),
) {
    let next = AtomicU64::new(numbers.start);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, next, work, end) = (sender.clone(), &next, &work, numbers.end);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end || sender.send((number, work(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut due) = (BTreeMap::new(), numbers.start);
        for (number, result) in receiver {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&due) {
                take(due, result);
                due += 1;
            }
        }
    });
}

/// A guard that suppresses the messages of panics as long as it exists, because panics of configurations
/// are findings. There is at most one at a time.
struct Quiet {
    _only: MutexGuard<'static, ()>,
    before: Option<Hook>,
}

type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Sync + Send>;

static ONLY: Mutex<()> = Mutex::new(());

impl Quiet {
    fn begin() -> Quiet {
        let only = ONLY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        Quiet { _only: only, before: Some(before) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && !std::thread::panicking()
        {
            std::panic::set_hook(before);
        }
    }
}

/// True if the time since `begin` is more than twice the limit plus two seconds, so that the limit was not
/// kept.
fn overran(begin: Instant, limit: Duration) -> bool {
    begin.elapsed() > limit * 2 + Duration::from_secs(2)
}
