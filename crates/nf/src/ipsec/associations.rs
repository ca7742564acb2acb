//! Security associations (RFC 4301): the keys and counters on which both ends of a tunnel have agreed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use aes::Aes128;
use aes::cipher::KeyInit;
use des::Des;
use element::{Args, ElementId, Packet};
use hmac::Hmac;
use sha1::{Digest, Sha1};

use super::ASSOCIATION;
use super::replay_window::{Refusal, ReplayWindow};

/// The length in bytes of each key.
pub(crate) const KEY: usize = 16;
/// The number of key bytes that DES uses.
const DES_KEY: usize = 8;
/// The length in bytes of the blocks of SHA-1, to which HMAC pads shorter keys with zeros (RFC 2104).
const SHA1_BLOCK: usize = 64;

/// The terms of a security association. It has no `Debug`, so that keys do not get into messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The security parameter index, not 0.
    pub(crate) spi: u32,
    pub(crate) encryption_key: [u8; KEY],
    pub(crate) authentication_key: [u8; KEY],
    /// The first sequence number, not 0.
    pub(crate) first: u32,
    /// The number of latest sequence numbers that may arrive in any order.
    pub(crate) window: u8,
}

impl Terms {
    /// Returns a number, not 0, that follows from the terms. Packets that a graph has marked may reach the
    /// next graph, where the same number must not stand for other keys.
    fn number(&self) -> u32 {
        let digest = Sha1::new()
            .chain_update(self.spi.to_be_bytes())
            .chain_update(self.encryption_key)
            .chain_update(self.authentication_key)
            .chain_update(self.first.to_be_bytes())
            .chain_update([self.window])
            .finalize();
        u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]).max(1)
    }
}

/// A security association, for both directions of a tunnel. All workers use it.
pub(crate) struct Association {
    terms: Terms,
    aes: Aes128,
    des: Des,
    mac: Hmac<Sha1>,
    next: AtomicU32,
    received: ReplayWindow,
}

impl Association {
    fn new(terms: Terms) -> Association {
        let mut des_key = [0; DES_KEY];
        des_key.copy_from_slice(&terms.encryption_key[..DES_KEY]);
        let mut mac_key = [0; SHA1_BLOCK];
        mac_key[..KEY].copy_from_slice(&terms.authentication_key);
        Association {
            aes: Aes128::new(&terms.encryption_key.into()),
            des: Des::new(&des_key.into()),
            mac: Hmac::new(&mac_key.into()),
            next: AtomicU32::new(terms.first),
            received: ReplayWindow::new(terms.first),
            terms,
        }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns AES with the first 128 bits of the encryption key.
    pub(super) fn aes(&self) -> &Aes128 {
        &self.aes
    }

    /// Returns DES with the first 64 bits of the encryption key.
    pub(super) fn des(&self) -> &Des {
        &self.des
    }

    /// Returns an HMAC with the authentication key that has read no bytes.
    pub(super) fn mac(&self) -> Hmac<Sha1> {
        self.mac.clone()
    }

    /// Returns the sequence number for the next outgoing packet. After the largest number follows the first
    /// one, as RFC 4303 allows for keys that are set by hand.
    pub(super) fn next_number(&self) -> u32 {
        let first = self.terms.first;
        let after = |number: u32| Some(number.checked_add(1).unwrap_or(first));
        // The closure never refuses, so both results are the number before the change.
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_else(|number| number)
    }

    /// Accepts an incoming packet with this sequence number, or refuses it because it may be a replay.
    pub(super) fn receive(&self, number: u32) -> Result<(), Refusal> {
        self.received.accept(number, self.terms.first, self.terms.window)
    }
}

/// The table of the security associations of a graph. Associations are never removed: a packet may still be
/// marked with one.
#[derive(Default)]
pub(crate) struct Associations(RwLock<Inner>);

#[derive(Default)]
struct Inner {
    /// Each association by its number.
    all: HashMap<u32, Held>,
    /// The number of the association of incoming packets, by element and SPI: that of the latest route with
    /// this SPI.
    incoming: HashMap<(ElementId, u32), u32>,
}

/// An association in the table.
struct Held {
    /// The element whose routes have the association.
    owner: ElementId,
    association: Arc<Association>,
    /// True if the association is that of an earlier graph, for packets that this graph has marked.
    is_earlier: bool,
}

impl Associations {
    /// Returns the table that all elements and workers of a graph share.
    pub(crate) fn of_graph(args: &Args<'_>) -> Arc<Associations> {
        // The table belongs to no element: it is kept under the number 0, whichever element has that number.
        args.setup.common.get_or_make(0, Associations::default)
    }

    /// Returns the number of the association of an element with these terms; makes it if it does not exist.
    pub(crate) fn number_of(&self, owner: ElementId, terms: Terms) -> u32 {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |held: &Held| held.owner == owner && held.association.terms == terms && !held.is_earlier;
        if let Some((&number, _)) = inner.all.iter().find(|(_, held)| is_same(held)) {
            return number;
        }
        let mut number = terms.number();
        while inner.all.contains_key(&number) {
            number = number.checked_add(1).unwrap_or(1);
        }
        let association = Arc::new(Association::new(terms));
        inner.all.insert(number, Held { owner, association, is_earlier: false });
        number
    }

