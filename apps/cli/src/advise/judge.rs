//! What mechanisms would bring for a trace, and whether that is worth it.

use serde::Serialize;
use trace::Report;

use super::measure::Outcome;
use super::text::percent;

/// The delays that are tried, in microseconds.
pub(super) const DELAYS: [u32; 6] = [16, 32, 64, 128, 256, 512];
/// Packets after which a flow is tried as heavy.
pub(super) const ELEPHANTS: [u32; 3] = [16, 64, 256];
/// What holding a packet costs, in nanoseconds (docs/reframer.md).
pub(super) const HOLD_NS: f64 = 35.0;

/// A delay is as good as the best one if it brings this share of its gain: less delay is worth something too.
const GOOD_ENOUGH: f64 = 0.9;
/// Less of a core than this is not worth the trouble.
const CORE: f64 = 0.01;
/// Shares of what is to be gained that are worth a mechanism, and that are worth a word.
const ACKS: (f64, f64) = (0.02, 0.002);
const SLICED: (f64, f64) = (0.5, 0.25);
/// Links below this move payloads without effort.
const FAST: f64 = 1e10;
/// Packets per second that one core handles in a light chain: spraying is for more.
const CORE_PACKETS: f64 = 1e6;
/// With more of the cores busy than this, spreading flows is enough.
const BUSY: f64 = 0.8;
/// Reordered segments from which sorting is worth it.
const REORDERED: f64 = 0.001;

/// Whether a mechanism is worth it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Yes.
    Pays,
    /// There is something to gain, but not much of a machine's time.
    Little,
    /// No.
    #[default]
    DoesNotPay,
    /// The capture does not tell.
    Unknown,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verdict::Pays => "pays",
            Verdict::Little => "pays little",
            Verdict::DoesNotPay => "does not pay",
            Verdict::Unknown => "cannot be told",
        }
    }

    /// By two bounds: from the first on it pays, from the second on a little.
    fn of(share: f64, (pays, little): (f64, f64)) -> Verdict {
        match share {
            share if share >= pays => Verdict::Pays,
            share if share >= little => Verdict::Little,
            _ => Verdict::DoesNotPay,
        }
    }

    /// Whether to configure it.
    pub(super) fn is_worth_a_try(self) -> bool {
        matches!(self, Verdict::Pays | Verdict::Little)
    }
}

/// What is taken for granted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Assumptions {
    /// What a flow switch costs the chain behind, in nanoseconds.
    pub(super) flow_cost_ns: f64,
    /// What holding a packet costs.
    pub(super) hold_cost_ns: f64,
    /// The longest delay that is advised, in microseconds.
    pub(super) max_delay_us: u32,
    /// Cores that packets can be spread over.
    pub(super) cores: u32,
}

/// One way of holding packets, and what comes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Row {
    /// Arguments: DELAY, ELEPHANTS (0: off), SLO (0: off).
    pub(super) delay_us: f64,
    pub(super) elephants: u32,
    pub(super) slo_us: f64,
    pub(super) slf: f64,
    /// Share of the flow switches that are saved.
    pub(super) saved_switches: f64,
    pub(super) mean_burst: f64,
    pub(super) mean_delay_us: f64,
    pub(super) p99_delay_us: f64,
    pub(super) waited_in_vain_us: f64,
    /// Share of the packets that waited.
    pub(super) held: f64,
    /// Packets for which there was no room.
    pub(super) overflows: u64,
    /// What is gained for each packet.
    pub(super) gain_ns: f64,
}

/// Holding packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Reframing {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    /// The shortest of the delays that is nearly as good as the best.
    pub(super) delay_us: u32,
    /// What a flow switch has to cost for holding to gain anything there.
    pub(super) break_even_ns: f64,
    /// Share of a core that is gained, at the trace's rate.
    pub(super) core: f64,
    pub(super) delays: Vec<Row>,
}

/// Holding only heavy flows, or those from which more is expected, for that delay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Choice {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    /// The argument that is best: packets for ELEPHANTS, microseconds for SLO.
    pub(super) best: u32,
    pub(super) rows: Vec<Row>,
}

/// A mechanism with one figure that decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) why: String,
}

/// Dropping superfluous ACKs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Acks {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// Share of all packets that would be gone.
    pub(super) removed: f64,
    /// Share of all packets that only acknowledge.
    pub(super) pure: f64,
}

