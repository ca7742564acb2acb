//! # PullTee
//! Passes pulled packets to output 0, and pushes a copy of each packet to every other output.
//!
//! ## Usage
//! `PullTee([N])`
//!
//! ## Arguments
//! - `N`: the number of outputs; an error if a different number is connected.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> t :: PullTee -> Discard; t[1] -> Discard
//! ```
//!
//! ## See also
//! Tee

use element::class::ArgInfo;
use element::effects::{Case, Emit, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::tee::{check_outputs, emit_copies};

/// The element class `PullTee`.
pub static CLASS: Class = Class {
    name: "PullTee",
    ports: "1/1-",
    processing: "l/lh",
    manual: manual!("pull_tee.rs"),
    args: &[ArgInfo::positional("N", "unsigned", "")],
    samples: &["", " -> 1/3"],
    build: |args| {
        check_outputs(args)?;
        Ok(Box::new(PullTee { outputs: args.outputs() }))
    },
    ..Class::DEFAULT
};

struct PullTee {
    outputs: usize,
}

impl Element for PullTee {
    fn effects(&self) -> Effects {
        let copy = |output| Emit::copies(Some(output));
        Effects {
            emits: (1..self.outputs).map(copy).collect(),
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0))])
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let batch = cx.pull(0, max);
        for output in 1..self.outputs {
            emit_copies(cx, output, &batch);
        }
        batch
    }
}
