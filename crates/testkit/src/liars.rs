//! Elements whose declarations are wrong, to show that the generic tests notice.

use element::{Batch, Class, Cx, DropReason, Effects, Element};

/// One for each kind of lie.
pub static CLASSES: &[&Class] = &[&UNDECLARED_WRITER, &UNDECLARED_READER, &UNDECLARED_SORTER];

/// Changes a byte and declares nothing.
pub static UNDECLARED_WRITER: Class =
    Class { name: "UndeclaredWriter", build: |_| Ok(Box::new(Liar::Writer)), ..Class::DEFAULT };

/// Drops by a byte and declares nothing.
pub static UNDECLARED_READER: Class =
    Class { name: "UndeclaredReader", build: |_| Ok(Box::new(Liar::Reader)), ..Class::DEFAULT };

/// Turns batches round and declares nothing.
pub static UNDECLARED_SORTER: Class =
    Class { name: "UndeclaredSorter", build: |_| Ok(Box::new(Liar::Sorter)), ..Class::DEFAULT };

enum Liar {
    Writer,
    Reader,
    Sorter,
}

impl Element for Liar {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        match self {
            Liar::Writer => {
                for packet in batch.iter_mut() {
                    packet.data_mut().iter_mut().skip(20).take(1).for_each(|byte| *byte ^= 1);
                }
            }
            Liar::Reader => batch.sift(
                |packet| if packet.data().get(30).is_some_and(|b| b & 1 == 1) { Err(()) } else { Ok(()) },
                |packet, ()| cx.drop(packet, DropReason::NoMatch),
            ),
            Liar::Sorter => batch.reverse(),
        }
    }
}
