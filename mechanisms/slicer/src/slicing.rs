//! The slice operation: parks the payloads of packets, and makes the short packets that are forwarded.

use element::offload::is_large_segment;
use element::{Batch, Cx, DropReason, Packet};
use packet::{Annotations, Pool, VirtioNet};

use crate::encapsulated::{self, Inside};
use crate::headers::{HEADERS, Headers};
use crate::network::{ETHERNET, network_start};
use crate::offloads::{Offloads, can_park, deliver, is_unfinished, payload_on_wire};
use crate::payloads::{Counts, Payloads, State};
use crate::quoted;
use crate::table::{Occupied, Parked};
use crate::token::{MARKER, TOKEN};
use crate::tunnel::sum_between;

/// The rules that say which packets are sliced and which part of their payloads is parked; from the
/// arguments of Slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slicing {
    /// The minimum length in bytes of packets that are sliced, link header included.
    pub(crate) threshold: u32,
    /// The maximum length in bytes of packets that are sliced, from the IP header on.
    pub(crate) longest: u32,
    /// The part of the payload that is parked, from 0 to 1.
    pub(crate) fraction: f64,
    /// The maximum number of payload bytes that are parked.
    pub(crate) bytes: u32,
    /// True if the sequence number of a sliced TCP segment is changed so that the segment ends where the
    /// original ended; false if the sequence number stays that of the original's first byte.
    pub(crate) is_tail: bool,
}

impl Slicing {
    /// True if the whole payload of each sliced packet is parked.
    pub(crate) fn is_whole(&self) -> bool {
        self.fraction >= 1.0 && self.bytes >= u32::from(u16::MAX)
    }

    /// Records in the shared state of the PayloadTable if sliced packets may keep a part of their payload.
    /// Elements that splice must then look for tokens in packets of any length, because a sliced packet is no
    /// longer as short as its headers and the token.
    pub(crate) fn tell(&self, payloads: &Payloads) {
        payloads.open().leaves_rest |= !self.is_whole();
    }

    /// Slices the packets of a batch for which this is worthwhile, in place. Other packets stay whole,
    /// except packets that must not look like sliced packets: these are sliced at any size or, if they have
    /// a valid token and cannot be parked, dropped. If large segments were cut and the batch has no room for
    /// all packets, the first of them are emitted at `output`.
    #[inline]
    pub(crate) fn slice_all(
        &self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        (offloads, output): (&mut Offloads, usize),
        batch: &mut Batch,
    ) {
        if offloads.are_in(batch) {
            return self.slice_unfinished(cx, payloads, (offloads, output), batch);
        }
        let worker = cx.worker().0 as u8;
        let mut state = payloads.open();
        let (state, marks) = (&mut *state, payloads.settings.marks);
        payloads.pass_time(state, cx);
        let pool = cx.pool();
        let mut bytes = 0;
        let mut replayed = Vec::new();
        batch.replace_each(|packet| {
            bytes += packet.len();
            self.slice(pool, state, worker, marks, packet).map_err(|packet| replayed.push(packet)).ok()
        });
        self.account(cx, payloads, state, (bytes, batch), replayed);
    }

    /// Counts a batch that was sliced: `bytes` came and `left` leave. Drops packets that came from outside
    /// with a valid token.
    #[inline]
    fn account(
        &self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        state: &mut State,
        (bytes, left): (usize, &[Packet]),
        replayed: Vec<Packet>,
    ) {
        state.counts.bytes_in += bytes as u64;
        state.counts.bytes_crossed += left.iter().map(|packet| packet.len() as u64).sum::<u64>();
        state.counts.occupancy.add(state.table.waiting() as u64, 1);
        state.counts.foreign += replayed.len() as u64;
        replayed.into_iter().for_each(|packet| cx.drop(packet, DropReason::ForeignToken));
        payloads.watch(state, cx);
    }

