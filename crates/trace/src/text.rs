//! The text form of a report, for users.

use std::fmt::{self, Display, Write};

use crate::analysis::batches::CAP;
use crate::analysis::reordering::LATE_NS;
use crate::analysis::slicing::THRESHOLD;
use crate::histogram::ratio;
use crate::report::TraceReport;

/// Formats a number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time in nanoseconds, us, ms or s.
pub fn span(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.1} s", n / 1e9),
    }
}

/// Formats a number with a decimal prefix (k, M, G) if it is at least 10,000.
pub fn scaled(number: f64) -> String {
    match number {
        n if n < 1e4 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1} k", n / 1e3),
        n if n < 1e9 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} G", n / 1e9),
    }
}

/// Formats a rate per second, with one decimal place if it is below 10.
pub fn per_second(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { grouped(number.round() as u64) }
}

/// Formats a share from 0 to 1 as a percentage with two decimal places.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

impl Display for TraceReport {
    /// Writes the most important results by topic: traffic, flows, locality, batches, order, slicing,
    /// addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&summary(self))?;
        f.write_str(&locality(self))?;
        f.write_str(&batches(self))?;
        f.write_str(&potential(self))?;
        f.write_str(&addresses(self))
    }
}

/// Appends a line with a label in a column of 25 characters, and its figures.
fn row(text: &mut String, what: &str, figures: impl Display) {
    let _ = writeln!(text, "  {what:25} {figures}");
}

fn summary(r: &TraceReport) -> String {
    let mut text = String::new();
    for trace in &r.traces {
        let end = if trace.complete { "" } else { ", then damaged" };
        let _ = writeln!(text, "{}: {} packets{end}", trace.name, grouped(trace.packets));
    }
    text.push_str("\ntraffic\n");
    let rates = format!("{}bit/s, {} packets/s", prefixed(r.bits_per_s), per_second(r.packets_per_s));
    row(&mut text, "packets", format_args!("{} in {:.6} s ({rates})", grouped(r.packets), r.duration_s));
    row(&mut text, "bytes", format_args!("{}, {:.1} per packet", grouped(r.bytes), r.mean_packet_bytes));
    let kinds = [
        ("TCP", r.kinds.tcp),
        ("UDP", r.kinds.udp),
        ("fragments", r.kinds.fragments),
        ("other IP", r.kinds.other_ip),
        ("not IP", r.kinds.not_ip),
    ];
    for (kind, amount) in kinds.into_iter().filter(|(_, amount)| amount.packets > 0) {
        let shares =
            [ratio(amount.packets as f64, r.packets as f64), ratio(amount.bytes as f64, r.bytes as f64)]
                .map(percent);
        let packets = grouped(amount.packets);
        row(&mut text, kind, format_args!("{packets} packets ({}), {} of the bytes", shares[0], shares[1]));
    }
    if r.cut_packets > 0 {
        row(&mut text, "cut by the snap length", format_args!("{} packets", grouped(r.cut_packets)));
    }
    text.push_str("\nflows (directed, TCP and UDP)\n");
    let (packets, bytes) = (&r.flow_sizes.packets, &r.flow_sizes.bytes);
    row(&mut text, "flows", format_args!("{}, {} of them TCP", grouped(r.flows), grouped(r.tcp_flows)));
    for (what, sizes) in [("packets per flow", packets), ("bytes per flow", bytes)] {
        let [p50, p90, p99, max] = [sizes.p50, sizes.p90, sizes.p99, sizes.max].map(grouped);
        row(
            &mut text,
            what,
            format_args!("mean {:.1}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}", sizes.mean),
        );
    }
    text
}

/// Formats a number like [`scaled`], with a space at the end if there is no prefix, so that a unit can
/// follow.
pub fn prefixed(number: f64) -> String {
    let text = scaled(number);
    if text.contains(' ') { text } else { text + " " }
}

fn locality(r: &TraceReport) -> String {
    let mut text = String::from("\nlocality\n");
    row(&mut text, "SLF", format_args!("{:.3} packets per run of one flow", r.slf));
    let d = &r.spatial_distance;
    let figures =
        format!("p25 {}, p50 {}, p75 {}, p99 {} packets of other flows", d.p25, d.p50, d.p75, d.p99);
    row(&mut text, "between packets of a flow", figures);
    let d = &r.temporal_distance_ns;
    let [p25, p50, p75, p99] = [d.p25, d.p50, d.p75, d.p99].map(|time| span(time as f64));
    row(&mut text, "", format_args!("p25 {p25}, p50 {p50}, p75 {p75}, p99 {p99}"));
    for (size, switch) in &r.switches {
        let (as_is, ordered) = (grouped(switch.as_is), grouped(switch.ordered));
        row(
            &mut text,
            &format!("switches, batches of {size}"),
            format_args!("{as_is}, if ordered {ordered}"),
        );
    }
    let all = &r.concurrent_flows_150us;
    let large = &r.concurrent_large_flows_150us;
    let figures = format!("p50 {}, p99 {}, max {}", all.p50, all.p99, all.max);
    row(&mut text, "TCP flows in 150 us", figures);
    let figures =
        format!("{} flows; in 150 us p50 {}, p99 {}", grouped(r.large_tcp_flows), large.p50, large.p99);
    row(&mut text, "over 10 MB", figures);
    text
}

