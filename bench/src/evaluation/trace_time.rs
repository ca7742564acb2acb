//! Runs of configurations on the trace clock. The results are the same on every machine, however busy it
//! is.

use engine::{ClockKind, Options, Workers};

use crate::runner::{Silence, configured, registry};

/// Runs a configuration on the trace clock to its end. Then reads handlers (element, handler) and returns
/// their values.
pub(crate) fn read_after(text: String, handlers: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let (plan, copies) = configured(text, 1, None, &registry())?;
    let options = Options { clock: ClockKind::Trace, ..Options::default() };
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), options)?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    workers.run();
    let read = |(element, handler): &(&str, &str)| workers.read(plan.graph.find(element), handler, "");
    let values = handlers.iter().map(read).collect::<Result<_, _>>()?;
    workers.finish().map_err(|errors| errors.join("; "))?;
    Ok(values)
}
