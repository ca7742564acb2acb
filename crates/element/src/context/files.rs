//! Waiting for files and for signals of the operating system.

use std::io;
use std::os::fd::BorrowedFd;

use super::{Cx, Interest};

/// The methods with which an element waits for files and for signals of the operating system.
pub struct FileEvents<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the methods with which the element waits for files and for signals of the operating system.
    #[inline]
    pub fn files(&mut self) -> FileEvents<'_, 'a> {
        FileEvents { cx: self }
    }
}

impl FileEvents<'_, '_> {
    /// Watches a file: [`Element::ready`](crate::Element::ready) runs with `token` again and again while
    /// the operation in `interest` is possible. If the element already watches a file with this token, the
    /// new file replaces it.
    ///
    /// # Errors
    /// If the process has no file descriptor left: the file is watched by a duplicate of its descriptor.
    pub fn watch(&mut self, token: u32, file: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        let file = file.try_clone_to_owned()?;
        self.cx.host.watch(self.cx.id, token, Some((file, interest)));
        Ok(())
    }

    /// Makes [`Element::os_signal`](crate::Element::os_signal) run when the process receives the signal
    /// `number`, in place of the signal's default action. If `on` is false, the element no longer gets the
    /// signal. When no element of the process waits for it any more, SIGINT and SIGTERM end the run again,
    /// and other signals have their default action again. Exceptions are signals that the program itself
    /// handles, signals that were ignored when the process started, and real-time signals, which stay
    /// without effect.
    ///
    /// # Errors
    /// If the signal must not be handled (such as SIGKILL or SIGSEGV), or the operating system refuses the
    /// signal handler.
    pub fn on_os_signal(&mut self, number: i32, on: bool) -> io::Result<()> {
        self.cx.host.on_os_signal(self.cx.id, number, on)
    }

    /// Stops watching the file with this token.
    pub fn unwatch(&mut self, token: u32) {
        self.cx.host.watch(self.cx.id, token, None);
    }
}
