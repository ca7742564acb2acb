//! The samples of each class for the generic tests: configurations with which the class is run.

use std::ops::Deref;
use std::path::Path;

use element::Class;
use element::effects::Effects;
use packet::HEADROOM;

use crate::elements::{Seen, TestPacket, collect, offer};
use crate::{RunResults, TestRun};

/// Patterns of Classifier for random chains. Most are for Ethernet frames, some for packets that begin with
/// an IP header.
pub const PATTERNS: [&str; 17] = [
    "12/0800",
    "12/0806",
    "12/8100",
    "22/00",
    "22/01%03",
    "23/11",
    "33/02%0f",
    "30/0a00",
    "20/20%20",
    "8/00",
    "!12/0800",
    "26/0a 37/50",
    "14/45",
    "0/02",
    "0/45 9/06",
    "12/0800 23/06",
    "!9/11",
];

/// A handler call whose target is an element of [`TARGET`].
pub(crate) const TARGET_CALL: &str = "target.reset";

/// An element whose handler others can call, and a stand-in: with a stand-in in the graph, the engine asks
/// elements for their declarations again after handlers have been written.
const TARGET: &str = "target :: Counter -> passed :: IPFilter(allow udp, deny all) -> Discard;
    Idle -> stands :: TestStandIn(target, passed) -> Discard; stands [1] -> target;\n";

/// A configuration of one class, with the other classes that it needs.
#[derive(Clone, Debug)]
pub struct ClassSample {
    sample: element::Sample,
    /// Element classes that are available in addition to the product's and the tests' classes.
    pub(crate) classes: &'static [&'static Class],
}

