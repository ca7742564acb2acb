//! The part of the first worker in composing programs again (see recompose.rs).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use element::{OutputStream, Rights, background};

use crate::clock::ClockKind;
use crate::recompose::{Composed, Composition, PAUSE, Recomposer};
use crate::worker::Worker;

/// The consequence for packets if a program cannot be composed again.
const ELEMENTS: &str = "packets go through the elements until one of them changes again";

/// The consequence for packets if a program cannot be put in at some of the workers.
const AT_SOME: &str = "where packets go through the elements until one of them changes again";

/// The consequence if these workers have an earlier program that is not outdated.
const EARLIER: &str = "where an earlier program goes on until an element changes again";

/// The time after which a worker that waits for a composition looks for an interruption.
const LOOK: Duration = Duration::from_millis(10);

impl Worker {
    /// Takes the next step in composing programs again, if elements that they replace have changed.
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
        // The result of a composition without the last change would be refused by the workers.
        if composition.version == version {
            self.put_in(version, Composed { declarations: composition.declarations, programs });
        }
    }

    /// Starts a composition that includes all changes up to `version`. Unless the clock is the real clock,
    /// the worker waits for the result, so that the run can be repeated; an interrupt by the user ends the
    /// wait.
    fn start_composition(&mut self, recomposer: &Arc<Recomposer>, version: u64) {
        let changes = recomposer.changes();
        // A program that replaces no element that has changed stays.
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
        // Without a thread, the worker tries again in its next round.
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

    /// Gives the outdated programs their new arguments, at all workers. `version` is the number of the last
    /// change that the composition includes.
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
                // With a further change, the program is composed again anyway.
                Some(_) if recomposer.version.load(Ordering::Acquire) != version => {}
                // Some workers have the new program, the others have the program before it.
                Some((_, error)) if failed.len() < workers => {
                    let numbers: Vec<String> = failed.iter().map(|(worker, _)| worker.to_string()).collect();
                    let (plural, numbers) = (if failed.len() > 1 { "s" } else { "" }, numbers.join(", "));
                    let instead = if must_be_replaced { AT_SOME } else { EARLIER };
                    self.say(format_args!(
                        "{name}: not put in at worker{plural} {numbers}, {instead}: {error}\n"
                    ));
                }
                // A program that is not outdated stays, although another one might replace more elements.
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
