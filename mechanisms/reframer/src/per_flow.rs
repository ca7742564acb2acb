//! Arrays with a value for each flow that are needed only with some arguments, so that they grow when they
//! are used.

/// Returns the value of the flow with index `flow`, writable. Missing values are added up to this one. `None`
/// if memory for them cannot be allocated.
pub(crate) fn value_of<T: Copy + Default>(values: &mut Vec<T>, flow: u32) -> Option<&mut T> {
    let length = flow as usize + 1;
    let missing = length.saturating_sub(values.len());
    if missing > 0 {
        values.try_reserve(missing).ok()?;
        values.resize(length, T::default());
    }
    values.get_mut(flow as usize)
}
