//! Background compilation: packets are processed without the code until it is ready.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, OnceLock};

use program::machine_code::MachineCode;

/// The number of packets that must need an operation before machine code is made for it.
const MANY: u32 = 1024;

/// The maximum number of orders that wait for the thread.
const MOST_WAITING: usize = 256;

/// An order to make code. The result is stored where its users look for it; they are not notified if there
/// is no thread.
type Order = Box<dyn FnOnce() + Send>;

/// The thread of the process that makes code. It sleeps while there are no orders.
static MAKER: LazyLock<Option<SyncSender<Order>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel::<Order>(MOST_WAITING);
    let work = move || {
        for order in receiver {
            // If an order panics, the tables continue to do its work, and later orders are still carried
            // out.
            let _ = catch_unwind(AssertUnwindSafe(order));
        }
    };
    std::thread::Builder::new().name("machine code".into()).spawn(work).ok()?;
    Some(sender)
});

/// Starts the thread that makes code, if it will be needed. Called before the calling thread is bound to the
/// processor of a worker.
pub fn prepare(machine_code: MachineCode) {
    if machine_code == MachineCode::Later && super::EXISTS {
        LazyLock::force(&MAKER);
    }
}

/// Code that may exist, and the number of packets that have needed it.
pub struct Later<T> {
    /// The cell for the code: `None` until the code is ordered, and filled once the code is made.
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
    /// Returns the code, if it has been made.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        self.made.as_ref()?.get()?.as_ref()
    }

    /// Counts packets that need the code, and orders the code if there have been enough of them. `recipe`
    /// returns the function that makes the code, which may be called in another thread.
    #[inline]
    pub fn count<M: FnOnce() -> Option<T> + Send + 'static>(
        &mut self,
        packets: usize,
        machine_code: MachineCode,
        recipe: impl FnOnce() -> M,
    ) {
        if self.made.is_some() {
            return;
        }
        self.packets = self.packets.saturating_add(packets as u32);
        let is_due = match machine_code {
            _ if !super::EXISTS => false,
            MachineCode::Never => false,
            MachineCode::Later => self.packets >= MANY,
            MachineCode::Now => true,
        };
        if is_due {
            self.order(machine_code, recipe());
        }
    }

    #[cold]
    fn order(&mut self, machine_code: MachineCode, make: impl FnOnce() -> Option<T> + Send + 'static) {
        let made = self.made.insert(Arc::default());
        if machine_code == MachineCode::Now {
            made.get_or_init(make);
            return;
        }
        // Code that is no longer used when the order is carried out is not made.
        let made = Arc::downgrade(made);
        let order = move || {
            if let Some(made) = made.upgrade() {
                made.get_or_init(make);
            }
        };
        // Without the thread there is no code; the results are the same.
        let Some(maker) = &*MAKER else { return };
        if maker.try_send(Box::new(order)).is_err() {
            (self.made, self.packets) = (None, 0);
        }
    }
}
