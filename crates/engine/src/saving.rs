//! State on disk: each worker writes the state of its elements in pieces while packets flow, and reads the
//! pieces of an earlier run at the start.
//!
//! ```text
//!  thread of the owner              worker, between two batches
//!  ───────────────────              ───────────────────────────
//!  Saver::collect: asks ──────────▶ writes one piece of an element in each round of its loop
//!  gives pieces to its caller ◀──── sends the piece, in a later round if the channel is full
//!  until each worker is done ◀───── done, or "again" after a reload
//! ```
//!
//! No worker waits for the owner's thread or for another worker. So the pieces show each entry at another
//! moment; each single entry is complete.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use element::{Damaged, Loaded, Timestamp};

use crate::plan::Plan;

/// The capacity of the channel to the thread that collects the state of all workers, in messages.
const WAITING: usize = 64;

/// The time after which a collecting thread checks that the run goes on.
const LOOK: Duration = Duration::from_millis(20);

/// The identity of an element whose state is saved, the same for its copies at all workers: name, class, and
/// the version of the form of its state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SavedElement {
    /// The name of the element.
    pub name: String,
    /// The name of its class.
    pub class: String,
    /// The version of the form in which the state is written ([`element::Class::saved_form`]).
    pub form: u16,
}

/// A piece of the state of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPiece {
    /// The element that has written the piece.
    pub element: SavedElement,
    /// The bytes that it has written.
    pub bytes: Vec<u8>,
}

/// A message of a worker to the thread that collects pieces, with the number of the collection.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Piece(SavedPiece),
    /// The worker has sent all of its pieces.
    Done,
    /// The worker has changed over to another graph, so the pieces so far do not belong together.
    Again,
}

/// The workers' end of the connection that [`saving`] makes, as a part of their options.
#[derive(Clone)]
pub struct Saving {
    pub(crate) wanted: Arc<AtomicU64>,
    pub(crate) messages: SyncSender<Message>,
}

/// The end of the connection that [`saving`] makes for the thread that saves state.
pub struct Saver {
    wanted: Arc<AtomicU64>,
    messages: Receiver<Message>,
    workers: usize,
}

/// Connects a thread that saves state with the workers.
pub fn saving(workers: usize) -> (Saving, Saver) {
    let (messages, receiver) = mpsc::sync_channel(WAITING);
    let wanted = Arc::default();
    (Saving { wanted: Arc::clone(&wanted), messages }, Saver { wanted, messages: receiver, workers })
}

/// The outcome of a collection of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// All workers have sent all of their pieces.
    Whole,
    /// A reload came in between. The pieces so far are useless; the caller collects again.
    Again,
    /// The run has ended, or the caller has given up.
    Broken,
}

impl Saver {
    /// Asks all workers for their state, and gives each piece to `take`. Gives up when `take` returns false,
    /// or `goes_on` returns false, which is called now and then.
    pub fn collect(
        &mut self,
        goes_on: impl Fn() -> bool,
        mut take: impl FnMut(SavedPiece) -> bool,
    ) -> Collected {
        let number = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        let mut left = self.workers;
        while left > 0 {
            if !goes_on() {
                return Collected::Broken;
            }
            let message = match self.messages.recv_timeout(LOOK) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Collected::Broken,
            };
            // Messages of an earlier collection that was given up may still come. They are ignored.
            match message.content {
                _ if message.number != number => {}
                Content::Piece(piece) => {
                    if !take(piece) {
                        return Collected::Broken;
                    }
                }
                Content::Done => left -= 1,
                Content::Again => return Collected::Again,
            }
        }
        Collected::Whole
    }
}

/// The progress of a worker in writing its state.
#[derive(Default)]
pub(crate) struct SaveProgress {
    /// The number of the collection that the worker has begun last.
    pub(crate) number: u64,
    /// True until all messages of the collection `number` are sent, or the connection has ended.
    pub(crate) is_busy: bool,
    /// The generation of the graph in which the collection began.
    pub(crate) generation: u64,
    /// The element that writes the next piece, and the position in its state at which the piece begins.
    pub(crate) next: (usize, u64),
    /// The message that has found no room in the channel.
    pub(crate) pending: Option<Content>,
}

