//! TCP within a burst: sorts data segments and merges ACKs, without a change that a TCP receiver or sender
//! depends on.
//!
//! **Order.** Segments that carry data or a FIN, without SYN, RST and URG, are put in the order in which they
//! were sent: by time stamp, and by sequence number if time stamps are equal or absent. (A retransmission has
//! an older sequence number and a newer time stamp. If it moved ahead of segments that were sent before it,
//! the receiver would drop them: RFC 7323, section 5.3.) No segment moves past a segment of another kind,
//! because the order of ACKs has a meaning: senders count duplicates.
//!
//! **ACKs.** An ACK is dropped only if the next packet of the burst is an ACK that carries all of its
//! information and more. Both must be without data and have the same flags, sequence number, TOS and
//! options, except time stamps. The later ACK must have a higher acknowledgment number and time stamps that
//! are not older. So duplicate ACKs and window updates, which repeat an acknowledgment number, are kept, and
//! so are ACKs with SACK blocks. The checksums of both ACKs must be right, so that a damaged ACK replaces
//! nothing.

use element::Packet;
use wire::checksum::tcp_packet_valid;
use wire::tcp::{Opt, flags, options, parse};
use wire::{Layers, LinkType, ip_protocol};

use crate::key;

/// True if the 32-bit number `a` is after `b`, in numbers that wrap as TCP sequence numbers do.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// A TCP segment, as a view of the packet that carries it.
struct View<'p> {
    /// The bytes of the IP packet, without padding of the link layer.
    ip: &'p [u8],
    /// The offset of the TCP header in `ip`.
    l4: usize,
    segment: wire::tcp::Segment<'p>,
}

fn view(packet: &Packet) -> Option<View<'_>> {
    let ip = key::ip(packet)?;
    let layers = Layers::locate(ip, LinkType::RawIp);
    let whole = layers.missing == 0 && layers.fragment.is_none();
    let l4 = layers.l4.filter(|_| layers.protocol == Some(ip_protocol::TCP) && whole)?;
    let ip = &ip[..layers.end];
    Some(View { ip, l4, segment: parse(&ip[l4..]).ok()? })
}

