//! Telling other elements that aggregates have ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::args::ElementRef;
use element::{Args, ElementId};

/// Numbers that wait for a listener. One that gets no packets does not look, and keeps what it has of aggregates beyond.
const MOST: usize = 1 << 20;

/// Published by elements that number packets and know when a number will not be used again.
#[derive(Default)]
pub(super) struct Notifier {
    listeners: Mutex<Vec<Arc<Ended>>>,
}

/// Numbers that have ended and that a listener has not yet looked at. The lock is taken only when there are some.
#[derive(Default)]
pub(super) struct Ended {
    some: AtomicBool,
    numbers: Mutex<Vec<u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Notifier {
    /// A further listener.
    fn listen(&self) -> Arc<Ended> {
        let ended = Arc::new(Ended::default());
        lock(&self.listeners).push(Arc::clone(&ended));
        ended
    }

    /// Tells everybody that an aggregate has ended.
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
    /// Hands over what has ended since the last call.
    pub(super) fn take(&self, mut each: impl FnMut(u32)) {
        if self.some.swap(false, Ordering::Relaxed) {
            lock(&self.numbers).drain(..).for_each(&mut each);
        }
    }
}

/// What a NOTIFIER argument names; it is looked up when all elements are configured.
pub(super) fn read(args: &mut Args<'_>) -> Option<ElementId> {
    args.get("NOTIFIER").map(|ElementRef(element)| element)
}

/// Listens to the element of a NOTIFIER argument.
pub(super) fn listen(cx: &element::Cx<'_>, to: Option<ElementId>) -> Result<Option<Arc<Ended>>, String> {
    let Some(element) = to else { return Ok(None) };
    let notifier = cx.service::<Notifier>(element);
    let notifier = notifier.ok_or_else(|| format!("{} is not an AggregateNotifier", cx.name_of(element)))?;
    Ok(Some(notifier.listen()))
}
