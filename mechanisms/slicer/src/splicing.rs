//! The splice operation: finds the tokens of returning packets, and joins the parked payloads to their
//! headers.

use element::effects::{Case, Field, Filter, Predicate};
use element::{Batch, Cx, DropReason, Packet};
use packet::{BATCH_CAPACITY, Pool};

use crate::effects::case;
use crate::encapsulated;
use crate::headers::Headers;
use crate::joining::{Fate, attach, count};
use crate::network::network_start;
use crate::offloads::{Offloads, deliver};
use crate::payloads::{Payloads, State};
use crate::table::Parked;
use crate::token::{MARKER, PayloadPlace, TOKEN};

/// The result of parsing a returned packet: the offset of its IP header, its headers, and the place of its
/// parked payload. Each is `None` if it was not found.
#[derive(Clone, Copy, Default)]
struct Found {
    l3: Option<usize>,
    headers: Option<Headers>,
    /// The place of the payload, from a valid token.
    place: Option<PayloadPlace>,
}

/// The splice operation of one element. It reuses its memory from batch to batch.
#[derive(Default)]
pub(crate) struct Splicing {
    found: Vec<Found>,
    /// The packets of the batch that may have a token: index in the batch, and the bytes at the token's
    /// place.
    tokens: Vec<(usize, [u8; TOKEN])>,
    /// The fates of the packets that do not stay in the batch.
    fates: Vec<Fate>,
    /// The packets for the normal output, if they do not stay in the batch.
    joined: Vec<Packet>,
    /// The packets for other workers, for the output for packets that are too long, and for the output for
    /// packets that their sender must shorten.
    over: Vec<(usize, Packet)>,
    long: Vec<Packet>,
    back: Vec<Packet>,
    mtu: u32,
    other: usize,
}

impl Splicing {
    /// Creates the operation. `mtu` is the maximum length in bytes, without the link header, of joined
    /// packets that leave by the normal output; 0 for any. Longer joined packets leave by output `other`.
    /// Packets that their sender must shorten leave by output `other + 1`.
    pub(crate) fn new(mtu: u32, other: usize) -> Splicing {
        Splicing { mtu, other, ..Splicing::default() }
    }

    /// Returns the declared effects on packets from `input`, whose normal output is `output`. `is_whole` is
    /// true if sliced packets keep no part of their payload.
    pub(crate) fn cases(&self, input: usize, output: usize, is_whole: bool) -> Vec<Case> {
        let mut cases = vec![case(input, output, "spliced", is_whole)];
        if self.mtu > 0 {
            let about = ["too long for MTU", "too long for MTU in its tunnel"];
            for (output, about) in (self.other..).zip(about) {
                let mut long = case(input, output, "spliced", is_whole).or_drop(DropReason::TooLarge);
                long.when =
                    Filter::Leaf(Predicate::Opaque { about, reads: vec![Field::Payload, Field::Length] });
                cases.insert(0, long);
            }
        }
        cases
    }

    /// Joins the packets of a batch from `input`, and leaves in the batch the packets for the normal
    /// output. Other packets are emitted at other outputs, dropped, or handed over to the worker that has
    /// their payload. If more packets leave than the batch has room for, because large segments were cut, the
    /// first of them are emitted at `output`.
    #[inline]
    pub(crate) fn splice_all(
        &mut self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        (offloads, output): (&mut Offloads, usize),
        input: usize,
        batch: &mut Batch,
    ) {
        if offloads.are_in(batch) {
            self.splice_unfinished(cx, payloads, offloads, input, batch);
        } else {
            self.splice_finished(cx, payloads, offloads, input, batch);
        }
        if !self.joined.is_empty() {
            deliver(cx, output, &mut self.joined, batch);
        }
    }

    /// Joins the packets of a batch, if some of them leave work to a device: the network function may have
    /// merged short packets, or left their checksums to a device.
    fn splice_unfinished(
        &mut self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        offloads: &mut Offloads,
        input: usize,
        batch: &mut Batch,
    ) {
        let mut finished = std::mem::take(&mut offloads.packets);
        for packet in batch.drain() {
            offloads.finish(cx, packet, |_, packet| finished.push(packet));
        }
        let mut packets = finished.drain(..).peekable();
        while packets.peek().is_some() {
            for packet in packets.by_ref().take(BATCH_CAPACITY) {
                // The push does not fail, because the batch is empty.
                drop(batch.push(packet));
            }
            self.splice_finished(cx, payloads, offloads, input, batch);
            self.joined.extend(batch.drain());
        }
        drop(packets);
        offloads.packets = finished;
    }