/// Returns the value of the time stamp option; `None` without the option, an error if the options are
/// malformed.
fn time_stamp(option_bytes: &[u8]) -> Result<Option<u32>, ()> {
    let mut found = None;
    for option in options(option_bytes) {
        if let Opt::TimeStamps { value, .. } = option.map_err(|_| ())? {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The sort key of a segment: its TCP time stamp, if it has one, and its sequence number. They show the order
/// in which the segments of a flow were sent.
#[derive(Clone, Copy)]
struct Scope {
    sequence: u32,
    time_stamp: Option<u32>,
}

/// Returns the sort key of a segment that may be moved: with data or FIN, and without SYN, RST and URG.
/// `None` for all other packets and for malformed options: these packets stay where they are, and no segment
/// passes them.
fn place(packet: &Packet) -> Option<Scope> {
    let View { segment, .. } = view(packet)?;
    let header = segment.header;
    let has_content = !segment.payload.is_empty() || header.has(flags::FIN);
    let moves = has_content && !header.has(flags::SYN | flags::RST | flags::URG);
    let time_stamp = time_stamp(segment.options).ok()?;
    moves.then_some(Scope { sequence: header.sequence.get(), time_stamp })
}

/// A sorter for bursts of segments, which reuses its memory.
pub struct Sorter {
    places: Vec<Option<Scope>>,
    order: Vec<(i32, i32, u32)>,
    moved: Vec<Option<Packet>>,
}

impl Sorter {
    /// Creates a sorter for bursts of up to `length` packets. Longer bursts work too, but make its memory
    /// grow.
    pub fn new(length: usize) -> Sorter {
        Sorter {
            places: Vec::with_capacity(length),
            order: Vec::with_capacity(length),
            moved: Vec::with_capacity(length),
        }
    }

    /// Sorts the segments of one flow in place. Returns the number of late segments: they arrived after a
    /// segment that was sent later.
    pub fn sort(&mut self, packets: &mut Vec<Packet>) -> u64 {
        self.places.clear();
        self.places.extend(packets.iter().map(place));
        let mut late = 0;
        let mut start = 0;
        while start < packets.len() {
            let Some(first) = self.places[start] else {
                start += 1;
                continue;
            };
            // Segments with and without the time stamp option cannot be compared. In a connection all or none
            // have it (RFC 7323, section 3.2); where they are mixed, consecutive segments that all have it,
            // or that all lack it, are sorted among themselves.
            let belongs = |place: &Option<Scope>| {
                place.is_some_and(|place| place.time_stamp.is_some() == first.time_stamp.is_some())
            };
            let length = self.places[start..].iter().take_while(|place| belongs(place)).count();
            late += self.sort_run(packets, start, length, first);
            start += length;
        }
        late
    }

    fn sort_run(&mut self, packets: &mut Vec<Packet>, start: usize, length: usize, base: Scope) -> u64 {
        let key = |(place, number): (&Option<Scope>, u32)| {
            let place = place.unwrap_or(base);
            let sent = place.time_stamp.unwrap_or(0).wrapping_sub(base.time_stamp.unwrap_or(0)) as i32;
            (sent, place.sequence.wrapping_sub(base.sequence) as i32, number)
        };
        self.order.clear();
        self.order.extend(self.places[start..start + length].iter().zip(0..).map(key));
        let mut latest = (i32::MIN, i32::MIN, 0);
        let mut late = 0;
        for &place in &self.order {
            late += u64::from(place < latest);
            latest = latest.max(place);
        }
        if late == 0 {
            return 0;
        }
        self.order.sort_unstable();
        self.moved.extend(packets.drain(start..).map(Some));
        for &(_, _, number) in &self.order {
            packets.extend(self.moved[number as usize].take());
        }
        packets.extend(self.moved.drain(..).flatten());
        late
    }
}

/// Returns the view of a packet that is a pure ACK: without data, with no flags but ACK, ECE and CWR, and
/// with correct checksums. `None` for all other packets.
fn pure_ack(packet: &Packet) -> Option<View<'_>> {
    let view = view(packet)?;
    let header = view.segment.header;
    let others = !(flags::ACK | flags::ECE | flags::CWR);
    let is_pure = view.segment.payload.is_empty() && header.has(flags::ACK) && !header.has(others);
    (is_pure && tcp_packet_valid(view.ip, view.l4)).then_some(view)
}

/// True if the options `b` carry all information of the options `a`: the same options in the same order, no
/// SACK blocks in `a`, and time stamps in `b` that are not older.
fn options_replace(a: &[u8], b: &[u8]) -> bool {
    let (mut before, mut after) = (options(a), options(b));
    loop {
        match (before.next(), after.next()) {
            (None, None) => return true,
            (
                Some(Ok(Opt::TimeStamps { value: a, echo: x })),
                Some(Ok(Opt::TimeStamps { value: b, echo: y })),
            ) => {
                if is_after(a, b) || is_after(x, y) {
                    return false;
                }
            }
            (Some(Ok(Opt::Sack(_))), _) => return false,
            (Some(Ok(x)), Some(Ok(y))) if x == y => {}
            _ => return false,
        }
    }
}

/// True if ACK `b`, the packet that follows ACK `a`, makes `a` superfluous.
fn replaces(a: &View<'_>, b: &View<'_>) -> bool {
    let (x, y) = (a.segment.header, b.segment.header);
    // `same_network` compares fields, but no lengths. Pure ACKs are headers only, so equal lengths mean
    // equal lengths of headers.
    let same_ip = a.l4 == b.l4 && a.ip.len() == b.ip.len() && same_network(a.ip, b.ip);
    same_ip
        && x.sequence == y.sequence
        && (x.data_offset, x.flags, x.urgent) == (y.data_offset, y.flags, y.urgent)
        && is_after(y.acknowledgment.get(), x.acknowledgment.get())
        && options_replace(a.segment.options, b.segment.options)
}

/// True if the IP headers of two packets of a flow are equal in version, header length, TOS or traffic class,
/// flow label, and flags. False for headers with options or extension headers.
fn same_network(a: &[u8], b: &[u8]) -> bool {
    match a[0] >> 4 {
        4 => a[0] == 0x45 && a[..2] == b[..2] && a[6..8] == b[6..8],
        _ => a[6] == ip_protocol::TCP && a[..4] == b[..4] && a[6] == b[6],
    }
}

/// Removes superfluous ACKs from a burst of one flow and passes them to `drop`. An ACK that is kept stands
/// for at most `most` ACKs, itself included. `acknowledged` is the highest acknowledgment number of the flow
/// so far, which the call updates; `None` before the first ACK, and again after a SYN. An ACK whose number is
/// not above `acknowledged` may be a duplicate, and is kept. The first ACK while `acknowledged` is `None` is
/// kept, too.
pub fn coalesce(
    packets: &mut Vec<Packet>,
    most: usize,
    acknowledged: &mut Option<u32>,
    drop: impl FnMut(Packet),
) {
    let mut kept = 0;
    // The index of the first packet after the last one that was kept. The next packet that is kept replaces
    // the ACKs from there on.
    let mut first = 0;
    for place in 0..packets.len() {
        let superfluous = place + 1 - first < most
            && packets.get(place + 1).is_some_and(|next| {
                let (Some(a), Some(b)) = (pure_ack(&packets[place]), pure_ack(next)) else { return false };
                let number = a.segment.header.acknowledgment.get();
                acknowledged.is_some_and(|last| is_after(number, last)) && replaces(&a, &b)
            });
        if !superfluous {
            // A kept packet raises the highest acknowledgment number so far, but never lowers it: after a
            // late ACK with a lower number, the following ACKs must not look new.
            if opens(&packets[place]) {
                *acknowledged = None;
            }
            let number = acknowledgment(&packets[place]);
            let advances = |number: &u32| acknowledged.is_none_or(|last| is_after(*number, last));
            *acknowledged = number.filter(advances).or(*acknowledged);
            packets.swap(kept, place);
            kept += 1;
            first = place + 1;
        }
    }
    packets.drain(kept..).for_each(drop);
}

/// True if a segment has SYN, and so opens a connection, whose acknowledgment numbers are unrelated to
/// earlier numbers of the flow.
fn opens(packet: &Packet) -> bool {
    view(packet).is_some_and(|view| view.segment.header.has(flags::SYN))
}

/// Returns the acknowledgment number of a segment; `None` without the ACK flag or if the packet is not TCP.
fn acknowledgment(packet: &Packet) -> Option<u32> {
    let header = view(packet)?.segment.header;
    header.has(flags::ACK).then_some(header.acknowledgment.get())
}
