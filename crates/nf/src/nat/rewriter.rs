//! The common element of all translators.
//!
//! A batch is processed in windows of up to 32 runs: the keys of the runs are computed, then all of them are
//! looked up together, and then the packets are processed in order. A packet whose key was not found is
//! looked up again before a mapping is made for it, if an earlier packet of the window has made a mapping or
//! caused keys to move.

mod listing;

use std::any::Any;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use element::args::{AnnotationOffset, ArgType, ElementRef, Raw};
use element::class::{ArgInfo, join};
use element::lease::Leasing;
use element::metrics;
use element::runs::{RunList, Runs};
use element::{
    Args, Batch, Cx, Damaged, Effects, Element, ElementId, Handler, Invalid, Loaded, Packet, SavedState,
    StatePart, StateWriter, Timestamp,
};
use flow::Ipv4FlowKey;
use packet::Annotations;

use crate::sorting::Sorter;

use super::declaration;
use super::desk::{Sharing, Translation};
use super::elsewhere::{ForeignFlows, Translator};
use super::flavour::Flavour;
use super::ftp_port_mapper::Helps;
use super::mapper::Mapper;
use super::pattern::{Named, all_names, words};
use super::published::{Home, Published, locked};
use super::save;
use super::session_log::SessionLog;
use super::spaces::{ONLY, UDP_BESIDE};
use super::spec::{Reading, Spec, mapper_of};
use super::state::Policy;
use super::store::{Board, CouldMake, Made, Owner, Store, Tally, WINDOW};

pub(super) struct Rewriter {
    desk: Translation,
    published: Arc<Published>,
    home: Home,
    /// The data about this translator (such as its class and its time-outs) that it gives to the store of its
    /// mappings. The store may be that of another translator.
    owner: Owner,
    capacity: i32,
    /// True if a reload ends mappings that the new specification could not have made.
    ends_stale: bool,
    /// The NATLog in which mappings are recorded that are made and removed.
    log: Option<ElementId>,
    /// True if the mappings go on in another graph, or have been saved for another run.
    goes_on: bool,
    /// True if mappings are removed when they expire; false if expired mappings may stay until a new mapping
    /// needs their port or their room.
    reaps: bool,
    /// True if an element reads the destination IP annotation. Otherwise translators do not set it.
    is_read: bool,
    sorter: Sorter,
    elsewhere: ForeignFlows,
    /// The mapper that belongs to this translator, whose turn a reload keeps. A mapper that is an element
    /// keeps its turn itself.
    turns: Option<Arc<Mapper>>,
}

/// The arguments of all translators about the table of mappings.
const HOLDING: [ArgInfo; 6] = [
    seconds("REAP_INTERVAL", "").computed("REAP_TIME"),
    seconds("REAP_TIME", "900"),
    ArgInfo::keyword("MAPPING_CAPACITY", "int or element", "1048576"),
    ArgInfo::keyword("CAPACITY", "int or element", "").computed("MAPPING_CAPACITY"),
    ArgInfo::keyword("END_STALE", "bool", "false"),
    ArgInfo::keyword("LOG", "element", ""),
];

/// The arguments of all translators with input specifications.
const COMMON: [ArgInfo; 9] = join(
    [
        ArgInfo::rest("INPUTSPEC", "input specification"),
        seconds("GUARANTEE", "5"),
        ArgInfo::keyword("REPLY_ANNO", "annotation", ""),
    ],
    HOLDING,
);

/// The arguments of translators of TCP and UDP for one direction, in addition to their own arguments: the
/// time-outs of IPRewriter, and the arguments about the table of mappings.
pub(super) const ONE_WAY: [ArgInfo; 14] = join(
    [
        seconds("TCP_TIMEOUT", "86400"),
        seconds("TIMEOUT", "").computed("TCP_TIMEOUT"),
        seconds("TCP_DONE_TIMEOUT", "240"),
        seconds("TCP_NODATA_TIMEOUT", "300"),
        seconds("TCP_GUARANTEE", "").computed("GUARANTEE"),
        seconds("GUARANTEE", "5"),
        seconds("UDP_TIMEOUT", "300"),
        seconds("UDP_GUARANTEE", "5"),
    ],
    HOLDING,
);

