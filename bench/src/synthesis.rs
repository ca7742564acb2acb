//! What composing a chain saves: chains as they are, and synthesized.

use std::path::Path;

use ::classify::filter::action;
use element::ports::Processing;
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::Limits;
use synthesizer::insert::insert;
use synthesizer::model::chain::Chain;

use crate::graph::{Start, configured, measure_worker, running, text_of};
use crate::serde_params::Param;
use crate::{Row, Settings, classify};

/// Functions in a row.
const FUNCTIONS: [usize; 6] = [1, 2, 4, 6, 8, 10];

/// How many flows go through chains that do not look at rules.
const FLOWS: usize = 1_000;

/// Rows for each chain, as it is and synthesized.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    if let Some(path) = &settings.rules {
        let (rules, patterns) = rules_of(path)?;
        return behind_rules(settings, &rules, &patterns);
    }
    let mut rows = Vec::new();
    for (name, function) in [("routers", router as fn(usize) -> String), ("translators", translator)] {
        for n in FUNCTIONS {
            let chain: Vec<String> = (0..n).map(function).collect();
            let chain = format!("{} -> Discard", chain.join(" -> Cable -> "));
            rows.extend(both(settings, name, n, &chain, &Traffic::Flows)?);
        }
    }
    rows.extend(both(settings, "motivating", 3, &motivating(), &Traffic::Flows)?);
    for count in [250, 10_000] {
        let made = classify::made(count);
        let actions = ["allow", "deny"].into_iter().cycle();
        let rules: Vec<String> =
            made.iter().zip(actions).map(|(rule, action)| format!("{action} {rule}")).collect();
        rows.extend(behind_rules(settings, &rules, &made)?);
    }
    Ok(rows)
}

/// The provider's chain with traffic that exercises every rule: a flow for each, and as many flows as there are packets in
/// memory, so that each comes by once in a while.
fn behind_rules(settings: &Settings, rules: &[String], patterns: &[String]) -> Result<Vec<Row>, String> {
    let chain = provider(rules);
    let mut rows = Vec::new();
    for flows in [rules.len(), settings.packets] {
        rows.extend(both(settings, "provider", rules.len(), &chain, &Traffic::Rules { patterns, flows })?);
    }
    Ok(rows)
}

enum Traffic<'r> {
    /// Flows one after the other.
    Flows,
    /// Flows in no order, as many of each of these rules or patterns.
    Rules { patterns: &'r [String], flows: usize },
}

/// A chain as it is and synthesized, with so many functions or rules.
fn both(
    settings: &Settings,
    name: &'static str,
    count: usize,
    chain: &str,
    traffic: &Traffic<'_>,
) -> Result<Vec<Row>, String> {
    let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
    let file = folder.with_extension("rules");
    let frames = match traffic {
        Traffic::Flows => format!("BenchmarkFrames({}, {FLOWS}, 64)", settings.packets),
        Traffic::Rules { patterns, flows } => {
            std::fs::write(&file, patterns.join("\n"))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            format!("BenchmarkHeaders({}, {}, 64, {flows})", settings.packets, file.display())
        }
    };
    let rows = ["original", "synthesized"].into_iter().map(|form| {
        let text = text_of(&frames, Start::Frame, chain);
        let text = if form == "original" { text } else { synthesized(text)? };
        let worker = running(text, engine::Options::default())?;
        let (counted, flows) = match traffic {
            Traffic::Flows => ("functions", FLOWS),
            Traffic::Rules { flows, .. } => ("rules", *flows),
        };
        let params = [
            ("chain", Param::Word(name)),
            (counted, Param::Number(count as u64)),
            ("flows", Param::Number(flows as u64)),
            ("form", Param::Word(form)),
        ];
        measure_worker("synthesizer", settings, 64, worker, &params)
    });
    let rows = rows.collect();
    let _ = std::fs::remove_file(&file);
    rows
}

/// A configuration, synthesized.
fn synthesized(text: String) -> Result<String, String> {
    let (plan, mut copies) = configured(text, 1)?;
    let only = copies.pop().ok_or("no worker")?;
    let effects: Vec<_> =
        plan.classes.iter().zip(&only.effects).map(|(class, effects)| Some((*class, effects))).collect();
    let chain = Chain::new(&plan.graph, &effects);
    let is_pushed = |(node, output): (usize, usize)| {
        plan.outputs.get(node).and_then(|outputs| outputs.get(output)) == Some(&Processing::Push)
    };
    let synthesis = synthesize(&chain, &Limits::default(), &is_pushed);
    if synthesis.stretches.is_empty() {
        return Err("nothing was composed".into());
    }
    Ok(lang::flatten(&insert(&plan.graph, &chain, &synthesis)))
}

