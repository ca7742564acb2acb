//! Tells flows that come again from those that come once.
//!
//! Remembering a flow costs more than asking about one packet, so only flows of which a second packet comes are remembered: a
//! scan with other addresses in each packet fills nothing. After the doorkeeper of TinyLFU (Einziger, Friedman and Manes, 2017).

/// Places for marks of flows, four in each bucket.
const BUCKETS: usize = 1 << 15;

/// Flows that have come, by marks of 16 bits that are made from their hashes.
pub(super) struct Doorkeeper {
    buckets: Box<[u64]>,
    /// Says which mark of a bucket the next one takes the place of. Were it the oldest one, five flows that come in turns would
    /// never be known.
    random: fastrand::Rng,
}

impl Doorkeeper {
    pub(super) fn new() -> Doorkeeper {
        Doorkeeper { buckets: vec![0; BUCKETS].into_boxed_slice(), random: fastrand::Rng::with_seed(1) }
    }

    /// Whether a flow with this hash is one of those last seen; now it is.
    #[inline]
    pub(super) fn knows(&mut self, hash: u32) -> bool {
        let mark = (hash >> 16) as u16 | 1;
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        let knows = (0..4).any(|place| (*bucket >> (16 * place)) as u16 == mark);
        if !knows {
            let place = 16 * self.random.u32(..4);
            *bucket = *bucket & !(0xffff << place) | u64::from(mark) << place;
        }
        knows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_known_when_they_come_again() {
        let mut doorkeeper = Doorkeeper::new();
        let hashes = || (0..1000u32).map(|number| number.wrapping_mul(0x9e37_79b9));
        assert!(hashes().all(|hash| !doorkeeper.knows(hash)));
        assert!(hashes().filter(|hash| doorkeeper.knows(*hash)).count() > 950);
    }

    #[test]
    fn more_flows_than_a_bucket_has_room_for_are_known_in_the_end() {
        let mut doorkeeper = Doorkeeper::new();
        let mut new: Vec<u32> = (1..=9).map(|number| number << 17 | 7).collect();
        (0..100).for_each(|_| new.retain(|hash| !doorkeeper.knows(*hash)));
        assert!(new.is_empty());
    }
}
