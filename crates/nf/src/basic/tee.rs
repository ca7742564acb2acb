//! # Tee
//! Sends a copy of each packet to every output.
//!
//! The copies go to the outputs in order; the last output gets the packet itself.
//!
//! ## Usage
//! `Tee([N])`
//!
//! ## Arguments
//! - `N`: number of outputs, as a check.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> t :: Tee; t[0] -> Discard; t[1] -> Discard
//! ```
//!
//! ## See also
//! PaintSwitch

use element::class::ArgInfo;
use element::effects::{Case, Emit, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "Tee",
    aliases: &["Duplicate"],
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("tee.rs"),
    args: &[ArgInfo::positional("N", "unsigned", "")],
    samples: &["", " -> 1/3"],
    build: |args| {
        if let Some(n) = args.get::<usize>("N")
            && n != args.outputs()
        {
            args.error(format!("{n} outputs implies {n} arms"));
        }
        args.finish()?;
        Ok(Box::new(Tee { outputs: args.outputs() }))
    },
    ..Class::DEFAULT
};

struct Tee {
    outputs: usize,
}

impl Element for Tee {
    fn effects(&self) -> Effects {
        match self.outputs {
            0 | 1 => Effects::pass(),
            _ => Effects {
                emits: vec![Emit { name: "copy", reads: Vec::new(), output: None }],
                ..Effects::cases(vec![Case::new(Filter::Any, Target::AllOutputs)])
            },
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let last = self.outputs.saturating_sub(1);
        for output in 0..last {
            let mut copies = cx.batch();
            for packet in batch.iter() {
                if let Some(copy) = cx.copy(packet)
                    && let Err(copy) = copies.push(copy)
                {
                    cx.drop(copy, element::DropReason::NoBuffer);
                }
            }
            cx.emit(output, copies);
        }
        cx.emit(last, batch);
        None
    }
}
