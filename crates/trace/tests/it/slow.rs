//! A second implementation of the analyses, as simple as possible, to compare results with. Packets are in
//! a vector, flows in hash maps, windows are sets. It also dissects frames itself and uses nothing of the
//! crate.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A captured packet.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) time: i64,
    pub(crate) frame: Vec<u8>,
    pub(crate) wire_len: u32,
    /// The link type as in pcap files.
    pub(crate) link: u16,
}

/// The bytes that identify a flow: addresses, ports, protocol and IP version.
pub(crate) type Tuple = Vec<u8>;

#[derive(Clone, Debug)]
struct Seen {
    time: i64,
    tuple: Tuple,
    tcp: bool,
    payload: u64,
    /// The sequence number and the flags, if the flow is TCP and the header was captured.
    segment: Option<(u32, u8)>,
    wire_len: u64,
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

/// True if this analysis can read headers of the link type with this number.
pub(crate) fn knows(link: u16) -> bool {
    matches!(link, 0 | 1 | 9 | 12 | 14 | 101 | 108 | 113 | 228 | 229 | 276)
}

/// Returns the offset of a frame's IP header and the IP version; `None` if the frame has none.
fn network(raw: &Raw) -> Option<(usize, u8)> {
    let f = &raw.frame;
    let (mut kind, mut at) = match raw.link {
        1 => (number(f, 12)?, 14),
        113 => (number(f, 14)?, 16),
        276 => (number(f, 0)?, 20),
        0 | 108 => (usize::MAX, 4),
        12 | 14 | 101 | 228 | 229 => (usize::MAX, 0),
        9 => {
            let at = if f.starts_with(&[0xff, 3]) { 2 } else { 0 };
            match number(f, at)? {
                0x21 => (0x0800, at + 2),
                0x57 => (0x86dd, at + 2),
                _ => return None,
            }
        }
        _ => return None,
    };
    if f.len() < at {
        return None;
    }
    let mut tags = 0;
    while [0x8100, 0x88a8, 0x9100, 0x9200].contains(&kind) {
        tags += 1;
        if tags > 8 {
            return None;
        }
        kind = number(f, at + 2)?;
        at += 4;
    }
    if kind == 0x8847 || kind == 0x8848 {
        for label in 1.. {
            let bottom = f.get(at + 2)? & 1 == 1;
            f.get(at + 3)?;
            at += 4;
            if bottom {
                break;
            }
            if label == 16 {
                return None;
            }
        }
        kind = usize::MAX;
    }
    if kind == 0x8864 {
        kind = match number(f, at + 6)? {
            0x21 => 0x0800,
            0x57 => 0x86dd,
            _ => return None,
        };
        at += 8;
    }
    let version = *f.get(at)? >> 4;
    match (kind, version) {
        (0x0800 | usize::MAX, 4) => Some((at, 4)),
        (0x86dd | usize::MAX, 6) => Some((at, 6)),
        _ => None,
    }
}

fn dissect(raw: &Raw) -> Option<Seen> {
    let f = &raw.frame;
    let (ip, version) = network(raw)?;
    let captured = f.len();
    let (addresses, protocol, l4, end): (&[u8], u8, usize, usize);
    if version == 4 {
        f.get(ip + 19)?;
        let header = usize::from(f[ip] & 15) * 4;
        let total = number(f, ip + 2)?;
        if header < 20 || (total != 0 && total < header) || number(f, ip + 6)? & 0x3fff != 0 {
            return None;
        }
        addresses = &f[ip + 12..ip + 20];
        protocol = f[ip + 9];
        l4 = ip + header;
        end = if total == 0 { raw.wire_len as usize } else { ip + total };
    } else {
        f.get(ip + 39)?;
        addresses = &f[ip + 8..ip + 40];
        let length = number(f, ip + 4)?;
        let mut next = f[ip + 6];
        let (mut at, mut headers) = (ip + 40, 0);
        let limit = if length == 0 { captured } else { captured.min(at + length) };
        loop {
            let size = match next {
                0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(*f.get(at + 1)?),
                51 => 8 + 4 * usize::from(*f.get(at + 1)?),
                // A fragment has no flow, unless offset and more-fragments flag say that it is the whole
                // packet.
                44 if number(f, at + 2)? & 0xfff9 != 0 => return None,
                44 => 8,
                _ => break,
            };
            headers += 1;
            if at + size > limit || headers > 16 || at + size > ip + 40 + 256 {
                return None;
            }
            next = f[at];
            at += size;
        }
        protocol = next;
        l4 = at;
        end = if length == 0 { raw.wire_len as usize } else { ip + 40 + length };
    }
    if (protocol != 6 && protocol != 17) || l4 + 4 > end.min(captured) {
        return None;
    }
    let mut tuple = addresses.to_vec();
    tuple.extend_from_slice(&f[l4..l4 + 4]);
    tuple.extend([protocol, version]);
    let there = &f[l4..end.min(captured)];
    let on_wire = end - l4;
    let (mut segment, mut payload) = (None, 0);
    if protocol == 17 {
        payload = on_wire.saturating_sub(8);
    } else if there.len() >= 14 && there[12] >> 4 >= 5 {
        segment = Some((u32::from_be_bytes([there[4], there[5], there[6], there[7]]), there[13]));
        payload = on_wire.saturating_sub(usize::from(there[12] >> 4) * 4);
    }
    let wire_len = raw.wire_len.into();
    Some(Seen { time: raw.time, tuple, tcp: protocol == 6, payload: payload as u64, segment, wire_len })
}

/// A distribution: all values, sorted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Values(pub(crate) Vec<u64>);

impl Values {
    fn new(mut values: Vec<u64>) -> Values {
        values.sort_unstable();
        Values(values)
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.iter().sum::<u64>() as f64 / self.0.len() as f64 }
    }

