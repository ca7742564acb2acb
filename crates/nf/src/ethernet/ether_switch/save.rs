//! The hosts of a switch as bytes, for a restart.

use element::{Cx, Damaged, Loaded, SavedState, StateReader, StateWriter, Timestamp};
use flow::{HostKey, Inserted};
use wire::MacAddr;

use super::{EtherSwitch, Hosts};

/// The version of the form in which switches save hosts.
pub(super) const FORM: Option<u16> = Some(1);

impl Hosts {
    /// Writes a piece of the hosts, from the index `from` on. Returns the index of the next piece; `None`
    /// after the last. A host's time is written as a time of the clock, although time-outs follow the time
    /// stamps of frames, which may be those of a capture.
    fn save(&self, from: u64, now: Timestamp, out: &mut StateWriter) -> Option<u64> {
        for (id, key) in self.table.iter_from(from as usize) {
            if out.is_full() {
                return Some(id.index().into());
            }
            let idle = self.now - self.table.last_seen(id).unwrap_or(self.now);
            out.raw(&key.address().0);
            out.u32(key.value() as u32);
            out.time(now - idle);
        }
        None
    }
}

impl EtherSwitch {
    /// Writes a piece of the hosts: see [`Element::save_state`](element::Element::save_state).
    pub(super) fn save(&self, cx: &Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.hosts.save(from, cx.now(), out)
    }

    /// Adds the hosts of an earlier run. Hosts on LANs that do not exist and hosts for which there is no room
    /// are refused.
    ///
    /// # Errors
    /// If the bytes are not hosts. Then the switch stays as it is.
    pub(super) fn load(&mut self, cx: &Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        let (lans, now, timeout) = (self.inputs() as u32, cx.now(), self.timeout);
        let Hosts { table, hasher, now: latest, .. } = &mut self.hosts;
        let mut loaded = Loaded::default();
        let host =
            |reader: &mut StateReader<'_>| Ok((MacAddr(reader.array()?), reader.u32()?, reader.time()?));
        state.each(host, |(address, lan, last)| {
            if now >= last + timeout {
                loaded.ended += 1;
                return;
            }
            if lan >= lans {
                loaded.refused += 1;
                return;
            }
            let key = HostKey::new(address, lan.into());
            match table.insert(&key, hasher.hash(&key), last) {
                Ok(Inserted::New(_)) => {
                    *latest = (*latest).max(last);
                    loaded.taken += 1;
                }
                // The host was written twice.
                Ok(Inserted::Present(_)) => {}
                Err(_) => loaded.refused += 1,
            }
        })?;
        Ok(loaded)
    }
}
