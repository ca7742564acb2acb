//! The state of a queue of an interface that several workers receive from. One worker owns the queue: the
//! kernel receives into slots of its pool, and it gives the kernel free slots. The other workers are its
//! guests, with sockets that only receive (XDP_SHARED_UMEM). A guest takes slots with its packets, and a
//! bell wakes the owner to replace them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nix::sys::eventfd::EventFd;
use packet::Recipient;

/// The state that the owner of a queue and its guests (other workers that receive from the queue) share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The handle by which guests (workers other than the queue's owner) take packets out of slots of the
    /// owner's pool.
    pub(super) recipient: Recipient,
    /// The number of entries of the receive ring of each guest socket, by which another worker receives from
    /// the queue; a power of two.
    pub(super) ring: u32,
    pub(super) taken: Taken,
}

impl Shared {
    /// Creates the state of a queue with this number of `guests`. The kernel may have `share` slots of the
    /// owner's pool for the queue, the owner's rings have `ring` entries, and `bell` wakes the owner. Guests'
    /// rings are made small: even if all of them are full, a ring of slots remains for the owner. If there
    /// are too few slots for that, each guest's ring has [`LEAST_RING`] entries, or `ring` if that is less.
    pub(super) fn new(
        recipient: Recipient,
        bell: Arc<EventFd>,
        (share, ring): (u32, u32),
        guests: u32,
    ) -> Shared {
        let most = share.saturating_sub(ring) / guests.max(1);
        let of_guest = round_down(most).clamp(LEAST_RING.min(ring), ring);
        // The bell rings each time that guests have taken a quarter of the owner's ring of slots (or less),
        // so that the owner is notified before the kernel has no slots left.
        Shared { recipient, ring: of_guest, taken: Taken::new(round_down(ring.min(share) / 4), bell) }
    }

    /// Returns the number of slots that the kernel may have for the queue: enough to fill all its rings,
    /// and at most `share`.
    pub(super) fn share(&self, (share, ring): (u32, u32), guests: u32) -> u32 {
        share.min(ring.saturating_add(self.ring.saturating_mul(guests)))
    }
}

/// The smallest number of entries of a guest's receive ring. A guest is a worker that receives from the queue
/// of another worker.
pub(super) const LEAST_RING: u32 = 64;

/// Returns the largest power of two that is not larger than `number`; 1 for 0.
fn round_down(number: u32) -> u32 {
    1 << number.max(1).ilog2()
}

/// A counter of the slots that guests (workers other than the queue's owner) have taken. The counter wakes
/// the owner when many slots have been taken, because only the owner gives the kernel other slots.
#[derive(Debug)]
pub(super) struct Taken {
    /// The number of slots that guests have taken so far, modulo 2^32.
    count: AtomicU32,
    /// True if the eventfd `bell` has been written to since the owner last looked. It is then not written to
    /// again.
    has_rung: AtomicBool,
    /// The bell rings each time `count` passes a multiple of this number, which is a power of two.
    step: u32,
    bell: Arc<EventFd>,
}

impl Taken {
    fn new(step: u32, bell: Arc<EventFd>) -> Taken {
        Taken { count: AtomicU32::new(0), has_rung: AtomicBool::new(false), step, bell }
    }

    /// Adds slots that a guest has taken, and rings the bell if the count passes a multiple of `step`.
    #[inline]
    pub(super) fn add(&self, slots: u32) {
        let before = self.count.fetch_add(slots, Ordering::Relaxed);
        if before / self.step != before.wrapping_add(slots) / self.step {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Release: the owner, which clears the flag by a swap, then sees the count. If the flag was set
        // already, the owner has not looked since it was woken, and still will.
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // The write fails only if the eventfd's counter is full; then the owner has been woken already.
            let _ = self.bell.write(1);
        }
    }

    /// Returns the number of slots that guests have taken so far, modulo 2^32. Only the owner calls this:
    /// from now on the bell may ring again.
    #[inline]
    pub(super) fn look(&self) -> u32 {
        if self.has_rung.load(Ordering::Relaxed) {
            self.has_rung.swap(false, Ordering::AcqRel);
        }
        self.count.load(Ordering::Relaxed)
    }

    /// True if guests have taken slots since the owner saw the count `seen`.
    #[inline]
    pub(super) fn has_grown(&self, seen: u32) -> bool {
        self.count.load(Ordering::Relaxed) != seen
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::eventfd::EfdFlags;
    use packet::Pool;
    use proptest::prelude::*;

    use super::*;

    fn bell() -> Arc<EventFd> {
        Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap())
    }

    #[test]
    fn the_bell_rings_once_before_the_owner_looks() {
        let taken = Taken::new(4, bell());
        let rang = || taken.bell.read().is_ok();
        taken.add(3);
        assert!(!rang() && taken.has_grown(0));
        taken.add(1);
        taken.add(40);
        assert!(rang());
        taken.add(100);
        assert!(!rang(), "the owner has yet to look");
        assert_eq!(taken.look(), 144);
        taken.add(3);
        assert!(!rang());
        taken.add(1);
        assert!(rang());
        // The bell also rings when the count wraps around.
        taken.count.store(u32::MAX - 1, Ordering::Relaxed);
        taken.look();
        taken.add(2);
        assert!(rang());
    }

    /// Two guests take slots while there are some, and the owner sleeps until the bell rings and then
    /// replaces them. Expects that all slots are taken in the end: no thread waits for ever.
    #[test]
    fn an_owner_that_sleeps_is_woken_in_time() {
        const ALL: u32 = 200_000;
        const SHARE: u32 = 64;
        let taken = Taken::new(SHARE / 4, bell());
        // The number of slots that the kernel can give to guests.
        let kernel = AtomicU32::new(SHARE);
        std::thread::scope(|scope| {
            for guest in 1..=2u32 {
                let (taken, kernel) = (&taken, &kernel);
                scope.spawn(move || {
                    let mut left = ALL / 2;
                    while left > 0 {
                        let most = guest * 3;
                        let take = |free: u32| Some(free - free.min(most).min(left));
                        let free =
                            kernel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
                        let got = free.min(most).min(left);
                        left -= got;
                        match got {
                            0 => std::thread::yield_now(),
                            got => taken.add(got),
                        }
                    }
                });
            }
            let mut seen = 0;
            while ALL - seen >= SHARE / 4 {
                let mut files = [PollFd::new(taken.bell.as_fd(), PollFlags::POLLIN)];
                assert_eq!(poll(&mut files, PollTimeout::from(30_000u16)), Ok(1), "{seen}");
                let _ = taken.bell.read();
                let now = taken.look();
                kernel.fetch_add(now - seen, Ordering::Relaxed);
                seen = now;
            }
        });
        assert_eq!(taken.look(), ALL);
    }

    proptest! {
        #[test]
        fn full_rings_of_guests_leave_slots(share in 1u32..30_000, ring in 6u32..15, guests in 1u32..200) {
            let ring = 1 << ring;
            let mut pool = Pool::new(64 << 20).unwrap();
            let (_, recipient) = pool.attach_shared().unwrap();
            let shared = Shared::new(recipient, bell(), (share, ring), guests);
            prop_assert!(shared.ring.is_power_of_two() && (LEAST_RING.min(ring)..=ring).contains(&shared.ring));
            let all = shared.share((share, ring), guests);
            prop_assert!(all <= share && shared.taken.step <= share.max(4) / 4);
            // A full ring remains for the owner, unless the share is too small for the smallest rings of
            // guests.
            prop_assert!(share < ring + guests * LEAST_RING || all - shared.ring * guests >= ring);
        }
    }
}
