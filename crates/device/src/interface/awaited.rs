//! The names of removed interfaces for which elements of this process wait. An element of a new
//! configuration would be refused if its interface does not exist; if an element of the old configuration
//! waits for the interface, the new element continues to wait.

use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The registration of an element that waits for the interface with this name. The registration ends when
/// this value is dropped.
#[derive(Debug)]
pub(crate) struct Awaited(String);

impl Awaited {
    /// Registers that an element waits for the interface with this name.
    pub(crate) fn new(name: &str) -> Awaited {
        NAMES.lock().unwrap_or_else(PoisonError::into_inner).push(name.into());
        Awaited(name.into())
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = names.iter().position(|name| *name == self.0) {
            names.swap_remove(at);
        }
    }
}

/// True if at least one element of this process waits for the interface with this name.
pub(crate) fn is_awaited(name: &str) -> bool {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|other| other == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_awaited_until_nobody_waits() {
        let [first, second] = [Awaited::new("eth77"), Awaited::new("eth77")];
        assert!(is_awaited("eth77") && !is_awaited("eth7"));
        drop(first);
        assert!(is_awaited("eth77"));
        drop(second);
        assert!(!is_awaited("eth77"));
    }
}
