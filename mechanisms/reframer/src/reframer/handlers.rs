//! The handlers of Reframer and SFMaker, which show the state and change settings while packets flow.

use element::args::{ArgType, Real};
use element::metrics;
use element::{Cx, Handler, Timestamp};

use super::{Reframer, finder_for, lists_for, sketch_for};
use crate::lists::ReleaseReason;
use crate::memory::Memory;
use crate::quic::QuicId;
use crate::settings::{Count, Limit, Micros, Slo, batch_length};
use crate::statistics::{Statistics, mean};

/// The handlers of Reframer.
pub(super) const HANDLERS: &[Handler<Reframer>] = &[
    Handler::data(
        "delay",
        |e| e.settings.delay.as_interval(),
        |e, cx, text| {
            e.settings.delay = parsed::<Micros>(cx, text)?.0;
            e.change_times(cx);
            Ok(())
        },
    ),
    Handler::data("delays", |e| e.settings.delays.text().into(), Reframer::change_delays),
    Handler::data(
        "max_burst",
        |e| e.settings.max_burst.to_string(),
        |e, cx, text| {
            e.settings.max_burst = parsed::<Count>(cx, text)?.0;
            e.lists.release_long(e.settings.max_burst, ReleaseReason::Full, e.settings.priority);
            e.finish_round(cx);
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "max_bytes",
        |e| Limit(e.settings.max_bytes).show(),
        |e, cx, text| {
            e.settings.max_bytes = parsed::<Limit>(cx, text)?.0;
            // The bytes of packets that are held now were not counted if MAX_BYTES was `off` before, so all
            // held packets are released first.
            e.flush(cx);
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "max_tx_burst",
        |e| e.settings.max_tx_burst.to_string(),
        |e, cx, text| {
            e.settings.max_tx_burst = batch_length(parsed::<Count>(cx, text)?.0);
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "priority",
        |e| e.settings.priority.as_str().into(),
        |e, cx, text| {
            e.settings.priority = parsed(cx, text)?;
            // The held packets are in lists without the number by which the new priority orders them.
            e.flush(cx);
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "reorder",
        |e| e.settings.reorder.to_string(),
        |e, cx, text| {
            e.settings.reorder = parsed(cx, text)?;
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "compress",
        |e| e.settings.compress.to_string(),
        |e, cx, text| {
            e.settings.compress = parsed(cx, text)?;
            // While the merging of ACKs (COMPRESS) is off, the acknowledgment numbers of flows are not
            // tracked. So the first ACK afterwards may be a duplicate, and is treated as a first ACK.
            e.memory.forget_acknowledged();
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "bypass",
        |e| e.settings.bypass.text().into(),
        |e, cx, text| {
            e.settings.bypass = parsed(cx, text)?;
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "elephants",
        |e| Limit(e.settings.elephants).show(),
        |e, cx, text| {
            e.settings.elephants = parsed::<Limit>(cx, text)?.0;
            if e.settings.elephants == 0 || e.sketch.is_none() {
                e.sketch = sketch_for(&e.settings);
            }
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "slo",
        |e| Slo(e.settings.slo).show(),
        |e, cx, text| {
            e.settings.slo = parsed::<Slo>(cx, text)?.0;
            e.change_times(cx);
            Ok(())
        },
    ),
    Handler::data(
        "max_acks",
        |e| e.settings.max_acks.to_string(),
        |e, cx, text| {
            e.settings.max_acks = parsed::<Count>(cx, text)?.0;
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "min_burst",
        |e| Real(e.settings.min_burst).to_string(),
        |e, cx, text| {
            e.settings.min_burst = parsed(cx, text)?;
            e.note_settings();
            Ok(())
        },
    ),
    Handler::data(
        "tunnels",
        |e| e.settings.tunnels.to_string(),
        |e, cx, text| {
            e.settings.tunnels = parsed(cx, text)?;
            e.change_keys(cx);
            Ok(())
        },
    ),
    Handler::data(
        "quic_id",
        |e| QuicId(e.settings.quic_id).show(),
        |e, cx, text| {
            e.settings.quic_id = parsed::<QuicId>(cx, text)?.0;
            e.change_keys(cx);
            Ok(())
        },
    ),
    Handler::data("capacity", |e| e.settings.capacity.to_string(), Reframer::change_capacity),
    Handler::data(
        "max_held",
        |e| e.settings.max_held.to_string(),
        |e, cx, text| {
            e.settings.max_held = parsed::<Count>(cx, text)?.0;
            while e.lists.held() > e.settings.max_held {
                e.lists.release_oldest(ReleaseReason::Capacity, e.settings.priority);
                e.finish_round(cx);
            }
            e.note_settings();
            Ok(())
        },
    ),
    Handler::get("slf_in", |e| format!("{:.3}", e.statistics.locality_in.factor())),
    Handler::get("slf_out", |e| format!("{:.3}", e.statistics.locality_out.factor())),
    Handler::get("mean_batch", |e| format!("{:.3}", mean(e.statistics.released, e.statistics.bursts()))),
    Handler::<Reframer>::get("hold_times", |e| e.statistics.holds.show()).summed(),
    Handler::<Reframer>::get("burst_sizes", |e| {
        e.statistics.show_classes(|counts| counts.sizes().show_with(""))
    })
    .summed(),
    Handler::<Reframer>::get("burst_times", |e| e.statistics.show_classes(|counts| counts.times.show()))
        .summed(),
    Handler::<Reframer>::get("releases", |e| {
        let count = |reason: ReleaseReason| e.statistics.releases[reason as usize];
        ReleaseReason::ALL.iter().map(|&reason| format!("{} {}\n", reason.as_str(), count(reason))).collect()
    })
    .summed(),
    Handler::get("waited_in_vain", |e| {
        let waited = mean(e.statistics.waited, e.statistics.bursts());
        Timestamp(waited.round() as i64).as_interval()
    }),
    Handler::<Reframer>::count(
        "flows",
        |e| if e.remembers { e.memory.count() } else { e.lists.active() as u64 },
    )
    .metric(metrics::FLOWS),
    ACTIVE,
    Handler::count("held", |e| e.lists.held() as u64),
    Handler::count("passed", |e| e.statistics.passed),
    Handler::count("paused", |e| e.statistics.paused),
    Handler::<Reframer>::count("overflows", |e| e.statistics.overflows).metric(metrics::OVERFLOWS),
    REORDERED,
    Handler::count("mended", |e| e.statistics.mended),
    Handler::count("coalesced", |e| e.statistics.coalesced),
    FLUSH,
    Handler::act("reset", |e| {
        e.statistics = Statistics::default();
        e.pause.begin_sample(&e.statistics);
    }),
];

/// The handlers of SFMaker, with the names that FastClick's element has. Their means leave out bypassing
/// packets that left at once.
pub(crate) const OF_SF_MAKER: &[Handler<Reframer>] = &[
    Handler::count("queued", |e| e.lists.held() as u64),
    Handler::count("pushed", |e| e.sent() + e.lists.held() as u64),
    Handler::count("sent", |e| e.sent()),
    Handler::count("dropped", |e| e.statistics.coalesced),
    REORDERED,
    ACTIVE,
    Handler::count("count", |e| e.statistics.waiting().0),
    Handler::count("superframes", |e| e.statistics.rounds),
    Handler::get("superframe_size_avg", |e| real(e.statistics.waiting().0, e.statistics.rounds)),
    Handler::get("superframe_flows_avg", |e| real(e.statistics.waiting().1, e.statistics.rounds)),
    Handler::get("packets_avg", Reframer::packets_per_burst),
    Handler::get("bursts_avg", Reframer::packets_per_burst),
    Handler::get("compress_avg", |e| real(e.statistics.coalesced, e.statistics.waiting().1)),
    Handler::get("useless_wait_avg", |e| {
        Real(mean(e.statistics.waited, e.statistics.waiting().1) / 1000.0).to_string()
    }),
    FLUSH,
];

const ACTIVE: Handler<Reframer> = Handler::count("active", |e| e.lists.active() as u64);
const REORDERED: Handler<Reframer> =
    Handler::<Reframer>::count("reordered", |e| e.statistics.reordered).metric(metrics::REORDERED);
const FLUSH: Handler<Reframer> = Handler::set("flush", |e, cx, _| {
    if e.settings.flush_ends {
        e.settings.delay = Timestamp::ZERO;
        e.change_times(cx);
    }
    e.flush(cx);
    Ok(())
});

/// Parses a value that was written to a handler as a value of an argument.
fn parsed<T: ArgType>(cx: &Cx<'_>, text: &str) -> Result<T, String> {
    T::parse(text, &cx.place())
}

/// Returns a mean in FastClick's format.
fn real(sum: u64, count: u64) -> String {
    Real(mean(sum, count)).to_string()
}

impl Reframer {
    /// Returns the number of packets that left, including ACKs that were dropped because they were
    /// superfluous.
    fn sent(&self) -> u64 {
        self.statistics.released + self.statistics.passed + self.statistics.paused
    }

    fn packets_per_burst(&self) -> String {
        let (packets, bursts) = self.statistics.waiting();
        real(packets, bursts)
    }

    /// Applies a change of DELAY or SLO, and releases the packets that have waited too long now.
    fn change_times(&mut self, cx: &mut Cx<'_>) {
        for delay_class in 0..self.lists.delay_classes() {
            self.lists.set_delay(delay_class, self.settings.delay_of(delay_class));
        }
        self.finish_round(cx);
        self.note_settings();
    }

    /// Applies a change of TUNNELS or QUIC_ID, which gives flows other keys. The held packets are released
    /// first, so that no later packet of a flow, which has the new key, overtakes packets that are held under
    /// the old key.
    fn change_keys(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        self.finder = finder_for(&self.settings, self.finder.hasher.clone());
        self.note_settings();
    }

    /// Sets the maximum number of flows. An error leaves the element unchanged.
    fn change_capacity(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), String> {
        let Count(capacity) = parsed(cx, text)?;
        let memory = Memory::new(capacity).map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut self.settings.capacity, capacity);
        self.renew_lists(cx).inspect_err(|_| self.settings.capacity = before)?;
        self.memory = memory;
        Ok(())
    }

    /// Sets the delays of classes of traffic. An error leaves the element unchanged.
    fn change_delays(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), String> {
        let before = std::mem::replace(&mut self.settings.delays, parsed(cx, text)?);
        if let Err(error) = self.renew_lists(cx) {
            self.settings.delays = before;
            return Err(error);
        }
        self.statistics.classes = Default::default();
        Ok(())
    }

    /// Makes new lists as the settings say, after all packets were released.
    fn renew_lists(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let lists = lists_for(&self.settings)?;
        self.flush(cx);
        self.lists = lists;
        self.note_settings();
        Ok(())
    }
}
