//! What an element can ask about other workers, and how it gets packets to them.

use std::net::IpAddr;

use flow::rss;
use packet::{Batch, Packet};
use wire::LinkType;

use super::{Cx, Emitted};
use crate::ElementId;

impl Cx<'_> {
    /// Which worker this copy of the graph belongs to, from 0, and how many workers there are.
    pub fn worker(&self) -> (usize, usize) {
        self.host.worker()
    }

    /// How many workers have a copy of an element at work: one or all.
    pub fn copies(&self, element: ElementId) -> usize {
        self.host.copies(element)
    }

    /// The key of the hash by which packets belong to workers ([`Dispatch`](crate::steering::Dispatch)).
    pub fn steering_key(&self) -> rss::Key {
        self.host.steering_key()
    }

    /// A secret key of so many bytes for the hash by which an interface spreads packets over its queues, another one at each
    /// call. `None` where packets belong to workers by the key that everybody knows: under the captures' time, and where there is
    /// one worker. It need not be the same for both directions of a flow: packets go on to their worker from whichever queue they
    /// have come by.
    pub fn interface_key(&self, length: usize) -> Option<Vec<u8>> {
        let is_secret = self.worker().1 > 1 && self.steering_key() != rss::KEY;
        is_secret.then(|| rss::long_key_of(super::secret(), length))
    }

    /// The worker that a frame belongs to.
    pub fn worker_of(&self, frame: &[u8], link: LinkType) -> usize {
        self.host.worker_of(frame, link)
    }

    /// The worker that a packet belongs to: where packets of a flow are spread, the one that has its state. It is this one if no
    /// other one has a copy of the element.
    #[inline]
    pub fn owner_of(&self, packet: &Packet) -> usize {
        self.host.owner_of(self.id, packet)
    }

    /// The worker that packets between these two ends, addresses and ports (or 0 and an identifier), belong to. It is this one if
    /// no other one has a copy of the element.
    #[inline]
    pub fn worker_between(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(self.id, a, b)
    }

    /// The worker that has the packets between two ends at another element.
    #[inline]
    pub fn worker_between_of(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(element, a, b)
    }

    /// True if the worker between two ends is this one.
    #[inline]
    pub fn is_home(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> bool {
        self.worker_between(a, b) == self.worker().0
    }

    /// Hands packets that have come in by an input to the workers that they belong to, where they come in by the same input
    /// of this element's copies. For packets of other workers only, where packets of a flow are spread
    /// ([`Setup::is_spread`](crate::Setup::is_spread)): those of unknown flows, and those that change a flow's state.
    pub fn send_home(&mut self, input: usize, batch: Batch) {
        self.send_over(input, None, batch);
    }

    /// Hands packets over to the copy of the element at another worker, which has what this one lacks to deal with them. They
    /// come in by this input there, pushed, and count as having come to that copy alone.
    pub fn hand_over(&mut self, worker: usize, input: usize, batch: Batch) {
        self.send_over(input, Some(worker), batch);
    }

    fn send_over(&mut self, input: usize, worker: Option<usize>, batch: Batch) {
        if batch.is_empty() {
            return self.recycle(batch);
        }
        // They are not here, and come in once.
        self.own().arrived -= batch.len() as u64;
        self.core.emitted.push(Emitted::Over { element: self.id as u32, input: input as u32, worker, batch });
    }
}
