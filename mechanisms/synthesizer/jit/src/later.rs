//! Compilation in the background: packets are processed by tables until the machine code is ready.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, OnceLock};

use program::machine_code::MachineCode;

/// The number of packets that must have needed a piece of machine code before the code is ordered from the
/// compiling thread (with [`MachineCode::Later`]).
const MANY: u32 = 1024;

/// The maximum number of orders for machine code that wait for the compiling thread. An order beyond this
/// number is refused; it is given again after another [`MANY`] packets.
const MOST_WAITING: usize = 256;

/// An order to make a piece of machine code. It stores the code in the cell where its users look for it
/// ([`Later`]).
type Order = Box<dyn FnOnce() + Send>;

/// The queue of the compiling thread, of which a process has one; `None` if the thread could not be
/// started. The thread sleeps while there are no orders.
static MAKER: LazyLock<Option<SyncSender<Order>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel::<Order>(MOST_WAITING);
    let work = move || {
        for order in receiver {
            // If an order panics, its packets continue to be processed by tables, and later orders are
            // still carried out.
            let _ = catch_unwind(AssertUnwindSafe(order));
        }
    };
    element::background::spawn("machine code", work).ok()?;
    Some(sender)
});

/// Starts the compiling thread if `machine_code` needs it, so that no worker has to start it between two
/// batches.
pub fn prepare(machine_code: MachineCode) {
    if machine_code == MachineCode::Later && super::EXISTS {
        LazyLock::force(&MAKER);
    }
}

/// A piece of machine code that may not have been made yet, and the number of packets that have needed the
/// code.
pub struct Later<T> {
    /// The cell that the code is stored in: `None` until the code is ordered. An empty cell means that the
    /// code has been ordered and does not exist yet; a cell with `None`, that it cannot be made.
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
    /// Returns the code; `None` if it has not been made or cannot be made, so that the tables have to be
    /// used.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        self.made.as_ref()?.get()?.as_ref()
    }

    /// Counts `packets` packets that need the code, and orders the code if it is due by `machine_code`: at
    /// once, or after `MANY` packets. `recipe` is called only when the code is ordered. It returns the
    /// function that makes the code, which may be called in the compiling thread.
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
        // The order holds no strong reference to the cell: if no user of the code is left when the compiling
        // thread takes the order, the code is not made.
        let made = Arc::downgrade(made);
        let order = move || {
            if let Some(made) = made.upgrade() {
                made.get_or_init(make);
            }
        };
        // Without the thread the code is never made, and the tables give the same results.
        let Some(maker) = &*MAKER else { return };
        if maker.try_send(Box::new(order)).is_err() {
            (self.made, self.packets) = (None, 0);
        }
    }
}