    pub(crate) fn percentile(&self, percent: usize) -> u64 {
        if self.0.is_empty() { 0 } else { self.0[(self.0.len() * percent).div_ceil(100) - 1] }
    }
}

/// The results that are compared with a [`trace::TraceReport`], under the same or shorter names.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
    pub(crate) tcp_flows: u64,
    pub(crate) duration_s: f64,
    pub(crate) slf: f64,
    pub(crate) flow_packets: Values,
    pub(crate) flow_bytes: Values,
    /// A map from batch size to the number of flow switches: in the original order, and ordered by flow.
    pub(crate) switches: BTreeMap<u32, (u64, u64)>,
    pub(crate) batch: BTreeMap<u32, Values>,
    pub(crate) batch_uncapped: BTreeMap<u32, Values>,
    pub(crate) acks: BTreeMap<u32, Values>,
    pub(crate) pure_acks: u64,
    pub(crate) pure_batches: BTreeMap<u32, Values>,
    pub(crate) spatial: Values,
    pub(crate) temporal: Values,
    pub(crate) concurrent: Values,
    pub(crate) concurrent_large: Values,
    pub(crate) segments: u64,
    pub(crate) reordered: u64,
    pub(crate) retransmitted: u64,
    pub(crate) sliceable: (f64, f64),
}

pub(crate) const WINDOWS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Returns the sizes of the batches that packets of one flow with these times form, at most `cap` packets
/// each.
fn batches(times: &[i64], window_us: u32, cap: usize) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut rest = times;
    while let Some(&first) = rest.first() {
        let fits = |time: &&i64| **time - first < i64::from(window_us) * 1000;
        let size = rest.iter().take(cap).take_while(fits).count();
        sizes.push(size as u64);
        rest = &rest[size..];
    }
    sizes
}

fn batches_of<'a>(flows: impl Iterator<Item = &'a Vec<i64>> + Clone, cap: usize) -> BTreeMap<u32, Values> {
    let sizes = |window| Values::new(flows.clone().flat_map(|times| batches(times, window, cap)).collect());
    WINDOWS.into_iter().map(|window| (window, sizes(window))).collect()
}

/// Returns the number of flows in each window of 150 us with packets. The first window begins at `start`. A
/// packet with an earlier time than the open window counts in the open window.
fn concurrent(packets: &[&Seen], start: i64) -> Values {
    let mut windows: BTreeMap<i64, HashSet<&Tuple>> = BTreeMap::new();
    let mut latest = i64::MIN;
    for packet in packets {
        latest = latest.max((packet.time - start).div_euclid(150_000));
        windows.entry(latest).or_default().insert(&packet.tuple);
    }
    Values::new(windows.values().map(|flows| flows.len() as u64).collect())
}

/// Returns the number of reordered and of retransmitted segments of one flow, from their sequence numbers,
/// lengths and SYN flags. Sequence numbers are unfolded to 64 bits around the next expected number; the
/// seen bytes are a list of ranges.
fn order(segments: &[(u32, u64, bool)]) -> (u64, u64) {
    let (mut reordered, mut retransmitted) = (0, 0);
    let mut seen: Vec<(i64, i64)> = Vec::new();
    let mut next = 0i64;
    for &(sequence, length, syn) in segments {
        let start = next + i64::from(sequence.wrapping_sub(next as u32) as i32);
        let end = start + length as i64;
        let known = seen.iter().any(|&(from, to)| from <= start && start < to);
        if seen.is_empty() || (syn && !known) {
            seen.clear();
            // The base is far from zero, so that numbers below the first sequence number stay positive.
            let base = (1i64 << 40) + i64::from(sequence);
            seen.push((base, base + length as i64));
            next = base + length as i64;
            continue;
        }
        if start < next {
            if known { retransmitted += 1 } else { reordered += 1 }
        }
        seen.push((start, end));
        next = next.max(end);
    }
    (reordered, retransmitted)
}

