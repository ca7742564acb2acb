//! A tree of packet or byte rates by IPv4 address, for IPRateMonitor.
//!
//! The root has a counter for each first byte of an address. A counter whose rate reaches the threshold is
//! split: it gets a network of 256 counters, one for each value of the next byte. Once per second, networks
//! whose rates have fallen below about an eighth of the threshold are removed, oldest first, until the
//! memory in use is small enough.

use std::fmt::Write as _;

use element::Timestamp;

use crate::ewma::Rate;

/// The length of an epoch in nanoseconds: rates decay once per epoch.
const EPOCH: i64 = 8_000_000;
/// The number of epochs per second.
const FREQUENCY: i64 = 1_000_000_000 / EPOCH;

/// The size in bytes with which each counter counts towards the memory limit; [`NETWORK`] is the size for a
/// network. Both are the sizes of Click on 64-bit machines, so that a limit means the same as there. The real
/// size of a counter is 64 bytes. With the list of removed counters, and the spare room of vectors that grow,
/// a counter takes up to about 136 bytes.
const COUNTER: usize = 40;
const NETWORK: usize = 2080;

/// Returns the number of the epoch that contains a time.
pub(super) fn epoch(now: Timestamp) -> i64 {
    now.0.div_euclid(EPOCH)
}

/// The rates of all addresses of a network that have the same value in the byte after the network's prefix.
#[derive(Clone, Copy, Default)]
struct Counter {
    /// The rate of traffic from the counter's addresses, and the rate of traffic to these addresses.
    rates: [Rate<10, 5, EPOCH>; 2],
    /// The index of the network with counters for the next byte; `None` if the counter is not split.
    split: Option<u32>,
    /// The last epoch in which the counter must not be split, as set by [`RateTree::keep_whole`].
    whole_until: i64,
}

impl Counter {
    fn add(&mut self, direction: usize, amount: u64, now: Timestamp) {
        for (number, rate) in self.rates.iter_mut().enumerate() {
            rate.add(if number == direction { amount } else { 0 }, now);
        }
    }

    fn per_second(&self) -> [u64; 2] {
        self.rates.map(|rate| rate.per_second())
    }
}

/// The entry in [`Network::counters`] for a value of the next address byte that has no counter.
const NONE: u32 = u32::MAX;

/// An inner node of the tree: the addresses that start with the same 0 to 3 bytes, with a counter for each
/// value of the next byte.
struct Network {
    /// For each value of the next byte, the index of its counter in [`RateTree::counters`], or [`NONE`].
    counters: [u32; 256],
    /// The index of the parent network, and the byte whose counter in the parent was split into this network;
    /// `None` for the root.
    parent: Option<(u32, u8)>,
}

pub(super) struct RateTree {
    networks: Vec<Option<Network>>,
    /// The indices of removed networks in `networks`, for reuse.
    free: Vec<u32>,
    counters: Vec<Counter>,
    /// The indices of removed counters in `counters`, for reuse.
    free_counters: Vec<u32>,
    /// The indices of all networks except the root, in the order in which they were added.
    ages: Vec<u32>,
    pub(super) threshold: u64,
    /// The memory limit in bytes, compared with `used`; 0 for no limit.
    pub(super) limit: usize,
    pub(super) used: usize,
    folded_at: Option<i64>,
    /// The number of times that an update has split a counter or removed networks, or has tried to. An update
    /// that does both counts twice.
    changes: u64,
}

/// Packets of a batch, one after the other, with the same address.
pub(super) struct Same {
    address: u32,
    /// The result of the update for the first of them.
    rates: Option<[u64; 2]>,
    /// The amount of the packets after the first, which is not yet added to the rates.
    amount: u64,
}

/// The index of the root, the network of all addresses.
const ALL: u32 = 0;

/// Returns byte `level` of an address; 0 is the first.
fn byte(address: u32, level: usize) -> u8 {
    address.to_be_bytes()[level]
}

