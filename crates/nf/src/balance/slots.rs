//! Slots: the numbers by which connections and boards refer to servers. A server's slot stays the same when a
//! reload changes the list of servers, so that no connection has to be changed.

/// For each slot (a number by which connections and boards refer to a server), the number of the server in
/// the balancer's list, and the other way round.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// The number in the balancer's list of the server of each slot; `None` if the server is not in the list
    /// any more.
    servers: Vec<Option<u16>>,
    /// The slot of each server, at the index of the server's number.
    slots: Vec<u16>,
}

impl Slots {
    /// Gives each of `servers` servers a slot that is equal to its number.
    pub(super) fn new(servers: u16) -> Slots {
        Slots { servers: (0..servers).map(Some).collect(), slots: (0..servers).collect() }
    }

    /// Returns the number of the server with this slot in the balancer's list; `None` if there is no such
    /// slot, or if its server is not in the list any more.
    #[inline]
    pub(super) fn server(&self, slot: u16) -> Option<u16> {
        self.servers.get(usize::from(slot)).copied().flatten()
    }

    /// Returns the slot of the server with this number; `None` if there is no such server.
    #[inline]
    pub(super) fn slot(&self, server: u16) -> Option<u16> {
        self.slots.get(usize::from(server)).copied()
    }

    /// Returns the slots after the list of servers has changed. `numbers` has, for each server of the old
    /// list, its number in the new list, and `servers` is the length of the new list. Servers that are new
    /// get slots that no connection has. Returns `None` if there are not enough slots.
    pub(super) fn renumbered(&self, numbers: &[Option<u16>], servers: u16) -> Option<Slots> {
        let new = |old: &Option<u16>| numbers.get(usize::from((*old)?)).copied().flatten();
        let mut all: Vec<Option<u16>> = self.servers.iter().map(new).collect();
        let mut slots = vec![None; usize::from(servers)];
        for (slot, server) in (0..=u16::MAX).zip(&all) {
            if let Some(place) = server.and_then(|server| slots.get_mut(usize::from(server))) {
                *place = Some(slot);
            }
        }
        for (server, slot) in (0..).zip(&mut slots) {
            if slot.is_none() {
                *slot = Some(u16::try_from(all.len()).ok()?);
                all.push(Some(server));
            }
        }
        Some(Slots { servers: all, slots: slots.into_iter().flatten().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_when_the_list_changes() {
        let first = Slots::new(3);
        // Server 1 goes, servers 0 and 2 change places, and a server is added.
        let second = first.renumbered(&[Some(1), None, Some(0)], 3).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|slot| second.server(slot)), [Some(1), None, Some(0), Some(2), None]);
        assert_eq!([0, 1, 2, 3].map(|server| second.slot(server)), [Some(2), Some(0), Some(3), None]);
        // The slot of a removed server is not used again: connections may still have it.
        let third = second.renumbered(&[None, Some(0), None], 2).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|slot| third.server(slot)), [Some(0), None, None, None, Some(1)]);
    }

    #[test]
    fn there_are_as_many_slots_as_numbers() {
        let mut slots = Slots::new(1);
        for _ in 1..=u16::MAX {
            slots = slots.renumbered(&[None], 1).unwrap();
        }
        assert_eq!(slots.slot(0), Some(u16::MAX));
        assert!(slots.renumbered(&[None], 1).is_none());
        assert!(slots.renumbered(&[Some(0)], 1).is_some());
    }
}
