//! Files that elements wait for: sockets and devices. One `poll` checks all of them.

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
    /// Begins to wait for a file, or stops waiting. An earlier file of the same token is replaced.
    pub(crate) fn set(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>) {
        self.entries.retain(|watch| (watch.element, watch.token) != (element, token));
        self.entries.extend(file.map(|(file, interest)| Watch { element, token, file, interest }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if a file is watched for which a run continues.
    pub(crate) fn keep_running(&self) -> bool {
        self.entries.iter().any(|watch| watch.interest != Interest::Aside)
    }

    /// Waits for at most `longest`, or until the bell rings. Returns the elements and tokens whose files
    /// are ready.
    pub(crate) fn wait(&self, longest: Duration, bell: Option<&EventFd>) -> Vec<(ElementId, u32)> {
        let flags = |interest: Interest| match interest {
            Interest::Read | Interest::Aside => PollFlags::POLLIN,
            Interest::Write => PollFlags::POLLOUT,
            Interest::Both => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let mut files: Vec<PollFd<'_>> =
            self.entries.iter().map(|watch| PollFd::new(watch.file.as_fd(), flags(watch.interest))).collect();
        files.extend(bell.map(|bell| PollFd::new(bell.as_fd(), PollFlags::POLLIN)));
        // An interrupted call has found nothing. The driver will call again.
        match ppoll(&mut files, Some(TimeSpec::from_duration(longest)), None) {
            Ok(n) if n > 0 => {}
            Ok(_) | Err(nix::errno::Errno::EINTR) => return Vec::new(),
            Err(_) => {
                // For example, the system may be out of memory for a moment. That must not become a busy
                // loop.
                std::thread::sleep(Duration::from_millis(1));
                return Vec::new();
            }
        }
        // The element will find errors and hang-ups when it reads or writes.
        let ready = |file: &PollFd<'_>| file.revents().is_none_or(|events| !events.is_empty());
        let found = self.entries.iter().zip(&files).filter(|(_, file)| ready(file));
        found.map(|(watch, _)| (watch.element, watch.token)).collect()
    }
}
