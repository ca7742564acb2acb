//! Notification of elements such as AggregateFirst that an aggregate has ended, by elements such as
//! AggregateIPFlows. Listeners collect the notifications when their next packets arrive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::args::ElementRef;
use element::{Args, ElementId};

/// The maximum number of notifications that wait for one listener. A listener to which no packets come does
/// not take its notifications. Once the list is full, notifications are lost, and the listener keeps its
/// state of the aggregates that have ended.
const MOST: usize = 1 << 20;

/// A service of elements that give aggregate numbers to packets and know when a number is no longer used:
/// the listeners to notify.
#[derive(Default)]
pub(super) struct Notifier {
    listeners: Mutex<Vec<Arc<Ended>>>,
}

/// The numbers of the aggregates that have ended and that one listener has not yet taken. The flag `some`
/// is true if there are any, so that the lock is taken only then.
#[derive(Default)]
pub(super) struct Ended {
    some: AtomicBool,
    numbers: Mutex<Vec<u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Notifier {
    /// Adds a listener, and returns its list of ended aggregates.
    fn listen(&self) -> Arc<Ended> {
        let ended = Arc::new(Ended::default());
        lock(&self.listeners).push(Arc::clone(&ended));
        ended
    }

    /// Adds an aggregate that has ended to the lists of all listeners. Lists that are full stay as they are.
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
    /// Removes the aggregates that have ended since the last call from the list, and calls `each` with each
    /// of them.
    pub(super) fn take(&self, mut each: impl FnMut(u32)) {
        if self.some.swap(false, Ordering::Relaxed) {
            lock(&self.numbers).drain(..).for_each(&mut each);
        }
    }
}

/// Parses the argument NOTIFIER; `None` if it is not given. The element's service is looked up later, with
/// [`listen`], when all elements are configured.
pub(super) fn read(args: &mut Args<'_>) -> Option<ElementId> {
    args.get("NOTIFIER").map(|ElementRef(element)| element)
}

/// Adds the calling element as a listener of the element `to`, its argument NOTIFIER; does nothing for
/// `None`.
///
/// # Errors
/// If the element does not publish a [`Notifier`].
pub(super) fn listen(cx: &element::Cx<'_>, to: Option<ElementId>) -> Result<Option<Arc<Ended>>, String> {
    let Some(element) = to else { return Ok(None) };
    let notifier = cx.graph().service::<Notifier>(element);
    let notifier =
        notifier.ok_or_else(|| format!("{} is not an AggregateNotifier", cx.graph().name_of(element)))?;
    Ok(Some(notifier.listen()))
}
