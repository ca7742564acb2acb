//! A program as elements of a chain, for the verifier: elements for the questions and for the operations.
//! They are more precise than the program's declaration as one element ([`super::declare`]).
//!
//! A field after an IPv4 header without options is read relative to the end of the header, and not at a fixed
//! offset. The elements that the program is compared with read the field in the same way, so that both sides
//! have equal expressions, which need no proof. If the header has options, the field is read at its fixed
//! offset.
//!
//! A program may rely on what a stateful element does to a flow. In the unfolded program, packets pass that
//! element itself. Upstream of the element, the unfolded program applies the part of the packets' operation
//! that they undergo before the element; downstream, it applies the remaining part. So the element's state
//! decides, as in the chain, and the proof assumes nothing about leases except that they state what the
//! element does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use classify::IntervalSet;
use element::effects::{
    Action, Case, Checksum as Declared, Effects, Field, Filter, Number, Predicate, Target, Value as Set,
};
use element::{Base, DropReason};

use super::declare::{
    Behind, accounts_for_all, accounts_for_covered, by_next, condition, covered_words, field, is_plain,
    laid_out, lies_in, mark, operation, written,
};
use super::question::{AnswerSum, LeasedProperty, Question};
use super::{
    ChecksumOperation, Exit, Next, OrderedRules, Program, Step, TrafficClass, TransportChecksum, Write,
    WrittenValue,
};
use crate::location::{ByteLocation, ByteValue, IPV4, IPV4_SUM};

/// A program as a graph of elements, in the form that [`Chain`](crate::chain::Chain) takes.
pub struct Unfolded {
    /// The elements of the program. Packets enter at the first element, which tests for the program's layout.
    pub stages: Vec<Stage>,
    /// The points at which packets of the program pass stateful elements of the chain.
    pub passages: Vec<Passage>,
}

/// An element that does one part of a program: for example, it answers a question or applies an operation.
pub struct Stage {
    /// The declaration of the element that this stage is.
    pub effects: Effects,
    /// For each output of the element, the destination of its packets.
    pub forward: Vec<Forward>,
}

/// A point at which packets of a program pass a stateful element of the chain. Downstream of that element,
/// these packets continue in the program and not along the element's own connections.
pub struct Passage {
    /// The index of the step in the program.
    pub step: u16,
    /// For each output of the stateful element, the destination of its packets.
    pub forward: Vec<Forward>,
}

/// The destination of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// A stage: an index in [`Unfolded::stages`].
    Stage(usize),
    /// The packets leave by this output of the program.
    Output(usize),
    /// A passage through a stateful element: an index in [`Unfolded::passages`].
    Passage(usize),
}

/// The declaration of a step's stateful element, as far as the unfolding needs it.
pub struct PassedState {
    /// The case of the element's declaration that applies to packets of known flows.
    pub case: Case,
    /// The filter of packets that belong to flows which the element knows, but for which the element does not
    /// lease the flow.
    pub excluded: Filter,
    /// The number of outputs of the stateful element.
    pub outputs: usize,
}

/// Returns a program as elements. `passed` looks up the stateful element of a step, `None` if there is no
/// such element. Returns `None` if a part of the program cannot be expressed; the verifier then has only
/// the declaration of the program as one element.
pub fn unfold(program: &Program, passed: &dyn Fn(&Step) -> Option<PassedState>) -> Option<Unfolded> {
    let header = header_of(program);
    let mut unfolding = Unfolding {
        program,
        passed,
        header,
        plain: header.map(|place| only_plain(program, place)),
        stages: Vec::new(),
        numbers: HashMap::new(),
        work: Vec::new(),
        passages: Vec::new(),
    };
    unfolding.begin();
    while let Some((place, next, behind)) = unfolding.work.pop() {
        let stage = match (next, behind) {
            (Next::Node(number), None) => unfolding.question(number as usize)?,
            (Next::Node(number), Some(step)) => unfolding.question_behind(number as usize, step)?,
            (Next::Class(number), None) => {
                let class = program.classes.get(number as usize)?;
                let (to, forward) = leading(class);
                let how = unfolding.found(next);
                unfolding.operate(class, how, unfolding.marked_first(), to, forward)
            }
            (Next::Class(number), Some(step)) => unfolding.rest_of(number as usize, step)?,
        };
        unfolding.stages[place] = Some(stage);
    }
    let Unfolding { stages, passages, .. } = unfolding;
    Some(Unfolded { stages: stages.into_iter().collect::<Option<_>>()?, passages })
}

