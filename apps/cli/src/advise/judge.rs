//! Judges, for the traffic of a trace, the gain of each mechanism (such as slicing or spraying), and whether
//! the gain is worth the mechanism's cost.

use serde::Serialize;
use trace::TraceReport;

use super::measure::Outcome;
use crate::numbers::percent;

/// The values of Reframer's DELAY that are tried, in microseconds.
pub(super) const DELAYS: [u32; 6] = [16, 32, 64, 128, 256, 512];
/// The values of Reframer's ELEPHANTS that are tried: the number of packets after which a flow counts as
/// heavy.
pub(super) const ELEPHANTS: [u32; 3] = [16, 64, 256];

/// The share of the flow switches saved by the best delay, or by the chosen delay without ELEPHANTS and SLO,
/// that a shorter delay, ELEPHANTS or SLO must still save to be advised instead. In return, ELEPHANTS must
/// lower the number of held packets, and SLO the mean delay, to at most this share of the value without them.
const GOOD_ENOUGH: f64 = 0.9;
/// The gain of holding packets in a Reframer, as a share of one core's time, from which on the verdict is
/// that the Reframer pays. Below this bound, a gain counts as small.
const CORE: f64 = 0.01;
/// Two bounds for a share. At or above the first bound, the mechanism pays; at or above the second bound, it
/// pays little. `ACKS` is compared with the share of packets that COMPRESS drops, `SLICED` with the share of
/// bytes in payloads that can be parked.
const ACKS: (f64, f64) = (0.02, 0.002);
const SLICED: (f64, f64) = (0.5, 0.25);
/// The rate in bits per second below which a server moves payloads without effort, so that slicing gains
/// little.
const FAST: f64 = 1e10;
/// The number of packets per second that one core handles in a light chain. At lower rates, spraying gains
/// little.
const CORE_PACKETS: f64 = 1e6;
/// The share of cores that are busy with TCP flows if each flow goes to one core. From this share on,
/// spreading whole flows over the cores is enough, so that spraying does not pay.
const BUSY: f64 = 0.8;
/// Two bounds for the share of TCP segments that REORDER puts in order: at or above the first bound, REORDER
/// pays; at or above the second bound, it pays little.
const MENDED: (f64, f64) = (0.001, 0.0001);
/// The share of packets with an earlier time stamp than a preceding packet, from which on arrival times count
/// as unknown.
const BEHIND: f64 = 0.01;
/// The share of damaged pure ACKs (those whose checksums are wrong or were not captured) among all pure ACKs,
/// from which on the undamaged ACKs do not represent the traffic, so that no verdict on COMPRESS is given.
const DAMAGED: f64 = 0.5;
/// The cost of a flow switch for the chain of `tidegate bench chain`, in nanoseconds: 400 instructions
/// (docs/performance.md). The state of a flow whose packets a Reframer brings together is in the second-level
/// cache without it, too, because these packets arrive soon after each other.
pub(super) const SWITCH_NS: f64 = 45.0;
/// The cost of a Reframer in nanoseconds: for each packet, which is looked up and put into a list, and for
/// each burst that is held. 190 and 240 instructions (docs/reframer.md).
pub(super) const HOLD_NS: (f64, f64) = (19.0, 24.0);

/// The verdict on a mechanism for the traffic of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The mechanism gains more than it costs, by the bounds on its gain that this file defines.
    Pays,
    /// The mechanism gains something, but less than the bound from which on it pays.
    Little,
    /// The mechanism gains nothing, or less than it costs.
    #[default]
    DoesNotPay,
    /// The capture does not show if the mechanism pays.
    Unknown,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verdict::Pays => "pays",
            Verdict::Little => "pays little",
            Verdict::DoesNotPay => "does not pay",
            Verdict::Unknown => "not known",
        }
    }

    /// Returns the verdict for a share by two bounds. A mechanism pays if the share is at least the first
    /// bound, pays little if it is at least the second bound, and otherwise does not pay.
    fn of(share: f64, (pays, little): (f64, f64)) -> Verdict {
        match share {
            share if share >= pays => Verdict::Pays,
            share if share >= little => Verdict::Little,
            _ => Verdict::DoesNotPay,
        }
    }

    /// True if the mechanism should be configured, because it pays at least little.
    pub(super) fn is_worth_a_try(self) -> bool {
        matches!(self, Verdict::Pays | Verdict::Little)
    }
}

