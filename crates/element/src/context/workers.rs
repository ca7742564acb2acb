//! Questions of an element about workers, and the ways to send packets to its copies at other workers.

use std::net::IpAddr;

use flow::rss;
use packet::{Batch, Packet};
use wire::LinkType;

use super::{Cx, Emitted, Host};
use crate::ElementId;

impl Cx<'_> {
    /// Returns the methods that find the worker to which a packet belongs.
    #[inline]
    pub fn workers(&self) -> PacketOwners<'_> {
        PacketOwners { host: &*self.host, id: self.id }
    }

    /// Returns the number of the worker that this copy of the graph belongs to, from 0, and the number of
    /// workers.
    pub fn worker(&self) -> (usize, usize) {
        self.host.worker()
    }

    /// Hands each packet of a batch to this element's copy at the worker to which the packet belongs. The
    /// packet comes in there by the input `input`, and counts as having come to that copy alone.
    ///
    /// The call is for elements to which packets of a flow come spread
    /// ([`Setup::is_spread`](crate::Setup::is_spread)), and for packets that belong to other workers:
    /// packets of unknown flows, and packets that change the state of a flow.
    pub fn send_home(&mut self, input: usize, batch: Batch) {
        self.send_over(input, None, batch);
    }

    /// Hands a batch to this element's copy at another worker, because that copy has the state that is
    /// needed to process the packets. The packets are pushed to its input `input`, and count as having come
    /// to that copy alone.
    pub fn hand_over(&mut self, worker: usize, input: usize, batch: Batch) {
        self.send_over(input, Some(worker), batch);
    }

    fn send_over(&mut self, input: usize, worker: Option<usize>, batch: Batch) {
        if batch.is_empty() {
            return self.recycle(batch);
        }
        // The packets count as arrived at the other copy, not here.
        self.own().arrived -= batch.len() as u64;
        self.core.emitted.push(Emitted::Over { element: self.id as u32, input: input as u32, worker, batch });
    }
}

/// The methods that find the worker to which a packet belongs.
#[derive(Clone, Copy)]
pub struct PacketOwners<'c> {
    host: &'c dyn Host,
    id: ElementId,
}

impl PacketOwners<'_> {
    /// Returns the index of this copy of the element among its working copies, and the number of these
    /// copies: the worker's number if several workers have a working copy, (0, 1) if one worker has it.
    pub fn copy(self) -> (usize, usize) {
        match self.copies(self.id) {
            0 | 1 => (0, 1),
            copies => (self.host.worker().0, copies),
        }
    }

    /// Returns the number of workers that have a working copy of an element: one, or all to which flows
    /// belong.
    pub fn copies(self, element: ElementId) -> usize {
        self.host.copies(element)
    }

    /// Returns the key of the hash that determines to which worker a packet belongs
    /// ([`Dispatch`](crate::steering::Dispatch)).
    pub fn steering_key(self) -> rss::ToeplitzKey {
        self.host.steering_key()
    }

    /// Returns a secret key of `length` bytes for the hash with which an interface spreads packets over its
    /// queues. Each call returns another key. Returns `None` if the interface may use a public key: if
    /// packets are assigned to workers by the public key, too, as under the trace clock, or if there is only
    /// one worker. The hash need not be the same for both directions of a flow: the engine hands packets to
    /// their worker from whatever queue they come.
    pub fn interface_key(self, length: usize) -> Option<Vec<u8>> {
        let is_secret = self.host.worker().1 > 1 && self.steering_key() != rss::KEY;
        is_secret.then(|| rss::long_key_of(super::secret(), length))
    }

    /// Returns the worker to which a frame with a link header of type `link` belongs.
    pub fn worker_of(self, frame: &[u8], link: LinkType) -> usize {
        self.host.worker_of(frame, link)
    }

    /// Returns the worker to which a packet belongs. If packets of a flow are spread, it is the worker that
    /// has the flow's state. If no other worker has a copy of this element, it is this worker.
    #[inline]
    pub fn owner_of(self, packet: &Packet) -> usize {
        self.host.owner_of(self.id, packet)
    }

    /// Returns the worker to which packets between two endpoints belong, in either direction. An endpoint
    /// is an address and a port; for ICMP queries, one endpoint has the identifier in place of the port,
    /// and the other has 0. If no other worker has a copy of this element, it is this worker.
    #[inline]
    pub fn between(self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(self.id, a, b)
    }

    /// Returns the worker to which packets between two endpoints belong, like [`between`](Self::between), but
    /// for the copies of the element `element`.
    #[inline]
    pub fn between_of(self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        self.host.worker_between(element, a, b)
    }

    /// True if packets between two endpoints belong to this worker ([`between`](Self::between)).
    #[inline]
    pub fn is_home(self, a: (IpAddr, u16), b: (IpAddr, u16)) -> bool {
        self.between(a, b) == self.host.worker().0
    }
}
