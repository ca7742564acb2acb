//! The table that is printed at the end of a run.

use std::fmt::Write;
use std::time::Duration;

use engine::RunReport;

/// The most rows for elements; further elements are counted.
const ROWS: usize = 60;

/// Returns the table as text. It has a row for each element that got packets, up to [`ROWS`]: packets in,
/// out, held, and dropped by reason. Then come the sums, the workers, the duration, and the packets that were
/// lost before they were received. With `live`, packets come from interfaces, and most of the duration is
/// waiting time, so the time per packet is not shown.
pub(crate) fn render(report: &RunReport, elapsed: Duration, live: bool) -> String {
    let busy: Vec<_> = report.elements.iter().filter(|e| e.packets_in > 0).collect();
    let names = busy.iter().take(ROWS).map(|e| e.name.len() + e.class.len() + 4);
    let width = names.max().unwrap_or(0).clamp(12, 48);
    let mut text = String::new();
    let mut row = |name: &str, numbers: [u64; 4], drops: &str| {
        let [packets_in, out, held, dropped] = numbers;
        let line = format!("{name:width$} {packets_in:>12} {out:>12} {held:>8} {dropped:>10}  {drops}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    for e in busy.iter().take(ROWS) {
        let name =
            if e.name.contains(&e.class) { e.name.clone() } else { format!("{} :: {}", e.name, e.class) };
        row(&name, [e.packets_in, e.out, e.held, e.dropped()], &reasons(&e.drops));
    }
    let t = &report.totals;
    row("all", [t.packets_in, t.out, t.held, t.dropped], &reasons(&t.drops));
    for (number, w) in report.workers.iter().enumerate() {
        let mut exchange = format!("took {} over, handed {} over", w.taken, w.handed);
        if w.waited > 0 {
            let _ = write!(exchange, ", {} waited at once", w.waited);
        }
        if w.busy_ns > 0 && !elapsed.is_zero() {
            let _ = write!(exchange, ", busy {:.0} %", w.busy_ns as f64 * 100.0 / elapsed.as_nanos() as f64);
        }
        if w.late > 0 {
            let _ = write!(exchange, ", let {} out of order", w.late);
        }
        if let Some(displaced) = w.displaced {
            let most = w.displaced_most.map_or(String::new(), |most| format!(" of at most {most}"));
            let _ = write!(exchange, ", displaced by {displaced}{most} packets");
        }
        row(&format!("worker {number}"), [w.packets_in, w.out, w.held, w.dropped], &exchange);
    }
    let head = format!("{:width$} {:>12} {:>12} {:>8} {:>10}\n", "element", "in", "out", "held", "dropped");
    if busy.len() > ROWS {
        let _ = writeln!(text, "({} more elements; --json has all of them)", busy.len() - ROWS);
    }
    let seconds = elapsed.as_secs_f64();
    let _ = write!(text, "{} packets in {seconds:.3} s", t.packets_in);
    if t.packets_in > 0 && !live {
        let each = trace::text::span(seconds * 1e9 / t.packets_in as f64);
        let _ = write!(text, ", {each} each");
    }
    text.push('\n');
    if t.missed > 0 {
        let each =
            report.elements.iter().filter(|e| e.missed > 0).map(|e| format!("{} {}", e.name, e.missed));
        let each = each.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "lost before they were received, because buffers were full: {} ({each})",
            t.missed
        );
    }
    head + &text
}

fn reasons(drops: &std::collections::BTreeMap<&'static str, u64>) -> String {
    drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}
