use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

/// A holder of waiting packets in the test. Packets are numbers.
#[derive(Default)]
struct Held {
    queues: BTreeMap<u32, VecDeque<u32>>,
    dropped: Vec<u32>,
}

impl Waiters for Held {
    fn give_up(&mut self, address: u32, _: DropReason) {
        self.dropped.extend(self.queues.remove(&address).unwrap_or_default());
    }

    fn give_up_oldest(&mut self, ranks: &dyn Ranks, _: DropReason) -> Option<u32> {
        let some = self.queues.iter_mut().filter(|(_, queue)| !queue.is_empty());
        let (&address, queue) = some.min_by_key(|(address, _)| ranks.rank(**address))?;
        self.dropped.extend(queue.pop_front());
        Some(address)
    }
}

struct Row {
    address: u32,
    mac: Option<MacAddr>,
    live: i64,
    /// The times of queries for the address since its last answer.
    queries: Vec<i64>,
    packets: Vec<u32>,
}

/// A model of the table, as a list of entries, oldest first, that is searched. It also keeps the packets.
struct Model {
    limits: Limits,
    rows: Vec<Row>,
    dropped: Vec<u32>,
    /// The time of the next search for expired entries, in milliseconds; not used without a time-out.
    looks: i64,
}

impl Model {
    fn has_expired(&self, row: &Row, now: i64) -> bool {
        self.limits.timeout > 0 && now - row.live > self.limits.timeout
    }

    fn waiting(&self) -> usize {
        self.rows.iter().map(|row| row.packets.len()).sum()
    }

    fn drop_old(&mut self, now: i64) {
        let rows = std::mem::take(&mut self.rows);
        for row in rows {
            match self.has_expired(&row, now) {
                true => self.dropped.extend(row.packets),
                false => self.rows.push(row),
            }
        }
    }

    fn look(&mut self, now: i64) {
        let timeout = self.limits.timeout;
        if timeout == 0 {
            return;
        }
        while self.looks <= now {
            self.drop_old(self.looks);
            self.looks += timeout / 1000 * 1000 + 1000;
        }
    }

    fn row(&mut self, address: u32, now: i64) -> usize {
        if let Some(place) = self.rows.iter().position(|row| row.address == address) {
            return place;
        }
        if self.limits.entries > 0 && self.rows.len() == self.limits.entries {
            self.drop_old(now);
            if self.rows.len() == self.limits.entries {
                let row = self.rows.remove(0);
                self.dropped.extend(row.packets);
            }
        }
        self.rows.push(Row { address, mac: None, live: now, queries: Vec::new(), packets: Vec::new() });
        self.rows.len() - 1
    }

    fn asks(row: &mut Row, now: i64) -> bool {
        let pause = if row.queries.len() >= 10 { 2000 } else { 100 };
        let asks = row.queries.last().is_none_or(|last| now - last >= pause);
        if asks {
            row.queries.push(now);
        }
        asks
    }

    fn look_up(&mut self, address: u32, now: i64, poll: i64) -> Option<(MacAddr, bool)> {
        let place = self.rows.iter().position(|row| row.address == address)?;
        if self.has_expired(&self.rows[place], now) {
            return None;
        }
        let row = &mut self.rows[place];
        let mac = row.mac?;
        Some((mac, poll > 0 && now - row.live >= poll && Self::asks(row, now)))
    }

    fn admit(&mut self, address: u32, now: i64, packet: u32) -> Admission {
        let place = self.row(address, now);
        if self.has_expired(&self.rows[place], now) {
            self.rows[place].live = now - self.limits.timeout;
            self.rows[place].mac = None;
            self.drop_old(now);
            self.rows.sort_by_key(|row| row.live);
        }
        let place = self.row(address, now);
        let most = self.limits.packets_per_entry;
        let waits = most == 0 || self.rows[place].packets.len() < most;
        if !waits {
            // No other packets can be dropped here, so the packet itself is dropped.
        } else if self.limits.packets > 0 && self.waiting() == self.limits.packets {
            self.drop_old(now);
            let most = self.limits.packets;
            let room_for = (most - most / self.limits.slim_factor).max(1) - 1;
            let has_room = self.waiting() < most;
            for place in 0..self.rows.len() {
                while !has_room && self.waiting() > room_for && !self.rows[place].packets.is_empty() {
                    let oldest = self.rows[place].packets.remove(0);
                    self.dropped.push(oldest);
                }
            }
        }
        let place = self.row(address, now);
        if waits {
            self.rows[place].packets.push(packet);
        }
        Admission { waits, query: Self::asks(&mut self.rows[place], now) }
    }

    fn insert(&mut self, address: u32, mac: MacAddr, now: i64) {
        let place = self.row(address, now);
        let row = self.rows.remove(place);
        self.rows.push(Row { mac: Some(mac), live: now, queries: Vec::new(), ..row });
    }
}

