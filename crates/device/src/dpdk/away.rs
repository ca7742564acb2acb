//! Ports whose devices were removed, and how their elements take up again those that come back by the same name.
//!
//! Each copy of an element leaves the port with all that it has there; the last one removes the port from DPDK. From
//! then on whoever looks first lets DPDK look for the device again, and all copies open their queues as at the start.
//! Memory for packets stays with whoever has left until the port is removed: its driver may have slots until then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::Cx;

use super::ports::{Port, Ports, Receiver, Transmitter};
use super::sys::memory::Memory;
use super::sys::{port, start};
use super::{Refused, Wanted};

/// What a copy of an element has of a port that was removed.
pub(super) struct Away {
    ports: Arc<Ports>,
    port: Arc<Port>,
    memory: Arc<Memory>,
}

/// What has come of a look for a port.
pub(super) enum Look<T> {
    /// It is there again.
    Back(T),
    /// It is not, perhaps because of an error that the user has to hear of.
    Away(Away, Option<String>),
}

impl Away {
    /// A copy leaves a port.
    pub(super) fn new(cx: &mut Cx<'_>, ports: Arc<Ports>, port: Arc<Port>, memory: Arc<Memory>) -> Away {
        ports.leave(cx.pool(), &memory, &port);
        Away { ports, port, memory }
    }

    /// Looks for the port, and opens the queues that an element receives from.
    pub(super) fn receive_again(self, cx: &mut Cx<'_>, wanted: &Wanted) -> Look<Receiver> {
        self.look(cx, wanted, |ports, cx, wanted| {
            let (receiver, joined) = ports.open_receiver(cx, wanted)?;
            Ok(joined.map(|()| receiver))
        })
    }

    /// Looks for the port, and opens the queue that an element sends to.
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
        // Drivers make queues for one at a time.
        let ports = Arc::clone(&self.ports);
        let _alone = ports.search();
        if !ports.is_removed(&self.port) {
            return Look::Away(self, None);
        }
        if let Some(port) =
            ports.known(&self.port.info.name).filter(|port| port.is_lost.load(Ordering::Acquire))
        {
            // Others have opened it and lost it again.
            self.leave(cx, port);
            return Look::Away(self, None);
        }
        if !ports.find_again(&self.port) {
            return Look::Away(self, None);
        }
        // A number may be another port's now.
        let wanted = Wanted { port: self.port.info.name.clone(), ..wanted.clone() };
        let text = match open(&self.ports, cx, &wanted) {
            Ok(Ok(opened)) => return Look::Back(opened),
            Ok(Err(text)) | Err(Refused::Missing(text) | Refused::Failed(text)) => text,
        };
        // What others have opened meanwhile lacks what this copy has not.
        if let Some(port) = self.ports.known(&wanted.port) {
            port.lose();
            self.leave(cx, port);
        }
        let _ = start::said();
        Look::Away(self, Some(text))
    }

    /// Leaves another port that this copy has nothing of.
    fn leave(&mut self, cx: &mut Cx<'_>, port: Arc<Port>) {
        self.ports.leave(cx.pool(), &self.memory, &port);
        self.port = port;
    }

    /// Gives memory back at the end of a run.
    pub(super) fn close(self, cx: &mut Cx<'_>) {
        let Away { ports, port, memory } = self;
        if !ports.is_removed(&port) {
            // Others have not left it.
            ports.stop(cx.pool(), &memory);
        }
        Memory::close(memory, cx.pool());
    }
}

impl Port {
    /// True if its device was removed, as its driver says, or as the interface that it stands for shows.
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

    /// Lets all copies of its elements leave it.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        for bell in self.bells() {
            // A counter that is full has woken it already.
            let _ = bell.write(1);
        }
    }
}
