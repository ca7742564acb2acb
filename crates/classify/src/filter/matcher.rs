//! Finds the first of many conditions that holds.
//!
//! Each condition is compiled to a graph of tests in which every branch leads on, so that it ends after at most as
//! many steps as it has tests. A few conditions are one graph, in which each leads on to the next where it fails.
//!
//! Many conditions become boxes over addresses, protocol and ports, in which [`Products`] or, where those would be too
//! large, [`Cuts`] find a packet's first one. Most conditions hold everywhere in their boxes; the graph of another one is
//! asked when a packet lies in its box.

use super::recent::{Recent, Seen};
use super::space::{Space, V4, V6, areas, asks_for_version, is_six};
use super::{Condition, Header, Headers, Test, Tree};
use crate::cuts::{Area, Cuts, GROUP, NONE, Points};
use crate::products::{self, Products};

/// Where a test leads: to another test, or to an end.
type Next = u32;
const HOLDS: Next = u32::MAX;
const FAILS: Next = u32::MAX - 1;
/// In the graph of a few conditions, the end where the first of them holds; the others follow.
const FIRST_HOLDS: Next = 1 << 31;
/// No more conditions than this are a few.
const FEW: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Step {
    test: Test,
    yes: Next,
    no: Next,
}

/// Compiled conditions.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    steps: Vec<Step>,
    way: Way,
}

/// How the first condition is found.
#[derive(Clone, Debug)]
enum Way {
    /// A graph of all conditions starts there.
    Graph(Next),
    Boxes(Box<Boxes>),
}

impl Default for Way {
    fn default() -> Way {
        Way::Graph(FAILS)
    }
}

#[derive(Clone, Debug)]
struct Boxes {
    /// Where the graph of each condition starts.
    starts: Vec<Next>,
    four: Fours,
    /// For packets of version 6, if some condition asks for it; else all versions are the same.
    six: Option<Cuts<11>>,
    /// Whether nothing counts but what packets of a flow have in common.
    by_flow: bool,
}

/// Boxes for packets of version 4.
#[derive(Clone, Debug)]
struct Fours {
    products: Option<Products>,
    /// Empty where nobody asks it.
    cuts: Cuts<6>,
}

impl Fours {
    fn new(areas: &[Area<6>]) -> Fours {
        let products = Products::new(areas);
        let asks = products.is_none() || areas.iter().any(|area| !area.exact);
        Fours { products, cuts: if asks { Cuts::new(areas) } else { Cuts::default() } }
    }

    /// As [`Cuts::first`].
    #[inline]
    fn first(&self, points: &Points<6>, count: usize, holds: impl FnMut(usize, u32) -> bool) -> [u32; GROUP] {
        let Some(products) = &self.products else { return self.cuts.first(points, count, holds) };
        let mut found = products.first(points, count);
        if found.contains(&products::ASK) {
            let asked = self.cuts.first(points, count, holds);
            for (found, asked) in found.iter_mut().zip(asked).filter(|(found, _)| **found == products::ASK) {
                *found = asked;
            }
        }
        found
    }

    fn size(&self) -> usize {
        self.products.as_ref().map_or(0, Products::size) + self.cuts.size()
    }
}

/// Where a packet of a group is looked up.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Four(usize),
    Six(usize),
    Known(u32),
}

/// Points of one version, and the packets of the group that they belong to.
struct Gathered<const D: usize> {
    points: Points<D>,
    packets: [usize; GROUP],
    count: usize,
}

impl<const D: usize> Gathered<D> {
    fn new() -> Gathered<D> {
        Gathered { points: Points::default(), packets: [0; GROUP], count: 0 }
    }

    #[inline]
    fn add(&mut self, packet: usize, point: &[u32; D]) -> usize {
        let number = self.count % GROUP;
        self.points.set(number, point);
        self.packets[number] = packet;
        self.count += 1;
        number
    }

    /// The packet that a point belongs to.
    #[inline]
    fn packet(&self, point: usize) -> usize {
        self.packets[point % GROUP]
    }
}

