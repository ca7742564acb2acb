//! Runs of a configuration with and without programs, for several test files.

use lang::flatten;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::Limits;
use synthesizer::insert::insert;
use testkit::Run;
use testkit::chains::read;
use testkit::elements::{Input, offer};

/// Runs a configuration on packets that enter at its `FromDump`: as it is, and with programs for all
/// regions. Returns both outcomes with the values of `handlers`.
pub(crate) fn as_it_is_and_composed(
    text: &str,
    inputs: &[Input],
    handlers: &[&str],
) -> [testkit::Outcome; 2] {
    let chain = read(text);
    let limits = Limits { least: Some(1), ..Limits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty(), "{text}");
    [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)].map(|mut graph| {
        let number = offer(vec![inputs.to_vec()]);
        let source = graph.elements.iter_mut().find(|element| element.class == "FromDump").unwrap();
        (source.class, source.config) = ("TestSource".into(), format!("{number}, 0"));
        let outcome = Run::default().text(&flatten(&graph), handlers).unwrap();
        assert!(outcome.report.balances(), "{text}");
        outcome
    })
}
