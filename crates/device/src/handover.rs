//! Files and devices that an element continues with when its configuration replaces another one.
//!
//! A [`Registry`] lists the devices of one kind that elements of this process have open. When an element of
//! a new configuration is initialised, it looks there for the device that it needs. If an element of the
//! running configuration has the device open at the same worker, both share it until the running element is
//! closed, so that the device stays open. The names of the elements do not matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use element::Cx;
use element::setup::Common;

/// True if the element that this element replaces has the same FILENAME. The replaced element hands over its
/// open file, so this element must not open the file again.
pub(crate) fn is_handed_over(cx: &Cx<'_>, filename: &str) -> bool {
    let is_same = |arg: &String| arg.strip_prefix("FILENAME ").unwrap_or(arg).trim() == filename;
    cx.predecessor().is_some_and(|arguments| arguments.iter().any(is_same))
}

/// The worker and the configuration of an element that looks for an open device.
pub(crate) struct Claimant {
    /// The address of the packet pool of the element's worker, which identifies the worker.
    pool: usize,
    /// The objects that the elements of one configuration share, which identify the configuration.
    configuration: Weak<Common>,
}

impl Claimant {
    /// Makes the claimant for an element whose configuration has these common objects.
    pub(crate) fn new(cx: &mut Cx<'_>, common: &Arc<Common>) -> Claimant {
        Claimant { pool: cx.pool().device_area().0 as usize, configuration: Arc::downgrade(common) }
    }
}

/// The open devices of one kind in this process. A device is listed as long as an element has it.
pub(crate) struct Registry<T>(Mutex<Vec<Entry<T>>>);

struct Entry<T> {
    pool: usize,
    device: Weak<T>,
    /// The configurations of which an element has claimed the device. Two elements of one configuration
    /// cannot have the same device.
    claims: Vec<Weak<Common>>,
}

impl<T> Registry<T> {
    /// Makes an empty registry.
    pub(crate) const fn new() -> Registry<T> {
        Registry(Mutex::new(Vec::new()))
    }

    /// Lists a device that was opened at the claimant's worker. With `claims`, the device is also registered
    /// as claimed for the claimant's configuration.
    pub(crate) fn list(&self, by: &Claimant, device: &Arc<T>, claims: bool) {
        let claims = claims.then(|| by.configuration.clone()).into_iter().collect();
        self.entries().push(Entry { pool: by.pool, device: Arc::downgrade(device), claims });
    }

    /// Claims a device for which `fits` is true, that is open at the claimant's worker, and that no other
    /// element of the claimant's configuration has claimed. Returns `None` if there is no such device.
    pub(crate) fn claim(&self, by: &Claimant, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.entries().iter_mut().find_map(|entry| {
            let device = entry.free_for(by)?;
            fits(&device).then(|| {
                entry.claims.push(by.configuration.clone());
                device
            })
        })
    }

    /// Returns a device for which `fits` is true, that is open at the claimant's worker, and that no element
    /// of the claimant's configuration has claimed. Unlike [`claim`](Self::claim), does not claim the device.
    pub(crate) fn find(&self, by: &Claimant, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.entries().iter().find_map(|entry| entry.free_for(by).filter(|device| fits(device)))
    }

    /// Returns the entries without those whose devices are closed.
    fn entries(&self) -> MutexGuard<'_, Vec<Entry<T>>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.device.strong_count() > 0);
        entries
    }
}

impl<T> Entry<T> {
    /// Returns the device if the claimant may claim it. Devices of other workers are not touched, because
    /// only their own worker may drop them.
    fn free_for(&self, by: &Claimant) -> Option<Arc<T>> {
        let is_claimed = || self.claims.iter().any(|claim| Weak::ptr_eq(claim, &by.configuration));
        if self.pool == by.pool && !is_claimed() { self.device.upgrade() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(pool: usize, common: &Arc<Common>) -> Claimant {
        Claimant { pool, configuration: Arc::downgrade(common) }
    }

    #[test]
    fn each_configuration_claims_a_device_once_and_at_its_worker() {
        static NUMBERS: Registry<u32> = Registry::new();
        let [old, new] = [(); 2].map(|()| Arc::<Common>::default());
        let device = Arc::new(7);
        NUMBERS.list(&claimant(1, &old), &device, true);
        let claim = |pool, common| NUMBERS.claim(&claimant(pool, common), |&number| number == 7);
        assert!(claim(1, &old).is_none(), "its own configuration has claimed it");
        assert!(claim(2, &new).is_none(), "another worker");
        assert!(NUMBERS.claim(&claimant(1, &new), |&number| number == 8).is_none());
        assert!(NUMBERS.find(&claimant(1, &new), |_| true).is_some());
        let shared = claim(1, &new).unwrap();
        assert!(Arc::ptr_eq(&shared, &device) && claim(1, &new).is_none());
        drop((device, shared));
        assert!(NUMBERS.entries().is_empty());
    }
}
