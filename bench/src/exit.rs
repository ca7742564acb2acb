//! Where packets leave a benchmark's chain.

use element::effects::{Case, Field, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element};

/// Sends packets to nowhere. Behind Discard nobody sees what was written to a packet, so that a chain that is composed need
/// not write it; behind this one all of it is seen, as by an interface.
pub(crate) static EXIT: Class = Class {
    name: "BenchmarkExit",
    ports: "1/0",
    processing: "h/h",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Exit))
    },
    ..Class::DEFAULT
};

struct Exit;

impl Element for Exit {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Send)]).observing(&[Field::Length, Field::Payload])
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        cx.sent(batch);
        None
    }
}
