//! Files and signals of the operating system that an element waits for.

use std::io;
use std::os::fd::BorrowedFd;

use super::{Cx, Interest};

/// The files and signals that the element waits for.
pub struct Files<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the files and signals that the element waits for.
    #[inline]
    pub fn files(&mut self) -> Files<'_, 'a> {
        Files { cx: self }
    }
}

impl Files<'_, '_> {
    /// Watches a file: [`Element::ready`](crate::Element::ready) runs whenever the file can be read or
    /// written. This replaces an earlier file of the same token.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn watch(&mut self, token: u32, file: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        let file = file.try_clone_to_owned()?;
        self.cx.host.watch(self.cx.id, token, Some((file, interest)));
        Ok(())
    }

    /// Makes [`Element::os_signal`](crate::Element::os_signal) run when the process receives a signal, in
    /// place of the signal's default action. If `on` is false, ends this.
    ///
    /// # Errors
    /// If the signal cannot be waited for.
    pub fn on_os_signal(&mut self, number: i32, on: bool) -> io::Result<()> {
        self.cx.host.on_os_signal(self.cx.id, number, on)
    }

    /// Stops watching a file.
    pub fn unwatch(&mut self, token: u32) {
        self.cx.host.watch(self.cx.id, token, None);
    }
}