/// The argument that makes packets carry their new destination in an annotation; translators without ports
/// always set it.
pub(super) const DST_ANNO: ArgInfo = ArgInfo::keyword("DST_ANNO", "bool", "true");

/// The argument that makes packets carry the number of their mapping as an aggregate, which FastClick's
/// IPRewriter has.
pub(super) const SET_AGGREGATE: ArgInfo = ArgInfo::keyword("SET_AGGREGATE", "bool", "false");

/// The argument HANDLE_MIGRATION, which FastClick's TCPRewriter and UDPRewriter have.
pub(super) const HANDLE_MIGRATION: ArgInfo = ArgInfo::keyword("HANDLE_MIGRATION", "bool", "false");

/// Arguments that Click does not have, for translators with ports or identifiers: one outside port per
/// endpoint, and a limit on mappings per inside address.
pub(super) const SHARING: [ArgInfo; 2] = [
    ArgInfo::keyword("INDEPENDENT_MAPPING", "bool", "false"),
    ArgInfo::keyword("SUBSCRIBER_CAPACITY", "unsigned", "0"),
];

/// An argument that Click does not have, for translators of TCP and UDP: any host may send to an endpoint's
/// outside port.
pub(super) const INDEPENDENT_FILTERING: ArgInfo = ArgInfo::keyword("INDEPENDENT_FILTERING", "bool", "false");

/// Joins the `M` arguments of one translator with the arguments that all translators have. `N` is the total
/// number.
pub(super) const fn with_common<const M: usize, const N: usize>(own: [ArgInfo; M]) -> [ArgInfo; N] {
    join(own, COMMON)
}

/// Describes a time-out argument. The default is a number of seconds, as text.
pub(super) const fn seconds(name: &'static str, default: &'static str) -> ArgInfo {
    ArgInfo::keyword(name, "seconds", default)
}

/// Returns a time-out in nanoseconds: of the argument `name`, or, if it is not given, of the last given
/// argument among `others`, which are other names for it. If none is given, returns the default of `name`.
pub(super) fn last_of(args: &mut Args<'_>, others: &[&'static str], name: &'static str) -> i64 {
    let other = last_given(args, others);
    let time = args.value(name);
    let time = not_negative(args, name, time);
    other.filter(|_| !args.was_given(name)).or(time).unwrap_or_default()
}

/// Returns the value of the last of these time-out arguments that is given, in nanoseconds. Returns `None`
/// if none is given.
pub(super) fn last_given(args: &mut Args<'_>, names: &[&'static str]) -> Option<i64> {
    let mut last = None;
    for name in names {
        let given = args.get(name);
        last = given.and_then(|time| not_negative(args, name, time)).or(last);
    }
    last
}

/// Returns a time in nanoseconds. Reports an error and returns `None` if the time is negative.
fn not_negative(args: &mut Args<'_>, name: &str, Timestamp(time): Timestamp) -> Option<i64> {
    if time < 0 {
        let clicks_words = format!("{name}: invalid number");
        args.error_as(format!("{name}: a time must not be negative"), clicks_words);
    }
    (time >= 0).then_some(time)
}

/// Reads the largest number of mappings, or the translator whose capacity this translator shares. Returns the
/// number in either case (the default if a translator is named): translators that name each other in a cycle
/// use it.
fn capacity(args: &mut Args<'_>) -> (i32, Option<ElementId>) {
    let usual = args.default_of("MAPPING_CAPACITY").unwrap_or_default();
    let (other, Raw(text)) = (args.get("CAPACITY"), args.value("MAPPING_CAPACITY"));
    let text = other.filter(|_| !args.was_given("MAPPING_CAPACITY")).map_or(text, |Raw(text)| text);
    if let Ok(capacity) = i32::parse(&text, &args.place()) {
        return (capacity, None);
    }
    match ElementRef::parse(&text, &args.place()) {
        Ok(ElementRef(id)) => (usual, Some(id)),
        Err(_) => {
            args.error("bad MAPPING_CAPACITY");
            (usual, None)
        }
    }
}

