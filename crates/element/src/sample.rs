//! Ways to set up the elements of a class, for generic tests and benchmarks.

use crate::class::Class;
use crate::ports::{self, Processing};

/// A way to set up an element.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The class.
    pub class: &'static Class,
    /// The configuration of the element.
    pub config: String,
    /// Numbers of inputs and outputs.
    pub shape: (usize, usize),
    /// True if agnostic ports are pull ports.
    pub pull: bool,
}

impl Sample {
    /// Returns every sample of a class, in push and, if the class allows it, in pull context. A sample is
    /// written as `CONFIG`, or as `CONFIG -> INPUTS/OUTPUTS` if it has more than the least number of ports.
    pub fn all(class: &'static Class) -> Vec<Sample> {
        let mut samples = Vec::new();
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
            for pull in [false, true] {
                let sample = Sample { class, config: config.trim().to_string(), shape, pull };
                if !pull || sample.has_agnostic_port() {
                    samples.push(sample);
                }
            }
        }
        samples
    }

    fn has_agnostic_port(&self) -> bool {
        let agnostic = |output, n| {
            (0..n).any(|p| ports::processing(self.class.processing, output, p) == Some(Processing::Agnostic))
        };
        agnostic(false, self.shape.0) || agnostic(true, self.shape.1)
    }

    /// True if an input (or output) is a pull port.
    pub fn pulls(&self, output: bool, port: usize) -> bool {
        match ports::processing(self.class.processing, output, port) {
            Some(Processing::Pull) => true,
            Some(Processing::Push) => false,
            _ => self.pull,
        }
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let context = if self.pull { "pull" } else { "push" };
        write!(f, "{}({}) with {:?} ports, {context}", self.class.name, self.config, self.shape)
    }
}
