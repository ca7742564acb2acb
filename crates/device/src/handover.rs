//! Files that an element continues with when it replaces another element.

use element::Cx;

/// True if the element that this element replaces has the same FILENAME. It hands the open file over, so the
/// file must not be opened again.
pub(crate) fn is_handed_over(cx: &Cx<'_>, filename: &str) -> bool {
    let is_same = |arg: &String| arg.strip_prefix("FILENAME ").unwrap_or(arg).trim() == filename;
    cx.predecessor().is_some_and(|arguments| arguments.iter().any(is_same))
}
