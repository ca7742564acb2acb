//! Finds the first condition of a list that holds for a packet.
//!
//! Each condition is compiled to a [decision graph](crate::decision) of tests. Up to [`FEW`] conditions are
//! compiled to a single graph, in which a condition that fails leads to the next condition. Tests whose
//! outcome follows from earlier tests are skipped.
//!
//! Longer lists are also translated to boxes over addresses, protocol and ports. [`Cuts`] find the first box
//! that contains an IPv6 packet, if a condition tests for version 6. For all other packets, [`Products`] find
//! the first box, or [`Cuts`] if the tables of [`Products`] would be too large. If the condition of the found
//! box need not hold everywhere in the box, the condition's graph is evaluated.

use super::recent::{Lookup, Recent, Seen};
use super::space::{Space, V4, V6, areas, asks_for_version, is_six};
use super::{Condition, HeaderLayer, HeaderSlices, Test};
use crate::cuts::{Area, Cuts, GROUP, NONE, Points};
use crate::decision::{Graph, Next};
use crate::products::{self, Products};

/// The result of a condition's own graph if the condition holds; otherwise the graph leads to
/// [`Next::FAIL`].
const HOLDS: usize = 0;
/// The largest number of conditions that are compiled to a single graph; longer lists use boxes.
const FEW: usize = 16;

/// A compiled list of conditions, which finds the first that holds for a packet.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// The decision graphs of the conditions: a single graph for all conditions with `Method::Graph`, or one
    /// graph for each condition with `Method::Boxes`.
    graph: Graph<Test>,
    method: Method,
}

/// The method by which the first condition that holds is found.
#[derive(Clone, Debug, Default)]
enum Method {
    /// Evaluation of the single graph of all conditions. The results of the graph are the indexes of the
    /// conditions.
    #[default]
    Graph,
    Boxes(Box<Boxes>),
}

#[derive(Clone, Debug)]
struct Boxes {
    /// For each condition, by its number, the target at which the evaluation of its graph starts.
    starts: Vec<Next>,
    four: Fours,
    /// The boxes for IPv6 packets, if a condition tests for version 6. If no condition does, all packets
    /// are looked up in `four`.
    six: Option<Cuts<11>>,
    /// True if each condition holds everywhere in its boxes, so that the result is the same for all packets
    /// of a flow.
    by_flow: bool,
}

/// The boxes for the packets that are not looked up in [`Boxes::six`], as tables or trees.
#[derive(Clone, Debug)]
struct Fours {
    products: Option<Products>,
    /// The trees; empty if the tables exist, and all conditions hold everywhere in their boxes.
    cuts: Cuts<6>,
}

impl Fours {
    fn new(areas: &[Area<6>]) -> Fours {
        let products = Products::new(areas);
        let asks = products.is_none() || areas.iter().any(|area| !area.exact);
        Fours { products, cuts: if asks { Cuts::new(areas) } else { Cuts::default() } }
    }

    /// Returns the lowest rule that holds for each of the first `count` points, as [`Cuts::first`] does.
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

/// The points of those packets of a group that have one IP version, and for each point the index of its
/// packet in the group.
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

    /// Returns the index, in the group, of the packet whose header fields are the point with index `point`.
    #[inline]
    fn packet(&self, point: usize) -> usize {
        self.packets[point % GROUP]
    }
}

impl Matcher {
    /// Compiles a list of conditions. The number of a condition is its index in the list.
    pub fn new(conditions: &[Condition]) -> Matcher {
        if conditions.len() <= FEW {
            let numbered = conditions.iter().enumerate().map(|(n, condition)| (condition, Next::result(n)));
            return Matcher { graph: Graph::of(numbered), method: Method::Graph };
        }
        let mut graph = Graph::default();
        let compile = |condition| graph.append(Graph::of(std::iter::once((condition, Next::result(HOLDS)))));
        let starts = conditions.iter().map(compile).collect();
        let four = boxes::<V4, 6>(conditions);
        let six = conditions.iter().any(asks_for_version).then(|| boxes::<V6, 11>(conditions));
        let by_flow = four.iter().all(|area| area.exact) && six.iter().flatten().all(|area| area.exact);
        let (four, six) = (Fours::new(&four), six.map(|areas| Cuts::new(&areas)));
        Matcher { graph, method: Method::Boxes(Box::new(Boxes { starts, four, six, by_flow })) }
    }

    /// True if a test looks at `header`, so that packets need the header's position. The call takes a time
    /// proportional to the number of tests.
    pub fn looks_at(&self, header: HeaderLayer) -> bool {
        self.graph.steps.iter().any(|step| step.test.header == header)
    }

    /// True if the list has more than 16 conditions, and each holds everywhere in its boxes. The result then
    /// depends only on addresses, ports and protocol, and for IPv4 also on whether the packet is a fragment
    /// other than the first. So a caller saves time if it remembers the result per flow.
    pub fn is_by_flow(&self) -> bool {
        matches!(&self.method, Method::Boxes(boxes) if boxes.by_flow)
    }

