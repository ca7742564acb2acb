//! The benchmark `lang-10k`: the time to parse a configuration of 10,000 elements, and to set it up.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use element::Registry;
use engine::{Options, Plan, Worker};

use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

const ELEMENTS: usize = 10_000;

/// Returns a configuration of ten thousand elements, in chains of compound elements as in generated
/// configurations.
fn text() -> String {
    let mut text = String::from(
        "elementclass Hop { $colour | input -> Paint($colour) -> Counter -> Strip(14) -> Unstrip(14) -> output }\n",
    );
    for chain in 0..ELEMENTS / 50 {
        let _ = write!(text, "s{chain} :: InfiniteSource(LIMIT 1, ACTIVE false)");
        for hop in 0..12 {
            let _ = write!(text, " -> h{chain}_{hop} :: Hop({})", hop + 1);
        }
        let _ = writeln!(text, " -> d{chain} :: Discard;");
    }
    text
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let text = text();
    let registry = Registry::new().with(nf::CLASSES);
    let (mut language, mut set_up) = (Vec::new(), Vec::new());
    for _ in 0..settings.repeats {
        let start = Instant::now();
        let mut sources = lang::Sources::new();
        let id = sources.add("generated", text.clone());
        let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
        if let Some(diagnostic) = diagnostics.first() {
            return Err(diagnostic.render(&sources));
        }
        let elements = graph.elements.len() as f64;
        std::hint::black_box(lang::flatten(&graph));
        let parsed = start.elapsed().as_nanos() as f64 / elements;
        let problem = |problems: Vec<engine::Problem>| format!("{problems:?}");
        let plan = Arc::new(Plan::new(graph, &registry).map_err(problem)?);
        let configured = plan.configure(None).map_err(problem)?;
        let sink = Box::new(engine::StandardStreams::default());
        let mut worker =
            Worker::new(plan, configured, sink, Options::default()).map_err(|e| e.to_string())?;
        worker.initialize().map_err(|problem| format!("{problem:?}"))?;
        let all = start.elapsed().as_nanos() as f64 / elements;
        worker.finish().map_err(|errors| errors.join("; "))?;
        // No packets are read, so there is no floor to compare with. The cost itself takes its place, so that
        // the ratio is 1.
        language.push(Pair { cost: parsed, floor: parsed });
        set_up.push(Pair { cost: all, floor: all });
    }
    let params = [("elements", Param::Number(ELEMENTS as u64))];
    let row = |name, pairs: &[Pair]| Row {
        floor_ns: 0.0,
        ratio: 1.0,
        excludes_floor: true,
        unit: "element",
        speedup: None,
        ..Row::new(name, &params, pairs)
    };
    Ok(vec![row("lang-10k", &language), row("setup-10k", &set_up)])
}
