//! The queues of a DPDK port by which a copy of an element (one worker's instance) receives or sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::{Cx, Packet};
use packet::{Pool, SLOT_CAPACITY};

use super::{Handle, LINK_HEADER, Port, Ports};
use crate::dpdk::RxReport;
use crate::dpdk::away::Away;
use crate::dpdk::sys::memory::{Arrived, Memory, RxQueue, TxQueue};
use crate::dpdk::sys::port;

/// The receive queues of a port from which one copy of an element (one worker's instance) receives.
pub(in crate::dpdk) struct Receiver {
    pub(super) ports: Arc<Ports>,
    pub(super) handle: Handle,
    pub(super) memory: Arc<Memory>,
    pub(super) queues: Vec<RxQueue>,
    /// The index in `queues` of the queue that the next call of `receive` reads first. The index advances by
    /// one with each call, so that no queue starves.
    pub(super) first: usize,
}

impl Receiver {
    pub(in crate::dpdk) fn port(&self) -> &Port {
        &self.handle.port
    }

    /// Returns a warning if the port's MTU allows frames that are longer than a slot, and `None` otherwise.
    pub(in crate::dpdk) fn remark(&self) -> Option<String> {
        let mtu = port::mtu(self.handle.port.number).unwrap_or(0);
        let is_long = mtu + LINK_HEADER > SLOT_CAPACITY;
        is_long.then(|| format!("frames of more than {SLOT_CAPACITY} bytes may be lost"))
    }

    /// Receives at most `most` packets from all queues in turn. Calls `show` for each packet, with what
    /// the port says of it and the number of the queue. Returns the number of packets; `None` while the port
    /// does not run.
    pub(in crate::dpdk) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        most: usize,
        mut show: impl FnMut(&mut Cx<'_>, Packet, RxReport, u16),
    ) -> Option<usize> {
        if !self.handle.port.runs.load(Ordering::Acquire) {
            return None;
        }
        let queues = self.queues.len();
        let mut made = 0;
        for turn in 0..queues {
            if made >= most {
                break;
            }
            let queue = &mut self.queues[(self.first + turn) % queues];
            let number = queue.number;
            made += queue.receive(
                cx,
                most - made,
                |cx| cx.pool(),
                |cx, arrived, told| match arrived {
                    Arrived::Slot(packet) => {
                        cx.accounts().count_made(1);
                        show(cx, packet, told, number);
                    }
                    Arrived::Elsewhere(bytes) => {
                        if let Some(packet) = cx.packet(bytes) {
                            show(cx, packet, told, number);
                        }
                    }
                },
            );
        }
        self.first = (self.first + 1) % queues.max(1);
        Some(made)
    }

    /// Gives up the receive queues of the port, whose device was removed. Returns the state by which this
    /// copy looks for the port again.
    pub(in crate::dpdk) fn leave(self, cx: &mut Cx<'_>) -> Away {
        let Receiver { ports, handle, memory, queues, .. } = self;
        let port = Arc::clone(&handle.port);
        drop((queues, handle));
        Away::new(cx, ports, port, memory)
    }

    /// Registers with the port that this copy of the element does not receive any more, and will be closed.
    pub(in crate::dpdk) fn drain(&self) {
        self.handle.drain();
    }

    pub(in crate::dpdk) fn close(self, cx: &mut Cx<'_>) {
        let Receiver { handle, memory, queues, .. } = self;
        handle.drain();
        handle.port.stop(cx.pool(), &memory);
        drop((queues, handle));
        Memory::close(memory, cx.pool());
    }
}

/// The send queue of a port that belongs to a copy of an element. Other copies may share it.
pub(in crate::dpdk) struct Transmitter {
    pub(super) ports: Arc<Ports>,
    pub(super) handle: Handle,
    pub(super) queue: TxQueue,
    pub(super) longest: usize,
}

impl Transmitter {
    pub(in crate::dpdk) fn port(&self) -> &Port {
        &self.handle.port
    }

    /// Returns the length in bytes of the longest frame that can be sent: the frame fits into a slot, and the
    /// port carried frames of this length when this queue was opened.
    pub(in crate::dpdk) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the number of packets that wait in the element because the port has not taken them.
    pub(in crate::dpdk) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Returns the number of packets that were copied before they were sent.
    pub(in crate::dpdk) fn copied(&self) -> u64 {
        self.queue.copied
    }

    pub(in crate::dpdk) fn put(&mut self, pool: &mut Pool, packet: Packet) -> Result<(), Packet> {
        self.queue.put(pool, packet)
    }

    /// Sends waiting packets, in order, until the port takes no more. Returns the number of packets sent; 0
    /// while the port has not been started.
    pub(in crate::dpdk) fn flush(&mut self, pool: &mut Pool) -> usize {
        if !self.handle.port.runs.load(Ordering::Acquire) {
            return 0;
        }
        self.queue.flush(pool)
    }

    /// Takes back the first packet that waits to be sent, for a caller that drops it. Returns `None` if no
    /// packet waits.
    pub(in crate::dpdk) fn take_back(&mut self, pool: &mut Pool) -> Option<Packet> {
        self.queue.take_back(pool)
    }

    /// Gives up the send queue of the port, whose device was removed, and returns the state by which this
    /// copy looks for the port again. The caller has taken all waiting packets back.
    pub(in crate::dpdk) fn leave(self, cx: &mut Cx<'_>) -> Away {
        let Transmitter { ports, handle, queue, .. } = self;
        let port = Arc::clone(&handle.port);
        drop(handle);
        Away::new(cx, ports, port, queue.into_memory())
    }

    /// Registers with the port that this copy of the element does not send any more, and will be closed.
    pub(in crate::dpdk) fn drain(&self) {
        self.handle.drain();
    }

    pub(in crate::dpdk) fn close(self, cx: &mut Cx<'_>) {
        let Transmitter { handle, queue, .. } = self;
        let memory = queue.into_memory();
        handle.drain();
        handle.port.stop(cx.pool(), &memory);
        drop(handle);
        Memory::close(memory, cx.pool());
    }
}