/// Reads the arguments about state that is shared by all flows of an inside endpoint or address. Reports
/// independent filtering without independent mapping as an error.
fn sharing(args: &mut Args<'_>, flavour: Flavour) -> Sharing {
    let mut sharing = Sharing::default();
    if !flavour.has_ports() {
        return sharing;
    }
    sharing.is_independent = args.value(SHARING[0].name);
    if !flavour.is_ping() {
        sharing.filters_independently = args.value(INDEPENDENT_FILTERING.name);
    }
    if sharing.filters_independently && !sharing.is_independent {
        args.error(format!("{} needs {}", INDEPENDENT_FILTERING.name, SHARING[0].name));
    }
    sharing.most_of_one = args.value(SHARING[1].name);
    sharing
}

/// The values of the arguments [`HOLDING`].
pub(super) struct Holding {
    reaps: bool,
    capacity: i32,
    shares: Option<ElementId>,
    ends_stale: bool,
    log: Option<ElementId>,
}

impl Holding {
    /// Reads the arguments [`HOLDING`].
    pub(super) fn read(args: &mut Args<'_>) -> Holding {
        let reaps = last_of(args, &["REAP_INTERVAL"], "REAP_TIME") > 0;
        let (capacity, shares) = capacity(args);
        let log = args.get("LOG").map(|ElementRef(id)| id);
        Holding { reaps, capacity, shares, ends_stale: args.value("END_STALE"), log }
    }
}

/// Builds and publishes a translator with input specifications. `policies` are the time-outs of its two
/// kinds of mappings; only IPRewriter uses the second, for UDP.
///
/// # Errors
/// If an argument is invalid, or there is no memory for mappings.
pub(super) fn build(
    args: &mut Args<'_>,
    flavour: Flavour,
    policies: [Policy; 2],
) -> Result<Box<dyn Element>, Invalid> {
    let sets_next_hop = if flavour.has_ports() { args.value("DST_ANNO") } else { true };
    let reply_annotation = args.get("REPLY_ANNO").map(|AnnotationOffset::<1>(offset)| offset);
    let sets_aggregate = flavour == Flavour::Both && args.value(SET_AGGREGATE.name);
    let holding = Holding::read(args);
    let sharing = sharing(args, flavour);
    let texts = args.rest();
    let (inputs, outputs) = (args.inputs(), args.outputs());
    crate::patterns::check_count(args, (texts.len(), "specification"), (inputs, "input"));
    args.finish()?;
    let names = all_names(args.setup);
    let element = args.name();
    let (setup, place) = (&*args.setup, args.place());
    let mapper = |name: &str| mapper_of(setup, place.element(name));
    let named = Named { place, element: &element, names: &names };
    let reading = Reading { named, outputs, mapper: &mapper };
    let parse = |(number, (argument, text)): (usize, &(usize, String))| {
        (*argument, Spec::parse(text, number, &reading))
    };
    let parsed: Vec<_> = texts.iter().enumerate().map(parse).collect();
    let told = |(argument, spec): (usize, Result<Spec, _>)| {
        spec.map_err(|error| args.error_in(argument, error)).ok()
    };
    let specs: Vec<Spec> = parsed.into_iter().filter_map(told).collect();
    args.finish()?;
    let desk = Translation::new(flavour, specs, outputs);
    let desk = Translation { sets_next_hop, reply_annotation, sharing, sets_aggregate, ..desk };
    assemble(args, (desk, None), policies, holding)
}

