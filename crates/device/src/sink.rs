//! The common parts of elements that write packets to a file, at the end of a path or in the middle of it.

use element::{Batch, Cx};

/// An element that writes packets.
pub(crate) trait Sink {
    /// Writes the packets of a batch, and drops packets that cannot be written.
    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch);

    /// Writes pushed packets. Returns them if `passes_on`, and ends them otherwise.
    fn take(&mut self, cx: &mut Cx<'_>, mut batch: Batch, passes_on: bool) -> Option<Batch> {
        self.write_batch(cx, &mut batch);
        if passes_on {
            return Some(batch);
        }
        cx.sent(batch);
        None
    }

    /// Starts the task of an element that pulls packets and ends them.
    fn start(&self, cx: &mut Cx<'_>, passes_on: bool) {
        if !cx.graph().input_is_push(0) && !passes_on {
            cx.schedule();
        }
    }

    /// Executes a turn of that task, which continues until writing fails or there is nothing to pull.
    fn turn(&mut self, cx: &mut Cx<'_>, most: usize) -> bool {
        let worked = self.fetch(cx, most);
        if !self.has_failed() && (worked || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    /// True if writing has failed, so that nothing more can be written.
    fn has_failed(&self) -> bool;

    /// Pulls packets and writes them. Returns true if there were any.
    fn fetch(&mut self, cx: &mut Cx<'_>, most: usize) -> bool {
        let batch = cx.pull(0, most);
        let worked = !batch.is_empty();
        self.take(cx, batch, false);
        worked
    }
}
