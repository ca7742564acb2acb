//! The events of a translator's sessions, which a log records.

use element::Timestamp;

use super::tuple::Tuple;

/// The beginning or the end of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionEvent {
    pub(super) time: Timestamp,
    /// True if a mapping was made; false if it was removed.
    pub(super) is_new: bool,
    /// The IP protocol of the flow; 0 for translators that do not look at it.
    pub(super) protocol: u8,
    /// The flow's addresses and ports before and after translation.
    pub(super) from: Tuple,
    pub(super) to: Tuple,
}