impl RateTree {
    pub(super) fn new(threshold: u64, limit: usize) -> RateTree {
        let mut tree = RateTree {
            networks: Vec::new(),
            free: Vec::new(),
            counters: Vec::new(),
            free_counters: Vec::new(),
            ages: Vec::new(),
            threshold,
            limit,
            used: 0,
            folded_at: None,
            changes: 0,
        };
        tree.clear();
        tree
    }

    /// Removes all networks and counters except the root, which is then empty.
    pub(super) fn clear(&mut self) {
        let all = Network { counters: [NONE; 256], parent: None };
        self.counters.clear();
        self.free_counters.clear();
        self.networks = vec![Some(all)];
        self.free.clear();
        self.ages.clear();
        self.used = NETWORK;
    }

    fn counter(&mut self, network: u32, byte: u8) -> Option<&mut Counter> {
        let place = self.networks.get(network as usize)?.as_ref()?.counters[usize::from(byte)];
        self.counters.get_mut(place as usize)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.limit == 0 || self.used + bytes <= self.limit
    }

    /// Adds a counter for a byte to a network. Returns `None`, and changes nothing, if the limit or the
    /// machine's memory does not allow it.
    fn add_counter(&mut self, network: u32, byte: u8, counter: Counter) -> Option<()> {
        if !self.has_room(COUNTER) {
            return None;
        }
        // Memory is also reserved for the list of the indices of removed counters, so that removing a counter
        // never allocates.
        self.counters.try_reserve(1).ok()?;
        self.free_counters.try_reserve(self.counters.len() + 1 - self.free_counters.len()).ok()?;
        let place = self.free_counters.pop().unwrap_or(self.counters.len() as u32);
        match self.counters.get_mut(place as usize) {
            Some(old) => *old = counter,
            None => self.counters.push(counter),
        }
        if let Some(Some(network)) = self.networks.get_mut(network as usize) {
            network.counters[usize::from(byte)] = place;
        }
        self.used += COUNTER;
        Some(())
    }

    /// Adds `amount` (packets or bytes) to the rates of an address in all counters for the address, from the
    /// root down: to the rate of traffic from it (direction 0) or to it (direction 1). Without an amount, the
    /// rates stay as they are. Splits the last counter if one of its rates has reached the threshold, and if
    /// splitting is possible and allowed. Returns both rates per second of the last counter, or `None` if
    /// there is no memory for it.
    pub(super) fn update(
        &mut self,
        address: u32,
        direction: usize,
        amount: Option<u64>,
        now: Timestamp,
    ) -> Option<[u64; 2]> {
        let now_epoch = epoch(now);
        self.folded_at.get_or_insert(now_epoch);
        let (mut network, mut level) = (ALL, 0);
        let counter = loop {
            let part = byte(address, level);
            if self.counter(network, part).is_none() {
                self.add_counter(network, part, Counter::default())?;
            }
            let counter = self.counter(network, part)?;
            if let Some(amount) = amount {
                counter.add(direction, amount, now);
            }
            let counter = *counter;
            match counter.split {
                Some(split) => (network, level) = (split, level + 1),
                None => break counter,
            }
        };
        let rates = counter.per_second();
        let is_much = rates.iter().any(|&rate| rate >= self.threshold);
        if is_much && level < 3 && counter.whole_until < now_epoch && self.has_room(COUNTER + NETWORK) {
            self.changes += 1;
            self.split(network, byte(address, level), byte(address, level + 1), counter);
        }
        if now_epoch - self.folded_at.unwrap_or(now_epoch) >= FREQUENCY {
            self.changes += 1;
            self.fold(self.threshold, now);
            self.folded_at = Some(now_epoch);
        }
        Some(rates)
    }

