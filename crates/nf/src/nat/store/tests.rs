use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::nat::spaces::ONLY;

const SECOND: i64 = 1_000_000_000;
const POLICY: Policy =
    Policy { plain: 10 * SECOND, busy: 20 * SECOND, done: 3 * SECOND, guarantee: 2 * SECOND };

/// Returns a translator with this name, with one input and two outputs.
fn translator(name: &str) -> Owner {
    Owner {
        name: name.into(),
        policies: [POLICY; 2],
        inputs: vec![Tally::default()],
        outputs: 2,
        is_independent: false,
        most_of_one: 0,
        log: None,
    }
}

fn store() -> (Store, u16) {
    let mut store = Store::new().unwrap();
    let owner = store.join(translator("nat"), false);
    (store, owner)
}

fn flow(host: u32, port: u16) -> Tuple {
    Tuple { source: 0x0a00_0000 + host, destination: 0x0200_0002, source_port: port, destination_port: 53 }
}

/// Makes a mapping at the time `at` with the first free outside port of a range. Returns the port; `None`
/// if no port is free or no mapping can be made.
fn open(store: &mut Store, owner: u16, from: Tuple, ports: (u32, u32), at: i64) -> Option<u16> {
    let space = space(owner, ONLY);
    let to = Tuple { source: 0xc000_0201, ..from };
    let port = store.free_from(space, to, Claim::Port, ports, |_| true)? as u16;
    let chosen = Chosen { to: Tuple { source_port: port, ..to }, claim: Claim::Port };
    let (kind, outputs) = (Kind::Datagrams, [0, 1]);
    let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 17 };
    store.add(&fresh, Timestamp(at)).ok().map(|_| port)
}

/// Handles a packet of a mapping, which must exist: the packet comes at the time `at` (nanoseconds), and
/// gives the information `told` for the mapping's state.
fn packet(store: &mut Store, owner: u16, tuple: Tuple, told: Told, at: i64) {
    let id = store.find_key(&Store::key(tuple, space(owner, ONLY))).unwrap();
    let mut change = store.see(id, Timestamp(at)).unwrap().unpacked();
    store.note(id, &mut change, told);
}

/// Makes a mapping at the time `at` that changes no addresses and ports. Returns the index of its session.
fn keep(store: &mut Store, owner: u16, from: Tuple, kind: Kind, at: i64) -> Result<u32, DropReason> {
    let chosen = Chosen { to: from, claim: Claim::Nothing };
    let (space, outputs) = (space(owner, ONLY), [0, 1]);
    let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 6 };
    store.add(&fresh, Timestamp(at)).map(|(_, change)| change.session)
}

#[test]
fn nothing_leaks_when_sessions_come_and_go() {
    let (mut store, owner) = store();
    let mut grown = None;
    for round in 0..4 {
        let at = round * 100 * SECOND;
        for n in 0..40_000u32 {
            assert_eq!(
                open(&mut store, owner, flow(n >> 8, n as u16), (1024, 65_535), at),
                Some(1024 + n as u16)
            );
        }
        assert_eq!((store.size(), store.tallies(owner)[0].mappings), (40_000, 40_000));
        assert_eq!(*grown.get_or_insert(store.memory()), store.memory(), "round {round}");
        store.shrink(Timestamp(at + 9 * SECOND));
        assert_eq!(store.size(), 40_000);
        store.shrink(Timestamp(at + 10 * SECOND));
        assert_eq!((store.size(), store.tallies(owner)[0].mappings), (0, 0));
        // After the removal of all mappings, the store must have its initial size, and no port may be in
        // use.
        assert_eq!(store.memory(), (FIRST_CAPACITY, 0, 0));
    }
}

#[test]
fn a_range_that_is_nearly_used_up_gives_its_last_ports() {
    let (mut store, owner) = store();
    let all = (1024, 65_535);
    for n in 0..=65_535 - 1024u32 {
        assert_eq!(open(&mut store, owner, flow(n >> 15, n as u16), all, 0), Some(1024 + n as u16));
    }
    assert_eq!(open(&mut store, owner, flow(9, 9), all, 0), None);
    // Replies from another server have another source address, so for flows to it all ports must still be
    // free.
    let other = Tuple { destination: 0x0200_0003, ..flow(9, 9) };
    assert_eq!(open(&mut store, owner, other, all, 0), Some(1024));
    for freed in [65_535u16, 1024, 33_333] {
        let reply = Tuple { source: 0xc000_0201, ..flow(0, freed) }.reversed();
        let session = store.find(reply, space(owner, ONLY)).unwrap().session;
        store.remove(session);
        assert_eq!(open(&mut store, owner, flow(9, freed), all, 0), Some(freed));
    }
}