#[derive(Clone, Debug)]
enum Event {
    Packet(u32),
    Reply(u32, u8),
    Time(i64),
    Clear,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let times = prop::sample::select(vec![0, 1, 50, 99, 100, 101, 500, 999, 1000, 2000, 2500, 6000, 20_000]);
    let event = prop_oneof![
        8 => (1u32..6).prop_map(Event::Packet),
        2 => (1u32..6, 0u8..3).prop_map(|(address, mac)| Event::Reply(address, mac)),
        4 => times.prop_map(Event::Time),
        1 => Just(Event::Clear),
    ];
    prop::collection::vec(event, 0..120)
}

fn limits() -> impl Strategy<Value = Limits> {
    let timeouts = prop::sample::select(vec![0i64, 500, 1000, 2000, 5500]);
    (0usize..6, 0usize..5, 0usize..4, 1usize..5, timeouts).prop_map(
        |(packets, entries, packets_per_entry, slim_factor, timeout)| Limits {
            pace: ARP_PACE,
            keeps_known: false,
            packets,
            entries,
            packets_per_entry,
            slim_factor,
            timeout,
        },
    )
}

proptest! {
    #[test]
    fn does_what_a_plain_list_does(limits in limits(), poll in prop::sample::select(vec![0i64, 700]), events in events()) {
        let mut table = Table::new(limits);
        let mut held = Held::default();
        let (mut now, mut sent, mut refused) = (1_000_000_i64, Vec::new(), 0);
        let looks = now + limits.timeout / 1000 * 1000;
        let mut model = Model { limits, rows: Vec::new(), dropped: Vec::new(), looks };
        table.catch_up(now, &mut held);
        let mut packets = 0;
        for event in events {
            if !matches!(event, Event::Time(_)) {
                table.catch_up(now, &mut held);
                model.look(now);
            }
            match event {
                Event::Time(later) => now += later,
                Event::Clear => {
                    // Table and model must drop the packets in the same order: packets of the oldest entry
                    // first.
                    table.clear(&mut held);
                    model.rows.drain(..).for_each(|row| model.dropped.extend(row.packets));
                }
                Event::Reply(address, mac) => {
                    let mac = MacAddr([2, 0, 0, 0, 0, mac]);
                    table.insert(address, mac, now, &mut held);
                    let waited: Vec<u32> = held.queues.entry(address).or_default().drain(..).collect();
                    table.released(address, waited.len());
                    model.insert(address, mac, now);
                    let expected = std::mem::take(&mut model.rows.last_mut().unwrap().packets);
                    prop_assert_eq!(&waited, &expected);
                    sent.extend(waited);
                }
                Event::Packet(address) => {
                    packets += 1;
                    let found = table.look_up(address, now, poll);
                    prop_assert_eq!(found, model.look_up(address, now, poll));
                    if found.is_some() {
                        sent.push(packets);
                    } else {
                        let queued = held.queues.get(&address).map_or(0, VecDeque::len);
                        let admission = table.admit(address, now, queued, &mut held);
                        prop_assert_eq!(admission, model.admit(address, now, packets));
                        match admission.waits {
                            true => held.queues.entry(address).or_default().push_back(packets),
                            false => refused += 1,
                        }
                    }
                }
            }
            let waiting: usize = held.queues.values().map(VecDeque::len).sum();
            prop_assert_eq!(&held.dropped, &model.dropped);
            prop_assert_eq!((table.waiting(), waiting), (model.waiting(), model.waiting()));
            prop_assert!(table.iter().map(|entry| entry.address).eq(model.rows.iter().map(|row| row.address)));
            prop_assert!(limits.packets == 0 || waiting <= limits.packets);
            prop_assert!(limits.entries == 0 || table.len() <= limits.entries);
            prop_assert_eq!(table.drops(), held.dropped.len() as u64 + refused);
            prop_assert_eq!(packets as usize, sent.len() + waiting + held.dropped.len() + refused as usize);
        }
    }
}

#[test]
fn ten_queries_a_second_and_then_one_in_two() {
    let limits = Limits {
        packets: 0,
        entries: 0,
        packets_per_entry: 1,
        slim_factor: 2,
        timeout: 300_000,
        pace: ARP_PACE,
        keeps_known: false,
    };
    let mut table = Table::<u32>::new(limits);
    let asked: Vec<i64> =
        (0..6000).filter(|&now| table.admit(7, now, usize::from(now > 0), &mut NoWaiters).query).collect();
    let expected: Vec<i64> = (0..10).map(|n| n * 100).chain([2900, 4900]).collect();
    assert_eq!(asked, expected);
    assert_eq!((table.waiting(), table.drops()), (1, 5999));
    assert_eq!(table.show(6500), "0.0.0.7 0 FF-FF-FF-FF-FF-FF 6.500000\n");
    table.insert(7, MacAddr([2, 0, 0, 0, 0, 0xab]), 7000, &mut NoWaiters);
    assert_eq!(table.show(8250), "0.0.0.7 1 02-00-00-00-00-AB 1.250000\n");
    assert_eq!(table.look_up(7, 307_000, 60_000), Some((MacAddr([2, 0, 0, 0, 0, 0xab]), true)));
    assert_eq!(table.look_up(7, 307_001, 60_000), None);
}
