//! Samples: arguments and ports with which the generic tests and benchmarks run the elements of a class.

use crate::class::Class;
use crate::ports::{self, Processing};

/// A way to set up an element for a generic test: arguments, numbers of ports, and push or pull.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The class of the element.
    pub class: &'static Class,
    /// The arguments of the element.
    pub config: String,
    /// The numbers of inputs and outputs.
    pub shape: (usize, usize),
    /// True if the agnostic ports are pull ports, false if they are push ports.
    pub pull: bool,
}

impl Sample {
    /// Returns the samples of a class ([`Class::samples`]), each with push ports and, if it has agnostic
    /// ports, also with pull ports. A sample is written as `CONFIG`, or as `CONFIG -> INPUTS/OUTPUTS` if it
    /// has more than the least number of ports.
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

    /// True if the input `port` (or the output `port`, if `output` is true) is a pull port.
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
