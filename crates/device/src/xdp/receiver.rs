//! The receiving half of a queue of an interface. The half is either the owner of the queue, whose pool the
//! kernel receives into, or a guest. By a guest, another worker receives from the same queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use element::Packet;
use libc::{c_int, xdp_desc, xdp_statistics};
use packet::Pool;

use super::port::{Port, close};
use super::shared::Shared;
use super::sys::ring::{Consumer, Producer};
use super::sys::socket;

/// A socket by which a worker receives from a queue: as the queue's owner, into whose pool the kernel
/// receives, or as a guest at the queue of another worker.
pub(super) struct Receiver {
    pub(super) queue: u32,
    received: Consumer<xdp_desc>,
    role: Role,
}

enum Role {
    Owner(Owner),
    Guest(Guest),
}

/// The owner of a queue. The queue receives into slots of the owner's pool, and only the owner gives the
/// kernel free slots.
struct Owner {
    port: Arc<Port>,
    fill: Producer<u64>,
    /// `share` is the largest number of slots that the kernel may have for this queue, and `given` is the
    /// number that it has. The limit leaves slots of the pool for other queues and for packets that are being
    /// processed.
    share: u32,
    given: u32,
    /// `shared` is the state that the owner shares with guests (other workers that receive from the queue),
    /// `None` if there can be none. `seen` is the number of slots that guests had taken when the owner last
    /// looked.
    shared: Option<Arc<Shared>>,
    seen: u32,
}

/// A worker's access, as a guest, to a queue of another worker. The packets that the guest receives lie in
/// slots of the owner's pool.
struct Guest {
    socket: OwnedFd,
    shared: Arc<Shared>,
    /// The number of slots, with packets in them, that this worker has taken from the other worker's queue
    /// since it last notified the queue's owner of the number.
    taken: u32,
    // The last field, so that it is dropped last: it keeps the owner from taking back slots while the
    // kernel may still write to them for the guest's socket.
    _port: Arc<Port>,
}

/// The kernel's counts for sockets that receive; see FromXDP's handlers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// The number of packets that were lost for any reason.
    pub(super) lost: u64,
    pub(super) ring_full: u64,
    pub(super) fill_ring_empty: u64,
    pub(super) dropped: u64,
    pub(super) invalid: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            lost: self.lost + other.lost,
            ring_full: self.ring_full + other.ring_full,
            fill_ring_empty: self.fill_ring_empty + other.fill_ring_empty,
            dropped: self.dropped + other.dropped,
            invalid: self.invalid + other.invalid,
        }
    }
}

impl Receiver {
    /// Creates the receiver for the worker that owns a queue. The kernel may not have any slots until
    /// [`settle`](Self::settle) sets the largest number that it may have.
    pub(super) fn of_owner(
        queue: u32,
        port: Arc<Port>,
        fill: Producer<u64>,
        received: Consumer<xdp_desc>,
    ) -> Receiver {
        let owner = Owner { port, fill, share: 0, given: 0, shared: None, seen: 0 };
        Receiver { queue, received, role: Role::Owner(owner) }
    }

    /// Opens the socket of a guest at a queue of the interface with the index `index`. By a guest, a worker
    /// other than the owner of the queue receives from the queue. `port` and `shared` are the port of the
    /// queue's owner and the state that the owner shares with guests. On an error, returns the name of the
    /// step that failed and the reason.
    pub(super) fn of_guest(
        queue: u32,
        index: c_int,
        port: Arc<Port>,
        shared: Arc<Shared>,
    ) -> Result<Receiver, (&'static str, io::Error)> {
        let (socket, received) = socket::open_guest(shared.ring)?;
        let bound = socket::bind_guest(socket.as_fd(), index, queue, port.socket.as_fd());
        bound.map_err(|error| ("bind with XDP_SHARED_UMEM", error))?;
        Ok(Receiver { queue, received, role: Role::Guest(Guest { socket, shared, taken: 0, _port: port }) })
    }