/// Returns a filter for the case that the element knows a packet's flow: each predicate about a look-up in
/// the element's state is replaced by its value if the look-up succeeds.
pub fn of_known_flows(filter: &Filter) -> Filter {
    filter.replace(&mut |leaf| match leaf {
        Predicate::State { hit, .. } => Filter::Constant(*hit),
        other => other.clone().into(),
    })
}

/// For the link, network and transport header, the mark that the stage of an operation sets where the class
/// itself sets no mark for the header: `None` for no change, `Some(None)` to remove the mark.
type Marked = [Option<Option<i32>>; 3];

struct Unfolding<'p> {
    program: &'p Program,
    passed: &'p dyn Fn(&Step) -> Option<PassedState>,
    header: Option<i32>,
    plain: Option<BTreeSet<Next>>,
    stages: Vec<Option<Stage>>,
    /// The index of the stage that was made for a node or class of the program. The second part of the key
    /// is the step whose stateful element packets have last passed; `None` if they have passed none.
    numbers: HashMap<(Next, Option<u16>), usize>,
    work: Vec<(usize, Next, Option<u16>)>,
    passages: Vec<Passage>,
}

impl Unfolding<'_> {
    /// Adds the first stage, which tests for the program's layout. If the program refers to an IPv4 header,
    /// the first stage also marks this header. A second stage then marks the transport header at the end of
    /// the IPv4 header.
    fn begin(&mut self) {
        let program = self.program;
        self.stages.extend((0..1 + usize::from(self.header.is_some())).map(|_| None));
        let start = self.stage(program.start, None);
        let mut fits = Case::new(laid_out(program), Target::Output(0));
        let then = match self.header {
            Some(place) => {
                fits = fits.with(mark(Base::Network, Some(place)));
                Forward::Stage(1)
            }
            None => start,
        };
        let other = Case::new(Filter::TRUE, Target::Output(1));
        let effects = Effects::cases(vec![fits, other]);
        self.stages[0] = Some(Stage { effects, forward: vec![then, Forward::Output(program.otherwise)] });
        if let Some(place) = self.header {
            let first = || Field::Bytes { base: Base::Data, offset: place, length: 1 };
            let behind = Number::constant(place.into()).plus(4, first(), 0x0f);
            let there = Filter::Leaf(Predicate::In { field: first(), mask: 0, set: IntervalSet::one(0, 0) });
            let marked = Case::new(there, Target::Output(0))
                .with(Action::Set(Field::HeaderOffset(Base::Transport), Set::Number(behind)));
            let effects = Effects::cases(vec![marked, Case::new(Filter::TRUE, Target::Output(0))]);
            self.stages[1] = Some(Stage { effects, forward: vec![start] });
        }
    }

    /// Returns the stage for the node or class `next` of the program, for packets that have last passed the
    /// stateful element of the step `behind`. If the stage does not exist yet, reserves an index for it, and
    /// adds it to the stages that remain to be made.
    fn stage(&mut self, next: Next, behind: Option<u16>) -> Forward {
        let place = self.stages.len();
        let known = *self.numbers.entry((next, behind)).or_insert(place);
        if known == place {
            self.stages.push(None);
            self.work.push((place, next, behind));
        }
        Forward::Stage(known)
    }

    fn add(&mut self, stage: Stage) -> Forward {
        self.stages.push(Some(stage));
        Forward::Stage(self.stages.len() - 1)
    }

    /// Returns the reference point for fields after the IPv4 header at a node or class. If only packets
    /// without IPv4 options reach the node or class, the reference point is the end of the header without
    /// options. If packets with options may reach it, too, the reference point depends on the header of each
    /// packet ([`Behind::Either`]). If the program refers to no IPv4 header, the reference point is the
    /// packet's start.
    fn found(&self, next: Next) -> Behind {
        match (&self.plain, self.header) {
            (Some(plain), Some(place)) if plain.contains(&next) => Behind::Marked(place),
            (_, Some(place)) => Behind::Either(place),
            (_, None) => Behind::Start,
        }
    }

    /// Returns the marks to set with an operation upstream of any stateful element, for headers that the
    /// operation itself does not mark. If the program refers to an IPv4 header, these are the marks that the
    /// program's layout has for the network and the transport header, because the first stages may have
    /// marked these headers at other offsets. The mark of the link header is unchanged. The second result is
    /// the present mark of the network header: `None`, because this mark is not known.
    fn marked_first(&self) -> (Marked, Option<i32>) {
        let layout = self.program.layout;
        (std::array::from_fn(|base| self.header.filter(|_| base > 0).map(|_| layout[base])), None)
    }

    fn question(&mut self, number: usize) -> Option<Stage> {
        let program = self.program;
        let node = program.nodes.get(number)?;
        let how = self.found(Next::Node(number as u32));
        if let Question::Leased { step, what } = node.question {
            if what != LeasedProperty::Output {
                return None;
            }
            let enters = self.enter(number, step, None)?;
            let waits = self.stage(node.next(0), None);
            let on_lease =
                Filter::Leaf(Predicate::Opaque { about: "its flow is on lease", reads: Vec::new() });
            let cases = [(on_lease, 0), (Filter::TRUE, 1)];
            let cases = cases.map(|(when, output)| Case::new(when, Target::Output(output)));
            return Some(Stage { effects: Effects::cases(cases.to_vec()), forward: vec![enters, waits] });
        }
        let mut nexts: Vec<Next> = Vec::new();
        let mut output = |next: Next| {
            let known = nexts.iter().position(|other| *other == next);
            known.unwrap_or_else(|| {
                nexts.push(next);
                nexts.len() - 1
            })
        };
        let cases = match &node.question {
            Question::List(number) => {
                let list = program.lists.get(*number as usize);
                let rules = list.into_iter().flat_map(|list| list.rules.iter().map(move |rule| (rule, list)));
                let case = |(rule, list): (&super::Rule, &OrderedRules)| {
                    let when = condition(&rule.condition, list, how);
                    Case::new(when, Target::Output(output(node.next(rule.outcome.into()))))
                };
                rules.map(case).collect()
            }
            question => {
                let parts = by_next(node).into_iter();
                let case = |(next, set): (Next, IntervalSet)| {
                    Case::new(lies_in(question, &set, how), Target::Output(output(next)))
                };
                parts.map(case).collect()
            }
        };
        let forward = nexts.into_iter().map(|next| self.stage(next, None)).collect();
        Some(Stage { effects: Effects::cases(cases), forward })
    }

    /// Returns the stage for the question at node `number` about packets that have passed the stateful
    /// element of the step `behind`. Returns `None` if the question is not about leases, or cannot be
    /// expressed.
    fn question_behind(&mut self, number: usize, behind: u16) -> Option<Stage> {
        let node = self.program.nodes.get(number)?;
        let Question::Leased { step, what } = node.question else { return None };
        match what {
            LeasedProperty::Output => {
                let enters = self.enter(number, step, Some(behind))?;
                let effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0))]);
                Some(Stage { effects, forward: vec![enters] })
            }
            LeasedProperty::Bytes { offset, length } => {
                let shape = self.behind(behind)?;
                let first = shape.find(&ByteValue::Came(ByteLocation::Leased(step, offset)))?;
                let is_there = |more: u8| {
                    shape.byte(first.after(more.into()))
                        == ByteValue::Came(ByteLocation::Leased(step, offset + more))
                };
                if !(0..length).all(is_there) {
                    return None;
                }
                // A field after the IPv4 header is read relative to the transport header, as the replaced
                // elements read it.
                let field = match (first, shape.headers[2]) {
                    (ByteLocation::Byte(place), Some(transport)) if place >= transport => Field::Bytes {
                        base: Base::Transport,
                        offset: place - transport,
                        length: length.into(),
                    },
                    _ => field(shape.since_start(first), length.into()),
                };
                let mut forward = Vec::new();
                let mut cases = Vec::new();
                for (output, (next, set)) in by_next(node).into_iter().enumerate() {
                    let when = Filter::Leaf(Predicate::In { field: field.clone(), mask: u128::MAX, set });
                    cases.push(Case::new(when, Target::Output(output)));
                    forward.push(self.stage(next, Some(behind)));
                }
                Some(Stage { effects: Effects::cases(cases), forward })
            }
        }
    }

    /// Adds the stages that take packets through the stateful element of a step: the operation that the
    /// packets undergo until they arrive at the element, the test that the element would lease their flow,
    /// and the passage. The node `number` asks about the step, `behind` is the step whose stateful element
    /// packets have last passed. Returns the first of these stages; `None` if the step does not follow
    /// `behind`, or cannot be expressed.
    fn enter(&mut self, number: usize, step: u16, behind: Option<u16>) -> Option<Forward> {
        let node = self.program.nodes.get(number)?;
        let here = self.program.steps.get(usize::from(step))?;
        if here.after != behind {
            return None;
        }
        let PassedState { case, excluded, outputs } = (self.passed)(here)?;
        let forward =
            (0..outputs).map(|output| self.stage(node.next(output as u128 + 1), Some(step))).collect();
        self.passages.push(Passage { step, forward });
        // Packets for which the element would not lease the flow, or to which another case applies, never
        // have a leased flow. The test drops them.
        let meant = of_known_flows(&case.when).and([excluded.not()]);
        let wrong = Case::new(Filter::TRUE, Target::Drop(DropReason::Unsuitable));
        let effects = Effects::cases(vec![Case::new(meant, Target::Output(0)), wrong]);
        let forward = vec![Forward::Passage(self.passages.len() - 1)];
        let through = vec![self.add(Stage { effects, forward })];
        let stage = match behind {
            None => {
                let how = self.found(Next::Node(number as u32));
                self.operate(&here.before, how, self.marked_first(), Target::Output(0), through)
            }
            Some(behind) => {
                let from = self.behind(behind)?;
                let class = from.to(&Shape::of(&here.before, self.program))?;
                self.operate(&class, Behind::Start, from.marked(), Target::Output(0), through)
            }
        };
        Some(self.add(stage))
    }

    /// Returns the stage for the remaining part of a class's operation, after the stateful element of the
    /// step `behind`.
    fn rest_of(&mut self, number: usize, behind: u16) -> Option<Stage> {
        let class = self.program.classes.get(number)?;
        let from = self.behind(behind)?;
        let (to, forward) = leading(class);
        if let Exit::Drop(_) = class.exit {
            let effects = Effects::cases(vec![Case::new(Filter::TRUE, to)]);
            return Some(Stage { effects, forward });
        }
        let rest = from.to(&Shape::of(class, self.program))?;
        let mut stage = self.operate(&rest, Behind::Start, from.marked(), to, forward);
        // The stateful element corrects checksums for its own writes. The class contains these writes, too,
        // so the checksum update of the class has to account for them. If it does not, its checksum is
        // declared as an unknown function, so that the proof fails.
        for (sum, name) in self.wrong_sums(class, behind)? {
            let sum = field(ByteLocation::Byte(sum - class.start), 2);
            let all = vec![field(ByteLocation::Byte(0), IPV4 as u16)];
            for case in &mut stage.effects.cases {
                // An update of the checksum in the remaining part of the operation would hide the wrong
                // checksum.
                case.checksum = Declared::Untouched;
                case.actions.push(Action::Set(sum.clone(), Set::Pure { name, reads: all.clone() }));
            }
        }
        Some(stage)
    }

    /// Returns the offsets of the checksum fields whose update is wrong, because the class or an operation
    /// before one of the steps does not account for all of its writes. Each offset comes with a description
    /// for the declaration. If the class updates no transport checksum, the offset of the transport header is
    /// returned in place of that of the checksum field. The list is empty if all checksums are right; `None`
    /// means that this cannot be decided.
    fn wrong_sums(&self, class: &TrafficClass, behind: u16) -> Option<Vec<(i32, &'static str)>> {
        let step = self.program.steps.get(usize::from(behind))?;
        let case = (self.passed)(step)?.case;
        let [_, network, transport] = Shape::of(&step.before, self.program).headers;
        let (network, transport) = (network?, transport?);
        let mut wrong = Vec::new();
        let in_header = |place: &i32| (network..network + IPV4).contains(place);
        let is_right = |class: &TrafficClass| match &class.checksum {
            None => !written(class).any(|place| in_header(&place)),
            Some(ChecksumOperation::Updated { header, words }) => {
                *header == network && accounts_for_all(class, *header, words)
            }
            Some(ChecksumOperation::Recomputed { header }) => *header == network,
        };
        // The class updates a checksum once, for the difference from the input packet. This is only correct
        // if the operations before the steps account for their writes, too.
        let before = self.befores(behind);
        let is_computed = matches!(class.checksum, Some(ChecksumOperation::Recomputed { .. }));
        if !is_right(class) || !is_computed && !before.iter().all(|before| is_right(before)) {
            wrong.push((network + IPV4_SUM, "a sum over other words"));
        }
        let Declared::Updated(headers) = &case.checksum else { return None };
        let has_covered = |class: &TrafficClass| covered_words(class, network, transport).next().is_some();
        match &class.transport_checksum {
            None if !has_covered(class) => {}
            None => wrong.push((transport, "a sum over nothing")),
            Some(sum) => {
                let is_same = headers.contains(&sum.protocol) && sum.header == transport;
                let accounts = |class: &TrafficClass| match &class.transport_checksum {
                    Some(sum) => sum.header == transport && accounts_for_covered(class, network, sum),
                    None => !has_covered(class),
                };
                if !is_same || !accounts(class) || !before.iter().all(|before| accounts(before)) {
                    wrong.push((sum.place(), "a sum over other words"));
                }
            }
        }
        Some(wrong)
    }

    /// Returns the operations before the element of a step, and before the elements of all steps that
    /// precede it on the path.
    fn befores(&self, step: u16) -> Vec<&TrafficClass> {
        let mut all: Vec<&TrafficClass> = Vec::new();
        let mut next = Some(step);
        // In a sound program the previous step has a lower index, so the loop ends. The limit on the length
        // ends it for unsound programs, too.
        while let Some(step) = next.and_then(|step| self.program.steps.get(usize::from(step)))
            && all.len() < self.program.steps.len()
        {
            all.push(&step.before);
            next = step.after;
        }
        all
    }

    /// Returns the packet as it leaves the stateful element of a step; `None` if the element's case is not
    /// known, or has other actions than writes of chosen values and of copies to bytes and annotations.
    fn behind(&self, step: u16) -> Option<Shape> {
        let step_here = self.program.steps.get(usize::from(step))?;
        let case = (self.passed)(step_here)?.case;
        Shape::of(&step_here.before, self.program).after(&case, step)
    }

    /// Returns a stage for an operation, and adds a further stage if the network mark has to be restored.
    /// `how` is the reference point for fields after the IPv4 header. `marked` has the marks that the stage
    /// sets for headers for which the class sets none; `network` is the present mark of the network header,
    /// from the packet's start.
    fn operate(
        &mut self,
        class: &TrafficClass,
        how: Behind,
        (marked, network): (Marked, Option<i32>),
        to: Target,
        forward: Vec<Forward>,
    ) -> Stage {
        let headers: Marked = std::array::from_fn(|base| class.headers[base].or(marked[base]));
        let class = TrafficClass { headers, ..class.clone() };
        let network_after = headers[1].unwrap_or(network);
        // The declaration can only name an operation on the checksum of a marked header. If another header is
        // marked, or none, the operation marks the header with the checksum, and a further stage sets the
        // right mark.
        let summed = class.checksum.as_ref().map(ChecksumOperation::header);
        let hidden = summed.filter(|summed| network_after != Some(*summed));
        let class = match hidden {
            Some(summed) => TrafficClass { headers: [headers[0], Some(Some(summed)), headers[2]], ..class },
            None => class,
        };
        let headers = class.headers;
        let last = network_after.map(|place| place - class.start);
        let (to, forward) = match (hidden, to) {
            (Some(_), Target::Output(_)) => {
                let effects =
                    Effects::cases(vec![Case::new(Filter::TRUE, to).with(mark(Base::Network, last))]);
                let unmarking = self.add(Stage { effects, forward });
                (to, vec![unmarking])
            }
            _ => (to, forward),
        };
        // If the IPv4 header has no options, the first stages have already marked the transport header at its
        // right offset, the end of the IPv4 header, so the operation need not mark it.
        let unmarked = TrafficClass { headers: [headers[0], headers[1], None], ..class.clone() };
        let is_behind = |place: i32| headers[2] == Some(Some(place + IPV4));
        let cases = match how {
            Behind::Marked(place) if is_behind(place) => {
                vec![operation(&unmarked, Filter::TRUE, to, headers[2].flatten())]
            }
            Behind::Either(place) if is_behind(place) => {
                vec![
                    operation(&unmarked, is_plain(place), to, headers[2].flatten()),
                    operation(&class, Filter::TRUE, to, headers[2].flatten()),
                ]
            }
            _ => vec![operation(&class, Filter::TRUE, to, headers[2].flatten())],
        };
        Stage { effects: Effects::cases(cases), forward }
    }
}

