//! # Hub
//! Sends a copy of each packet to every output except the output with the number of the packet's input.
//!
//! ## Usage
//! `Hub`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> h :: Hub -> Discard; InfiniteSource(LIMIT 1) -> [1] h [1] -> Discard
//! ```
//!
//! ## See also
//! Tee

use element::effects::{Case, Emit, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};

use crate::basic::tee::emit_copies;

/// The element class `Hub`.
pub static CLASS: Class = Class {
    name: "Hub",
    ports: "-/=",
    processing: "h/h",
    flow: "#/[^#]",
    manual: manual!("hub.rs"),
    samples: &[" -> 1/1", " -> 2/2", " -> 3/3"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(Hub { ports: args.outputs() }))
    },
    ..Class::DEFAULT
};

/// Declares that an element sends packets of `input` to all `outputs`: the last output gets each packet
/// itself, and the other outputs get copies of the packets that match `when`. Without outputs, packets are
/// dropped.
pub(crate) fn declare_flood(
    effects: &mut Effects,
    input: usize,
    outputs: impl Iterator<Item = usize>,
    when: &Filter,
) {
    let mut outputs: Vec<usize> = outputs.collect();
    let to = outputs.pop().map_or(Target::Drop(DropReason::Denied), Target::Output);
    effects.cases.push(Case::new(Filter::TRUE, to).on(input));
    let copy = |output| Emit { input: Some(input), when: when.clone(), ..Emit::copies(Some(output)) };
    effects.emits.extend(outputs.into_iter().map(copy));
}

struct Hub {
    ports: usize,
}

impl Element for Hub {
    fn effects(&self) -> Effects {
        match self.ports {
            0 | 1 => Effects::drop(DropReason::NoOutput),
            ports => {
                let mut effects = Effects::default();
                for input in 0..ports {
                    let others = (0..ports).filter(|&output| output != input);
                    declare_flood(&mut effects, input, others, &Filter::TRUE);
                }
                effects
            }
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        // The last output gets the packets themselves, and the other outputs get copies.
        let Some(last) = (0..self.ports).rev().find(|&output| output != port) else {
            cx.drop_all(batch, DropReason::NoOutput);
            return None;
        };
        for output in (0..last).filter(|&output| output != port) {
            emit_copies(cx, output, &batch);
        }
        cx.emit(last, batch);
        None
    }
}