/// The router of the SNF paper's evaluation: everything that RFC 1812 asks of a forwarded packet.
fn router(n: usize) -> String {
    let (own, next) = (n + 1, n + 2);
    format!(
        "rx{n} :: Counter -> Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> rt{n} :: RadixIPLookup(
            10.{own}.0.1 0, 10.{own}.0.255 0, 10.{own}.0.0/32 0, 10.{next}.0.1 0, 10.{next}.0.255 0, 10.{next}.0.0/32 0,
            10.{own}.0.0/24 1, 10.{next}.0.0/24 2, 0.0.0.0/0 2);
        rt{n}[0], rt{n}[1] => Discard, Discard;
        rt{n}[2] -> DropBroadcasts -> IPGWOptions(10.{next}.0.1) -> FixIPSrc(10.{next}.0.1) -> DecIPTTL -> IPFragmenter(9000)
            -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
    )
}

/// A translator of addresses and ports, with the rest of a router.
fn translator(n: usize) -> String {
    format!(
        "rx{n} :: Counter -> Strip(14) -> MarkIPHeader -> IPRewriter(pattern 192.0.{n}.1 1024-65535 - - 0 0)
            -> DropBroadcasts -> IPGWOptions(192.0.{n}.1) -> FixIPSrc(192.0.{n}.1) -> DecIPTTL -> IPFragmenter(9000)
            -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
    )
}

/// The motivating example of the SNF paper (Figure 5): a translator, a firewall for UDP, a balancer over two servers.
fn motivating() -> String {
    let out = |n: usize| {
        format!(
            "DecIPTTL -> IPFragmenter(9000) -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
        )
    };
    format!(
        "rx0 :: Counter -> Strip(14) -> MarkIPHeader -> kinds :: IPClassifier(udp, tcp, -);
        rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, pattern 192.0.2.1 1024-65535 - - 0 0, drop);
        kinds[0], kinds[1], kinds[2] => [0] rw, [1] rw, [2] rw;
        rw -> GetIPAddress(16) -> rt :: RadixIPLookup(192.0.2.1 0, 10.0.0.0/24 1, 0.0.0.0/0 2);
        rt[0], rt[1] => Discard, Discard;
        rt[2] -> DropBroadcasts -> FixIPSrc(192.0.2.1) -> {}
        -> Cable -> rx1 :: Counter -> Strip(14) -> MarkIPHeader
        -> filter :: IPFilter(allow src net 192.0.2.0/24 && udp, deny all) -> {}
        -> Cable -> rx2 :: Counter -> Strip(14) -> MarkIPHeader
        -> balance :: IPRewriter(servers) -> {} -> Discard;
        servers :: RoundRobinIPMapper(- - 198.51.100.1 - 0 0, - - 198.51.100.2 - 0 0)",
        out(0),
        out(1),
        out(2)
    )
}

/// The provider's chain of the SNF paper (Figure 9), outbound: firewall, router, translator.
fn provider(rules: &[String]) -> String {
    let between = |n: usize| {
        format!(
            "DropBroadcasts -> IPGWOptions(192.0.{n}.1) -> FixIPSrc(192.0.{n}.1) -> DecIPTTL -> IPFragmenter(9000)
            -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
        )
    };
    format!(
        "rx0 :: Counter -> Strip(14) -> MarkIPHeader -> rules :: IPFilter({}, deny all) -> {}
        -> Cable -> rx1 :: Counter -> Strip(14) -> MarkIPHeader -> GetIPAddress(16)
        -> rt :: RadixIPLookup(204.152.0.0/16 0, 0.0.0.0/0 0) -> {}
        -> Cable -> rx2 :: Counter -> Strip(14) -> MarkIPHeader
        -> IPRewriter(pattern 192.0.2.9 1024-65535 - - 0 0, MAPPING_CAPACITY 1000000) -> {} -> Discard",
        rules.join(", "),
        between(0),
        between(1),
        between(2)
    )
}

/// The rules of a file and what headers are drawn from: ClassBench's, every other one a permission, or those of the largest
/// IPFilter of a configuration.
fn rules_of(path: &Path) -> Result<(Vec<String>, Vec<String>), String> {
    if path.extension().is_some_and(|extension| extension == "click") {
        let rules = classify::largest_filter(path)?;
        let patterns = rules.iter().map(|rule| action(rule).1.trim().to_string()).collect();
        return Ok((rules, patterns));
    }
    let rules = classify::read(path)?;
    let actions = ["allow", "deny"].into_iter().cycle();
    let written = rules.iter().zip(actions).map(|(rule, action)| format!("{action} {rule}")).collect();
    Ok((written, rules))
}
