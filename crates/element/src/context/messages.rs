//! Messages to the operator of the graph, and output for users.

use std::fmt;

use super::{Cx, OutputStream, Severity};
use crate::chatter::{Chatter, DEFAULT_CHANNEL};

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
        self.remark(severity, format_args!("{name}: {text}"));
    }

    /// Writes a message to the operator, like [`tell`](Self::tell), but without the element's name and
    /// class before the text: for messages whose text contains the name, as in Click.
    pub fn remark(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        self.say(DEFAULT_CHANNEL, OutputStream::Log(severity), format_args!("{text}\n"));
    }

    /// Writes unchanged text to standard error, for output that users have asked for, such as printed
    /// packets.
    pub fn message(&mut self, text: fmt::Arguments<'_>) {
        self.say(DEFAULT_CHANNEL, OutputStream::Messages, text);
    }

    /// Writes unchanged text to a channel: to the elements that pass messages of this channel on, and to
    /// standard error if one of them asks for it.
    pub fn message_to(&mut self, channel: &str, text: fmt::Arguments<'_>) {
        self.say(channel, OutputStream::Messages, text);
    }

    /// Writes unchanged text to standard error that is no message, and that no other element passes on: a
    /// drawing on a terminal.
    pub fn draw(&mut self, text: fmt::Arguments<'_>) {
        self.cx.host.print(OutputStream::Messages, text);
    }

    /// Returns the feeds of messages, for elements that pass them on.
    pub fn chatter(&self) -> &Chatter {
        &self.cx.core.chatter
    }

    fn say(&mut self, channel: &str, stream: OutputStream, text: fmt::Arguments<'_>) {
        if self.cx.core.chatter.say(channel, text) {
            self.cx.host.print(stream, text);
        }
    }
}
