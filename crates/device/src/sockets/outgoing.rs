//! Packets on their way into a socket that may not take all of them at once.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use element::{Batch, Cx, DropReason, Packet};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::losses::Losses;

/// The number of packets that may wait before an element that pushes further packets has to wait as well.
const MOST_WAITING: usize = 4096;
/// The longest time for that wait without a byte being sent. After that, packets are dropped until a byte
/// is sent.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of pieces of packets that are handed to the system together. A datagram has to fit: the
/// largest packet has this number of slots.
const MOST_PIECES: usize = 128;

/// The name of the socket in messages about packets.
const LABEL: &str = "socket";

/// The destination of packets.
pub(super) trait Line {
    /// True if packets become a single stream of bytes, instead of a datagram each.
    const STREAM: bool;

    /// Sends pieces of a packet, and on a stream also of the packets after it. Returns the number of bytes
    /// sent.
    fn send(&self, packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns the file to wait for.
    fn file(&self) -> BorrowedFd<'_>;
}

/// The waiting packets of a socket, in order.
pub(super) struct Outgoing {
    waiting: VecDeque<Packet>,
    /// The number of bytes of the first packet that have been sent already.
    gone: usize,
    /// True if nothing has been sent for so long that the element does not wait any more.
    stuck: bool,
    losses: Losses,
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        // Room for a batch beyond the limit, so that the queue need not grow while packets flow.
        let waiting = VecDeque::with_capacity(MOST_WAITING + packet::BATCH_CAPACITY);
        Outgoing { waiting, gone: 0, stuck: false, losses: Losses::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends packets.
    pub(super) fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        self.waiting.extend(batch.drain());
        cx.recycle(batch);
    }

    /// Sends as much as the line takes now. Returns the error, if there was one: a stream is then lost.
    /// Single datagrams that the system refuses are dropped, and other datagrams are not affected.
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
            // Packets without bytes end here and are not sent.
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
                        // The owner of the socket reports the system's error.
                        self.losses.count(cx, LABEL, (DropReason::WriteError, 1), None);
                        cx.drop(packet, DropReason::WriteError);
                    }
                }
            }
        }
        fault
    }

    /// Counts `n` sent bytes, and ends packets whose bytes have all been sent.
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
            // The batch has room.
            drop(done.push(packet));
        }
        cx.sent(done);
    }

    /// Sends what can be sent. With `presses`, for pushed packets, makes room if too many packets wait.
    /// Returns the error as [`flush`](Self::flush) does.
    pub(super) fn work<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L, presses: bool) -> Option<io::Error> {
        let fault = self.flush(cx, line);
        // An error is the end of a stream, but of a single datagram only.
        if presses && (fault.is_none() || !L::STREAM) { self.press(cx, line).or(fault) } else { fault }
    }

    /// Makes room for pushed packets: waits for the line for a while, whereas Click waits without end, then
    /// drops the excess.
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

    /// Sends at the end of a run what can be sent, as long as the line takes bytes from time to time.
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

    /// Drops a packet of which only a part has been sent: the rest would be useless to the receiver.
    pub(super) fn cut(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.gone) > 0
            && let Some(packet) = self.waiting.pop_front()
        {
            cx.drop(packet, DropReason::WriteError);
        }
    }

    /// Drops packets that arrive while there is no connection.
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        let text = format_args!("packets come while there is no connection");
        self.losses.count(cx, LABEL, (DropReason::NotConnected, batch.len()), Some(text));
        cx.drop_all(batch, DropReason::NotConnected);
    }

    /// Reports the number of dropped packets at the end.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) {
        self.losses.end(cx, LABEL);
    }

    /// Drops all waiting packets.
    pub(super) fn clear(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
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

/// Waits until something can be written. Returns false if `longest` passes before.
fn wait(file: BorrowedFd<'_>, longest: Duration) -> bool {
    let mut files = [PollFd::new(file, PollFlags::POLLOUT)];
    let longest = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
    poll(&mut files, longest).is_ok_and(|n| n > 0)
}
