//! The secret key by which an interface spreads frames over its queues while Tidegate receives from them.

use std::io;

use crate::interface::sys::rss::{self, Hash};

/// The functions that read and set an interface's hash: the kernel's, or stand-ins in tests.
#[derive(Clone, Copy)]
struct Ways {
    get: fn(&str) -> io::Result<Hash>,
    set: fn(&str, &Hash) -> io::Result<()>,
}

const KERNEL: Ways = Ways { get: rss::get, set: rss::set };

/// A secret key that was set at an interface. Dropping it restores the interface's own key.
pub(super) struct SecretKey {
    device: String,
    own: Hash,
    ours: Hash,
    ways: Ways,
}

impl SecretKey {
    /// Sets a key at the interface. `make` returns a key of the given length in bytes. Returns `None` if
    /// `make` returns no key.
    ///
    /// # Errors
    /// If the interface cannot read its hash or refuses the key.
    pub(super) fn set(
        device: &str,
        make: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> io::Result<Option<SecretKey>> {
        SecretKey::set_by(KERNEL, device, make)
    }

    fn set_by(
        ways: Ways,
        device: &str,
        make: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> io::Result<Option<SecretKey>> {
        let own = (ways.get)(device)?;
        let Some(key) = make(own.key.len()) else { return Ok(None) };
        let ours = own.with_key(key);
        (ways.set)(device, &ours)?;
        Ok(Some(SecretKey { device: device.into(), own, ours, ways }))
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        // Another program may have set another key, and the interface may have been removed.
        if (self.ways.get)(&self.device).is_ok_and(|hash| hash.key == self.ours.key) {
            let _ = (self.ways.set)(&self.device, &self.own);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        /// The key of the only interface. While it is empty, the interface takes no key.
        static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    const FAKE: Ways = Ways {
        get: |_| Ok(Hash::default().with_key(KEY.with_borrow(Vec::clone))),
        set: |device, hash| match device {
            "stubborn" => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            _ => {
                KEY.set(hash.key.clone());
                Ok(())
            }
        },
    };

    fn set(device: &str) -> io::Result<Option<SecretKey>> {
        SecretKey::set_by(FAKE, device, |length| (length > 0).then(|| vec![7; length]))
    }

    #[test]
    fn the_old_key_is_put_back() {
        for length in [40, 52] {
            KEY.set(vec![1; length]);
            let key = set("eth0").unwrap().unwrap();
            assert_eq!(KEY.take(), vec![7; length]);
            KEY.set(vec![7; length]);
            drop(key);
            assert_eq!(KEY.take(), vec![1; length]);
        }
    }

    #[test]
    fn a_key_that_others_have_set_stays() {
        KEY.set(vec![1; 40]);
        let key = set("eth0").unwrap().unwrap();
        KEY.set(vec![2; 40]);
        drop(key);
        assert_eq!(KEY.take(), vec![2; 40]);
    }

    #[test]
    fn what_is_refused_or_not_wanted_changes_nothing() {
        assert!(set("eth0").unwrap().is_none());
        KEY.set(vec![1; 40]);
        assert!(set("stubborn").is_err());
        assert_eq!(KEY.take(), vec![1; 40]);
    }
}
