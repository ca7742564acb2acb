//! The two ends of an exchange without the workers around it, so that benchmarks can measure the cost of
//! handing packets over.

use std::sync::Arc;

use element::steering::{Dispatch, Rss};
use element::{Batch, Packet, Timestamp};

use crate::exchange::{self, Bell, Departure, Exchange};
use crate::graph_copy::Target;
use crate::placement::{Origin, Way};

/// The end of a ring at which packets go in.
pub struct Giver(Exchange);

/// The end of a ring at which packets come out.
pub struct Taker(Exchange);

/// Makes the two ends of a new ring from one worker to another.
///
/// # Errors
/// If the system refuses an event, for example because the process has no file descriptor left.
pub fn new() -> Result<(Giver, Taker), String> {
    let bells = (0..2).map(|_| Bell::new()).collect::<Result<Arc<[Bell]>, _>>();
    let bells = bells.map_err(|error| error.to_string())?;
    let dispatch: Arc<dyn Dispatch> = Arc::new(Rss::new(2));
    let mut sides = exchange::connect(&bells, &dispatch, None, &[], true).into_iter();
    match (sides.next(), sides.next()) {
        (Some(giver), Some(taker)) => Ok((Giver(giver), Taker(taker))),
        _ => Err("two workers have two ends".into()),
    }
}

impl Giver {
    /// True if the ring is less than half full, counting the packets that wait next to it.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.0.is_clear()
    }

    /// Hands all packets of a batch over, and leaves the batch empty. Packets that find no room wait next
    /// to the ring; `lost` gets packets for which there is no memory either.
    #[inline]
    pub fn give(&mut self, batch: &mut Batch, lost: impl FnMut(Packet)) {
        let to = Target { element: 0, input: 0, way: Way::To(1) };
        let departure = Departure { to, origin: Origin::default(), now: Timestamp::ZERO };
        self.0.hand_over(batch, departure, lost);
    }
}

impl Taker {
    /// Takes at most `most` packets out of the ring, into an empty batch. True if there were any packets.
    #[inline]
    pub fn take(&mut self, most: usize, batch: &mut Batch) -> bool {
        self.0.take(0, most, batch).is_some()
    }
}
