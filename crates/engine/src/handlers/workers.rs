//! Reads and writes handlers of elements that several workers have copies of: asks each of these workers,
//! and merges their values into a single value.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use element::class::Merge;
use element::{Core, ElementId, Rights};

use crate::graph_copy::GraphCopy;
use crate::handlers::{CAPTURE, TRACE, WORKER, worker_call};
use crate::host::WorkerHost;
use crate::merge::merge;
use crate::reload::Caller;
use crate::tracing::FOLLOW;

/// The answer of another worker to a handler call.
enum Answer {
    /// The other worker runs on its own thread, which will send the answer through this channel.
    Later(Receiver<Result<String, String>>),
    /// The answer of a worker that waits for its turn on this thread.
    Now(Result<String, String>),
}

/// The time to wait for another worker's answer before this worker answers calls that have come meanwhile.
/// Without that, two workers that call each other would wait for ever.
const PATIENCE: Duration = Duration::from_micros(200);

/// A handler call for another worker.
#[derive(Clone, Copy)]
struct Question<'a> {
    element: Option<ElementId>,
    handler: &'a str,
    value: &'a str,
    /// The rights of the caller if the call writes; `None` if it reads. The field `value` is the value to
    /// write, or the parameter to read with.
    writes: Option<&'a Rights>,
}

impl GraphCopy {
    /// Parses the parameter of the graph's handler `worker`, `N ELEMENT.HANDLER`. Returns the worker, the
    /// element and the name of the handler.
    ///
    /// # Errors
    /// If the parameter has another form, or there is no such worker or element: a message for the user.
    pub(crate) fn of_worker<'a>(&self, param: &'a str) -> Result<(usize, ElementId, &'a str), String> {
        let (number, id, handler) = worker_call(&self.plan, param)?;
        let number = number.parse().ok().filter(|&number: &usize| number < self.setup.workers);
        let number = number.ok_or_else(|| format!("there are workers 0 to {}", self.setup.workers - 1))?;
        Ok((number, id, handler))
    }

    /// Returns the rule that merges the values of a handler at several workers. The counts that every element
    /// has are summed. Any other handler without a declared rule has the value of one worker.
    pub(crate) fn merging(&self, element: Option<ElementId>, handler: &str) -> Merge {
        let Some(id) = element else { return Merge::First };
        let class = self.plan.classes[id];
        let own = match self.elements[id].as_deref() {
            Some(element) => class.merging(element, handler),
            // The element is being called, so only the handlers that all elements of the class have are
            // known.
            None => class.each_handler().find(|known| known.name == handler).map(|known| known.merge),
        };
        match own {
            Some(merge) => merge,
            None if matches!(handler, "counts" | "drops_by_reason") => Merge::Sum,
            None => Merge::First,
        }
    }

    /// True if this worker does the work of the element, or if the handler belongs to the graph (`None`).
    fn is_here(&self, element: Option<ElementId>) -> bool {
        element.is_none_or(|id| self.placement.is_at(id, self.worker()))
    }
}

