//! Notices about connections that servers close, from a FlowIPLoadBalancerReverse to its FlowIPLoadBalancer.
//!
//! A balancer gets packets of clients only. Answers may reach another worker than the worker that has the
//! connection, so there is a box of notices for each worker. The lock of a box is taken once per batch, and
//! only when a server closes a connection.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use element::{Base, Batch, Cx, ElementId, Packet, Timestamp};
use flow::FiveTupleKey;
use packet::BATCH_CAPACITY;
use wire::{FiveTuple, tcp};

use super::headers::{marked, tcp_flags};

/// The largest number of notices in one box. Further notices are lost: their connections stay until their
/// longer time-out.
const CAPACITY: usize = 1024;

/// A notice of a segment by which a server closes a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    /// The flow of the connection, in the direction of the client's packets.
    pub(super) key: FiveTupleKey,
    pub(super) server: Ipv4Addr,
    pub(super) flags: u8,
    pub(super) at: Timestamp,
}

struct Inbox {
    is_filled: AtomicBool,
    waiting: Mutex<Vec<Notice>>,
}

/// Returns an empty list with room for all notices of one box.
pub(super) fn list() -> Vec<Notice> {
    Vec::with_capacity(CAPACITY)
}

/// The boxes of all workers.
pub(super) struct Notices(Vec<Inbox>);

impl Notices {
    /// Returns boxes for a number of workers.
    pub(super) fn new(workers: usize) -> Notices {
        let inbox = || Inbox { is_filled: AtomicBool::new(false), waiting: Mutex::new(list()) };
        Notices((0..workers.max(1)).map(|_| inbox()).collect())
    }

    /// Takes the notices for a worker, in exchange for an empty [`list`].
    #[inline]
    pub(super) fn take(&self, worker: usize, into: &mut Vec<Notice>) {
        if let Some(inbox) = self.0.get(worker).filter(|inbox| inbox.is_filled.load(Ordering::Relaxed)) {
            let mut waiting = open(inbox);
            std::mem::swap(&mut *waiting, into);
            inbox.is_filled.store(false, Ordering::Relaxed);
        }
    }
}

fn open(inbox: &Inbox) -> MutexGuard<'_, Vec<Notice>> {
    inbox.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The sender of notices, for the packets of a batch.
pub(super) struct Watch {
    /// The notices of the current batch, each with the worker that gets it.
    seen: Vec<(usize, Notice)>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { seen: Vec::with_capacity(BATCH_CAPACITY) }
    }

    /// Finds segments of servers that close connections to a virtual address, and notifies the balancer.
    #[inline]
    pub(super) fn look(
        &mut self,
        cx: &Cx<'_>,
        batch: &Batch,
        (balancer, vip): (ElementId, Ipv4Addr),
        notices: &Notices,
    ) {
        for packet in batch.iter() {
            if closes(packet)
                && let Some(answer) = marked(packet)
            {
                self.note(cx, packet, answer, (balancer, vip));
            }
        }
        if !self.seen.is_empty() {
            self.tell(notices);
        }
    }

    #[cold]
    fn note(
        &mut self,
        cx: &Cx<'_>,
        packet: &Packet,
        answer: FiveTuple,
        (balancer, vip): (ElementId, Ipv4Addr),
    ) {
        let flags = tcp_flags(packet, &answer) & ENDS;
        let (IpAddr::V4(server), IpAddr::V4(client)) = (answer.source(), answer.destination()) else {
            return;
        };
        if flags == 0 {
            return;
        }
        let (client, common) = ((client, answer.destination_port()), (vip, answer.source_port()));
        let key = FiveTupleKey::new(&FiveTuple::v4(client, common, answer.protocol()), 0);
        let ends = [client, common].map(|(address, port)| (IpAddr::V4(address), port));
        let worker = cx.workers().between_of(balancer, ends[0], ends[1]);
        self.seen.push((worker, Notice { key, server, flags, at: cx.now() }));
    }

    #[cold]
    fn tell(&mut self, notices: &Notices) {
        for (worker, inbox) in notices.0.iter().enumerate() {
            let mut theirs =
                self.seen.iter().filter(|(of, _)| *of == worker).map(|(_, notice)| notice).peekable();
            if theirs.peek().is_some() {
                let mut waiting = open(inbox);
                let room = CAPACITY.saturating_sub(waiting.len());
                waiting.extend(theirs.take(room));
                inbox.is_filled.store(true, Ordering::Relaxed);
            }
        }
        self.seen.clear();
    }
}

/// The flags by which one side closes a connection.
pub(super) const ENDS: u8 = tcp::flags::FIN | tcp::flags::RST;

/// True if a packet may be a segment that closes a connection, judged only by the byte at the place of the
/// TCP flags.
#[inline]
fn closes(packet: &Packet) -> bool {
    packet.header(Base::Transport).and_then(|header| header.get(13)).is_some_and(|flags| flags & ENDS != 0)
}