/// Putting segments in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Sorting {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// Reordered segments by segments.
    pub(super) reordered: f64,
    /// Those of the reordered that are probably sent again.
    pub(super) late: f64,
}

/// Leaving payloads aside.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Slicing {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// Shares of packets and bytes.
    pub(super) packets: f64,
    pub(super) bytes: f64,
}

/// Spreading packets of a flow over cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Spraying {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// TCP flows in 150 us.
    pub(super) flows_p50: u64,
    pub(super) flows_p99: u64,
    /// Share of the cores that have work if flows are spread over them.
    pub(super) busy: f64,
}

/// All that is advised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Advice {
    pub(super) trace: String,
    /// Whether it could be read to its end.
    pub(super) complete: bool,
    pub(super) notes: Vec<String>,
    pub(super) packets: u64,
    pub(super) duration_s: f64,
    pub(super) packets_per_s: f64,
    pub(super) bits_per_s: f64,
    pub(super) flows: u64,
    pub(super) slf: f64,
    pub(super) assumptions: Assumptions,
    pub(super) reframer: Reframing,
    pub(super) elephants: Choice,
    pub(super) slo: Choice,
    pub(super) ack_coalescing: Acks,
    pub(super) sorting: Sorting,
    pub(super) slicing: Slicing,
    pub(super) spraying: Spraying,
    pub(super) configuration: String,
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

/// A row, but for its arguments.
fn row(report: &Report, assumed: &Assumptions, outcome: &Outcome) -> Row {
    let flows = report.kinds.tcp.packets + report.kinds.udp.packets;
    let changes = |slf: f64| share(1.0, slf);
    let saved = changes(outcome.slf_before) - changes(outcome.slf);
    let all = report.packets as f64;
    Row {
        slf: outcome.slf,
        saved_switches: share(saved, changes(outcome.slf_before)),
        mean_burst: outcome.mean_burst,
        mean_delay_us: outcome.mean_delay_us,
        p99_delay_us: outcome.p99_delay_us,
        waited_in_vain_us: outcome.in_vain_us,
        held: share(outcome.held as f64, all),
        overflows: outcome.overflows,
        // Each packet goes through the element, also one that is not held.
        gain_ns: saved * share(flows as f64, all) * assumed.flow_cost_ns - assumed.hold_cost_ns,
        ..Row::default()
    }
}

/// Judges holding, from an outcome for each of [`DELAYS`].
pub(super) fn reframing(report: &Report, assumed: &Assumptions, outcomes: &[Outcome]) -> Reframing {
    let allowed = |row: &&Row| row.delay_us <= f64::from(assumed.max_delay_us);
    let delays: Vec<Row> = DELAYS
        .iter()
        .zip(outcomes)
        .map(|(&delay, outcome)| Row { delay_us: delay.into(), ..row(report, assumed, outcome) })
        .collect();
    let saving = |row: &Row| row.gain_ns + assumed.hold_cost_ns;
    let most = delays.iter().filter(allowed).map(saving).fold(0.0, f64::max);
    let mut bearable = delays.iter().filter(allowed);
    let chosen = bearable.find(|row| saving(row) >= most * GOOD_ENOUGH).copied().unwrap_or_default();
    let core = (chosen.gain_ns * report.packets_per_s / 1e9).max(0.0);
    // What is saved is in proportion to what a flow switch costs.
    let break_even_ns = share(assumed.hold_cost_ns * assumed.flow_cost_ns, saving(&chosen));
    let delay_us = chosen.delay_us as u32;
    let (verdict, why) = if report.kinds.tcp.packets + report.kinds.udp.packets == 0 {
        (Verdict::DoesNotPay, "there is no TCP and no UDP".to_string())
    } else if report.duration_s <= 0.0 {
        (
            Verdict::Unknown,
            "all packets have the same time stamp, so that any delay brings them all together".into(),
        )
    } else if most <= 0.0 {
        (Verdict::DoesNotPay, "no delay brings packets of a flow together".into())
    } else if chosen.gain_ns <= 0.0 {
        let why = format!(
            "{delay_us} us would save {} of the flow switches, worth {:.0} ns per packet; holding one costs {:.0} ns",
            percent(chosen.saved_switches),
            saving(&chosen),
            assumed.hold_cost_ns
        );
        (Verdict::DoesNotPay, why)
    } else {
        let why = format!(
            "{delay_us} us saves {} of the flow switches; after what holding costs, {:.0} ns per packet are gained, \
             which at this rate is {} of a core",
            percent(chosen.saved_switches),
            chosen.gain_ns,
            if core < 1e-3 { "less than 0.1 %".to_string() } else { percent(core) }
        );
        (if core >= CORE { Verdict::Pays } else { Verdict::Little }, why)
    };
    Reframing { verdict, why, delay_us, break_even_ns, core, delays }
}

