//! Finds the first of many conditions that holds.
//!
//! Each condition is compiled to a graph of tests in which every branch leads forward, so that it ends
//! after at most as many steps as it has tests. Up to `FEW` conditions are compiled to a single graph, in
//! which a condition that fails leads to the next.
//!
//! More conditions become boxes over addresses, protocol and ports. [`Products`], or [`Cuts`] if those
//! would be too large, find the first box of a packet. Most conditions hold everywhere in their boxes. The
//! graph of any other condition is evaluated when a packet lies in its box.

use super::recent::{Recent, Seen};
use super::space::{Space, V4, V6, areas, asks_for_version, is_six};
use super::{Condition, Header, Headers, Test, Tree};
use crate::cuts::{Area, Cuts, GROUP, NONE, Points};
use crate::products::{self, Products};

/// The target of a branch: another test, or an end.
type Next = u32;
const HOLDS: Next = u32::MAX;
const FAILS: Next = u32::MAX - 1;
/// The end where the first of a few conditions holds. The ends of the others follow.
const FIRST_HOLDS: Next = 1 << 31;
/// The largest number of conditions that are compiled to a single graph.
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

/// The method by which the first condition is found.
#[derive(Clone, Debug)]
enum Way {
    /// A graph of all conditions, by its first test.
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
    /// The first test of the graph of each condition.
    starts: Vec<Next>,
    four: Fours,
    /// Boxes for packets of version 6, if some condition asks for the version. Otherwise all packets use
    /// `four`.
    six: Option<Cuts<11>>,
    /// True if only fields count that are the same for all packets of a flow.
    by_flow: bool,
}

/// Boxes for packets of version 4.
#[derive(Clone, Debug)]
struct Fours {
    products: Option<Products>,
    /// The trees. Empty if they are not needed.
    cuts: Cuts<6>,
}

impl Fours {
    fn new(areas: &[Area<6>]) -> Fours {
        let products = Products::new(areas);
        let asks = products.is_none() || areas.iter().any(|area| !area.exact);
        Fours { products, cuts: if asks { Cuts::new(areas) } else { Cuts::default() } }
    }

    /// Returns the first rules, as [`Cuts::first`] does.
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

/// The place where a packet of a group is looked up, or its result.
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

    /// Returns the packet that a point belongs to.
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

    /// Lays out a condition's tests. Returns the first of them.
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

    /// True if the conditions look at a header. The time is proportional to the number of tests.
    pub fn looks_at(&self, header: Header) -> bool {
        self.steps.iter().any(|step| step.test.header == header)
    }

    /// True if there are more than a few conditions, and only fields count that are the same for all
    /// packets of a flow: addresses, ports, protocol, and whether the packet is a later fragment. Then it
    /// pays to remember the result for a flow.
    pub fn is_by_flow(&self) -> bool {
        matches!(&self.way, Way::Boxes(boxes) if boxes.by_flow)
    }

    /// Returns the memory of the compiled conditions in bytes.
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

    /// Returns the number of the first condition that holds.
    #[inline]
    pub fn first(&self, headers: &Headers<'_>) -> Option<usize> {
        let mut found = None;
        self.first_of_each(std::iter::once(*headers), None, |first| found = first);
        found
    }

    /// Calls `tell` with the result of [`first`](Self::first) for each packet, in order. With `recent`, the
    /// result of the previous packet is used again for a packet of the same flow, if only the flow counts.
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

    /// Finds the first rules of the packets of one group.
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

    /// Like `first_in_boxes`, for packets that are all looked up in the same boxes. This is the usual case,
    /// and quicker.
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

    /// Finds the first rule for a packet with an incomplete IP header, by asking all conditions.
    #[cold]
    fn first_of_all(&self, boxes: &Boxes, headers: &Headers<'_>) -> u32 {
        let mut rules = 0..boxes.starts.len() as u32;
        rules.find(|&rule| self.holds(boxes, headers, rule)).unwrap_or(NONE)
    }

    fn holds(&self, boxes: &Boxes, headers: &Headers<'_>, rule: u32) -> bool {
        self.end(boxes.starts[rule as usize], headers) == HOLDS
    }

    /// Returns the end that the tests from `at` on lead to.
    #[inline]
    fn end(&self, mut at: Next, headers: &Headers<'_>) -> Next {
        // Every test leads to a test that was laid out before it, or to an end.
        while let Some(step) = self.steps.get(at as usize) {
            at = if step.test.holds(headers) { step.yes } else { step.no };
        }
        at
    }
}

/// Returns the boxes of all conditions.
fn boxes<S: Space<D>, const D: usize>(conditions: &[Condition]) -> Vec<Area<D>> {
    let numbered = conditions.iter().zip(0..);
    numbered.flat_map(|(condition, rule)| areas::<S, D>(condition, rule)).collect()
}
