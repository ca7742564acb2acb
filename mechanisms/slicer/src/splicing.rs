//! Putting payloads back.

use element::effects::{Case, Field, Filter};
use element::{Batch, Cx, DropReason, Packet};
use packet::{Pool, SLOT_CAPACITY};

use crate::headers::{Headers, MARKER};
use crate::payloads::{Payloads, State};
use crate::quoted;
use crate::slice::case;
use crate::slicing::{network_start, take_extra_length};
use crate::table::{Gone, Parked};
use crate::token::{Place, TOKEN};

/// What becomes of a packet that comes from the network function.
pub(crate) enum Fate {
    /// It goes on.
    Out(Packet),
    /// This worker has its payload.
    Over(usize, Packet),
    /// It is longer than packets may be that leave.
    Long(Packet),
    /// It has none any more.
    Drop(Packet, DropReason),
}

/// What is known of a packet.
#[derive(Clone, Copy, Default)]
struct Found {
    l3: Option<usize>,
    headers: Option<Headers>,
    /// What its token says.
    place: Option<Place>,
}

/// Joins packets with their payloads; keeps its memory from batch to batch.
#[derive(Default)]
pub(crate) struct Splicing {
    found: Vec<Found>,
    /// Packets by number, and what may be their tokens.
    tokens: Vec<(usize, [u8; TOKEN])>,
    over: Vec<(usize, Packet)>,
    lost: Vec<(Packet, DropReason)>,
    long: Vec<Packet>,
    /// The longest IP packet that may leave as others do; 0 for any. Longer ones leave by another output.
    mtu: u32,
    other: usize,
}

impl Splicing {
    /// With the longest IP packet that may leave as others do (0 for any), and the output of those that are longer.
    pub(crate) fn new(mtu: u32, other: usize) -> Splicing {
        Splicing { mtu, other, ..Splicing::default() }
    }

    /// What it declares for packets that come in by an input and leave by an output.
    pub(crate) fn cases(&self, input: usize, output: usize, is_whole: bool) -> Vec<Case> {
        let mut cases = vec![case(input, output, "spliced", is_whole)];
        if self.mtu > 0 {
            let mut long = case(input, self.other, "spliced", is_whole).or_drop(DropReason::TooLarge);
            long.when =
                Filter::Opaque { about: "too long for MTU", reads: vec![Field::Payload, Field::Length] };
            cases.insert(0, long);
        }
        cases
    }

    /// Joins the packets of a batch that has come in by an input; what is left goes on. Those whose payload another worker
    /// has are handed over to it.
    #[inline]
    pub(crate) fn splice_all(
        &mut self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        input: usize,
        batch: &mut Batch,
    ) {
        let worker = cx.worker().0;
        let mut state = payloads.open();
        self.look_up(&state, worker, batch);
        let (pool, marks, before) = (cx.pool(), payloads.settings.marks, state.counts.unmarked);
        let Splicing { found, over, lost, long, mtu, .. } = self;
        let mut found = found.drain(..);
        batch.replace_each(|packet| {
            match splice(pool, &mut state, (worker, marks, *mtu), found.next().unwrap_or_default(), packet) {
                Fate::Out(packet) => return Some(packet),
                Fate::Over(to, packet) => over.push((to, packet)),
                Fate::Long(packet) => long.push(packet),
                Fate::Drop(packet, reason) => lost.push((packet, reason)),
            }
            None
        });
        let is_rewritten = before == 0 && state.counts.unmarked > 0;
        drop((state, found));
        if is_rewritten {
            let name = cx.name().to_string();
            cx.message(format_args!(
                "{name}: sliced packets come back with another DSCP, which they keep; with MARKER none they have their own\n"
            ));
        }
        if !self.lost.is_empty() {
            self.lost.drain(..).for_each(|(packet, reason)| cx.drop(packet, reason));
        }
        for packet in self.long.drain(..) {
            cx.emit_one(self.other, packet, DropReason::TooLarge);
        }
        if !self.over.is_empty() {
            self.hand_over(cx, input);
        }
    }