fn batches(r: &TraceReport) -> String {
    let mut text = format!("\nTCP packets of a flow in a window (at most {CAP}; uncapped; with ACK flag)\n");
    let _ = writeln!(
        text,
        "  {:>9} {:>8} {:>5} {:>5} {:>5} {:>10} {:>8} {:>10} {:>10}",
        "window/us", "mean", "p25", "p50", "p75", "uncapped", "max", "ACK mean", "removable"
    );
    let rows = r.batch.iter().zip(r.batch_uncapped.values()).zip(r.ack_coalescing.values());
    for (((window, batch), uncapped), acks) in rows {
        let removable = percent(acks.removable);
        let _ = writeln!(
            text,
            "  {window:>9} {:>8.3} {:>5} {:>5} {:>5} {:>10.3} {:>8} {:>10.3} {removable:>10}",
            batch.mean, batch.p25, batch.p50, batch.p75, uncapped.mean, uncapped.max, acks.all.mean
        );
    }
    text
}

fn potential(r: &TraceReport) -> String {
    let mut text = String::from("\nTCP order, slicing\n");
    let t = &r.tcp_reordering;
    let figures = format!(
        "{} of {} segments ({}), {} retransmitted",
        grouped(t.reordered),
        grouped(t.segments),
        percent(r.tcp_reordered_ratio),
        grouped(t.retransmitted)
    );
    row(&mut text, "reordered", figures);
    if t.reordered > 0 {
        let [p50, p99] = [t.delay_ns.p50, t.delay_ns.p99].map(|time| span(time as f64));
        let late = format!("{} after more than {}", grouped(t.late), span(LATE_NS as f64));
        row(
            &mut text,
            "late by",
            format_args!("p50 {p50}, p99 {p99}; {late} (probably lost and sent again)"),
        );
    }
    let (packets, bytes) = (percent(r.sliceable.packets), percent(r.sliceable.bytes));
    let figures =
        format!("{packets} of the packets, {bytes} of the bytes (frames from {THRESHOLD} B, their payload)");
    row(&mut text, "sliceable", figures);
    text
}

fn addresses(r: &TraceReport) -> String {
    if r.top_ips.is_empty() {
        return String::new();
    }
    let width = r.top_ips.iter().map(|top| top.address.to_string().len()).max().unwrap_or(0).max(7);
    let mut text = String::from("\naddresses with the most TCP flows (tx: from it, rx: to it)\n");
    let _ = writeln!(
        text,
        "  {:width$}    {:>9} {:>8} {:>10} {:>8} {:>10} {:>10} {:>11}",
        "address", "flows", "min", "mean", "median", "max", "batch 64us", "batch 256us"
    );
    for top in &r.top_ips {
        for (name, direction) in [("tx", &top.tx), ("rx", &top.rx)] {
            let packets = &direction.packets;
            let batch = |window| direction.batch.get(&window).map_or(0.0, |batch| batch.mean);
            let (address, flows) = (top.address.to_string(), direction.flows);
            let _ = writeln!(
                text,
                "  {address:width$} {name} {flows:>9} {:>8} {:>10.2} {:>8} {:>10} {:>10.3} {:>11.3}",
                packets.min,
                packets.mean,
                packets.p50,
                packets.max,
                batch(64),
                batch(256)
            );
        }
    }
    text.push_str("  (packets per flow; mean sizes of per-flow batches)\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 9_999.0, 10_000.0, 6_790_400.0, 2.5e9].map(scaled),
            ["0", "9999", "10.0 k", "6.8 M", "2.5 G"]
        );
        assert_eq!([0.0, 0.25, 9.96, 12_716.4].map(per_second), ["0.0", "0.2", "10.0", "12,716"]);
        assert_eq!([0.4, 1_500.0, 2.5e6, 3e9].map(span), ["0 ns", "1.5 us", "2.5 ms", "3.0 s"]);
        assert_eq!((prefixed(5.0), prefixed(2e6)), ("5 ".into(), "2.0 M".into()));
    }
}