fn leading(class: &TrafficClass) -> (Target, Vec<Forward>) {
    match class.exit {
        Exit::Output(output) => (Target::Output(0), vec![Forward::Output(output)]),
        Exit::Drop(reason) => (Target::Drop(reason), Vec::new()),
    }
}

/// A packet at a point of its path through the program, described relative to the program's input packet: the
/// operation up to this point, the offsets of the marked headers, and the values of all bytes that were
/// written.
struct Shape {
    class: TrafficClass,
    headers: [Option<i32>; 3],
    bytes: BTreeMap<ByteLocation, ByteValue>,
}

impl Shape {
    fn of(class: &TrafficClass, program: &Program) -> Shape {
        let mut bytes = BTreeMap::new();
        for Write { place, value } in &class.writes {
            let parts: Vec<ByteValue> = match value {
                WrittenValue::Constant(bytes) => {
                    bytes.iter().map(|byte| ByteValue::Constant(*byte)).collect()
                }
                WrittenValue::Copy(from, length) => {
                    (0..*length).map(|more| ByteValue::Came(from.after(more.into()))).collect()
                }
                &WrittenValue::Plus(place, length, plus) => {
                    (0..length).map(|index| ByteValue::Plus { place, length, plus, index }).collect()
                }
                &WrittenValue::Masked(place, and, or) => vec![ByteValue::Masked { place, and, or }],
            };
            bytes.extend((0..).zip(parts).map(|(more, byte)| (place.after(more), byte)));
        }
        let headers = std::array::from_fn(|base| class.headers[base].unwrap_or(program.layout[base]));
        Shape { class: class.clone(), headers, bytes }
    }