    /// Slices the packets of a batch as [`slice_all`](Self::slice_all) does, if some of them leave work to a
    /// device. Large segments that cannot be parked are cut, and the resulting packets are sliced.
    fn slice_unfinished(
        &self,
        cx: &mut Cx<'_>,
        payloads: &Payloads,
        (offloads, output): (&mut Offloads, usize),
        batch: &mut Batch,
    ) {
        let worker = cx.worker().0 as u8;
        let (mut left, mut replayed, mut bytes) = (std::mem::take(&mut offloads.packets), Vec::new(), 0);
        let mut state = payloads.open();
        let marks = payloads.settings.marks;
        payloads.pass_time(&mut state, cx);
        for packet in batch.drain() {
            bytes += packet.len();
            let is_tried =
                is_unfinished(&packet) && (offloads.may_park_large() || !is_large_segment(&packet));
            let packet = match is_tried {
                true => self.slice_as_it_is(cx.pool(), &mut state, worker, marks, packet),
                false => Err(packet),
            };
            match packet {
                Ok(sliced) => left.push(sliced),
                Err(packet) => offloads.finish(cx, packet, |cx, packet| {
                    match self.slice_finished(cx.pool(), &mut state, worker, marks, packet) {
                        Ok(packet) => left.push(packet),
                        Err(packet) => replayed.push(packet),
                    }
                }),
            }
        }
        self.account(cx, payloads, &mut state, (bytes, &left), replayed);
        // The elements downstream may need the state.
        drop(state);
        deliver(cx, output, &mut left, batch);
        offloads.packets = left;
    }

    /// Does the same as [`slice`](Self::slice), which is compiled into the loop over ordinary batches only.
    #[inline(never)]
    fn slice_finished(
        &self,
        pool: &mut Pool,
        state: &mut State,
        worker: u8,
        marks: bool,
        packet: Packet,
    ) -> Result<Packet, Packet> {
        self.slice(pool, state, worker, marks, packet)
    }

    /// Slices a packet that leaves work to a device, if this is worthwhile, without doing the work.
    ///
    /// # Errors
    /// Returns the packet if it has to be cut or completed first.
    fn slice_as_it_is(
        &self,
        pool: &mut Pool,
        state: &mut State,
        worker: u8,
        marks: bool,
        packet: Packet,
    ) -> Result<Packet, Packet> {
        let l3 = network_start(&packet);
        let headers = l3.and_then(|l3| Headers::find(packet.data(), l3, packet.len()));
        let Some(headers) = headers.filter(|headers| can_park(&packet, headers)) else { return Err(packet) };
        let payload = headers.payload_length();
        let on_wire = u32::from(headers.payload - headers.l3) + payload_on_wire(&packet, payload) as u32;
        let is_worth = packet.len() >= self.threshold as usize && on_wire <= self.longest && payload > TOKEN;
        let is_large = is_large_segment(&packet);
        if !(is_worth && self.is_whole()) || is_large && state.cuts_large {
            return Err(packet);
        }
        let Counts { unsuitable, occupied, no_buffer, .. } = state.counts;
        let parked = self.park(pool, state, worker, (marks, &headers, payload), packet);
        let sliced = parked.inspect_err(|_| {
            // The reason is counted for each of the packets that come of this one.
            let counts = &mut state.counts;
            (counts.unsuitable, counts.occupied, counts.no_buffer) = (unsuitable, occupied, no_buffer);
        })?;
        state.counts.large += u64::from(is_large);
        Ok(sliced)
    }

