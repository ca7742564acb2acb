//! The start of a translator with the mappings of an earlier run.
//!
//! With several workers, a mapping belongs to the worker to which the packets of its flow come, and the
//! worker to which the replies come. A translator chooses ports such that both are one worker. In a run with
//! another number of workers they may differ; then both workers get the mapping. Each of them translates the
//! packets of one direction, and no other flow gets the port, because the worker of the replies has it.

use std::net::Ipv4Addr;

use element::{Cx, Damaged, Loaded, SavedState};

use super::desk::Translation;
use super::flavour::Flavour;
use super::published::{Home, locked};
use super::spaces::IDENTIFIERS;
use super::store::{Classified, Written};
use super::tuple::Tuple;

/// The version number of the format in which translators save their mappings.
pub(super) const FORM: Option<u16> = Some(1);

/// Puts the mappings of an earlier run that belong to this worker into a translator's store. Mappings for
/// inputs and outputs that the translator does not have are refused, and so are those above its capacity.
///
/// # Errors
/// If the bytes are not mappings of such a translator. Then the store stays as it is.
pub(super) fn load(
    cx: &Cx<'_>,
    desk: &Translation,
    home: &Home,
    state: &SavedState<'_>,
) -> Result<Loaded, Damaged> {
    let mut store = locked(&home.store);
    store.set_time(cx.now());
    let size = store.size();
    let mut loaded = Loaded::default();
    state.each(
        |reader| Written::load(reader, |tuples, protocol| classified(desk.flavour, tuples, protocol)),
        |written| {
            let [flow, reply] = written.tuples;
            let (flow, reply) = (worker_of(cx, desk, flow, false), worker_of(cx, desk, reply, true));
            let me = cx.worker().0;
            if flow != me && reply != me {
                return;
            }
            let exist = written.outputs.iter().all(|&output| usize::from(output) < desk.outputs);
            if !exist || usize::from(written.input) >= desk.specs.len() {
                loaded.refused += 1;
                return store.record_end(home.owner, &written);
            }
            let before = loaded.taken;
            let how = (home.owner, desk.sharing.is_independent);
            store.put_saved(how, &written, cx.now(), &mut loaded);
            loaded.shared += u64::from(flow != reply && loaded.taken > before);
        },
    )?;
    let full = store.size();
    store.shrink_to_capacity(cx.now());
    // The store may be shared with other translators, so some of the evicted mappings may be theirs. At most
    // the mappings that were loaded now are counted as refused.
    let evicted = ((full - store.size()) as u64).min((full - size) as u64).min(loaded.taken);
    loaded.taken -= evicted;
    loaded.refused += evicted;
    Ok(loaded)
}

/// Returns the space, the kind and the time-outs of a saved mapping, for a translator of the class `flavour`.
/// `flow` and `reply` are the tuples (addresses and ports) of the mapping's two directions before
/// translation.
fn classified(flavour: Flavour, [flow, reply]: [Tuple; 2], protocol: u8) -> Result<Classified, Damaged> {
    if !flavour.fits(flow) || !flavour.fits(reply.reversed()) {
        return Err(Damaged("a mapping has addresses or ports that its class does not translate"));
    }
    let (kind, policy) = flavour.kind(protocol);
    let which = if flavour.is_ping() { IDENTIFIERS } else { flavour.which(protocol) };
    Ok(Classified { which, kind, policy })
}

/// Returns the worker to which packets with the addresses and ports `tuple` come. `is_reply` is true if they
/// are replies, which matters for ICMP queries only.
fn worker_of(cx: &Cx<'_>, desk: &Translation, tuple: Tuple, is_reply: bool) -> usize {
    let Tuple { source, destination, source_port, destination_port } = tuple;
    let [source, destination] = [source, destination].map(Ipv4Addr::from_bits);
    let ports = match desk.flavour.is_ping() {
        // For ICMP queries, the identifier takes the place of one port when workers are chosen: of the
        // destination port in replies, of the source port in queries. The other port of the tuple is ignored.
        true if is_reply => (0, destination_port),
        true => (0, source_port),
        false => (source_port, destination_port),
    };
    cx.workers().between((source.into(), ports.0), (destination.into(), ports.1))
}