/// The saved state of an earlier run, and the notes of the elements that have read it.
#[derive(Debug, Default)]
pub struct SavedRun {
    /// The time at which the state was saved.
    pub(crate) time: Timestamp,
    elements: BTreeMap<SavedElement, Vec<Vec<u8>>>,
    notes: Mutex<BTreeMap<SavedElement, Result<Loaded, Damaged>>>,
}

/// The use that a run has made of the saved state of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continued {
    /// The element has read its state; the numbers are sums over all workers.
    Loaded(Loaded),
    /// The state is damaged, and was ignored.
    Damaged(Damaged),
    /// In this version of the program, the class has state of another form, with this number, or saves no
    /// state (`None`).
    OtherForm(Option<u16>),
    /// There is no element with this name and class.
    NoElement,
}

impl SavedRun {
    /// Takes the pieces of a run that were written at this time.
    pub fn new(time: Timestamp, pieces: impl IntoIterator<Item = SavedPiece>) -> SavedRun {
        let mut elements: BTreeMap<SavedElement, Vec<Vec<u8>>> = BTreeMap::new();
        for SavedPiece { element, bytes } in pieces {
            elements.entry(element).or_default().push(bytes);
        }
        SavedRun { time, elements, notes: Mutex::default() }
    }

    /// Returns the saved state of an element of a graph, if there is any in the form of its class.
    pub(crate) fn of(&self, plan: &Plan, id: usize) -> Option<(&SavedElement, &[Vec<u8>])> {
        let (name, class) = (plan.graph.elements[id].name.clone(), plan.classes[id]);
        let element = SavedElement { name, class: class.name.to_string(), form: class.saved_form? };
        self.elements.get_key_value(&element).map(|(element, pieces)| (element, pieces.as_slice()))
    }

    pub(crate) fn note(&self, element: &SavedElement, result: Result<Loaded, Damaged>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let note = notes.entry(element.clone()).or_insert(Ok(Loaded::default()));
        match (note, result) {
            (Ok(sum), Ok(loaded)) => sum.add(loaded),
            // Damage that one copy finds counts for all copies, because each reads the same bytes.
            (note, Err(damaged)) => *note = Err(damaged),
            (Err(_), Ok(_)) => {}
        }
    }

    /// Returns the use that a run of this graph has made of the state of each element, after the graph was
    /// initialised.
    pub fn continued(&self, plan: &Plan) -> Vec<(SavedElement, Continued)> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |element: &SavedElement| {
            let same = |id: &usize| plan.classes[*id].name == element.class;
            match (notes.get(element), plan.graph.find(&element.name).filter(same)) {
                (Some(Ok(loaded)), _) => Continued::Loaded(*loaded),
                (Some(Err(damaged)), _) => Continued::Damaged(*damaged),
                (None, Some(id)) => Continued::OtherForm(plan.classes[id].saved_form),
                (None, None) => Continued::NoElement,
            }
        };
        self.elements.keys().map(|element| (element.clone(), of(element))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_collection_does_not_mix_with_the_next() {
        let (saving, mut saver) = saving(2);
        let send = |number, content| saving.messages.try_send(Message { number, content }).unwrap();
        let element = SavedElement { name: "e".into(), class: "C".into(), form: 1 };
        let piece = |byte| Content::Piece(SavedPiece { element: element.clone(), bytes: vec![byte] });
        assert_eq!(saver.collect(|| false, |_| true), Collected::Broken);
        send(1, piece(1));
        [piece(2), Content::Done, piece(3), Content::Done].into_iter().for_each(|content| send(2, content));
        let mut bytes = Vec::new();
        let collected = saver.collect(
            || true,
            |piece| {
                bytes.extend(piece.bytes);
                true
            },
        );
        assert_eq!((collected, bytes), (Collected::Whole, vec![2, 3]));
        send(3, Content::Again);
        assert_eq!(saver.collect(|| true, |_| true), Collected::Again);
        send(4, piece(1));
        assert_eq!(saver.collect(|| true, |_| false), Collected::Broken);
        drop(saving);
        assert_eq!(saver.collect(|| true, |_| true), Collected::Broken);
    }
}
