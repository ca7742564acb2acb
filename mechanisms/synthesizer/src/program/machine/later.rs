//! Code that is made while packets go on without it.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

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

/// Somebody waits for each of these, and is not told if there is no thread.
type Order = Box<dyn FnOnce() + Send>;

/// The thread that makes code, for all of the process: it sleeps unless there is something to be made.
static MAKER: LazyLock<Option<Mutex<Sender<Order>>>> = LazyLock::new(|| {
    let (sender, receiver) = channel::<Order>();
    let work = move || receiver.iter().for_each(|order| order());
    std::thread::Builder::new().name("machine code".into()).spawn(work).ok()?;
    Some(Mutex::new(sender))
});

/// Code that may be there, and how much it is wanted.
pub(in crate::program) struct Later<T> {
    made: Arc<OnceLock<Option<T>>>,
    packets: u32,
    is_ordered: bool,
}

impl<T> Default for Later<T> {
    fn default() -> Later<T> {
        Later { made: Arc::default(), packets: 0, is_ordered: false }
    }
}

impl<T> Clone for Later<T> {
    fn clone(&self) -> Later<T> {
        Later { made: self.made.clone(), ..*self }
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
        self.made.get()?.as_ref()
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
        if self.is_ordered {
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
        self.is_ordered = true;
        let made = self.made.clone();
        let order = move || {
            made.get_or_init(make);
        };
        match (making, &*MAKER) {
            (Making::Now, _) => order(),
            (_, Some(maker)) => {
                let maker = maker.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // Without the thread there is no code, which is the same but slower.
                let _ = maker.send(Box::new(order));
            }
            (_, None) => {}
        }
    }
}