    /// Returns the size of the compiled conditions in bytes.
    pub fn size(&self) -> usize {
        let boxes = match &self.method {
            Method::Graph => 0,
            Method::Boxes(boxes) => {
                let six = boxes.six.as_ref().map_or(0, Cuts::size);
                size_of_val(&boxes.starts[..]) + boxes.four.size() + six
            }
        };
        size_of_val(&self.graph.steps[..]) + boxes
    }

    /// Returns the number of the first condition that holds for a packet; `None` if no condition holds.
    #[inline]
    pub fn first(&self, headers: &HeaderSlices<'_>) -> Option<usize> {
        let mut found = None;
        self.first_of_each(std::iter::once(*headers), None, |first| found = first);
        found
    }

    /// Calls `tell` for each packet, in order, with the number of the first condition that holds, as
    /// [`first`](Self::first) returns it. `recent` keeps, between calls, the flow of the last packet that had
    /// a flow. If [`is_by_flow`](Self::is_by_flow), the result for that packet is used again for a next
    /// packet of the same flow. `recent` counts such repeated flows in any case.
    #[inline]
    pub fn first_of_each<'p>(
        &self,
        packets: impl Iterator<Item = HeaderSlices<'p>>,
        mut recent: Option<&mut Recent>,
        mut tell: impl FnMut(Option<usize>),
    ) {
        match &self.method {
            Method::Graph => packets.for_each(|headers| {
                if let Some(recent) = &mut recent {
                    recent.see(&headers);
                }
                tell(self.end(self.graph.start, &headers).as_result());
            }),
            Method::Boxes(boxes) => {
                let mut packets = packets.peekable();
                while packets.peek().is_some() {
                    let mut group = [HeaderSlices::default(); GROUP];
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

    /// Returns, for each packet of a group of up to [`GROUP`] packets, the number of the first condition that
    /// holds, or [`NONE`].
    fn first_in_boxes(
        &self,
        boxes: &Boxes,
        group: &[HeaderSlices<'_>],
        mut recent: Option<&mut Recent>,
    ) -> [u32; GROUP] {
        if recent.is_none() && boxes.six.is_none() {
            return self.first_of_one_kind(boxes, group);
        }
        let mut places = [Lookup::Known(NONE); GROUP];
        let mut four = Gathered::new();
        let mut six = None;
        for (packet, (place, headers)) in places.iter_mut().zip(group).enumerate() {
            let seen = recent.as_mut().and_then(|recent| recent.see(headers));
            *place = match (&recent, &boxes.six) {
                (Some(recent), _) if seen == Some(Seen::Again) && boxes.by_flow => recent.place,
                (_, Some(_)) if is_six(headers) => match V6::point(headers) {
                    Some(point) => Lookup::Six(six.get_or_insert_with(Gathered::new).add(packet, &point)),
                    None => Lookup::Known(self.first_of_all(boxes, headers)),
                },
                _ => match V4::point(headers) {
                    Some(point) => Lookup::Four(four.add(packet, &point)),
                    None => Lookup::Known(self.first_of_all(boxes, headers)),
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
            Lookup::Four(number) => fours[number],
            Lookup::Six(number) => sixes[number],
            Lookup::Known(rule) => rule,
        };
        if let Some(recent) = recent {
            recent.place = Lookup::Known(rule(recent.place));
        }
        places.map(rule)
    }

    /// Returns the same as `first_in_boxes`, but faster. There must be no boxes for IPv6 packets, and no
    /// `recent`.
    #[inline]
    fn first_of_one_kind(&self, boxes: &Boxes, group: &[HeaderSlices<'_>]) -> [u32; GROUP] {
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

    /// Returns the number of the first condition that holds for a packet with an incomplete IP header, which
    /// cannot be looked up as a point. The conditions are evaluated one after the other.
    #[cold]
    fn first_of_all(&self, boxes: &Boxes, headers: &HeaderSlices<'_>) -> u32 {
        let mut rules = 0..boxes.starts.len() as u32;
        rules.find(|&rule| self.holds(boxes, headers, rule)).unwrap_or(NONE)
    }

    fn holds(&self, boxes: &Boxes, headers: &HeaderSlices<'_>, rule: u32) -> bool {
        self.end(boxes.starts[rule as usize], headers) == Next::result(HOLDS)
    }

    /// Evaluates the graph for a packet from the target `next` on, and returns the result at which the
    /// evaluation ends.
    #[inline]
    fn end(&self, mut next: Next, headers: &HeaderSlices<'_>) -> Next {
        // A target that is not the index of a step is a result. The bounds check of `get` thus also ends the
        // loop.
        while let Some(step) = self.graph.steps.get(next.0 as usize) {
            next = if step.test.holds(headers) { step.yes } else { step.no };
        }
        next
    }
}

/// Returns the boxes of all conditions over the header fields of the space `S`; the rule of a box is the
/// index of its condition.
fn boxes<S: Space<D>, const D: usize>(conditions: &[Condition]) -> Vec<Area<D>> {
    let numbered = conditions.iter().zip(0..);
    numbered.flat_map(|(condition, rule)| areas::<S, D>(condition, rule)).collect()
}
