//! Tests programs downstream of elements that make packets themselves. Their packets carry annotations that
//! a program must not take for zero.

use lang::flatten;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::insert::insert;
use testkit::TestRun;
use testkit::chains::read;

#[test]
fn annotations_of_packets_that_are_made_are_not_taken_for_zero() {
    let text =
        "FromDump(in.pcap) -> ping :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 3, INTERVAL 0.001, STOP true)
        -> lookup :: RadixIPLookup(10.0.0.0/24 0, 0.0.0.0/0 1) -> near :: Counter -> Discard;
        lookup[1] -> far :: Counter -> Discard;";
    let chain = read(text);
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty());
    for mut graph in [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)] {
        // The capture is replaced by an idle source, so only packets that the element makes enter the
        // program.
        let source = graph.elements.iter_mut().find(|element| element.class == "FromDump").unwrap();
        (source.class, source.config) = ("Idle".into(), String::new());
        let outcome = TestRun::trace().text(&flatten(&graph), &["near.count", "far.count"]).unwrap();
        let counts: Vec<_> = outcome.values.iter().map(|value| value.as_deref().unwrap().trim()).collect();
        assert_eq!(counts, ["3", "0"], "{}", flatten(&graph));
    }
}
