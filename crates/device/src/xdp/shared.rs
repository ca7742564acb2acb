//! A queue of an interface that several workers receive from. One of them owns it: its pool is the memory, and it gives the
//! kernel free slots. The others are its guests, with sockets that only receive (XDP_SHARED_UMEM).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nix::sys::eventfd::EventFd;
use packet::Recipient;

/// What the workers that receive from a queue share.
#[derive(Debug)]
pub(super) struct Shared {
    /// What guests take slots back by.
    pub(super) recipient: Recipient,
    /// Entries of each guest's ring.
    pub(super) ring: u32,
    pub(super) taken: Taken,
}

impl Shared {
    /// For a queue whose owner may keep `share` slots with the kernel, has rings of so many entries, and is woken by a bell.
    /// So many guests have rings such that, with all of them full, there are slots for the owner.
    pub(super) fn new(
        recipient: Recipient,
        bell: Arc<EventFd>,
        (share, ring): (u32, u32),
        guests: u32,
    ) -> Shared {
        let most = share.saturating_sub(ring) / guests.max(1);
        let of_guest = round_down(most).clamp(LEAST_RING.min(ring), ring);
        // The kernel must not run out of slots before the owner is told.
        Shared { recipient, ring: of_guest, taken: Taken::new(round_down(ring.min(share) / 4), bell) }
    }

    /// Slots of the queue that the kernel may have altogether.
    pub(super) fn share(&self, (share, ring): (u32, u32), guests: u32) -> u32 {
        share.min(ring.saturating_add(self.ring.saturating_mul(guests)))
    }
}

/// The smallest ring of a guest.
pub(super) const LEAST_RING: u32 = 64;

/// The largest power of two that is not larger, and at least 1.
fn round_down(number: u32) -> u32 {
    1 << number.max(1).ilog2()
}

/// How many slots guests have taken back: the owner, which gives the kernel others in their place, may be asleep.
#[derive(Debug)]
pub(super) struct Taken {
    /// So far; runs on for ever.
    count: AtomicU32,
    /// Whether the bell has rung since the owner last looked.
    has_rung: AtomicBool,
    /// It rings when so many more are taken: a power of two.
    step: u32,
    bell: Arc<EventFd>,
}

impl Taken {
    fn new(step: u32, bell: Arc<EventFd>) -> Taken {
        Taken { count: AtomicU32::new(0), has_rung: AtomicBool::new(false), step, bell }
    }

    /// Says that a guest has taken so many more.
    #[inline]
    pub(super) fn add(&self, slots: u32) {
        let before = self.count.fetch_add(slots, Ordering::Relaxed);
        if before / self.step != before.wrapping_add(slots) / self.step {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Release: whoever swaps it back sees the count. If it has rung already, the owner has not looked since, and will.
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // A counter that is full has woken it already.
            let _ = self.bell.write(1);
        }
    }

    /// How many there are so far; for the owner.
    #[inline]
    pub(super) fn look(&self) -> u32 {
        if self.has_rung.load(Ordering::Relaxed) {
            self.has_rung.swap(false, Ordering::AcqRel);
        }
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there are others than when there were so many.
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
        // Also where the count has run over.
        taken.count.store(u32::MAX - 1, Ordering::Relaxed);
        taken.look();
        taken.add(2);
        assert!(rang());
    }

    /// Guests who take slots as long as there are some, and an owner who sleeps until it is rung for: nobody waits for ever.
    #[test]
    fn an_owner_that_sleeps_is_woken_in_time() {
        const ALL: u32 = 200_000;
        const SHARE: u32 = 64;
        let taken = Taken::new(SHARE / 4, bell());
        // Slots that the kernel has to give to guests.
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
            // Unless there are too few slots for the smallest rings.
            prop_assert!(share < ring + guests * LEAST_RING || all - shared.ring * guests >= ring);
        }
    }
}
