//! Ports whose devices were removed, and their reopening when a device of the same name is there again.
//!
//! Each copy of an element (one per worker) stops using the removed port; the last copy removes the port from
//! DPDK. From then on, each copy looks for the port at intervals. The first copy that looks makes DPDK probe
//! for the device, and all copies open their queues as at the start. A copy that has left the port keeps its
//! [`Memory`] until the port is removed from DPDK: until then, the port's driver may have packet slots of
//! this memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::Cx;

use super::ports::{Port, Ports, Receiver, Transmitter};
use super::sys::memory::Memory;
use super::sys::{port, start};
use super::{Refused, Wanted};

/// The state of a copy of an element whose port was removed: the copy has left the port and looks for it.
pub(super) struct Away {
    ports: Arc<Ports>,
    port: Arc<Port>,
    memory: Arc<Memory>,
}

/// The result of an attempt to open a removed port again.
pub(super) enum Look<T> {
    /// The port is there again, and its queues are open.
    Back(T),
    /// The port cannot be opened yet. The text is an error that the user should see; without it, the port
    /// is just not there.
    Away(Away, Option<String>),
}

impl Away {
    /// Registers that a copy has left a removed port. When the last copy has left, the port is removed from
    /// DPDK.
    pub(super) fn new(cx: &mut Cx<'_>, ports: Arc<Ports>, port: Arc<Port>, memory: Arc<Memory>) -> Away {
        ports.leave(cx.pool(), &memory, &port);
        Away { ports, port, memory }
    }

    /// Looks for the port. If it is there, opens the queues from which this copy of an element receives.
    pub(super) fn receive_again(self, cx: &mut Cx<'_>, wanted: &Wanted) -> Look<Receiver> {
        self.look(cx, wanted, |ports, cx, wanted| {
            let (receiver, joined) = ports.open_receiver(cx, wanted)?;
            Ok(joined.map(|()| receiver))
        })
    }

    /// Looks for the port. If it is there, opens the queue to which this copy of an element sends.
    pub(super) fn send_again(self, cx: &mut Cx<'_>, wanted: &Wanted) -> Look<Transmitter> {
        self.look(cx, wanted, |ports, cx, wanted| {
            let (transmitter, joined) = ports.open_transmitter(cx, wanted)?;
            Ok(joined.map(|()| transmitter))
        })
    }

    fn look<T>(
        mut self,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
        open: impl Fn(&Arc<Ports>, &mut Cx<'_>, &Wanted) -> Result<Result<T, String>, Refused>,
    ) -> Look<T> {
        // Only one copy of an element at a time looks for the port and opens its queues, because drivers can
        // set up queues for only one thread at a time.
        let ports = Arc::clone(&self.ports);
        let _alone = ports.search();
        if !ports.is_removed(&self.port) {
            return Look::Away(self, None);
        }
        let lost = ports.known(&self.port.info.name).filter(|port| port.is_lost.load(Ordering::Acquire));
        if let Some(port) = lost {
            // Other copies have opened the port, and its device was removed again. This copy waits until they
            // have left the port.
            self.leave(cx, port);
            return Look::Away(self, None);
        }
        if !ports.find_again(&self.port) {
            return Look::Away(self, None);
        }
        // The port is looked for by its name, because another port may have its number now.
        let wanted = Wanted { port: self.port.info.name.clone(), ..wanted.clone() };
        let text = match open(&self.ports, cx, &wanted) {
            Ok(Ok(opened)) => return Look::Back(opened),
            Ok(Err(text)) | Err(Refused::Missing(text) | Refused::Failed(text)) => text,
        };
        // The port cannot start without this copy's queues. All copies have to leave it and try again.
        if let Some(port) = self.ports.known(&wanted.port) {
            port.lose();
            self.leave(cx, port);
        }
        let _ = start::said();
        Look::Away(self, Some(text))
    }

    /// Registers that this copy has left a port that other copies have reopened, and that has to be left
    /// again.
    fn leave(&mut self, cx: &mut Cx<'_>, port: Arc<Port>) {
        self.ports.leave(cx.pool(), &self.memory, &port);
        self.port = port;
    }

    /// Gives up this copy's claim on its worker's packet memory for DPDK, at the end of a run.
    pub(super) fn close(self, cx: &mut Cx<'_>) {
        let Away { ports, port, memory } = self;
        if !ports.is_removed(&port) {
            // Another copy of an element has not left the port yet, so the port's driver may still have
            // packet slots of this memory. Therefore the port is stopped first.
            port.stop(cx.pool(), &memory);
        }
        Memory::close(memory, cx.pool());
    }
}

impl Port {
    /// True if the port's device was removed. The driver reports that, or the network interface that the port
    /// uses is gone. The first call that finds the removal marks the port for all copies.
    pub(super) fn is_gone(&self) -> bool {
        if self.is_lost.load(Ordering::Acquire) {
            return true;
        }
        let is_gone = port::was_removed(self.number) || self.end.is_gone();
        if is_gone {
            self.lose();
        }
        is_gone
    }

    /// Marks the port as removed. Writes to the eventfds (bells) of the elements that send to the port, to
    /// wake them, so that all copies of elements leave the port.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        for bell in self.bells() {
            // The write fails only if the eventfd's counter is full; then the element has been woken
            // already.
            let _ = bell.write(1);
        }
    }
}
