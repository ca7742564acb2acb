//! The flow look-up of a batch.

use element::{Base, Batch};
use flow::{FlowId, FlowTable};
use packet::BATCH_CAPACITY;

use crate::finder::Finder;
use crate::key::{self, Brief, FlowKey, ShortKey, Usual};
use crate::statistics::RunCounts;

/// The value of [`Packet::run`](element::Packet::run) while a packet is held, if its network header is not
/// marked: no element downstream can rely on its run.
pub(crate) const UNMARKED: u32 = 0;
/// The value of [`Packet::run`](element::Packet::run) while a packet is held, if the packet can be in one run
/// with packets of its flow: those that also have this value, and the same offsets of headers.
pub(crate) const PLAIN: u32 = 1;
/// The value for any other packet.
pub(crate) const SPECIAL: u32 = 2;

/// The result of the look-up of a batch, and memory for it: at index `i`, the values of packet `i`.
pub(crate) struct Lookup {
    /// The kind of each packet's flow and its TCP flags; `None` for a packet without a flow.
    briefs: [Option<Brief>; BATCH_CAPACITY],
    /// The key of an IPv4 flow of the usual kind ([`key::usual`]); otherwise [`ShortKey::NONE`].
    keys: [ShortKey; BATCH_CAPACITY],
    hashes: [u32; BATCH_CAPACITY],
    /// The entry of each packet's flow in the flow table; `None` if the flow has no entry.
    ids: [Option<FlowId>; BATCH_CAPACITY],
    /// The flow keys of the packets that have no key in `keys`, in the order of the batch; `places` has the
    /// index of each of these packets in the batch.
    others: Vec<FlowKey>,
    places: Vec<u8>,
}

/// The flow of one packet.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) brief: Brief,
    /// The key of the flow; [`ShortKey::NONE`] if it is not of the usual kind.
    pub(crate) key: ShortKey,
    pub(crate) hash: u32,
    /// The entry of the flow in the flow table; `None` if the look-up found no entry.
    pub(crate) id: Option<FlowId>,
}

impl Lookup {
    pub(crate) fn new() -> Box<Lookup> {
        Box::new(Lookup {
            briefs: [None; BATCH_CAPACITY],
            keys: [ShortKey::NONE; BATCH_CAPACITY],
            hashes: [0; BATCH_CAPACITY],
            ids: [None; BATCH_CAPACITY],
            others: Vec::with_capacity(BATCH_CAPACITY),
            places: Vec::with_capacity(BATCH_CAPACITY),
        })
    }

    /// Looks up the flows of all packets of a batch together, so that cache misses overlap, and counts the
    /// runs of their flows in `locality`. [`Packet::run`](element::Packet::run) says afterwards whether a
    /// packet can be in one run with other packets: [`UNMARKED`], [`PLAIN`] or [`SPECIAL`].
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        batch: &mut Batch,
        table: &FlowTable<FlowKey>,
        finder: &Finder,
        locality: &mut RunCounts,
    ) {
        self.others.clear();
        let mut counted = *locality;
        let length = batch.len().min(BATCH_CAPACITY);
        let places = self.briefs.iter_mut().zip(&mut self.keys).zip(&mut self.hashes);
        let mut unusual = 0;
        for (packet, ((brief, key), hash)) in batch.iter_mut().zip(places) {
            let usual = key::usual(packet);
            packet.set_run(match usual {
                Some(Usual { is_plain: true, .. }) => PLAIN,
                _ if packet.offset(Base::Network).is_none() => UNMARKED,
                _ => SPECIAL,
            });
            unusual += usize::from(usual.is_none());
            *key = usual.map_or(ShortKey::NONE, |usual| usual.key);
            *brief = usual.map(|usual| usual.brief);
            *hash = finder.hasher.hash(key);
            counted.see((*hash).into(), 1);
        }
        if finder.is_watching() {
            unusual += self.set_aside(batch, finder);
        }
        table.lookup_batch(&self.keys[..length], &self.hashes[..length], &mut self.ids);
        if unusual > 0 {
            self.find_others(batch, table, finder);
            counted = *locality;
            let flows = self.briefs[..length].iter().zip(&self.hashes);
            flows
                .filter(|(brief, _)| brief.is_some_and(Brief::counts))
                .for_each(|(_, &hash)| counted.see(hash.into(), 1));
        }
        *locality = counted;
    }

    /// Finds packets of the usual kind whose flow depends on the headers after UDP (of a tunnel or of QUIC),
    /// and removes their keys, so that [`find_others`](Self::find_others) looks them up. Returns their
    /// number.
    #[inline(never)]
    fn set_aside(&mut self, batch: &mut Batch, finder: &Finder) -> usize {
        let mut count = 0;
        for (place, key) in self.keys.iter_mut().take(batch.len()).enumerate() {
            if !finder.watches(*key) {
                continue;
            }
            (self.briefs[place], *key) = (None, ShortKey::NONE);
            if let Some(packet) = batch.get_mut(place) {
                packet.set_run(if packet.run() == UNMARKED { UNMARKED } else { SPECIAL });
            }
            count += 1;
        }
        count
    }

    /// Looks up the flows of the packets that are not of the usual kind.
    #[inline(never)]
    fn find_others(&mut self, batch: &Batch, table: &FlowTable<FlowKey>, finder: &Finder) {
        self.places.clear();
        for (place, packet) in batch.iter().enumerate() {
            if self.briefs[place].is_some() {
                continue;
            }
            if let Some(located) = finder.locate(packet) {
                self.briefs[place] = Some(Brief { kind: located.kind, flags: located.flags });
                self.others.push(located.key);
                self.places.push(place as u8);
            }
        }
        let (mut hashes, mut ids) = ([0; BATCH_CAPACITY], [None; BATCH_CAPACITY]);
        for (hash, key) in hashes.iter_mut().zip(&self.others) {
            *hash = key.hash(&finder.hasher);
        }
        table.lookup_batch(&self.others, &hashes[..self.others.len()], &mut ids);
        for ((&place, hash), id) in self.places.iter().zip(hashes).zip(ids) {
            (self.hashes[usize::from(place)], self.ids[usize::from(place)]) = (hash, id);
        }
    }

    /// Returns the indices of the flows that were found in the last batch, of `length` packets.
    #[inline]
    pub(crate) fn flows(&self, length: usize) -> impl Iterator<Item = u32> {
        self.ids.iter().take(length).flatten().map(|id| id.index())
    }

    /// Returns the flow of each packet of the last batch; `None` for a packet without a flow.
    #[inline]
    pub(crate) fn all(&self) -> impl Iterator<Item = Option<Known>> {
        let known = self.briefs.iter().zip(&self.keys).zip(&self.hashes).zip(&self.ids);
        known.map(|(((&brief, &key), &hash), &id)| brief.map(|brief| Known { brief, key, hash, id }))
    }
}