/// Judges holding only heavy flows, from an outcome for each of [`ELEPHANTS`] with the delay that was chosen; from none if
/// holding is not worth it.
pub(super) fn elephants(
    report: &Report,
    assumed: &Assumptions,
    all: &Reframing,
    outcomes: &[Outcome],
) -> Choice {
    let rows: Vec<Row> = ELEPHANTS
        .iter()
        .zip(outcomes)
        .map(|(&packets, outcome)| {
            let delay_us = all.delay_us.into();
            Row { delay_us, elephants: packets, ..row(report, assumed, outcome) }
        })
        .collect();
    let Some(reference) = all.chosen() else { return Choice { rows, ..Choice::default() } };
    // The highest bound that keeps most of the gain holds the fewest packets.
    let good = |row: &&Row| row.saved_switches >= reference.saved_switches * GOOD_ENOUGH;
    let chosen = rows.iter().rfind(good).filter(|row| row.held <= reference.held * GOOD_ENOUGH);
    match chosen {
        _ if !all.verdict.is_worth_a_try() => {
            let why = "there is nothing to choose from where no delay pays".into();
            Choice { verdict: all.verdict, why, best: 0, rows }
        }
        Some(row) => {
            let why = format!(
                "holding flows from their packet {} on saves {} of the switches with {} of the packets held instead of {}",
                row.elephants,
                percent(row.saved_switches),
                percent(row.held),
                percent(reference.held)
            );
            Choice { verdict: Verdict::Pays, why, best: row.elephants, rows }
        }
        None => {
            let why = "what the small flows gain would be lost, or there are too few of them".into();
            Choice { verdict: Verdict::DoesNotPay, why, best: 0, rows }
        }
    }
}

/// The SLO under which flows of which more is expected wait as long.
pub(super) fn slo_for(delay_us: u32) -> u32 {
    (delay_us * 8).div_ceil(7)
}

/// Judges holding only flows of which more is expected, from the outcome, if holding is worth it.
pub(super) fn slo(
    report: &Report,
    assumed: &Assumptions,
    all: &Reframing,
    outcome: Option<&Outcome>,
) -> Choice {
    let slo_us = slo_for(all.delay_us);
    let (Some(outcome), Some(reference)) = (outcome, all.chosen()) else {
        let why = "there is nothing to choose from where no delay pays".into();
        return Choice { verdict: all.verdict, why, ..Choice::default() };
    };
    let found = Row { slo_us: slo_us.into(), ..row(report, assumed, outcome) };
    let rows = vec![found];
    let spared = 1.0 - share(found.mean_delay_us, reference.mean_delay_us);
    let (before, after) = (percent(reference.saved_switches), percent(found.saved_switches));
    if found.saved_switches >= reference.saved_switches * GOOD_ENOUGH && spared >= 1.0 - GOOD_ENOUGH {
        let why = format!(
            "it takes {} off the mean delay, and saves {after} of the switches instead of {before}",
            percent(spared)
        );
        Choice { verdict: Verdict::Pays, why, best: slo_us, rows }
    } else {
        let why = format!(
            "it would save {after} of the switches instead of {before}, with a mean delay of {:.1} us instead of {:.1} us",
            found.mean_delay_us, reference.mean_delay_us
        );
        Choice { verdict: Verdict::DoesNotPay, why, best: 0, rows }
    }
}

impl Reframing {
    /// The row of the delay that was chosen.
    pub(super) fn chosen(&self) -> Option<&Row> {
        self.delays.iter().find(|row| row.delay_us as u32 == self.delay_us)
    }
}