/// Publishes and returns a translator, with the mapper that belongs to it, if it has one.
///
/// # Errors
/// If there is no memory for mappings.
pub(super) fn assemble(
    args: &mut Args<'_>,
    (mut desk, turns): (Translation, Option<Arc<Mapper>>),
    policies: [Policy; 2],
    Holding { reaps, capacity, shares, ends_stale, log }: Holding,
) -> Result<Box<dyn Element>, Invalid> {
    let Translation { flavour, outputs, sharing, .. } = desk;
    let Some(mut store) = Store::new() else {
        args.error("there is no memory for mappings");
        return Err(Invalid);
    };
    let translator = Owner {
        name: format!("{} {flavour:?}", args.name()),
        policies,
        inputs: vec![Tally::default(); args.inputs()],
        outputs,
        is_independent: sharing.is_independent,
        most_of_one: sharing.most_of_one,
        log: None,
    };
    let owner = store.join(translator.clone(), reaps);
    if flavour.has_ports()
        && !flavour.is_ping()
        && let Some(board) = Board::of(args)?
    {
        store.use_board(board);
    }
    let home = Home { store: Arc::new(Mutex::new(store)), owner };
    let published = Arc::new(Published {
        flavour,
        own: home.clone(),
        shared: OnceLock::new(),
        shares,
        outputs,
        is_independent: sharing.is_independent,
        filters_independently: sharing.filters_independently,
        specs: Mutex::new(desk.specs.clone()),
        sets_next_hop: desk.sets_next_hop,
    });
    args.setup.publish(args.id(), Arc::clone(&published));
    args.setup.publish(args.id(), Arc::new(Leasing(published.clone())));
    desk.is_helped = Helps::has(args.setup, args.id());
    Ok(Box::new(Rewriter {
        desk,
        published,
        home,
        owner: translator,
        capacity,
        ends_stale,
        log,
        goes_on: false,
        reaps,
        is_read: true,
        sorter: Sorter::new(outputs),
        elsewhere: ForeignFlows::default(),
        turns,
    }))
}

/// Translates a batch that has arrived at the input `port`, by the mappings at `home`. `is_read` is true if
/// an element reads the destination annotation. Returns the packets that leave by output 0.
pub(super) fn translate(
    cx: &mut Cx<'_>,
    home: &Home,
    (desk, is_read): (&Translation, bool),
    (sorter, elsewhere): (&mut Sorter, &mut ForeignFlows),
    (port, mut batch): (usize, Batch),
) -> Option<Batch> {
    let mut store = locked(&home.store);
    store.catch_up(cx.now());
    if let Some(board) = store.board() {
        let translator = Translator { desk, owner: home.owner, is_read, slice: store.slice() };
        elsewhere.handle(cx, board, translator, port, &mut batch);
    }
    sorter.begin();
    let mut runs = Runs::default();
    cx.find_runs(&mut batch, &mut runs);
    let (owner, marks) = (home.owner, cx.graph().uses_flow_marks());
    let mut window = Window { desk, sorter, owner, is_read, marks };
    match runs.as_singles() {
        Some(singles) => window.handle_all(cx, &mut store, port, (&mut batch, &singles)),
        None => window.handle_all(cx, &mut store, port, (&mut batch, &runs)),
    }
    drop(store);
    sorter.send_noted(cx, batch)
}

/// The parts of a translator with which a window (up to 32 runs of a batch) is processed.
struct Window<'r> {
    desk: &'r Translation,
    sorter: &'r mut Sorter,
    owner: u16,
    is_read: bool,
    /// True if an element of the graph uses flow marks. Plain packets (whole TCP or UDP packets without IPv4
    /// options) whose mapping is found at the first look-up then get its mark. All other packets lose their
    /// marks, also the packet for which a mapping is made.
    marks: bool,
}