    /// Joins the packets of a batch, which leave no work to a device. If large segments were parked, all
    /// packets for the normal output are appended to `joined`, in order; otherwise they stay in the batch.
    #[inline]
    fn splice_finished(
        &mut self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        offloads: &mut Offloads,
        input: usize,
        batch: &mut Batch,
    ) {
        let worker = cx.worker().0;
        let mut state = payloads.open();
        payloads.pass_time(&mut state, cx);
        self.look_up(&state, worker, batch);
        let (marks, before) = (payloads.settings.marks, state.counts.unmarked);
        let to = (worker, marks, self.mtu);
        let (mut found, mut fates) = (std::mem::take(&mut self.found), std::mem::take(&mut self.fates));
        let mut each = found.iter();
        if state.has_unfinished {
            for packet in batch.drain() {
                let fate = splice_one(cx.pool(), &mut state, to, each.next(), packet);
                self.let_go(cx, offloads, fate);
            }
        } else {
            let pool = cx.pool();
            batch.replace_each(|packet| {
                match splice(pool, &mut state, to, each.next(), packet) {
                    Fate::Out(packet) => return Some(packet),
                    fate => fates.push(fate),
                }
                None
            });
        }
        found.clear();
        fates.drain(..).for_each(|fate| self.let_go(cx, offloads, fate));
        (self.found, self.fates) = (found, fates);
        let is_rewritten = before == 0 && state.counts.unmarked > 0;
        drop(state);
        if is_rewritten {
            let name = cx.name().to_string();
            cx.messages().message(format_args!(
                "{name}: sliced packets come back with another DSCP, which they keep; with MARKER none they have their own\n"
            ));
        }
        for packet in self.long.drain(..) {
            cx.emit_one(self.other, packet, DropReason::TooLarge);
        }
        for packet in self.back.drain(..) {
            cx.emit_one(self.other + 1, packet, DropReason::TooLarge);
        }
        if !self.over.is_empty() {
            self.hand_over(cx, input);
        }
    }

    /// Drops a packet, or puts it into the list of the output by which it will leave. Work that was left to
    /// devices is done first, as far as the elements downstream cannot handle it.
    fn let_go(&mut self, cx: &mut Cx<'_>, offloads: &mut Offloads, fate: Fate) {
        let Splicing { joined, over, long, back, .. } = self;
        match fate {
            Fate::Out(packet) => offloads.let_go(cx, packet, |_, packet| joined.push(packet)),
            Fate::Long(packet) => offloads.let_go(cx, packet, |_, packet| long.push(packet)),
            Fate::Over(to, packet) => over.push((to, packet)),
            Fate::Back(front, original) => {
                cx.pool().free(front);
                offloads.let_go(cx, original, |_, packet| back.push(packet));
            }
            Fate::Cut(segment) => {
                let list = if segment.is_long { long } else { joined };
                segment.cut(cx, offloads, |_, packet| list.push(packet));
            }
            Fate::Drop(packet, reason) => cx.drop(packet, reason),
        }
    }

    /// Finds the headers of all packets of a batch, decrypts their tokens together, and prefetches the
    /// parked payloads of this worker, so that cache misses overlap.
    #[inline]
    fn look_up(&mut self, state: &State, worker: usize, batch: &Batch) {
        self.tokens.clear();
        for (number, packet) in batch.iter().enumerate() {
            let data = packet.data();
            let l3 = network_start(packet);
            let headers = l3.and_then(|l3| Headers::find(data, l3, packet.len()));
            if let Some(token) = headers.and_then(|headers| state.token_in(data, &headers)) {
                self.tokens.push((number, token));
            }
            self.found.push(Found { l3, headers, place: None });
        }
        let Some(cipher) = &state.cipher else { return };
        cipher.decrypt_all(&self.tokens, |number, place| {
            if let (Some(found), Some(place)) = (self.found.get_mut(number), place) {
                found.place = Some(place);
                if usize::from(place.worker) == worker {
                    state.table.prefetch(place.index);
                }
            }
        });
        for place in self.found.iter().filter_map(|found| found.place) {
            if let Some(parked) = state.table.get(place.index, place.generation) {
                parked.packet.prefetch();
            }
        }
    }