/// The assumptions on which the advice about mechanisms depends. The report shows the assumptions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Assumptions {
    /// The cost of a flow switch in the downstream chain, in nanoseconds.
    pub(super) flow_cost_ns: f64,
    /// The cost of a Reframer in nanoseconds, per packet and in addition per burst that is held.
    pub(super) hold_packet_ns: f64,
    pub(super) hold_burst_ns: f64,
    /// The longest delay that is advised, in microseconds.
    pub(super) max_delay_us: u32,
    /// The number of cores that packets can be spread over.
    pub(super) cores: u32,
}

impl Assumptions {
    /// Returns the cost of a Reframer in nanoseconds per packet. `held` is the share of packets that are
    /// held, in bursts of `burst` packets on average (0 without bursts).
    fn hold_ns(&self, held: f64, burst: f64) -> f64 {
        self.hold_packet_ns + self.hold_burst_ns * share(held, burst)
    }
}

/// The arguments of one tried Reframer, and its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Row {
    /// The arguments: DELAY in microseconds, ELEPHANTS in packets (0: off), SLO in microseconds (0: off).
    pub(super) delay_us: f64,
    pub(super) elephants: u32,
    pub(super) slo_us: f64,
    pub(super) slf: f64,
    /// The share of flow switches that the Reframer saves (`saved_switches`), and the number of saved flow
    /// switches per packet (`saved_per_packet`).
    pub(super) saved_switches: f64,
    pub(super) saved_per_packet: f64,
    pub(super) mean_burst: f64,
    pub(super) mean_delay_us: f64,
    pub(super) p99_delay_us: f64,
    pub(super) waited_in_vain_us: f64,
    /// The share of all packets that waited in the Reframer.
    pub(super) held: f64,
    /// The number of packets that found no room in the Reframer's flow table or exceeded MAX_HELD, so that
    /// they left at once.
    pub(super) overflows: u64,
    /// The number of ACKs that COMPRESS dropped (`coalesced`), and the number of segments that REORDER put in
    /// order (`mended`): they arrived after a segment that was sent later, and left ahead of it.
    pub(super) coalesced: u64,
    pub(super) mended: u64,
    /// The cost of the Reframer, and its gain: the time that the saved flow switches would have taken, less
    /// this cost. Both in nanoseconds per packet.
    pub(super) hold_ns: f64,
    pub(super) gain_ns: f64,
}

/// The advice on holding packets of all flows (DELAY).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Reframing {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    /// The shortest allowed delay, in microseconds, that saves nearly as many flow switches as the best
    /// allowed delay. `None` if no allowed delay saves flow switches, or if the verdict is unknown.
    pub(super) delay_us: Option<u32>,
    /// The cost of a flow switch, in nanoseconds, above which the chosen delay gains more than holding
    /// packets costs.
    pub(super) break_even_ns: Option<f64>,
    /// The share of a core's time that the chosen delay gains at the trace's rate.
    pub(super) core: f64,
    pub(super) delays: Vec<Row>,
}

/// The advice on holding only some flows, in addition to the chosen delay: heavy flows (ELEPHANTS), or
/// flows of which more packets are expected (SLO).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Choice {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    /// The best argument: packets for ELEPHANTS, microseconds for SLO. 0 if the argument does not pay.
    pub(super) best: u32,
    pub(super) rows: Vec<Row>,
}

/// The verdict on a mechanism, with its reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) why: String,
}

/// The advice on dropping superfluous ACKs (COMPRESS).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Acks {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// The share of all packets that COMPRESS would drop.
    pub(super) removed: f64,
    /// The share of packets that are pure ACKs, without payload (`pure`), and the share of pure ACKs whose
    /// checksums are wrong or were not captured (`damaged`).
    pub(super) pure: f64,
    pub(super) damaged: f64,
}

