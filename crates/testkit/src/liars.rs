//! Elements with wrong declarations. Tests use them to show that the generic tests find each kind of error.

use element::args::Raw;
use element::class::ArgInfo;
use element::effects::{Counting, Support};
use element::runs::{RunList, Runs};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart};

/// The classes of this file, one for each kind of wrong declaration.
pub static CLASSES: &[&Class] = &[
    &UNDECLARED_WRITER,
    &UNDECLARED_READER,
    &UNDECLARED_SORTER,
    &UNDECLARED_SETTING,
    &UNDECLARED_COUNTER,
    &DEAF_COUNTER,
    &FORGETFUL,
    &RUN_MARKER,
    &UNDECLARED_CALLER,
];

/// A class that changes the byte at offset 20 of each packet, but does not declare a write.
pub static UNDECLARED_WRITER: Class =
    Class { name: "UndeclaredWriter", build: |_| Ok(Box::new(Liar::Writer)), ..Class::DEFAULT };

/// A class that drops packets depending on a byte, but does not declare that it reads the byte.
pub static UNDECLARED_READER: Class =
    Class { name: "UndeclaredReader", build: |_| Ok(Box::new(Liar::Reader)), ..Class::DEFAULT };

/// A class that reverses the packets of each batch, but declares that it keeps their order.
pub static UNDECLARED_SORTER: Class =
    Class { name: "UndeclaredSorter", build: |_| Ok(Box::new(Liar::Sorter)), ..Class::DEFAULT };

/// A class that finds runs, and takes the TTL of the first packet of a run for that of all, although packets
/// of a run may differ in it: it writes this TTL.
pub static RUN_MARKER: Class =
    Class { name: "RunMarker", build: |_| Ok(Box::new(Liar::RunMarker)), ..Class::DEFAULT };

/// A class that drops all packets after a write to its handler `active`, but declares neither this effect of
/// the handler nor the drops.
pub static UNDECLARED_SETTING: Class = Class {
    name: "UndeclaredSetting",
    table: &SETTING,
    build: |_| Ok(Box::new(Liar::Setting { is_active: false })),
    ..Class::DEFAULT
};

/// A class that counts packets, but does not declare that it counts.
pub static UNDECLARED_COUNTER: Class = Class {
    name: "UndeclaredCounter",
    table: &HANDLERS,
    build: |_| Ok(Box::new(Liar::Counter { packets: 0, counts: Counting::None })),
    ..Class::DEFAULT
};

/// A class that counts packets and declares that it can be notified of packets that bypass it, but ignores
/// the notifications.
pub static DEAF_COUNTER: Class = Class {
    name: "DeafCounter",
    table: &HANDLERS,
    build: |_| Ok(Box::new(Liar::Counter { packets: 0, counts: Counting::Tallied })),
    ..Class::DEFAULT
};

/// A class that declares that a reload keeps its count, but loses the count.
pub static FORGETFUL: Class = Class {
    name: "Forgetful",
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"])],
    build: |_| Ok(Box::new(Liar::Counter { packets: 0, counts: Counting::Own })),
    ..Class::DEFAULT
};

/// A class that calls a handler at a count, but does not declare that it calls handlers.
pub static UNDECLARED_CALLER: Class = Class {
    name: "UndeclaredCaller",
    args: &[ArgInfo::keyword("AT_CALL", "N HANDLER [VALUE]", "")],
    build: |args| {
        args.get::<Raw>("AT_CALL");
        args.finish()?;
        Ok(Box::new(Liar::Caller))
    },
    ..Class::DEFAULT
};

enum Liar {
    Caller,
    Writer,
    Reader,
    Sorter,
    RunMarker,
    Setting { is_active: bool },
    Counter { packets: usize, counts: Counting },
}

impl Element for Liar {
    fn effects(&self) -> Effects {
        match self {
            Liar::Counter { counts, .. } => Effects::pass().counting(*counts),
            Liar::RunMarker => {
                Effects { support: Support { finds_runs: true, ..Support::default() }, ..Effects::pass() }
            }
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
            Liar::RunMarker => {
                let mut runs = Runs::default();
                cx.find_runs(batch, &mut runs);
                for run in runs.of_mut(batch, 0) {
                    let ttl = run.first().and_then(|packet| packet.network_bytes::<1>(8).copied());
                    for packet in run {
                        let place = packet.header_mut(Base::Network).and_then(|header| header.get_mut(8));
                        place.into_iter().zip(ttl).for_each(|(place, [ttl])| *place = ttl);
                    }
                }
            }
            Liar::Caller => {}
            Liar::Setting { is_active: false } => {}
            Liar::Setting { is_active: true } => {
                let all = std::mem::take(batch);
                cx.drop_all(all, DropReason::Denied);
            }
            Liar::Counter { packets, .. } => *packets += batch.len(),
        }
    }
}

const SETTING: &[Handler<Liar>] = &[Handler::set("active", |e, _, _| {
    *e = Liar::Setting { is_active: true };
    Ok(())
})];

const HANDLERS: &[Handler<Liar>] = &[Handler::count("count", |e| match e {
    Liar::Counter { packets, .. } => *packets as u64,
    _ => 0,
})];
