//! Generic tests that compare classes of elements with their declarations, for the product and for other
//! crates.
//!
//! Each class is configured by its `samples`, in push and in pull context, and gets packets of many kinds
//! ([`corpus`]). It runs with batches of several sizes, with several workers, and with packets that differ in
//! the fields that it does not declare as read. Each test is a [`Check`].
//!
//! ```
//! # static CLASSES: &[&element::Class] = &[];
//! # use testkit as testkit;
//! testkit::generic::check(CLASSES).unwrap();
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use element::effects::{Case, Depends, Effects, Field, Filter, Hold, Order, Predicate, StateAccess};
use element::steering::{Dispatch, Spread, Spreading, WorkerLoad};
use element::{Base, Class, DropReason, Packet, Timestamp};
use engine::End;
use packet::HEADROOM;

use crate::declared::does_what_it_declares;
use crate::elements::{Seen, TestPacket};
use crate::samples::{ClassSample, TARGET_CALL, all};
use crate::{RunResults, TestRun, corpus};

/// A check that every class must pass with all its samples.
#[derive(Clone, Copy)]
pub struct Check {
    /// The statement that the check verifies, for messages.
    pub name: &'static str,
    /// Runs a sample and compares it with its declared effects. `Err` says what differs.
    pub run: fn(&ClassSample, &Effects) -> Result<(), String>,
}

/// All checks, in the order in which [`check`](fn@check) runs them.
pub const CHECKS: &[Check] = &[
    Check { name: "every packet is accounted for", run: accounts_for_every_packet },
    Check { name: "the same input gives the same output", run: repeats_itself },
    Check { name: "several workers do what one does", run: several_do_what_one_does },
    Check {
        name: "several workers with packets of each flow do what one does",
        run: several_with_each_flow_do_what_one_does,
    },
    Check { name: "runs of packets are processed like single packets", run: processes_runs },
    Check { name: "order is kept as declared", run: keeps_order },
    Check { name: "nothing changes that is not declared as written", run: writes_what_it_declares },
    Check { name: "nothing depends on what is not declared as read", run: reads_what_it_declares },
    Check { name: "packets are dropped for declared reasons", run: drops_as_declared },
    Check { name: "handlers change the outcome only if that is declared", run: changes_as_declared },
    Check { name: "handler calls are declared", run: declares_calls },
    Check { name: "no decision is declared twice", run: declares_no_decision_twice },
    Check { name: "what happens to a packet is what is declared", run: does_what_it_declares },
];

/// Runs all checks on the classes of another crate. A class without a sample fails.
///
/// # Errors
/// All failures: the classes without samples and, for each check that fails, the samples with the reasons.
pub fn check(classes: &'static [&'static Class]) -> Result<(), String> {
    let without = classes.iter().filter(|class| class.samples.is_empty());
    let mut failures: Vec<String> = without.map(|class| format!("{} has no sample", class.name)).collect();
    failures.extend(CHECKS.iter().filter_map(|check| run(check, classes, classes).err()));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Runs one check over all samples of `classes`. `own` has the classes of another crate that the samples
/// may need.
///
/// # Errors
/// All samples that fail, with the reasons; or the reason why the captures for samples cannot be written.
pub fn run(check: &Check, classes: &[&'static Class], own: &'static [&'static Class]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    prepare(folder.path()).map_err(|error| error.to_string())?;
    let samples = all(classes, folder.path());
    let failure = |sample: &ClassSample| {
        let sample = sample.clone().with(own);
        let result = sample.effects().and_then(|effects| (check.run)(&sample, &effects));
        result.err().map(|reason| format!("{sample}: {reason}"))
    };
    let failures: Vec<String> = samples.iter().filter_map(failure).collect();
    match failures.len() {
        0 => Ok(()),
        wrong => {
            Err(format!("{}: {wrong} of {} samples:\n{}", check.name, samples.len(), failures.join("\n")))
        }
    }
}

/// Writes the corpus as a capture file, for samples that read captures.
///
/// # Errors
/// If the file cannot be written.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    let file = std::fs::File::create(folder.join("capture.pcap"))?;
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for input in corpus::inputs(3) {
        writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]])?;
    }
    writer.flush()
}

