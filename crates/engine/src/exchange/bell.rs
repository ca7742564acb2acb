//! The bells by which workers wake a worker that sleeps.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// The bell of one worker, its owner. Another thread rings it after it has given work to the owner, so that
/// the owner does not sleep, or wakes.
#[repr(align(64))]
pub(crate) struct Bell {
    asleep: AtomicBool,
    /// True if the bell has rung since the worker began to listen.
    rang: AtomicBool,
    event: EventFd,
}

impl Bell {
    /// Makes a bell that no worker listens to yet.
    ///
    /// # Errors
    /// If the system refuses an event, for example because the process has no file descriptor left.
    pub(crate) fn new() -> nix::Result<Bell> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell { asleep: AtomicBool::new(false), rang: AtomicBool::new(false), event })
    }

    /// Wakes the owner if it sleeps. The owner sees all writes that this thread made before the call.
    #[inline]
    pub(crate) fn ring(&self) {
        // Release: a thread that loads this value, or swaps it for false, sees what was done before.
        self.rang.store(true, Ordering::Release);
        // Pairs with the fence in `may_sleep`: either this thread sees that the worker sleeps, or the
        // worker sees that the bell has rung.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // A write fails if the counter of the event is full. The event has then woken the worker already.
            let _ = self.event.write(1);
        }
    }

    /// Begins to listen, before the owner looks for work a last time. What a thread wrote before an earlier
    /// call of [`ring`](Self::ring) is visible from here on.
    pub(crate) fn listen(&self) {
        self.rang.swap(false, Ordering::AcqRel);
    }

    /// True if the bell has rung since [`listen`](Self::listen).
    pub(crate) fn has_rung(&self) -> bool {
        self.rang.load(Ordering::Acquire)
    }

    /// Announces that the owner is about to sleep. Returns false if the bell has rung since
    /// [`listen`](Self::listen): then the owner must not sleep.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let sleeps = !self.has_rung();
        self.asleep.store(sleeps, Ordering::Relaxed);
        sleeps
    }

    /// Announces that the owner is awake, and resets the event.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        let _ = self.event.read();
    }

    /// Returns the event that becomes readable when the bell rings while the owner sleeps.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}
