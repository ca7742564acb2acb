//! Regions: connected parts of a chain that can be composed into one program.

use element::obstacles;

use program::chain::Chain;

/// Returns the reason why an element cannot be in a region, as words that follow the element's name in a
/// message. `None` if nothing prevents it, and for entries and exits of the chain, which are never part of
/// a region.
pub fn obstacle(chain: &Chain, node: usize) -> Option<String> {
    let element = &chain.nodes[node];
    if is_end(chain, node) {
        return None;
    }
    let is_on_loop = element.effects.support.leases.is_some() && element.loop_id.is_some();
    let circle =
        || is_on_loop.then(|| "leases no flows on a circle (packets may come back to it)".to_string());
    obstacles::to_synthesis(&element.effects).or_else(circle)
}

/// True if the element is an entry or an exit of the chain, which are never part of a region.
pub fn is_end(chain: &Chain, node: usize) -> bool {
    chain.nodes[node].inputs == 0 || chain.is_exit(node)
}

/// Returns the regions of a chain, as large as possible. Each region is a list of connected elements that
/// nothing prevents from being composed, in the order in which packets pass them; the regions are in the same
/// order.
pub fn regions(chain: &Chain) -> Vec<Vec<usize>> {
    let n = chain.nodes.len();
    let fits: Vec<bool> =
        (0..n).map(|node| !is_end(chain, node) && obstacle(chain, node).is_none()).collect();
    let mut neighbours = vec![Vec::new(); n];
    for (from, node) in chain.nodes.iter().enumerate() {
        for &(to, _) in node.forward.iter().flatten() {
            if fits[from] && fits[to] {
                neighbours[from].push(to);
                neighbours[to].push(from);
            }
        }
    }
    let mut regions = Vec::new();
    let mut taken = vec![false; n];
    for first in 0..n {
        if !fits[first] || taken[first] {
            continue;
        }
        let mut region = Vec::new();
        let mut work = vec![first];
        while let Some(node) = work.pop() {
            if !std::mem::replace(&mut taken[node], true) {
                region.push(node);
                work.extend(&neighbours[node]);
            }
        }
        region.sort_by_key(|&node| chain.rank(node));
        regions.push(region);
    }
    regions.sort_by_key(|region| chain.rank(region[0]));
    regions
}
