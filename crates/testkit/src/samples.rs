//! Setting up each class for the generic tests.

use std::path::Path;

use element::Class;
use element::effects::Effects;
use element::ports::{self, Processing};

use crate::elements::{Input, Seen, collect, offer};
use crate::{Outcome, Run};

/// One way to set up an element.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The class.
    pub class: &'static Class,
    /// Its configuration.
    pub config: String,
    /// Numbers of inputs and outputs.
    pub shape: (usize, usize),
    /// Whether agnostic ports are pull ports.
    pub pull: bool,
}

/// Every sample of every class, in push and, where the class allows it, in pull context.
pub fn all(classes: &[&'static Class], folder: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    for class in classes {
        for text in class.samples {
            let (config, shape) = match text.rsplit_once("-> ") {
                Some((config, shape)) => (config, shape.split_once('/')),
                None => (*text, None),
            };
            let least = ports::ranges(class.ports, 0).map_or((0, 0), |(i, _)| {
                (i.least, ports::ranges(class.ports, i.least).map_or(0, |(_, o)| o.least))
            });
            let number = |text: &str| text.trim().parse().unwrap_or(0);
            let shape = shape.map_or(least, |(i, o)| (number(i), number(o)));
            let config = config
                .replace("$CAPTURE", &folder.join("capture.pcap").display().to_string())
                .replace("$OUTPUT", &folder.join("output.pcap").display().to_string());
            for pull in [false, true] {
                let sample = Sample { class, config: config.trim().to_string(), shape, pull };
                if !pull || sample.has_agnostic_port() {
                    samples.push(sample);
                }
            }
        }
    }
    samples
}

impl Sample {
    fn has_agnostic_port(&self) -> bool {
        let agnostic = |output, n| {
            (0..n).any(|p| ports::processing(self.class.processing, output, p) == Some(Processing::Agnostic))
        };
        agnostic(false, self.shape.0) || agnostic(true, self.shape.1)
    }

    fn pulls(&self, output: bool, port: usize) -> bool {
        match ports::processing(self.class.processing, output, port) {
            Some(Processing::Pull) => true,
            Some(Processing::Push) => false,
            _ => self.pull,
        }
    }

    /// The configuration around the element, `rounds` times through the packets of exchange `number`.
    pub fn text(&self, number: u64, rounds: usize, record: bool) -> String {
        let mut text = format!("e :: {}({});\n", self.class.name, self.config);
        for i in 0..self.shape.0 {
            let class = if self.pulls(false, i) { "TestPullSource" } else { "TestSource" };
            text += &format!("{class}({number}, {i}, ROUNDS {rounds}) -> [{i}] e;\n");
        }
        for o in 0..self.shape.1 {
            let class = if self.pulls(true, o) { "TestPullSink" } else { "TestSink" };
            text += &format!("e [{o}] -> {class}({number}, {o}, RECORD {record});\n");
        }
        text
    }

    /// Runs the element on packets for its inputs.
    ///
    /// # Errors
    /// What is wrong with the sample, rendered.
    pub fn run(&self, run: Run, inputs: Vec<Vec<Input>>) -> Result<(Outcome, Vec<Seen>), String> {
        let number = offer(inputs);
        let outcome = run.text(&self.text(number, 1, true), &[]);
        let seen = collect(number);
        outcome.map(|outcome| (outcome, seen))
    }

    /// What the element declares.
    ///
    /// # Errors
    /// What is wrong with the sample, rendered.
    pub fn effects(&self) -> Result<Effects, String> {
        let worker = crate::worker(&self.text(0, 1, false), Run::default())?;
        let id = worker.plan().graph.find("e").ok_or("no element")?;
        Ok(worker.effects()[id].clone())
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let context = if self.pull { "pull" } else { "push" };
        write!(f, "{}({}) with {:?} ports, {context}", self.class.name, self.config, self.shape)
    }
}
