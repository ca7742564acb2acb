//! The queue of packets that are to be sent over a socket, for sockets that do not take all packets at
//! once.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use element::{Batch, Cx, DropReason, Packet};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::losses::Losses;

/// The number of packets that may wait. If more packets have been pushed, the push waits for the socket.
const MOST_WAITING: usize = 4096;
/// The longest time that a push waits without a byte being sent. Then packets beyond [`MOST_WAITING`] are
/// dropped, without waiting, until a byte is sent again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest number of memory areas (`IoSlice`) per system call. A datagram is sent by one call, and the
/// largest packet consists of at most this number of slots.
const MOST_PIECES: usize = 128;

/// The name under which lost packets are reported to the user.
const LABEL: &str = "socket";

/// A socket to which packets are sent.
pub(super) trait Line {
    /// True if the socket carries a single stream of bytes; false if each packet becomes a datagram.
    const STREAM: bool;

    /// Sends the bytes of the areas `pieces`: of one packet, or, on a stream, also of packets after it.
    /// `packet` is the first packet, whose annotations may give the destination. Returns the number of
    /// bytes sent.
    fn send(&self, packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns the socket's file, to wait until it is writable.
    fn file(&self) -> BorrowedFd<'_>;
}

/// The packets that wait for a socket, in the order in which they will be sent.
pub(super) struct Outgoing {
    waiting: VecDeque<Packet>,
    /// The number of bytes of the first packet that have been sent, on a stream.
    gone: usize,
    /// True if a push has waited for [`PATIENCE`] without a byte being sent. No push waits again until a
    /// byte is sent.
    stuck: bool,
    losses: Losses,
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        // Room for a whole batch beyond the limit of waiting packets, so that the queue does not grow while
        // packets flow.
        let waiting = VecDeque::with_capacity(MOST_WAITING + packet::BATCH_CAPACITY);
        Outgoing { waiting, gone: 0, stuck: false, losses: Losses::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends the packets of a batch. The packets are sent by [`work`](Self::work) or
    /// [`finish`](Self::finish).
    pub(super) fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        self.waiting.extend(batch.drain());
        cx.recycle(batch);
    }

    /// Sends packets until the socket takes no more. Returns the last error, if there was one. On a stream,
    /// the error ends the call, and the stream cannot be used any more. A datagram that the system refuses
    /// is dropped, and the datagrams after it are sent.
    fn flush<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L) -> Option<io::Error> {
        let mut fault = None;
        while let Some(first) = self.waiting.front() {
            let mut pieces = [IoSlice::new(&[]); MOST_PIECES];
            let together = if L::STREAM { usize::MAX } else { 1 };
            let chunks = self.waiting.iter().take(together).flat_map(|packet| packet.chunks());
            let (mut used, mut skip, mut bytes) = (0, self.gone, 0);
            for (piece, chunk) in pieces.iter_mut().zip(chunks) {
                let skipped = skip.min(chunk.len());
                skip -= skipped;
                *piece = IoSlice::new(&chunk[skipped..]);
                bytes += chunk.len() - skipped;
                used += 1;
            }
            // A packet without bytes counts as sent, but is not sent.
            let result = if bytes == 0 { Ok(0) } else { line.send(first, &pieces[..used]) };
            match result {
                Ok(0) if bytes > 0 => return Some(ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(cx, if L::STREAM { n } else { bytes }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if must_wait(&error) => return fault,
                Err(error) if L::STREAM => return Some(error),
                Err(error) => {
                    fault = Some(error);
                    if let Some(packet) = self.waiting.pop_front() {
                        // The caller gets the error and reports it.
                        self.losses.count(cx, LABEL, (DropReason::WriteError, 1), None);
                        cx.drop(packet, DropReason::WriteError);
                    }
                }
            }
        }
        fault
    }

    /// Counts `n` more bytes as sent, and removes the packets whose bytes have all been sent.
    fn advance(&mut self, cx: &mut Cx<'_>, n: usize) {
        self.gone += n;
        self.stuck = false;
        let mut done = cx.batch();
        while let Some(packet) = self.waiting.front()
            && self.gone >= packet.len()
            && let Some(packet) = self.waiting.pop_front()
        {
            self.gone -= packet.len();
            if done.is_full() {
                cx.sent(done);
                done = cx.batch();
            }
            // The batch has room, as checked above.
            drop(done.push(packet));
        }
        cx.sent(done);
    }

    /// Sends packets until the socket takes no more. With `presses`, for pushed packets, then waits and drops
    /// as needed to get down to the limit of waiting packets. Returns the last error, as
    /// [`flush`](Self::flush) does.
    pub(super) fn work<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L, presses: bool) -> Option<io::Error> {
        let fault = self.flush(cx, line);
        // After an error, a stream is unusable; a datagram socket continues with other datagrams.
        if presses && (fault.is_none() || !L::STREAM) { self.press(cx, line).or(fault) } else { fault }
    }

    /// Gets the number of waiting packets down to the limit. Waits for the socket, for at most [`PATIENCE`]
    /// without progress, whereas Click waits without end; then drops the packets that came last.
    fn press<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L) -> Option<io::Error> {
        let mut fault = None;
        while self.len() > MOST_WAITING && !self.stuck && fault.is_none() {
            self.stuck = !wait(line.file(), PATIENCE);
            if !self.stuck {
                fault = self.flush(cx, line);
            }
        }
        while self.len() > MOST_WAITING
            && let Some(packet) = self.waiting.pop_back()
        {
            let text = format_args!("the other end takes packets more slowly than they come");
            self.losses.count(cx, LABEL, (DropReason::QueueFull, 1), Some(text));
            cx.drop(packet, DropReason::QueueFull);
        }
        fault
    }

