//! The old generation of the graph at one worker, after the worker has changed over: runs packets that other
//! workers have handed over to it, until no such packet is left.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::{ElementId, OutputStream};

use super::Reload;
use crate::generation::Generation;
use crate::graph_copy::{GraphCopy, Target};
use crate::worker::Worker;

/// The old generation of the graph at one worker, after the worker has changed over.
pub(crate) struct Retiring {
    reload: Arc<Reload>,
    generation: Box<Generation>,
}

impl Retiring {
    pub(super) fn new(reload: Arc<Reload>, generation: Box<Generation>) -> Retiring {
        Retiring { reload, generation }
    }
}

impl Worker {
    /// Closes the elements of the current generation for which `ends` is true, and that have not been closed.
    /// The generation is the old one, or will be the old one next. Errors are written as messages.
    pub(super) fn close_old(&mut self, ends: impl Fn(&GraphCopy, ElementId) -> bool) {
        for &id in &*Arc::clone(&self.graph.placed) {
            if self.graph.closed[id] || !ends(&self.graph, id) {
                continue;
            }
            self.graph.closed[id] = true;
            if let Some(Err(error)) = self.call(id, |element, cx| element.close(cx)) {
                self.control.sink.write(OutputStream::Messages, format_args!("{error}\n"));
            }
        }
    }

    /// Ends a reload that is under way at the end of a run: changes over if that has been decided, and
    /// otherwise closes the copy of the new graph.
    pub(crate) fn end_reload(&mut self) {
        if self.reloads.is_ready() {
            return self.switch();
        }
        let (core, mut host) = self.host();
        host.give_up_reload(core);
    }

    /// Processes packets of the old generation, and closes it if no worker has such packets any more.
    #[cold]
    pub(crate) fn serve_retiring(&mut self) {
        let Some(Retiring { reload, mut generation }) = self.retiring.take() else { return };
        let me = self.graph.worker();
        // The workers whose packets of the old generation are all in the rings. This is read before packets
        // are taken out of the rings.
        let left: Vec<usize> = (0..reload.seats.len())
            .filter(|&worker| reload.seats[worker].has_left.load(Ordering::Acquire))
            .collect();
        self.exchange_generation(&mut generation);
        if self.has_old_work() {
            reload.quiet.end_idle(me);
            while self.has_old_work() {
                let moved = self.receive_current(false) | self.drain_held();
                if !moved {
                    break;
                }
            }
        }
        if self.exchange.as_ref().is_none_or(|exchange| !exchange.has_packets_out()) {
            reload.seats[me].has_left.store(true, Ordering::Release);
        }
        if !self.has_old_work() && reload.seats[me].has_left.load(Ordering::Relaxed) {
            let moved = self.exchange.as_ref().map_or((0, 0), |exchange| exchange.moved());
            reload.quiet.begin_idle(me, moved);
        }
        let ends = reload.quiet.is_quiet();
        if ends {
            self.drain_all();
            self.close_old(|_, _| true);
            self.former.add(&self.core.counters);
            if let Some(exchange) = &self.exchange {
                self.former.add_exchange(exchange.report(self.core.burst));
            }
        }
        self.exchange_generation(&mut generation);
        // A request to stop that an element of the old generation has made holds for the run.
        if std::mem::take(&mut generation.control.is_asked_to_stop) && !generation.control.goes_on() {
            generation.control.runcount = 1;
            self.control.stop(1);
        }
        self.enter_crossed();
        if let Some(exchange) = &mut self.exchange {
            exchange.open(&left, ends);
        }
        match ends {
            true => reload.dispose(generation),
            false => self.retiring = Some(Retiring { reload, generation }),
        }
    }

    /// True if packets of the current generation, which is the old one, are in rings, wait for their order,
    /// or are held by its elements.
    fn has_old_work(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.has_work()) || self.traces().0 > 0
    }

    /// Drains the elements of the current generation if they hold packets. True if any packet has moved.
    fn drain_held(&mut self) -> bool {
        let before = self.traces();
        if before.0 > 0 {
            self.drain_all();
        }
        self.traces() != before
    }

    /// Passes packets of the old graph on to the new graph: packets that have come to an element with an
    /// heir, which has its state now, go to the heir.
    fn enter_crossed(&mut self) {
        for (to, mut batch) in std::mem::take(&mut self.crossed) {
            // A packet's run, its flow mark, and the number by which the order of packets is kept have a
            // meaning only in the graph that set them, so they are cleared.
            for packet in batch.iter_mut() {
                packet.set_flow_mark(None);
                packet.set_run(0);
            }
            let way = self.graph.placement.way_into(to.element as usize);
            self.send_to_copies(Target { way, ..to }, batch, false);
            self.settle();
        }
    }
}
