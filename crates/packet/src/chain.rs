//! Chains of packets. The slots of all packets of a chain are one list, so that packets are put together and
//! taken apart without copying their bytes. If the packets are to become one large packet, their headers are
//! stripped when they are added, so that no packet is touched again.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::memory::Meta;
use crate::packet::Packet;

/// A chain of packets, one after the other. No bytes are copied to add a packet at the end, to take the
/// first packet off unchanged, or to make one large packet of all.
///
/// ```
/// use packet::{PacketChain, Pool};
///
/// let mut pool = Pool::new(64 << 20)?;
/// let mut chain = PacketChain::of_headers(pool.packet(b"head one").unwrap(), 5);
/// chain.push(pool.packet(b"head, two").unwrap());
/// let packet = chain.into_packet();
/// assert_eq!(packet.chunks().collect::<Vec<_>>(), [&b"head one"[..], b" two"]);
/// pool.free(packet);
/// # Ok::<(), packet::PoolError>(())
/// ```
#[derive(Debug)]
pub struct PacketChain {
    /// The first packet. The list of its slots continues with the slots of the following packets, but the
    /// length in its metadata counts the bytes of the first packet only.
    first: Packet,
    /// The last slot of the last packet, to which the next packet is linked.
    last: NonNull<Meta>,
    packets: u32,
    slots: u32,
    /// The number of bytes of all packets together, without the stripped headers.
    length: u32,
    /// The number of bytes that are stripped from each packet but the first.
    headers: u16,
}

// SAFETY: as for `Packet`: the chain is the only owner of all its slots.
unsafe impl Send for PacketChain {}

impl PacketChain {
    /// Makes a chain that contains one packet, and to which packets are added as they are.
    #[inline]
    pub fn new(packet: Packet) -> PacketChain {
        PacketChain::of_headers(packet, 0)
    }

    /// Makes a chain that contains one packet. The first `headers` bytes of each packet that is added are
    /// stripped; they must lie in the packet's first slot.
    #[inline]
    pub fn of_headers(packet: Packet, headers: u16) -> PacketChain {
        let (last, slots) = last_of(&packet);
        let length = packet.meta().length;
        PacketChain { first: packet, last, packets: 1, slots, length, headers }
    }

    /// Returns the number of slots of all packets together.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of packets in the chain.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets as usize
    }

    /// Returns the first packet.
    #[inline]
    pub fn first(&self) -> &Packet {
        &self.first
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.append(PacketChain::new(packet));
    }

    /// Adds all packets of another chain at the end. The headers of the other chain's packets must be as long
    /// as those of this chain, unless it has only one packet.
    #[inline]
    pub fn append(&mut self, other: PacketChain) {
        debug_assert!(other.packets == 1 || other.headers == self.headers);
        let PacketChain { mut first, last, packets, slots, length, .. } = other;
        let is_stripped = first.strip(self.headers.into());
        debug_assert!(is_stripped, "the headers lie in the first slot");
        // SAFETY: the chain owns its last slot, and nothing else refers to it now.
        unsafe { self.last.as_mut() }.link_to(first.meta());
        self.last = last;
        self.packets += packets;
        self.slots += slots;
        self.length += length - u32::from(self.headers);
        // The slots belong to this chain now: the handle must not return them.
        let _ = ManuallyDrop::new(first);
    }

    /// Removes the first packet and returns it with its original bytes and length, and the chain of the
    /// remaining packets; `None` if no packet remains.
    #[inline]
    pub fn pop(self) -> (Packet, Option<PacketChain>) {
        let PacketChain { first, last, packets, slots, length, headers } = self;
        if packets == 1 {
            return (first, None);
        }
        let (mut end, next, own) = end_of(first.0);
        // SAFETY: the chain owned its slots; the packet has those up to `end`.
        unsafe { end.as_mut() }.end();
        let rest = next.map(|next| {
            let mut next = Packet(next);
            // The headers that were stripped when the packet was added become part of it again.
            let is_whole = next.unstrip(headers.into());
            debug_assert!(is_whole, "stripped bytes stay before the data");
            let length = length - first.meta().length + u32::from(headers);
            PacketChain { first: next, last, packets: packets - 1, slots: slots - own, length, headers }
        });
        (first, rest)
    }

    /// Makes one large packet of all packets, in order. The headers of all packets but the first are left
    /// out; they stay in front of the data in the packets' first slots.
    #[inline]
    pub fn into_packet(self) -> Packet {
        let PacketChain { mut first, length, .. } = self;
        first.meta_mut().length = length;
        first
    }
}

