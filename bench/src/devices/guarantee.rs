//! A bandwidth guarantee for one of eight TCP connections on a shared link: its packets get the higher of two
//! priorities as far as needed (Juggler, Figure 17).

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use lab::Connections;

use super::{Line, PORT, Program, RIGHT, numbers};

/// The connections that compete with the guaranteed connection.
const OTHERS: Connections<'_> = Connections::new(7);
/// The capacity in packets of each queue of the link. A full queue takes 1.2 ms to be sent over the link, or
/// 4.8 ms if it is the low-priority queue and gets only a quarter of the link's rate.
const QUEUE: u32 = 100;
/// A Juggler that restores the order after packets in one queue have overtaken packets in the other. It waits
/// up to 5 ms for a missing packet. That is longer than a packet is in the low-priority queue, if that queue
/// gets at least a quarter of the link's rate.
const JUGGLER: &str = "Juggler(LINE_RATE 1Gbps, OFO_TIMEOUT 5ms, QUEUE 8388608) ->";

/// A testbed: two machines, connected by a link of 1 Gb/s that sends packets of two priorities.
pub(crate) struct Guarantee {
    program: Program,
}

impl Guarantee {
    /// The time between two readings of the number of bytes that the receiver has acknowledged.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

    pub(crate) fn new() -> Result<Guarantee> {
        Ok(Guarantee { program: Program::new()? })
    }

    /// Measures the acknowledged gigabits per second of the guaranteed connection in each interval:
    /// `before` intervals without a guarantee, then `after` intervals with a guarantee of `mbps` megabits
    /// per second. With `has_juggler`, packets pass a Juggler before they reach the receiver.
    pub(crate) fn measure(
        &self,
        mbps: u64,
        has_juggler: bool,
        [before, after]: [usize; 2],
    ) -> Result<Vec<f64>> {
        let line = Line::of_ordinary_frames()?;
        let juggler = if has_juggler { JUGGLER } else { "" };
        let other = PORT + 1;
        // The Classifiers in this configuration compare TCP ports at fixed offsets, for IP headers without
        // options.
        let interval = Self::INTERVAL.as_secs_f64();
        let [left, right] = ["left", "right"].map(|interface| self.program.receive(interface));
        let config = format!(
            "{left} -> there :: Classifier(36/{PORT:04x}, -);
             {right} -> back :: Classifier(34/{PORT:04x}, -);
             there[0] -> MarkIPHeader(14) -> m :: PriorityMarker(0, 1Gbps, INTERVAL 2ms) -> link :: StrictPriority(1Gbps, CAPACITY {QUEUE});
             there[1] -> link;
             link -> {juggler} Queue({}) -> ToDevice(right);
             back[0] -> MarkIPHeader(14) -> [1] m [1] -> home :: Queue -> ToDevice(left);
             back[1] -> home;
             Script(label begin, wait 10ms, goto begin $(eq $(m.acknowledged) 0), wait 0.5s,
                 set n 0, label one, print \"at $(now) $(m.acknowledged)\", wait {interval}s, set n $(add $n 1), goto one $(le $n {before}),
                 write m.target {mbps}Mbps,
                 label two, print \"at $(now) $(m.acknowledged)\", wait {interval}s, set n $(add $n 1), goto two $(le $n {}))",
            4 * QUEUE,
            before + after
        );
        let mut running = self.program.run(&line.between, &["--busy-poll"], &config)?;
        let time = Duration::from_secs(1) + Self::INTERVAL * (before + after) as u32;
        let address = |port| SocketAddr::from((RIGHT, port));
        thread::scope(|scope| {
            // The seven other connections send for twice the time, so that they end after the guaranteed
            // connection.
            let others =
                scope.spawn(|| lab::flows(&line.left, &line.right, address(other), &OTHERS, 2 * time));
            let one = scope.spawn(|| lab::flow(&line.left, &line.right, address(PORT), time));
            let looks: Result<Vec<[f64; 2]>> = (0..=before + after)
                .map(|_| match numbers(&running.wait_for("at ")?, "at")?[..] {
                    [now, bytes] => Ok([now, bytes]),
                    _ => Err(Error::other("no figures")),
                })
                .collect();
            fn ended<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            ended(one)?;
            ended(others)?;
            let rate = |both: &[[f64; 2]]| (both[1][1] - both[0][1]) * 8.0 / (both[1][0] - both[0][0]) / 1e9;
            Ok(looks?.windows(2).map(rate).collect())
        })
    }
}
