//! The handlers `pattern0`, `pattern1` ... of classifiers.

use element::class::Access;

/// One for each pattern.
pub(crate) fn handlers(count: usize) -> Vec<(String, Access)> {
    (0..count).map(|number| (format!("pattern{number}"), Access::READ_WRITE)).collect()
}

/// The number in a handler's name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("pattern")?.parse().ok()
}

/// The patterns after a handler was written.
pub(crate) fn replaced(patterns: &[String], name: &str, value: &str) -> Result<Vec<String>, String> {
    let mut patterns = patterns.to_vec();
    let place = number(name).and_then(|number| patterns.get_mut(number));
    *place.ok_or_else(|| format!("no handler '{name}'"))? = value.trim().to_string();
    Ok(patterns)
}