fn inputs_for(sample: &ClassSample, seed: u64) -> Vec<Vec<TestPacket>> {
    (0..sample.shape.0).map(|i| corpus::inputs(seed + i as u64)).collect()
}

/// Returns the packets of [`inputs_for`] and, for each input, packets with headers of all lengths.
fn inputs_and_headers_for(sample: &ClassSample, seed: u64) -> Vec<Vec<TestPacket>> {
    let mut inputs = inputs_for(sample, seed);
    inputs.iter_mut().for_each(|inputs| inputs.extend(corpus::headers()));
    inputs
}

fn accounts_for_every_packet(sample: &ClassSample, _: &Effects) -> Result<(), String> {
    for burst in [None, Some(32), Some(256)] {
        let run = TestRun { burst, ..TestRun::default() };
        let (outcome, seen) = sample.run(run, inputs_and_headers_for(sample, 1))?;
        if !outcome.report.balances() {
            return Err(format!("burst {burst:?}: {:?}", outcome.report));
        }
        if outcome.report.totals.out < seen.len() as u64 {
            return Err("packets came out that nobody counted".into());
        }
        if outcome.report.elements.iter().any(|e| e.held > 0) {
            return Err(format!("packets are held after the end: {:?}", outcome.report));
        }
    }
    Ok(())
}

fn repeats_itself(sample: &ClassSample, _: &Effects) -> Result<(), String> {
    let once = || sample.run(TestRun::default(), inputs_for(sample, 1)).map(|(_, seen)| seen);
    if once()? == once()? { Ok(()) } else { Err("two runs differ".into()) }
}

/// The part of [`InTurn`] at one worker. Elements with state have to make sure themselves that packets get to
/// the right worker.
struct Turns {
    workers: usize,
    next: usize,
}

impl Spread for Turns {
    fn worker_of(&mut self, _packet: &Packet, _now: Timestamp, _owner: &dyn Dispatch) -> usize {
        self.next = (self.next + 1) % self.workers;
        self.next
    }

    fn may_stay(&self, _packet: &Packet) -> bool {
        true
    }
}

/// The spreading that sends packets to the workers in turn, regardless of flows.
pub struct InTurn;

