//! Tests on real captures: large segments that are cut again equal the segments that arrived, and flows
//! that were in order stay in order. The captures lie next to the repository (or in the folder
//! `TIDEGATE_DATA`), and are skipped if absent.

use std::collections::HashMap;
use std::path::Path;

use testkit::elements::{Seen, collect, offer};
use testkit::{TestRun, found};
use wire::layers::Network;
use wire::{FiveTuple, Layers, LinkType, ip_protocol, tcp};

/// Returns the packets of a capture that leave the chain `elements`, and the values of handlers; `None` if
/// the capture cannot be read.
fn run(capture: &Path, elements: &str, handlers: &[&str]) -> Option<(Vec<Vec<u8>>, Vec<String>)> {
    let number = offer(Vec::new());
    let text = format!("FromDump(\"{}\") {elements} -> TestSink({number}, 0)", capture.display());
    let outcome = TestRun::trace().text(&text, handlers).ok()?;
    assert!(outcome.report.balances(), "{}", capture.display());
    let packets = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
    Some((packets, outcome.values.into_iter().map(Result::unwrap).collect()))
}

/// Returns the flow of a TCP segment, its first sequence number and the number after it. `None` for packets
/// that are no complete TCP segments.
fn segment(bytes: &[u8], link: LinkType) -> Option<(FiveTuple, u32, u32)> {
    let layers = Layers::locate(bytes, link);
    let is_tcp =
        layers.protocol == Some(ip_protocol::TCP) && layers.fragment.is_none() && layers.missing == 0;
    if !is_tcp || !matches!(layers.network, Network::Ipv4 | Network::Ipv6) {
        return None;
    }
    let segment = tcp::parse(&bytes[layers.l4?..layers.end]).ok()?;
    let opens = segment.header.has(tcp::flags::SYN | tcp::flags::FIN);
    let start = segment.header.sequence.get();
    let length = segment.payload.len() as u32 + u32::from(opens);
    Some((layers.five_tuple(bytes)?, start, start.wrapping_add(length)))
}

type Flows<'p> = HashMap<FiveTuple, Vec<&'p [u8]>>;

fn flows(packets: &[Vec<u8>], link: LinkType) -> Flows<'_> {
    let mut flows = Flows::new();
    for bytes in packets {
        if let Some((flow, ..)) = segment(bytes, link) {
            flows.entry(flow).or_default().push(bytes);
        }
    }
    flows
}

/// True if each segment of the flow starts where the previous segment ends.
fn is_in_sequence(packets: &[&[u8]], link: LinkType) -> bool {
    let mut next = None;
    packets.iter().all(|bytes| {
        let Some((_, start, end)) = segment(bytes, link) else { return false };
        next.replace(end).is_none_or(|next| next == start)
    })
}

#[test]
fn captures_come_out_as_they_went_in() {
    let Some(folder) = found::path("traces") else { return };
    let (mut captures, mut in_order, mut merged) = (0, 0, 0);
    for file in found::files(&folder) {
        let Some((mut before, _)) = run(&file, "", &[]) else { continue };
        captures += 1;
        for arguments in
            ["UDP true", "FLOWS 2, OFO_TIMEOUT 10ms, INSEQ_TIMEOUT 10ms", "MERGE false, OFO_TIMEOUT 10ms"]
        {
            let chain = format!("-> e :: Juggler({arguments}) -> s :: Segment");
            let (after, values) = run(&file, &chain, &["s.count"]).unwrap();
            merged += values[0].parse::<u32>().unwrap();
            for link in [LinkType::Ethernet, LinkType::RawIp] {
                let (were, are) = (flows(&before, link), flows(&after, link));
                for (flow, packets) in were.iter().filter(|(_, packets)| is_in_sequence(packets, link)) {
                    let behind = are.get(flow).map(Vec::as_slice).unwrap_or_default();
                    let show =
                        |packets: &[&[u8]]| packets.iter().map(|p| segment(p, link)).collect::<Vec<_>>();
                    let same = behind == packets;
                    assert!(same, "{} {arguments}\n{:?}\n{:?}", file.display(), show(packets), show(behind));
                    in_order += 1;
                }
            }
            let mut after = after;
            after.sort_unstable();
            before.sort_unstable();
            assert!(before == after, "{} {arguments}", file.display());
            before = run(&file, "", &[]).unwrap().0;
        }
    }
    assert!(captures > 8 && in_order > 1000 && merged > 1000, "{captures} {in_order} {merged}");
}