/// The advice on putting TCP segments in order (REORDER).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Sorting {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// The share of TCP segments that are reordered.
    pub(super) reordered: f64,
    /// The share of reordered segments that are probably retransmissions.
    pub(super) late: f64,
    /// The share of TCP segments that REORDER would put in order.
    pub(super) mended: f64,
}

/// The advice on slicing: parking payloads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Slicing {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// The share of packets whose payloads can be parked (`packets`), and the share of all bytes that are in
    /// these payloads (`bytes`).
    pub(super) packets: f64,
    pub(super) bytes: f64,
}

/// The advice on spraying: spreading the packets of each flow over cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Spraying {
    #[serde(flatten)]
    pub(super) judged: Judged,
    /// The number of TCP flows with packets in the same 150 us: median (`flows_p50`) and 99th percentile
    /// (`flows_p99`).
    pub(super) flows_p50: u64,
    pub(super) flows_p99: u64,
    /// The share of cores that are busy if each flow goes to one core.
    pub(super) busy: f64,
}

/// The whole advice, which `--json` writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Advice {
    pub(super) trace: String,
    /// True if the capture could be read to its end, without damage.
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
    /// The results of the advised configuration. `None` if it has no Reframer.
    pub(super) configured: Option<Row>,
    pub(super) configuration: String,
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

/// Returns the reason why a trace allows no verdict on any mechanism, or `None` if it allows verdicts.
fn untold(report: &TraceReport) -> Option<String> {
    if report.packets == 0 {
        Some("there are no packets".into())
    } else if flow_packets(report) == 0 && report.unknown_packets > 0 {
        let packets = trace::text::grouped(report.unknown_packets);
        Some(format!("the link type of {packets} packets is not known, and no flow is seen in any"))
    } else {
        None
    }
}

/// Returns the reason why the arrival times of packets are unknown, or `None` if they are known.
fn timeless(report: &TraceReport) -> Option<String> {
    let behind = share(report.packets_behind as f64, report.packets as f64);
    if report.packets == 1 {
        Some("there is only one packet".into())
    } else if behind >= BEHIND {
        Some(format!(
            "{} of the packets have a time stamp before that of an earlier packet, so that their times of arrival are \
             not known",
            percent(behind)
        ))
    } else if report.duration_s <= 0.0 {
        Some("all packets have the same time stamp, so that any delay brings them all together".into())
    } else {
        None
    }
}

fn unknown(why: String) -> Judged {
    Judged { verdict: Verdict::Unknown, why }
}

/// Returns notes about defects of the trace, such as damaged checksums, that a person needs to judge the
/// advice.
pub(super) fn notes(report: &TraceReport) -> Vec<String> {
    let mut notes = report.notes.clone();
    let counted = |part: u64, all: u64| {
        let (some, of) = (trace::text::grouped(part), trace::text::grouped(all));
        format!("{some} of {of} packets ({})", percent(share(part as f64, all as f64)))
    };
    if report.packets_behind > 0 {
        notes.push(format!(
            "{} have a time stamp before that of an earlier packet; the trace clock stops until that time has passed, \
             so that these packets seem to arrive together",
            counted(report.packets_behind, report.packets)
        ));
    }
    let (pure, damaged) = pure_acks(report);
    if damaged > 0 {
        notes.push(format!(
            "{} that are pure ACKs have wrong checksums, or checksums that were not captured: COMPRESS does not \
             change such packets; in a capture from the sending machine, the network card writes checksums after the \
             capture point",
            counted(damaged, pure)
        ));
    }
    notes
}

/// Returns the number of pure ACKs, and the number of pure ACKs whose checksums are wrong or were not
/// captured.
fn pure_acks(report: &TraceReport) -> (u64, u64) {
    report.ack_coalescing.values().next().map_or((0, 0), |acks| (acks.pure_acks, acks.pure_damaged))
}

/// Returns the number of TCP and UDP packets, which are part of a flow.
fn flow_packets(report: &TraceReport) -> u64 {
    report.kinds.tcp.packets + report.kinds.udp.packets
}

