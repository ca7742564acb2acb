//! Input specifications: the arguments of translators that say, for each input, how packets without a
//! mapping are handled.

use std::sync::Arc;

use element::args::parse_integer;
use element::setup::Setup;

use super::mapper::Mapper;
use super::pattern::{Named, Outputs, Target, outputs, words};
use super::tuple::Tuple;

/// The specification of one input: the handling of packets that arrive there and have no mapping.
#[derive(Clone)]
pub(super) enum Spec {
    /// Drops packets without a mapping.
    Drop,
    /// Sends packets without a mapping unchanged to the output with this number, and makes no mapping.
    Pass(usize),
    /// Makes a mapping that leaves addresses and ports as they are. Packets of the flow and of its replies go
    /// to these outputs.
    Keep(Outputs),
    /// Makes a mapping, with the addresses and ports that a pattern chooses.
    Pattern(Target),
    /// Makes a mapping, with a pattern that a mapper (another element) chooses for each flow.
    Mapper(Arc<Mapper>),
}

/// The context in which specifications are parsed: the visible names of patterns, the translator's number
/// of outputs, and the look-up of mappers.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) named: Named<'a>,
    pub(super) outputs: usize,
    /// Finds the mapper with an element's name. Returns `None` if there is no element with this name, and
    /// `Some(None)` if the element is not a mapper.
    pub(super) mapper: &'a dyn Fn(&str) -> Option<Option<Arc<Mapper>>>,
}

/// Returns the mapper that the element with the id `element` has published; used while the graph is built.
/// Returns `None` if `element` is `None`, and `Some(None)` if the element is not a mapper.
pub(super) fn mapper_of(setup: &Setup, element: Option<element::ElementId>) -> Option<Option<Arc<Mapper>>> {
    element.map(|id| setup.service::<Mapper>(id))
}

impl Spec {
    /// Parses the specification of input `number`, which the error message names.
    ///
    /// # Errors
    /// If the text is not a specification, names an unknown pattern or mapper, or uses an output that the
    /// translator does not have. The error's text is Click's.
    pub(super) fn parse(text: &str, number: usize, reading: &Reading<'_>) -> Result<Spec, String> {
        Spec::read(text, reading).map_err(|error| format!("input spec {number}: {error}"))
    }

    fn read(text: &str, reading: &Reading<'_>) -> Result<Spec, String> {
        let text = text.trim();
        let all = words(text);
        let Some((word, rest)) = all.split_first() else { return Err("empty argument".into()) };
        let in_range = |outputs: &Outputs| {
            let fits = outputs.forward < reading.outputs && outputs.reply < reading.outputs;
            if fits { Ok(()) } else { Err("output port out of range".to_string()) }
        };
        match word.as_str() {
            "pass" | "passthrough" | "nochange" => {
                let output = match rest {
                    [] => Some(0),
                    [output] => parse_integer(output).ok(),
                    _ => None,
                };
                let output = output.ok_or("syntax error, expected 'nochange [OUTPUT]'")?;
                let output = usize::try_from(output).ok().filter(|&output| output < reading.outputs);
                output.map(Spec::Pass).ok_or_else(|| "output port out of range".into())
            }
            "keep" => {
                let outputs = outputs(rest)?;
                in_range(&outputs)?;
                Ok(Spec::Keep(outputs))
            }
            "drop" | "discard" => match rest {
                [] => Ok(Spec::Drop),
                _ => Err(format!("syntax error, expected '{word}'")),
            },
            "pattern" | "xpattern" => {
                let rest = text.strip_prefix(word.as_str()).unwrap_or_default();
                let target = Target::parse(rest, &reading.named)?;
                in_range(&target.outputs)?;
                Ok(Spec::Pattern(target))
            }
            name => match (reading.mapper)(name) {
                None => Err("unknown specification".into()),
                Some(_) if !rest.is_empty() => Err("syntax error, expected element name".into()),
                Some(None) => Err("element is not an IPMapper".into()),
                Some(Some(mapper)) => match mapper.out_of_range(reading.outputs) {
                    Some(error) => Err(error),
                    None => Ok(Spec::Mapper(mapper)),
                },
            },
        }
    }

    /// True if the specification could have made a mapping that translates the tuple `from` to the tuple
    /// `to`, with these outputs. `space` tells whether the tuples have ports or ICMP identifiers.
    pub(super) fn could_make(&self, space: u32, (from, to): (Tuple, Tuple), outputs: [u16; 2]) -> bool {
        match self {
            Spec::Drop | Spec::Pass(_) => false,
            Spec::Keep(own) => from == to && own.are(outputs),
            Spec::Pattern(target) => target.could_make(space, (from, to), outputs),
            Spec::Mapper(mapper) => {
                mapper.targets.iter().any(|target| target.could_make(space, (from, to), outputs))
            }
        }
    }

    /// Returns the text that the handler `patterns` shows for the specification: the pattern, or a word
    /// such as `<drop>`.
    pub(super) fn show(&self) -> String {
        match self {
            Spec::Drop => "<drop>".into(),
            Spec::Pass(_) => "<nochange>".into(),
            Spec::Keep(_) => "<keep>".into(),
            Spec::Pattern(target) => target.pattern.to_string(),
            Spec::Mapper(_) => "<mapper>".into(),
        }
    }
}
