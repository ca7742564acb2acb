//! # Tee
//! Sends a copy of each packet to every output.
//!
//! The copies go to the outputs in order; the last output gets the packet itself.
//!
//! ## Usage
//! `Tee([N])`
//!
//! ## Arguments
//! - `N`: the number of outputs; an error if a different number is connected.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> t :: Tee; t[0] -> Discard; t[1] -> Discard
//! ```
//!
//! ## See also
//! PullTee, Hub, PaintSwitch

use element::class::ArgInfo;
use element::effects::{Case, Emit, Filter, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, manual};

/// The element class `Tee`.
pub static CLASS: Class = Class {
    name: "Tee",
    aliases: &["Duplicate", "PushTee"],
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("tee.rs"),
    args: &[ArgInfo::positional("N", "unsigned", "")],
    samples: &["", " -> 1/3"],
    build: |args| {
        check_outputs(args)?;
        Ok(Box::new(Tee { outputs: args.outputs() }))
    },
    ..Class::DEFAULT
};

/// Parses N, the number of outputs that the user expects.
///
/// # Errors
/// If another number of outputs is connected, or another argument is wrong; the error has then been
/// reported.
pub(super) fn check_outputs(args: &mut Args<'_>) -> Result<(), Invalid> {
    let outputs = args.outputs();
    let clicks_words = format!("{outputs} outputs implies {outputs} arms");
    match args.get::<usize>("N") {
        Some(wanted) if wanted > outputs => {
            let last = outputs.saturating_sub(1);
            let connected = if last == 0 { "output 0 is".into() } else { format!("outputs 0 to {last} are") };
            let text = format!("N: {wanted} outputs are wanted, but only {connected} connected");
            args.error_as(text, clicks_words);
        }
        Some(wanted) if wanted < outputs => {
            let last = outputs - 1;
            let text = format!("N: {wanted} outputs are wanted, but output {last} is connected, too");
            args.error_as(text, clicks_words);
        }
        _ => {}
    }
    args.finish()
}

/// Sends copies of all packets of a batch to an output; the batch is unchanged. Packets for whose copies
/// the pool has no slot are not copied, and the missing copies are counted as drops.
pub(crate) fn emit_copies(cx: &mut Cx<'_>, output: usize, batch: &Batch) {
    emit_copies_of(cx, output, batch, |_| true);
}

/// Sends copies of the packets for which `is_wanted` returns true to an output, as [`emit_copies`] does for
/// all packets.
pub(crate) fn emit_copies_of(
    cx: &mut Cx<'_>,
    output: usize,
    batch: &Batch,
    is_wanted: impl Fn(&Packet) -> bool,
) {
    let mut copies = cx.batch();
    for packet in batch.iter().filter(|packet| is_wanted(packet)) {
        if let Some(copy) = cx.copy(packet)
            && let Err(copy) = copies.push(copy)
        {
            cx.drop(copy, DropReason::NoBuffer);
        }
    }
    cx.emit(output, copies);
}

struct Tee {
    outputs: usize,
}

impl Element for Tee {
    fn effects(&self) -> Effects {
        match self.outputs {
            0 | 1 => Effects::pass(),
            _ => Effects {
                emits: vec![Emit::copies(None)],
                ..Effects::cases(vec![Case::new(Filter::TRUE, Target::AllOutputs)])
            },
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let last = self.outputs.saturating_sub(1);
        for output in 0..last {
            emit_copies(cx, output, &batch);
        }
        cx.emit(last, batch);
        None
    }
}
