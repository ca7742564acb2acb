//! Calls of handlers of other elements and of the graph.

use std::sync::Arc;

use super::{Call, Cx, Emitted};

/// The methods with which an element calls handlers.
pub struct Handlers<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the methods with which the element calls handlers.
    pub fn handlers(&mut self) -> Handlers<'_, 'a> {
        Handlers { cx: self }
    }
}

impl<'a> Handlers<'_, 'a> {
    /// Reads a handler at once, and returns its value.
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be read.
    pub fn read(&mut self, call: &Call) -> Result<String, String> {
        self.cx.host.read(self.cx.core, self.cx.id, call)
    }

    /// Writes a handler at once.
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be written.
    pub fn write(&mut self, call: &Call) -> Result<(), String> {
        self.cx.host.write(self.cx.core, self.cx.id, call)
    }

    /// Writes a handler. Handlers that replace the graph, such as `hotconfig`, run in the background if this
    /// is the first worker, while the caller continues and packets flow: the function returns `None`, and the
    /// result comes later by [`Element::answered`](crate::Element::answered), with `token`. If the graph
    /// cannot be replaced now, for example because another reload is under way, the error is returned. All
    /// other handlers are written at once, and the result is returned. So are handlers that replace the graph
    /// at another worker than the first, and in a run that is to be repeatable, as under the trace clock.
    pub fn write_later(&mut self, call: &Call, token: u32) -> Option<Result<(), String>> {
        self.cx.host.write_later(self.cx.core, self.cx.id, call, token)
    }

    /// Calls `write`, a write handler of this element, with the rights of `call` in place of the current
    /// rights, and returns its result.
    pub fn on_behalf<R>(&mut self, call: &Call, write: impl FnOnce(&mut Cx<'a>) -> R) -> R {
        let before = std::mem::replace(&mut self.cx.core.rights, call.rights.clone());
        let result = write(self.cx);
        self.cx.core.rights = before;
        result
    }

    /// Requests a write of a handler. The engine executes it after it has processed all packets and calls
    /// that the element has emitted so far.
    pub fn call_later(&mut self, call: &Arc<Call>) {
        self.cx.core.emitted.push(Emitted::Call { element: self.cx.id as u32, call: Arc::clone(call) });
    }
}
