//! Mappers: elements that choose one of several patterns for each new flow of a translator.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use element::effects::Effects;
use element::{Args, Cx, Element, Invalid};
use flow::FiveTupleKey;
use wire::FiveTuple;

use super::pattern::{Named, Outputs, Target, all_names};
use super::store::{Chosen, Store};
use super::tuple::Tuple;
use crate::balance::maglev::{Maglev, flow_hash};

/// The service that a mapper publishes, by which translators call it: its patterns with their outputs, and
/// the rule by which it chooses a pattern.
pub(super) struct Mapper {
    /// The mapper's name and class as `name :: Class`, for error messages.
    declaration: String,
    pub(super) targets: Vec<Target>,
    pub(super) choice: Choice,
}

/// The rule by which a mapper chooses among its patterns.
pub(super) enum Choice {
    /// Tries the patterns in turn, until one has a free port or address. The number is the index of the
    /// pattern to try first for the next flow.
    InTurn(AtomicUsize),
    /// Chooses the pattern with the next point on a hash ring, from the point of the source address on. The
    /// elements are points and indexes of patterns, ordered by point; after the last point the search
    /// continues with the first.
    BySource(Vec<(u32, usize)>),
    /// Chooses the pattern with the number of the worker, modulo the number of patterns.
    ByWorker,
    /// Chooses the pattern by consistent hashing of the flow. Handlers can change the table of patterns.
    Consistent(Mutex<Maglev>),
}

impl Mapper {
    /// Returns a mapper that belongs to the translator `owner` and tries `targets` in turn.
    pub(super) fn in_turn(owner: &str, targets: Vec<Target>) -> Mapper {
        Mapper { declaration: owner.to_string(), targets, choice: Choice::InTurn(AtomicUsize::new(0)) }
    }

    /// Returns the text of the pattern that a round-robin mapper tries first for the next flow; `None` for
    /// other mappers.
    pub(super) fn turn(&self) -> Option<String> {
        let Choice::InTurn(next) = &self.choice else { return None };
        Some(self.targets.get(next.load(Ordering::Relaxed))?.pattern.to_string())
    }

    /// Sets the pattern that a round-robin mapper tries first for the next flow, by its text. Does nothing
    /// if the mapper does not have this pattern.
    pub(super) fn set_turn(&self, pattern: &str) {
        let place = self.targets.iter().position(|target| target.pattern.to_string() == pattern);
        if let (Choice::InTurn(next), Some(place)) = (&self.choice, place) {
            next.store(place, Ordering::Relaxed);
        }
    }

    /// Chooses a pattern, and by it the new tuple (addresses and ports) of a flow and the outputs of its
    /// packets. Returns `None` if none of the patterns that may be tried has a free port or address. These
    /// are the patterns that the mapper's rule chooses and, if the sender already has an outside port, then
    /// all other patterns, too.
    pub(super) fn map(
        &self,
        cx: &mut Cx<'_>,
        store: &Store,
        (space, flow): (u32, Tuple),
        is_independent: bool,
    ) -> Option<(Chosen, Outputs)> {
        // With endpoint-independent mapping, a sender that already has an outside address and port keeps
        // them. Only patterns whose range contains this address and port, and patterns without a range of
        // ports, are tried. If there is no such pattern, all patterns are tried.
        let bound = is_independent.then(|| store.outside_of(space, flow)).flatten();
        let suits = |target: &Target| bound.is_none_or(|bound| target.pattern.suits(bound.outside));
        let is_any_suitable = self.targets.iter().any(suits);
        let (worker, _) = cx.worker();
        let mut attempt = |number: usize| {
            let target = self.targets.get(number).filter(|target| suits(target) || !is_any_suitable)?;
            target.rewrite(cx, store, (space, flow), is_independent)
        };
        let n = self.targets.len();
        let chosen = match &self.choice {
            Choice::InTurn(next) => (0..n).find_map(|_| {
                let number = next.load(Ordering::Relaxed) % n;
                next.store((number + 1) % n, Ordering::Relaxed);
                attempt(number)
            }),
            Choice::BySource(ring) => {
                let place = spread(flow.source);
                let at = ring.partition_point(|&(start, _)| start < place);
                ring.get(at).or(ring.first()).and_then(|&(_, number)| attempt(number))
            }
            Choice::ByWorker => attempt(worker % n.max(1)),
            Choice::Consistent(table) => {
                let hash = flow_hash(&key(flow));
                let number = table.lock().unwrap_or_else(PoisonError::into_inner).server(hash);
                number.and_then(|number| attempt(number.into()))
            }
        };
        if bound.is_none() { chosen } else { chosen.or_else(|| (0..n).find_map(attempt)) }
    }