    /// Finds the headers of all packets, reads their tokens together, and asks for what they lead to, so that waits for memory
    /// overlap.
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
        let Some(seal) = &state.seal else { return };
        seal.open_all(&self.tokens, |number, place| {
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
        // The order of those that go to the same worker is kept.
        self.over.sort_by_key(|(to, _)| *to);
        let mut all = self.over.drain(..).peekable();
        while let Some((to, packet)) = all.next() {
            let mut batch = cx.batch_of(packet);
            while let Some((_, packet)) = all.next_if(|(next, _)| *next == to) {
                // There are no more of them than fitted into one.
                drop(batch.push(packet));
            }
            cx.hand_over(to, input, batch);
        }
    }
}

#[inline]
fn splice(
    pool: &mut Pool,
    state: &mut State,
    (worker, marks, mtu): (usize, bool, u32),
    found: Found,
    packet: Packet,
) -> Fate {
    let data = packet.data();
    let Some(l3) = found.l3 else { return Fate::Out(packet) };
    let Some(headers) = found.headers else {
        if marks && Headers::is_doubtful(data, l3, packet.len()) {
            state.counts.no_token += 1;
            return Fate::Drop(packet, DropReason::NoToken);
        }
        return quoted::restore(pool, state, worker, l3, packet);
    };
    let is_marked = marks && headers.dscp(data) == MARKER;
    let Some(Place { worker: home, index, generation }) = found.place else {
        return match is_marked {
            // It has been cut, or somebody has made it up: everything that came marked has got a token.
            true => {
                state.counts.no_token += 1;
                Fate::Drop(packet, DropReason::NoToken)
            }
            false => Fate::Out(packet),
        };
    };
    if usize::from(home) != worker {
        return Fate::Over(home.into(), packet);
    }
    match state.table.take(index, generation) {
        Ok(parked) => join(pool, state, (&headers, mtu), parked, packet),
        Err(gone) => Fate::Drop(packet, count(state, gone)),
    }
}

/// Counts a packet whose payload is not there; why it is dropped.
pub(crate) fn count(state: &mut State, gone: Gone) -> DropReason {
    let (counter, reason) = match gone {
        Gone::Expired => (&mut state.counts.late, DropReason::PayloadExpired),
        Gone::Taken => (&mut state.counts.repeated, DropReason::PayloadTaken),
    };
    *counter += 1;
    reason
}

/// Puts the headers that came in front of the payload.
#[inline]
fn join(
    pool: &mut Pool,
    state: &mut State,
    (headers, mtu): (&Headers, u32),
    mut parked: Parked,
    front: Packet,
) -> Fate {
    if headers.payload_length() != TOKEN + parked.rest as usize {
        // What has been added or cut off, nobody knows where.
        pool.free(parked.packet);
        state.counts.changed += 1;
        return Fate::Drop(front, DropReason::Unsuitable);
    }
    let length = usize::from(headers.payload);
    if parked.trailer > 0 && front.len() - (headers.end as usize) < parked.trailer as usize {
        parked.packet.truncate(parked.packet.len() - parked.trailer as usize);
    }
    if parked.rest > 0 {
        let mut rest = [0; SLOT_CAPACITY];
        let rest = &mut rest[..(parked.rest as usize).min(SLOT_CAPACITY)];
        front.read_at(length + TOKEN, rest);
        let place = usize::from(parked.headers) + parked.removed as usize;
        if let Some(to) = parked.packet.data_mut().get_mut(place..place + rest.len()) {
            to.copy_from_slice(rest);
        }
    }
    match pool.join(front, length, parked.packet, parked.headers.into()) {
        Ok(mut packet) => {
            let was_marked = headers.restore(packet.data_mut(), &parked.original);
            state.counts.unmarked += u64::from(!was_marked);
            if pool.uses_annotations() {
                take_extra_length(&mut packet, parked.original.less);
            }
            state.counts.spliced += 1;
            let end = headers.end as i32 + parked.original.less;
            match mtu > 0 && end - i32::from(headers.l3) > mtu as i32 {
                true => Fate::Long(packet),
                false => Fate::Out(packet),
            }
        }
        Err([front, packet]) => {
            pool.free(packet);
            state.counts.changed += 1;
            Fate::Drop(front, DropReason::NoHeadroom)
        }
    }
}
