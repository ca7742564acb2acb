//! The part of one worker that captures packets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::context::DropWatch;
use element::view::PacketFilter;
use element::{DropReason, ElementId, Packet, Setup, Timestamp};

use super::buffer::{Event, Moment};
use super::{Captures, Place};
use crate::tracing::Out;

/// The part of one worker that captures packets at one place.
pub(crate) struct Tap {
    captures: Arc<Captures>,
    /// The number of the capture that the tap belongs to.
    number: u64,
    pub(crate) place: Place,
    filter: Option<PacketFilter>,
    worker: usize,
}

impl Tap {
    /// Makes the tap of a worker for the capture that is under way; `None` if there is none.
    ///
    /// # Errors
    /// If the pattern is wrong: a message for the user.
    pub(crate) fn new(captures: &Arc<Captures>, setup: &Setup) -> Result<Option<Tap>, String> {
        let Some((number, order)) = captures.current() else { return Ok(None) };
        let filter = order.filter(setup)?;
        let captures = Arc::clone(captures);
        Ok(Some(Tap { captures, number, place: order.place, filter, worker: setup.worker }))
    }

    /// True if packets are wanted.
    pub(crate) fn is_open(&self) -> bool {
        self.captures.is_open.load(Ordering::Relaxed)
    }

    /// Captures packets that came to an input, if they are wanted.
    pub(crate) fn came<'a>(
        &self,
        (element, input): (ElementId, usize),
        now: Timestamp,
        packets: impl Iterator<Item = &'a Packet>,
    ) {
        if self.place == Place::Input(element, input) {
            self.take(element, Event::Came(input), now, packets);
        }
    }

    /// Captures packets that have left an element, if they left by the output at which they are wanted.
    pub(crate) fn left<'a>(
        &self,
        element: ElementId,
        now: Timestamp,
        packets: impl Iterator<Item = (&'a Packet, Out)>,
    ) {
        let Place::Output(wanted, output) = self.place else { return };
        if wanted == element {
            let packets = packets.filter(|(_, out)| *out == Out::Output(output)).map(|(packet, _)| packet);
            self.take(element, Event::Left(output), now, packets);
        }
    }

    fn take<'a>(
        &self,
        element: ElementId,
        event: Event,
        now: Timestamp,
        packets: impl Iterator<Item = &'a Packet>,
    ) {
        if !self.is_open() {
            return;
        }
        let mut wanted =
            packets.filter(|packet| self.filter.as_ref().is_none_or(|f| f.matches(packet))).peekable();
        if wanted.peek().is_some() {
            let moment = Moment { worker: self.worker, element, event, now };
            self.captures.take(self.number, &moment, wanted);
        }
    }
}

impl DropWatch for Tap {
    fn dropped(&mut self, element: ElementId, packet: &Packet, reason: DropReason, now: Timestamp) -> bool {
        self.take(element, Event::Dropped(reason), now, std::iter::once(packet));
        self.is_open()
    }
}
