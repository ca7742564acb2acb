//! The first worker's part in composing synthesized programs again after elements have changed (see
//! recompose.rs).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use element::{OutputStream, Rights, background};

use crate::clock::ClockKind;
use crate::recompose::{Composed, Composition, PAUSE, Recomposer};
use crate::worker::Worker;

/// The end of a message: what happens to packets if a synthesized program cannot be composed again.
const ELEMENTS: &str = "packets go through the elements until one of them changes again";

/// The end of a message: what happens to packets if a synthesized program cannot be put in at some of the
/// workers.
const AT_SOME: &str = "where packets go through the elements until one of them changes again";

/// The end of a message that names workers at which a new program could not be put in, but which have an
/// earlier program that is not outdated.
const EARLIER: &str = "where an earlier program goes on until an element changes again";

/// The time after which a worker that waits for a composition looks for an interruption.
const LOOK: Duration = Duration::from_millis(10);

impl Worker {
    /// Takes the next step in composing synthesized programs again, if elements that they replace have
    /// changed.
    #[inline]
    pub(crate) fn recompose_some(&mut self) {
        let Some(recomposer) = &self.control.recomposer else { return };
        let version = recomposer.version.load(Ordering::Acquire);
        if version != self.control.recomposing.done {
            self.recompose(version);
        }
    }

    #[cold]
    fn recompose(&mut self, version: u64) {
        let Some(recomposer) = self.control.recomposer.clone() else { return };
        let now = self.core.now;
        let recomposing = &mut self.control.recomposing;
        if recomposing.seen.0 != version {
            recomposing.seen = (version, now);
        }
        let Some(composition) = recomposing.under_way.take() else {
            if now - recomposing.seen.1 >= recomposing.cost.max(PAUSE) {
                self.start_composition(&recomposer, version);
            }
            return;
        };
        let programs = match composition.result.try_recv() {
            Ok(programs) => programs,
            Err(TryRecvError::Empty) => {
                recomposing.under_way = Some(composition);
                return;
            }
            Err(TryRecvError::Disconnected) => {
                recomposing.done = composition.version;
                return self
                    .say(format_args!("synthesized programs: {ELEMENTS}: the composition has failed\n"));
            }
        };
        recomposing.cost = now - composition.start;
        // A composition that does not include the last change of an element is dropped, because the workers
        // would refuse its programs.
        if composition.version == version {
            self.put_in(version, Composed { declarations: composition.declarations, programs });
        }
    }

    /// Starts a composition that includes all changes up to `version`. Unless the clock is the real clock,
    /// the worker waits for the result, so that the run can be repeated; an interrupt by the user ends the
    /// wait.
    fn start_composition(&mut self, recomposer: &Arc<Recomposer>, version: u64) {
        let changes = recomposer.changes();
        // No program replaces an element that has changed, so all programs stay as they are.
        if changes.outdated.is_empty() {
            self.control.recomposing.done = version;
            return;
        }
        // The worker of an element that was being called asks for its declaration in the next round, and this
        // is a further change.
        if !changes.unknown.is_empty() {
            return;
        }
        let declarations = Arc::new(changes.declarations);
        let (sender, result) = mpsc::sync_channel(1);
        let (recomposer, changed) = (Arc::clone(recomposer), Arc::clone(&declarations));
        let compose = move || _ = sender.send((recomposer.compose)(&changed));
        // If no thread can be started for the composition, the worker tries again in the next round of its
        // loop.
        if background::spawn("recompose", compose).is_err() {
            return;
        }
        if self.options.clock == ClockKind::Real {
            let start = self.core.now;
            self.control.recomposing.under_way = Some(Composition { version, start, declarations, result });
            return;
        }
        while !self.options.interrupt.load(Ordering::Relaxed) {
            match result.recv_timeout(LOOK) {
                Ok(programs) => return self.put_in(version, Composed { declarations, programs }),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.say(format_args!("synthesized programs: {ELEMENTS}: the composition has failed\n"));
                    break;
                }
            }
        }
        self.control.recomposing.done = version;
    }

    /// Gives the outdated synthesized programs their new arguments, at all workers. `version` is the number
    /// of the last change of an element that the composition includes.
    fn put_in(&mut self, version: u64, composed: Composed) {
        let Some(recomposer) = self.control.recomposer.clone() else { return };
        self.control.recomposing.done = version;
        let composed = Arc::new(composed);
        recomposer.put_in(Some(Arc::clone(&composed)));
        for (name, must_be_replaced) in recomposer.outdated() {
            let Some(id) = self.graph.plan.graph.find(&name) else { continue };
            let program = match composed.programs.get(&name) {
                Some(program) => program.as_ref().map_err(String::as_str),
                None => Err("it was not composed again"),
            };
            let (core, mut host) = self.host();
            let mut put = |config: &String| {
                let results = host.write_each(core, Some(id), "config", config, &Rights::default());
                let workers = results.len();
                let failed = results.into_iter().filter_map(|(worker, result)| Some((worker, result.err()?)));
                (workers, failed.collect::<Vec<(usize, String)>>())
            };
            let (workers, failed) = match program {
                Ok(config) => put(config),
                Err(error) => (1, vec![(0, error.to_string())]),
            };
            match failed.first() {
                None => recomposer.renewed(&name, version),
                // An element has changed after this composition began. The program is composed again anyway,
                // so nothing is reported.
                Some(_) if recomposer.version.load(Ordering::Acquire) != version => {}
                // The new program was put in at some workers only; the other workers keep the program before
                // it.
                Some((_, error)) if failed.len() < workers => {
                    let numbers: Vec<String> = failed.iter().map(|(worker, _)| worker.to_string()).collect();
                    let (plural, numbers) = (if failed.len() > 1 { "s" } else { "" }, numbers.join(", "));
                    let instead = if must_be_replaced { AT_SOME } else { EARLIER };
                    self.say(format_args!(
                        "{name}: not put in at worker{plural} {numbers}, {instead}: {error}\n"
                    ));
                }
                // The synthesized program in use is not outdated, so it stays. The program that could not be
                // composed or put in would only have replaced more elements.
                Some(_) if !must_be_replaced => {}
                Some((_, error)) => self.say(format_args!("{name}: {ELEMENTS}: {error}\n")),
            }
        }
        recomposer.put_in(None);
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        self.control.sink.write(OutputStream::Messages, text);
    }
}
