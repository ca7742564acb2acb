//! The sink of a benchmark's chain.

use element::effects::{Case, Field, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element};

/// A sink that counts all packets as sent and frees them. Nothing downstream of Discard reads what was
/// written to a packet, so a synthesized chain may omit these writes. This element observes the whole
/// packet, as an interface does.
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
