use super::*;

const SECOND: i64 = 1_000_000_000;
const POLICY: Policy =
    Policy { plain: 10 * SECOND, busy: 20 * SECOND, done: 3 * SECOND, guarantee: 2 * SECOND };

fn store() -> (Store, u16) {
    let mut store = Store::new().unwrap();
    let owner = store.join([POLICY; 2], 1);
    (store, owner)
}

fn flow(host: u32, port: u16) -> Tuple {
    Tuple { source: 0x0a00_0000 + host, destination: 0x0200_0002, source_port: port, destination_port: 53 }
}

/// Opens a flow with the first free port of a range.
fn open(store: &mut Store, owner: u16, from: Tuple, ports: (u32, u32), at: i64) -> Option<u16> {
    let space = space(owner, ONLY);
    let to = Tuple { source: 0xc000_0201, ..from };
    let port = store.free_from(space, to, true, ports.0, ports.1)? as u16;
    let chosen = Chosen { to: Tuple { source_port: port, ..to }, pool: Some(true) };
    let (kind, outputs) = (Kind::Datagrams, [0, 1]);
    let fresh = Fresh { space, from, chosen, input: 0, outputs, kind, policy: 0, protocol: 17 };
    store.add(&fresh, Timestamp(at)).ok().map(|_| port)
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
        let (_, _, words) = store.memory();
        assert_eq!((store.size(), store.tallies(owner)[0].mappings, words), (0, 0, 0));
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
    // Other servers see other replies, so their ports are free.
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
        chosen: Chosen { to: own, pool: None },
        input: 0,
        outputs: [3, 4],
        kind: Kind::Plain,
        policy: 0,
        protocol: 17,
    };
    let first = store.add(&fresh, Timestamp(0)).unwrap();
    let later = store.find(own, fresh.space).unwrap();
    assert_eq!((first.output, later.output, store.size()), (3, 4, 1));
    assert_eq!((later.of_addresses().is_none(), later.of_transport().is_none()), (true, true));
    store.clear();
    assert_eq!((store.size(), store.find(own, fresh.space)), (0, None));
}

#[test]
fn mappings_go_on_in_another_store() {
    let (mut old, owner) = store();
    for n in 0..100 {
        open(&mut old, owner, flow(n, 7), (2000, 3000), i64::from(n) * SECOND / 100);
    }
    let known = old.find(flow(7, 7), space(owner, ONLY)).unwrap();
    let segment = None;
    let mut reply = known;
    reply.is_reply = true;
    (0..4).for_each(|_| old.touch(&reply, owner, segment, SECOND));
    let before: Vec<_> = old.written(owner).iter().map(|w| (w.tuples, w.expiry, w.outputs)).collect();
    let taken = old.take(owner);
    assert_eq!((old.size(), old.memory().2), (0, 0));
    let (mut new, owner) = store();
    taken.iter().for_each(|written| new.put(owner, written));
    let mut after: Vec<_> = new.written(owner).iter().map(|w| (w.tuples, w.expiry, w.outputs)).collect();
    after.sort_by_key(|(tuples, ..)| tuples[0].source);
    assert_eq!(after, before);
    assert_eq!(open(&mut new, owner, flow(200, 7), (2000, 3000), SECOND), Some(2100));
    assert_eq!(new.written(owner).iter().map(|w| w.expiry).max(), Some(21 * SECOND));
}
