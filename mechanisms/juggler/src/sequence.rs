//! Sequence numbers of TCP: their order, and the limits within which they belong to one connection.

use element::Timestamp;

/// The maximum number of bytes before the next expected sequence number at which a segment counts as a
/// retransmission: the largest window that Linux receivers open without configuration (`tcp_rmem`).
pub(crate) const RETRANSMISSION_WINDOW: u32 = 32 << 20;

/// The time after which a gap is taken to stay. One second is TCP's first retransmission time-out, and the
/// smallest that is recommended later (RFC 6298, section 2).
pub(crate) const REPAIR_TIME: Timestamp = Timestamp::from_secs(1);

/// The next expected sequence numbers by which reordering is measured (RFC 4737, section 3): index 0 for
/// segments that arrive, index 1 for segments that leave. `None` before the first segment.
pub(crate) type Expected = [Option<u32>; 2];

/// True if sequence number `a` is before `b`, in numbers that wrap (RFC 9293, section 3.4).
#[inline]
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