    /// Does the same as [`update`](Self::update) for the next packet of a batch, all of whose packets have
    /// the same direction and time. Packets with the same address as the packet before are updated together,
    /// if that packet has not split a counter or removed networks: they get the same rates, and only their
    /// amounts are added. `same` is `None` for the first packet, and goes to [`add_rest`](Self::add_rest)
    /// after the last.
    #[inline]
    pub(super) fn update_next(
        &mut self,
        same: &mut Option<Same>,
        address: u32,
        direction: usize,
        amount: u64,
        now: Timestamp,
    ) -> Option<[u64; 2]> {
        if let Some(same) = same
            && same.address == address
        {
            same.amount += amount;
            return same.rates;
        }
        self.add_rest(same.take(), direction, now);
        let changes = self.changes;
        let rates = self.update(address, direction, Some(amount), now);
        *same = (self.changes == changes).then_some(Same { address, rates, amount: 0 });
        rates
    }

    /// Adds the amounts that [`update_next`](Self::update_next) has collected to the rates.
    #[inline]
    pub(super) fn add_rest(&mut self, same: Option<Same>, direction: usize, now: Timestamp) {
        if let Some(Same { address, amount: amount @ 1.., .. }) = same {
            self.update(address, direction, Some(amount), now);
        }
    }