    /// Returns the packet that is forwarded in place of `packet`: a sliced packet or `packet` itself.
    ///
    /// # Errors
    /// Returns the packet if it must be dropped, because it came from outside with a valid token and cannot
    /// be parked.
    #[inline(always)]
    fn slice(
        &self,
        pool: &mut Pool,
        state: &mut State,
        worker: u8,
        marks: bool,
        packet: Packet,
    ) -> Result<Packet, Packet> {
        let length = packet.len();
        let data = packet.data();
        let l3 = network_start(&packet);
        let Some(headers) = l3.and_then(|l3| Headers::find(data, l3, length)) else {
            state.counts.unsuitable += 1;
            return pass(state, marks, l3, packet);
        };
        let payload = headers.payload_length();
        let is_short = length < self.threshold as usize;
        let is_long = headers.end - u32::from(headers.l3) > self.longest;
        let removed = if is_short || is_long { 0 } else { self.part(payload) };
        let is_worth = removed > TOKEN;
        // A packet that arrives with the mark of sliced packets, or with a token that an attacker has seen,
        // could later not be distinguished from a sliced packet. So it is sliced at any size.
        if !is_worth && !must_be_sliced(state, marks, &headers, &packet) {
            let count = if is_long { &mut state.counts.long } else { &mut state.counts.small };
            *count += 1;
            return Ok(packet);
        }
        let removed = if is_worth { removed } else { payload };
        let packet = match self.park(pool, state, worker, (marks, &headers, removed), packet) {
            Ok(front) => return Ok(front),
            Err(whole) => whole,
        };
        if state.valid_token(packet.data(), &headers).is_some() {
            return Err(packet);
        }
        pass(state, marks, l3, packet)
    }

    /// Returns the number of bytes to park of a payload of `payload` bytes, from the arguments BYTES and
    /// FRACTION.
    #[inline]
    fn part(&self, payload: usize) -> usize {
        let most = payload.min(self.bytes as usize);
        if self.fraction >= 1.0 { most } else { most.min((self.fraction * payload as f64) as usize) }
    }

    /// Parks a packet with `removed` bytes of its payload, and returns the sliced packet, which is
    /// forwarded in its place.
    ///
    /// # Errors
    /// Returns the packet unchanged if it cannot be parked. The reason is then counted in `state.counts`.
    #[inline(always)]
    fn park(
        &self,
        pool: &mut Pool,
        state: &mut State,
        worker: u8,
        (marks, headers, removed): (bool, &Headers, usize),
        packet: Packet,
    ) -> Result<Packet, Packet> {
        // A packet with too long headers is not sliced. A multicast packet is not sliced either, because its
        // copies may return several times, and only the first copy would find the payload.
        if usize::from(headers.payload) > HEADERS || is_multicast(packet.data(), headers) {
            state.counts.unsuitable += 1;
            return Err(packet);
        }
        if pool.is_scarce() {
            // The pool must keep slots for arriving packets, however many payloads wait. The limit on the
            // number of table entries is not enough for that, because long packets take several slots, and
            // there may be several PayloadTables.
            state.counts.no_buffer += 1;
            return Err(packet);
        }
        let index = match state.table.reserve() {
            Ok(index) => index,
            Err(Occupied(expired)) => {
                state.counts.occupied += 1;
                if let Some(parked) = expired {
                    state.counts.expired += 1;
                    pool.free(parked.packet);
                }
                return Err(packet);
            }
        };
        let Some(token) = state.token_of(worker, index) else { return Err(packet) };
        let front = usize::from(headers.payload);
        // Bytes after the IP packet (a trailer) stay in the sliced packet, because the network function
        // decides whether they are kept.
        let trailer = packet.len() - headers.end as usize;
        let Some(mut sliced) = pool.copy_front(&packet, front) else {
            state.counts.no_buffer += 1;
            return Err(packet);
        };
        let rest = headers.payload_length() - removed;
        let less = removed as i32 - TOKEN as i32;
        let fits = sliced.extend(TOKEN + rest + trailer);
        if !fits && !sliced.extend(TOKEN) {
            pool.free(sliced);
            state.counts.unsuitable += 1;
            return Err(packet);
        }
        let (_, behind) = sliced.data_mut().split_at_mut(front);
        let (place, others) = behind.split_at_mut(TOKEN);
        place.copy_from_slice(&token);
        // A large segment has no rest: all of its slots would be passed over to find its place.
        if !others.is_empty() {
            packet.read_at(front + removed, others);
        }
        // If the kept part of the payload does not fit into the first slot of the sliced packet, it is
        // appended after the headers are written. Its checksum is computed here, because `shorten` sees the
        // first slot only.
        let more =
            if fits { None } else { Some(sum_between(&packet, front + removed, headers.end as usize)) };
        let shown = front + TOKEN + if fits { rest } else { 0 };
        let mut original = headers.shorten(&mut sliced.data_mut()[..shown], less, marks, self.is_tail, more);
        if !fits {
            sliced = match append(pool, sliced, &packet, front + removed) {
                Some(sliced) => sliced,
                None => {
                    state.counts.no_buffer += 1;
                    return Err(packet);
                }
            };
        }
        if pool.uses_annotations() {
            add_extra_length(&mut sliced, less);
            original.is_unfinished = is_unfinished(&packet);
            if original.is_unfinished {
                state.has_unfinished = true;
                // The sliced packet is an ordinary one, with a complete checksum.
                sliced.annotations_mut().virtio = VirtioNet::default();
            }
        }
        state.table.park(Parked {
            packet,
            l3: headers.l3,
            payload: headers.payload,
            removed: removed as u32,
            rest: rest as u32,
            trailer: trailer as u32,
            stamp: state.stamp,
            original,
        });
        state.counts.sliced += 1;
        Ok(sliced)
    }
}

