//! Compares an element with its declaration: the element has to do to each packet exactly what the
//! verifier's model computes from the declaration.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use element::Base;
use element::effects::{Case, Checksum, Effects, Hold};
use packet::HEADROOM;
use verify::model::diagrams::{Bit, Byte, Diagrams};
use verify::model::functions::Functions;
use verify::model::offsets::in_byte_region;
use verify::model::packet::PacketModel;
use verify::model::step::{LeavingPacket, To, Unit};
use wire::ip_protocol;

use crate::elements::{Seen, TestPacket};
use crate::samples::ClassSample;
use crate::{TestRun, corpus};

/// The maximum length in bytes of packets in this check. Longer packets have several slots, and the
/// verifier's model of packets does not cover the effects that this has on elements.
const ONE_SLOT: usize = 2000;

fn value(d: &Diagrams, bits: &[Bit]) -> Option<u64> {
    bits.iter().try_fold(0, |value, bit| Some(value << 1 | u64::from(d.known(bit)?)))
}

fn byte(d: &Diagrams, bits: &Byte) -> Option<u8> {
    value(d, bits).map(|value| value as u8)
}

/// Compares the output packet `seen` with `packet`, which follows from the declaration. Returns the first
/// difference as text, or `None`. Parts that the declaration leaves open are not compared.
fn difference(d: &Diagrams, packet: &PacketModel, seen: &Seen) -> Option<String> {
    let start = seen.start as i32 - HEADROOM as i32;
    if packet.start != start {
        return Some(format!("starts at {start}, not {}", packet.start));
    }
    if let Some(length) = packet.length(d).known(d)
        && length != seen.bytes.len() as i64
    {
        return Some(format!("{} bytes, not {length}", seen.bytes.len()));
    }
    for (offset, &real) in seen.bytes.iter().enumerate() {
        let declared = packet.known_byte(d, start + offset as i32);
        // Of a checksum, the verifier's model knows no bytes, only that it is correct, so it is not compared
        // here.
        if declared.is_some_and(|declared| declared != real) {
            return Some(format!("byte {offset} is {real:#x}, not {declared:x?}"));
        }
    }
    for (base, real) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(seen.headers) {
        let declared = packet.place(base).map(|place| (place - start) as isize);
        // If only the element knows where it sets a header offset, the verifier's model has no number for it,
        // and any offset is accepted.
        let is_known = packet.place(base).is_none_or(|place| !in_byte_region(place));
        if is_known && declared != real {
            return Some(format!("{base:?} header at {real:?}, not {declared:?}"));
        }
    }
    for (place, &real) in seen.annotations.iter().enumerate() {
        let declared = byte(d, &packet.side(d, place as u8));
        if declared.is_some_and(|declared| declared != real) {
            return Some(format!("annotation {place} is {real}, not {declared:?}"));
        }
    }
    None
}

/// The symbolic packets of the corpus. They are made once and used for all samples.
struct Known {
    diagrams: Diagrams,
    /// The symbolic packets, by input of the element and index of the packet: first the packets of
    /// `corpus::inputs`, then of `corpus::headers`.
    packets: RefCell<BTreeMap<(usize, usize), Rc<PacketModel>>>,
}

impl Known {
    fn packet(&self, input: usize, number: usize, given: &TestPacket) -> Rc<PacketModel> {
        let make = || Rc::new(self.fresh(given));
        Rc::clone(self.packets.borrow_mut().entry((input, number)).or_insert_with(make))
    }

    fn fresh(&self, given: &TestPacket) -> PacketModel {
        let headers = given.headers.map(|place| place.map(|place| place as i32));
        let mut side = given.annotations.to_vec();
        side.extend(given.time.0.to_be_bytes());
        side.push(0);
        PacketModel::known(&self.diagrams, &given.bytes, headers, &side)
    }
}

thread_local! {
    static KNOWN: Known = Known { diagrams: Diagrams::new(1 << 20), packets: RefCell::default() };
}

/// Returns the test packets for one input of an element: those of at most [`ONE_SLOT`] bytes. If
/// `with_headers` is true, packets with headers of all lengths are among them.
fn inputs(input: usize, with_headers: bool) -> Vec<TestPacket> {
    let mut all = corpus::inputs(7 + input as u64);
    all.retain(|given| given.bytes.len() <= ONE_SLOT);
    if with_headers {
        all.extend(corpus::headers());
    }
    all
}

struct Tally {
    exact: usize,
    unknown: usize,
}

/// Checks that a sample does to packets what it declares. Prints the number of packets for which the
/// declaration leaves the result open.
///
/// # Errors
/// The first packet to which the element does something else, with the difference.
pub(crate) fn does_what_it_declares(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    let Tally { exact, unknown } = KNOWN.with(|known| check(sample, effects, known))?;
    if unknown > 0 {
        println!(
            "{sample}: the declaration leaves the result of {unknown} of {} packets open",
            unknown + exact
        );
    }
    Ok(())
}

