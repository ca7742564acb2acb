//! The part of a worker in state on disk: it writes the state of its elements in pieces between batches, and
//! gives them the state of an earlier run at the start (see saving.rs).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TrySendError;

use element::{SavedState, StateWriter};

use crate::saving::{Content, Message, SaveProgress, SavedElement, SavedPiece, SavedRun, Saving};
use crate::worker::Worker;
use crate::workers::Workers;

impl Worker {
    /// True if the worker has a piece of its state to write.
    #[inline]
    pub(crate) fn has_to_save(&self) -> bool {
        let wanted = |saving: &Saving| saving.wanted.load(Ordering::Relaxed) != self.saved.number;
        self.options.saving.as_ref().is_some_and(|saving| self.saved.is_busy || wanted(saving))
    }

    /// Writes the next piece of the worker's state if it is asked for. Returns true if there is more to
    /// write.
    #[inline]
    pub(crate) fn save_some(&mut self) -> bool {
        self.has_to_save() && self.save_next()
    }

    #[cold]
    fn save_next(&mut self) -> bool {
        let Some(Saving { wanted, messages }) = self.options.saving.clone() else { return false };
        let (wanted, generation) = (wanted.load(Ordering::Acquire), self.graph.generation);
        if wanted != self.saved.number {
            self.saved =
                SaveProgress { number: wanted, is_busy: true, generation, ..SaveProgress::default() };
            self.graph.settle_stand_ins(&mut self.core);
            // The other workers may sleep. Only this worker checks often enough if a collection of state is
            // asked for, so it wakes the others.
            if let Some(team) = self.team.as_ref().filter(|_| self.graph.worker() == 0) {
                team.ring_all();
            }
        }
        if generation != self.saved.generation {
            self.saved.pending = Some(Content::Again);
        }
        let content = match self.saved.pending.take() {
            Some(content) => content,
            None => self.next_piece().map_or(Content::Done, Content::Piece),
        };
        let is_last = !matches!(content, Content::Piece(_));
        match messages.try_send(Message { number: self.saved.number, content }) {
            Ok(()) => self.saved.is_busy = !is_last,
            Err(TrySendError::Full(message)) => {
                self.saved.pending = Some(message.content);
                std::thread::yield_now();
            }
            Err(TrySendError::Disconnected(_)) => self.saved.is_busy = false,
        }
        self.saved.is_busy
    }

    /// Returns the next piece of the state of this worker's elements; `None` after the last.
    fn next_piece(&mut self) -> Option<SavedPiece> {
        let plan = Arc::clone(&self.graph.plan);
        loop {
            let (id, from) = self.saved.next;
            let class = *plan.classes.get(id)?;
            let form = class.saved_form.filter(|_| self.graph.placement.is_at(id, self.graph.worker()));
            let mut out = StateWriter::default();
            let next = form.and_then(|_| self.call(id, |element, cx| element.save_state(cx, from, &mut out)));
            self.saved.next = next.flatten().map_or((id + 1, 0), |from| (id, from));
            let (bytes, form) = (out.into_bytes(), form.unwrap_or_default());
            if !bytes.is_empty() {
                let (name, class) = (plan.graph.elements[id].name.clone(), class.name.to_string());
                return Some(SavedPiece { element: SavedElement { name, class, form }, bytes });
            }
        }
    }

    /// Gives the elements of this worker the state of the earlier run in
    /// [`Options::saved`](crate::Options::saved), if there is one.
    pub(crate) fn load_saved(&mut self) {
        if let Some(saved) = self.options.saved.clone() {
            self.load(&saved);
        }
    }

    fn load(&mut self, saved: &SavedRun) {
        for &id in &*Arc::clone(&self.graph.placed) {
            let Some((element, pieces)) = saved.of(&self.graph.plan, id) else { continue };
            let state = SavedState::new(pieces, saved.time, self.core.now);
            if let Some(result) = self.call(id, |element, cx| element.load_state(cx, &state)) {
                saved.note(element, result);
            }
        }
    }
}

impl Workers {
    /// Gives the elements of all workers the state of an earlier run, as
    /// [`initialize`](Self::initialize) does with the state in the options. Workers on a thread of their own
    /// are left out.
    pub fn load(&mut self, saved: &SavedRun) {
        self.here.iter_mut().for_each(|worker| worker.load(saved));
    }

    /// Gives each piece of the state of all workers to `take`, until it returns false. Workers on a thread of
    /// their own are left out, so it is for the time after a run, before [`finish`](Self::finish).
    pub fn save(&mut self, mut take: impl FnMut(SavedPiece) -> bool) {
        self.end_reload();
        for worker in &mut self.here {
            worker.graph.settle_stand_ins(&mut worker.core);
            worker.saved = SaveProgress::default();
            while let Some(piece) = worker.next_piece() {
                if !take(piece) {
                    return;
                }
            }
        }
    }
}
