//! The benchmark `chain`: the chain of network functions of the Reframer paper.

use crate::classify;
use crate::frames::Start;
use crate::routing::routes;
use crate::runner::{drive, measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures the Reframer paper's chain: router, translator, firewall with 10,000 rules, statistics of flows.
/// The chains of the first three rows end with the router, the translator and the firewall. The other rows
/// have the whole chain at several SLF, without and with a Reframer between CheckIPHeader and the router.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut measure = |front: &str, slf, functions: &[String], params: &[(&'static str, Param)]| {
        let chain = behind_the_check(front, functions);
        let worker = worker_with(settings.packets, (FUNCTIONS_FLOWS, slf), 64, Start::Ethernet, &chain)?;
        rows.push(measure_worker("chain", settings, 64, worker, params)?);
        Ok::<_, String>(())
    };
    let functions = each_function(RULES);
    for (number, last) in ["router", "translator", "firewall"].into_iter().enumerate() {
        measure("", 1, &functions[..=number], &[("to", Param::Word(last)), ("slf", Param::Number(1))])?;
    }
    for (held, front) in [("no", ""), ("flows", "Reframer(64us, BYPASS none) ->")] {
        for slf in [1, 4, 16] {
            let params = [("held", Param::Word(held)), ("slf", Param::Number(slf as u64))];
            measure(front, slf, &functions, &params)?;
        }
    }
    if settings.repeats >= Settings::FULL.repeats {
        rows.extend(many_flows(settings)?);
    }
    Ok(rows)
}

/// Measures the whole chain with a million flows, whose state does not fit into the caches. The packets take
/// 10 GB of memory.
fn many_flows(settings: &Settings) -> Result<Vec<Row>, String> {
    let flows = 1_000_000;
    let measure = |(slf, orders): (usize, usize)| {
        let packets = orders * flows * slf;
        let mut worker = worker_with(packets, (flows, slf), 64, Start::Ethernet, &functions())?;
        drive(&mut worker, packets)?;
        let params = [("flows", Param::Number(flows as u64)), ("slf", Param::Number(slf as u64))];
        measure_worker("chain", settings, 64, worker, &params)
    };
    [(1, 4), (16, 2)].into_iter().map(measure).collect()
}

/// The number of flows for the chain of network functions.
pub(crate) const FUNCTIONS_FLOWS: usize = 10_000;

/// The number of rules of the firewall.
const RULES: usize = 10_000;

/// Returns the chain of router, translator, firewall with 10,000 rules, and statistics of flows.
pub(crate) fn functions() -> String {
    functions_behind("")
}

/// Returns the chain of [`functions`] with the elements `front` between CheckIPHeader and the router. `front`
/// is empty, or ends in an arrow.
pub(crate) fn functions_behind(front: &str) -> String {
    behind_the_check(front, &each_function(RULES))
}

/// Returns the names and the parts of the chain that end with CheckIPHeader and with each network function,
/// in their order. The firewall has `rules` rules.
pub(crate) fn parts(rules: usize) -> [(&'static str, String); 5] {
    let functions = each_function(rules);
    let names = ["source and check", "router", "translator", "firewall", "statistics"];
    std::array::from_fn(|number| (names[number], behind_the_check("", &functions[..number])))
}

fn behind_the_check(front: &str, functions: &[String]) -> String {
    let functions: String = functions.iter().map(|function| format!("{function} -> ")).collect();
    format!("CheckIPHeader(14) -> {front} {functions}Discard")
}

/// Returns the elements of each network function of the chain, whose firewall has `rules` rules.
fn each_function(rules: usize) -> [String; 4] {
    [
        format!(
            "rt :: RadixIPLookup({}0/0 10.0.0.1 0); rt[1], rt[2], rt[3] => Discard, Discard, Discard;
            rt -> DecIPTTL",
            routes(200, 1)
        ),
        "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)".into(),
        format!("IPFilter({} allow all)", classify::mostly_permitting(&classify::made(rules))),
        "FlowCounter".into(),
    ]
}
