//! The first worker's part in composing programs again: see recompose.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, TryRecvError};

use element::{OutputStream, Rights};

use crate::clock::ClockKind;
use crate::recompose::{Configs, Recomposer};
use crate::worker::Worker;

impl Worker {
    /// Takes the next step in composing programs again, if there were changes.
    #[inline]
    pub(crate) fn recompose_some(&mut self) {
        let version = |recomposer: &Arc<Recomposer>| recomposer.version.load(Ordering::Acquire);
        let version = self.control.recomposer.as_ref().map_or(0, version);
        if version != self.control.recomposing.done {
            self.recompose(version);
        }
    }

    #[cold]
    fn recompose(&mut self, version: u64) {
        let Some(recomposer) = self.control.recomposer.clone() else { return };
        let result = match self.control.recomposing.under_way.take() {
            Some((of, take)) => match take.try_recv() {
                // The result of an earlier version is of no use.
                Ok(_) if of != version => return,
                Ok(result) => result,
                Err(TryRecvError::Empty) => {
                    self.control.recomposing.under_way = Some((of, take));
                    return;
                }
                Err(TryRecvError::Disconnected) => Err("the composition has failed".into()),
            },
            None => {
                let changes = recomposer.changes();
                if changes.is_lost {
                    self.control.recomposing.done = version;
                    return;
                }
                if self.options.clock == ClockKind::Real {
                    let (give, take) = mpsc::sync_channel(1);
                    let compose = move || _ = give.send((recomposer.compose)(&changes.configs));
                    let thread = std::thread::Builder::new().name("recompose".into()).spawn(compose);
                    if thread.is_ok() {
                        self.control.recomposing.under_way = Some((version, take));
                    }
                    return;
                }
                // Time that follows packets stands still meanwhile, so that a run can be repeated.
                (recomposer.compose)(&changes.configs)
            }
        };
        self.control.recomposing.done = version;
        match result {
            Ok(programs) => self.install(version, &programs),
            Err(error) => {
                let text = format_args!("programs stay off after a change of arguments: {error}\n");
                self.control.sink.write(OutputStream::Messages, text);
            }
        }
    }

    /// Gives the programs their new arguments, at all workers.
    fn install(&mut self, version: u64, programs: &Configs) {
        if let Some(recomposer) = &self.control.recomposer {
            recomposer.installs.store(version, Ordering::Release);
        }
        for (name, config) in programs {
            let Some(id) = self.graph.plan.graph.find(name) else { continue };
            let (core, mut host) = self.host();
            let rights = Rights::default();
            if let Err(error) = host.write_handler(core, Some(id), "config", config, &rights) {
                let text = format_args!("{name}: the new program is not put in: {error}\n");
                self.control.sink.write(OutputStream::Messages, text);
            }
        }
    }
}
