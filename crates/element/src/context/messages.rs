//! Messages to the operator of the graph, and output for users.

use std::fmt;

use super::{Cx, OutputStream, Severity};

/// The methods with which an element writes messages and output.
pub struct Messages<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the methods with which the element writes messages and output.
    #[inline]
    pub fn messages(&mut self) -> Messages<'_, 'a> {
        Messages { cx: self }
    }
}

impl Messages<'_, '_> {
    /// Writes text to standard output, where users expect values that they asked for.
    pub fn print(&mut self, text: fmt::Arguments<'_>) {
        self.cx.host.print(OutputStream::Output, text);
    }

    /// Writes a message about the element to the operator of the graph, in one line that begins with the
    /// element's name and class. In a log, its time and severity precede the line.
    pub fn tell(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        let name = self.cx.declaration();
        self.cx.host.print(OutputStream::Log(severity), format_args!("{name}: {text}\n"));
    }

    /// Writes a message to the operator, like [`tell`](Self::tell), but without the element's name and
    /// class before the text: for messages whose text contains the name, as in Click.
    pub fn remark(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        self.cx.host.print(OutputStream::Log(severity), format_args!("{text}\n"));
    }

    /// Writes unchanged text to standard error, for output that users have asked for, such as printed
    /// packets.
    pub fn message(&mut self, text: fmt::Arguments<'_>) {
        self.cx.host.print(OutputStream::Messages, text);
    }
}
