//! Insertion of programs into a configuration, for runs with Tidegate.

use lang::{Connection, Graph};

use crate::compose::{Region, Synthesis};
use program::chain::Chain;
use program::text;

/// Returns the configuration with an element `Synthesized` at the entry of each region. The replaced
/// elements stay in the graph with their handlers, and process the packets that do not bypass them. `chain`
/// is the chain that was synthesized: all of the graph, or the part that packets pass.
pub fn insert(graph: &Graph, chain: &Chain, synthesis: &Synthesis) -> Graph {
    let mut graph = graph.clone();
    for region in &synthesis.regions {
        insert_one(&mut graph, chain, region);
    }
    graph
}

fn insert_one(graph: &mut Graph, chain: &Chain, region: &Region) {
    let port =
        |graph: &Graph, (node, port): (usize, usize)| Some((graph.find(&chain.nodes[node].name)?, port));
    let Some(from) = port(graph, region.from) else { return };
    let Some(place) = graph.connections.iter().position(|connection| connection.from == from) else { return };
    let span = graph.connections[place].span;
    let number = graph.elements.len();
    graph.connections[place].to = (number, 0);
    for (output, to) in region.outputs.iter().enumerate() {
        let to = port(graph, *to);
        graph.connections.extend(to.map(|to| Connection { from: (number, output), to, span }));
    }
    let config = format!("\n    {}", text::write(&region.program));
    graph.add("synthesized", program::CLASS_NAME, &config, span);
}
