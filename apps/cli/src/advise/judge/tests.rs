//! Tests of the verdicts on mechanisms.

use super::*;

const ASSUMED: Assumptions = Assumptions {
    flow_cost_ns: 300.0,
    hold_packet_ns: 40.0,
    hold_burst_ns: 60.0,
    max_delay_us: 512,
    cores: 8,
};

/// A report about a trace of TCP only, with a million packets per second.
fn report() -> TraceReport {
    let mut report =
        TraceReport { packets: 1000, duration_s: 0.001, packets_per_s: 1e6, ..TraceReport::default() };
    report.kinds.tcp.packets = 1000;
    report
}

fn outcome(slf: f64, held: u64, mean_delay_us: f64) -> Outcome {
    Outcome { slf_before: 1.0, slf, held, mean_burst: 2.0, mean_delay_us, ..Outcome::default() }
}

/// Returns outcomes, one per delay in `DELAYS`, whose SLF rises with the delay up to 64 us, and hardly
/// beyond.
fn rising() -> Vec<Outcome> {
    [1.1, 1.3, 2.0, 2.05, 2.1, 2.2].map(|slf| outcome(slf, 1000, 50.0)).to_vec()
}

#[test]
fn the_shortest_delay_that_is_nearly_as_good() {
    let found = reframing(&report(), &ASSUMED, &rising());
    // The 50 % of switches that 64 us saves are more than nine tenths of the 54.5 % that 512 us saves.
    assert_eq!((found.verdict, found.delay_us), (Verdict::Pays, Some(64)));
    let row = found.chosen().unwrap();
    // Half a flow switch per packet is saved, which is 150 ns at 300 ns per switch. Holding costs 40 ns
    // for each packet and 60 ns for each burst of two packets, so that the gain is 80 ns per packet. At a
    // million packets per second, that is 8 % of a core.
    assert!((row.gain_ns - 80.0).abs() < 1e-9 && (found.core - 0.08).abs() < 1e-9, "{found:?}");
    assert!((found.break_even_ns.unwrap() - 140.0).abs() < 1e-9, "{found:?}");
    // Delays above the maximum are not advised.
    let short = reframing(&report(), &Assumptions { max_delay_us: 32, ..ASSUMED }, &rising());
    assert_eq!((short.verdict, short.delay_us), (Verdict::DoesNotPay, Some(32)));
    let slow = reframing(&TraceReport { packets_per_s: 1e4, ..report() }, &ASSUMED, &rising());
    assert_eq!(slow.verdict, Verdict::Little);
    let cheap = reframing(&report(), &Assumptions { flow_cost_ns: 139.0, ..ASSUMED }, &rising());
    assert_eq!((cheap.verdict, cheap.break_even_ns.map(f64::round)), (Verdict::DoesNotPay, Some(140.0)));
    // The cost of a switch changes the gain, but neither the saved switches nor the break-even cost.
    let free = reframing(&report(), &Assumptions { flow_cost_ns: 0.0, ..ASSUMED }, &rising());
    assert_eq!((free.verdict, free.delay_us), (Verdict::DoesNotPay, Some(64)));
    assert_eq!((free.break_even_ns.map(f64::round), free.core), (Some(140.0), 0.0));
    assert!(free.why.starts_with("64 us would save 50.0 %"), "{}", free.why);
    // If no allowed delay saves switches, no delay is advised.
    let none = [1.0, 1.0, 2.0, 2.0, 2.0, 2.0].map(|slf| outcome(slf, 1000, 50.0));
    let none = reframing(&report(), &Assumptions { max_delay_us: 40, ..ASSUMED }, &none);
    assert_eq!((none.verdict, none.delay_us, none.break_even_ns), (Verdict::DoesNotPay, None, None));
    assert!(none.why.contains("no delay of up to 32 us"), "{}", none.why);
    let fast = reframing(&TraceReport { packets_per_s: 2e7, ..report() }, &ASSUMED, &rising());
    assert!(fast.why.contains("1.6 cores") && !fast.why.contains("160"), "{}", fast.why);
}

#[test]
fn holding_costs_less_in_long_bursts() {
    let cost = |held, burst| ASSUMED.hold_ns(held, burst);
    assert_eq!([cost(1.0, 1.0), cost(1.0, 3.0), cost(0.5, 1.0)], [100.0, 60.0, 70.0]);
    // A Reframer that holds nothing has no bursts.
    assert_eq!(cost(0.0, 0.0), 40.0);
}

