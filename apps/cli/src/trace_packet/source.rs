//! The element that gives the packets of a capture at the place where packets enter a configuration.

use capture::Reader;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Filter, Target};
use element::{Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, Timestamp};
use packet::PacketKind;

/// The name of the class.
pub(super) const NAME: &str = "TracedSource";

pub(super) static CLASSES: &[&Class] = &[&CLASS];

static CLASS: Class = Class {
    name: NAME,
    // The element takes the place of one that may have inputs; packets that arrive there are dropped.
    ports: "-/-",
    processing: "h/a",
    notes: Notes { task: Task::WherePushing, follows_captures: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("FILE", "file"),
        ArgInfo::required("FIRST", "unsigned"),
        ArgInfo::required("LAST", "unsigned"),
    ],
    build,
    ..Class::DEFAULT
};

/// Gives the packets of a capture with the numbers from `first` to `last`.
struct TracedSource {
    file: String,
    first: u64,
    last: u64,
    reader: Option<Reader>,
    next: Option<Given>,
}

/// The packet that is given next.
struct Given {
    number: u64,
    time: Timestamp,
    link: u16,
    bytes: Vec<u8>,
}

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let (file, first, last) = (args.required("FILE"), args.required("FIRST"), args.required("LAST"));
    args.finish()?;
    Ok(Box::new(TracedSource { file, first, last, reader: None, next: None }))
}

impl TracedSource {
    /// Reads the packet that is given next.
    fn read(&mut self) -> Result<(), String> {
        self.next = None;
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while let Some(record) = reader.next().map_err(|error| error.to_string())? {
            if record.number > self.last {
                break;
            }
            if record.number >= self.first {
                self.next = Some(Given {
                    number: record.number,
                    time: Timestamp(record.time),
                    link: record.link.number(),
                    bytes: record.data.to_vec(),
                });
                return Ok(());
            }
        }
        self.reader = None;
        Ok(())
    }

    fn give(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let given = self.next.take()?;
        // An error in the middle of the capture ends it. The caller has read the capture up to the traced
        // packet before.
        let _ = self.read();
        let mut packet = cx.packet(&given.bytes)?;
        packet.set_link(given.link);
        packet.set_time(given.time);
        if given.link == wire::LinkType::Ethernet.number() {
            packet.set_offset(Base::Mac, Some(0));
            packet.set_kind(PacketKind::of_frame(&given.bytes));
        }
        Some(packet)
    }
}

impl Element for TracedSource {
    fn effects(&self) -> Effects {
        let ends = Case::new(Filter::TRUE, Target::Drop(DropReason::Discard));
        Effects { cases: vec![ends], ..Effects::source("packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.reader = Some(Reader::open(&self.file).map_err(|error| error.to_string())?);
        self.read()?;
        if self.next.as_ref().is_none_or(|next| next.number > self.last) {
            return Err(format!("{} has no packet {}", self.file, self.last));
        }
        if cx.outputs() > 0 && cx.graph().output_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        cx.drop_all(batch, DropReason::Discard);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let packet = self.give(cx);
        let worked = packet.is_some();
        if let Some(packet) = packet {
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
        if self.next.is_some() {
            cx.schedule();
        }
        worked
    }

    fn next_time(&self) -> Option<Timestamp> {
        self.next.as_ref().map(|next| next.time)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _max: usize) -> Batch {
        match self.give(cx) {
            Some(packet) => cx.batch_of(packet),
            None => cx.batch(),
        }
    }
}
