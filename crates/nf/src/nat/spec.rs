//! Input specifications: the actions for packets without a mapping.

use std::sync::Arc;

use element::args::parse_integer;
use element::setup::Setup;

use super::mapper::Mapper;
use super::pattern::{Named, Outputs, Target, outputs, words};

/// The specification of an input.
#[derive(Clone)]
pub(super) enum Spec {
    /// Drops the packets.
    Drop,
    /// Sends the packets to an output unchanged.
    Pass(usize),
    /// Makes a mapping that changes no addresses and ports.
    Keep(Outputs),
    /// Makes a mapping by a pattern.
    Pattern(Target),
    /// Makes a mapping by a pattern that another element chooses.
    Mapper(Arc<Mapper>),
}

/// The context in which specifications are parsed.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) named: Named<'a>,
    pub(super) outputs: usize,
    /// Returns the mapper that an element has published, if it is a mapper; the outer `None` means that
    /// there is no such element.
    pub(super) mapper: &'a dyn Fn(&str) -> Option<Option<Arc<Mapper>>>,
}

/// Looks up a mapper while the graph is built.
pub(super) fn mapper_of(setup: &Setup, element: Option<element::ElementId>) -> Option<Option<Arc<Mapper>>> {
    element.map(|id| setup.service::<Mapper>(id))
}

impl Spec {
    /// Parses the specification of input `number`.
    ///
    /// # Errors
    /// If the text is no specification; the text of the error is Click's.
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

    /// Returns the text of the specification for the handler `patterns`.
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