/// Runs the element on test packets, and compares its output with its declaration. Elements that replay
/// packets and elements without inputs are not compared.
///
/// An element that updates checksums and holds no packets gets some of its output again, with checksums of
/// all ones. All values that it writes are then there already, so it may leave the packet unchanged, and
/// must declare that.
fn check(sample: &ClassSample, effects: &Effects, known: &Known) -> Result<Tally, String> {
    if sample.shape.0 == 0 || effects.hold == Hold::Replay {
        return Ok(Tally { exact: 0, unknown: 0 });
    }
    // In pull context the declaration is the same, so packets with special headers are only pushed. Opaque
    // elements, whose declaration says nothing about these packets, and elements that hold packets do not get
    // them.
    let with_headers = !sample.pull && effects.opaque.is_none() && effects.hold == Hold::None;
    let inputs: Vec<Vec<TestPacket>> = (0..sample.shape.0).map(|input| inputs(input, with_headers)).collect();
    let make = |input: usize, number: usize, given: &TestPacket| known.packet(input, number, given);
    let (tally, seen) = compare(sample, effects, &known.diagrams, &inputs, &make)?;
    let updates = |case: &Case| matches!(case.checksum, Checksum::Updated(_));
    let again: Vec<TestPacket> = seen.iter().filter_map(all_ones).take(AGAIN).collect();
    if effects.hold == Hold::None && !again.is_empty() && effects.cases.iter().any(updates) {
        let make = |_: usize, _: usize, given: &TestPacket| Rc::new(known.fresh(given));
        compare(sample, effects, &known.diagrams, &vec![again; sample.shape.0], &make)
            .map_err(|wrong| format!("when it comes again: {wrong}"))?;
    }
    Ok(tally)
}

/// The maximum number of output packets that are sent through the element a second time.
const AGAIN: usize = 200;

/// Makes an input packet of an output packet, with all bits of the IPv4, TCP and UDP checksum set; `None`
/// without a network header annotation, or if the packet ends before the IPv4 checksum does. An incremental
/// update turns an IPv4 or TCP checksum of all ones into zero, even if the update changes no other byte.
fn all_ones(seen: &Seen) -> Option<TestPacket> {
    let Seen { mut bytes, time, annotations, headers, .. } = seen.clone();
    let [_, network, transport] = headers.map(|place| place.and_then(|place| usize::try_from(place).ok()));
    let network = network?;
    bytes.get_mut(network + 10..network + 12)?.fill(0xff);
    let sum = match bytes.get(network + 9) {
        Some(&ip_protocol::TCP) => transport.map(|transport| transport + 16),
        Some(&ip_protocol::UDP) => transport.map(|transport| transport + 6),
        _ => None,
    };
    if let Some(sum) = sum.and_then(|sum| bytes.get_mut(sum..sum + 2)) {
        sum.fill(0xff);
    }
    Some(TestPacket { bytes, time, annotations, headers })
}

/// Compares the element's output for `inputs` (a list for each input) with its declaration. `make` returns
/// the symbolic packet for an input and the index of the packet. Returns the numbers of packets with exact
/// and with open results, and the output.
fn compare(
    sample: &ClassSample,
    effects: &Effects,
    d: &Diagrams,
    inputs: &[Vec<TestPacket>],
    make: &dyn Fn(usize, usize, &TestPacket) -> Rc<PacketModel>,
) -> Result<(Tally, Vec<Seen>), String> {
    let mut tally = Tally { exact: 0, unknown: 0 };
    let (outcome, seen) = sample.run(TestRun::default(), inputs.to_vec())?;
    let given: usize = inputs.iter().map(Vec::len).sum();
    let came: u64 = outcome.report.elements.iter().filter(|e| e.name == "e").map(|e| e.packets_in).sum();
    let all_came = came == given as u64;
    let mut by_packet: BTreeMap<u32, Vec<&Seen>> = BTreeMap::new();
    for packet in &seen {
        by_packet.entry(packet.id).or_default().push(packet);
    }
    let key = sample.to_string();
    // By reason: the number of packets that the element should drop according to its declaration.
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for (input, packets) in inputs.iter().enumerate() {
        for (number, given) in packets.iter().enumerate() {
            let id = 1 + 100_000 * input as u32 + number as u32;
            let headers = given.headers;
            let packet = make(input, number, given);
            let unit = Unit {
                effects,
                key: &key,
                outputs: sample.shape.1,
                functions: &Functions::default(),
                stream: 0,
                says_all: false,
                has_room: true,
                input,
            };
            let outcome = unit.step(d, &d.yes(), &packet);
            if d.exhausted() {
                return Err("no room for its diagrams".into());
            }
            let certain = |leaving: &LeavingPacket| d.known(&leaving.condition) == Some(true);
            let is_exact = outcome.leaving.iter().all(certain)
                && outcome.derived.is_empty()
                && !outcome.ignores_full_queues
                && outcome.leaving.iter().all(|leaving| leaving.packet.lost.is_none());
            if !is_exact {
                tally.unknown += 1;
                continue;
            }
            tally.exact += 1;
            let mut real = by_packet.remove(&id).unwrap_or_default();
            for leaving in &outcome.leaving {
                if let To::Drop(reason) = leaving.to {
                    *ends.entry(reason.to_string()).or_default() += 1;
                }
                let To::Output(output) = leaving.to else { continue };
                let place = real.iter().position(|seen| seen.sink == output);
                let found = place.map(|place| real.remove(place));
                let wrong = match found {
                    None if !all_came => None,
                    None => Some(format!("does not come out of output {output}")),
                    Some(seen) => difference(d, &leaving.packet, seen),
                };
                if let Some(wrong) = wrong {
                    return Err(format!("packet {id} {:02x?} {headers:?}: {wrong}", given.bytes));
                }
            }
            if let Some(seen) = real.first() {
                return Err(format!("packet {id} {:02x?}: comes out of output {}", given.bytes, seen.sink));
            }
        }
    }
    let reports = outcome.report.elements.into_iter().filter(|element| element.name == "e");
    let drops = reports.flat_map(|element| element.drops);
    let ended: BTreeMap<String, u64> = drops.map(|(reason, n)| (reason.to_string(), n)).collect();
    if tally.unknown == 0 && all_came && ended != ends {
        return Err(format!("packets end for {ended:?}, not for {ends:?}"));
    }
    Ok((tally, seen))
}