#[test]
fn a_flow_that_is_its_own_reply_has_one_key() {
    let (mut store, owner) = store();
    let own = Tuple { source: 1, destination: 1, source_port: 5, destination_port: 5 };
    let fresh = Fresh {
        space: space(owner, ONLY),
        from: own,
        chosen: Chosen { to: own, claim: Claim::Nothing },
        input: 0,
        outputs: [3, 4],
        kind: Kind::Plain,
        policy: 0,
        protocol: 17,
    };
    let (_, first) = store.add(&fresh, Timestamp(0)).unwrap();
    let later = store.find(own, fresh.space).unwrap();
    assert_eq!((first.output, later.output, store.size()), (3, 4, 1));
    assert!(later.is_none());
    assert_eq!(store.written(owner, None)[0].outputs, [3, 4]);
    store.clear();
    assert_eq!((store.size(), store.find(own, fresh.space)), (0, None));
}

#[test]
fn mappings_go_on_in_another_store() {
    let (mut old, owner) = store();
    for n in 0..100 {
        open(&mut old, owner, flow(n, 7), (2000, 3000), i64::from(n) * SECOND / 100);
    }
    let known = Tuple { source: 0xc000_0201, ..flow(7, 2007) }.reversed();
    (0..4).for_each(|_| packet(&mut old, owner, known, Told::Datagram, SECOND));
    let before: Vec<_> = old.written(owner, None).iter().map(|w| (w.tuples, w.expiry, w.outputs)).collect();
    let (taken, _) = old.take(owner);
    assert_eq!((old.size(), old.memory().2), (0, 0));
    let (mut new, owner) = store();
    taken.iter().for_each(|written| new.put(owner, written, false));
    let mut after: Vec<_> =
        new.written(owner, None).iter().map(|w| (w.tuples, w.expiry, w.outputs)).collect();
    after.sort_by_key(|(tuples, ..)| tuples[0].source);
    assert_eq!(after, before);
    assert_eq!(open(&mut new, owner, flow(200, 7), (2000, 3000), SECOND), Some(2100));
    assert_eq!(new.written(owner, None).iter().map(|w| w.expiry).max(), Some(21 * SECOND));
}

/// Makes a mapping with the outside port that the sender's endpoint has, or else with the first free port
/// of a range. Returns the port; `None` if this fails.
fn open_bound(store: &mut Store, owner: u16, from: Tuple, ports: (u32, u32)) -> Option<u16> {
    let space = space(owner, ONLY);
    let to = Tuple { source: 0xc000_0201, ..from };
    let known = store.outside_of(space, from).map(|bound| bound.outside.1.into());
    let port = known.or_else(|| store.free_from(space, to, Claim::Endpoint, ports, |_| true))? as u16;
    let chosen = Chosen { to: Tuple { source_port: port, ..to }, claim: Claim::Endpoint };
    let (kind, outputs) = (Kind::Datagrams, [0, 1]);
    let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 17 };
    let (_, change) = store.add(&fresh, Timestamp(0)).ok()?;
    store.set_annotation(change.session, 9);
    Some(port)
}