impl Matcher {
    /// Compiles conditions.
    pub fn new(conditions: &[Condition]) -> Matcher {
        let mut matcher = Matcher::default();
        if conditions.len() <= FEW {
            let last_first = conditions.iter().enumerate().rev();
            let start = last_first.fold(FAILS, |next, (number, condition)| {
                matcher.compile(condition, FIRST_HOLDS + number as Next, next)
            });
            matcher.way = Way::Graph(start);
            return matcher;
        }
        let starts = conditions.iter().map(|condition| matcher.compile(condition, HOLDS, FAILS)).collect();
        let four = boxes::<V4, 6>(conditions);
        let six = conditions.iter().any(asks_for_version).then(|| boxes::<V6, 11>(conditions));
        let by_flow = four.iter().all(|area| area.exact) && six.iter().flatten().all(|area| area.exact);
        let (four, six) = (Fours::new(&four), six.map(|areas| Cuts::new(&areas)));
        matcher.way = Way::Boxes(Box::new(Boxes { starts, four, six, by_flow }));
        matcher
    }

    /// Lays out a condition's tests; returns where it starts.
    fn compile(&mut self, condition: &Condition, yes: Next, no: Next) -> Next {
        match condition {
            Tree::Constant(value) => {
                if *value {
                    yes
                } else {
                    no
                }
            }
            Tree::Leaf(test) => {
                self.steps.push(Step { test: *test, yes, no });
                self.steps.len() as Next - 1
            }
            Tree::Not(inner) => self.compile(inner, no, yes),
            Tree::All(parts) => parts.iter().rev().fold(yes, |next, part| self.compile(part, next, no)),
            Tree::Any(parts) => parts.iter().rev().fold(no, |next, part| self.compile(part, yes, next)),
            Tree::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                let then = self.compile(then, yes, no);
                let otherwise = self.compile(otherwise, yes, no);
                self.compile(condition, then, otherwise)
            }
        }
    }

    /// Whether the conditions look at a header. It goes through all of them.
    pub fn looks_at(&self, header: Header) -> bool {
        self.steps.iter().any(|step| step.test.header == header)
    }

    /// Whether it is more than a few conditions, and nothing counts for them but what packets of a flow have in common:
    /// addresses, ports, protocol, and whether they are later fragments. Then it pays to remember what was found for a flow.
    pub fn is_by_flow(&self) -> bool {
        matches!(&self.way, Way::Boxes(boxes) if boxes.by_flow)
    }

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        let boxes = match &self.way {
            Way::Graph(_) => 0,
            Way::Boxes(boxes) => {
                let six = boxes.six.as_ref().map_or(0, Cuts::size);
                size_of_val(&boxes.starts[..]) + boxes.four.size() + six
            }
        };
        size_of_val(&self.steps[..]) + boxes
    }

    /// The number of the first condition that holds.
    #[inline]
    pub fn first(&self, headers: &Headers<'_>) -> Option<usize> {
        let mut found = None;
        self.first_of_each(std::iter::once(*headers), None, |first| found = first);
        found
    }

    /// The same for each of some packets, in their order. With `recent`, what was found for the packet before is taken
    /// for one of the same flow, if that is all that counts.
    #[inline]
    pub fn first_of_each<'p>(
        &self,
        packets: impl Iterator<Item = Headers<'p>>,
        mut recent: Option<&mut Recent>,
        mut tell: impl FnMut(Option<usize>),
    ) {
        match &self.way {
            Way::Graph(start) => packets.for_each(|headers| {
                if let Some(recent) = &mut recent {
                    recent.see(&headers);
                }
                let end = self.end(*start, &headers);
                tell((end != FAILS).then(|| (end - FIRST_HOLDS) as usize));
            }),
            Way::Boxes(boxes) => {
                let mut packets = packets.peekable();
                while packets.peek().is_some() {
                    let mut group = [Headers::default(); GROUP];
                    let mut count = 0;
                    for (place, headers) in group.iter_mut().zip(&mut packets) {
                        *place = headers;
                        count += 1;
                    }
                    let found = self.first_in_boxes(boxes, &group[..count], recent.as_deref_mut());
                    for &rule in &found[..count] {
                        tell((rule != NONE).then_some(rule as usize));
                    }
                }
            }
        }
    }

    /// For no more packets than a group has.
    fn first_in_boxes(
        &self,
        boxes: &Boxes,
        group: &[Headers<'_>],
        mut recent: Option<&mut Recent>,
    ) -> [u32; GROUP] {
        if recent.is_none() && boxes.six.is_none() {
            return self.first_of_one_kind(boxes, group);
        }
        let mut places = [Place::Known(NONE); GROUP];
        let mut four = Gathered::new();
        let mut six = None;
        for (packet, (place, headers)) in places.iter_mut().zip(group).enumerate() {
            let seen = recent.as_mut().and_then(|recent| recent.see(headers));
            *place = match (&recent, &boxes.six) {
                (Some(recent), _) if seen == Some(Seen::Again) && boxes.by_flow => recent.place,
                (_, Some(_)) if is_six(headers) => match V6::point(headers) {
                    Some(point) => Place::Six(six.get_or_insert_with(Gathered::new).add(packet, &point)),
                    None => Place::Known(self.first_of_all(boxes, headers)),
                },
                _ => match V4::point(headers) {
                    Some(point) => Place::Four(four.add(packet, &point)),
                    None => Place::Known(self.first_of_all(boxes, headers)),
                },
            };
            if let (Some(recent), Some(_)) = (&mut recent, seen) {
                recent.place = *place;
            }
        }
        let holds = |packet: usize, rule: u32| self.holds(boxes, &group[packet], rule);
        let fours = match four.count {
            0 => [NONE; GROUP],
            count => boxes.four.first(&four.points, count, |point, rule| holds(four.packet(point), rule)),
        };
        let sixes = match (&six, &boxes.six) {
            (Some(six), Some(cuts)) => {
                cuts.first(&six.points, six.count, |point, rule| holds(six.packet(point), rule))
            }
            _ => [NONE; GROUP],
        };
        let rule = |place| match place {
            Place::Four(number) => fours[number],
            Place::Six(number) => sixes[number],
            Place::Known(rule) => rule,
        };
        if let Some(recent) = recent {
            recent.place = Place::Known(rule(recent.place));
        }
        places.map(rule)
    }

    /// For packets that are all looked up in the same boxes: what is usual, and quicker.
    #[inline]
    fn first_of_one_kind(&self, boxes: &Boxes, group: &[Headers<'_>]) -> [u32; GROUP] {
        let mut points = Points::default();
        let mut complete = true;
        for (number, headers) in group.iter().enumerate() {
            match V4::point(headers) {
                Some(point) => points.set(number, &point),
                None => complete = false,
            }
        }
        let holds = |packet: usize, rule: u32| self.holds(boxes, &group[packet], rule);
        let mut found = boxes.four.first(&points, group.len(), holds);
        if !complete {
            for (rule, headers) in found.iter_mut().zip(group) {
                if V4::point(headers).is_none() {
                    *rule = self.first_of_all(boxes, headers);
                }
            }
        }
        found
    }

    /// For a packet that has not all of an IP header.
    #[cold]
    fn first_of_all(&self, boxes: &Boxes, headers: &Headers<'_>) -> u32 {
        let mut rules = 0..boxes.starts.len() as u32;
        rules.find(|&rule| self.holds(boxes, headers, rule)).unwrap_or(NONE)
    }

    fn holds(&self, boxes: &Boxes, headers: &Headers<'_>, rule: u32) -> bool {
        self.end(boxes.starts[rule as usize], headers) == HOLDS
    }

    /// The end that the tests from one on lead to.
    #[inline]
    fn end(&self, mut at: Next, headers: &Headers<'_>) -> Next {
        // Every test leads to one that was laid out before it, or to an end.
        while let Some(step) = self.steps.get(at as usize) {
            at = if step.test.holds(headers) { step.yes } else { step.no };
        }
        at
    }
}

/// The boxes of all conditions.
fn boxes<S: Space<D>, const D: usize>(conditions: &[Condition]) -> Vec<Area<D>> {
    let numbered = conditions.iter().zip(0..);
    numbered.flat_map(|(condition, rule)| areas::<S, D>(condition, rule)).collect()
}