    /// Returns Click's error if a translator with this number of outputs lacks an output that a pattern
    /// uses, for the first such pattern. Returns `None` if it has all of them.
    pub(super) fn out_of_range(&self, outputs: usize) -> Option<String> {
        let fits = |target: &Target| target.outputs.forward < outputs && target.outputs.reply < outputs;
        let number = self.targets.iter().position(|target| !fits(target))?;
        Some(format!("output port out of range in {} pattern {number}", self.declaration))
    }
}

/// Returns the key of a flow for consistent hashing. It contains neither the protocol nor the space, whose
/// number depends on the translator, so that several translators choose the same pattern for a flow.
fn key(flow: Tuple) -> FiveTupleKey {
    let end = |address, port| (Ipv4Addr::from_bits(address), port);
    let [source, destination] =
        [end(flow.source, flow.source_port), end(flow.destination, flow.destination_port)];
    FiveTupleKey::new(&FiveTuple::v4(source, destination, 0), 0)
}

/// Returns the point of an address on the hash ring, by a mixing function: neighbouring addresses get
/// points that are far from each other.
pub(super) fn spread(address: u32) -> u32 {
    let mixed = (address ^ address >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed ^ mixed >> 16
}

/// Parses the texts of patterns with their outputs. Each text comes with the number of its argument, for
/// error messages. A text with errors is reported, and yields `None` at its index.
pub(super) fn targets(args: &mut Args<'_>, texts: &[(usize, String)]) -> Vec<Option<Target>> {
    let names = all_names(args.setup);
    let element = args.name();
    let named = Named { place: args.place(), element: &element, names: &names };
    let parsed: Vec<_> =
        texts.iter().map(|(argument, text)| (*argument, Target::parse(text, &named))).collect();
    let told = |(argument, result): (usize, Result<Target, _>)| {
        result.map_err(|error| args.error_in(argument, error)).ok()
    };
    parsed.into_iter().map(told).collect()
}

/// Publishes a mapper with the valid patterns. Returns an element that processes no packets.
///
/// # Errors
/// If any argument of the mapper was invalid.
pub(super) fn finish(
    args: &mut Args<'_>,
    class: &str,
    targets: Vec<Option<Target>>,
    choice: Choice,
) -> Result<Box<dyn Element>, Invalid> {
    publish(args, class, targets, choice).map(|_| Box::new(Silent) as Box<dyn Element>)
}

/// Publishes a mapper with the valid patterns, even if there were errors. Elements that name the mapper
/// then do not also report that it is not a mapper.
///
/// # Errors
/// If any argument of the mapper was invalid.
pub(super) fn publish(
    args: &mut Args<'_>,
    class: &str,
    targets: Vec<Option<Target>>,
    choice: Choice,
) -> Result<Arc<Mapper>, Invalid> {
    let declaration = format!("{} :: {class}", args.name());
    let targets = targets.into_iter().flatten().collect();
    let mapper = Arc::new(Mapper { declaration, targets, choice });
    args.setup.publish(args.id(), Arc::clone(&mapper));
    args.finish()?;
    Ok(mapper)
}

/// An element that processes no packets: other elements call the service that it has published.
pub(super) struct Silent;

impl Element for Silent {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
