//! Calls of handlers of other elements.

use std::sync::Arc;

use super::{Call, Cx, Emitted};

/// The handlers that an element may call.
pub struct Handlers<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the handlers that the element may call.
    pub fn handlers(&mut self) -> Handlers<'_, 'a> {
        Handlers { cx: self }
    }
}

impl<'a> Handlers<'_, 'a> {
    /// Reads a handler now.
    ///
    /// # Errors
    /// A text for the user.
    pub fn read(&mut self, call: &Call) -> Result<String, String> {
        self.cx.host.read(self.cx.core, self.cx.id, call)
    }

    /// Writes a handler now.
    ///
    /// # Errors
    /// A text for the user.
    pub fn write(&mut self, call: &Call) -> Result<(), String> {
        self.cx.host.write(self.cx.core, self.cx.id, call)
    }

    /// Runs a write handler of the element with the rights of a call.
    pub fn on_behalf<R>(&mut self, call: &Call, write: impl FnOnce(&mut Cx<'a>) -> R) -> R {
        let before = std::mem::replace(&mut self.cx.core.rights, call.rights.clone());
        let result = write(self.cx);
        self.cx.core.rights = before;
        result
    }

    /// Writes a handler after everything that the element has emitted so far has been processed.
    pub fn call_later(&mut self, call: &Arc<Call>) {
        self.cx.core.emitted.push(Emitted::Call { element: self.cx.id as u32, call: Arc::clone(call) });
    }
}