/// Judges dropping ACKs, from the outcome with COMPRESS and the delay that was chosen.
pub(super) fn acks(report: &Report, delay_us: u32, outcome: &Outcome) -> Acks {
    let removed = share(outcome.coalesced as f64, report.packets as f64);
    let pure = report.ack_coalescing.values().next().map_or(0, |acks| acks.pure_acks);
    let why = if pure == 0 {
        "no packet only acknowledges".to_string()
    } else {
        format!(
            "of {} packets that only acknowledge, {} are superfluous if packets wait {delay_us} us: {} of all packets",
            trace::text::grouped(pure),
            trace::text::grouped(outcome.coalesced),
            percent(removed)
        )
    };
    let pure = share(pure as f64, report.packets as f64);
    let verdict = if report.duration_s > 0.0 { Verdict::of(removed, ACKS) } else { Verdict::Unknown };
    Acks { judged: Judged { verdict, why }, removed, pure }
}

/// Judges putting segments in order.
pub(super) fn sorting(report: &Report, delay_us: u32) -> Sorting {
    let order = &report.tcp_reordering;
    let late = share(order.late as f64, order.reordered as f64);
    // What is late was lost and sent again: no delay of microseconds helps.
    let worth = report.tcp_reordered_ratio * (1.0 - late);
    let in_time = order.delay_ns.p50 <= u64::from(delay_us) * 1000;
    let (verdict, why) = if order.reordered == 0 {
        (Verdict::DoesNotPay, "no TCP segment is out of order".to_string())
    } else if worth < REORDERED {
        let why = format!(
            "{} of the TCP segments are out of order, {} of these probably sent again",
            percent(report.tcp_reordered_ratio),
            percent(late)
        );
        (Verdict::DoesNotPay, why)
    } else {
        let median = trace::text::span(order.delay_ns.p50 as f64);
        let why = format!(
            "{} of the TCP segments are out of order, half of them by no more than {median}",
            percent(report.tcp_reordered_ratio)
        );
        (if in_time { Verdict::Pays } else { Verdict::Little }, why)
    };
    Sorting { judged: Judged { verdict, why }, reordered: report.tcp_reordered_ratio, late }
}

/// Judges leaving payloads aside.
pub(super) fn slicing(report: &Report) -> Slicing {
    let (packets, bytes) = (report.sliceable.packets, report.sliceable.bytes);
    let mut why = format!(
        "{} of the packets carry payloads worth it, {} of all bytes",
        percent(packets),
        percent(bytes)
    );
    let mut verdict = Verdict::of(bytes, SLICED);
    if verdict == Verdict::Pays && report.bits_per_s < FAST {
        verdict = Verdict::Little;
        why += &format!("; {}bit/s are moved without effort", trace::text::prefixed(report.bits_per_s));
    }
    Slicing { judged: Judged { verdict, why }, packets, bytes }
}

