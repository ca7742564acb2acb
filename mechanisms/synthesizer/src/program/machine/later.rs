//! Background compilation: packets are processed without the code until it is ready.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, OnceLock};

/// When code is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Making {
    /// Not at all.
    Never,
    /// Once many packets have come, in a thread of its own.
    #[default]
    Later,
    /// Before the first packet.
    Now,
}

impl Making {
    /// All of them.
    pub const ALL: [Making; 3] = [Making::Never, Making::Later, Making::Now];
}

/// As an argument of a configuration has it.
impl std::fmt::Display for Making {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Making::Never => "never",
            Making::Later => "later",
            Making::Now => "now",
        })
    }
}

/// How many packets something has to be done to before code is made for it.
const MANY: u32 = 1024;

/// Orders that may wait.
const MOST_WAITING: usize = 256;

/// Somebody waits for each of these, and is not told if there is no thread.
type Order = Box<dyn FnOnce() + Send>;

/// The thread that makes code, for all of the process: it sleeps unless there is something to be made.
static MAKER: LazyLock<Option<SyncSender<Order>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel::<Order>(MOST_WAITING);
    let work = move || {
        for order in receiver {
            // What cannot be made is done by tables, whatever the reason; others are made nevertheless.
            let _ = catch_unwind(AssertUnwindSafe(order));
        }
    };
    std::thread::Builder::new().name("machine code".into()).spawn(work).ok()?;
    Some(sender)
});

impl Making {
    /// Gets ready, where threads are not bound to the processor of a worker yet.
    pub(in crate::program) fn prepare(self) {
        if self == Making::Later && super::EXISTS {
            LazyLock::force(&MAKER);
        }
    }
}

/// Code that may be there, and how much it is wanted.
pub(in crate::program) struct Later<T> {
    /// Where it is once it is made, from when it was ordered on.
    made: Option<Arc<OnceLock<Option<T>>>>,
    packets: u32,
}

impl<T> Default for Later<T> {
    fn default() -> Later<T> {
        Later { made: None, packets: 0 }
    }
}

impl<T> Clone for Later<T> {
    fn clone(&self) -> Later<T> {
        Later { made: self.made.clone(), packets: self.packets }
    }
}

impl<T> std::fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").field("packets", &self.packets).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Later<T> {
    /// The code, if it is there.
    #[inline(always)]
    pub(in crate::program) fn get(&self) -> Option<&T> {
        self.made.as_ref()?.get()?.as_ref()
    }

    /// Counts packets that come, and has code made if these are enough. `recipe` gives what makes it, which may be called in
    /// another thread.
    #[inline]
    pub(in crate::program) fn count<M: FnOnce() -> Option<T> + Send + 'static>(
        &mut self,
        packets: usize,
        making: Making,
        recipe: impl FnOnce() -> M,
    ) {
        if self.made.is_some() {
            return;
        }
        self.packets = self.packets.saturating_add(packets as u32);
        let is_due = match making {
            _ if !super::EXISTS => false,
            Making::Never => false,
            Making::Later => self.packets >= MANY,
            Making::Now => true,
        };
        if is_due {
            self.order(making, recipe());
        }
    }

    #[cold]
    fn order(&mut self, making: Making, make: impl FnOnce() -> Option<T> + Send + 'static) {
        let made = self.made.insert(Arc::default());
        if making == Making::Now {
            made.get_or_init(make);
            return;
        }
        // What nobody has any more by then is not made.
        let made = Arc::downgrade(made);
        let order = move || {
            if let Some(made) = made.upgrade() {
                made.get_or_init(make);
            }
        };
        // Without the thread there is no code, which is the same but slower.
        let Some(maker) = &*MAKER else { return };
        if maker.try_send(Box::new(order)).is_err() {
            (self.made, self.packets) = (None, 0);
        }
    }
}
