//! A report as a single self-contained HTML page: plots as SVG, and tables; no scripts and no external
//! files.

mod plot;

use std::collections::BTreeMap;
use std::fmt::Write;

use self::plot::{Axis, Bars, Plot, Series, Shape, escape};
use crate::analysis::batches::{BatchSize, CAP};
use crate::analysis::totals::FlowSizes;
use crate::histogram::{Distribution, ratio};
use crate::report::TraceReport;
use crate::text::{grouped, per_second, percent, prefixed, span};

const STYLE: &str = "
body { font: 15px/1.4 'DejaVu Sans', Arial, sans-serif; color: #222; background: #fff; max-width: 1020px; margin: 24px auto; padding: 0 12px; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin-top: 28px; border-bottom: 1px solid #bbb; }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 18px 24px; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: 13px; color: #444; margin: 2px 0 0 4px; }
figcaption b { color: #222; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: 2px 10px 2px 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr { border-bottom: 1px solid #e4e4e4; break-inside: avoid; }
.note { color: #a33; } .origin { font-size: 12px; color: #666; overflow-wrap: anywhere; }
/* What is alone in the last row has its caption at its side. */
@media (min-width: 701px) {
  .plots > :last-child:nth-child(odd) { grid-column: 1 / -1; display: grid; grid-template-columns: 1fr 1fr; }
  .plots > :last-child { gap: 0 24px; align-items: center; }
}
@media screen and (min-width: 1500px) {
  body { max-width: 1460px; } .plots { grid-template-columns: 1fr 1fr 1fr; }
  .plots > :last-child:nth-child(3n) { grid-column: auto; display: block; }
  .plots > :last-child:nth-child(3n+1) { grid-column: 1 / -1; display: grid; grid-template-columns: 1fr 2fr; }
  .plots > :last-child:nth-child(3n+2) { grid-column: span 2; display: grid; grid-template-columns: 1fr 1fr; }
}
@media (max-width: 700px) { .plots { grid-template-columns: 1fr; } }
/* Plots keep their white ground. */
@media screen and (prefers-color-scheme: dark) {
  body { color: #ddd; background: #16181b; } h2 { border-color: #555; } tr { border-color: #3a3d42; }
  figcaption { color: #bbb; } figcaption b { color: #eee; } .note { color: #f28b82; } .origin { color: #999; }
}
@media print { body { font-size: 11px; margin: 0; max-width: none; } figcaption, table { font-size: 10px; } }
";

/// Returns the report as an HTML page. `origin` has the lines at the foot of the page about the source of
/// the report: program, machine, load and captures.
pub fn page(report: &TraceReport, origin: &str) -> String {
    let names: Vec<&str> = report.traces.iter().map(|trace| trace.name.as_str()).collect();
    let title = escape(&names.join(", "));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Traffic of {title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>Traffic of {title}</h1>\n"
    );
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(note));
    }
    facts(&mut page, report);
    section(&mut page, "Flows and packets", &[flow_sizes(report), packet_sizes(report), concurrency(report)]);
    section(&mut page, "Locality", &[spatial(report), temporal(report), switches(report)]);
    let windows = [
        batch(&report.batch, "Waiting for more of a flow", CAPPED),
        batch(&report.batch_uncapped, "Waiting, any number of packets", UNCAPPED),
        acks(report),
    ];
    section(&mut page, "What waiting would bring", &windows);
    if report.tcp_reordering.reordered > 0 {
        section(&mut page, "Order of TCP", &[reordering(report)]);
    }
    addresses(&mut page, report);
    page.push_str(
        "<p>Flows are directed five-tuples of unfragmented TCP and UDP. Made by <code>tidegate analyze</code>, whose \
         documentation defines every figure; <code>--json</code> gives the numbers.</p>\n",
    );
    let lines: Vec<String> = origin.lines().map(escape).collect();
    let _ = writeln!(page, "<p class=\"origin\">{}</p></body></html>", lines.join("<br>\n"));
    page
}

const CAPPED: &str = "A batch starts with a packet of a TCP flow and takes what follows of this flow within the \
    window, 32 packets at most. Where the lines leave 1, holding packets for that long builds bursts.";
const UNCAPPED: &str = "As the previous plot, without a limit on batches: where the two differ, batches of more than \
                        32 would form.";

/// A plot with its title, and a caption that says how to read it.
struct Figure {
    svg: String,
    title: &'static str,
    caption: String,
}

fn section(page: &mut String, title: &str, figures: &[Figure]) {
    let _ = writeln!(page, "<h2>{title}</h2>\n<div class=\"plots\">");
    for figure in figures {
        let (svg, title, caption) = (&figure.svg, figure.title, escape(&figure.caption));
        let _ = writeln!(page, "<figure>{svg}<figcaption><b>{title}.</b> {caption}</figcaption></figure>");
    }
    page.push_str("</div>\n");
}

fn facts(page: &mut String, r: &TraceReport) {
    page.push_str("<table>");
    let mut row = |what: &str, value: String| {
        let _ = write!(page, "<tr><td>{what}</td><td>{}</td></tr>", escape(&value));
    };
    let seconds =
        if r.duration_s < 10.0 { format!("{:.4}", r.duration_s) } else { format!("{:.1}", r.duration_s) };
    row("packets", format!("{} in {seconds} s", grouped(r.packets)));
    row("bytes", format!("{}, {:.0} per packet", grouped(r.bytes), r.mean_packet_bytes));
    row("rate", format!("{}bit/s, {} packets/s", prefixed(r.bits_per_s), per_second(r.packets_per_s)));
    let share = |packets: u64| percent(ratio(packets as f64, r.packets as f64));
    row("TCP, UDP packets", format!("{}, {}", share(r.kinds.tcp.packets), share(r.kinds.udp.packets)));
    if r.cut_packets > 0 {
        row("cut by the snap length", format!("{} packets", grouped(r.cut_packets)));
    }
    row("flows", format!("{}, {} of them TCP", grouped(r.flows), grouped(r.tcp_flows)));
    row("SLF (packets per run of a flow)", format!("{:.3}", r.slf));
    let order = &r.tcp_reordering;
    row(
        "TCP segments out of order",
        format!("{} ({})", grouped(order.reordered), percent(r.tcp_reordered_ratio)),
    );
    row(
        "sliceable",
        format!("{} of packets, {} of bytes", percent(r.sliceable.packets), percent(r.sliceable.bytes)),
    );
    page.push_str("</table>\n");
}

/// Returns the points of the cumulative distribution function: for each bin, its largest value and the
/// share of all values up to it. The first point is the smallest value with a share of 0.
fn cumulated(distribution: &Distribution) -> Vec<(f64, f64)> {
    let mut sum = 0;
    let start = distribution.bins.first().map(|bin| (bin.from as f64, 0.0));
    let steps = distribution.bins.iter().map(|bin| {
        sum += bin.count;
        (bin.to.min(distribution.max) as f64, sum as f64 / distribution.count as f64)
    });
    start.into_iter().chain(steps).collect()
}

/// Formats a number as the label of an axis, with a prefix such as k or M.
fn tick(number: f64) -> String {
    match number {
        n if n < 1e3 => format!("{n:.0}"),
        n if n < 1e6 => format!("{} k", short(n / 1e3, 2)),
        n if n < 1e9 => format!("{} M", short(n / 1e6, 2)),
        n => format!("{} G", short(n / 1e9, 2)),
    }
}

/// Formats a number with at most `digits` decimal places, without trailing zeros.
fn short(number: f64, digits: usize) -> String {
    format!("{number:.digits$}").trim_end_matches('0').trim_end_matches('.').into()
}

fn tick_time(nanoseconds: f64) -> String {
    span(nanoseconds).replace(".0 ", " ").replace("us", "µs")
}

/// Returns a plot of the cumulative distributions in `all`, with their names, over one logarithmic x axis.
/// Empty distributions are left out.
fn cdf(
    title: &str,
    all: &[(&'static str, &Distribution)],
    x: &'static str,
    y: &'static str,
    tick: fn(f64) -> String,
) -> String {
    let used = || all.iter().filter(|(_, distribution)| distribution.count > 0);
    let low = used().map(|(_, d)| d.min).min().unwrap_or(1);
    let high = used().map(|(_, d)| d.max).max().unwrap_or(10);
    let x = Axis::log(x, 10.0, (low as f64, high as f64), tick);
    let series = used().map(|&(name, d)| Series { name, shape: Shape::Steps(cumulated(d)) }).collect();
    Plot { x, y: Axis::share(y), series }.svg(title)
}

fn flow_sizes(r: &TraceReport) -> Figure {
    let sizes: &FlowSizes = &r.tcp_flow_sizes;
    let series = |name, value: fn(&crate::analysis::totals::SizeStep) -> f64| Series {
        name,
        shape: Shape::Steps(sizes.cdf.iter().map(|step| (step.up_to as f64, value(step))).collect()),
    };
    let ends = (sizes.bytes.min as f64, sizes.bytes.max as f64);
    let plot = Plot {
        x: Axis::log("size of a TCP flow (bytes)", 10.0, ends, tick),
        y: Axis::share("flows up to this size, bytes in them"),
        series: vec![series("flows", |step| step.flows), series("bytes", |step| step.bytes)],
    };
    let caption = "The wider the gap between the two lines, the more of the bytes are in few large flows.";
    const TITLE: &str = "Sizes of TCP flows";
    Figure { svg: plot.svg(TITLE), title: TITLE, caption: caption.into() }
}

fn packet_sizes(r: &TraceReport) -> Figure {
    const TITLE: &str = "Packet sizes";
    let svg =
        cdf(TITLE, &[("packets", &r.packet_bytes)], "bytes on the wire", "packets up to this size", tick);
    let caption = format!(
        "Steps are sizes that many packets have. Slicing pays for those from 500 bytes: {} of the packets, whose \
         payload is {} of all bytes.",
        percent(r.sliceable.packets),
        percent(r.sliceable.bytes)
    );
    Figure { svg, title: TITLE, caption }
}

fn concurrency(r: &TraceReport) -> Figure {
    let both =
        [("all TCP flows", &r.concurrent_flows_150us), ("over 10 MB", &r.concurrent_large_flows_150us)];
    const TITLE: &str = "Concurrent flows";
    let svg = cdf(TITLE, &both, "flows active within 150 µs", "windows with up to this number", tick);
    let caption = format!(
        "Median {}, 99th percentile {}. Where there are fewer flows than cores, steering by flow leaves cores idle.",
        r.concurrent_flows_150us.p50, r.concurrent_flows_150us.p99
    );
    Figure { svg, title: TITLE, caption }
}

fn spatial(r: &TraceReport) -> Figure {
    let d = &r.spatial_distance;
    const TITLE: &str = "Spatial distance";
    let svg = cdf(
        TITLE,
        &[("packets", d)],
        "packets of other flows in between",
        "packets up to this distance",
        tick,
    );
    let adjacent = d.bins.first().filter(|bin| bin.to == 0).map_or(0, |bin| bin.count);
    let caption = format!(
        "Distance of a packet from the one before it in its flow. {} follow it directly; the further to the right \
         the line rises, the less a cache still knows of the flow.",
        percent(ratio(adjacent as f64, d.count as f64))
    );
    Figure { svg, title: TITLE, caption }
}

fn temporal(r: &TraceReport) -> Figure {
    let d = &r.temporal_distance_ns;
    const TITLE: &str = "Temporal distance";
    let svg = cdf(
        TITLE,
        &[("packets", d)],
        "time since the packet before",
        "packets up to this distance",
        tick_time,
    );
    let caption = format!(
        "Time between packets of a flow, median {}. A wait brings together the packets left of its length.",
        tick_time(d.p50 as f64)
    );
    Figure { svg, title: TITLE, caption }
}

fn switches(r: &TraceReport) -> Figure {
    let packets = (r.kinds.tcp.packets + r.kinds.udp.packets) as f64;
    let share = |count: u64| ratio(count as f64, packets);
    let groups = r.switches.iter();
    let groups = groups.map(|(size, s)| (size.to_string(), vec![share(s.as_is), share(s.ordered)])).collect();
    let bars = Bars {
        x_label: "packets per batch",
        y: Axis::share("flow switches per packet"),
        names: vec!["as is", "ordered by flow"],
        groups,
    };
    let caption = "How often the flow changes from one packet of a batch to the next. The difference is what \
                   sorting each batch by flow would save.";
    const TITLE: &str = "Flow switches";
    Figure { svg: bars.svg(TITLE), title: TITLE, caption: caption.into() }
}

fn windows(title: &str, rows: &[(u32, BatchSize)], y: &'static str) -> String {
    let top = rows.iter().map(|(_, batch)| (batch.p75 as f64).max(batch.mean)).fold(2.0, f64::max);
    let line = |value: fn(&BatchSize) -> f64| {
        Shape::Line(rows.iter().map(|(window, batch)| (f64::from(*window), value(batch))).collect())
    };
    let band = rows.iter().map(|(window, b)| (f64::from(*window), b.p25 as f64, b.p75 as f64)).collect();
    let plot = Plot {
        x: Axis::log("window (µs)", 2.0, (1.0, 1024.0), |value| format!("{value:.0}")),
        // No mean batch size is below 1 packet. So if batches are small, the y axis starts at 1, which shows
        // the differences better.
        y: Axis::linear(y, if top > 5.0 { 0.0 } else { 1.0 }, top, |value| short(value, 3)),
        series: vec![
            Series { name: "quartiles", shape: Shape::Band(band) },
            Series { name: "mean", shape: line(|batch| batch.mean) },
            Series { name: "median", shape: line(|batch| batch.p50 as f64) },
        ],
    };
    plot.svg(title)
}

fn batch(batches: &BTreeMap<u32, BatchSize>, title: &'static str, caption: &str) -> Figure {
    let rows: Vec<(u32, BatchSize)> = batches.iter().map(|(window, batch)| (*window, *batch)).collect();
    Figure { svg: windows(title, &rows, "packets per batch"), title, caption: caption.into() }
}

fn acks(r: &TraceReport) -> Figure {
    let rows: Vec<(u32, BatchSize)> =
        r.ack_coalescing.iter().map(|(window, acks)| (*window, acks.all)).collect();
    let most = r.ack_coalescing.last_key_value().map(|(_, acks)| *acks).unwrap_or_default();
    let caption = format!(
        "Packets with the ACK flag that a flow has within the window, at most {CAP}. Of {} pure ACKs, up to {} \
         could be spared with windows of 1024 µs.",
        grouped(most.pure_acks),
        percent(most.removable)
    );
    const TITLE: &str = "ACK coalescing";
    Figure { svg: windows(TITLE, &rows, "packets with ACK per batch"), title: TITLE, caption }
}

fn reordering(r: &TraceReport) -> Figure {
    let order = &r.tcp_reordering;
    const TITLE: &str = "Reordered segments";
    let svg = cdf(
        TITLE,
        &[("reordered segments", &order.delay_ns)],
        "time after the gap was seen",
        "segments up to this time",
        tick_time,
    );
    let caption = format!(
        "Delays of {} reordered segments. Segments right of 3 ms ({}) were probably lost before the capture point and \
         sent again; a buffer that waits puts the rest in order.",
        grouped(order.reordered),
        grouped(order.late)
    );
    Figure { svg, title: TITLE, caption }
}

fn addresses(page: &mut String, r: &TraceReport) {
    if r.top_ips.is_empty() {
        return;
    }
    page.push_str("<h2>Addresses with the most TCP flows</h2>\n<table><tr><th>address</th>");
    for column in ["", "flows", "min", "mean", "median", "max", "16 µs", "64 µs", "256 µs", "1024 µs"] {
        let _ = write!(page, "<th>{column}</th>");
    }
    page.push_str("</tr>");
    for top in &r.top_ips {
        for (name, direction) in [("tx", &top.tx), ("rx", &top.rx)] {
            let (sizes, flows) = (&direction.packets, grouped(direction.flows));
            let [min, median, max] = [sizes.min, sizes.p50, sizes.max].map(grouped);
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{name}</td><td>{flows}</td><td>{min}</td><td>{:.2}</td><td>{median}</td><td>{max}</td>",
                top.address, sizes.mean
            );
            for window in [16, 64, 256, 1024] {
                let mean = direction.batch.get(&window).map_or(0.0, |batch| batch.mean);
                let _ = write!(page, "<td>{mean:.3}</td>");
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</table>\n<p>Packets per flow, and mean sizes of per-flow batches for four windows; tx are flows from the address, rx those to it.</p>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beside_ticks_are_short() {
        assert_eq!([5.0, 1e3, 1234.0, 2.5e6, 1e9].map(tick), ["5", "1 k", "1.23 k", "2.5 M", "1 G"]);
        assert_eq!([10.0, 1e3, 1.5e5, 1e7].map(tick_time), ["10 ns", "1 µs", "150 µs", "10 ms"]);
    }
}
