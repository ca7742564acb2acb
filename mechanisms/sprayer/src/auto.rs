//! Large flows to all cores, the others each to one.
//!
//! Where there are many flows of about the same size, giving each to one core is even, and the cheapest (FAJITA, 2024, found no
//! gain from spraying there). A flow is large if it alone has more than half of what one core would have if all
//! packets were spread evenly: two such flows on one core are more than its share. A bounded sketch counts packets of the
//! recent past.

use element::steering::{Dispatch, Spread, hash};
use element::{Packet, Timestamp};
use flow::Sketch;

use crate::spray::Spray;

/// Lines of the sketch: with so many, flows that are not large are hardly ever taken for large.
const LINES: usize = 256;
/// Packets after which counts are halved.
const WINDOW: u32 = 4096;

/// Spreads large flows.
pub struct Auto {
    spray: Spray,
    sketch: Sketch,
    /// Packets that the counts are of, halved with them.
    counted: u32,
    /// Packets until they are halved.
    left: u32,
    workers: u32,
}

impl Auto {
    /// Spreads packets of large flows by `spray`.
    pub fn new(spray: Spray) -> Auto {
        let workers = spray.workers() as u32;
        Auto { spray, sketch: Sketch::new(LINES), counted: 0, left: WINDOW, workers }
    }

    /// Counts a packet; whether its flow is large.
    fn is_large(&mut self, hash: u32) -> bool {
        if self.left == 0 {
            self.sketch.halve(1);
            (self.counted, self.left) = (self.counted / 2, WINDOW);
        }
        self.left -= 1;
        self.counted += 1;
        let count = self.sketch.add(hash);
        // Of few packets nothing can be said.
        self.counted >= WINDOW / 8 && count > self.counted / (2 * self.workers)
    }
}

impl Spread for Auto {
    fn worker_of(&mut self, packet: &Packet, _now: Timestamp, owner: &dyn Dispatch) -> usize {
        let is_large = hash(packet).is_some_and(|hash| self.is_large(hash));
        match is_large && self.spray.is_regular(packet) {
            true => self.spray.next(packet),
            false => owner.worker_of(packet),
        }
    }

    fn may_stay(&self, packet: &Packet) -> bool {
        self.spray.is_regular(packet)
    }
}
