//! The part of a worker in answering the questions of other threads (see inspect.rs).

use std::sync::Arc;

use element::{Core, Element};

use crate::host::WorkerHost;
use crate::inspect::{HandlerCall, Question, Reply, SnapshotPart, WorkerState};
use crate::reload::Caller;
use crate::report::WorkerReport;
use crate::worker::Worker;

impl Worker {
    /// True if a question of another thread waits for this worker.
    #[inline]
    pub(crate) fn is_inspected(&self) -> bool {
        self.options.inspector.as_ref().is_some_and(|inspector| inspector.is_asked(self.graph.worker()))
    }

    /// Answers the next question of another thread, if there is one.
    #[inline]
    pub(crate) fn serve_inspector(&mut self) {
        if self.is_inspected() {
            self.answer_inspector();
        }
    }

    #[cold]
    fn answer_inspector(&mut self) {
        let me = self.graph.worker();
        let Some(question) = self.options.inspector.as_ref().and_then(|inspector| inspector.next(me)) else {
            return;
        };
        // The other workers may sleep. Only this worker checks often enough if it is asked, so it wakes the
        // others.
        if let Some(team) = self.team.as_ref().filter(|_| me == 0 && !matches!(question, Question::Call(..)))
        {
            team.ring_all();
        }
        match question {
            Question::Sign(reply) => reply(()),
            Question::Part(reply) => {
                let (core, mut host) = self.host();
                let part = host.part(core);
                self.settle();
                reply(part);
            }
            Question::Call(call, reply) => self.answer_call(&call, reply),
        }
    }

    fn answer_call(&mut self, call: &HandlerCall, reply: Reply<Result<String, String>>) {
        let HandlerCall { element, handler, value, writes } = call;
        let id = match element.as_ref().map(|name| (name, self.graph.plan.graph.find(name))) {
            Some((name, None)) => return reply(Err(format!("no element named '{name}'"))),
            found => found.and_then(|(_, id)| id),
        };
        let (core, mut host) = self.host();
        let result = match writes {
            None => host.read_handler(core, id, handler, value),
            Some(rights) => match host.reload_request(id, handler, value, rights) {
                Some(request) => {
                    if let Some((Caller::Outside(reply), error)) =
                        host.begin_reload_for(core, Caller::Outside(reply), request)
                    {
                        reply(Err(error));
                    }
                    return;
                }
                None => host.write_handler(core, id, handler, value, rights).map(|()| String::new()),
            },
        };
        self.settle();
        reply(result);
    }
}

impl WorkerHost<'_> {
    /// Makes this worker's part of a snapshot.
    pub(crate) fn part(&mut self, core: &mut Core) -> SnapshotPart {
        let report = self.report(core);
        let stats = core.pool.stats();
        let own = match report.workers.first() {
            Some(own) => own.clone(),
            None => {
                let totals = &report.totals;
                let (packets_in, out) = (totals.packets_in, totals.out);
                let (held, dropped) = (totals.held, totals.dropped);
                WorkerReport { packets_in, out, held, dropped, busy_ns: self.busy, ..WorkerReport::default() }
            }
        };
        let worker = WorkerState {
            worker: self.graph.worker(),
            report: own,
            in_rings: self.exchange.as_ref().map_or(0, |exchange| exchange.arrived()),
            buffers_used: stats.in_use as u64,
            buffers: stats.limit as u64,
        };
        let plan = Arc::clone(&self.graph.plan);
        let mut values = Vec::new();
        for &id in &*Arc::clone(&self.graph.placed) {
            for info in plan.classes[id].each_metric() {
                let has = |element: &dyn Element| plan.classes[id].has_handler(element, info.name);
                if !self.graph.elements[id].as_deref().is_some_and(has) {
                    continue;
                }
                if let Ok(text) = self.read_here(core, Some(id), info.name, "") {
                    values.push((id, info.name, text));
                }
            }
        }
        SnapshotPart { generation: self.graph.generation, plan, report, worker, values }
    }
}