#[test]
fn ends_inside_keep_their_ports_in_another_store_and_give_them_back() {
    let (mut old, owner) = store();
    old.owners[0].most_of_one = 4;
    let to = |host: u32, server: u32| Tuple { destination: 0x0200_0000 + server, ..flow(host, 7) };
    for host in 0..10 {
        for server in 0..4 {
            assert_eq!(open_bound(&mut old, owner, to(host, server), (2000, 2009)), Some(2000 + host as u16));
        }
    }
    assert_eq!(open_bound(&mut old, owner, to(0, 9), (2000, 2009)), None, "it has four");
    assert_eq!(open_bound(&mut old, owner, to(10, 0), (2000, 2009)), None, "all ports are in use");
    let (taken, _) = old.take(owner);
    assert_eq!((old.size(), old.memory().2, old.endpoints.is_empty()), (0, 0, true));
    let (mut new, owner) = store();
    new.owners[0].most_of_one = 5;
    taken.iter().for_each(|written| new.put(owner, written, true));
    assert_eq!(open_bound(&mut new, owner, to(3, 4), (2000, 2009)), Some(2003));
    assert_eq!(open_bound(&mut new, owner, to(3, 5), (2000, 2009)), None);
    let known = new.inside_of(space(owner, ONLY), to(3, 9).reversed_to(0xc000_0201, 2003)).unwrap();
    assert_eq!((known.inside, known.outputs, known.annotation), ((0x0a00_0003, 7), [0, 1], 9));
    new.clear();
    assert_eq!((new.size(), new.memory().2, new.endpoints.is_empty()), (0, 0, true));
}

#[test]
fn two_mappings_never_have_one_key() {
    let (mut store, owner) = store();
    store.owners[0].most_of_one = 9;
    let (space, inside, client) = (space(owner, ONLY), flow(1, 5060), 0x0300_0003);
    assert_eq!(open_bound(&mut store, owner, inside, (5060, 5060)), Some(5060));
    let add = |store: &mut Store, from: Tuple, to: Tuple, claim: Claim| {
        let chosen = Chosen { to, claim };
        let (kind, outputs) = (Kind::Datagrams, [0, 1]);
        let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 17 };
        store.add(&fresh, Timestamp(0)).map(|_| ())
    };
    // First, a client outside calls outside port 6000, which is forwarded to the inside endpoint. The
    // endpoint's own outside port is 5060.
    let there = Tuple { destination: client, destination_port: 99, ..inside };
    let call = there.reversed_to(0xc000_0201, 6000);
    add(&mut store, call, there.reversed(), Claim::Nothing).unwrap();
    // Then the endpoint sends to this client from its own outside port. This would give the flow, which
    // already has the mapping of the call, a second mapping, so it must be refused.
    let own = Tuple { source: 0xc000_0201, source_port: 5060, ..there };
    assert_eq!(add(&mut store, there, own, Claim::Endpoint), Err(DropReason::NoMapping));
    assert_eq!((store.size(), store.tallies(owner)[0].failures), (2, 1));
    store.clear();
    assert_eq!((store.size(), store.entries(), store.endpoints.is_empty()), (0, 0, true));
}

#[test]
fn who_has_to_share_a_port_of_before_keeps_it_for_itself() {
    let (mut old, owner) = store();
    let to = |host: u32, server: u32| Tuple { destination: 0x0200_0000 + server, ..flow(host, 7) };
    // In a store without independent mapping, two hosts have outside port 2000, each towards a different
    // server. Host 1 also has port 2005, towards a third server.
    for (host, server, ports) in [(1, 1, (2000, 2009)), (2, 2, (2000, 2009)), (1, 3, (2005, 2009))] {
        assert_eq!(open(&mut old, owner, to(host, server), ports, 0), Some(ports.0 as u16));
    }
    let (taken, _) = old.take(owner);
    let (mut new, owner) = store();
    taken.iter().for_each(|written| new.put(owner, written, true));
    let space = space(owner, ONLY);
    let receiver = |store: &Store, server: u32, port: u16| {
        let reply = to(0, server).reversed_to(0xc000_0201, port);
        store.find(reply, space).map(|change| change.to.destination - 0x0a00_0000)
    };
    assert_eq!(open_bound(&mut new, owner, to(1, 9), (2000, 2009)), Some(2000));
    assert_eq!(
        open_bound(&mut new, owner, to(2, 1), (2000, 2009)),
        Some(2001),
        "the other one is not its own"
    );
    assert_eq!(
        [(1, 2000), (2, 2000), (3, 2005)].map(|(s, p)| receiver(&new, s, p)),
        [Some(1), Some(2), Some(1)]
    );
    // Host 1 must not get port 2000 towards server 2, because host 2 would get the replies.
    let may_call = |server: u32| {
        let wanted = Tuple { source: 0xc000_0201, source_port: 2000, ..to(1, server) };
        new.may_become(space, to(1, server), wanted)
    };
    assert!(!may_call(2) && may_call(3));
    let (taken, _) = new.take(owner);
    assert_eq!((new.size(), new.memory().2, new.endpoints.is_empty()), (0, 0, true));
    // The store `last` has no independent mapping: endpoints must have no ports of their own, and a port must
    // be in use only towards a single server.
    let (mut last, owner) = store();
    taken.iter().for_each(|written| last.put(owner, written, false));
    assert!(last.endpoints.is_empty());
    assert_eq!(open(&mut last, owner, to(5, 2), (2000, 2009), 0), Some(2001));
    last.clear();
    assert_eq!(last.memory().2, 0);
}