impl PacketChain {
    /// Takes a large packet apart that [`into_packet`](Self::into_packet) has made of packets with headers of
    /// `headers` bytes, which is at least 1: the result is the chain of these packets, with their own
    /// headers. The headers of the first packet are those of the large packet.
    ///
    /// # Errors
    /// The packet, unchanged, if it was not made in this way, or if it was copied or cut since then.
    pub fn of_large(packet: Packet, headers: u16) -> Result<PacketChain, Packet> {
        let length = packet.meta().length;
        let (mut at, mut packets, mut slots) = (packet.0, 1, 1);
        // The number of bytes of the packet whose slots are counted, and the number that it is to have.
        let (mut own, mut wanted) = (u32::from(packet.meta().values.head), None);
        let mut first = own;
        // SAFETY: the handle owns the slots of its list.
        while let Some(next) = unsafe { at.as_ref() }.next() {
            // SAFETY: as above.
            let meta = unsafe { next.as_ref() };
            let values = &meta.values;
            // Only the first slot of a packet that was added has stripped bytes in front.
            if values.start - values.own.min(values.start) >= headers.max(1) {
                if wanted.is_some_and(|wanted| wanted != own) {
                    return Err(packet);
                }
                (own, wanted, packets) = (0, Some(meta.length), packets + 1);
            }
            own += u32::from(values.head);
            first = if packets == 1 { own } else { first };
            (at, slots) = (next, slots + 1);
        }
        if wanted != Some(own) {
            return Err(packet);
        }
        let mut packet = packet;
        packet.meta_mut().length = first;
        Ok(PacketChain { first: packet, last: at, packets, slots, length, headers })
    }
}

/// Returns the last slot of a packet and the number of its slots. No other packet may be linked after the
/// packet.
#[inline]
fn last_of(packet: &Packet) -> (NonNull<Meta>, u32) {
    let (mut last, mut slots) = (packet.0, 1);
    // SAFETY: the handle owns the slots of its list.
    while let Some(next) = unsafe { last.as_ref() }.next() {
        last = next;
        slots += 1;
    }
    (last, slots)
}

