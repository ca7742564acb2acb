//! The handlers of Juggler, which show the state and change time-outs while packets flow.

use element::Handler;
use element::args::{ArgType, Micros};
use element::metrics;

use super::Juggler;
use crate::flows::{Counts, EvictionList, FlushReason};
use crate::settings::AutoMicros;
use crate::statistics::Statistics;

/// The handlers of Juggler.
pub(super) const HANDLERS: &[Handler<Juggler>] = &[
    Handler::get("flows", |e| e.settings.flows.to_string()),
    Handler::get("line_rate", |e| format!("{}Bps", e.settings.line_rate.0)),
    Handler::data(
        "inseq_timeout",
        |e| e.settings.in_sequence().as_interval(),
        |e, cx, value| {
            e.settings.in_sequence = AutoMicros::parse(value, &cx.place())?.0;
            e.renew_limits(cx);
            Ok(())
        },
    ),
    Handler::data(
        "ofo_timeout",
        |e| e.settings.out_of_order.as_interval(),
        |e, cx, value| {
            e.settings.out_of_order = Micros::parse(value, &cx.place())?.0;
            e.renew_limits(cx);
            Ok(())
        },
    ),
    Handler::get("merge", |e| e.settings.merges.to_string()),
    Handler::get("udp", |e| e.settings.udp.to_string()),
    Handler::get("no_merge", |e| e.settings.no_merge.text().into()),
    Handler::get("checksum", |e| e.settings.checks.as_str().into()),
    Handler::get("constant_id", |e| e.settings.constant_id.to_string()),
    Handler::get("queue", |e| e.settings.queue.to_string()),
    Handler::<Juggler>::count("segments_in", |e| e.statistics.segments[0]).metric(metrics::SEGMENTS_IN),
    Handler::<Juggler>::count("segments_out", |e| e.statistics.segments[1]).metric(metrics::SEGMENTS_OUT),
    Handler::get("merged", |e| {
        let left = e.statistics.segments[1].max(1);
        format!("{:.3}", e.statistics.released as f64 / left as f64)
    }),
    Handler::<Juggler>::get("sizes", |e| e.statistics.show_sizes()).summed(),
    Handler::count("passed", |e| e.statistics.passed),
    Handler::count("damaged", |e| e.statistics.damaged),
    Handler::<Juggler>::get("flushes", |e| {
        let line = |&reason: &FlushReason| format!("{} {}\n", reason.as_str(), e.flushed(reason));
        FlushReason::ALL.iter().map(line).collect()
    })
    .summed(),
    Handler::<Juggler>::count("timeouts", |e| {
        e.flushed(FlushReason::InSequenceTimeout) + e.flushed(FlushReason::OutOfOrderTimeout)
    })
    .metric(metrics::TIMEOUTS),
    Handler::<Juggler>::get("evictions", |e| {
        let evictions = &e.flows.counts.evictions;
        let line = |&list: &EvictionList| format!("{} {}\n", list.as_str(), evictions[list as usize]);
        EvictionList::ALL.iter().map(line).collect()
    })
    .summed(),
    Handler::count("datagrams", |e| e.length(EvictionList::Datagrams)),
    Handler::count("inactive", |e| e.length(EvictionList::Inactive)),
    Handler::<Juggler>::count("active", |e| e.length(EvictionList::Active)).metric(metrics::FLOWS),
    Handler::count("gap", |e| e.length(EvictionList::Gap)),
    Handler::count("loss_recovery", |e| e.length(EvictionList::LossRecovery)),
    Handler::<Juggler>::get("lengths", |e| {
        let lines = |list: EvictionList| {
            let shown = e.statistics.lengths[list as usize].show_with("");
            shown.lines().map(|line| format!("{} {line}\n", list.as_str())).collect::<String>()
        };
        EvictionList::ALL.map(lines).concat()
    })
    .summed(),
    Handler::count("reordered_in", |e| e.flows.counts.reordered[0]),
    Handler::count("reordered_out", |e| e.flows.counts.reordered[1]),
    Handler::<Juggler>::get("hold_times", |e| e.statistics.holds.show()).summed(),
    Handler::count("held", |e| e.flows.held() as u64),
    Handler::set("flush", |e, cx, _| {
        e.flush(cx);
        Ok(())
    }),
    Handler::act("reset", |e| {
        e.statistics = Statistics::default();
        e.flows.counts = Counts::default();
    }),
];
