//! # SourceIPHashMapper
//! Lets translators choose among several patterns by a packet's source address.
//!
//! Each pattern has several points on a ring, which follow from the seed and from the pattern's own number. A
//! source address also has a point, and belongs to the pattern with the next point. So a host always gets the
//! same pattern. When a pattern is added or removed, only hosts that get or lose this pattern are affected.
//! Flows for whose pattern there is no free port are dropped.
//!
//! ## Usage
//! `SourceIPHashMapper(NNODES SEED, PATTERN FOUTPUT ROUTPUT ID, ...)`
//!
//! ## Arguments
//! - `PATTERN`: first the number of points that each pattern has, and a seed; then patterns, or names of
//!   patterns, each with the outputs for the flow and its reply, as in IPRewriter, and a number of its own.
//!
//! ## Example
//! ```click
//! balancer :: SourceIPHashMapper(20 1, - - 10.0.0.1 80 0 1 1, - - 10.0.0.2 80 0 1 2);
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(balancer); rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, RoundRobinIPMapper, IPRewriterPatterns

use element::args::{Complaint, parse_integer};
use element::class::{ArgInfo, ConfigurePhase};
use element::{Args, Class, manual};

use super::mapper::{self, Choice, spread};
use super::pattern::words;

/// The element class `SourceIPHashMapper`.
pub static CLASS: Class = Class {
    name: "SourceIPHashMapper",
    ports: "0/0",
    manual: manual!("source_ip_hash_mapper.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    phase: ConfigurePhase::Service,
    samples: &["20 1, - - 10.0.0.1 80 0 1 1, - - 10.0.0.2 80 0 1 2"],
    build: |args| {
        let texts = args.rest();
        match texts.len() {
            0 => args.error("no hash seed given"),
            1 => args.error("no patterns given"),
            2 => args.warn("only one pattern given"),
            _ => {}
        }
        args.finish()?;
        let (nodes, seed) = nodes_and_seed(args, &texts[0]);
        let (mut ids, mut patterns) = (Vec::new(), Vec::new());
        for (argument, text) in &texts[1..] {
            let words = words(text);
            let id = words.last().and_then(|word| parse_integer(word).ok()).filter(|_| words.len() > 1);
            match id.filter(|id| (0..=i128::from(MOST_ID)).contains(id)) {
                Some(id) => {
                    ids.push(id as u32);
                    patterns.push((*argument, words[..words.len() - 1].join(" ")));
                }
                None => {
                    let text =
                        format!("a number from 0 to {MOST_ID} expected after the outputs, for the pattern");
                    args.error_in(*argument, Complaint::new(text, "bad server ID in pattern spec"));
                }
            }
        }
        let targets = mapper::targets(args, &patterns);
        mapper::finish(args, "SourceIPHashMapper", targets, Choice::BySource(ring(nodes, seed, &ids)))
    },
    ..Class::DEFAULT
};

/// The largest value of a pattern's argument ID, as in Click.
const MOST_ID: i32 = i32::MAX;

/// Parses the first argument: the number of points that each pattern has on the ring, and the seed. Reports
/// errors, and returns 1 and 0 instead.
fn nodes_and_seed(args: &mut Args<'_>, (argument, text): &(usize, String)) -> (u32, u32) {
    let words = words(text);
    let [nodes, seed] = &words[..] else {
        args.error_in(*argument, "requires 2 config params: numnodes seed");
        return (1, 0);
    };
    let nodes = parse_integer(nodes).ok().and_then(|n| u32::try_from(n).ok());
    let nodes = nodes.filter(|nodes| (1..=1 << 20).contains(nodes));
    if nodes.is_none() {
        args.error_in(*argument, "number of nodes must be an integer");
    }
    let seed = parse_integer(seed).ok().and_then(|n| i32::try_from(n).ok());
    if seed.is_none() {
        args.error_in(*argument, "hash seed must be an integer");
    }
    (nodes.unwrap_or(1), seed.unwrap_or(0) as u32)
}

/// Returns the ring: `nodes` points for each pattern, ordered by point, with the index of the pattern. The
/// points depend on seed and ID only.
fn ring(nodes: u32, seed: u32, ids: &[u32]) -> Vec<(u32, usize)> {
    let place = |id: u32, node: u32| spread(spread(spread(seed) ^ id).wrapping_add(node));
    let of = |(number, &id): (usize, &u32)| (0..nodes).map(move |node| (place(id, node), number));
    let mut ring: Vec<_> = ids.iter().enumerate().flat_map(of).collect();
    ring.sort_unstable();
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(ring: &[(u32, usize)], ids: &[u32], address: u32) -> u32 {
        let at = ring.partition_point(|&(start, _)| start < spread(address));
        ids[ring.get(at).unwrap_or(&ring[0]).1]
    }

    #[test]
    fn hosts_stay_with_their_server_when_others_come_or_go() {
        let (three, two) = ([1, 2, 3], [1, 3]);
        let (before, after) = (ring(50, 7, &three), ring(50, 7, &two));
        let mut counts = [0; 4];
        for address in 0x0a00_0000..0x0a00_0000 + 3000 {
            let server = owner(&before, &three, address);
            counts[server as usize] += 1;
            if server != 2 {
                assert_eq!(owner(&after, &two, address), server);
            }
        }
        assert!(counts[1..].iter().all(|&count| count > 500), "{counts:?}");
        assert_ne!(before, ring(50, 8, &three));
    }
}