/// Makes the [`Row`] with the results of a tried Reframer. The caller fills in the arguments of the Reframer.
pub(super) fn row(report: &TraceReport, assumed: &Assumptions, outcome: &Outcome) -> Row {
    let flows = flow_packets(report) as f64;
    let all = report.packets as f64;
    // The number of flow switches is the number of runs: packets of flows divided by the SLF. ACKs that the
    // Reframer drops are in no run downstream of it.
    let before = share(flows, outcome.slf_before);
    let saved = before - share(flows - outcome.coalesced as f64, outcome.slf);
    let saved_per_packet = share(saved, all);
    let held = share(outcome.held as f64, all);
    let hold_ns = assumed.hold_ns(held, outcome.mean_burst);
    Row {
        slf: outcome.slf,
        saved_switches: share(saved, before),
        saved_per_packet,
        mean_burst: outcome.mean_burst,
        mean_delay_us: outcome.mean_delay_us,
        p99_delay_us: outcome.p99_delay_us,
        waited_in_vain_us: outcome.in_vain_us,
        held,
        overflows: outcome.overflows,
        coalesced: outcome.coalesced,
        mended: outcome.mended,
        hold_ns,
        gain_ns: saved_per_packet * assumed.flow_cost_ns - hold_ns,
        ..Row::default()
    }
}

/// Judges if it pays to hold the packets of all flows, from the outcome of one tried Reframer for each delay
/// in [`DELAYS`].
pub(super) fn reframing(report: &TraceReport, assumed: &Assumptions, outcomes: &[Outcome]) -> Reframing {
    let allowed = |row: &&Row| row.delay_us <= f64::from(assumed.max_delay_us);
    let delays: Vec<Row> = DELAYS
        .iter()
        .zip(outcomes)
        .map(|(&delay, outcome)| Row { delay_us: delay.into(), ..row(report, assumed, outcome) })
        .collect();
    // The best delay is the delay that saves the most switches, whatever a switch costs.
    let most = delays.iter().filter(allowed).map(|row| row.saved_switches).fold(0.0, f64::max);
    let good = |row: &&Row| most > 0.0 && row.saved_switches >= most * GOOD_ENOUGH;
    let chosen = delays.iter().filter(allowed).find(good).copied();
    let core = chosen.map_or(0.0, |row| (row.gain_ns * report.packets_per_s / 1e9).max(0.0));
    let break_even_ns = chosen.map(|row| row.hold_ns / row.saved_per_packet);
    let (verdict, why) = if let Some(why) = untold(report) {
        (Verdict::Unknown, why)
    } else if flow_packets(report) == 0 {
        (Verdict::DoesNotPay, "there is no TCP and no UDP".to_string())
    } else if let Some(why) = timeless(report) {
        (Verdict::Unknown, why)
    } else if let (Some(chosen), Some(break_even)) = (chosen, break_even_ns) {
        of_delay(&chosen, assumed, core, break_even)
    } else {
        let why = format!("no delay of up to {} us brings packets of a flow together", longest(assumed));
        (Verdict::DoesNotPay, why)
    };
    let is_known = verdict != Verdict::Unknown;
    let delay_us = chosen.filter(|_| is_known).map(|row| row.delay_us as u32);
    let break_even_ns = break_even_ns.filter(|_| is_known);
    let core = if is_known { core } else { 0.0 };
    Reframing { verdict, why, delay_us, break_even_ns, core, delays }
}

/// Returns the longest tried delay that the user allows, in microseconds; the shortest if all are longer.
pub(super) fn longest(assumed: &Assumptions) -> u32 {
    DELAYS.into_iter().rfind(|&delay| delay <= assumed.max_delay_us).unwrap_or(DELAYS[0])
}

/// Judges holding packets with the chosen delay, and returns the verdict with its reason. `core` is the gain
/// as a share of one core's time.
fn of_delay(row: &Row, assumed: &Assumptions, core: f64, break_even_ns: f64) -> (Verdict, String) {
    let (delay, saved) = (row.delay_us, percent(row.saved_switches));
    let (switch, hold) = (assumed.flow_cost_ns, row.hold_ns);
    if row.gain_ns <= 0.0 {
        let why = format!(
            "{delay} us would save {saved} of the flow switches; if a switch costs the downstream chain {switch} ns, \
             that is {:.0} ns per packet, and the Reframer costs {hold:.0} ns: it pays where a switch \
             costs {break_even_ns:.0} ns or more",
            row.gain_ns + hold
        );
        return (Verdict::DoesNotPay, why);
    }
    let why = format!(
        "{delay} us saves {saved} of the flow switches; for a chain in which a switch costs {switch} ns, {:.0} ns per \
         packet are gained after the Reframer's cost of {hold:.0} ns, which at this rate is {}; where a switch costs less than \
         {break_even_ns:.0} ns, it does not pay",
        row.gain_ns,
        cores(core)
    );
    (if core >= CORE { Verdict::Pays } else { Verdict::Little }, why)
}