    /// Makes incoming packets with this SPI at an element belong to the association with this number.
    pub(crate) fn receive_with(&self, owner: ElementId, spi: u32, number: u32) {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.incoming.insert((owner, spi), number);
    }

    /// Returns the associations of an element and their numbers, without those of earlier graphs.
    pub(crate) fn of(&self, owner: ElementId) -> Vec<(u32, Arc<Association>)> {
        let read = self.read();
        let own = read.0.all.iter().filter(|(_, held)| held.owner == owner && !held.is_earlier);
        own.map(|(&number, held)| (number, Arc::clone(&held.association))).collect()
    }

    /// Lets the associations of an element continue with the sequence numbers of earlier associations that
    /// have the same terms. Both tables then share these associations, until the earlier one is gone. Packets
    /// that are marked with an earlier association keep it.
    pub(crate) fn go_on_with(&self, owner: ElementId, earlier: &[(u32, Arc<Association>)]) {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for held in inner.all.values_mut() {
            let is_same = |other: &Association| held.owner == owner && other.terms == held.association.terms;
            if let Some((_, same)) = earlier.iter().find(|(_, other)| is_same(other)) {
                held.association = Arc::clone(same);
            }
        }
        for (number, association) in earlier {
            let association = Arc::clone(association);
            inner.all.entry(*number).or_insert(Held { owner, association, is_earlier: true });
        }
    }

    /// Locks the table for the packets of a batch; others can read it at the same time.
    pub(crate) fn read(&self) -> Reader<'_> {
        Reader(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The table of security associations while a batch is processed.
pub(crate) struct Reader<'a>(RwLockReadGuard<'a, Inner>);

impl Reader<'_> {
    /// Returns the association with this number; `None` if there is none, as for the number 0.
    pub(crate) fn get(&self, number: u64) -> Option<&Association> {
        self.0.all.get(&u32::try_from(number).ok()?).map(|held| &*held.association)
    }

    /// Returns the association with which a packet is marked; `None` if it is not marked.
    #[inline]
    pub(super) fn of(&self, packet: &Packet) -> Option<&Association> {
        self.get(u64::from_ne_bytes(packet.annotations().array(ASSOCIATION)))
    }

    /// Returns the number of the association of incoming packets with this SPI at an element.
    pub(crate) fn incoming(&self, owner: ElementId, spi: u32) -> Option<u32> {
        self.0.incoming.get(&(owner, spi)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { spi: 7, encryption_key: [1; KEY], authentication_key: [2; KEY], first: 9, window: 32 };

    #[test]
    fn equal_terms_are_one_association() {
        let table = Associations::default();
        let one = table.number_of(3, TERMS);
        assert_eq!(table.number_of(3, TERMS), one);
        let other = table.number_of(3, Terms { first: 10, ..TERMS });
        let elsewhere = table.number_of(4, TERMS);
        assert!(one != other && one != elsewhere && other != elsewhere);
        // Incoming packets belong to the association of the latest route with their SPI.
        assert_eq!(table.read().incoming(3, 7), None);
        for number in [one, other] {
            table.receive_with(3, 7, number);
            assert_eq!((table.read().incoming(3, 7), table.read().incoming(4, 7)), (Some(number), None));
        }
        let read = table.read();
        assert!(read.get(0).is_none() && read.get(u64::MAX).is_none() && read.get(one.into()).is_some());
    }

    #[test]
    fn numbers_go_on_in_another_table() {
        let (old, new) = (Associations::default(), Associations::default());
        // Equal terms have the same number in both tables.
        let number = old.number_of(3, TERMS);
        assert_eq!(new.number_of(5, TERMS), number);
        let next =
            |table: &Associations, number: u32| table.read().get(number.into()).map(Association::next_number);
        assert_eq!((next(&old, number), next(&old, number)), (Some(9), Some(10)));
        assert_eq!(next(&new, number), Some(9));
        new.go_on_with(5, &old.of(3));
        assert_eq!(
            (next(&new, number), next(&old, number), next(&new, number)),
            (Some(11), Some(12), Some(13))
        );
        // Other terms start with their first number, and packets that the earlier graph has marked keep their
        // association.
        let third = Associations::default();
        let other = third.number_of(5, Terms { window: 1, ..TERMS });
        assert_eq!(next(&third, number), None);
        third.go_on_with(5, &new.of(5));
        assert_eq!((next(&third, other), next(&third, number)), (Some(9), Some(14)));
        // The next table has the associations of one earlier graph.
        let fourth = Associations::default();
        fourth.go_on_with(5, &third.of(5));
        assert_eq!((next(&fourth, other), next(&fourth, number)), (Some(10), None));
    }

    #[test]
    fn the_largest_number_is_followed_by_the_first() {
        let association = Association::new(Terms { first: u32::MAX - 1, ..TERMS });
        let numbers = [(); 4].map(|()| association.next_number());
        assert_eq!(numbers, [u32::MAX - 1, u32::MAX, u32::MAX - 1, u32::MAX]);
    }
}