impl Tuple {
    /// Returns the tuple of a packet in the opposite direction, but with this destination address and port.
    fn reversed_to(self, destination: u32, destination_port: u16) -> Tuple {
        Tuple { destination, destination_port, ..self.reversed() }
    }
}

/// Returns the first `count` flows whose key hashes (with seed 0) satisfy `hits`, for example because they
/// fall into one bucket. An attacker could find such flows only with the seed.
fn colliding(count: usize, hits: impl Fn(u32) -> bool) -> Vec<Tuple> {
    let hasher = KeyHasher::new(0);
    let all = (0..u32::MAX).map(|n| flow(0x10_0000 + (n >> 15), n as u16 & 0x7fff));
    all.filter(|&flow| hits(hasher.hash(&Store::key(flow, 0)))).take(count).collect()
}

#[test]
fn keys_that_crowd_a_larger_table_are_not_lost() {
    // Twice the capacity gives twice the number of buckets, less one. Then the middle bucket of the new table
    // gets keys of two old buckets.
    let buckets = |capacity: usize| (capacity * 100).div_ceil(12 * 60) as u64;
    let capacity = (FIRST_CAPACITY..).step_by(2).find(|&n| buckets(n) % 2 == 0 && buckets(2 * n) % 2 == 1);
    let capacity = capacity.unwrap();
    let (old, new) = (buckets(capacity), buckets(2 * capacity));
    assert_eq!(new, 2 * old - 1);
    let (mut store, owner) = store();
    assert!(store.rebuild(capacity));
    // 30 keys from each of two old buckets fall into the middle bucket of the new table. Each old bucket
    // has room for its 30 keys, but the new bucket does not have room for 60.
    let bucket = |hash: u32, buckets: u64| (u64::from(hash) * buckets) >> 32;
    let middle = new / 2;
    let part = |half: u64| colliding(30, |hash| bucket(hash, new) == middle && bucket(hash, old) % 2 == half);
    let crowd = [part(0), part(1)].concat();
    assert_eq!(crowd.len(), 60);
    for &flow in &crowd {
        keep(&mut store, owner, flow, Kind::Plain, 0).unwrap();
    }
    for n in 0..capacity as u32 {
        keep(&mut store, owner, flow(n >> 12, n as u16 & 0xfff), Kind::Plain, 0).unwrap();
    }
    assert!(store.memory().0 > capacity && store.size() == capacity + crowd.len());
    assert!(crowd.iter().all(|&flow| store.find(flow, space(owner, ONLY)).is_some()));
    store.shrink(Timestamp(100 * SECOND));
    assert_eq!((store.size(), store.memory().1), (0, 0));
}

#[test]
fn a_flow_that_finds_no_room_among_others_of_its_bucket_counts_as_a_failure() {
    let (mut store, owner) = store();
    let buckets = (FIRST_CAPACITY * 100).div_ceil(12 * 60) as u64;
    let made = colliding(100, |hash| (u64::from(hash) * buckets) >> 32 == 7)
        .into_iter()
        .filter(|&flow| keep(&mut store, owner, flow, Kind::Plain, 0).is_ok())
        .count();
    assert_eq!((made, store.size(), store.tallies(owner)[0].failures), (44, 44, 56));
}

#[test]
fn a_seed_makes_other_buckets_and_other_ports() {
    let numbers = |seed: u64| {
        let (mut store, owner) = store();
        store.seed(seed);
        (store.secret_of(flow(1, 1), space(owner, ONLY)), store.hasher.hash(&Store::key(flow(1, 1), 0)))
    };
    let (a, b) = (numbers(1), numbers(2));
    assert!(a.0 != b.0 && a.1 != b.1 && a.0 != a.1);
    assert_eq!(numbers(1), a);
}

