//! Runs of a configuration with and without programs, for several test files.

use lang::flatten;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::insert::insert;
use testkit::TestRun;
use testkit::chains::read;
use testkit::elements::{TestPacket, offer};

/// Runs a configuration on packets that enter at its `FromDump`: as it is, and with programs for all
/// regions. Returns both outcomes with the values of `handlers`.
pub(crate) fn as_it_is_and_composed(
    text: &str,
    inputs: &[TestPacket],
    handlers: &[&str],
) -> [testkit::RunResults; 2] {
    let chain = read(text);
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty(), "{text}");
    [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)].map(|mut graph| {
        let number = offer(vec![inputs.to_vec()]);
        let source = graph.elements.iter_mut().find(|element| element.class == "FromDump").unwrap();
        (source.class, source.config) = ("TestSource".into(), format!("{number}, 0"));
        let outcome = TestRun::default().text(&flatten(&graph), handlers).unwrap();
        assert!(outcome.report.balances(), "{text}");
        outcome
    })
}
