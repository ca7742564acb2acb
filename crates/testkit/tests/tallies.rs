//! Tests that the handlers of an element show the same if packets arrive at it, and if they bypass it and
//! it is notified of them.
//!
//! Each element has a twin with equal arguments, which receives no packets, but is notified of every packet
//! that the element gets. Afterwards the handlers of both have to be equal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Counting, Effects, Hold, Sliced, StateAccess, Target};
use element::ports::{self, Processing};
use element::{Batch, Class, Cx, DropReason, Element, ElementId, Packet, Tally};
use testkit::TestRun;
use testkit::corpus;
use testkit::elements::{BASES, TestPacket, collect, offer};
use testkit::samples::{ClassSample, all};
use verify::model::diagrams::Diagrams;
use verify::model::functions::Functions;
use verify::model::packet::PacketModel as Symbolic;
use verify::model::step::Unit;

/// The maximum length of packets in this test, in bytes. Longer packets have several slots, which the
/// verifier's model of packets does not cover.
const ONE_SLOT: usize = 2000;

/// The class `Teller(TWIN, INPUT, OUTPUTS)`: it passes packets to the element under test, and notifies the
/// twin of them. It finds the case of each packet by the declaration. Packets that may not bypass the
/// element are dropped, and so are packets whose case does not follow from the declaration.
static TELLER: Class = Class {
    name: "Teller",
    args: &[
        ArgInfo::required("TWIN", "element"),
        ArgInfo::required("INPUT", "unsigned"),
        ArgInfo::required("OUTPUTS", "unsigned"),
    ],
    build: |args| {
        let (ElementRef(twin), input, outputs) =
            (args.required("TWIN"), args.required("INPUT"), args.required("OUTPUTS"));
        args.finish()?;
        let effects = DECLARED.with_borrow(Clone::clone);
        Ok(Box::new(Teller { twin, input, outputs, effects, tallies: BTreeMap::new() }))
    },
    ..Class::DEFAULT
};

static CLASSES: &[&Class] = &[&TELLER];

thread_local! {
    /// The declaration of the element under test, which the Tellers read when they are made.
    static DECLARED: RefCell<Effects> = RefCell::default();
    /// The number of packets whose case does not follow from the declaration, and the number of packets
    /// that may not bypass the element.
    static LEFT: RefCell<(usize, usize)> = RefCell::default();
    /// The symbolic packets of the corpus, which are made once for all elements.
    static KNOWN: Known = Known { diagrams: Diagrams::new(1 << 16), packets: RefCell::default() };
}

/// The parts of a packet from which the verifier's model makes a symbolic packet: its bytes, the offsets of
/// its headers, and its metadata.
type Parts = (Vec<u8>, [Option<i32>; 3], Vec<u8>);

/// Symbolic packets with the diagrams that they belong to.
struct Known {
    diagrams: Diagrams,
    packets: RefCell<HashMap<Parts, Rc<Symbolic>>>,
}

struct Teller {
    twin: ElementId,
    input: usize,
    outputs: usize,
    /// The declaration of the element and its twin.
    effects: Effects,
    /// The packets that the twin has not been notified of yet, by case.
    tallies: BTreeMap<usize, Tally>,
}