#[test]
fn mappings_of_all_owners_end_when_one_of_them_looks() {
    let mut store = Store::new().unwrap();
    let [often, never] = [true, false].map(|reaps| store.join(translator("nat"), reaps));
    keep(&mut store, often, flow(1, 1), Kind::Plain, 0).unwrap();
    keep(&mut store, never, flow(2, 2), Kind::Plain, 0).unwrap();
    for (at, size) in [(0, 2), (9_900, 2), (10_000, 0)] {
        store.catch_up(Timestamp(at * SECOND / 1000));
        assert_eq!(store.size(), size, "{at}");
    }
}

#[test]
fn turns_that_no_longer_count_do_not_pile_up() {
    let (mut store, owner) = store();
    for n in 0..100_000u32 {
        // The reply of each new mapping equals the reply of the previous mapping, which is therefore removed.
        open_fixed(&mut store, owner, flow(n >> 8, n as u16));
        assert_eq!(store.size(), 1);
    }
    assert!(store.turns.len() < 3000, "{}", store.turns.len());
}

fn open_fixed(store: &mut Store, owner: u16, from: Tuple) {
    let chosen = Chosen { to: Tuple { source: 1, source_port: 1, ..from }, claim: Claim::Nothing };
    let (kind, outputs) = (Kind::Plain, [0, 1]);
    let space = space(owner, ONLY);
    let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 17 };
    store.add(&fresh, Timestamp(0)).unwrap();
}

proptest! {
    /// Compares the store with a model that searches a list: after each step both must have the same
    /// mappings with the same expiry, and evict the same mapping.
    #[test]
    fn whoever_is_over_first_goes_first(
        steps in proptest::collection::vec((0i64..4000, 0u16..9, any::<bool>(), 0u8..32, 0u8..12), 1..400),
        capacity in 1i32..9,
    ) {
        #[derive(Debug, Default, Clone, Copy)]
        struct Known { last: i64, states: [State; 2] }
        let (mut store, owner) = store();
        store.set_capacity(capacity);
        let mut model: BTreeMap<u16, Known> = BTreeMap::new();
        let expiry = |known: &Known| known.last + POLICY.timeout(Kind::Connection, known.states);
        let guaranteed = |known: &Known, now: i64| known.last + POLICY.guarantee > now;
        let mut now = 0;
        for (pause, port, is_reply, flags, what) in steps {
            // Each time has a different number of nanoseconds modulo a millisecond, so no two mappings
            // expire at the same time.
            now += pause * 1_000_000 + 1;
            if what == 0 {
                store.shrink(Timestamp(now));
                model.retain(|_, known| guaranteed(known, now) || expiry(known) > now);
            }
            let from = flow(1, port);
            let told = Told::Segment { flags, has_payload: what > 6 };
            let is_new = !model.contains_key(&port);
            if is_new {
                let made = keep(&mut store, owner, from, Kind::Connection, now);
                model.insert(port, Known { last: now, ..Known::default() });
                let open = model.iter().filter(|(_, known)| !guaranteed(known, now));
                let victim = open.min_by_key(|(_, known)| expiry(known)).map_or(port, |(&port, _)| port);
                if model.len() > capacity as usize {
                    model.remove(&victim);
                }
                prop_assert_eq!(made.is_ok(), model.contains_key(&port));
            }
            if let Some(known) = model.get_mut(&port) {
                let tuple = if is_reply { from.reversed() } else { from };
                packet(&mut store, owner, tuple, told, now);
                let state = &mut known.states[usize::from(is_reply)];
                (*state, known.last) = (state.after(told), now);
                if told.resets() {
                    known.states = known.states.map(State::closed);
                }
            }
            let all: BTreeMap<u16, i64> =
                store.written(owner, None).iter().map(|w| (w.tuples[0].source_port, w.expiry)).collect();
            let expected: BTreeMap<u16, i64> = model.iter().map(|(&port, known)| (port, expiry(known))).collect();
            prop_assert_eq!(all, expected);
        }
    }
}