    /// Sets the largest number of slots that the kernel may have for the queue, and the state that the owner
    /// shares with guests (other workers that receive from the queue). Does nothing for a receiver that is a
    /// guest itself.
    pub(super) fn settle(&mut self, share: u32, shared: Option<Shared>) {
        if let Role::Owner(owner) = &mut self.role {
            (owner.share, owner.shared) = (share, shared.map(Arc::new));
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        match &self.role {
            Role::Owner(owner) => owner.port.socket.as_fd(),
            Role::Guest(guest) => guest.socket.as_fd(),
        }
    }

    /// Returns the port of the queue, and the state that its owner shares with guests (other workers that
    /// receive from the queue) if there can be any. Returns `None` if this receiver is itself a guest.
    pub(super) fn owned(&self) -> Option<(&Arc<Port>, Option<&Arc<Shared>>)> {
        match &self.role {
            Role::Owner(owner) => Some((&owner.port, owner.shared.as_ref())),
            Role::Guest(_) => None,
        }
    }

    /// True if the receiver has to be called: packets have arrived, or other workers that receive from the
    /// queue have taken slots that the owner has to replace.
    pub(super) fn is_ready(&mut self) -> bool {
        let lacks_slots = match &self.role {
            Role::Owner(Owner { shared: Some(shared), seen, .. }) => shared.taken.has_grown(*seen),
            _ => false,
        };
        lacks_slots || self.received.is_ready()
    }

    /// Returns the next received packet, or `None` if there is none at the moment. Skips descriptors that
    /// do not lie in a slot that the kernel had.
    #[inline]
    pub(super) fn next(&mut self, pool: &mut Pool) -> Option<Packet> {
        while let Some(descriptor) = self.received.take() {
            let ((slot, start), length) = (socket::parse(descriptor.addr), descriptor.len as usize);
            let packet = match &mut self.role {
                Role::Owner(owner) => {
                    owner.given = owner.given.saturating_sub(1);
                    let packet = pool.take_back(owner.port.device, slot, start, length);
                    if packet.is_none() {
                        pool.take_empty(owner.port.device, slot);
                    }
                    packet
                }
                Role::Guest(guest) => {
                    guest.taken += 1;
                    let packet = guest.shared.recipient.take_back(pool, slot, start, length);
                    if packet.is_none() {
                        guest.shared.recipient.take_empty(slot);
                    }
                    packet
                }
            };
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// Gives the kernel a free slot for each slot that it has used, up to the queue's largest number of
    /// slots. A guest at the queue of another worker instead notifies the owner of the slots that it has
    /// taken. Returns false if the pool had too few free slots.
    pub(super) fn refill(&mut self, pool: &mut Pool) -> bool {
        self.received.release();
        match &mut self.role {
            Role::Owner(owner) => owner.refill(pool),
            Role::Guest(guest) => {
                if guest.taken > 0 {
                    guest.shared.taken.add(std::mem::take(&mut guest.taken));
                }
                true
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let Some(counted) = socket::statistics(self.socket()) else { return Counts::default() };
        let xdp_statistics { rx_dropped, rx_invalid_descs, rx_ring_full, .. } = counted;
        // The queue's lack of free slots is counted once, at the owner. If the kernel copies packets, it
        // counts a packet without a free slot as dropped as well, and the packet must not count twice.
        let (fill_ring_empty, lost) = match &self.role {
            Role::Owner(owner) if !owner.port.is_copied => {
                (counted.rx_fill_ring_empty_descs, counted.rx_fill_ring_empty_descs)
            }
            Role::Owner(_) => (counted.rx_fill_ring_empty_descs, 0),
            Role::Guest(_) => (0, 0),
        };
        Counts {
            lost: lost + rx_ring_full + rx_dropped,
            ring_full: rx_ring_full,
            fill_ring_empty,
            dropped: rx_dropped,
            invalid: rx_invalid_descs,
        }
    }

    /// True if the kernel has dropped more packets than a lack of free slots explains: some were longer than
    /// a slot.
    pub(super) fn drops_long_packets(&self) -> bool {
        socket::statistics(self.socket())
            .is_some_and(|counted| counted.rx_dropped > counted.rx_fill_ring_empty_descs)
    }

    pub(super) fn close(self, pool: &mut Pool) {
        let Receiver { received, role, .. } = self;
        drop(received);
        match role {
            Role::Owner(Owner { port, fill, .. }) => {
                drop(fill);
                close(port, pool);
            }
            Role::Guest(guest) => drop(guest),
        }
    }
}

impl Owner {
    fn refill(&mut self, pool: &mut Pool) -> bool {
        if let Some(shared) = &self.shared {
            let now = shared.taken.look();
            self.given = self.given.saturating_sub(now.wrapping_sub(self.seen));
            self.seen = now;
            // Slots that guests have returned are moved to the pool's free list: they are more likely to be
            // in the CPU's cache than slots that have been free for long.
            pool.collect();
        }
        let wanted = self.fill.room(u32::MAX).min(self.share.saturating_sub(self.given));
        let mut given = 0;
        while given < wanted {
            let Some(slot) = pool.hand_out(self.port.device) else { break };
            // Does not fail, because `wanted` is at most the room in the ring.
            if !self.fill.put(socket::address(slot)) {
                pool.take_empty(self.port.device, slot);
                break;
            }
            given += 1;
        }
        if given > 0 {
            self.given += given;
            self.fill.submit();
            if self.fill.needs_wakeup() {
                socket::wake(self.port.socket.as_fd());
            }
        }
        given == wanted
    }
}