impl Spreading for InTurn {
    fn spread(&self, worker: usize, loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread> {
        Box::new(Turns { workers: loads.len(), next: worker })
    }
}

/// Checks that three workers together send the same packets as one worker, and that every packet is
/// accounted for. The packets are not compared if the element is opaque, holds packets, has state that is
/// not [`StateAccess::Soft`], or depends on something other than the packet and handlers
/// ([`Effects::depends`]).
fn several_do_what_one_does(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    workers_do_what_one_does(sample, effects, TestRun::trace().on(3))
}

/// Makes the same comparison as [`several_do_what_one_does`], but packets of one flow arrive at all workers
/// in turn.
fn several_with_each_flow_do_what_one_does(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    workers_do_what_one_does(sample, effects, TestRun::trace().on(3).spread(|| Arc::new(InTurn)))
}

fn workers_do_what_one_does(sample: &ClassSample, effects: &Effects, how: TestRun) -> Result<(), String> {
    let run = |how: TestRun| sample.run(how, inputs_for(sample, 1));
    let ((one, few), (_, many)) = (run(how)?, run(TestRun::trace())?);
    if !one.report.balances() || one.report.elements.iter().any(|e| e.held > 0) {
        return Err(format!("{:?}", one.report));
    }
    let soft = effects.state.iter().all(|state| state.access == StateAccess::Soft);
    let varies = effects.depends.iter().any(|what| *what != Depends::Handler);
    if effects.opaque.is_some() || varies || !soft || effects.hold != Hold::None {
        return Ok(());
    }
    let sorted = |seen: Vec<Seen>| {
        let mut all: Vec<_> = seen.into_iter().map(|s| (s.sink, s.id, s.bytes, s.time)).collect();
        all.sort();
        all
    };
    match sorted(few) == sorted(many) {
        true => Ok(()),
        false => Err("other packets came out".into()),
    }
}

/// Returns a packet with the TTL of its IPv4 header changed by `change`.
fn with_other_ttl(packet: &TestPacket, change: u8) -> TestPacket {
    let mut packet = packet.clone();
    let place = packet.headers[1].and_then(|network| usize::try_from(network + 8).ok());
    if let Some(ttl) = place.and_then(|place| packet.bytes.get_mut(place)) {
        *ttl ^= change;
    }
    packet
}

/// Checks that an element that finds runs does the same if each packet is a run of its own, and if the runs
/// of the packets that come are wrong. Each packet comes several times in a row, with another TTL each time.
fn processes_runs(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    if !effects.support.finds_runs {
        return Ok(());
    }
    let mut inputs = inputs_and_headers_for(sample, 1);
    for packets in &mut inputs {
        *packets = packets.iter().flat_map(|packet| [0, 1, 2].map(|n| with_other_ttl(packet, n))).collect();
    }
    for burst in [2, 32, 256] {
        let run = || TestRun { burst: Some(burst), ..TestRun::default() };
        let results = |(outcome, seen): (RunResults, Vec<Seen>)| {
            let elements = outcome.report.elements.into_iter().filter(|element| element.class != "TestStale");
            (elements.map(|element| element.drops).collect::<Vec<_>>(), seen)
        };
        let singly = results(sample.run_singly(run(), inputs.clone())?);
        if results(sample.run(run(), inputs.clone())?) != singly {
            return Err(format!("with batches of {burst} packets, the outcome differs"));
        }
        if results(sample.run_with_wrong_runs(run(), inputs.clone())?) != singly {
            return Err(format!("with wrong runs and batches of {burst} packets, the outcome differs"));
        }
    }
    Ok(())
}

fn keeps_order(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    if matches!(effects.order, Order::MayReorder | Order::Restores) || sample.shape.0 > 1 {
        return Ok(());
    }
    let inputs = inputs_for(sample, 1);
    // For elements that keep the order only within flows, the order of packets of different flows is not
    // checked.
    let flow = |packet: &Seen| match effects.order {
        Order::KeepsPerFlow => {
            let input = &inputs[0][(packet.id - 1) as usize];
            let layers = wire::Layers::locate(&input.bytes, wire::LinkType::Ethernet);
            let tuple = layers.five_tuple(&input.bytes)?;
            Some((tuple, layers.fragment.map(|fragment| fragment.id), layers.outer_vlan, input.headers))
        }
        _ => None,
    };
    let (_, seen) = sample.run(TestRun::default(), inputs.clone())?;
    let mut last = HashMap::new();
    let mut rounds = 0;
    for packet in seen.iter().filter(|packet| packet.id > 0) {
        let flow = flow(packet);
        if effects.order == Order::KeepsPerFlow && flow.is_none() {
            continue;
        }
        let before = last.insert((packet.sink, flow), packet.id).unwrap_or(0);
        // An element that repeats its packets starts again with the first or second packet.
        let restarts = before > packet.id && packet.id <= 2;
        rounds += usize::from(restarts);
        if before > packet.id && !restarts || rounds > 8 {
            return Err(format!("packet {} came after {before} from output {}", packet.id, packet.sink));
        }
    }
    Ok(())
}

/// The positions of a packet and its headers in a slot, from which the bytes that a field covers follow.
struct View {
    start: usize,
    length: usize,
    headers: [Option<isize>; 3],
    /// The offset from the packet's first byte to the end of the IPv4 header by its length field. `None` if
    /// the packet has no network header, or if the element does not declare that it uses nothing after the
    /// IPv4 header (`keeps_to_header`).
    header_ends: Option<isize>,
}

impl View {
    fn new(bytes: &[u8], start: usize, headers: [Option<isize>; 3], keeps_to_header: bool) -> View {
        let ends = |network: isize| {
            let first = bytes.get(usize::try_from(network).ok()?)?;
            Some(network + isize::from(first & 15) * 4)
        };
        let header_ends = headers[1].filter(|_| keeps_to_header).and_then(ends);
        View { start, length: bytes.len(), headers, header_ends }
    }

