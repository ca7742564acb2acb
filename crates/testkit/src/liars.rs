//! Elements with wrong declarations, which show that the generic tests find such errors.

use element::class::HandlerInfo;
use element::effects::Counts;
use element::{Batch, Class, Cx, DropReason, Effects, Element};

/// The classes, one for each kind of wrong declaration.
pub static CLASSES: &[&Class] =
    &[&UNDECLARED_WRITER, &UNDECLARED_READER, &UNDECLARED_SORTER, &UNDECLARED_COUNTER, &DEAF_COUNTER];

/// Changes a byte without declaring it.
pub static UNDECLARED_WRITER: Class =
    Class { name: "UndeclaredWriter", build: |_| Ok(Box::new(Liar::Writer)), ..Class::DEFAULT };

/// Drops packets by a byte without declaring the read.
pub static UNDECLARED_READER: Class =
    Class { name: "UndeclaredReader", build: |_| Ok(Box::new(Liar::Reader)), ..Class::DEFAULT };

/// Reverses batches without declaring it.
pub static UNDECLARED_SORTER: Class =
    Class { name: "UndeclaredSorter", build: |_| Ok(Box::new(Liar::Sorter)), ..Class::DEFAULT };

/// Counts packets without declaring it.
pub static UNDECLARED_COUNTER: Class = Class {
    name: "UndeclaredCounter",
    handlers: &[HandlerInfo::count("count")],
    build: |_| Ok(Box::new(Liar::Counter { packets: 0, counts: Counts::None })),
    ..Class::DEFAULT
};

/// Counts packets and declares that it can be notified of packets, but ignores the notifications.
pub static DEAF_COUNTER: Class = Class {
    name: "DeafCounter",
    handlers: &[HandlerInfo::count("count")],
    build: |_| Ok(Box::new(Liar::Counter { packets: 0, counts: Counts::Tallied })),
    ..Class::DEFAULT
};

enum Liar {
    Writer,
    Reader,
    Sorter,
    Counter { packets: usize, counts: Counts },
}

impl Element for Liar {
    fn effects(&self) -> Effects {
        match self {
            Liar::Counter { counts, .. } => Effects::pass().counting(*counts),
            _ => Effects::pass(),
        }
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
            Liar::Counter { packets, .. } => *packets += batch.len(),
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        match self {
            Liar::Counter { packets, .. } => Ok(packets.to_string()),
            _ => Err(format!("'{name}' is not a read handler")),
        }
    }
}