impl Window<'_> {
    /// Translates the packets of a batch with these runs, and makes mappings for new flows. Notes the output
    /// or drop reason of each packet in the sorter.
    #[inline]
    fn handle_all(
        &mut self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        input: usize,
        (batch, runs): (&mut [Packet], &impl RunList),
    ) {
        for first in (0..runs.count()).step_by(WINDOW) {
            self.handle(cx, store, input, (batch, runs, first));
        }
    }

    /// Translates the packets of up to [`WINDOW`] runs, from run number `first` on. The mapping is looked up
    /// once for each run.
    #[inline]
    fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        store: &mut Store,
        input: usize,
        (batch, runs, first): (&mut [Packet], &impl RunList, usize),
    ) {
        let Window { desk, sorter, owner, is_read, marks } = self;
        let (flavour, owner, now) = (desk.flavour, *owner, cx.now());
        let sets_next_hop = desk.sets_next_hop && *is_read;
        let (mut keys, mut found) = ([Ipv4FlowKey::NONE; WINDOW], [None; WINDOW]);
        let count = (runs.count() - first).min(WINDOW);
        let spaces = flavour.plain_spaces(owner);
        // One bit per run, the lowest for the first run. A bit is set if the packets of the run are plain:
        // whole, TCP or UDP, and without IPv4 options, so that their key and fields are at fixed offsets.
        let mut plain = 0u32;
        for (n, (run, key)) in (0..).zip(runs.of_mut(batch, first).zip(&mut keys)) {
            let Some(packet) = run.first_mut() else { continue };
            match spaces.key(packet) {
                Some(plain_key) => {
                    *key = plain_key;
                    plain |= 1 << n;
                }
                None => *key = flavour.key(packet, owner),
            }
        }
        // Looking up a packet or making a mapping can move all keys of the store to another table, which
        // changes the epoch. Ids that were found before are then invalid.
        let (epoch, additions) = (store.epoch(), store.additions());
        store.find_all(&keys[..count], &mut found);
        if flavour == Flavour::Address {
            desk.find_others(store, owner, runs.of(batch, first).take(count), &mut found);
        }
        let is_by_address = flavour == Flavour::Address;
        for (run, found) in runs.of_mut(batch, first).zip(found) {
            let is_plain = plain & 1 != 0;
            plain >>= 1;
            // IPAddrRewriter looks up the source address first. If a packet of this window has made a
            // mapping, it may be for the source of a packet that was found by its destination address; such a
            // packet is looked up again.
            let is_valid = store.epoch() == epoch && (!is_by_address || store.additions() == additions);
            if let Some(id) = found
                && is_valid
                && let Some(change) = store.see(id, now)
            {
                if is_plain {
                    sorter.note(desk.change_plain(store, run, id, change, sets_next_hop), run.len());
                } else {
                    let mut change = change.unpacked();
                    for packet in &mut *run {
                        sorter.note(desk.change(store, packet, id, &mut change, sets_next_hop), 1);
                    }
                }
                if *marks {
                    let mark = if is_plain { NonZeroU64::new(id.to_bits()) } else { None };
                    run.iter_mut().for_each(|packet| packet.set_flow_mark(mark));
                }
                continue;
            }
            for packet in run {
                if *marks {
                    packet.set_flow_mark(None);
                }
                // An earlier packet of the window, in this run or another run, may have made a mapping for
                // this packet, or moved the keys. The packet is then looked up again.
                let mut known = None;
                if store.additions() != additions || store.epoch() != epoch {
                    known = desk.find_again(store, owner, packet, now);
                }
                let known = known.map_or_else(|| desk.open(cx, store, owner, input, packet), Ok);
                let fate = match known {
                    Ok((id, mut change)) => desk.change(store, packet, id, &mut change, sets_next_hop),
                    Err(fate) => fate,
                };
                sorter.note(fate, 1);
            }
        }
    }
}

impl Rewriter {
    /// Returns, as a text, the sum over all inputs of this translator of the number that `of` takes from an
    /// input's counts.
    fn total(&self, cx: &Cx<'_>, of: fn(&Tally) -> u64) -> Result<String, String> {
        Ok(self.store(cx).tallies(self.home.owner).iter().map(of).sum::<u64>().to_string())
    }