impl Teller {
    /// Returns the index of the case of the declaration that applies to a packet. `None` if that does not
    /// follow from the declaration, or if packets of the case may not bypass the element.
    fn case(&self, packet: &Packet) -> Option<usize> {
        let mut side = packet.annotations().bytes().to_vec();
        side.extend(packet.time().0.to_be_bytes());
        side.push(0);
        let headers = BASES.map(|base| packet.offset(base).map(|place| place as i32));
        KNOWN.with(|Known { diagrams: d, packets }| {
            let parts = (packet.data().to_vec(), headers, side);
            let mut packets = packets.borrow_mut();
            let make = |(bytes, headers, side): &Parts| Symbolic::known(d, bytes, *headers, side);
            let known = packets.entry(parts).or_insert_with_key(|parts| Rc::new(make(parts)));
            let (key, outputs, input) = ("", self.outputs, self.input);
            let functions = Functions::default();
            let unit = Unit {
                effects: &self.effects,
                key,
                outputs,
                functions: &functions,
                stream: 0,
                says_all: false,
                has_room: true,
                input,
            };
            let mut case = None;
            for (number, condition) in unit.conditions(d, &d.yes(), known)? {
                if d.known(&condition)? {
                    case = Some(number);
                    break;
                }
            }
            // A packet may not bypass an element that makes other packets from it, or that chooses its
            // output.
            let case = case
                .filter(|case| matches!(self.effects.cases[*case].to, Target::Output(_) | Target::Drop(_)))?;
            let outcome = unit.step(d, &d.yes(), known);
            (outcome.derived.is_empty() && outcome.leaving.len() == 1).then_some(case)
        })
    }
}

impl Element for Teller {
    fn effects(&self) -> Effects {
        Effects { replaces: vec![self.twin], opaque: Some("a test's own"), ..Effects::pass() }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        let tell = |packet: &mut Packet| {
            let case = self.case(packet).ok_or(DropReason::Unsuitable)?;
            if !self.effects.may_be_tallied(&self.effects.cases[case], self.outputs) {
                return Err(DropReason::NoMatch);
            }
            let none = Tally { input: self.input, case, packets: 0, bytes: 0, first: now, last: now };
            let tally = self.tallies.entry(case).or_insert(none);
            (tally.packets, tally.bytes, tally.last) =
                (tally.packets + 1, tally.bytes + packet.len() as u64, now);
            Ok(())
        };
        batch.sift(tell, |packet, reason| {
            LEFT.with_borrow_mut(|(vague, shown)| match reason {
                DropReason::Unsuitable => *vague += 1,
                _ => *shown += 1,
            });
            cx.drop(packet, reason);
        });
    }

    fn settle(&mut self, tell: &mut dyn FnMut(ElementId, Tally)) {
        std::mem::take(&mut self.tallies).into_values().for_each(|tally| tell(self.twin, tally));
    }
}

/// Returns the text of a configuration with the element `e`, a Teller upstream of each of its inputs, and
/// the twin.
fn text(sample: &ClassSample, number: u64) -> String {
    let (class, config, (inputs, outputs)) = (sample.class.name, &sample.config, sample.shape);
    let mut text = format!("e :: {class}({config});\ntwin :: {class}({config});\n");
    for i in 0..inputs {
        let source = if sample.pulls(false, i) { "TestPullSource" } else { "TestSource" };
        text += &format!("{source}({number}, {i}) -> Teller(twin, {i}, {outputs}) -> [{i}] e;\n");
        text += &format!("{source}({number}, {}) -> [{i}] twin;\n", inputs + i);
    }
    for o in 0..outputs {
        let sink = if sample.pulls(true, o) { "TestPullSink" } else { "TestSink" };
        text += &format!("e [{o}] -> {sink}({number}, {o}, RECORD false);\n");
        text += &format!("twin [{o}] -> {sink}({number}, {o}, RECORD false);\n");
    }
    text
}

