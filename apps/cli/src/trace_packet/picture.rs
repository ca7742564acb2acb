//! The picture of a graph with the way of a traced packet.

use engine::{StepOutcome, TraceStep};
use lang::{Graph, PictureMarks};
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

/// Draws the graph, and marks the elements and the connections that the packets took, as SVG, or in the
/// language of Graphviz if `is_dot`.
///
/// # Errors
/// If the graph cannot be drawn: a message for the user.
pub(super) fn draw(graph: &Graph, title: &str, steps: &[TraceStep], is_dot: bool) -> Result<String, String> {
    let mut marks = PictureMarks::default();
    for (number, step) in (1..).zip(steps) {
        let ends = match &step.outcome {
            StepOutcome::Left { output, to: Some(to) } => {
                let order = marks.connections.entry(((step.element, *output), *to)).or_default();
                order.push(number);
                None
            }
            StepOutcome::Left { to: None, .. } => Some("dropped".to_string()),
            StepOutcome::Dropped(reasons) => Some(format!("dropped: {}", reasons.join(" or "))),
            StepOutcome::Sent => Some("sent".into()),
            StepOutcome::Held => Some("held".into()),
            StepOutcome::HeldOrDropped(reasons) => {
                Some(format!("held, or dropped: {}", reasons.join(" or ")))
            }
            StepOutcome::Consumed => Some("ends here".into()),
            StepOutcome::Lost => Some("dropped later".into()),
            StepOutcome::HandedOver => Some("handed over".into()),
        };
        let note = marks.elements.entry(step.element).or_default();
        note.extend(ends.map(|ends| format!("{number}. {ends}")));
    }
    let dot = lang::dot(graph, title, &marks);
    if is_dot { Ok(dot) } else { svg(&dot) }
}

/// Draws a graph in the DOT language as SVG.
fn svg(dot: &str) -> Result<String, String> {
    // The layout of a graph of an unusual form may fail by a panic of the library.
    let drawn = std::panic::catch_unwind(|| {
        let mut builder = GraphBuilder::new();
        builder.visit_graph(&DotParser::new(dot).process()?);
        let mut writer = SVGWriter::new();
        builder.get().do_it(false, false, false, &mut writer);
        // Without a ground of its own, the picture could not be read in a dark viewer.
        const GROUND: &str = "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<defs>";
        Ok(writer.finalize().replacen("<defs>", GROUND, 1))
    });
    let failed = |why: String| {
        format!("the picture cannot be drawn ({why}); Graphviz can draw it: --picture FILE.dot")
    };
    drawn.unwrap_or_else(|_| Err("the layout failed".to_string())).map_err(failed)
}
