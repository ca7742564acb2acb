//! The text form of the advice for people, and the configuration that follows from the advice.

use std::fmt::{self, Display, Write};
use std::path::Path;

use lang::args::quote;
use trace::text::{grouped, per_second, prefixed};

use super::judge::{Advice, Judged, Row, Verdict};
use super::measure::NO_PAUSE;
use crate::numbers::percent;

/// The number of columns at which sentences are wrapped.
const WIDTH: usize = 100;

impl Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.heading(&mut text);
        self.holding(&mut text);
        self.others(&mut text);
        f.write_str(&text)
    }
}

/// Writes the paragraph about a mechanism, such as slicing or spraying: its name, its verdict and the reason.
fn verdict(text: &mut String, what: &str, verdict: Verdict, why: &str) {
    let _ = writeln!(text, "\n{what}: {}", verdict.as_str());
    paragraph(text, why);
}

/// Writes a sentence as a paragraph, indented and wrapped at [`WIDTH`].
fn paragraph(text: &mut String, sentence: &str) {
    let mut line = String::new();
    for word in sentence.split(' ') {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 3 > WIDTH {
            let _ = writeln!(text, "  {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "  {line}");
}

/// Writes the two lines at the head of a table of rows. `what` is the heading of the first column.
fn head(text: &mut String, what: &str) {
    let _ = writeln!(
        text,
        "  {what:>10} {:>8} {:>9} {:>7} {:>11} {:>10} {:>9} {:>9} {:>9}",
        "SLF", "switches", "burst", "mean delay", "p99", "wasted", "held", "gain"
    );
    let _ = writeln!(
        text,
        "  {:>10} {:>8} {:>9} {:>7} {:>11} {:>10} {:>9} {:>9} {:>9}",
        "", "", "saved", "packets", "us", "us", "us", "", "ns/packet"
    );
}

fn line(text: &mut String, what: &str, row: &Row, mark: &str) {
    let _ = writeln!(
        text,
        "  {what:>10} {:>8.3} {:>9} {:>7.2} {:>11.1} {:>10.1} {:>9.1} {:>9} {:>9.1}{mark}",
        row.slf,
        percent(row.saved_switches),
        row.mean_burst,
        row.mean_delay_us,
        row.p99_delay_us,
        row.waited_in_vain_us,
        percent(row.held),
        row.gain_ns
    );
}

impl Advice {
    fn heading(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{}: {} packets in {:.3} s ({} packets/s, {}bit/s), {} flows, SLF {:.3}",
            self.trace,
            grouped(self.packets),
            self.duration_s,
            per_second(self.packets_per_s),
            prefixed(self.bits_per_s),
            grouped(self.flows),
            self.slf
        );
    }

    fn holding(&self, text: &mut String) {
        let reframer = &self.reframer;
        verdict(text, "Reframer (holding packets per flow)", reframer.verdict, &reframer.why);
        let worth = reframer.verdict.is_worth_a_try();
        head(text, "DELAY");
        for row in &reframer.delays {
            let mark = if worth && Some(row.delay_us as u32) == reframer.delay_us { "  <" } else { "" };
            line(text, &format!("{} us", row.delay_us), row, mark);
        }
        let a = self.assumptions;
        let assumed = format!(
            "if a flow switch costs the downstream chain {} ns, and a Reframer {} ns per packet and {} ns per burst",
            a.flow_cost_ns, a.hold_packet_ns, a.hold_burst_ns
        );
        paragraph(text, &format!("({assumed})"));
        if let Some(full) = reframer.delays.iter().find(|row| row.overflows > 0) {
            let from = grouped(full.overflows);
            paragraph(text, &format!("({from} packets found no room with {} us)", full.delay_us));
        }
        let (heavy, slo) = (&self.elephants, &self.slo);
        let delay = reframer.delay_us.map_or(String::new(), |delay| format!(", {delay} us"));
        let what = format!("ELEPHANTS (holding heavy flows only{delay})");
        verdict(text, &what, heavy.verdict, &heavy.why);
        if worth {
            head(text, "packets");
            for row in &heavy.rows {
                let mark = if row.elephants == heavy.best { "  <" } else { "" };
                line(text, &row.elephants.to_string(), row, mark);
            }
        }
        verdict(text, "SLO (holding flows only of which more is expected)", slo.verdict, &slo.why);
        if worth {
            head(text, "SLO");
            for row in &slo.rows {
                let mark = if slo.best > 0 { "  <" } else { "" };
                line(text, &format!("{} us", row.slo_us), row, mark);
            }
        }
    }

    fn others(&self, text: &mut String) {
        let judged: [(&str, &Judged); 4] = [
            ("COMPRESS (dropping superfluous ACKs)", &self.ack_coalescing.judged),
            ("REORDER (TCP segments in order)", &self.sorting.judged),
            ("Slicing (parking payloads)", &self.slicing.judged),
            ("Spraying (packets of a flow over all cores)", &self.spraying.judged),
        ];
        for (what, judged) in judged {
            verdict(text, what, judged.verdict, &judged.why);
        }
        for note in &self.notes {
            text.push('\n');
            paragraph(text, &format!("note: {note}"));
        }
        text.push_str("\nConfiguration\n");
        if let Some(row) = &self.configured {
            paragraph(text, &self.configured(row));
        }
        text.push('\n');
        for line in self.configuration.lines() {
            let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "  " });
        }
    }

    /// Describes the results of the advised configuration, in which all arguments were tried together.
    fn configured(&self, row: &Row) -> String {
        let mut text = format!(
            "tried: {} of the flow switches saved, SLF {:.3} after the reframer, mean delay {:.1} us",
            percent(row.saved_switches),
            row.slf,
            row.mean_delay_us
        );
        if row.coalesced > 0 {
            text += &format!(", {} ACKs dropped, which no longer count in runs", grouped(row.coalesced));
        }
        if row.mended > 0 {
            text += &format!(", {} segments put in order", grouped(row.mended));
        }
        text
    }

    /// Returns the arguments of the advised Reframer: as text, and as a row without results. `delay_us` is
    /// its DELAY, unless an SLO is advised. Returns `None` if no Reframer is advised.
    pub(super) fn arguments(&self, delay_us: u32) -> Option<(String, Row)> {
        let (acks, order) = (self.ack_coalescing.judged.verdict, self.sorting.judged.verdict);
        if !self.reframer.verdict.is_worth_a_try() && ![acks, order].contains(&Verdict::Pays) {
            return None;
        }
        // An SLO makes ELEPHANTS unnecessary: small flows pass without waiting, because no more of their
        // packets are expected.
        let (mut text, row) = match (self.slo.best, self.elephants.best) {
            (0, 0) => (format!("DELAY {delay_us}us"), Row { delay_us: delay_us.into(), ..Row::default() }),
            (0, elephants) => (
                format!("DELAY {delay_us}us, ELEPHANTS {elephants}"),
                Row { delay_us: delay_us.into(), elephants, ..Row::default() },
            ),
            (slo, _) => (format!("SLO {slo}us"), Row { slo_us: slo.into(), ..Row::default() }),
        };
        if acks.is_worth_a_try() {
            text += ", COMPRESS true";
        }
        if order.is_worth_a_try() {
            text += ", REORDER true";
        }
        Some((text, row))
    }

    /// Returns the purpose of the advised Reframer, as a comment in the configuration.
    fn purpose(&self) -> String {
        let alone = match self.reframer.verdict {
            Verdict::Pays | Verdict::Little => {
                return "// Elements downstream of the reframer receive the packets of a flow together.\n"
                    .into();
            }
            Verdict::DoesNotPay => "for the order of flows alone it does not pay",
            Verdict::Unknown => "its benefit for the order of flows is not known",
        };
        let uses = [
            (self.ack_coalescing.judged.verdict, "drop superfluous ACKs"),
            (self.sorting.judged.verdict, "put TCP segments in order"),
        ];
        let uses: Vec<_> = uses.iter().filter(|(verdict, _)| verdict.is_worth_a_try()).map(|u| u.1).collect();
        format!("// The reframer is there to {}; {alone}.\n", uses.join(" and to "))
    }

    /// Returns a complete configuration that applies the advice to this capture.
    pub(super) fn configuration(&self, capture: &Path, arguments: Option<String>, capacity: u64) -> String {
        let name = quote(capture.as_os_str().as_encoded_bytes());
        let mut text = String::from("// Made by `tidegate advise`.\n");
        match (&self.configured, self.reframer.verdict) {
            (Some(row), _) => {
                text += &self.purpose();
                let _ = writeln!(
                    text,
                    "// To hold packets in the time of the capture: tidegate run --clock trace FILE. The SLF after the\n\
                     // reframer is then {:.3}.",
                    row.slf
                );
            }
            (None, Verdict::Unknown) => text += "// It is not known if a Reframer pays here.\n",
            (None, _) => text += "// A Reframer does not pay here.\n",
        }
        let _ = write!(text, "\ndefine($IN {name}, $OUT advised-out.pcap)\n\nFromDump($IN)\n");
        if let Some(mut arguments) = arguments.clone() {
            if capacity > 65_536 {
                let _ = write!(arguments, ", CAPACITY {capacity}");
            }
            // A Reframer with REORDER or COMPRESS never pauses anyway. Any other Reframer gets the argument
            // that forbids pauses.
            if !["REORDER", "COMPRESS"].iter().any(|never| arguments.contains(never)) {
                let _ = write!(arguments, ", {NO_PAUSE}");
            }
            let _ = writeln!(text, "    -> reframer :: Reframer({arguments})");
        }
        text +=
            "    // your elements\n    -> out :: ToDump($OUT, SNAPLEN 0);\n\nDriverManager(\n    pause,\n";
        if arguments.is_some() {
            text += "    print \"SLF $(reframer.slf_in), after the reframer $(reframer.slf_out)\",\n";
        }
        text += "    print \"$(out.count) packets written\")\n";
        text
    }
}