    fn of_input(input: &TestPacket, keeps_to_header: bool) -> View {
        View::new(&input.bytes, HEADROOM, input.headers, keeps_to_header)
    }

    /// Returns the byte positions in the slot that a field covers; empty for metadata.
    fn positions(&self, field: &Field) -> Range<usize> {
        let from_start = |from: isize, to: isize| {
            let place = |offset: isize| (offset + self.start as isize).max(0) as usize;
            place(from)..place(to)
        };
        match field {
            Field::Payload => 0..self.start + self.length,
            Field::Bytes { base, offset, length } => {
                let origin = match base {
                    Base::Data => Some(0),
                    Base::Mac => self.headers[0],
                    Base::Network => self.headers[1],
                    Base::Transport => self.headers[2],
                };
                let Some(origin) = origin else { return 0..0 };
                let from = origin + *offset as isize;
                let to = from + *length as isize;
                match self.header_ends {
                    Some(end) if *base == Base::Network => from_start(from, to.min(end.max(origin + 20))),
                    _ => from_start(from, to),
                }
            }
            _ => 0..0,
        }
    }
}

fn covers(fields: &[Field], position: usize, views: &[View]) -> bool {
    fields.iter().any(|field| views.iter().any(|view| view.positions(field).contains(&position)))
}

fn annotation_covered(fields: &[Field], place: usize) -> bool {
    fields.iter().any(|field| match *field {
        Field::Annotation { offset, length } => {
            (offset as usize..offset as usize + length as usize).contains(&place)
        }
        _ => false,
    })
}

/// Returns what differs between an output packet and its input without being declared as written; `None` if
/// nothing does.
fn undeclared_change(input: &TestPacket, seen: &Seen, effects: &Effects) -> Option<String> {
    let writes = &effects.writes();
    let keeps = effects.support.keeps_to_header;
    let views = [View::of_input(input, keeps), View::new(&seen.bytes, seen.start, seen.headers, keeps)];
    let has = |field: &Field| writes.contains(field);
    if seen.start != HEADROOM && !has(&Field::HeaderOffset(Base::Data)) {
        return Some(format!("start moved to {}", seen.start));
    }
    let (end, was) = (seen.start + seen.bytes.len(), HEADROOM + input.bytes.len());
    if end != was && !has(&Field::Length) {
        return Some(format!("end moved from {was} to {end}"));
    }
    for position in HEADROOM.max(seen.start)..end.min(was) {
        let (before, after) = (input.bytes[position - HEADROOM], seen.bytes[position - seen.start]);
        if before != after && !covers(writes, position, &views) {
            return Some(format!(
                "byte {} was {before:#x} and is {after:#x}",
                position as isize - HEADROOM as isize
            ));
        }
    }
    if seen.time != input.time && !has(&Field::TimeStamp) {
        return Some("the time stamp".into());
    }
    for place in 0..48 {
        if seen.annotations[place] != input.annotations[place] && !annotation_covered(writes, place) {
            return Some(format!("annotation byte {place}"));
        }
    }
    for (i, base) in [Base::Mac, Base::Network, Base::Transport].into_iter().enumerate() {
        let absolute = |start: usize, offset: Option<isize>| offset.map(|o| o + start as isize);
        let moved = absolute(HEADROOM, input.headers[i]) != absolute(seen.start, seen.headers[i]);
        if moved && !has(&Field::HeaderOffset(base)) {
            return Some(format!("the {base:?} header offset"));
        }
    }
    None
}

fn writes_what_it_declares(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    // The declaration of an opaque element without any write says nothing about writes.
    if effects.opaque.is_some() && effects.writes().is_empty() {
        return Ok(());
    }
    let inputs = inputs_and_headers_for(sample, 1);
    let (_, seen) = sample.run(TestRun::default(), inputs.clone())?;
    for packet in seen.iter().filter(|packet| packet.id > 0) {
        let (number, place) = ((packet.id - 1) as usize / 100_000, (packet.id - 1) as usize % 100_000);
        let input = &inputs[number][place];
        if let Some(what) = undeclared_change(input, packet, effects) {
            return Err(format!("packet {place}: {what} changed; declared: {:?}", effects.writes()));
        }
    }
    Ok(())
}

/// Changes random parts of a packet that the element does not declare as read: bytes, an annotation, the time
/// stamp.
fn disturb(input: &mut TestPacket, effects: &Effects, random: &mut fastrand::Rng) {
    let reads = &effects.reads();
    let views = [View::of_input(input, effects.support.keeps_to_header)];
    for _ in 0..4 {
        if input.bytes.is_empty() {
            break;
        }
        let place = random.usize(0..input.bytes.len());
        if !covers(reads, HEADROOM + place, &views) {
            input.bytes[place] ^= 1 << random.u32(0..8);
        }
    }
    let place = random.usize(0..48);
    if !annotation_covered(reads, place) {
        input.annotations[place] ^= 1 << random.u32(0..8);
    }
    if !reads.contains(&Field::TimeStamp) {
        input.time.0 += random.i64(1..1_000);
    }
}

fn reads_what_it_declares(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    // An opaque element may read anything, and an element without inputs gets no packets.
    if effects.opaque.is_some() || sample.shape.0 == 0 {
        return Ok(());
    }
    let inputs = inputs_for(sample, 1);
    let (_, plain) = sample.run(TestRun::default(), inputs.clone())?;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..8 {
        let mut disturbed = inputs.clone();
        disturbed.iter_mut().flatten().for_each(|input| disturb(input, effects, &mut random));
        let (_, seen) = sample.run(TestRun::default(), disturbed.clone())?;
        let fate = |s: &Seen| (s.sink, s.id, s.start, s.bytes.len(), s.headers);
        if !seen.iter().map(fate).eq(plain.iter().map(fate)) {
            let first = seen.iter().zip(&plain).find(|(a, b)| fate(a) != fate(b));
            return Err(format!("other fate or shape: {first:?}; declared reads: {:?}", effects.reads()));
        }
        for packet in seen.iter().filter(|packet| packet.id > 0) {
            let (number, place) = ((packet.id - 1) as usize / 100_000, (packet.id - 1) as usize % 100_000);
            let input = &disturbed[number][place];
            if let Some(what) = undeclared_change(input, packet, effects) {
                return Err(format!("packet {place}, disturbed: {what} changed"));
            }
        }
        // Bytes that the element has written must not depend on the changed parts either. A byte may differ
        // only if it was passed on unchanged.
        for (a, b) in seen.iter().zip(&plain).filter(|(a, _)| a.id > 0) {
            let place = (a.id - 1) as usize % 100_000;
            let input = &inputs[(a.id - 1) as usize / 100_000][place];
            let other = &disturbed[(a.id - 1) as usize / 100_000][place];
            for i in 0..a.bytes.len() {
                let at = (a.start + i).checked_sub(HEADROOM);
                let was = at.and_then(|at| Some((input.bytes.get(at)?, other.bytes.get(at)?)));
                let passed_on = was.is_some_and(|(x, y)| a.bytes[i] == *y && b.bytes[i] == *x);
                if a.bytes[i] != b.bytes[i] && !passed_on {
                    return Err(format!("packet {place}: byte {i} was written from something not declared"));
                }
            }
        }
    }
    Ok(())
}

/// Checks that every reason for which the element drops packets follows from its declaration
/// ([`Effects::drop_reasons`]), unless the element is opaque. Some of the packets have several slots or no
/// headroom. The reason [`DropReason::Stop`], for which held packets are dropped at the end of the run, is
/// not checked.
fn drops_as_declared(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    if effects.opaque.is_some() {
        return Ok(());
    }
    let declared: Vec<&str> =
        effects.drop_reasons(sample.shape.1).iter().map(|reason| reason.as_str()).collect();
    for headroom in [HEADROOM, 0] {
        let inputs = inputs_and_headers_for(sample, 1);
        let (outcome, _) = sample.run_with(TestRun::default(), headroom, None, inputs)?;
        let reports = outcome.report.elements.iter().filter(|element| element.name == "e");
        let drops = reports.flat_map(|element| &element.drops);
        let mut others = drops.filter(|(reason, _)| !declared.contains(*reason));
        if let Some((other, _)) = others.find(|(reason, _)| **reason != DropReason::Stop.as_str()) {
            return Err(format!("packets are dropped for the reason '{other}', which it does not declare"));
        }
    }
    Ok(())
}

/// Values that are written to handlers, of the common types of settings.
const VALUES: [&str; 22] = [
    "0",
    "1",
    "2",
    "3",
    "20",
    "100",
    "1000",
    "-1",
    "true",
    "false",
    "0.25",
    "1.5",
    "1ms",
    "1000Bps",
    "10.9.8.7",
    "10.0.0.0/8",
    "2001:db8::7",
    "02:00:00:00:00:07",
    "deny all",
    "tcp",
    "12/0806",
    "",
];

/// Checks that values which are written to the element's handlers before the run do not change what happens
/// to packets, unless the element declares [`Depends::Handler`].
fn changes_as_declared(sample: &ClassSample, effects: &Effects) -> Result<(), String> {
    if effects.opaque.is_some() || effects.depends.contains(&Depends::Handler) || sample.shape.0 == 0 {
        return Ok(());
    }
    let outcome = |write: Option<(&str, &str)>| {
        let (outcome, seen) = sample.run_with(TestRun::default(), HEADROOM, write, inputs_for(sample, 1))?;
        let reports = outcome.report.elements.into_iter().filter(|element| element.name == "e");
        let drops: Vec<_> = reports.flat_map(|element| element.drops).collect();
        Ok::<_, String>((outcome.end == End::Stopped, (drops, seen)))
    };
    let (is_stopped, plain) = outcome(None)?;
    if is_stopped {
        return Ok(());
    }
    // `config` replaces the element, `tickets` is about its task, and others write files.
    let is_setting = |name: &str| !["config", "tickets"].contains(&name) && !name.contains("file");
    let written =
        sample.handlers()?.into_iter().filter(|(name, flags)| flags.contains('w') && is_setting(name));
    for (name, _) in written {
        for value in VALUES {
            // A value that the handler refuses is none of its settings. A handler may also say when the
            // element stops the run, which is no effect on a packet.
            if let Ok((false, other)) = outcome(Some((&name, value)))
                && other != plain
            {
                return Err(format!("'{name} {value}' changes the outcome, and it does not declare that"));
            }
        }
    }
    Ok(())
}

/// Checks that an element which gets a handler call of another element as an argument, or by a write to the
/// handler with the argument's name, declares that it calls handlers ([`Effects::calls`]).
fn declares_calls(sample: &ClassSample, _: &Effects) -> Result<(), String> {
    for arg in sample.class.args {
        let call = match arg.ty {
            "HANDLER [VALUE]" => TARGET_CALL.to_string(),
            "N HANDLER [VALUE]" => format!("5 {TARGET_CALL}"),
            _ => continue,
        };
        let argument = format!("{} {call}", arg.name);
        // If the sample has an argument that excludes `argument`, it cannot be configured, and nothing is
        // checked.
        let with_argument = sample.beside_target(&argument, None).unwrap_or(true);
        let handler = arg.name.to_lowercase();
        let is_writable =
            sample.handlers()?.iter().any(|(name, flags)| *name == handler && flags.contains('w'));
        let with_handler = !is_writable || sample.beside_target("", Some((&handler, &call))).unwrap_or(true);
        for (declares, what) in
            [(with_argument, argument), (with_handler, format!("writing '{call}' to '{handler}'"))]
        {
            if !declares {
                return Err(format!("{what} has it call a handler, and it does not declare `calls`"));
            }
        }
    }
    Ok(())
}

/// True if the declaration does not say for which packets the filter holds, because that depends on the
/// element's state or on a decision of the element itself.
fn is_own(filter: &Filter) -> bool {
    filter.leaves().any(|leaf| matches!(leaf, Predicate::Opaque { .. } | Predicate::State { .. }))
}

fn declares_no_decision_twice(_: &ClassSample, effects: &Effects) -> Result<(), String> {
    for (number, case) in effects.cases.iter().enumerate() {
        let is_same = |before: &Case| {
            before.when == case.when && before.input.is_none_or(|input| case.input == Some(input))
        };
        if is_own(&case.when) && effects.cases[..number].iter().any(is_same) {
            return Err(format!("case {number} never holds: one before it is about the same"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use element::effects::Target;

    use super::*;

    #[test]
    fn who_keeps_to_a_header_leaves_alone_what_is_behind() {
        let mut bytes = vec![0; 80];
        bytes[14] = 0x47;
        let options = [Field::Bytes { base: Base::Network, offset: 20, length: 40 }];
        let covered = |keeps_to_header| {
            let view = [View::new(&bytes, HEADROOM, [Some(0), Some(14), None], keeps_to_header)];
            (0..80).filter(|place| covers(&options, HEADROOM + place, &view)).collect::<Vec<_>>()
        };
        assert_eq!(covered(false), (34..74).collect::<Vec<_>>());
        assert_eq!(covered(true), (34..42).collect::<Vec<_>>());
    }

    #[test]
    fn lies_are_noticed() {
        let sample = |class| {
            ClassSample::new(element::Sample { class, config: String::new(), shape: (1, 1), pull: false })
        };
        let honest = sample(crate::classes().find(|class| class.name == "Null").unwrap());
        let [writer, reader, sorter, setting] = [0, 1, 2, 3].map(|i| sample(crate::liars::CLASSES[i]));
        let marker = sample(&crate::liars::RUN_MARKER).with(crate::liars::CLASSES);
        let caller = sample(&crate::liars::UNDECLARED_CALLER).with(crate::liars::CLASSES);
        let pass = Effects::pass();
        let checks = [
            keeps_order,
            writes_what_it_declares,
            reads_what_it_declares,
            drops_as_declared,
            changes_as_declared,
            declares_calls,
        ];
        for check in checks {
            assert_eq!(check(&honest, &pass), Ok(()));
        }
        assert!(writes_what_it_declares(&writer, &pass).unwrap_err().contains("byte 20"));
        assert!(reads_what_it_declares(&reader, &pass).is_err());
        assert!(keeps_order(&sorter, &pass).is_err());
        assert!(processes_runs(&marker, &marker.effects().unwrap()).is_err());
        assert!(drops_as_declared(&reader, &pass).unwrap_err().contains("no match"));
        assert!(changes_as_declared(&setting, &pass).unwrap_err().contains("'active 0'"));
        assert!(declares_calls(&caller, &pass).unwrap_err().starts_with("AT_CALL 5 target.reset"));
        assert_eq!(does_what_it_declares(&honest, &pass), Ok(()));
        let drops = Effects::cases(vec![Case::new(Filter::TRUE, Target::Drop(DropReason::Denied))]);
        assert!(does_what_it_declares(&honest, &drops).is_err());
    }
}
