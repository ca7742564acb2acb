//! Memory that is had at the start or not at all.

use std::collections::{HashMap, HashSet, TryReserveError};
use std::hash::{BuildHasher, Hash};

/// An empty vector with room for so many.
pub(crate) fn reserved<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count)?;
    Ok(vector)
}

/// A vector of `count` default values.
pub(crate) fn defaults<T: Clone + Default>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vector = reserved(count)?;
    vector.resize(count, T::default());
    Ok(vector)
}

/// An empty map with room for so many.
pub(crate) fn reserved_map<K: Eq + Hash, V, S: BuildHasher + Default>(
    count: usize,
) -> Result<HashMap<K, V, S>, TryReserveError> {
    let mut map = HashMap::default();
    map.try_reserve(count)?;
    Ok(map)
}

/// An empty set with room for so many.
pub(crate) fn reserved_set<K: Eq + Hash>(count: usize) -> Result<HashSet<K>, TryReserveError> {
    let mut set = HashSet::new();
    set.try_reserve(count)?;
    Ok(set)
}

/// The error text where memory cannot be reserved.
pub(crate) fn refusal(argument: &str, what: &str, error: &TryReserveError) -> String {
    format!("{argument}: cannot reserve memory for {what}: {error}; try a smaller number")
}
