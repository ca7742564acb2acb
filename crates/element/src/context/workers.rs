//! The requests of an element about other workers, and the ways to send packets to them.

use std::net::IpAddr;

use flow::rss;
use packet::{Batch, Packet};
use wire::LinkType;

use super::{Cx, Emitted, Host};
use crate::ElementId;

impl Cx<'_> {
    /// Returns the workers, to ask to which of them packets belong.
    #[inline]
    pub fn workers(&self) -> Workers<'_> {
        Workers { host: &*self.host, id: self.id }
    }

    /// Returns the worker that this copy of the graph belongs to, from 0, and the number of workers.
    pub fn worker(&self) -> (usize, usize) {
        self.host.worker()
    }

    /// Hands packets that have come in by an input to the workers that they belong to. They come in by the
    /// same input of this element's copies there. It is only for packets of other workers, if packets of a
    /// flow are spread ([`Setup::is_spread`](crate::Setup::is_spread)): packets of unknown flows, and
    /// packets that change a flow's state.
    pub fn send_home(&mut self, input: usize, batch: Batch) {
        self.send_over(input, None, batch);
    }

    /// Hands packets to the copy of the element at another worker, which has what this copy needs to
    /// process them. They are pushed to this input there, and count as having come to that copy alone.
    pub fn hand_over(&mut self, worker: usize, input: usize, batch: Batch) {
        self.send_over(input, Some(worker), batch);
    }

    fn send_over(&mut self, input: usize, worker: Option<usize>, batch: Batch) {
        if batch.is_empty() {
            return self.recycle(batch);
        }
        // The packets did not arrive here: they count once, at the other copy.
        self.own().arrived -= batch.len() as u64;
        self.core.emitted.push(Emitted::Over { element: self.id as u32, input: input as u32, worker, batch });
    }
}

/// The workers: to which of them packets belong.
#[derive(Clone, Copy)]
pub struct Workers<'c> {
    host: &'c dyn Host,
    id: ElementId,
}

impl Workers<'_> {
    /// Returns the number of workers at which copies of an element work: one or all.
    pub fn copies(self, element: ElementId) -> usize {
        self.host.copies(element)
    }

    /// Returns the key of the hash that determines to which worker packets belong
    /// ([`Dispatch`](crate::steering::Dispatch)).
    pub fn steering_key(self) -> rss::Key {
        self.host.steering_key()
    }

    /// Returns a secret key of `length` bytes for the hash with which an interface spreads packets over its
    /// queues. Each call returns another key. Returns `None` if packets belong to workers by the public
    /// key: under the trace clock, and if there is only one worker. The hash need not be the same for both
    /// directions of a flow: packets are handed to their worker from any queue.
    pub fn interface_key(self, length: usize) -> Option<Vec<u8>> {
        let is_secret = self.host.worker().1 > 1 && self.steering_key() != rss::KEY;
        is_secret.then(|| rss::long_key_of(super::secret(), length))
    }

    /// Returns the worker that a frame belongs to.
    pub fn worker_of(self, frame: &[u8], link: LinkType) -> usize {
        self.host.worker_of(frame, link)
    }

    /// Returns the worker that a packet belongs to; if packets of a flow are spread, the worker that has
    /// the flow's state. It is this worker if no other worker has a copy of the element.
    #[inline]
    pub fn owner_of(self, packet: &Packet) -> usize {
        self.host.owner_of(self.id, packet)
    }

    /// Returns the worker that packets between two ends belong to. An end is an address and a port (or 0
    /// and an identifier). It is this worker if no other worker has a copy of the element.
    #[inline]
    pub fn between(self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(self.id, a, b)
    }

    /// Returns the worker that packets between two ends belong to at another element.
    #[inline]
    pub fn between_of(self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(element, a, b)
    }

    /// True if packets between two ends belong to this worker.
    #[inline]
    pub fn is_home(self, a: (IpAddr, u16), b: (IpAddr, u16)) -> bool {
        self.between(a, b) == self.host.worker().0
    }
}
