//! Notices of connections that servers have closed, from FlowIPLoadBalancerReverse to its
//! FlowIPLoadBalancer.
//!
//! A balancer gets packets of clients only. Answers of a server may reach a worker that does not own their
//! connection, so each worker has a box into which the others put notices. Each worker locks a box at most
//! once per batch. A sender locks it only if the batch closes connections of the box's worker, and the
//! receiver only if the box has notices.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use element::{Base, Batch, Cx, ElementId, Packet, Timestamp};
use flow::FiveTupleKey;
use packet::BATCH_CAPACITY;
use wire::{FiveTuple, tcp};

use super::headers::{marked, tcp_flags};

/// The largest number of notices in one box. If it is full, notices are lost, and their connections are
/// kept for their longer time-outs.
const CAPACITY: usize = 1024;

/// A notice that a server has sent FIN or RST: the connection, the server, these flags, and the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    /// The flow of the connection in the direction of the client's packets: from the client to the virtual
    /// address.
    pub(super) key: FiveTupleKey,
    pub(super) server: Ipv4Addr,
    pub(super) flags: u8,
    pub(super) at: Timestamp,
}

struct Inbox {
    is_filled: AtomicBool,
    waiting: Mutex<Vec<Notice>>,
}

/// Returns an empty list with room for [`CAPACITY`] notices, so that adding to it does not allocate.
pub(super) fn list() -> Vec<Notice> {
    Vec::with_capacity(CAPACITY)
}

/// The boxes of all workers, at the index of the worker.
pub(super) struct Notices(Vec<Inbox>);

impl Notices {
    /// Returns empty boxes for this number of workers.
    pub(super) fn new(workers: usize) -> Notices {
        let inbox = || Inbox { is_filled: AtomicBool::new(false), waiting: Mutex::new(list()) };
        Notices((0..workers.max(1)).map(|_| inbox()).collect())
    }

    /// Takes all notices out of a worker's box. `into` must be an empty [`list`], which takes the place of
    /// the box's list.
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

/// The sender of notices: finds the segments in a batch by which servers close connections.
pub(super) struct Watch {
    /// The notices of the current batch, each with the worker that owns the connection.
    seen: Vec<(usize, Notice)>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { seen: Vec::with_capacity(BATCH_CAPACITY) }
    }

    /// Finds the TCP segments with FIN or RST in a batch of servers' answers, and puts notices into the
    /// boxes of the workers that own the connections. `vip` is the balancer's virtual address.
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

/// The TCP flags with which one side closes a connection.
pub(super) const ENDS: u8 = tcp::flags::FIN | tcp::flags::RST;

/// True if a packet can be a TCP segment with FIN or RST. Only the byte at the offset of the flags is read;
/// the protocol is checked later.
#[inline]
fn closes(packet: &Packet) -> bool {
    packet.header(Base::Transport).and_then(|header| header.get(13)).is_some_and(|flags| flags & ENDS != 0)
}
