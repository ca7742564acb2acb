//! An element that drops the first round of replayed packets (packets that make flows known), so that the
//! chain downstream does not get them.

use element::class::ArgInfo;
use element::effects::{Case, Counting, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element};

/// The class of an element that drops the first PACKETS packets, rounded up to whole batches, and passes
/// all later packets.
pub(crate) static SKIP: Class = Class {
    name: "BenchmarkSkip",
    ports: "1/1",
    processing: "h/h",
    args: &[ArgInfo::required("PACKETS", "unsigned")],
    build: |args| {
        let left = args.required("PACKETS");
        args.finish()?;
        Ok(Box::new(Skip { left }))
    },
    ..Class::DEFAULT
};

struct Skip {
    left: usize,
}

impl Element for Skip {
    fn effects(&self) -> Effects {
        let skipped = Filter::Leaf(Predicate::Opaque { about: "how many came before", reads: Vec::new() });
        let cases = vec![
            Case::new(skipped, Target::Drop(DropReason::Discard)),
            Case::new(Filter::TRUE, Target::Output(0)),
        ];
        // Because of `Counting::Own`, the synthesizer does not include this element in a region, which then
        // begins downstream of it.
        Effects::cases(cases).counting(Counting::Own)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if self.left == 0 {
            return Some(batch);
        }
        self.left = self.left.saturating_sub(batch.len());
        cx.drop_all(batch, DropReason::Discard);
        None
    }
}