    /// Returns the packet as it leaves the stateful element of `step` if the case `case` of the element
    /// applies. Values that the element chooses become leased bytes of this step, in the order of the
    /// actions. `None` if an action is no write of chosen values or of a copy, or if its field is not a field
    /// of bytes or annotations that the packet has.
    fn after(mut self, case: &Case, step: u16) -> Option<Shape> {
        let before = self.bytes.clone();
        let mut chosen = ByteLocation::Leased(step, 0);
        for action in &case.actions {
            let Action::Set(field, value) = action else { return None };
            let (first, length) = self.place(field)?;
            for more in 0..length {
                let byte = match value {
                    Set::Choose { .. } => ByteValue::Came(chosen.after(more)),
                    Set::Copy(from) => {
                        let from = self.place(from)?.0.after(more);
                        before.get(&from).cloned().unwrap_or(ByteValue::Came(from))
                    }
                    _ => return None,
                };
                self.bytes.insert(first.after(more), byte);
            }
            if let Set::Choose { .. } = value {
                chosen = chosen.after(length);
            }
        }
        Some(self)
    }

    fn place(&self, field: &Field) -> Option<(ByteLocation, i32)> {
        match *field {
            Field::Bytes { base, offset, length } => {
                let start = match base {
                    Base::Data => self.class.start,
                    Base::Mac => self.headers[0]?,
                    Base::Network => self.headers[1]?,
                    Base::Transport => self.headers[2]?,
                };
                Some((ByteLocation::Byte(start + offset), length.into()))
            }
            Field::Annotation { offset, length } => Some((ByteLocation::Annotation(offset), length.into())),
            _ => None,
        }
    }

