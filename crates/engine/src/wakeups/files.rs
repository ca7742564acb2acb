//! The files, such as sockets and devices, that elements wait for. One `poll` call checks all of them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use element::{ElementId, Interest};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

/// The files that elements wait for.
#[derive(Default)]
pub(crate) struct WatchedFiles {
    entries: Vec<Watch>,
}

struct Watch {
    element: ElementId,
    token: u32,
    file: OwnedFd,
    interest: Interest,
}

impl WatchedFiles {
    /// Begins to wait until the file is ready for reading or writing; with `None`, stops waiting. An
    /// element tells its files apart by tokens: an earlier file with the same token is replaced.
    pub(crate) fn set(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>) {
        self.entries.retain(|watch| (watch.element, watch.token) != (element, token));
        self.entries.extend(file.map(|(file, interest)| Watch { element, token, file, interest }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if any watched file keeps the run from ending: it is watched with an interest other than
    /// [`Interest::Aside`].
    pub(crate) fn keep_running(&self) -> bool {
        self.entries.iter().any(|watch| watch.interest != Interest::Aside)
    }

    /// Waits until a file is ready or the worker's bell (an eventfd) rings, for at most `longest`. Returns,
    /// for each ready file, the element that waits for it and the token by which the element knows it.
    pub(crate) fn wait(&self, longest: Duration, bell: Option<&EventFd>) -> Vec<(ElementId, u32)> {
        let flags = |interest: Interest| match interest {
            Interest::Read | Interest::Aside => PollFlags::POLLIN,
            Interest::Write => PollFlags::POLLOUT,
            Interest::Both => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let mut files: Vec<PollFd<'_>> =
            self.entries.iter().map(|watch| PollFd::new(watch.file.as_fd(), flags(watch.interest))).collect();
        files.extend(bell.map(|bell| PollFd::new(bell.as_fd(), PollFlags::POLLIN)));
        // An interrupted call counts as a call without a ready file. The driver will call again.
        match ppoll(&mut files, Some(TimeSpec::from_duration(longest)), None) {
            Ok(n) if n > 0 => {}
            Ok(_) | Err(nix::errno::Errno::EINTR) => return Vec::new(),
            Err(_) => {
                // For example, the system may be out of memory for a moment. The sleep keeps the driver
                // from calling in a busy loop.
                std::thread::sleep(Duration::from_millis(1));
                return Vec::new();
            }
        }
        // Errors and hang-ups also count as ready: the element finds them when it reads or writes.
        let ready = |file: &PollFd<'_>| file.revents().is_none_or(|events| !events.is_empty());
        let found = self.entries.iter().zip(&files).filter(|(_, file)| ready(file));
        found.map(|(watch, _)| (watch.element, watch.token)).collect()
    }
}
