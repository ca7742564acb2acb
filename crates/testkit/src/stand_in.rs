//! A small element that does the work of two other elements, for tests of the engine's support for elements
//! that replace others.

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Case, Filter, Predicate, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, ElementId, Handler, Packet, Tally};

/// The class `TestStandIn(COUNTER, FILTER)`. It does the work of a Counter followed by `IPFilter(allow udp,
/// deny all)`, and notifies both of the packets that bypass them. Packets that it cannot handle leave by
/// output 1, which has to lead to the Counter. The handler `taken` counts the packets that it has handled,
/// `left` the others. `outdated` lists the elements that no longer do what they declared, because one of
/// their handlers was written; if there is one, all packets leave by output 1.
pub static CLASS: Class = Class {
    name: "TestStandIn",
    ports: "1/2",
    processing: "h/h",
    args: &[ArgInfo::required("COUNTER", "element"), ArgInfo::required("FILTER", "element")],
    table: &HANDLERS,
    build: |args| {
        let [ElementRef(counter), ElementRef(filter)] = [args.required("COUNTER"), args.required("FILTER")];
        args.finish()?;
        Ok(Box::new(StandIn {
            counter,
            filter,
            tallies: Vec::new(),
            outdated: Vec::new(),
            taken: 0,
            left: 0,
        }))
    },
    ..Class::DEFAULT
};

/// The indices of the cases in the declaration of IPFilter: UDP is allowed, everything else denied.
const UDP: usize = 0;
const OTHER: usize = 1;

struct StandIn {
    counter: ElementId,
    filter: ElementId,
    tallies: Vec<(ElementId, Tally)>,
    outdated: Vec<ElementId>,
    taken: u64,
    left: u64,
}

impl StandIn {
    /// Returns the index of the filter's case that applies to a packet. `None` if the stand-in does not
    /// handle the packet: it has no whole IPv4 header, the header has options, or the time to live is odd.
    fn case(packet: &Packet) -> Option<usize> {
        match packet.header(Base::Network)? {
            [0x45, _, _, _, _, _, _, _, ttl, protocol, rest @ ..] if rest.len() >= 10 && ttl % 2 == 0 => {
                Some(if *protocol == 17 { UDP } else { OTHER })
            }
            _ => None,
        }
    }

    fn count(&mut self, cx: &Cx<'_>, element: ElementId, case: usize, bytes: u64) {
        let now = cx.now();
        let same = |(of, tally): &&mut (ElementId, Tally)| (*of, tally.case) == (element, case);
        match self.tallies.iter_mut().find(same) {
            Some((_, tally)) => {
                tally.packets += 1;
                tally.bytes += bytes;
                tally.last = now;
            }
            None => {
                let tally = Tally { input: 0, case, packets: 1, bytes, first: now, last: now };
                self.tallies.push((element, tally));
            }
        }
    }
}

impl Element for StandIn {
    fn effects(&self) -> Effects {
        let left = Filter::Leaf(Predicate::Opaque {
            about: "has usual headers",
            reads: vec![wire_field::IP_HEADER],
        });
        let cases = vec![Case::new(left, Target::Output(1)), Case::new(Filter::TRUE, Target::Output(0))];
        Effects { replaces: vec![self.counter, self.filter], ..Effects::cases(cases) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            let case = Self::case(&packet).filter(|_| self.outdated.is_empty());
            let Some(case) = case else {
                self.left += 1;
                cx.emit_one(1, packet, DropReason::NoOutput);
                continue;
            };
            self.taken += 1;
            let bytes = packet.len() as u64;
            self.count(cx, self.counter, 0, bytes);
            self.count(cx, self.filter, case, bytes);
            match case {
                UDP => cx.emit_one(0, packet, DropReason::NoOutput),
                _ => cx.accounts().end_for_others(packet),
            }
        }
        cx.recycle(batch);
        None
    }

    fn settle(&mut self, tell: &mut dyn FnMut(ElementId, Tally)) {
        self.tallies.drain(..).for_each(|(element, tally)| tell(element, tally));
    }

    fn outdated(&mut self, element: ElementId) {
        self.outdated.push(element);
    }
}

const HANDLERS: &[Handler<StandIn>] = &[
    Handler::count("taken", |e| e.taken),
    Handler::count("left", |e| e.left),
    Handler::read("outdated", |e, cx, _| {
        Ok(e.outdated.iter().map(|&id| format!("{}\n", cx.graph().name_of(id))).collect())
    }),
];