/// Describes an amount of processor time: a share of a core, or a number of cores.
fn cores(core: f64) -> String {
    match core {
        part if part < 1e-3 => "less than 0.1 % of a core".into(),
        part if part <= 1.0 => format!("{} of a core", percent(part)),
        many => format!("{many:.1} cores"),
    }
}

/// Judges holding only heavy flows, from the outcome of one tried Reframer for each value in [`ELEPHANTS`],
/// with the chosen delay. `outcomes` is empty if holding packets of all flows is not worth a try.
pub(super) fn elephants(
    report: &TraceReport,
    assumed: &Assumptions,
    all: &Reframing,
    outcomes: &[Outcome],
) -> Choice {
    let rows: Vec<Row> = ELEPHANTS
        .iter()
        .zip(outcomes)
        .map(|(&packets, outcome)| {
            let delay_us = all.delay_us.unwrap_or(0).into();
            Row { delay_us, elephants: packets, ..row(report, assumed, outcome) }
        })
        .collect();
    let reference = match all.chosen() {
        Some(reference) if all.verdict.is_worth_a_try() => reference,
        _ => return all.nothing_to_choose_from(rows),
    };
    // Of all tried values of ELEPHANTS that save nearly as many flow switches as holding all flows, the
    // highest value holds the fewest packets.
    let good = |row: &&Row| row.saved_switches >= reference.saved_switches * GOOD_ENOUGH;
    let chosen = rows.iter().rfind(good).filter(|row| row.held <= reference.held * GOOD_ENOUGH);
    match chosen {
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
            let why = "the gain for small flows would be lost, or there are too few small flows".into();
            Choice { verdict: Verdict::DoesNotPay, why, best: 0, rows }
        }
    }
}

/// Returns the SLO (the longest time for a packet in the Reframer), in microseconds, with which packets wait
/// as long as with this DELAY, if more packets of their flow are expected. The inverse of [`longest_under`].
pub(super) fn slo_for(delay_us: u32) -> u32 {
    (delay_us * 8).div_ceil(7)
}

/// Returns the longest time in microseconds that packets wait in a Reframer with this SLO: seven eighths. The
/// last eighth of the SLO is left for releasing the packets.
pub(super) fn longest_under(slo_us: u32) -> f64 {
    f64::from(slo_us) * 7.0 / 8.0
}

/// Judges holding only flows of which more packets are expected, from the outcome of a Reframer with an SLO.
/// `outcome` is `None` if holding packets of all flows is not worth a try.
pub(super) fn slo(
    report: &TraceReport,
    assumed: &Assumptions,
    all: &Reframing,
    outcome: Option<&Outcome>,
) -> Choice {
    let (Some(outcome), Some(reference)) = (outcome, all.chosen()) else {
        return all.nothing_to_choose_from(Vec::new());
    };
    let slo_us = slo_for(reference.delay_us as u32);
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
    /// Returns the row of the chosen delay, or `None` if no delay was chosen.
    pub(super) fn chosen(&self) -> Option<&Row> {
        self.delays.iter().find(|row| Some(row.delay_us as u32) == self.delay_us)
    }

    fn nothing_to_choose_from(&self, rows: Vec<Row>) -> Choice {
        let why = match self.verdict {
            Verdict::Unknown => "it is not known whether any delay pays",
            _ => "there is nothing to choose from where no delay pays",
        };
        Choice { verdict: self.verdict, why: why.into(), best: 0, rows }
    }
}