/// True if a packet must be sliced at any size: it has the mark of sliced packets or a valid token, or it is
/// a UDP datagram that contains a packet with one of them.
#[inline]
fn must_be_sliced(state: &State, marks: bool, headers: &Headers, packet: &Packet) -> bool {
    let data = packet.data();
    marks && headers.dscp(data) == MARKER
        || state.valid_token(data, headers).is_some()
        || !headers.is_tcp
            && headers.payload_length() >= encapsulated::LEAST
            && !matches!(encapsulated::look(state, marks, packet, Some(headers.l3.into())), Inside::Nothing)
}

/// Forwards a packet that is not sliced and has no token of its own. If `marks` (sliced packets carry the
/// DSCP mark), the packet may carry this mark, or contain a packet that does. The marks are then removed
/// ([`clear_marks`](encapsulated::clear_marks)), because Splice would take a marked packet for a sliced
/// packet.
///
/// # Errors
/// Returns the packet if it must be dropped, because it quotes or contains a packet with a valid token.
#[cold]
fn pass(state: &mut State, marks: bool, l3: Option<usize>, mut packet: Packet) -> Result<Packet, Packet> {
    if l3.is_some_and(|l3| quoted::is_about_ours(state, packet.data(), l3)) {
        return Err(packet);
    }
    match encapsulated::look(state, marks, &packet, l3) {
        Inside::Nothing => Ok(packet),
        Inside::Sliced(..) => Err(packet),
        Inside::Marked => {
            encapsulated::clear_marks(&mut packet, l3);
            state.counts.remarked += 1;
            Ok(packet)
        }
    }
}

/// Appends the bytes of `from` after offset `skipped` to the packet `to`, and returns it. `None` if the
/// pool has no room; `to` is then freed.
#[cold]
fn append(pool: &mut Pool, mut to: Packet, from: &Packet, mut skipped: usize) -> Option<Packet> {
    for chunk in from.chunks() {
        to = pool.append(to, chunk.get(skipped..).unwrap_or_default())?;
        skipped = skipped.saturating_sub(chunk.len());
    }
    Some(to)
}

/// True if a packet goes to a group of hosts: its Ethernet or IP destination is a multicast address (or
/// Ethernet broadcast).
#[inline]
fn is_multicast(data: &[u8], headers: &Headers) -> bool {
    let l3 = usize::from(headers.l3);
    let is_group = |at: usize, is: fn(u8) -> bool| data.get(at).is_some_and(|&byte| is(byte));
    l3 >= ETHERNET && is_group(0, |byte| byte & 1 != 0)
        || match headers.is_ipv6 {
            true => is_group(l3 + 24, |byte| byte == 0xff),
            false => is_group(l3 + 16, |byte| byte >> 4 == 0xe),
        }
}

/// Adds `more`, the number of bytes by which the packet became shorter, to the extra length annotation, so
/// that elements can count the original length.
fn add_extra_length(packet: &mut Packet, more: i32) {
    let annotations = packet.annotations_mut();
    annotations.parked = more.max(0) as u32;
    let length = annotations.u32(Annotations::EXTRA_LENGTH).saturating_add(annotations.parked);
    annotations.set_u32(Annotations::EXTRA_LENGTH, length);
}