impl WorkerHost<'_> {
    /// Reads a handler. If several workers do the element's work, reads it at each of them that runs, and
    /// merges the values. If one worker's value is enough ([`Merge::First`]) and this worker has a value, no
    /// other worker is asked.
    ///
    /// # Errors
    /// If a worker reports an error, or no worker that does the element's work runs.
    pub(crate) fn read_handler(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        handler: &str,
        param: &str,
    ) -> Result<String, String> {
        if let (None, WORKER) = (element, handler) {
            let (worker, id, handler) = self.graph.of_worker(param)?;
            if worker == self.graph.worker() {
                return self.read_here(core, Some(id), handler, "");
            }
            let question = Question { element: Some(id), handler, value: "", writes: None };
            let answer = self.ask(worker, question);
            let nobody = || format!("worker {worker} does not answer now");
            return self.await_answer(core, answer.ok_or_else(nobody)?);
        }
        let mut values = Vec::new();
        let question = Question { element, handler, value: param, writes: None };
        let merging = self.graph.merging(element, handler);
        // If one worker's value is enough and this worker has it, no other worker is asked.
        let others = match merging == Merge::First && self.graph.is_here(element) {
            true => Vec::new(),
            false => self.ask_others(question),
        };
        if self.graph.is_here(element) {
            values.push(self.read_here(core, element, handler, param)?);
        }
        for (_, answer) in others {
            values.push(self.await_answer(core, answer)?);
        }
        match values.is_empty() {
            true => {
                Err(format!("the worker of '{}' does not run", self.graph.handler_name(element, handler)))
            }
            false => Ok(merge(&values, merging)),
        }
    }

    /// Writes a handler. If several workers do the element's work, writes it at each of them that runs, and
    /// returns the first error.
    ///
    /// # Errors
    /// If a worker reports an error, or no worker that does the element's work runs.
    pub(crate) fn write_handler(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        if element.is_none() && matches!(handler, TRACE | CAPTURE) {
            return self.watch_everywhere(core, handler, value, rights);
        }
        let results = self.write_each(core, element, handler, value, rights);
        if results.is_empty() {
            let name = self.graph.handler_name(element, handler);
            return Err(format!("the worker of '{name}' does not run"));
        }
        results.into_iter().try_for_each(|(_, result)| result)
    }

    /// Writes a handler as [`write_handler`](Self::write_handler) does. Returns the result of each worker
    /// that does the element's work and runs, with the number of the worker; of this worker first.
    pub(crate) fn write_each(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Vec<(usize, Result<(), String>)> {
        let others = self.ask_others(Question { element, handler, value, writes: Some(rights) });
        let mut results = Vec::new();
        if self.graph.is_here(element) {
            let result = self.write_here(core, element, handler, value, rights);
            results.push((self.graph.worker(), result));
        }
        for (worker, answer) in others {
            results.push((worker, self.await_answer(core, answer).map(drop)));
        }
        results
    }

    /// Has the first worker replace the graph, and waits until the workers have initialised their copies.
    pub(super) fn reload_elsewhere(
        &mut self,
        core: &mut Core,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        let question = Question { element: None, handler, value, writes: Some(rights) };
        let answer = self.ask(0, question).ok_or("the first worker does not run")?;
        self.await_answer(core, answer).map(drop)
    }

    /// Writes the handler [`TRACE`] or [`CAPTURE`]: carries out the order, and has all other workers take
    /// part.
    ///
    /// # Errors
    /// If the order is wrong, or a worker does not answer; the other workers take part then.
    fn watch_everywhere(
        &mut self,
        core: &mut Core,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        self.write_here(core, None, handler, value, rights)?;
        let Some(team) = self.team else { return Ok(()) };
        let others = (0..team.len()).filter(|&worker| worker != self.graph.worker());
        let question = Question { element: None, handler, value: FOLLOW, writes: Some(rights) };
        let answers: Vec<_> = others.map(|worker| (worker, self.ask(worker, question))).collect();
        let mut result = Ok(());
        for (worker, answer) in answers {
            let absent = || Err(format!("worker {worker} does not run, so its packets are left out"));
            result =
                result.and(answer.map_or_else(absent, |answer| self.await_answer(core, answer).map(drop)));
        }
        result
    }

    /// Sends a handler call to each other worker that does the element's work. Returns the answers with the
    /// numbers of the workers. Workers that do not run have no answer in the result.
    fn ask_others(&self, question: Question<'_>) -> Vec<(usize, Answer)> {
        let (Some(team), Some(id)) = (self.team, question.element) else { return Vec::new() };
        let others = (0..team.len()).filter(|&worker| worker != self.graph.worker());
        let others = others.filter(|&worker| self.graph.placement.is_at(id, worker));
        others.filter_map(|worker| Some((worker, self.ask(worker, question)?))).collect()
    }

    /// Sends a handler call to one worker. Returns `None` if the worker does not run, or is being called
    /// already.
    fn ask(&self, worker: usize, question: Question<'_>) -> Option<Answer> {
        let team = self.team.as_ref()?;
        let Question { element, handler, value, writes } = question;
        if !team.in_turn {
            let element = (self.graph.generation, element);
            return team.ask(worker, element, handler, value, writes).map(Answer::Later);
        }
        let mut other = team.take_waiting(worker)?;
        let result = match writes {
            Some(rights) => other.write_here(element, handler, value, rights).map(|()| String::new()),
            None => other.read_here(element, handler, value),
        };
        team.let_wait(worker, other);
        Some(Answer::Now(result))
    }

    /// Waits for the answer of another worker. Meanwhile, answers the handler calls of other workers.
    fn await_answer(&mut self, core: &mut Core, answer: Answer) -> Result<String, String> {
        let answer = match answer {
            Answer::Now(result) => return result,
            Answer::Later(answer) => answer,
        };
        loop {
            match answer.recv_timeout(PATIENCE) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => self.answer(core),
                Err(RecvTimeoutError::Disconnected) => return Err("the worker has ended".into()),
            }
        }
    }

    /// Answers all handler calls that other workers have sent to this worker.
    pub(crate) fn answer(&mut self, core: &mut Core) {
        let Some(team) = self.team else { return };
        if team.is_told_of_reload(self.graph.worker()) {
            self.take_part_in_reload(core);
        }
        while let Some(mut request) = team.next_request(self.graph.worker(), self.graph.generation) {
            // A worker that has not changed over to the new graph yet sends the number that the element has
            // in the old graph. The call then goes to the heir of this element.
            if request.generation < self.graph.generation {
                let heir = request.element.map(|old| self.reloads.heir(old));
                if heir == Some(None) {
                    let error = "the configuration has just been replaced by one without this element";
                    request.answer(Err(error.into()));
                    continue;
                }
                request.element = heir.flatten();
            }
            let (name, value) = (&request.handler, &request.value);
            if let Some(rights) = &request.writes
                && let Some(wanted) = self.reload_request(request.element, name, value, rights)
            {
                if let Some((Caller::Worker(request), error)) =
                    self.begin_reload_for(core, Caller::Worker(request), wanted)
                {
                    request.answer(Err(error));
                }
                continue;
            }
            let result = match &request.writes {
                Some(rights) => {
                    self.write_here(core, request.element, name, value, rights).map(|()| String::new())
                }
                None => self.read_here(core, request.element, name, value),
            };
            request.answer(result);
        }
    }
}