/// Judges dropping superfluous ACKs, from the outcome of a Reframer with COMPRESS and this delay in
/// microseconds.
pub(super) fn acks(report: &TraceReport, delay_us: u32, outcome: &Outcome) -> Acks {
    let removed = share(outcome.coalesced as f64, report.packets as f64);
    let (pure, damaged) = pure_acks(report);
    let damaged = share(damaged as f64, pure as f64);
    let judged = if let Some(why) = untold(report) {
        unknown(why)
    } else if pure == 0 {
        Judged { verdict: Verdict::DoesNotPay, why: "there are no pure ACKs".into() }
    } else if let Some(why) = timeless(report) {
        unknown(why)
    } else if damaged >= DAMAGED {
        unknown(format!(
            "the checksums of {} of the pure ACKs are wrong or were not captured",
            percent(damaged)
        ))
    } else {
        let why = format!(
            "of {} pure ACKs, {} are superfluous if packets wait {delay_us} us: {} of all packets",
            trace::text::grouped(pure),
            trace::text::grouped(outcome.coalesced),
            percent(removed)
        );
        Judged { verdict: Verdict::of(removed, ACKS), why }
    };
    Acks { judged, removed, pure: share(pure as f64, report.packets as f64), damaged }
}

/// Judges putting TCP segments in order, from the outcome of a Reframer with REORDER and this delay in
/// microseconds.
pub(super) fn sorting(report: &TraceReport, delay_us: u32, outcome: &Outcome) -> Sorting {
    let order = &report.tcp_reordering;
    let late = share(order.late as f64, order.reordered as f64);
    let mended = share(outcome.mended as f64, order.segments as f64);
    let judged = if let Some(why) = untold(report) {
        unknown(why)
    } else if order.reordered == 0 && outcome.mended == 0 {
        Judged { verdict: Verdict::DoesNotPay, why: "no TCP segment is out of order".into() }
    } else if let Some(why) = timeless(report) {
        unknown(why)
    } else {
        let why = format!(
            "{} of the TCP segments are out of order, {} of these probably lost and sent again; if packets wait \
             {delay_us} us, {} are moved ahead of later segments: {} of all segments",
            percent(report.tcp_reordered_ratio),
            percent(late),
            trace::text::grouped(outcome.mended),
            percent(mended)
        );
        Judged { verdict: Verdict::of(mended, MENDED), why }
    };
    Sorting { judged, reordered: report.tcp_reordered_ratio, late, mended }
}

/// Judges slicing: parking payloads while headers are processed.
pub(super) fn slicing(report: &TraceReport) -> Slicing {
    let (packets, bytes) = (report.sliceable.packets, report.sliceable.bytes);
    let mut why = format!(
        "{} of the packets carry payloads worth it, {} of all bytes",
        percent(packets),
        percent(bytes)
    );
    let mut verdict = Verdict::of(bytes, SLICED);
    if let Some(reason) = untold(report) {
        (verdict, why) = (Verdict::Unknown, reason);
    } else if verdict == Verdict::Pays
        && let Some(reason) = timeless(report)
    {
        verdict = Verdict::Unknown;
        why += &format!("; but how fast they come is not known: {reason}");
    } else if verdict == Verdict::Pays && report.bits_per_s < FAST {
        verdict = Verdict::Little;
        why += &format!("; {}bit/s cost little to move", trace::text::prefixed(report.bits_per_s));
    }
    Slicing { judged: Judged { verdict, why }, packets, bytes }
}

/// Judges spraying: spreading the packets of each flow over `cores` cores.
pub(super) fn spraying(report: &TraceReport, cores: u32) -> Spraying {
    let flows = &report.concurrent_flows_150us;
    // A flow goes to one of k cores at random, and so misses a given core with probability 1 - 1/k. `missed`
    // is the probability that all concurrent flows miss a core.
    let missed = (1.0 - 1.0 / f64::from(cores)).powf(flows.p50 as f64);
    let busy = 1.0 - missed;
    let (verdict, why) = if let Some(why) = untold(report) {
        (Verdict::Unknown, why)
    } else if flows.count == 0 {
        (Verdict::DoesNotPay, "there is no TCP".to_string())
    } else if let Some(why) = timeless(report) {
        (Verdict::Unknown, why)
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
mod tests;