/// Sends packets to the element, and compares its handlers with its twin's handlers. `Err` lists the
/// differences.
fn compare(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    DECLARED.set(effects.clone());
    let mut inputs: Vec<Vec<TestPacket>> =
        (0..sample.shape.0).map(|i| corpus::inputs(1 + i as u64)).collect();
    inputs.iter_mut().for_each(|inputs| inputs.retain(|input| input.bytes.len() <= ONE_SLOT));
    let number = offer(inputs);
    let (run, text) = (TestRun::default().with(CLASSES), text(sample, number));
    let handlers = readable(&text, run)?;
    let names: Vec<String> =
        handlers.iter().flat_map(|name| [format!("e.{name}"), format!("twin.{name}")]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcome = run.text(&text, &names);
    collect(number);
    let outcome = outcome?;
    let mut differences = Vec::new();
    for (handler, values) in handlers.iter().zip(outcome.values.chunks(2)) {
        let [real, told] = [0, 1].map(|of| {
            let mut lines: Vec<&str> = values[of].as_ref().unwrap_or_else(|error| error).lines().collect();
            // The lines of `drops_by_reason` are in the order of the first drop of each reason, which may
            // differ between the element and its twin.
            if handler == "drops_by_reason" {
                lines.sort_unstable();
            }
            lines
        });
        if real != told {
            differences.push(format!("{handler} says {told:?} where it is told, not {real:?}"));
        }
    }
    for text in [outcome.output, outcome.messages].iter().filter(|text| !text.is_empty()) {
        differences.push(format!("it would not say {text:?}"));
    }
    // A packet that the element drops counts as a drop of its twin, too. So the totals of the run do not
    // balance, and each element is checked alone.
    if let Some(element) = outcome.report.elements.iter().find(|element| !element.balances()) {
        differences.push(format!("{element:?}"));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("; ")),
    }
}

/// Returns the names of the element's read handlers, without those about its place in the graph.
fn readable(text: &str, run: TestRun) -> Result<Vec<String>, String> {
    let mut worker = testkit::worker(text, run)?;
    let id = worker.plan().graph.find("e");
    let all = worker.read(id, "handlers", "")?;
    let named = all.lines().filter_map(|line| line.split_once('\t'));
    let read =
        named.filter(|(name, flags)| flags.contains('r') && !["name", "ports", "signal"].contains(name));
    Ok(read.map(|(name, _)| name.to_string()).collect())
}

fn classes() -> Vec<&'static Class> {
    testkit::classes().chain([&testkit::example::CLASS]).collect()
}

/// True if packets, at least in some cases of the declaration, may bypass an element with this class and
/// declaration.
fn may_be_passed(class: &Class, effects: &Effects) -> bool {
    let keeps = |access| !matches!(access, StateAccess::Read | StateAccess::Soft);
    ports::processing(class.processing, false, 0) != Some(Processing::Pull)
        && effects.opaque.is_none()
        && effects.support.sliced == Sliced::default()
        && effects.counts != Counting::Own
        && (effects.counts == Counting::Tallied || effects.observes.is_empty())
        && effects.hold == Hold::None
        && !effects.state.iter().any(|state| keeps(state.access))
}

#[test]
fn handlers_say_the_same_of_packets_that_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("capture.pcap")).unwrap();
    capture::Writer::new(file, capture::WriterOptions::default()).flush().unwrap();
    let (mut failures, mut left, mut compared) = (Vec::new(), Vec::new(), 0);
    for sample in all(&classes(), folder.path()) {
        let effects = match sample.effects() {
            Ok(effects) if !may_be_passed(sample.class, &effects) || sample.shape.0 == 0 => continue,
            Ok(effects) => effects,
            Err(error) => {
                failures.push(format!("{sample}: {error}"));
                continue;
            }
        };
        LEFT.set((0, 0));
        if let Err(difference) = compare(&sample, &effects) {
            failures.push(format!("{sample}: {difference}"));
        }
        compared += 1;
        let (vague, shown) = LEFT.take();
        if vague + shown > 0 {
            left.push(format!("{sample}: {vague} of no known case, {shown} for itself alone"));
        }
    }
    println!("packets left to {} of {compared}:\n{}", left.len(), left.join("\n"));
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn lies_are_noticed() {
    let liars = testkit::liars::CLASSES.iter().copied().filter(|class| class.name.ends_with("Counter"));
    let mut noticed = 0;
    for class in liars {
        let sample =
            ClassSample::new(element::Sample { class, config: String::new(), shape: (1, 1), pull: false });
        let effects = sample.effects().unwrap();
        assert!(may_be_passed(class, &effects));
        let difference = compare(&sample, &effects).unwrap_err();
        assert!(difference.contains("count says"), "{}: {difference}", class.name);
        noticed += 1;
    }
    assert_eq!(noticed, 2);
}