    /// Locks and returns the store of mappings, after removing expired mappings (unless REAP_INTERVAL is 0).
    fn store(&self, cx: &Cx<'_>) -> MutexGuard<'_, Store> {
        let mut store = locked(&self.home.store);
        store.catch_up_fully(cx.now());
        store
    }

    /// Handles a write to the handler `capacity`: sets the largest number of mappings in the store to this
    /// worker's share of the written number, and removes mappings above it.
    fn change_capacity(&self, cx: &Cx<'_>, value: &str) -> Result<(), String> {
        let mut store = self.store(cx);
        let words = words(value);
        let number = match &words[..] {
            [] => return Err("CAPACITY: required argument missing".into()),
            [number] => i32::parse(number, &cx.place()).map_err(|e| format!("CAPACITY: {e}"))?,
            _ => return Err("too many arguments".into()),
        };
        store.set_capacity(part(number, cx));
        store.shrink(cx.now());
        Ok(())
    }

    /// Returns the line of handler `patterns` for an input: its specification, and the number of its
    /// mappings if there are any.
    fn pattern(&self, cx: &Cx<'_>, input: usize) -> String {
        let Some(spec) = self.desk.specs.get(input) else { return String::new() };
        let tally = self.store(cx).tallies(self.home.owner).get(input).copied().unwrap_or_default();
        match tally.mappings {
            0 => format!("{}\n", spec.show()),
            n => format!("{} [{n}]\n", spec.show()),
        }
    }

    /// Returns the store of the translator whose capacity this translator shares, directly or through a
    /// sequence of translators. Returns `None` if this translator has its own capacity. The error says that
    /// a name in the sequence is not a translator.
    fn shared(&self, cx: &Cx<'_>) -> Result<Option<Home>, String> {
        let mut way = vec![cx.id()];
        let mut next = self.published.shares;
        while let Some(id) = next {
            if let Some(first) = way.iter().position(|&seen| seen == id) {
                // Translators that name each other in a cycle share the capacity of the translator with the
                // lowest element number.
                let leader = way[first..].iter().copied().min();
                way.extend(leader);
                break;
            }
            let other = cx.graph().service::<Published>(id).ok_or("bad MAPPING_CAPACITY")?;
            next = other.shares;
            way.push(id);
        }
        let Some(last) = way.pop().filter(|&id| id != cx.id()) else { return Ok(None) };
        let other = cx.graph().service::<Published>(last).ok_or("bad MAPPING_CAPACITY")?;
        Ok(Some(other.home().clone()))
    }

    /// Returns a function that is true if the new specifications could have made a mapping. With END_STALE, a
    /// reload ends all other mappings.
    fn could_make(&self) -> CouldMake {
        let specs = self.desk.specs.clone();
        Box::new(move |made: &Made| {
            let could_make = |spec: &Spec| spec.could_make(made.space, made.tuples, made.outputs);
            // A mapping with an outside port that several flows of an endpoint share may have got the port
            // from the specification of another input.
            match made.is_shared {
                true => specs.iter().any(could_make),
                false => specs.get(usize::from(made.input)).is_some_and(could_make),
            }
        })
    }

    /// Replaces an input's specification, and removes the mappings that this input has made. Returns the
    /// error of [`Spec::parse`] if the text is invalid, and then changes nothing.
    fn change_pattern(&mut self, cx: &Cx<'_>, input: usize, text: &str) -> Result<(), String> {
        let names: Vec<_> = (0..cx.place().elements())
            .filter_map(|id| Some((cx.graph().name_of(id).to_string(), cx.graph().service(id)?)))
            .collect();
        let place = cx.place();
        let mapper = |name: &str| place.element(name).map(|id| cx.graph().service::<Mapper>(id));
        let named = Named { place, element: cx.name(), names: &names };
        let reading = Reading { named, outputs: self.desk.outputs, mapper: &mapper };
        let spec = Spec::parse(text, input, &reading)?;
        self.store(cx).remove_of_input(self.home.owner, input as u16);
        if let Some(place) = self.desk.specs.get_mut(input) {
            *place = spec;
        }
        locked(&self.published.specs).clone_from(&self.desk.specs);
        Ok(())
    }
}

impl Element for Rewriter {
    fn effects(&self) -> Effects {
        declaration::effects(&self.desk)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(id) = self.log {
            let log = cx.graph().service::<SessionLog>(id);
            self.owner.log = Some(log.ok_or("LOG: the element is no NATLog")?);
        }
        if let Some(other) = self.shared(cx)? {
            let mut store = locked(&other.store);
            let owner = store.join(self.owner.clone(), self.reaps);
            drop(store);
            self.home = Home { owner, ..other };
            // `set` cannot fail: `initialize` is called once per element.
            _ = self.published.shared.set(self.home.clone());
        } else {
            let mut store = locked(&self.home.store);
            store.seed(cx.hash_seed());
            store.start_ids(cx.next_series());
            store.set_capacity(part(self.capacity, cx));
            store.set_log(self.home.owner, self.owner.log.clone());
            store.set_time(cx.now());
        }
        self.is_read = cx.graph().facts().annotation_read(Annotations::DST_IP, 4);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        let Rewriter { desk, home, sorter, is_read, elsewhere, .. } = self;
        translate(cx, home, (desk, *is_read), (sorter, elsewhere), (port, batch))
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.goes_on {
            let mut store = locked(&self.home.store);
            store.set_time(cx.now());
            store.record_all_ends(self.home.owner);
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        self.goes_on = true;
        let turn = self.turns.as_ref().and_then(|mapper| mapper.turn());
        Some(Box::new(Kept { home: self.home.clone(), turn }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Kept { home: old, turn } = *state.downcast().map_err(|_| "not the state of a translator")?;
        if let Some((mapper, turn)) = self.turns.as_ref().zip(turn) {
            mapper.set_turn(&turn);
        }
        let Home { store, owner } = &self.home;
        locked(store).set_time(cx.now());
        let is_adopted = !Arc::ptr_eq(store, &old.store) && locked(store).adopt(&mut locked(&old.store));
        if !is_adopted {
            let (mappings, failures) = locked(&old.store).take(old.owner);
            let mut store = locked(store);
            for written in &mappings {
                let exist = written.outputs.iter().all(|&output| usize::from(output) < self.desk.outputs);
                if exist && usize::from(written.input) < self.desk.specs.len() {
                    store.put(*owner, written, self.desk.sharing.is_independent);
                } else {
                    store.record_end(*owner, written);
                }
            }
            store.shrink_to_capacity(cx.now());
            for (input, failures) in (0..).zip(failures) {
                store.count_failures(*owner, input, failures);
            }
        }
        if self.ends_stale {
            locked(store).end_stale(*owner, self.could_make());
        }
        Ok(())
    }

    fn save_state(&mut self, _cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.goes_on = true;
        locked(&self.home.store).save(self.home.owner, from, out)
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        save::load(cx, &self.desk, &self.home, state)
    }
}

/// The handlers of all translators for their counts and their capacity.
pub(super) const COUNTS: &[Handler<Rewriter>] = &[
    Handler::<Rewriter>::read("table_size", |e, cx, _| e.total(cx, |tally| tally.mappings)).summed(),
    Handler::<Rewriter>::read("nmappings", |e, cx, _| e.total(cx, |tally| tally.mappings))
        .summed()
        .metric(metrics::MAPPINGS),
    Handler::<Rewriter>::read("mapping_failures", |e, cx, _| e.total(cx, |tally| tally.failures))
        .summed()
        .metric(metrics::MAPPING_FAILURES),
    Handler::<Rewriter>::read("size", |e, cx, _| Ok(e.store(cx).size().to_string())).summed(),
    Handler::<Rewriter>::read("capacity", |e, cx, _| Ok(e.store(cx).capacity().to_string()))
        .and_set(|e, cx, value| e.change_capacity(cx, value))
        .summed()
        .metric(metrics::MAPPING_CAPACITY),
    Handler::set("clear", |e, cx, _| {
        e.store(cx).clear();
        Ok(())
    }),
];

/// The handlers of translators for their input specifications.
pub(super) const PATTERNS: &[Handler<Rewriter>] = &[
    Handler::<Rewriter>::read("patterns", |e, cx, _| {
        Ok((0..e.desk.specs.len()).map(|input| e.pattern(cx, input)).collect())
    })
    .bracketed(),
    Handler::<Rewriter>::numbered(
        "pattern",
        |e| e.desk.specs.len(),
        |e, cx, input| e.pattern(cx, input),
        |e, cx, input, text| e.change_pattern(cx, input, text),
    )
    .bracketed(),
];

/// Handlers of the translators that have one table of mappings, in addition to the handlers of all
/// translators.
pub(super) const ONE_TABLE: &[Handler<Rewriter>] = &[
    Handler::<Rewriter>::read("table", |e, cx, _| Ok(e.table(cx, None))).listed(),
    Handler::<Rewriter>::read("mappings", |e, cx, _| Ok(e.table(cx, None))).listed(),
];

/// The mappings, as a part of the state that a translator with one table keeps in a reload and saves on disk,
/// with the handlers that show them.
pub(super) const MAPPINGS: StatePart = StatePart::kept(
    "mappings",
    &["table_size", "nmappings", "size", "patterns", "pattern", "table", "mappings"],
)
.on_disk();

/// The mappings of a translator of TCP and UDP, which a reload keeps and which are saved to a file.
pub(super) const TWO_TABLES_KEPT: StatePart = StatePart::kept(
    "mappings",
    &["table_size", "nmappings", "size", "tcp_table", "udp_table", "tcp_mappings", "udp_mappings"],
)
.on_disk();

/// The number of failed attempts to make a mapping, as a part of the state that a translator keeps in a
/// reload, with the handler that shows it.
pub(super) const FAILURES: StatePart = StatePart::kept("failures", &["mapping_failures"]);

/// The handler that TCPRewriter has in addition to the handlers of all translators.
pub(super) const LOOKUP: &[Handler<Rewriter>] =
    &[Handler::read_param("lookup", |e, cx, flow| e.look_up(cx, flow))];

/// Handlers of IPRewriter, which has a table of mappings for TCP and one for UDP, in addition to the handlers
/// of all translators.
pub(super) const TWO_TABLES: &[Handler<Rewriter>] = &[
    Handler::<Rewriter>::read("tcp_table", |e, cx, _| Ok(e.table(cx, Some(ONLY)))).listed(),
    Handler::<Rewriter>::read("udp_table", |e, cx, _| Ok(e.table(cx, Some(UDP_BESIDE)))).listed(),
    Handler::<Rewriter>::read("tcp_mappings", |e, cx, _| Ok(e.table(cx, Some(ONLY)))).listed(),
    Handler::<Rewriter>::read("udp_mappings", |e, cx, _| Ok(e.table(cx, Some(UDP_BESIDE)))).listed(),
    Handler::read_param("tcp_lookup", |e, cx, flow| e.look_up(cx, flow)),
];

/// Returns the share of a capacity that the translator's copy at this worker gets. The capacity is divided
/// evenly between the copies; the first copies get the remainder. A translator with one copy gets all.
fn part(capacity: i32, cx: &Cx<'_>) -> i32 {
    let (worker, copies) = (cx.worker().0 as i32, cx.workers().copies(cx.id()) as i32);
    if copies <= 1 { capacity } else { capacity / copies + i32::from(worker < capacity % copies) }
}

/// The state that a translator hands to the translator that replaces it in a reload: the location of its
/// mappings, and the turn of its own mapper ([`Mapper::turn`]).
struct Kept {
    home: Home,
    turn: Option<String>,
}
