//! Arrays with a value for each list that are needed only with some arguments, so that they grow when they
//! are used.

/// Returns the value of the list with this number, writable. Missing values are added up to this one. `None`
/// if memory for them cannot be allocated.
pub(crate) fn value_of<T: Copy + Default>(values: &mut Vec<T>, number: u32) -> Option<&mut T> {
    let length = number as usize + 1;
    let missing = length.saturating_sub(values.len());
    if missing > 0 {
        values.try_reserve(missing).ok()?;
        values.resize(length, T::default());
    }
    values.get_mut(number as usize)
}
