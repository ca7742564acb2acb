//! Questions to the workers: snapshots, of which one serves all clients for a moment, and handler calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use element::Rights;
use engine::{HandlerCall, Inspector, Snapshot};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

/// The time for which a snapshot answers further questions. So the workers make at most ten snapshots per
/// second, however many clients ask.
const FRESH: Duration = Duration::from_millis(100);
/// The time after which a snapshot is asked for again, because a reload was under way.
const AGAIN: Duration = Duration::from_millis(10);
/// The most attempts to get a snapshot.
const ATTEMPTS: usize = 50;

/// The reason why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// A worker has not answered in time.
    Late,
    /// The run is ending, or too many questions wait.
    Refused,
}

/// The questions of all clients.
pub(crate) struct Questions {
    inspector: Inspector,
    /// The time limit of an answer.
    limit: Duration,
    /// The last snapshot and the time at which it was made. The lock is kept while a snapshot is made, so
    /// that other clients wait for the same snapshot.
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Questions {
    pub(crate) fn new(inspector: Inspector, limit: Duration) -> Questions {
        Questions { inspector, limit, last: Mutex::new(None) }
    }

    /// Returns a snapshot that is at most [`FRESH`] old.
    ///
    /// # Errors
    /// If a worker does not answer in time, or the run is ending.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, NoAnswer> {
        Ok(self.dated_snapshot().await?.1)
    }

    /// Returns a snapshot that is at most [`FRESH`] old, and the instant at which it was made.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub(crate) async fn dated_snapshot(&self) -> Result<(Instant, Arc<Snapshot>), NoAnswer> {
        timeout(self.limit, self.fresh_snapshot()).await.unwrap_or(Err(NoAnswer::Late))
    }

    async fn fresh_snapshot(&self) -> Result<(Instant, Arc<Snapshot>), NoAnswer> {
        let mut last = self.last.lock().await;
        if let Some(dated) = last.as_ref().filter(|(made, _)| made.elapsed() < FRESH) {
            return Ok(dated.clone());
        }
        for _ in 0..ATTEMPTS {
            let mut answers = Vec::new();
            // The first worker comes last, because it wakes the others.
            for worker in (0..self.inspector.workers()).rev() {
                let (give, take) = oneshot::channel();
                let reply = Box::new(move |part| drop(give.send(part)));
                self.inspector.ask_part(worker, reply).map_err(|_| NoAnswer::Refused)?;
                answers.push(take);
            }
            let mut parts = Vec::new();
            for answer in answers {
                parts.push(answer.await.map_err(|_| NoAnswer::Refused)?);
            }
            parts.reverse();
            if let Some(snapshot) = Snapshot::of(parts).map(Arc::new) {
                let dated = (Instant::now(), snapshot);
                *last = Some(dated.clone());
                return Ok(dated);
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(NoAnswer::Late)
    }

    /// Reads a handler of an element, or of the graph.
    ///
    /// # Errors
    /// The outer error if the worker does not answer, the inner error if the handler reports one.
    pub(crate) async fn read(
        &self,
        element: Option<&str>,
        handler: &str,
        param: &str,
    ) -> Result<Result<String, String>, NoAnswer> {
        self.call(element, handler, param, None, self.limit).await
    }

    /// Writes a handler of an element, or of the graph, with the rights of a client, within a time limit.
    ///
    /// # Errors
    /// The outer error if the worker does not answer, the inner error if the handler reports one.
    pub(crate) async fn write(
        &self,
        element: Option<&str>,
        handler: &str,
        value: &str,
        rights: Rights,
        limit: Duration,
    ) -> Result<Result<String, String>, NoAnswer> {
        self.call(element, handler, value, Some(rights), limit).await
    }

    async fn call(
        &self,
        element: Option<&str>,
        handler: &str,
        value: &str,
        writes: Option<Rights>,
        limit: Duration,
    ) -> Result<Result<String, String>, NoAnswer> {
        let (give, take) = oneshot::channel();
        let (element, handler) = (element.map(str::to_string), handler.to_string());
        let call = HandlerCall { element, handler, value: value.to_string(), writes };
        let reply = Box::new(move |result| drop(give.send(result)));
        self.inspector.call(call, reply).map_err(|_| NoAnswer::Refused)?;
        match timeout(limit, take).await {
            Ok(answer) => answer.map_err(|_| NoAnswer::Refused),
            Err(_) => Err(NoAnswer::Late),
        }
    }
}