/// Returns all samples of `classes`, in push and, where the class allows it, in pull context. The
/// placeholders `$CAPTURE` and `$OUTPUT` in arguments are replaced by paths in `folder`.
pub fn all(classes: &[&'static Class], folder: &Path) -> Vec<ClassSample> {
    let placed = |mut sample: element::Sample| {
        for (what, file) in [("$CAPTURE", "capture.pcap"), ("$OUTPUT", "output.pcap")] {
            sample.config = sample.config.replace(what, &folder.join(file).display().to_string());
        }
        ClassSample::new(sample)
    };
    classes.iter().flat_map(|class| element::Sample::all(class)).map(placed).collect()
}

impl Deref for ClassSample {
    type Target = element::Sample;

    fn deref(&self) -> &element::Sample {
        &self.sample
    }
}

impl ClassSample {
    /// Makes a sample that needs only classes of the product or of the tests.
    pub fn new(sample: element::Sample) -> ClassSample {
        ClassSample { sample, classes: &[] }
    }

    /// Returns this sample with additional element classes, for samples of a class of another crate.
    #[must_use]
    pub fn with(self, classes: &'static [&'static Class]) -> ClassSample {
        ClassSample { classes, ..self }
    }

    /// Returns the text of a configuration with the element, named `e`, between test sources and sinks.
    /// Each source sends its packets of the exchange with this number `rounds` times; sinks record the
    /// packets if `record` is true.
    pub fn text(&self, number: u64, rounds: usize, record: bool) -> String {
        self.text_with(number, (&format!("ROUNDS {rounds}"), ""), record)
    }

    /// Returns the text of [`text`](Self::text), with these further arguments of the sources and these
    /// elements after each source, such as `Counter -> `.
    fn text_with(&self, number: u64, (of_sources, after): (&str, &str), record: bool) -> String {
        let mut text = format!("e :: {}({});\n", self.class.name, self.config);
        for i in 0..self.shape.0 {
            let class = if self.pulls(false, i) { "TestPullSource" } else { "TestSource" };
            text += &format!("{class}({number}, {i}, {of_sources}) -> {after}[{i}] e;\n");
        }
        for o in 0..self.shape.1 {
            let class = if self.pulls(true, o) { "TestPullSink" } else { "TestSink" };
            text += &format!("e [{o}] -> {class}({number}, {o}, RECORD {record});\n");
        }
        text
    }

    /// Runs the element on packets, one list for each of its inputs. Returns the results of the run and the
    /// packets that came out.
    ///
    /// # Errors
    /// The errors of the sample as text.
    pub fn run(&self, run: TestRun, inputs: Vec<Vec<TestPacket>>) -> Result<(RunResults, Vec<Seen>), String> {
        self.run_with(run, HEADROOM, None, inputs)
    }

    /// Runs the element like [`run`](Self::run), on packets with this headroom. Before the run, a value is
    /// written to one of its handlers if `write` has a handler's name and a value.
    ///
    /// # Errors
    /// The errors of the sample, or of the handler, as text.
    pub(crate) fn run_with(
        &self,
        run: TestRun,
        headroom: usize,
        write: Option<(&str, &str)>,
        inputs: Vec<Vec<TestPacket>>,
    ) -> Result<(RunResults, Vec<Seen>), String> {
        self.run_from(run, (&format!("HEADROOM {headroom}"), ""), write, inputs)
    }

    /// Runs the element like [`run`](Self::run), on packets of which each is a run of its own.
    ///
    /// # Errors
    /// The errors of the sample as text.
    pub(crate) fn run_singly(
        &self,
        run: TestRun,
        inputs: Vec<Vec<TestPacket>>,
    ) -> Result<(RunResults, Vec<Seen>), String> {
        self.run_from(run, ("SINGLE true", ""), None, inputs)
    }

    /// Runs the element like [`run`](Self::run), on packets that all have the same run, although they may
    /// belong to different flows.
    ///
    /// # Errors
    /// The errors of the sample as text.
    pub(crate) fn run_with_wrong_runs(
        &self,
        run: TestRun,
        inputs: Vec<Vec<TestPacket>>,
    ) -> Result<(RunResults, Vec<Seen>), String> {
        self.run_from(run, ("", "TestStale -> "), None, inputs)
    }

    fn run_from(
        &self,
        run: TestRun,
        sources: (&str, &str),
        write: Option<(&str, &str)>,
        inputs: Vec<Vec<TestPacket>>,
    ) -> Result<(RunResults, Vec<Seen>), String> {
        let number = offer(inputs);
        let text = self.text_with(number, sources, true);
        let writes = write.map(|(handler, value)| ("e", handler, value));
        let outcome = run.with(self.classes).text_after(&text, writes, &[]);
        let seen = collect(number);
        outcome.map(|outcome| (outcome, seen))
    }

    /// Returns the names of the element's handlers, with their flags.
    ///
    /// # Errors
    /// The errors of the sample as text.
    pub fn handlers(&self) -> Result<Vec<(String, String)>, String> {
        let mut worker = crate::worker(&self.text(0, 1, false), TestRun::default().with(self.classes))?;
        let id = worker.plan().graph.find("e").ok_or("no element")?;
        let all = worker.read(Some(id), "handlers", "")?;
        let split = |line: &str| line.split_once('\t').map(|(name, flags)| (name.into(), flags.into()));
        Ok(all.lines().filter_map(split).collect())
    }

    /// Returns true if the element declares that it calls handlers, with a further argument unless
    /// `argument` is empty, and after a write to one of its handlers if `write` has a handler's name and a
    /// value. Both may name [`TARGET_CALL`].
    ///
    /// # Errors
    /// The errors of the sample, or of the handler, as text.
    pub(crate) fn beside_target(&self, argument: &str, write: Option<(&str, &str)>) -> Result<bool, String> {
        let mut sample = self.clone();
        let given = [self.config.as_str(), argument].into_iter().filter(|given| !given.is_empty());
        sample.sample.config = given.collect::<Vec<_>>().join(", ");
        let text = TARGET.to_string() + &sample.text(0, 1, false);
        let mut worker = crate::worker(&text, TestRun::default().with(self.classes))?;
        let id = worker.plan().graph.find("e").ok_or("no element")?;
        if let Some((handler, value)) = write {
            worker.write(Some(id), handler, value)?;
        }
        Ok(worker.effects()[id].calls)
    }

    /// Returns the declared effects of the element in this configuration.
    ///
    /// # Errors
    /// The errors of the sample as text.
    pub fn effects(&self) -> Result<Effects, String> {
        let worker = crate::worker(&self.text(0, 1, false), TestRun::default().with(self.classes))?;
        let id = worker.plan().graph.find("e").ok_or("no element")?;
        Ok(worker.effects()[id].clone())
    }
}

impl std::fmt::Display for ClassSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sample.fmt(f)
    }
}
