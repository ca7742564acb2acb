//! Notification of other elements that aggregates have ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::args::ElementRef;
use element::{Args, ElementId};

/// The maximum number of notifications that wait for a listener. A listener without packets does not take
/// notifications; further notifications are lost, and the listener keeps its state of those aggregates.
const MOST: usize = 1 << 20;

/// A service of elements that number packets and know when a number is no longer used.
#[derive(Default)]
pub(super) struct Notifier {
    listeners: Mutex<Vec<Arc<Ended>>>,
}

/// Numbers of aggregates that have ended and that a listener has not yet taken. The lock is taken only if
/// there are some.
#[derive(Default)]
pub(super) struct Ended {
    some: AtomicBool,
    numbers: Mutex<Vec<u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Notifier {
    /// Adds a listener.
    fn listen(&self) -> Arc<Ended> {
        let ended = Arc::new(Ended::default());
        lock(&self.listeners).push(Arc::clone(&ended));
        ended
    }

    /// Notifies all listeners that an aggregate has ended.
    pub(super) fn ended(&self, aggregate: u32) {
        for listener in lock(&self.listeners).iter() {
            let mut numbers = lock(&listener.numbers);
            if numbers.len() < MOST && numbers.try_reserve(1).is_ok() {
                numbers.push(aggregate);
            }
            drop(numbers);
            listener.some.store(true, Ordering::Relaxed);
        }
    }
}

impl Ended {
    /// Calls `each` with the numbers of aggregates that have ended since the last call.
    pub(super) fn take(&self, mut each: impl FnMut(u32)) {
        if self.some.swap(false, Ordering::Relaxed) {
            lock(&self.numbers).drain(..).for_each(&mut each);
        }
    }
}

/// Parses the argument NOTIFIER; the element is looked up later, when all elements are configured.
pub(super) fn read(args: &mut Args<'_>) -> Option<ElementId> {
    args.get("NOTIFIER").map(|ElementRef(element)| element)
}

/// Adds a listener to the element of a NOTIFIER argument.
pub(super) fn listen(cx: &element::Cx<'_>, to: Option<ElementId>) -> Result<Option<Arc<Ended>>, String> {
    let Some(element) = to else { return Ok(None) };
    let notifier = cx.graph().service::<Notifier>(element);
    let notifier =
        notifier.ok_or_else(|| format!("{} is not an AggregateNotifier", cx.graph().name_of(element)))?;
    Ok(Some(notifier.listen()))
}