pub(crate) fn analyze(raws: &[Raw]) -> Slow {
    let seen: Vec<Seen> = raws.iter().filter_map(dissect).collect();
    let mut flows: HashMap<&Tuple, Vec<&Seen>> = HashMap::new();
    for packet in &seen {
        flows.entry(&packet.tuple).or_default().push(packet);
    }
    let tcp = || flows.values().filter(|flow| flow[0].tcp);
    let runs = seen.iter().zip(seen.iter().skip(1)).filter(|(a, b)| a.tuple != b.tuple).count() + 1;
    let bytes: u64 = raws.iter().map(|raw| u64::from(raw.wire_len)).sum();
    let times = |keep: &dyn Fn(&Seen) -> bool| -> Vec<Vec<i64>> {
        tcp().map(|flow| flow.iter().filter(|p| keep(p)).map(|p| p.time).collect()).collect()
    };
    let has_ack = |p: &Seen| p.segment.is_some_and(|(_, flags)| flags & 0x10 != 0);
    let is_pure = |p: &Seen| p.payload == 0 && p.segment.is_some_and(|(_, flags)| flags & 0x3f == 0x10);
    let (all, acks, pure) = (times(&|_| true), times(&has_ack), times(&is_pure));
    let distance = |of: &dyn Fn(usize, usize) -> u64| {
        let mut last: HashMap<&Tuple, usize> = HashMap::new();
        let mut values = Vec::new();
        for (place, packet) in seen.iter().enumerate() {
            if let Some(before) = last.insert(&packet.tuple, place) {
                values.push(of(before, place));
            }
        }
        Values::new(values)
    };
    let switches = |size: u32| {
        let pairs = |batch: &[Seen]| batch.windows(2).filter(|pair| pair[0].tuple != pair[1].tuple).count();
        let flows = |batch: &[Seen]| batch.iter().map(|packet| &packet.tuple).collect::<BTreeSet<_>>().len();
        let batches = || seen.chunks(size as usize);
        let as_is: usize = batches().map(pairs).sum();
        let ordered: usize = batches().map(|batch| flows(batch) - 1).sum();
        (as_is as u64, ordered as u64)
    };
    let start = raws.first().map_or(0, |raw| raw.time);
    let size_of = |flow: &Vec<&Seen>| flow.iter().map(|packet| packet.wire_len).sum::<u64>();
    let large: HashSet<&Tuple> =
        tcp().filter(|flow| size_of(flow) > 10_000_000).map(|flow| &flow[0].tuple).collect();
    let of_tcp: Vec<&Seen> = seen.iter().filter(|packet| packet.tcp).collect();
    let of_large: Vec<&Seen> = of_tcp.iter().filter(|p| large.contains(&p.tuple)).copied().collect();
    let (mut segments, mut reordered, mut retransmitted) = (0, 0, 0);
    for flow in tcp() {
        let in_order: Vec<(u32, u64, bool)> = flow
            .iter()
            .filter_map(|p| p.segment.map(|(sequence, flags)| (sequence, flags, p.payload)))
            .filter(|(_, flags, _)| flags & 4 == 0)
            .map(|(sequence, flags, payload)| {
                (sequence, payload + u64::from(flags & 1 != 0) + u64::from(flags & 2 != 0), flags & 2 != 0)
            })
            .filter(|(_, length, _)| *length > 0)
            .collect();
        segments += in_order.len() as u64;
        let counts = order(&in_order);
        reordered += counts.0;
        retransmitted += counts.1;
    }
    // The payload of a frame without a flow does not count.
    let sliced: Vec<&Seen> = seen.iter().filter(|p| p.wire_len >= 500 && p.payload > 0).collect();
    let payload: u64 = sliced.iter().map(|p| p.payload.min(p.wire_len)).sum();
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let ends = (raws.iter().map(|raw| raw.time).min(), raws.iter().map(|raw| raw.time).max());
    Slow {
        packets: raws.len() as u64,
        bytes,
        flows: flows.len() as u64,
        tcp_flows: tcp().count() as u64,
        duration_s: if let (Some(first), Some(last)) = ends { (last - first) as f64 / 1e9 } else { 0.0 },
        slf: if seen.is_empty() { 0.0 } else { seen.len() as f64 / runs as f64 },
        flow_packets: Values::new(flows.values().map(|flow| flow.len() as u64).collect()),
        flow_bytes: Values::new(flows.values().map(size_of).collect()),
        switches: [32, 64, 256, 1024].into_iter().map(|size| (size, switches(size))).collect(),
        batch: batches_of(all.iter(), 32),
        batch_uncapped: batches_of(all.iter(), usize::MAX),
        acks: batches_of(acks.iter(), 32),
        pure_acks: pure.iter().map(|times| times.len() as u64).sum(),
        pure_batches: batches_of(pure.iter(), 32),
        spatial: distance(&|before, place| (place - before - 1) as u64),
        temporal: distance(&|before, place| (seen[place].time - seen[before].time).max(0) as u64),
        concurrent: concurrent(&of_tcp, start),
        concurrent_large: concurrent(&of_large, start),
        segments,
        reordered,
        retransmitted,
        sliceable: (share(sliced.len() as u64, raws.len() as u64), share(payload, bytes)),
    }
}