    fn byte(&self, place: ByteLocation) -> ByteValue {
        self.bytes.get(&place).cloned().unwrap_or(ByteValue::Came(place))
    }

    /// Returns a location of this packet that holds the value `byte`; `None` if there is none.
    fn find(&self, byte: &ByteValue) -> Option<ByteLocation> {
        match byte {
            ByteValue::Came(place)
                if self.byte(*place) == *byte && !matches!(place, ByteLocation::Leased(..)) =>
            {
                Some(*place)
            }
            byte => self.bytes.iter().find(|(_, other)| *other == byte).map(|(place, _)| *place),
        }
    }

    /// Converts a location with an offset from the start of the input packet to the same location with an
    /// offset from the packet's start at this point of its path. The locations of annotations and leased
    /// values do not change.
    fn since_start(&self, place: ByteLocation) -> ByteLocation {
        match place {
            ByteLocation::Byte(place) => ByteLocation::Byte(place - self.class.start),
            other => other,
        }
    }

    /// Returns the arguments of [`Unfolding::operate`] for a packet whose headers are already marked: no
    /// further marks, and the offset of the network header from the packet's start.
    fn marked(&self) -> (Marked, Option<i32>) {
        ([None; 3], self.headers[1].map(|place| place - self.class.start))
    }

    /// Returns the operation that changes this packet into `other`, a later point of the same path. Its
    /// offsets are relative to the start of this packet. Returns `None` if the difference cannot be
    /// computed from this packet.
    fn to(&self, other: &Shape) -> Option<TrafficClass> {
        let start = self.class.start;
        let mut writes: Vec<Write> = Vec::new();
        let mut skip = 0;
        let places: BTreeSet<ByteLocation> = self.bytes.keys().chain(other.bytes.keys()).copied().collect();
        for place in places {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let byte = other.byte(place);
            if byte == self.byte(place) {
                continue;
            }
            let value = match byte {
                ByteValue::Constant(byte) => WrittenValue::Constant(vec![byte]),
                ByteValue::Came(_) => WrittenValue::Copy(self.since_start(self.find(&byte)?), 1),
                ByteValue::Masked { place: from, and, or } => match self.byte(from) {
                    ByteValue::Came(there) if there == from => {
                        WrittenValue::Masked(self.since_start(from), and, or)
                    }
                    _ => return None,
                },
                ByteValue::Plus { place: from, length, plus, index: 0 } => {
                    skip = length - 1;
                    let part = |index, plus| ByteValue::Plus { place: from, length, plus, index };
                    let untouched = (0..length).all(|more| {
                        let from = from.after(more.into());
                        self.byte(from) == ByteValue::Came(from)
                    });
                    let earlier = self.bytes.iter().find_map(|(at, byte)| match byte {
                        &ByteValue::Plus { place, length: width, plus, index: 0 } => {
                            ((place, width) == (from, length)).then_some((*at, plus))
                        }
                        _ => None,
                    });
                    match (untouched, earlier) {
                        (true, _) => WrittenValue::Plus(self.since_start(from), length, plus),
                        (false, Some((at, before))) => {
                            let whole = (0..length)
                                .all(|index| self.byte(at.after(index.into())) == part(index, before));
                            whole.then_some(())?;
                            WrittenValue::Plus(self.since_start(at), length, plus.checked_sub(before)?)
                        }
                        _ => return None,
                    }
                }
                ByteValue::Plus { .. } => return None,
            };
            writes.push(Write { place: self.since_start(place), value });
        }
        let headers = std::array::from_fn(|base| {
            let same = self.headers[base] == other.headers[base];
            (!same).then(|| other.headers[base].map(|place| place - start))
        });
        let end = match (&other.class.end, &self.class.end) {
            (end, before) if end == before => None,
            (Some(end), None) => Some(self.shifted(end)?),
            _ => return None,
        };
        let checksum = match &other.class.checksum {
            Some(ChecksumOperation::Recomputed { header }) => {
                Some(ChecksumOperation::Recomputed { header: header - start })
            }
            _ => {
                let network = self.headers[1]? - start;
                let mut words: Vec<i32> = writes
                    .iter()
                    .flat_map(|write| (0..write.value.length() as i32).map(|more| write.place.after(more)))
                    .filter_map(|place| match place {
                        ByteLocation::Byte(place) if (network..network + IPV4).contains(&place) => {
                            Some(network + (place - network) / 2 * 2)
                        }
                        _ => None,
                    })
                    .collect();
                words.dedup();
                (!words.is_empty()).then_some(ChecksumOperation::Updated { header: network, words })
            }
        };
        let mut class = TrafficClass {
            start: other.class.start - start,
            end,
            headers,
            writes,
            checksum,
            transport_checksum: None,
            path: Vec::new(),
            ..other.class.clone()
        };
        // The update of the TCP or UDP checksum accounts for the writes of this operation alone, not for
        // earlier writes.
        if let Some(sum) = &other.class.transport_checksum {
            let (network, header) = (self.headers[1]? - start, self.headers[2]? - start);
            let mut words: Vec<i32> = covered_words(&class, network, header).collect();
            words.dedup();
            if !words.is_empty() {
                // The declaration can only name an update of a checksum whose header is marked, so the
                // operation marks the transport header.
                class.headers[2] = class.headers[2].or(Some(Some(header)));
                class.transport_checksum = Some(TransportChecksum { protocol: sum.protocol, header, words });
            }
        }
        Some(class)
    }