    /// Sends waiting packets at the end of a run. Gives up if nothing can be sent for [`PATIENCE`], after two
    /// attempts without progress, or at an error of a stream.
    pub(super) fn finish<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L) {
        let mut in_vain = 0;
        while in_vain < 2 {
            let before = (self.len(), self.gone);
            let fault = self.flush(cx, line);
            in_vain = if before == (self.len(), self.gone) { in_vain + 1 } else { 0 };
            if self.is_empty() || (fault.is_some() && L::STREAM) || !wait(line.file(), PATIENCE) {
                return;
            }
        }
    }

    /// Drops the first packet if only a part of it has been sent: its remaining bytes would be useless to
    /// another receiver.
    pub(super) fn cut(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.gone) > 0
            && let Some(packet) = self.waiting.pop_front()
        {
            let text = format_args!("the connection has ended within a packet");
            self.losses.count(cx, LABEL, (DropReason::WriteError, 1), Some(text));
            cx.drop(packet, DropReason::WriteError);
        }
    }

    /// Drops packets that are pushed while there is no connection or peer, and counts them as lost.
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        let text = format_args!("packets come while there is no connection");
        self.losses.count(cx, LABEL, (DropReason::NotConnected, batch.len()), Some(text));
        cx.drop_all(batch, DropReason::NotConnected);
    }

    /// Reports the lost packets that have not been reported yet, at the end of a run.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) {
        self.losses.end(cx, LABEL);
    }

    /// Drops all waiting packets with a reason. The drops are reported to the user, unless the reason is
    /// `Stop`.
    pub(super) fn clear(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
        if reason == DropReason::Stop {
            // At the end of a run, a packet of which a part has been sent is dropped like the others, and
            // `cut` does not report it to the user.
            self.gone = 0;
        }
        self.cut(cx);
        if reason != DropReason::Stop && !self.waiting.is_empty() {
            let text = format_args!("the connection has ended before all packets had gone");
            self.losses.count(cx, LABEL, (reason, self.waiting.len()), Some(text));
        }
        for packet in self.waiting.drain(..) {
            cx.drop(packet, reason);
        }
    }
}

fn must_wait(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(Errno::ENOBUFS as i32)
}

/// Waits until the file is writable. Returns false if that takes more than `longest`, or the wait fails.
fn wait(file: BorrowedFd<'_>, longest: Duration) -> bool {
    let mut files = [PollFd::new(file, PollFlags::POLLOUT)];
    let longest = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
    poll(&mut files, longest).is_ok_and(|n| n > 0)
}
