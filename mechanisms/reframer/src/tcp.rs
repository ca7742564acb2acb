//! TCP inside a burst: segments put back in order, ACKs merged.
//!
//! Both change only what TCP cannot miss.
//!
//! **Order.** Segments that carry data or a FIN are put in the order in which they were sent: that of their time
//! stamps, and of sequence numbers where these are equal or there are none (a retransmission has an older sequence
//! number and a newer time stamp; in front of what was sent before it, it would make the receiver drop that,
//! RFC 7323, section 5.3). Nothing moves over a segment without data, because ACKs have an order of their own:
//! duplicates are counted.
//!
//! **ACKs.** An ACK goes only where the next one of the burst says all that it said, and more: both without data and
//! with the same flags, sequence number, TOS and options, the later one with a higher acknowledgment number and time
//! stamps not older. So duplicate ACKs and window updates stay, which repeat a number; so does whatever has SACK
//! blocks. Both checksums have to be right: a later one that is damaged would not replace anything.

use element::Packet;
use wire::checksum::tcp_packet_valid;
use wire::tcp::{Opt, flags, options, parse};
use wire::{Layers, LinkType, ip_protocol};

use crate::key;

/// Whether `a` lies behind `b`, in numbers that wrap.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// A TCP segment in its packet.
struct View<'p> {
    /// The IP packet from its header to its end.
    ip: &'p [u8],
    /// Where TCP starts in it.
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

/// The sender's time stamp; an error where options are malformed.
fn time_stamp(option_bytes: &[u8]) -> Result<Option<u32>, ()> {
    let mut found = None;
    for option in options(option_bytes) {
        if let Opt::TimeStamps { value, .. } = option.map_err(|_| ())? {
            found = Some(value);
        }
    }
    Ok(found)
}

/// What a segment is sorted by.
#[derive(Clone, Copy)]
struct Place {
    sequence: u32,
    time_stamp: Option<u32>,
}

/// The place of a segment that may be moved.
fn place(packet: &Packet) -> Option<Place> {
    let View { segment, .. } = view(packet)?;
    let header = segment.header;
    let has_content = !segment.payload.is_empty() || header.has(flags::FIN);
    let moves = has_content && !header.has(flags::SYN | flags::RST | flags::URG);
    let time_stamp = time_stamp(segment.options).ok()?;
    moves.then_some(Place { sequence: header.sequence.get(), time_stamp })
}

/// Puts bursts in order; keeps its memory from one to the next.
pub struct Sorter {
    places: Vec<Option<Place>>,
    order: Vec<(i32, i32, u32)>,
    moved: Vec<Option<Packet>>,
}

impl Sorter {
    /// For bursts of so many packets; longer ones have it grow.
    pub fn new(length: usize) -> Sorter {
        Sorter {
            places: Vec::with_capacity(length),
            order: Vec::with_capacity(length),
            moved: Vec::with_capacity(length),
        }
    }

    /// Puts the segments of one flow in order; how many of them had one in front that belongs behind.
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
            // A time stamp option is on all segments of a connection or on none (RFC 7323, section 3.2).
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

/// An ACK that carries nothing else, whose checksums are right.
fn pure_ack(packet: &Packet) -> Option<View<'_>> {
    let view = view(packet)?;
    let header = view.segment.header;
    let others = !(flags::ACK | flags::ECE | flags::CWR);
    let is_pure = view.segment.payload.is_empty() && header.has(flags::ACK) && !header.has(others);
    (is_pure && tcp_packet_valid(view.ip, view.l4)).then_some(view)
}

/// Whether the options of `b` say all that those of `a` do, with time stamps that are not older.
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

/// Whether `b`, which comes right behind `a`, makes it superfluous.
fn replaces(a: &View<'_>, b: &View<'_>) -> bool {
    let (x, y) = (a.segment.header, b.segment.header);
    // Version, header length, TOS and flow label; the length is that of headers alone.
    let same_ip = a.l4 == b.l4 && a.ip.len() == b.ip.len() && same_network(a.ip, b.ip);
    same_ip
        && x.sequence == y.sequence
        && (x.data_offset, x.flags, x.urgent) == (y.data_offset, y.flags, y.urgent)
        && is_after(y.acknowledgment.get(), x.acknowledgment.get())
        && options_replace(a.segment.options, b.segment.options)
}

/// Whether two IP headers ask for the same treatment; ones with options or extension headers never do.
fn same_network(a: &[u8], b: &[u8]) -> bool {
    match a[0] >> 4 {
        4 => a[0] == 0x45 && a[..2] == b[..2] && a[6..8] == b[6..8],
        _ => a[6] == ip_protocol::TCP && a[..4] == b[..4] && a[6] == b[6],
    }
}

/// Takes superfluous ACKs out of a burst of one flow and hands them to `drop`. `acknowledged` is the highest
/// acknowledgment number of the flow so far, `None` if there was none: without it nothing says whether the
/// first ACK is a duplicate, so that it stays.
pub fn coalesce(packets: &mut Vec<Packet>, acknowledged: &mut Option<u32>, drop: impl FnMut(Packet)) {
    let mut kept = 0;
    for place in 0..packets.len() {
        let superfluous = packets.get(place + 1).is_some_and(|next| {
            let (Some(a), Some(b)) = (pure_ack(&packets[place]), pure_ack(next)) else { return false };
            let number = a.segment.header.acknowledgment.get();
            acknowledged.is_some_and(|last| is_after(number, last)) && replaces(&a, &b)
        });
        if !superfluous {
            // The highest so far: one that comes late must not make its successors look new.
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

/// Whether a segment opens a connection, whose numbers have nothing to do with those before.
fn opens(packet: &Packet) -> bool {
    view(packet).is_some_and(|view| view.segment.header.has(flags::SYN))
}

/// What a segment acknowledges.
fn acknowledgment(packet: &Packet) -> Option<u32> {
    let header = view(packet)?.segment.header;
    header.has(flags::ACK).then_some(header.acknowledgment.get())
}
