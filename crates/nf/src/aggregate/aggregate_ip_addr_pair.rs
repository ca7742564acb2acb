//! # AggregateIPAddrPair
//! Sets the aggregate annotation to the number of the packet's pair of IPv4 addresses.
//!
//! Pairs are numbered from 1 on in the order of their first packets. Both directions have the same number;
//! the paint annotation is 0 for packets in the direction of the first packet of their pair, and 1 for
//! replies. Packets without network header annotation go to output 1, or are dropped. So are packets of new
//! pairs while the table has CAPACITY pairs.
//!
//! Elements that listen to the end of aggregates, such as AggregateFirst, can name this element as NOTIFIER.
//!
//! ## Usage
//! `AggregateIPAddrPair([KEYWORDS])`
//!
//! ## Arguments
//! - `TIMEOUT`: seconds without packets after which a pair is forgotten, by the packets' time stamps; its
//!   next packet gets a new number. 0 for never.
//! - `REAP`: the seconds between two searches for pairs to forget.
//! - `CAPACITY`: the largest number of pairs that are remembered; memory for them is reserved at the start,
//!   and used (about 50 bytes per pair) as pairs come.
//!
//! ## Handlers
//! - `clear`: forgets all pairs. Numbers go on.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> AggregateIPAddrPair
//!     -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateIPFlows, AggregateIP, AggregateCounter

use std::any::Any;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Depends, Field, HeaderKind, PAINT, Predicate, wire_field};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};
use packet::Annotations;

use super::notifier::Notifier;
use super::{AGGREGATE, for_capacity};
use crate::editing::{Fate, aside, each_or_aside, ipv4, otherwise, pure, refused};
use crate::memory::reserved_map;

/// The element class `AggregateIPAddrPair`.
pub static CLASS: Class = Class {
    name: "AggregateIPAddrPair",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_ip_addr_pair.rs"),
    args: &[
        ArgInfo::keyword("TIMEOUT", "seconds", "0"),
        ArgInfo::keyword("REAP", "seconds", "1200"),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("pairs", &[]), StatePart::kept("numbers", &[])],
    samples: &["", "TIMEOUT 2, REAP 1, CAPACITY 4 -> 1/2"],
    build: |args| {
        let [timeout, reap] = ["TIMEOUT", "REAP"].map(|name| args.value::<Timestamp>(name).parts().0);
        let notifier = Arc::<Notifier>::default();
        args.setup.publish(args.id(), Arc::clone(&notifier));
        let mut capacity = 0;
        let pairs = for_capacity(args, |most| {
            capacity = most;
            reserved_map(most)
        })?;
        let numbers = Numbers { given: 0, active: 0, reaps: 0 };
        Ok(Box::new(AggregateIpAddrPair { timeout, reap, capacity, pairs, numbers, notifier }))
    },
    ..Class::DEFAULT
};

/// Two addresses, the smaller one first.
type Pair = [Ipv4Addr; 2];

/// The entry of a pair.
#[derive(Clone, Copy)]
struct Entry {
    number: u32,
    /// True if the first packet went from the larger address to the smaller one.
    reverse: bool,
    /// The time stamp of the last packet in seconds.
    last: i64,
}

#[derive(Clone, Copy)]
struct Numbers {
    /// The last number that was given to a pair.
    given: u32,
    /// The time stamp of the last packet in seconds.
    active: i64,
    /// The time in seconds after which pairs are searched for the next time; 0 before the first packet.
    reaps: i64,
}

struct AggregateIpAddrPair {
    /// The seconds after which a pair is forgotten; 0 for never.
    timeout: i64,
    reap: i64,
    capacity: usize,
    pairs: HashMap<Pair, Entry>,
    numbers: Numbers,
    notifier: Arc<Notifier>,
}

impl AggregateIpAddrPair {
    /// Forgets the pairs whose last packet was before `time`.
    fn forget(&mut self, time: i64) {
        let notifier = &self.notifier;
        self.pairs.retain(|_, entry| {
            let stays = entry.last >= time;
            if !stays {
                notifier.ended(entry.number);
            }
            stays
        });
    }

    fn annotate(&mut self, packet: &mut Packet, now: Timestamp) -> Fate {
        let ip = ipv4(packet)?;
        let [source, destination] =
            [ip.source, ip.destination].map(|address| Ipv4Addr::from(address.to_bytes()));
        let reverse = source > destination;
        let pair = if reverse { [destination, source] } else { [source, destination] };
        let mut time = 0;
        if self.timeout > 0 {
            if !packet.time().is_set() {
                packet.set_time(now);
            }
            time = packet.time().parts().0;
        }
        let mut entry = self.pairs.get(&pair).copied();
        if let Some(old) = entry.filter(|entry| self.timeout > 0 && entry.last < time - self.timeout) {
            self.notifier.ended(old.number);
            entry = None;
        } else if entry.is_none() && self.pairs.len() >= self.capacity {
            return Err(DropReason::TableFull);
        }
        let mut entry = entry.unwrap_or_else(|| {
            self.numbers.given = self.numbers.given.checked_add(1).unwrap_or(1);
            Entry { number: self.numbers.given, reverse, last: time }
        });
        entry.last = time;
        self.pairs.insert(pair, entry);
        let annotations = packet.annotations_mut();
        annotations.set_u32(Annotations::AGGREGATE, entry.number);
        annotations.set_u8(Annotations::PAINT, (entry.reverse != reverse).into());
        if self.timeout > 0 {
            self.numbers.active = time;
            if time > self.numbers.reaps {
                if self.numbers.reaps > 0 {
                    self.forget(time - self.timeout);
                }
                self.numbers.reaps = time.saturating_add(self.reap);
            }
        }
        Ok(())
    }
}

impl Element for AggregateIpAddrPair {
    fn effects(&self) -> Effects {
        let reads = [wire_field::IP_SRC, wire_field::IP_DST];
        let full = refused("no room for the pair", &reads, DropReason::TableFull);
        let number = [pure(AGGREGATE, "number of the pair", &reads), pure(PAINT, "direction", &reads)];
        let mut actions = number.to_vec();
        let mut effects = Effects::cases(Vec::new()).depending_on(Depends::Handler);
        if self.timeout > 0 {
            actions.push(pure(Field::TimeStamp, "now if not set", &[Field::TimeStamp]));
            effects = effects.depending_on(Depends::Time);
        }
        effects.cases = vec![
            aside(Predicate::present(HeaderKind::Ipv4).not(), DropReason::NoHeader),
            full,
            otherwise(actions),
        ];
        // Numbers are given in the order in which packets come, whatever their addresses.
        effects.sharing("pairs")
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        each_or_aside(cx, batch, |packet| self.annotate(packet, now));
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.pairs), self.numbers)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = state.downcast::<(HashMap<Pair, Entry>, Numbers)>();
        let (pairs, numbers) = *state.map_err(|_| "not the state of an AggregateIPAddrPair")?;
        self.numbers = numbers;
        // Pairs beyond a smaller CAPACITY are forgotten.
        for (pair, entry) in pairs {
            if self.pairs.len() < self.capacity {
                self.pairs.insert(pair, entry);
            } else {
                self.notifier.ended(entry.number);
            }
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<AggregateIpAddrPair>] = &[Handler::act("clear", |e| e.forget(i64::MAX))];