    /// Converts `sum`, an offset of the packet's end from the start of the input packet, into an offset from
    /// the start of this packet. The sum reads the input packet, the result reads this packet. Returns `None`
    /// if bytes that the sum reads have been written since the input, or if the sum has other terms than
    /// bytes and the length.
    fn shifted(&self, sum: &AnswerSum) -> Option<AnswerSum> {
        let start = self.class.start;
        let mut shifted = AnswerSum::constant(sum.constant).plus_constant(-i64::from(start));
        for (factor, question, mask) in &sum.terms {
            let term = match *question {
                Question::Length => {
                    AnswerSum { constant: start.into(), terms: vec![(1, Question::Length, *mask)] }
                }
                Question::Bytes { offset, length } => {
                    let mut places = (0..i32::from(length)).map(|more| ByteLocation::Byte(offset + more));
                    places.all(|place| !self.bytes.contains_key(&place)).then_some(())?;
                    let question = Question::Bytes { offset: offset - start, length };
                    AnswerSum { constant: 0, terms: vec![(1, question, *mask)] }
                }
                _ => return None,
            };
            shifted = shifted.plus_times(*factor, &term);
        }
        Some(shifted)
    }
}

/// Returns the nodes and classes that only packets without IPv4 options reach. `place` is the offset of the
/// IPv4 header, whose first byte tells its length.
fn only_plain(program: &Program, place: i32) -> BTreeSet<Next> {
    let first = Question::Bytes { offset: place, length: 1 };
    let plain: IntervalSet = (0..=0x0f).map(|high| (high << 4 | 5, high << 4 | 5)).collect();
    let other = plain.complement(8);
    // Collects the nodes and classes that packets with options may reach. Nodes only lead to nodes with a
    // higher index, so one pass in order is enough.
    let mut mixed = BTreeSet::from([program.start]);
    let all = (0..program.nodes.len() as u32).map(Next::Node);
    for (next, node) in all.clone().zip(&program.nodes) {
        if mixed.contains(&next) {
            let may = |set: &IntervalSet| node.question != first || !set.intersection(&other).is_empty();
            mixed.extend(by_next(node).into_iter().filter(|(_, set)| may(set)).map(|(next, _)| next));
        }
    }
    all.chain((0..program.classes.len() as u32).map(Next::Class))
        .filter(|next| !mixed.contains(next))
        .collect()
}

/// Returns the offset of the first network header that the program refers to, in lists, then in the layout,
/// then in marks of classes; the unfolding takes it for an IPv4 header. Negative offsets are ignored; `None`
/// if there is no such header.
fn header_of(program: &Program) -> Option<i32> {
    let lists = program.lists.iter().map(|list| list.headers[0]);
    let marked = program.classes.iter().filter_map(|class| class.headers[1].flatten());
    let places = lists.chain(program.layout[1]).chain(marked);
    places.into_iter().find(|place| *place >= 0)
}
