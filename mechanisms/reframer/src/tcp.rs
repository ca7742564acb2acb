//! TCP within a burst: sorts segments and merges ACKs.
//!
//! Neither changes anything that a TCP receiver or sender depends on.
//!
//! **Order.** Segments that carry data or a FIN are put in the order in which they were sent: by time
//! stamp, and by sequence number if time stamps are equal or absent. (A retransmission has an older
//! sequence number and a newer time stamp. Ahead of segments that were sent before it, it would make the
//! receiver drop them, RFC 7323, section 5.3.) No segment moves past a segment without data, because the
//! order of ACKs has a meaning: duplicates are counted.
//!
//! **ACKs.** An ACK is dropped only if the next ACK of the burst carries all of its information and more:
//! both are without data and have the same flags, sequence number, TOS and options, and the later ACK has a
//! higher acknowledgment number and time stamps that are not older. So duplicate ACKs and window updates,
//! which repeat a number, are kept, and so are ACKs with SACK blocks. Both checksums must be right, because
//! a damaged ACK replaces nothing.

use element::Packet;
use wire::checksum::tcp_packet_valid;
use wire::tcp::{Opt, flags, options, parse};
use wire::{Layers, LinkType, ip_protocol};

use crate::key;

/// True if `a` is after `b`, in numbers that wrap.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// A TCP segment in its packet.
struct View<'p> {
    /// The IP packet from its header to its end.
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

/// Returns the sender's time stamp, or an error if the options are malformed.
fn time_stamp(option_bytes: &[u8]) -> Result<Option<u32>, ()> {
    let mut found = None;
    for option in options(option_bytes) {
        if let Opt::TimeStamps { value, .. } = option.map_err(|_| ())? {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The sort key of a segment.
#[derive(Clone, Copy)]
struct Place {
    sequence: u32,
    time_stamp: Option<u32>,
}

/// Returns the sort key of a segment that may be moved.
fn place(packet: &Packet) -> Option<Place> {
    let View { segment, .. } = view(packet)?;
    let header = segment.header;
    let has_content = !segment.payload.is_empty() || header.has(flags::FIN);
    let moves = has_content && !header.has(flags::SYN | flags::RST | flags::URG);
    let time_stamp = time_stamp(segment.options).ok()?;
    moves.then_some(Place { sequence: header.sequence.get(), time_stamp })
}

/// A sorter of bursts, which reuses its memory from burst to burst.
pub struct Sorter {
    places: Vec<Option<Place>>,
    order: Vec<(i32, i32, u32)>,
    moved: Vec<Option<Packet>>,
}

impl Sorter {
    /// Creates a sorter for bursts of `length` packets; longer bursts make its memory grow.
    pub fn new(length: usize) -> Sorter {
        Sorter {
            places: Vec::with_capacity(length),
            order: Vec::with_capacity(length),
            moved: Vec::with_capacity(length),
        }
    }

    /// Sorts the segments of one flow, and returns the number of segments that arrived after a later
    /// segment.
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
            // Either all segments of a connection or none have the time stamp option (RFC 7323, section
            // 3.2).
            let belongs = |place: &Option<Place>| {
                place.is_some_and(|place| place.time_stamp.is_some() == first.time_stamp.is_some())
            };
            let length = self.places[start..].iter().take_while(|place| belongs(place)).count();
            late += self.sort_run(packets, start, length, first);
            start += length;
        }
        late
    }

    fn sort_run(&mut self, packets: &mut Vec<Packet>, start: usize, length: usize, base: Place) -> u64 {
        let key = |(place, number): (&Option<Place>, u32)| {
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

/// Returns the view of a packet that is an ACK without data, with no other flags than ECE and CWR and with
/// correct checksums.
fn pure_ack(packet: &Packet) -> Option<View<'_>> {
    let view = view(packet)?;
    let header = view.segment.header;
    let others = !(flags::ACK | flags::ECE | flags::CWR);
    let is_pure = view.segment.payload.is_empty() && header.has(flags::ACK) && !header.has(others);
    (is_pure && tcp_packet_valid(view.ip, view.l4)).then_some(view)
}

/// True if the options of `b` carry all information of the options of `a`, with time stamps that are not
/// older.
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

/// True if `b`, the packet that follows `a`, makes `a` superfluous.
fn replaces(a: &View<'_>, b: &View<'_>) -> bool {
    let (x, y) = (a.segment.header, b.segment.header);
    // Compares version, header length, TOS and flow label. The packets have headers only, so their lengths
    // are equal if the headers' lengths are.
    let same_ip = a.l4 == b.l4 && a.ip.len() == b.ip.len() && same_network(a.ip, b.ip);
    same_ip
        && x.sequence == y.sequence
        && (x.data_offset, x.flags, x.urgent) == (y.data_offset, y.flags, y.urgent)
        && is_after(y.acknowledgment.get(), x.acknowledgment.get())
        && options_replace(a.segment.options, b.segment.options)
}

/// True if two IP headers ask for the same treatment; always false for headers with options or extension
/// headers.
fn same_network(a: &[u8], b: &[u8]) -> bool {
    match a[0] >> 4 {
        4 => a[0] == 0x45 && a[..2] == b[..2] && a[6..8] == b[6..8],
        _ => a[6] == ip_protocol::TCP && a[..4] == b[..4] && a[6] == b[6],
    }
}

/// Removes superfluous ACKs from a burst of one flow and passes them to `drop`. `acknowledged` is the
/// highest acknowledgment number of the flow so far, or `None` before the first ACK. Without it the first
/// ACK of the burst may be a duplicate, so it is kept.
pub fn coalesce(packets: &mut Vec<Packet>, acknowledged: &mut Option<u32>, drop: impl FnMut(Packet)) {
    let mut kept = 0;
    for place in 0..packets.len() {
        let superfluous = packets.get(place + 1).is_some_and(|next| {
            let (Some(a), Some(b)) = (pure_ack(&packets[place]), pure_ack(next)) else { return false };
            let number = a.segment.header.acknowledgment.get();
            acknowledged.is_some_and(|last| is_after(number, last)) && replaces(&a, &b)
        });
        if !superfluous {
            // Keeps the highest number so far: a late ACK with a lower number must not make its successors
            // look new.
            if opens(&packets[place]) {
                *acknowledged = None;
            }
            let number = acknowledgment(&packets[place]);
            let advances = |number: &u32| acknowledged.is_none_or(|last| is_after(*number, last));
            *acknowledged = number.filter(advances).or(*acknowledged);
            packets.swap(kept, place);
            kept += 1;
        }
    }
    packets.drain(kept..).for_each(drop);
}

/// True if a segment opens a connection, whose numbers are unrelated to the numbers before.
fn opens(packet: &Packet) -> bool {
    view(packet).is_some_and(|view| view.segment.header.has(flags::SYN))
}

/// Returns the acknowledgment number of a segment that has the ACK flag.
fn acknowledgment(packet: &Packet) -> Option<u32> {
    let header = view(packet)?.segment.header;
    header.has(flags::ACK).then_some(header.acknowledgment.get())
}
