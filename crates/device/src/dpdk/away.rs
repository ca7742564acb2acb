//! Ports whose devices were removed, and their reopening when they come back by the same name.
//!
//! Each copy of an element leaves the port with all that it holds of the port; the last copy removes the
//! port from DPDK. From then on, the first copy that looks makes DPDK probe for the device again, and all
//! copies open their queues as at the start. A copy that has left keeps its memory for packets until the
//! port is removed, because the port's driver may have slots until then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::Cx;

use super::ports::{Port, Ports, Receiver, Transmitter};
use super::sys::memory::Memory;
use super::sys::{port, start};
use super::{Refused, Wanted};

/// The state that a copy of an element holds of a port that was removed.
pub(super) struct Away {
    ports: Arc<Ports>,
    port: Arc<Port>,
    memory: Arc<Memory>,
}

/// The result of a look for a port.
pub(super) enum Look<T> {
    /// The port has come back.
    Back(T),
    /// The port has not come back, perhaps because of an error that the user should see.
    Away(Away, Option<String>),
}

impl Away {
    /// Makes a copy leave a port.
    pub(super) fn new(cx: &mut Cx<'_>, ports: Arc<Ports>, port: Arc<Port>, memory: Arc<Memory>) -> Away {
        ports.leave(cx.pool(), &memory, &port);
        Away { ports, port, memory }
    }

    /// Looks for the port, and opens the queues from which an element receives.
    pub(super) fn receive_again(self, cx: &mut Cx<'_>, wanted: &Wanted) -> Look<Receiver> {
        self.look(cx, wanted, |ports, cx, wanted| {
            let (receiver, joined) = ports.open_receiver(cx, wanted)?;
            Ok(joined.map(|()| receiver))
        })
    }

    /// Looks for the port, and opens the queue to which an element sends.
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
        // Drivers set up queues for one thread at a time.
        let ports = Arc::clone(&self.ports);
        let _alone = ports.search();
        if !ports.is_removed(&self.port) {
            return Look::Away(self, None);
        }
        if let Some(port) =
            ports.known(&self.port.info.name).filter(|port| port.is_lost.load(Ordering::Acquire))
        {
            // Other copies have opened the port and lost it again.
            self.leave(cx, port);
            return Look::Away(self, None);
        }
        if !ports.find_again(&self.port) {
            return Look::Away(self, None);
        }
        // The number may be another port's now.
        let wanted = Wanted { port: self.port.info.name.clone(), ..wanted.clone() };
        let text = match open(&self.ports, cx, &wanted) {
            Ok(Ok(opened)) => return Look::Back(opened),
            Ok(Err(text)) | Err(Refused::Missing(text) | Refused::Failed(text)) => text,
        };
        // The port that other copies have opened meanwhile lacks the queues of this copy.
        if let Some(port) = self.ports.known(&wanted.port) {
            port.lose();
            self.leave(cx, port);
        }
        let _ = start::said();
        Look::Away(self, Some(text))
    }

    /// Leaves another port, of which this copy holds nothing.
    fn leave(&mut self, cx: &mut Cx<'_>, port: Arc<Port>) {
        self.ports.leave(cx.pool(), &self.memory, &port);
        self.port = port;
    }

    /// Releases the memory at the end of a run.
    pub(super) fn close(self, cx: &mut Cx<'_>) {
        let Away { ports, port, memory } = self;
        if !ports.is_removed(&port) {
            // Other copies have not left the port.
            ports.stop(cx.pool(), &memory);
        }
        Memory::close(memory, cx.pool());
    }
}

impl Port {
    /// True if the port's device was removed, as its driver or the machine's interface of the port shows.
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

    /// Makes all copies of the port's elements leave it.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        for bell in self.bells() {
            // If the counter is full, it has woken the element already.
            let _ = bell.write(1);
        }
    }
}