    /// Splits the counter for `byte` of a network: adds a network with counters for the next byte of
    /// addresses. The first of them is for the value `next`, which the address that caused the split has, and
    /// starts with the rates of the split counter. Counters for other values are added when packets of their
    /// addresses arrive. Does nothing if there is no memory.
    #[cold]
    fn split(&mut self, network: u32, byte: u8, next: u8, counter: Counter) {
        // Memory is also reserved for the list of the indices of removed networks, so that removing a network
        // never allocates.
        let count = self.networks.len();
        let has_memory = self.networks.try_reserve(1).is_ok()
            && self.ages.try_reserve(1).is_ok()
            && self.free.try_reserve(count + 1 - self.free.len()).is_ok();
        if !has_memory {
            return;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.networks.push(None);
                (self.networks.len() - 1) as u32
            }
        };
        self.networks[place as usize] =
            Some(Network { counters: [NONE; 256], parent: Some((network, byte)) });
        self.ages.push(place);
        self.used += NETWORK;
        if let Some(counter) = self.counter(network, byte) {
            counter.split = Some(place);
        }
        // If there is no memory for the counter now, it is added when the next packet of the address arrives.
        let _ = self.add_counter(place, next, Counter { split: None, whole_until: 0, ..counter });
    }

    /// Removes a network, its counters, and all networks below it. The counter that was split into it is no
    /// longer split.
    fn forget(&mut self, network: u32) {
        let Some(gone) = self.networks.get_mut(network as usize).and_then(Option::take) else { return };
        self.free.push(network);
        self.used -= NETWORK;
        for place in gone.counters {
            let Some(counter) = self.counters.get(place as usize) else { continue };
            let split = counter.split;
            self.used -= COUNTER;
            self.free_counters.push(place);
            if let Some(split) = split {
                self.forget(split);
            }
        }
        if let Some((parent, byte)) = gone.parent
            && let Some(counter) = self.counter(parent, byte)
        {
            counter.split = None;
        }
    }

    /// Removes networks both of whose averages per epoch, with 10 fractional bits, are below `threshold`,
    /// oldest first. The averages are about 8 times the rates per second; Click compares the same numbers.
    /// As in Click, it stops after a removal if the memory in use is below the limit; without a limit, below
    /// nine tenths of its amount at the start.
    fn fold(&mut self, threshold: u64, now: Timestamp) {
        let enough = if self.limit > 0 { self.limit } else { self.used / 10 * 9 };
        let mut at = 0;
        while let Some(&network) = self.ages.get(at) {
            let Some(parent) = self.networks[network as usize].as_ref().map(|network| network.parent) else {
                // The network has been removed already, together with a network above it in the tree.
                at += 1;
                continue;
            };
            let is_little = parent.is_none_or(|(parent, byte)| match self.counter(parent, byte) {
                Some(counter) => {
                    counter.add(0, 0, now);
                    counter.rates.iter().all(|rate| rate.average() < threshold)
                }
                None => true,
            });
            if !is_little {
                at += 1;
                continue;
            }
            self.forget(network);
            at += 1;
            if self.used < enough {
                break;
            }
        }
        self.forget_ages();
    }

    /// Removes networks that no longer exist from `ages`, the list of networks by age. Must be called before
    /// the indices of these networks are reused.
    fn forget_ages(&mut self) {
        let networks = &self.networks;
        self.ages.retain(|&network| networks[network as usize].is_some());
    }

    /// Sets the memory limit. Removes networks until the memory in use is within the limit, or only the root
    /// is left. Networks with averages below the threshold go first ([`fold`](Self::fold)). Then the
    /// threshold grows by a fifth each time, and networks with higher averages go.
    pub(super) fn set_limit(&mut self, limit: usize, now: Timestamp) {
        self.limit = limit;
        let mut threshold = self.threshold;
        while limit > 0 && self.used > limit && !self.ages.is_empty() {
            self.fold(threshold, now);
            threshold = threshold.saturating_add((threshold / 5).max(1));
        }
    }

    /// Removes the networks below byte `level` (0 to 3) of an address, so that all addresses with the same
    /// bytes 0 to `level` are measured together. Their counter is not split again until after epoch `until`.
    /// Does nothing if they have no counter yet.
    pub(super) fn keep_whole(&mut self, address: u32, level: usize, until: i64) {
        let mut network = ALL;
        for at in 0..=level {
            let Some(counter) = self.counter(network, byte(address, at)) else { return };
            let split = counter.split;
            if at == level {
                counter.whole_until = until;
                if let Some(split) = split {
                    self.forget(split);
                    self.forget_ages();
                }
                return;
            }
            let Some(split) = split else { return };
            network = split;
        }
    }

    /// Returns the rates as lines of text: a prefix of addresses, the rate from them and the rate to them.
    /// The lines of a longer prefix follow the line of the shorter prefix, indented.
    pub(super) fn show(&mut self, now: Timestamp) -> String {
        let mut text = String::new();
        self.show_network(&mut text, ALL, "", now);
        text
    }

    fn show_network(&mut self, text: &mut String, network: u32, prefix: &str, now: Timestamp) {
        for byte in 0..=u8::MAX {
            let Some(counter) = self.counter(network, byte) else { continue };
            // Leave out counters whose averages are zero, such as counters that have been read but have never
            // counted a packet.
            if counter.rates.iter().all(|rate| rate.average() == 0) {
                continue;
            }
            let [from, to] = counter.rates.each_mut().map(|rate| rate.show(now, 0));
            let split = counter.split;
            let name = if prefix.is_empty() { byte.to_string() } else { format!("{prefix}.{byte}") };
            let _ = writeln!(text, "{name}\t{from}\t{to}");
            if let Some(split) = split {
                self.show_network(text, split, &format!("\t{name}"), now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::collection::vec;
    use proptest::prelude::*;

    // A counter has at most twice the size with which it counts towards the limit, without lists and spare
    // room; a network has at most that size.
    const _: () = assert!(size_of::<Counter>() <= 2 * COUNTER && size_of::<Network>() <= NETWORK);

    use super::*;

    fn ip(text: &str) -> u32 {
        text.parse::<Ipv4Addr>().unwrap().to_bits()
    }

    const START: i64 = 1_000_000_000_000;

    /// Adds one packet from `address` per millisecond, for `milliseconds` from millisecond `from` after
    /// `START` on. Returns the rates after the last packet.
    fn load(tree: &mut RateTree, address: &str, from: i64, milliseconds: i64) -> Option<[u64; 2]> {
        let mut last = None;
        for ms in from..from + milliseconds {
            last = tree.update(ip(address), 0, Some(1), Timestamp(START + ms * 1_000_000));
        }
        last
    }

    #[test]
    fn networks_are_split_where_much_comes_from() {
        let mut tree = RateTree::new(500, 0);
        tree.update(ip("9.1.1.1"), 1, Some(1), Timestamp(START));
        let rates = load(&mut tree, "18.26.4.9", 0, 3000).unwrap();
        assert!((990..=1010).contains(&rates[0]) && rates[1] == 0, "{rates:?}");
        let shown = tree.show(Timestamp(START + 3_000_000_000));
        let names: Vec<&str> = shown.lines().map(|line| line.rsplitn(3, '\t').nth(2).unwrap()).collect();
        assert_eq!(names, ["18", "\t18.26", "\t\t18.26.4", "\t\t\t18.26.4.9"], "{shown}");
        assert_eq!(tree.used, 4 * NETWORK + 5 * COUNTER);
    }

    #[test]
    fn below_the_threshold_and_where_it_is_forbidden_nothing_is_split() {
        let mut tree = RateTree::new(2000, 0);
        load(&mut tree, "18.26.4.9", 0, 2000);
        assert_eq!(tree.used, NETWORK + COUNTER);
        tree.threshold = 500;
        load(&mut tree, "18.26.4.9", 2000, 10);
        assert_eq!(tree.used, 4 * NETWORK + 4 * COUNTER);
        let until = epoch(Timestamp(START + 4_000_000_000));
        tree.keep_whole(ip("18.26.4.0"), 1, until);
        assert_eq!(tree.used, 2 * NETWORK + 2 * COUNTER);
        load(&mut tree, "18.26.4.9", 2010, 1980);
        assert_eq!(tree.used, 2 * NETWORK + 2 * COUNTER);
        load(&mut tree, "18.26.4.9", 4010, 10);
        assert_eq!(tree.used, 4 * NETWORK + 4 * COUNTER);
    }

    #[test]
    fn idle_networks_are_forgotten_and_memory_has_a_limit() {
        let mut tree = RateTree::new(500, 0);
        load(&mut tree, "18.26.4.9", 0, 2000);
        load(&mut tree, "200.1.2.3", 10_000, 3000);
        let shown = tree.show(Timestamp(START + 13_000_000_000));
        assert!(!shown.contains("18.26") && shown.contains("\t\t\t200.1.2.3\t"), "{shown}");
        tree.set_limit(NETWORK + COUNTER, Timestamp(START + 13_000_000_000));
        assert_eq!((tree.used, tree.ages.len()), (NETWORK + 2 * COUNTER, 0));
        assert_eq!(tree.update(ip("7.0.0.1"), 0, Some(1), Timestamp(START + 14_000_000_000)), None);
        tree.clear();
        assert_eq!(tree.used, NETWORK);
    }

    proptest! {
        /// Packets of batches, each with packets of a few addresses in runs, give the same rates and the same
        /// tree as packets that are updated one by one.
        #[test]
        fn packets_with_one_address_are_updated_together(
            batches in vec((0i64..40_000_000, 0usize..2, vec((0u32..6, 0u64..2000, 1usize..9), 1..6)), 1..200),
            (threshold, limit) in (0u64..20_000, prop_oneof![Just(0usize), Just(8_000)]),
        ) {
            let addresses = ["1.1.1.1", "1.1.1.2", "1.1.2.1", "1.2.1.1", "2.1.1.1", "2.1.1.1"].map(ip);
            let [mut singly, mut together] = [(); 2].map(|()| RateTree::new(threshold, limit));
            let mut now = START;
            for (pause, direction, runs) in batches {
                now += pause;
                let (at, mut same) = (Timestamp(now), None);
                for (address, amount, count) in runs {
                    let address = addresses[address as usize];
                    for amount in (amount..).take(count) {
                        let one = singly.update(address, direction, Some(amount), at);
                        let other = together.update_next(&mut same, address, direction, amount, at);
                        prop_assert_eq!(one, other);
                    }
                }
                together.add_rest(same, direction, at);
                prop_assert_eq!(singly.used, together.used);
            }
            prop_assert_eq!(singly.show(Timestamp(now)), together.show(Timestamp(now)));
            let later = Timestamp(now + 10_000_000);
            prop_assert_eq!(singly.show(later), together.show(later));
        }
    }
}