/// Lets 10,000 mappings expire at once: each batch must remove at most 1025 of them, and all must be gone in
/// fewer than 25 batches.
#[test]
fn the_work_of_a_batch_is_bounded() {
    let (mut store, owner) = (Store::new().unwrap(), 0);
    store.join(translator("nat"), true);
    store.catch_up(Timestamp(0));
    for n in 0..10_000u32 {
        keep(&mut store, owner, flow(n, 1), Kind::Plain, 0).unwrap();
    }
    let mut batches = 0;
    while store.size() > 0 {
        let before = store.size();
        store.catch_up(Timestamp(20 * SECOND));
        assert!(before - store.size() <= 1025, "{before} {}", store.size());
        batches += 1;
        assert!(batches < 25, "each is looked at twice, when its guarantee is over and when it is");
    }
    assert!(batches >= 9, "{batches}");
    // Handlers must not see expired mappings, even if there are more of them than one batch examines.
    for n in 0..10_000u32 {
        keep(&mut store, owner, flow(n, 1), Kind::Plain, 30 * SECOND).unwrap();
    }
    store.catch_up_fully(Timestamp(50 * SECOND));
    assert_eq!(store.size(), 0);
}

#[test]
fn a_table_that_grows_moves_a_few_mappings_at_a_time() {
    let (mut store, owner) = store();
    let mut moves = 0;
    let mut left = None;
    for n in 0..100_000u32 {
        let epoch = store.epoch();
        keep(&mut store, owner, flow(n, 1), Kind::Plain, 0).unwrap();
        let now = store.left_behind();
        if let (Some(before), Some(after)) = (left, now)
            && store.epoch() == epoch
        {
            assert!(before - after <= 2 * PER_MAPPING, "{n}: {before} {after}");
        }
        moves += usize::from(left.is_none() && now.is_some());
        left = now;
        // While keys are moved to a larger table, mappings that are still in the old table must be found.
        if n % 7 == 0 {
            assert!(store.find(flow(n / 2, 1), space(owner, ONLY)).is_some());
        }
    }
    assert_eq!((moves, store.size()), (5, 100_000), "2^13 keys, and so on up to 2^18");
    // Another move of all keys to a larger table begins. A packet arrives for every third mapping. All
    // mappings must be found, and the move must end after the expected number of batches.
    store.begin_move(1 << 19);
    for n in (0..100_000u32).rev().step_by(3) {
        packet(&mut store, owner, flow(n, 1), Told::Nothing, SECOND);
    }
    let mut batches = 0;
    while store.left_behind().is_some() {
        let before = store.left_behind().unwrap_or(0);
        store.catch_up(Timestamp(SECOND));
        assert!(before - store.left_behind().unwrap_or(0) <= 2 * 64);
        batches += 1;
    }
    assert_eq!(batches, 100_000 / 64 + 1);
    assert!((0..100_000).all(|n| store.find(flow(n, 1), space(owner, ONLY)).is_some()));
    store.clear();
    assert_eq!(store.size(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn while_tables_move_nothing_is_lost_or_doubled(steps in proptest::collection::vec(0u32..100, 200..1500)) {
        let (mut store, owner) = store();
        let space = space(owner, ONLY);
        let mut known = BTreeMap::new();
        let mut next = 0u32;
        for step in steps {
            let some = known.keys().nth(step as usize * 7 % known.len().max(1)).copied();
            match (step, some) {
                (0..3, _) => _ = store.begin_move(FIRST_CAPACITY << (step + 1)),
                (3..5, _) => store.catch_up(Timestamp(SECOND)),
                (5..6, _) => _ = store.rebuild(FIRST_CAPACITY),
                (6..30, Some(n)) => {
                    let session = store.find(flow(n, 1), space).unwrap().session;
                    store.remove(session);
                    known.remove(&n);
                }
                (30..50, Some(n)) => {
                    packet(&mut store, owner, flow(n, 1), Told::Nothing, i64::from(step));
                    known.insert(n, i64::from(step));
                }
                _ => {
                    let from = flow(next, 1);
                    prop_assert!(open(&mut store, owner, from, (2000, 9000), 0).is_some());
                    known.insert(next, 0);
                    next += 1;
                }
            }
            prop_assert_eq!((store.size(), store.entries()), (known.len(), 2 * known.len()));
        }
        for n in 0..next {
            prop_assert_eq!(store.find(flow(n, 1), space).is_some(), known.contains_key(&n));
        }
        let written = store.written(owner, None);
        let hosts: Vec<u32> = written.iter().map(|w| w.tuples[0].source - 0x0a00_0000).collect();
        prop_assert_eq!(hosts, known.keys().copied().collect::<Vec<_>>());
        store.shrink(Timestamp(1000 * SECOND));
        prop_assert_eq!((store.size(), store.memory().2), (0, 0));
        prop_assert!(store.endpoints.is_empty());
    }
}

#[test]
fn at_capacity_somebody_gives_way_without_a_search_through_all() {
    let (mut store, owner) = store();
    store.set_capacity(10_000);
    for n in 0..10_000u32 {
        keep(&mut store, owner, flow(n, 1), Kind::Plain, 0).unwrap();
    }
    // All mappings have had packets since they were made, so no session is queued by its current expiry. At 4
    // seconds, the guarantee of all mappings is over.
    for n in 0..10_000u32 {
        packet(&mut store, owner, flow(n, 1), Told::Nothing, SECOND + i64::from(n));
    }
    for n in 0..200u32 {
        keep(&mut store, owner, flow(n, 2), Kind::Plain, 4 * SECOND).unwrap();
        assert_eq!((store.size(), store.tallies(owner)[0].failures), (10_000, 0));
    }
    let gone = (0..10_000).filter(|&n| store.find(flow(n, 1), space(owner, ONLY)).is_none()).count();
    assert_eq!(gone, 200, "and no new one");
}

/// Returns the mappings of the translator with number `owner` as texts that do not depend on the store.
fn listed(store: &Store, owner: u16) -> Vec<String> {
    let line = |w: &Written| format!("{:?} {:?} {} {}", w.tuples, w.outputs, w.input, w.expiry);
    store.written(owner, None).iter().map(line).collect()
}

/// Returns a store with two owners. The second has `mappings` mappings: every second mapping reserves an
/// outside port, and the others change no addresses and ports.
fn store_of_two(mappings: u32) -> (Store, u16) {
    let (mut store, _) = store();
    let owner = store.join(translator("other"), true);
    for n in 0..mappings {
        let from = flow(n, 7);
        match n % 2 {
            0 => _ = open(&mut store, owner, from, (2000, 60_000), i64::from(n)),
            _ => _ = keep(&mut store, owner, from, Kind::Datagrams, i64::from(n)),
        }
    }
    store.count_failure(owner, 0);
    (store, owner)
}

#[test]
fn a_store_is_taken_over_as_a_whole() {
    // With 9,000 mappings, the table has grown, and the move to the larger table is not complete.
    for mappings in [0, 100, 9_000] {
        let (mut old, owner) = store_of_two(mappings);
        let before = listed(&old, owner);
        let capacity = old.memory().0;
        let (mut new, other) = store_of_two(0);
        assert!(new.adopt(&mut old) && new.adopt(&mut old), "the second owner finds it done");
        assert_eq!((listed(&new, other), new.memory().0), (before, capacity));
        assert_eq!((old.size(), new.size()), (0, mappings as usize));
        let tally = new.tallies(other)[0];
        assert_eq!((tally.mappings, tally.failures), (mappings.into(), 1));
        assert_eq!(new.tallies(0)[0].mappings, 0);
        // The revision, which applies the settings of the new store to the mappings, must end after a limited
        // number of batches. The settings are equal, so it must change nothing.
        let now = Timestamp(SECOND);
        for _ in 0..mappings / 64 + 1 {
            new.catch_up(now);
        }
        assert!(new.revision.is_none());
        assert_eq!(new.size(), mappings as usize);
        // A port that was in use stays in use.
        if mappings > 0 {
            let port = open(&mut new, other, flow(mappings + 1, 7), (2000, 60_000), SECOND).unwrap();
            assert_eq!(u32::from(port), 2000 + mappings.div_ceil(2));
        }
        new.clear();
        assert_eq!((new.size(), new.memory().2, new.entries()), (0, 0, 0));
        // The store that has taken over the mappings can itself be taken over in the next reload.
        let (mut next, _) = store_of_two(0);
        assert!(next.adopt(&mut new));
    }
}

#[test]
fn a_store_that_does_not_fit_is_left_alone() {
    type Change = fn(&mut Store);
    let changes: [Change; 6] = [
        |store| store.owners[1].name = "third".into(),
        |store| store.owners[1].inputs.clear(),
        |store| store.owners[1].outputs = 1,
        |store| store.owners[1].is_independent = true,
        |store| _ = store.join(translator("third"), false),
        |store| _ = open(store, 1, flow(1, 1), (1, 2), 0),
    ];
    for change in changes {
        let (mut old, owner) = store_of_two(10);
        let (mut new, _) = store_of_two(0);
        change(&mut new);
        let size = new.size();
        assert!(!new.adopt(&mut old));
        assert_eq!((listed(&old, owner).len(), new.size()), (10, size));
    }
    // A new store whose translators have more inputs and outputs can still take over the old store.
    let (mut old, _) = store_of_two(10);
    let (mut new, _) = store_of_two(0);
    new.owners[1].inputs.push(Tally::default());
    new.owners[1].outputs = 3;
    assert!(new.adopt(&mut old));
    assert_eq!(new.tallies(1).len(), 2);
}

#[test]
fn a_revision_applies_changed_settings_with_the_batches() {
    let (mut old, owner) = store_of_two(1_000);
    // By the old time-outs, the mappings would be examined after 20 seconds. The revision must apply the new
    // time-outs.
    let (mut new, _) = store_of_two(0);
    new.owners[1].policies = [Policy { busy: SECOND, plain: SECOND, done: SECOND, guarantee: 0 }; 2];
    new.owners[1].most_of_one = 1;
    new.set_capacity(900);
    assert!(new.adopt(&mut old));
    let begin = Timestamp(SECOND / 2);
    let mut batches = 0;
    while new.revision.is_some() {
        let before = new.size();
        new.catch_up(begin);
        batches += 1;
        assert!(before - new.size() <= 64, "no batch evicts more than its share");
    }
    assert!(batches >= 1_000 / 64);
    assert_eq!((new.size(), new.endpoints.mappings()), (900, 900));
    assert!(new.is_exhausted(owner, flow(999, 7).source, begin.0));
    // A new mapping of a subscriber that is not at the limit is possible.
    assert!(open(&mut new, owner, flow(5_000, 7), (2000, 60_000), begin.0).is_some());
    for _ in 0..10 {
        new.catch_up(Timestamp(2 * SECOND));
    }
    assert_eq!((new.size(), new.memory().2), (0, 0), "the new time-outs count");
}

#[test]
fn stale_mappings_end_when_they_are_looked_up_and_with_the_batches() {
    for is_looked_up in [true, false] {
        let (mut old, owner) = store_of_two(1_000);
        let (mut new, _) = store_of_two(0);
        assert!(new.adopt(&mut old));
        // This rule is true for every second mapping, which keeps its addresses and ports. The other mappings
        // must end.
        new.end_stale(owner, Box::new(|made| made.tuples.0 == made.tuples.1 && made.outputs == [0, 1]));
        let space = space(owner, ONLY);
        if is_looked_up {
            let keys: Vec<_> = (0..32).map(|n| Store::key(flow(n, 7), space)).collect();
            let mut found = [None; WINDOW];
            new.find_all(&keys, &mut found);
            let stays: Vec<bool> = found.iter().map(Option::is_some).collect();
            assert_eq!(stays, [false, true].repeat(16));
            assert_eq!(new.size(), 1_000 - 16);
            assert!(new.find_at(flow(40, 7), space, Timestamp(0)).is_none());
            assert!(new.find_at(flow(41, 7), space, Timestamp(0)).is_some());
            assert!(new.find_key(&Store::key(flow(42, 7), space)).is_none());
            assert_eq!(new.size(), 1_000 - 17);
        }
        for _ in 0..1_000 / 64 + 1 {
            new.catch_up(Timestamp(SECOND));
        }
        assert!(new.revision.is_none());
        assert_eq!((new.size(), new.memory().2), (500, 0));
        new.end_stale(owner, Box::new(|_| false));
        for _ in 0..1_000 / 64 + 1 {
            new.catch_up(Timestamp(SECOND));
        }
        assert_eq!((new.size(), new.entries()), (0, 0));
    }
}
