//! Measurement of latency with packets that arrive at a given rate, whether or not the receiver is ready
//! (an open loop).
//!
//! A configuration that is driven at full rate has no latency, because packets come when it asks for them. In
//! an open loop, packet n arrives n / rate seconds after the start, even if the configuration does not ask
//! for it. It waits in a ring, as in an interface, until it is taken. The latency of a packet is the time
//! from its arrival to the end of the chain, including the wait.

use std::time::{Duration, Instant};

use engine::{Options, Worker};

use crate::frames::Start;
use crate::runner::running;

/// The distribution of the latencies of packets, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) quartiles: [f64; 2],
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// Returns the configuration in which the packets of `frames` arrive at a rate (the handler `arrivals.rate`)
/// and pass `chain`, in bursts of at most `burst` packets. `start` is the kind of the packets and the header
/// at which they start.
pub(crate) fn text(frames: &str, start: Start, burst: usize, chain: &str) -> String {
    format!("{frames} {} -> arrivals :: BenchmarkArrivals({burst}) -> {chain}", start.marks())
}

/// A running configuration in which packets arrive at a rate.
pub(crate) struct OpenLoop {
    worker: Worker,
}

impl OpenLoop {
    /// Creates an open loop with the configuration that [`text`] returns. `frames` is a source that supplies
    /// each packet once. Each `BenchmarkLatency` of the chain measures the packets that pass it.
    pub(crate) fn new(frames: &str, start: Start, burst: usize, chain: &str) -> Result<OpenLoop, String> {
        OpenLoop::of(text(frames, start, burst, chain))
    }

    /// Creates an open loop from a whole configuration, which must have an element `arrivals` as in
    /// [`text`].
    pub(crate) fn of(text: String) -> Result<OpenLoop, String> {
        let mut open_loop = OpenLoop { worker: running(text, Options::default())? };
        // In the first step, the element `arrivals` pulls all packets of the source into memory.
        open_loop.run_for(Duration::from_millis(1))?;
        Ok(open_loop)
    }

    /// Lets packets arrive at `rate` per second for `time`, after a warm-up of a tenth of `time`. Returns the
    /// million packets per second that were taken from the ring; all other packets found the ring full and
    /// are lost. The run is extended, to at most a hundred times `time`, while one of the meters has seen no
    /// packet, because a busy machine may not schedule this thread during a short run.
    pub(crate) fn drive(&mut self, rate: f64, time: Duration, meters: &[&str]) -> Result<f64, String> {
        self.write("arrivals", "rate", &rate.to_string())?;
        self.run_for(time / 10)?;
        for meter in meters {
            self.write(meter, "reset", "")?;
        }
        let start = Instant::now();
        let before = self.count()?;
        for _ in 0..100 {
            self.run_for(time)?;
            let mut missing = false;
            for meter in meters {
                missing |= self.read(meter, "all")?.starts_with("0 ");
            }
            if !missing {
                break;
            }
        }
        Ok((self.count()? - before) / start.elapsed().as_secs_f64() / 1e6)
    }

    fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < time {
            if !self.worker.step(256) {
                return Err("the measurement stopped by itself".into());
            }
        }
        Ok(())
    }

    /// Returns the latencies that a meter has recorded in the last run; an error if the meter has seen no
    /// packet.
    pub(crate) fn latencies(&mut self, meter: &str) -> Result<Latencies, String> {
        let text = self.read(meter, "all")?;
        let figures: Vec<f64> = text.split(' ').filter_map(|figure| figure.parse().ok()).collect();
        let &[count, lower, median, upper, p99, p999, mean, deviation] = &figures[..] else {
            return Err(format!("{meter} says {text}"));
        };
        if count == 0.0 {
            return Err(format!("no packet has come to '{meter}'"));
        }
        let [lower, median, upper, p99, p999, mean, deviation] =
            [lower, median, upper, p99, p999, mean, deviation].map(|nanoseconds| nanoseconds / 1e3);
        Ok(Latencies { quartiles: [lower, upper], median, p99, p999, mean, deviation })
    }

    fn count(&mut self) -> Result<f64, String> {
        self.read("arrivals", "count")?.parse().map_err(|_| "no count".into())
    }

    pub(crate) fn read(&mut self, element: &str, name: &str) -> Result<String, String> {
        let id = self.worker.plan().graph.find(element).ok_or(format!("no {element}"))?;
        self.worker.read(Some(id), name, "")
    }

    fn write(&mut self, element: &str, name: &str, value: &str) -> Result<(), String> {
        let id = self.worker.plan().graph.find(element).ok_or(format!("no {element}"))?;
        self.worker.write(Some(id), name, value)
    }

    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.worker.finish().map_err(|errors| errors.join("; "))
    }
}
