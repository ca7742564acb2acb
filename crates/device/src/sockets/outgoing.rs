//! Packets on their way into a socket that may not take all of them at once.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use element::{Batch, Cx, DropReason, Packet};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::losses::Losses;

/// Packets that wait before whoever pushes more of them has to wait too.
const MOST_WAITING: usize = 4096;
/// How long that is at most, without a byte getting away. After that, packets are dropped until one does.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pieces of packets that are handed to the system together. A datagram has to fit: the largest packet has as many
/// slots as this.
const MOST_PIECES: usize = 128;

/// What messages about packets call it.
const LABEL: &str = "socket";

/// Where packets go.
pub(super) trait Line {
    /// Whether packets become one stream of bytes, instead of a datagram each.
    const STREAM: bool;

    /// Sends pieces of a packet, and on a stream of those behind it; how many bytes went.
    fn send(&self, packet: &Packet, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// What to wait for.
    fn file(&self) -> BorrowedFd<'_>;
}

/// The packets of one socket, first one first.
pub(super) struct Outgoing {
    waiting: VecDeque<Packet>,
    /// Bytes of the first one that have gone already.
    gone: usize,
    /// Nothing went for so long that it is not worth waiting.
    stuck: bool,
    losses: Losses,
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        // Room for a batch beyond the limit, so that it need not grow while packets flow.
        let waiting = VecDeque::with_capacity(MOST_WAITING + packet::BATCH_CAPACITY);
        Outgoing { waiting, gone: 0, stuck: false, losses: Losses::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes packets in.
    pub(super) fn add(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        self.waiting.extend(batch.drain());
        cx.recycle(batch);
    }

    /// Sends what the line takes now. Returns what went wrong: a stream is then lost; single datagrams that the
    /// system refuses are dropped, and the others are not affected.
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
            // Packets without bytes end here without going anywhere.
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
                        // What the system says is told by whoever has the socket.
                        self.losses.count(cx, LABEL, (DropReason::WriteError, 1), None);
                        cx.drop(packet, DropReason::WriteError);
                    }
                }
            }
        }
        fault
    }

    /// Counts packets whose bytes have all gone.
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
            // There is room.
            drop(done.push(packet));
        }
        cx.sent(done);
    }

    /// Sends what can be sent; what was pushed may have to press. Returns what went wrong, as [`flush`](Self::flush).
    pub(super) fn work<L: Line>(&mut self, cx: &mut Cx<'_>, line: &L, presses: bool) -> Option<io::Error> {
        let fault = self.flush(cx, line);
        // A fault is the end of a stream, but of only one datagram.
        if presses && (fault.is_none() || !L::STREAM) { self.press(cx, line).or(fault) } else { fault }
    }

    /// Makes room for what was pushed: waits for the line for a while, as Click does without end, then drops what is
    /// too much.
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

    /// At the end of a run: sends what can be sent as long as the line takes something now and then.
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

    /// Drops the packet of which only a part has gone: nobody could do anything with the rest.
    pub(super) fn cut(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.gone) > 0
            && let Some(packet) = self.waiting.pop_front()
        {
            cx.drop(packet, DropReason::WriteError);
        }
    }

    /// Drops packets that come while there is nobody to send to.
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        let text = format_args!("packets come while there is no connection");
        self.losses.count(cx, LABEL, (DropReason::NotConnected, batch.len()), Some(text));
        cx.drop_all(batch, DropReason::NotConnected);
    }

    /// Says at the end how many packets were dropped.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) {
        self.losses.end(cx, LABEL);
    }

    /// Drops everything.
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

/// Waits until something can be written.
fn wait(file: BorrowedFd<'_>, longest: Duration) -> bool {
    let mut files = [PollFd::new(file, PollFlags::POLLOUT)];
    let longest = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
    poll(&mut files, longest).is_ok_and(|n| n > 0)
}
