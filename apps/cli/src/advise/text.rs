//! Advice as text for people, and the configuration that follows from it.

use std::fmt::{self, Display, Write};
use std::path::Path;

use lang::args::quote;
use trace::text::{grouped, per_second, prefixed};

use super::judge::{Advice, Judged, Row, Verdict};

/// Columns to which sentences are broken.
const WIDTH: usize = 100;

/// A share: these figures are no more exact than that.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.heading(&mut text);
        self.holding(&mut text);
        self.others(&mut text);
        f.write_str(&text)
    }
}

/// A mechanism, whether it pays, and why.
fn verdict(text: &mut String, what: &str, verdict: Verdict, why: &str) {
    let _ = writeln!(text, "\n{what}: {}", verdict.as_str());
    paragraph(text, why);
}

/// A sentence, indented and broken.
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

/// The table's head.
fn head(text: &mut String, what: &str) {
    let _ = writeln!(
        text,
        "  {what:>10} {:>8} {:>9} {:>7} {:>11} {:>10} {:>9} {:>9} {:>9}",
        "SLF", "switches", "burst", "mean delay", "p99", "in vain", "held", "gain"
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
            let mark = if worth && row.delay_us as u32 == reframer.delay_us { "  <" } else { "" };
            line(text, &format!("{} us", row.delay_us), row, mark);
        }
        let a = self.assumptions;
        let mut assumed = format!(
            "if a flow switch costs the chain behind {} ns, and holding a packet {} ns",
            a.flow_cost_ns, a.hold_cost_ns
        );
        if reframer.break_even_ns > 0.0 {
            assumed +=
                &format!("; with {} us it pays from {:.0} ns on", reframer.delay_us, reframer.break_even_ns);
        }
        paragraph(text, &format!("({assumed})"));
        if let Some(full) = reframer.delays.iter().find(|row| row.overflows > 0) {
            let from = grouped(full.overflows);
            paragraph(text, &format!("({from} packets found no room with {} us)", full.delay_us));
        }
        let (heavy, slo) = (&self.elephants, &self.slo);
        verdict(
            text,
            &format!("ELEPHANTS (holding heavy flows only, {} us)", reframer.delay_us),
            heavy.verdict,
            &heavy.why,
        );
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
            ("Slicing (leaving payloads aside; planned)", &self.slicing.judged),
            ("Spraying (packets of a flow over all cores; planned)", &self.spraying.judged),
        ];
        for (what, judged) in judged {
            verdict(text, what, judged.verdict, &judged.why);
        }
        for note in &self.notes {
            text.push('\n');
            paragraph(text, &format!("note: {note}"));
        }
        text.push_str("\nConfiguration\n\n");
        for line in self.configuration.lines() {
            let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "  " });
        }
    }

    /// Arguments of the Reframer that is advised, for order or for fewer ACKs; `None` if none is.
    fn arguments(&self, capacity: u64) -> Option<String> {
        if !self.reframer.verdict.is_worth_a_try() && self.ack_coalescing.judged.verdict != Verdict::Pays {
            return None;
        }
        let mut arguments = match self.slo.best {
            0 => format!("DELAY {}us", self.reframer.delay_us),
            slo => format!("SLO {slo}us"),
        };
        // Under an SLO it is known of all flows what to expect: small ones are let through anyway.
        if self.slo.best == 0 && self.elephants.best > 0 {
            let _ = write!(arguments, ", ELEPHANTS {}", self.elephants.best);
        }
        if self.ack_coalescing.judged.verdict.is_worth_a_try() {
            arguments += ", COMPRESS true";
        }
        if self.sorting.judged.verdict.is_worth_a_try() {
            arguments += ", REORDER true";
        }
        if capacity > 65_536 {
            let _ = write!(arguments, ", CAPACITY {capacity}");
        }
        Some(arguments)
    }

    /// A configuration that does what is advised to this capture. It runs as it is.
    pub(super) fn configuration(&self, capture: &Path, capacity: u64) -> String {
        let name = quote(capture.as_os_str().as_encoded_bytes());
        let mut text = String::from("// Made by `tidegate advise`.\n");
        let arguments = self.arguments(capacity);
        match &arguments {
            Some(_) if !self.reframer.verdict.is_worth_a_try() => {
                text += "// The reframer is there to drop superfluous ACKs; for the order alone it does not pay.\n";
            }
            Some(_) => text += "// What stands behind the reframer finds the packets of a flow together.\n",
            None => {
                let _ = writeln!(text, "// Reframer {} here.", self.reframer.verdict.as_str());
            }
        }
        let _ = write!(text, "\ndefine($IN {name}, $OUT advised-out.pcap)\n\nFromDump($IN)\n");
        if let Some(arguments) = &arguments {
            let _ = writeln!(text, "    -> reframer :: Reframer({arguments})");
        }
        text +=
            "    // your elements\n    -> out :: ToDump($OUT, SNAPLEN 0);\n\nDriverManager(\n    pause,\n";
        if arguments.is_some() {
            text += "    print \"SLF $(reframer.slf_in), behind the reframer $(reframer.slf_out)\",\n";
        }
        text += "    print \"$(out.count) packets written\")\n";
        text
    }
}
