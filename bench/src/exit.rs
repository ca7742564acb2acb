//! The sink at the end of a benchmark's chain.

use element::effects::{Case, Field, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element};

/// The class of a sink that counts all packets as sent and frees them. Unlike a Discard, its declaration
/// says that it observes the whole packet, as an interface does. So a synthesized chain upstream of it must
/// not omit writes to the packet.
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
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)])
            .observing(&[Field::Length, Field::Payload])
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        cx.sent(batch);
        None
    }
}