/// Judges spreading packets of a flow over cores.
pub(super) fn spraying(report: &Report, cores: u32) -> Spraying {
    let flows = &report.concurrent_flows_150us;
    // Of k cores each is missed by a flow with probability 1 - 1/k.
    let missed = (1.0 - 1.0 / f64::from(cores)).powf(flows.p50 as f64);
    let busy = 1.0 - missed;
    let (verdict, why) = if flows.count == 0 {
        (Verdict::DoesNotPay, "there is no TCP".to_string())
    } else if report.duration_s <= 0.0 {
        (Verdict::Unknown, "all packets have the same time stamp".into())
    } else {
        let why = format!(
            "TCP flows at a time (150 us): {} (p50), {} (p99); spread by flow, they keep {} of {cores} cores busy",
            flows.p50,
            flows.p99,
            percent(busy)
        );
        if busy >= BUSY {
            (Verdict::DoesNotPay, why)
        } else if report.packets_per_s < CORE_PACKETS {
            let rate = trace::text::per_second(report.packets_per_s);
            (Verdict::Little, format!("{why}; but one core is enough for {rate} packets/s"))
        } else {
            (Verdict::Pays, why)
        }
    };
    let judged = Judged { verdict, why };
    Spraying { judged, flows_p50: flows.p50, flows_p99: flows.p99, busy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumptions =
        Assumptions { flow_cost_ns: 300.0, hold_cost_ns: 70.0, max_delay_us: 512, cores: 8 };

    /// A trace of TCP alone, with a million packets per second.
    fn report() -> Report {
        let mut report = Report { packets: 1000, duration_s: 0.001, packets_per_s: 1e6, ..Report::default() };
        report.kinds.tcp.packets = 1000;
        report
    }

    fn outcome(slf: f64, held: u64, mean_delay_us: f64) -> Outcome {
        Outcome { slf_before: 1.0, slf, held, mean_delay_us, ..Outcome::default() }
    }

    /// Locality that rises with the delay up to 64 us, and hardly beyond.
    fn rising() -> Vec<Outcome> {
        [1.1, 1.3, 2.0, 2.05, 2.1, 2.2].map(|slf| outcome(slf, 1000, 50.0)).to_vec()
    }

    #[test]
    fn the_shortest_delay_that_is_nearly_as_good() {
        let found = reframing(&report(), &ASSUMED, &rising());
        // A half of the switches at 64 us is nine tenths of the 54.5 % at 512 us.
        assert_eq!((found.verdict, found.delay_us), (Verdict::Pays, 64));
        let row = found.chosen().unwrap();
        // Half a switch per packet for 300 ns, less 70 ns; at a million packets per second 8 % of a core.
        assert!((row.gain_ns - 80.0).abs() < 1e-9 && (found.core - 0.08).abs() < 1e-9, "{found:?}");
        assert!((found.break_even_ns - 140.0).abs() < 1e-9, "{found:?}");
        // What may not be waited for does not count.
        let short = reframing(&report(), &Assumptions { max_delay_us: 32, ..ASSUMED }, &rising());
        assert_eq!((short.verdict, short.delay_us), (Verdict::DoesNotPay, 32));
        let slow = reframing(&Report { packets_per_s: 1e4, ..report() }, &ASSUMED, &rising());
        assert_eq!(slow.verdict, Verdict::Little);
        let cheap = reframing(&report(), &Assumptions { flow_cost_ns: 139.0, ..ASSUMED }, &rising());
        assert_eq!((cheap.verdict, cheap.break_even_ns.round()), (Verdict::DoesNotPay, 140.0));
        let still = reframing(&Report { duration_s: 0.0, ..report() }, &ASSUMED, &rising());
        assert_eq!(still.verdict, Verdict::Unknown);
    }

    #[test]
    fn heavy_flows_are_enough_if_most_is_saved_and_less_is_held() {
        let all = reframing(&report(), &ASSUMED, &rising());
        let choose = |outcomes: [Outcome; 3]| elephants(&report(), &ASSUMED, &all, &outcomes).best;
        let (good, less, bad) = (outcome(1.9, 300, 9.0), outcome(1.85, 200, 9.0), outcome(1.5, 50, 9.0));
        // 1.85 saves 46 % of the switches, 1.5 only a third of them.
        assert_eq!(choose([good.clone(), less, bad.clone()]), 64);
        assert_eq!(choose([good, bad.clone(), bad.clone()]), 16);
        assert_eq!(choose([outcome(2.0, 950, 9.0), bad.clone(), bad]), 0);
        // As much saved with less delay is what an SLO is for.
        let slo = |mean| slo(&report(), &ASSUMED, &all, Some(&outcome(2.0, 900, mean))).best;
        assert_eq!((slo(40.0), slo(49.0)), (slo_for(64), 0));
    }

    #[test]
    fn sorting_helps_against_what_comes_soon() {
        let judge = |reordered: u64, late: u64, delay_ns: u64| {
            let mut report = report();
            report.tcp_reordered_ratio = reordered as f64 / 1000.0;
            (report.tcp_reordering.segments, report.tcp_reordering.reordered) = (1000, reordered);
            (report.tcp_reordering.late, report.tcp_reordering.delay_ns.p50) = (late, delay_ns);
            sorting(&report, 64).judged.verdict
        };
        assert_eq!(judge(0, 0, 0), Verdict::DoesNotPay);
        assert_eq!(judge(20, 0, 50_000), Verdict::Pays);
        assert_eq!(judge(20, 0, 500_000), Verdict::Little);
        // What was lost and sent again is not to be sorted.
        assert_eq!(judge(20, 20, 50_000), Verdict::DoesNotPay);
    }

    #[test]
    fn slicing_is_for_fast_links_with_large_payloads() {
        let judge = |bytes: f64, bits_per_s: f64| {
            let mut report = Report { bits_per_s, ..report() };
            report.sliceable.bytes = bytes;
            slicing(&report).judged.verdict
        };
        assert_eq!(judge(0.8, 4e10), Verdict::Pays);
        assert_eq!(judge(0.8, 1e9), Verdict::Little);
        assert_eq!(judge(0.3, 4e10), Verdict::Little);
        assert_eq!(judge(0.1, 4e10), Verdict::DoesNotPay);
    }
}
