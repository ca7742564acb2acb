//! The common parts of ToDump and ToIPSummaryDump, which write packets to a file, and then pass them on or,
//! without an output, count them as sent.

use element::{Batch, Cx};

/// An element that writes packets to a file. An element implements `write_batch` and `has_failed`, and gets
/// the other methods.
pub(crate) trait Sink {
    /// Writes the packets of a batch. Packets that are not written are removed from the batch and dropped,
    /// except that a ToDump with an output leaves packets of another link type in the batch.
    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch);

    /// Writes packets. With `passes_on`, returns the packets for the output; otherwise counts them as sent.
    fn take(&mut self, cx: &mut Cx<'_>, mut batch: Batch, passes_on: bool) -> Option<Batch> {
        self.write_batch(cx, &mut batch);
        if passes_on {
            return Some(batch);
        }
        cx.sent(batch);
        None
    }

    /// Executes a turn of the task: pulls at most `most` packets, writes them, and sends them to the output
    /// with `passes_on`. Returns true if there were any. Schedules the next turn unless there is nothing to
    /// pull, or writing has failed and packets are not sent on.
    fn turn(&mut self, cx: &mut Cx<'_>, most: usize, passes_on: bool) -> bool {
        let worked = self.fetch(cx, most, passes_on);
        if (passes_on || !self.has_failed()) && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    /// True if writing has failed. Without an output, no more packets are pulled then.
    fn has_failed(&self) -> bool;

    /// Pulls at most `most` packets and writes them. Returns true if there were any. With `passes_on`, the
    /// packets go to the output; otherwise they count as sent.
    fn fetch(&mut self, cx: &mut Cx<'_>, most: usize, passes_on: bool) -> bool {
        let batch = cx.pull(0, most);
        let worked = !batch.is_empty();
        if let Some(batch) = self.take(cx, batch, passes_on) {
            cx.emit(0, batch);
        }
        worked
    }
}
