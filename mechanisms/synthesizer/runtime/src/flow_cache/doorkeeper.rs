//! Approximate counters of packets of flows that are not in the flow cache. They distinguish flows that
//! last from flows of few packets.
//!
//! Inserting a flow costs as much as many packets, so only flows that have shown that they last are inserted
//! (with `USE always`, flows are leased without a count). A scan with new addresses in each packet does not
//! fill the table. The method is the doorkeeper of TinyLFU (Einziger, Friedman and Manes, 2017), with counts
//! instead of bits.

/// The number of buckets. Each bucket has four slots of 16 bits; each slot counts the packets of one flow.
const BUCKETS: usize = 1 << 15;

/// The number of bits of a slot that hold the count. The other 13 bits hold a tag from the flow's hash.
const COUNT: u32 = 3;

/// The highest count that a slot can hold.
const MOST: u16 = (1 << COUNT) - 1;

/// Counts of packets per flow. Within a bucket, flows are distinguished by 13 bits of their hashes, so two
/// flows may rarely share a count.
pub(super) struct Doorkeeper {
    buckets: Box<[u64]>,
    /// The generator that chooses the slot to overwrite for a new flow. If the oldest slot were
    /// overwritten, five flows in one bucket with alternating packets would never reach a count of two.
    random: fastrand::Rng,
}

impl Doorkeeper {
    pub(super) fn new() -> Doorkeeper {
        Doorkeeper { buckets: vec![0; BUCKETS].into_boxed_slice(), random: fastrand::Rng::with_seed(1) }
    }

    /// Counts a packet of the flow with the hash `hash`. Returns the number of packets that were counted for
    /// the flow, at most 7. A new flow overwrites a random slot of its bucket, so the count of another flow
    /// may be lost.
    #[inline]
    pub(super) fn count(&mut self, hash: u32) -> u16 {
        let (bucket, mark) = self.bucket(hash);
        if let Some((place, count)) = find(*bucket, mark) {
            let count = (count + 1).min(MOST);
            set(bucket, place, mark | count);
            return count;
        }
        let place = self.random.u32(..4);
        let (bucket, mark) = self.bucket(hash);
        set(bucket, place, mark | 1);
        1
    }

    /// Sets the count of the flow with this hash to zero.
    pub(super) fn forget(&mut self, hash: u32) {
        let (bucket, mark) = self.bucket(hash);
        if let Some((place, _)) = find(*bucket, mark) {
            set(bucket, place, 0);
        }
    }

    fn bucket(&mut self, hash: u32) -> (&mut u64, u16) {
        // The tag is taken from the upper bits of the hash, because the lower bits have selected the
        // bucket.
        let mark = (hash >> 16) as u16 & !MOST;
        (&mut self.buckets[hash as usize % BUCKETS], mark)
    }
}

/// Returns the index of the slot of a bucket that has the tag `mark`, and the slot's count; `None` if no used
/// slot has the tag.
#[inline]
fn find(bucket: u64, mark: u16) -> Option<(u32, u16)> {
    let at = |place: u32| (bucket >> (16 * place)) as u16;
    // A slot that is not in use has a count of zero.
    let is_here = |place: &u32| at(*place) & !MOST == mark && at(*place) & MOST != 0;
    (0..4).find(is_here).map(|place| (place, at(place) & MOST))
}

#[inline]
fn set(bucket: &mut u64, place: u32, value: u16) {
    *bucket = *bucket & !(0xffff << (16 * place)) | u64::from(value) << (16 * place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_flows_are_counted() {
        let mut doorkeeper = Doorkeeper::new();
        let hashes = || (0..1000u32).map(|number| number.wrapping_mul(0x9e37_79b9));
        assert!(hashes().all(|hash| doorkeeper.count(hash) == 1));
        assert!(hashes().filter(|hash| doorkeeper.count(*hash) == 2).count() > 950);
        assert!(hashes().filter(|hash| doorkeeper.count(*hash) == 3).count() > 950);
        let one = 77u32.wrapping_mul(0x9e37_79b9);
        (0..20).for_each(|_| assert!(doorkeeper.count(one) <= MOST));
        assert_eq!(doorkeeper.count(one), MOST);
        doorkeeper.forget(one);
        assert_eq!(doorkeeper.count(one), 1);
    }

    #[test]
    fn more_flows_than_a_bucket_has_room_for_are_counted_in_the_end() {
        let mut doorkeeper = Doorkeeper::new();
        let mut new: Vec<u32> = (1..=9).map(|number| number << 20 | 7).collect();
        (0..100).for_each(|_| new.retain(|hash| doorkeeper.count(*hash) < 2));
        assert!(new.is_empty());
    }
}
