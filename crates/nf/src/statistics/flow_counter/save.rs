//! The flows of a FlowCounter as bytes, for a restart.

use element::{Cx, Damaged, Loaded, SavedState, StateReader, StateWriter, Timestamp};
use flow::{FiveTupleKey, Inserted};
use wire::FiveTuple;

use super::{FlowCounter, Record, Start};
use crate::saved_flows::{Home, LOOKS};

/// The version number of the format in which the element saves flows.
pub(super) const FORM: Option<u16> = Some(1);

/// A flow of an earlier run. `replies` is true if the packets of both directions were counted as one flow.
struct Saved {
    key: FiveTuple,
    replies: bool,
    turned: bool,
    first: Timestamp,
    last: Timestamp,
    packets: [u64; 2],
    bytes: [u64; 2],
    seen: Timestamp,
}

impl Saved {
    fn load(reader: &mut StateReader<'_>) -> Result<Saved, Damaged> {
        let (key, replies, turned) = (reader.five_tuple()?, reader.bool()?, reader.bool()?);
        Ok(Saved {
            key,
            replies,
            turned,
            first: stamp(reader)?,
            last: stamp(reader)?,
            packets: [reader.u64()?, reader.u64()?],
            bytes: [reader.u64()?, reader.u64()?],
            seen: reader.time()?,
        })
    }
}

/// Reads a time stamp of a packet, which may be any number, unlike a time of the clock. It is limited so that
/// the difference of two time stamps fits into 64 bits.
fn stamp(reader: &mut StateReader<'_>) -> Result<Timestamp, Damaged> {
    Ok(Timestamp(reader.i64()?.clamp(i64::MIN / 4, i64::MAX / 4)))
}

impl FlowCounter {
    /// Writes a part of the flows, from the index `from` in the list of records on. Returns the index at
    /// which the next part starts; `None` after the last part. With FILE, no flow is saved, because all flows
    /// are written to the file at the end of the run.
    pub(super) fn save(&self, from: u64, out: &mut StateWriter) -> Option<u64> {
        if self.path.is_some() {
            return None;
        }
        let start = from as usize;
        let mut next = start;
        for (record, start) in self.book.records.iter().zip(&self.book.starts).skip(start).take(LOOKS) {
            if out.is_full() {
                break;
            }
            next += 1;
            let Some(id) = record.id else { continue };
            let Some(key) = self.flows.table.key(id) else { continue };
            out.five_tuple(&key.tuple());
            out.u8(u8::from(self.replies));
            out.u8(u8::from(record.turned));
            out.i64(start.first.0);
            out.i64(record.last.0);
            record.packets.iter().chain(&record.bytes).for_each(|&number| out.u64(number));
            out.time(record.seen);
        }
        (next < self.book.records.len()).then_some(next as u64)
    }

    /// Adds the flows of an earlier run whose packets come, or may come, to this worker. Flows that have
    /// timed out are left out. Flows for which there is no room are refused, and all others if BIDIRECTIONAL
    /// has changed or FILE is given.
    ///
    /// # Errors
    /// If the bytes are not flows. Then the element stays as it is.
    pub(super) fn load(&mut self, cx: &Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        let (mut loaded, now) = (Loaded::default(), cx.now());
        state.each(Saved::load, |saved| {
            let home = Home::of(cx, &saved.key);
            if home == Home::Elsewhere {
                return;
            }
            if self.timeout.is_set() && now - saved.seen >= self.timeout {
                loaded.ended += 1;
                return;
            }
            if saved.replies != self.replies || self.path.is_some() {
                loaded.refused += 1;
                return;
            }
            let key = FiveTupleKey::new(&saved.key, 0);
            match self.flows.table.insert(&key, self.flows.hash(&key), saved.seen) {
                Ok(Inserted::New(id)) => {
                    self.begin(id, saved.turned, saved.seen);
                    let place = id.index() as usize;
                    let (record, start) = (self.book.records.get_mut(place), self.book.starts.get_mut(place));
                    if let Some((record, start)) = record.zip(start) {
                        let Saved { first, last, packets, bytes, .. } = saved;
                        *record = Record { last, packets, bytes, ..*record };
                        *start = Start { first, ..*start };
                    }
                    loaded.taken += 1;
                    loaded.shared += u64::from(home == Home::Anywhere);
                }
                // The flow was written twice.
                Ok(Inserted::Present(_)) => {}
                Err(_) => loaded.refused += 1,
            }
        })?;
        Ok(loaded)
    }
}