/// Finds the end of the packet that starts at slot `first`, by the packet's length. Returns its last slot,
/// the slot after it (the first of the next packet in the chain), and the number of its slots.
#[inline]
fn end_of(first: NonNull<Meta>) -> (NonNull<Meta>, Option<NonNull<Meta>>, u32) {
    // SAFETY: the caller owns the slots of the list.
    let mut left = unsafe { first.as_ref() }.length;
    let (mut at, mut slots) = (first, 1);
    loop {
        // SAFETY: as above.
        let meta = unsafe { at.as_ref() };
        left = left.saturating_sub(meta.values.head.into());
        match meta.next() {
            Some(next) if left > 0 => (at, slots) = (next, slots + 1),
            next => return (at, next, slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Base, Pool, Restore, Store};

    fn pool() -> Pool {
        Pool::new(64 << 20).unwrap()
    }

    fn bytes(packet: &Packet) -> Vec<u8> {
        packet.chunks().collect::<Vec<_>>().concat()
    }

    fn chain(pool: &mut Pool, texts: &[&[u8]], headers: u16) -> PacketChain {
        let mut all = texts.iter().map(|text| PacketChain::of_headers(pool.packet(text).unwrap(), headers));
        let mut first = all.next().unwrap();
        all.for_each(|next| first.append(next));
        first
    }

    #[test]
    fn packets_come_off_as_they_went_on() {
        let mut pool = pool();
        let long = [7; 5000];
        for (texts, headers) in
            [([&b"one"[..], &long, b"", b"four"], 0), ([b"one", &long, b"ab", b"four"], 2)]
        {
            let mut chain = Some(chain(&mut pool, &texts, headers));
            assert_eq!(chain.as_ref().map(|chain| (chain.packets(), chain.slots())), Some((4, 6)));
            let mut seen = Vec::new();
            while let Some(left) = chain {
                let (mut packet, rest) = left.pop();
                assert_eq!((packet.is_large(), packet.len()), (packet.len() > 3000, bytes(&packet).len()));
                packet.set_offset(Base::Mac, Some(0));
                seen.push(bytes(&packet));
                let slots = rest.as_ref().map_or(0, PacketChain::slots);
                assert_eq!(slots, [5, 2, 1, 0][seen.len() - 1]);
                pool.free(packet);
                chain = rest;
            }
            assert_eq!(seen, texts);
        }
        assert_eq!((pool.stats().in_use, pool.stats().leaked), (0, 0));
    }

    #[test]
    fn chains_become_large_packets() {
        let mut pool = pool();
        let long = [7; 5000];
        let mut a = chain(&mut pool, &[b"ab1", b"ab22"], 2);
        a.append(chain(&mut pool, &[&long, b"ab", b"ab3"], 2));
        assert_eq!(a.first().data(), b"ab1");
        // A packet that comes off has all of its bytes, also if a chain was added.
        let (first, rest) = a.pop();
        let mut packet = rest.unwrap().into_packet();
        assert_eq!((first.data(), bytes(&packet)), (&b"ab1"[..], [&b"ab22"[..], &long[2..], b"3"].concat()));
        pool.free(first);
        pool.free(packet);
        let mut a = chain(&mut pool, &[b"ab1", b"ab22"], 2);
        a.append(chain(&mut pool, &[&long, b"ab", b"ab3"], 2));
        packet = a.into_packet();
        let expected = [&b"ab122"[..], &long[2..], b"3"].concat();
        assert_eq!((bytes(&packet), packet.len()), (expected.clone(), expected.len()));
        let copy = pool.copy(&packet).unwrap();
        assert_eq!(bytes(&copy), expected);
        pool.free(copy);
        packet.truncate(4);
        assert_eq!(bytes(&packet), &expected[..4]);
        pool.free(packet);
    }

    #[test]
    fn large_packets_are_taken_apart() {
        let mut pool = pool();
        let long = [7; 5000];
        let texts: [&[u8]; 4] = [&long, b"ab22", &long, b"ab3"];
        for count in 2..=4 {
            let mut packet = chain(&mut pool, &texts[..count], 2).into_packet();
            // The headers of the large packet are those of the first packet.
            packet.data_mut()[..2].copy_from_slice(b"AB");
            let mut left = Some(PacketChain::of_large(packet, 2).unwrap());
            let mut seen = Vec::new();
            while let Some(chain) = left {
                let (packet, rest) = chain.pop();
                seen.push(bytes(&packet));
                pool.free(packet);
                left = rest;
            }
            assert_eq!(seen[1..], texts[1..count]);
            assert_eq!((&seen[0][..2], &seen[0][2..]), (&b"AB"[..], &long[2..]));
        }
        // Packets that were made in another way, and copies, are not taken apart; neither are packets that
        // were cut.
        let whole = pool.packet(&long).unwrap();
        let large = chain(&mut pool, &texts, 2).into_packet();
        let copy = pool.copy(&large).unwrap();
        let mut cut = chain(&mut pool, &texts[1..], 2).into_packet();
        cut.truncate(3000);
        for packet in [whole, copy, cut] {
            let (length, was) = (packet.len(), bytes(&packet));
            let packet = PacketChain::of_large(packet, 2).unwrap_err();
            assert_eq!((packet.len(), bytes(&packet)), (length, was));
            pool.free(packet);
        }
        // Headers are as long as they were.
        let large = PacketChain::of_large(large, 3).unwrap_err();
        pool.free(large);
        pool.collect();
        assert_eq!((pool.stats().in_use, pool.stats().leaked), (0, 0));
    }

    #[test]
    fn slots_go_home_to_their_pools_and_stores() {
        let (mut a, mut b) = (pool(), pool());
        let mut store = Store::new(Restore { copies: true, ..Restore::NOTHING });
        let stored = b.packet(b"store").unwrap();
        assert!(store.insert(stored, &mut b));
        for round in 0..3 {
            let mut batch = crate::Batch::new();
            assert_eq!(store.lend_into(0..1, &mut b, &mut batch), 1);
            let lent = batch.pop().unwrap();
            let home = b.stats().in_use;
            let mut mixed = chain(&mut a, &[b"a1", b"a2"], 1);
            mixed.append(chain(&mut b, &[b"b1"], 1));
            mixed.append(PacketChain::new(lent));
            mixed.append(chain(&mut a, &[b"a3"], 1));
            let mut packet = mixed.into_packet();
            assert_eq!(bytes(&packet), b"a121tore3");
            match round {
                0 => a.free(packet),
                1 => b.free(packet),
                _ => {
                    packet.truncate(3);
                    packet.give_back();
                }
            }
            let _ = (a.refill().map(|slot| a.free.push(slot)), b.refill().map(|slot| b.free.push(slot)));
            assert_eq!((a.stats().in_use, b.stats().in_use), (0, home), "round {round}");
        }
        let mut batch = crate::Batch::new();
        assert_eq!(store.lend_into(0..1, &mut b, &mut batch), 1);
        let lent = batch.pop().unwrap();
        assert_eq!((lent.data(), lent.is_large()), (&b"store"[..], false));
        b.free(lent);
        store.release(&mut b);
    }

    #[test]
    fn a_pool_waits_for_slots_in_lists_of_others() {
        let (mut a, mut b) = (pool(), pool());
        let mut mixed = chain(&mut a, &[b"a"], 0);
        mixed.append(chain(&mut b, &[b"b"], 0));
        drop(b);
        // While slots of the dropped pool are in use, no other pool gets its number.
        let more: Vec<Pool> = (0..3).map(|_| pool()).collect();
        let packet = mixed.into_packet();
        assert_eq!(bytes(&packet), b"ab");
        a.free(packet);
        drop(more);
    }
}
