//! The secret key by which an interface spreads frames over its queues, for as long as we receive from them.

use std::io;

use crate::interface::sys::rss;

/// A key of ours that an interface has. Its own is put back when this is dropped.
pub(super) struct SecretKey {
    device: String,
    own: rss::Hash,
    ours: rss::Hash,
}

impl SecretKey {
    /// Gives the interface a key, which `make` makes of so many bytes. `None` if that makes none.
    ///
    /// # Errors
    /// What the interface refuses.
    pub(super) fn set(
        device: &str,
        make: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> io::Result<Option<SecretKey>> {
        let own = rss::get(device)?;
        let Some(key) = make(own.key.len()) else { return Ok(None) };
        let ours = own.with_key(key);
        // From here on what is dropped puts back, also what the interface has taken in part.
        let secret = SecretKey { device: device.into(), own, ours };
        rss::set(device, &secret.ours)?;
        Ok(Some(secret))
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        // Somebody may have set another one, and the interface may be gone.
        if rss::get(&self.device).is_ok_and(|hash| hash.key == self.ours.key) {
            let _ = rss::set(&self.device, &self.own);
        }
    }
}
