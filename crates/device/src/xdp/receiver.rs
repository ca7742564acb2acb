//! What receives from a queue of an interface: its owner, or a guest of this one at another worker.

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

/// A socket that receives from a queue.
pub(super) struct Receiver {
    pub(super) queue: u32,
    received: Consumer<xdp_desc>,
    role: Role,
}

enum Role {
    Owner(Owner),
    Guest(Guest),
}

/// Has the queue's memory, and gives the kernel slots of it.
struct Owner {
    port: Arc<Port>,
    fill: Producer<u64>,
    /// Free slots that the kernel may have, and those that it has: the pool is for other queues too.
    share: u32,
    given: u32,
    /// What guests have been told, and how many slots they had taken when that was looked at last.
    shared: Option<Arc<Shared>>,
    seen: u32,
}

/// Gets packets in slots of the owner's.
struct Guest {
    socket: OwnedFd,
    shared: Arc<Shared>,
    /// Slots taken that the owner does not know of.
    taken: u32,
    // Last: the owner takes back no slots while the kernel may write to them for this socket.
    _port: Arc<Port>,
}

/// What the kernel has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Packets, for whatever reason.
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
    /// The one that owns a queue. [`settle`](Self::settle) says how many slots the kernel may have.
    pub(super) fn of_owner(
        queue: u32,
        port: Arc<Port>,
        fill: Producer<u64>,
        received: Consumer<xdp_desc>,
    ) -> Receiver {
        let owner = Owner { port, fill, share: 0, given: 0, shared: None, seen: 0 };
        Receiver { queue, received, role: Role::Owner(owner) }
    }

    /// Opens a guest's socket at a queue; or the step that failed.
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

    /// Lets the kernel have so many slots, and guests have what they need.
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

    /// The queue itself, and what guests have to know if it is shared. `None` of a guest.
    pub(super) fn owned(&self) -> Option<(&Arc<Port>, Option<&Arc<Shared>>)> {
        match &self.role {
            Role::Owner(owner) => Some((&owner.port, owner.shared.as_ref())),
            Role::Guest(_) => None,
        }
    }

    /// Whether there is something to do: packets have come, or guests have taken slots.
    pub(super) fn is_ready(&mut self) -> bool {
        let lacks_slots = match &self.role {
            Role::Owner(Owner { shared: Some(shared), seen, .. }) => shared.taken.has_grown(*seen),
            _ => false,
        };
        lacks_slots || self.received.is_ready()
    }

    /// The next packet. What the kernel says that cannot be is left out.
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

    /// Gives the kernel free slots in the place of those that have come with packets, or lets the owner do it. False if there
    /// were not enough.
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
        // Free slots are the queue's, whoever asks. Where the kernel copies, packets without one are dropped ones too.
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

    /// Whether packets were dropped although there were free slots: those that are too long for one.
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
            // What guests are done with is still in a cache, and what has been free for longest is not.
            pool.collect();
        }
        let wanted = self.fill.room(u32::MAX).min(self.share.saturating_sub(self.given));
        let mut given = 0;
        while given < wanted {
            let Some(slot) = pool.hand_out(self.port.device) else { break };
            // There is room.
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
