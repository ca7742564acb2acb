//! Constructors of collections that reserve all their memory at the start, and return an error instead of
//! ending the program if there is not enough.

use std::collections::{HashMap, HashSet, TryReserveError};
use std::hash::{BuildHasher, Hash};

/// Returns an empty vector with room for `count` elements.
pub(crate) fn reserved<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count)?;
    Ok(vector)
}

/// Returns a vector of `count` elements with the default value.
pub(crate) fn defaults<T: Clone + Default>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vector = reserved(count)?;
    vector.resize(count, T::default());
    Ok(vector)
}

/// Returns an empty map with room for `count` entries.
pub(crate) fn reserved_map<K: Eq + Hash, V, S: BuildHasher + Default>(
    count: usize,
) -> Result<HashMap<K, V, S>, TryReserveError> {
    let mut map = HashMap::default();
    map.try_reserve(count)?;
    Ok(map)
}

/// Returns an empty set with room for `count` entries.
pub(crate) fn reserved_set<K: Eq + Hash>(count: usize) -> Result<HashSet<K>, TryReserveError> {
    let mut set = HashSet::new();
    set.try_reserve(count)?;
    Ok(set)
}

/// Returns the error message for memory that cannot be reserved: `argument` is the argument whose number is
/// too large, and `what` names the things for which memory is needed.
pub(crate) fn refusal(argument: &str, what: &str, error: &TryReserveError) -> String {
    format!("{argument}: cannot reserve memory for {what}: {error}; try a smaller number")
}
