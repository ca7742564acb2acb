//! Texts for the operator and for users.

use std::fmt;

use super::{Cx, Severity, Stream};

/// The texts for the operator and for users.
pub struct Messages<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the texts for the operator and for users.
    #[inline]
    pub fn messages(&mut self) -> Messages<'_, 'a> {
        Messages { cx: self }
    }
}

impl Messages<'_, '_> {
    /// Writes text to standard output, where users expect values.
    pub fn print(&mut self, text: fmt::Arguments<'_>) {
        self.cx.host.print(Stream::Output, text);
    }

    /// Writes a message about the element for the operator of the graph, in one line that begins with the
    /// element's name and class. In a log its time and severity come first.
    pub fn tell(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        let name = self.cx.declaration();
        self.cx.host.print(Stream::Log(severity), format_args!("{name}: {text}\n"));
    }

    /// Writes a message, like [`tell`](Self::tell), whose text names the element itself, as some of Click's
    /// messages do.
    pub fn remark(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        self.cx.host.print(Stream::Log(severity), format_args!("{text}\n"));
    }

    /// Writes unchanged text to the message stream, for output that users have asked for, such as printed
    /// packets.
    pub fn message(&mut self, text: fmt::Arguments<'_>) {
        self.cx.host.print(Stream::Messages, text);
    }
}
