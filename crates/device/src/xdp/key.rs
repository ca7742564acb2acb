//! A secret key for the hash by which an interface spreads frames over its receive queues. It is set while
//! Tidegate receives from the interface; afterwards the interface gets its own key again.

use std::io;

use crate::interface::sys::rss::{self, Hash};

/// The two functions that read and set the receive hash (RSS) of an interface, which includes its key: the
/// kernel's requests, or replacements in tests.
#[derive(Clone, Copy)]
struct Ways {
    get: fn(&str) -> io::Result<Hash>,
    set: fn(&str, &Hash) -> io::Result<()>,
}

const KERNEL: Ways = Ways { get: rss::get, set: rss::set };

/// A secret key that has been set at an interface. Dropping this value sets the interface's own key again,
/// unless another program has set a third key meanwhile.
pub(super) struct SecretKey {
    device: String,
    own: Hash,
    ours: Hash,
    ways: Ways,
}

impl SecretKey {
    /// Sets a secret key for the receive hash (RSS) of the interface `device`. `make` gets the length of the
    /// interface's own key in bytes, and returns a key of that length. If `make` returns `None`, no secret
    /// key is wanted: the interface stays unchanged, and the result is `None`.
    ///
    /// # Errors
    /// If the interface cannot report its hash, or if it refuses the key.
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
        // A key that another program has set since the secret key was set stays. The interface may also have
        // been removed, so errors are ignored.
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
        /// The key of the only interface in these tests. If it is empty, the interface behaves as one
        /// without a key: it reports a key of length 0.
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