    #[cold]
    fn hand_over(&mut self, cx: &mut Cx<'_>, input: usize) {
        // The sort is stable, so packets for the same worker keep their order.
        self.over.sort_by_key(|(to, _)| *to);
        let mut all = self.over.drain(..).peekable();
        while let Some((to, packet)) = all.next() {
            let mut batch = cx.batch_of(packet);
            while let Some((_, packet)) = all.next_if(|(next, _)| *next == to) {
                // The push does not fail, because all packets come from one batch.
                drop(batch.push(packet));
            }
            cx.hand_over(to, input, batch);
        }
    }
}

/// Does the same as [`splice`], which is compiled into the loop over ordinary batches only.
#[inline(never)]
fn splice_one(
    pool: &mut Pool,
    state: &mut State,
    to: (usize, bool, u32),
    found: Option<&Found>,
    packet: Packet,
) -> Fate {
    splice(pool, state, to, found, packet)
}

/// Joins a packet of worker `worker` with its payload, if `found` has the place of one; see
/// [`splice_all`](Splicing::splice_all). `marks` is true if sliced packets have the mark, and `mtu` is the
/// maximum length of joined packets.
#[inline(always)]
fn splice(
    pool: &mut Pool,
    state: &mut State,
    (worker, marks, mtu): (usize, bool, u32),
    found: Option<&Found>,
    packet: Packet,
) -> Fate {
    let place = found.and_then(|found| Some((found.headers.as_ref()?, found.place?)));
    let Some((headers, PayloadPlace { worker: home, index, generation })) = place else {
        return splice_without_token(pool, state, (worker, marks, mtu), found, packet);
    };
    if usize::from(home) != worker {
        return Fate::Over(home.into(), packet);
    }
    match state.table.take(index, generation) {
        Ok(parked) => join(pool, state, (headers, mtu), parked, packet),
        Err(gone) => Fate::Drop(packet, count(state, gone)),
    }
}

/// Does the same as [`splice`] for a packet whose headers are not followed by a valid token.
#[inline(never)]
fn splice_without_token(
    pool: &mut Pool,
    state: &mut State,
    (worker, marks, mtu): (usize, bool, u32),
    found: Option<&Found>,
    packet: Packet,
) -> Fate {
    if let Some(headers) = found.and_then(|found| found.headers.as_ref()) {
        let is_marked = marks && headers.dscp(packet.data()) == MARKER;
        // A shorter payload cannot hold both a token and a kept part of the payload (TCP), or a packet with
        // a token inside (UDP). So a packet that is not marked and has such a short payload is no sliced
        // packet.
        let least = if headers.is_tcp { TOKEN + 1 } else { encapsulated::LEAST };
        if !is_marked && headers.payload_length() < least {
            return Fate::Out(packet);
        }
    }
    encapsulated::splice(pool, state, (worker, marks, mtu), found.and_then(|found| found.l3), packet)
}

/// Joins the returned headers in `front` with their parked payload, where no tunnel is around them.
#[inline(always)]
fn join(
    pool: &mut Pool,
    state: &mut State,
    (headers, mtu): (&Headers, u32),
    parked: Parked,
    front: Packet,
) -> Fate {
    let whole = headers.end as i32 - i32::from(headers.l3) + parked.original.less;
    let length = whole - (parked.payload_length() - parked.on_wire()) as i32;
    if whole > u16::MAX.into() {
        // A large segment can be forwarded if it is cut, when it is sent again.
        state.cuts_large |= length < whole;
        // The network function has added headers, with which the length exceeds the range of the IP length
        // field.
        pool.free(parked.packet);
        state.counts.changed += 1;
        return Fate::Drop(front, DropReason::TooLong);
    }
    let room = front.len() - headers.end as usize;
    match attach(pool, state, (headers, false), (parked, room), front) {
        Ok(packet) if mtu > 0 && length > mtu as i32 => Fate::Long(packet),
        Ok(packet) => Fate::Out(packet),
        Err((front, reason)) => Fate::Drop(front, reason),
    }
}