#[test]
fn captures_without_times_say_nothing_of_waiting() {
    let judge = |change: fn(&mut TraceReport)| {
        let mut report = report();
        (report.tcp_reordering.segments, report.tcp_reordering.reordered) = (1000, 5);
        report
            .ack_coalescing
            .insert(1, trace::analysis::batches::AckBatch { pure_acks: 1000, ..Default::default() });
        (report.sliceable.bytes, report.bits_per_s, report.concurrent_flows_150us.count) = (0.9, 4e10, 1);
        change(&mut report);
        let outcome = Outcome { coalesced: 500, mended: 500, ..outcome(2.0, 1000, 5.0) };
        let all = [
            reframing(&report, &ASSUMED, &rising()).verdict,
            acks(&report, 64, &outcome).judged.verdict,
            sorting(&report, 64, &outcome).judged.verdict,
            slicing(&report).judged.verdict,
            spraying(&report, 8).judged.verdict,
        ];
        (all, notes(&report).len())
    };
    assert_eq!(judge(|_| ()), ([Verdict::Pays; 5], 0));
    assert_eq!(judge(|report| report.packets_behind = 9), ([Verdict::Pays; 5], 1));
    assert_eq!(judge(|report| report.packets_behind = 10), ([Verdict::Unknown; 5], 1));
    assert_eq!(judge(|report| report.duration_s = 0.0), ([Verdict::Unknown; 5], 0));
    assert_eq!(judge(|report| report.packets = 1), ([Verdict::Unknown; 5], 0));
    assert_eq!(judge(|report| report.packets = 0), ([Verdict::Unknown; 5], 0));
    let unknown = judge(|report| {
        (report.kinds.tcp.packets, report.unknown_packets) = (0, 1000);
    });
    assert_eq!(unknown.0, [Verdict::Unknown; 5]);
}

#[test]
fn acks_with_wrong_checksums_are_not_what_the_traffic_is() {
    let judge = |damaged: u64| {
        let counts = trace::analysis::batches::AckBatch {
            pure_acks: 500,
            pure_damaged: damaged,
            ..Default::default()
        };
        let report = TraceReport { ack_coalescing: [(1, counts)].into(), ..report() };
        (acks(&report, 64, &outcome(2.0, 1000, 5.0)).judged.verdict, notes(&report).len())
    };
    assert_eq!(judge(0), (Verdict::DoesNotPay, 0));
    assert_eq!(judge(10), (Verdict::DoesNotPay, 1));
    assert_eq!(judge(250), (Verdict::Unknown, 1));
}

#[test]
fn heavy_flows_are_enough_if_most_is_saved_and_less_is_held() {
    let all = reframing(&report(), &ASSUMED, &rising());
    let choose = |outcomes: [Outcome; 3]| elephants(&report(), &ASSUMED, &all, &outcomes).best;
    let (good, less, bad) = (outcome(1.9, 300, 9.0), outcome(1.85, 200, 9.0), outcome(1.5, 50, 9.0));
    // With an SLF of 1.85, 46 % of the switches are saved; with 1.5, only a third of them.
    assert_eq!(choose([good.clone(), less, bad.clone()]), 64);
    assert_eq!(choose([good, bad.clone(), bad.clone()]), 16);
    assert_eq!(choose([outcome(2.0, 950, 9.0), bad.clone(), bad]), 0);
    // An SLO pays if it saves as many switches with a lower mean delay.
    let slo = |mean| slo(&report(), &ASSUMED, &all, Some(&outcome(2.0, 900, mean))).best;
    assert_eq!((slo(40.0), slo(49.0)), (slo_for(64), 0));
}

#[test]
fn sorting_is_judged_by_what_it_does() {
    let judge = |reordered: u64, mended: u64| {
        let mut report = report();
        (report.tcp_reordering.segments, report.tcp_reordering.reordered) = (10_000, reordered);
        sorting(&report, 64, &Outcome { mended, ..Outcome::default() }).judged.verdict
    };
    assert_eq!(judge(0, 0), Verdict::DoesNotPay);
    assert_eq!(judge(200, 10), Verdict::Pays);
    assert_eq!(judge(200, 9), Verdict::Little);
    // The 200 reordered segments arrive too late for the Reframer's delay, so that REORDER puts none of
    // them in order.
    assert_eq!(judge(200, 0), Verdict::DoesNotPay);
}

#[test]
fn slicing_is_for_fast_links_with_large_payloads() {
    let judge = |bytes: f64, bits_per_s: f64| {
        let mut report = TraceReport { bits_per_s, ..report() };
        report.sliceable.bytes = bytes;
        slicing(&report).judged.verdict
    };
    assert_eq!(judge(0.8, 4e10), Verdict::Pays);
    assert_eq!(judge(0.8, 1e9), Verdict::Little);
    assert_eq!(judge(0.3, 4e10), Verdict::Little);
    assert_eq!(judge(0.1, 4e10), Verdict::DoesNotPay);
}
