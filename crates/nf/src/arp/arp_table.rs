//! # ARPTable
//! Keeps Ethernet addresses by IPv4 address, shared by several ARPQueriers.
//!
//! An ARPQuerier without the argument TABLE has a table of its own. Packets wait in the ARPQuerier at which
//! they arrived; CAPACITY counts the packets of all ARPQueriers together.
//!
//! ## Usage
//! `ARPTable([KEYWORDS])`
//!
//! ## Arguments
//! - `CAPACITY`: the largest number of packets that wait for addresses; 0 for no bound.
//! - `ENTRY_CAPACITY`: the largest number of entries, about 120 bytes each; 0 for no bound. When the table
//!   is full, the oldest entry without an answer is evicted, so that known neighbours stay; if there is
//!   none, the oldest entry. An unsolicited reply does not evict an entry.
//! - `ENTRY_PACKET_CAPACITY`: the largest number of packets that wait for one address in one ARPQuerier; 0
//!   for no bound. Further packets are dropped.
//! - `CAPACITY_SLIM_FACTOR`: a divisor N: when more than CAPACITY packets wait, packets are dropped until
//!   CAPACITY - CAPACITY/N wait, but at least one, packets for the oldest entries first.
//! - `TIMEOUT`: the time that an address is valid after the last reply; 0 for ever.
//!
//! ## Handlers
//! - `table`: a line per entry, oldest first: IPv4 address, 1 if its Ethernet address is known, else 0,
//!   Ethernet address, seconds since the last reply.
//! - `drops`: packets whose address was not answered in time, whose entry was removed, or that were refused
//!   because too many wait.
//! - `count`: entries.
//! - `length`: packets that wait.
//! - `insert`: `IP ETHER`: notes an address, as a reply would.
//! - `delete`: forgets the Ethernet address of an IPv4 address.
//! - `clear`: removes all entries, and drops the packets that wait.
//!
//! ## Example
//! ```click
//! t :: ARPTable; InfiniteSource(LIMIT 1) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14) ->
//! CheckIPHeader(CHECKSUM false)
//!     -> a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard; Idle -> [1] a
//! ```
//!
//! ## See also
//! ARPQuerier, ARPResponder

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::ArgType;
use element::class::ConfigurePhase;
use element::{
    Class, Cx, Damaged, Effects, Element, Handler, Loaded, SavedState, StatePart, StateWriter, manual,
};
use lang::args::split_spaces;
use wire::MacAddr;

use super::shared::Shared;
use super::table::{self, Limits, NoWaiters, Table, Waiters};

/// The element class `ARPTable`.
pub static CLASS: Class = Class {
    name: "ARPTable",
    ports: "0/0",
    manual: manual!("arp_table.rs"),
    args: &table::ARGS,
    table: &HANDLERS,
    phase: ConfigurePhase::Service,
    state: &[
        StatePart::kept("ARP table", &["table", "count"]).on_disk(),
        StatePart::kept("counts", &["drops"]),
    ],
    saved_form: table::FORM,
    samples: &["", "CAPACITY 4, TIMEOUT 10"],
    reconfigures: true,
    build: |args| {
        let limits = Limits::read(args);
        args.finish()?;
        // If the element is replaced because of other arguments, the ARPQueriers still refer to the
        // existing table. It is therefore kept, and gets the new limits when the new element is initialised.
        let id = args.id();
        let common = Arc::clone(&args.setup.common);
        let shared = args.setup.service(id).unwrap_or_else(|| common.get_or_make(id, || Shared::new(limits)));
        args.setup.publish(args.id(), Arc::clone(&shared));
        Ok(Box::new(ArpTable { shared, limits }))
    },
    ..Class::DEFAULT
};

/// Splits a value into exactly N words, whose names are for errors.
fn words<const N: usize>(text: &str, names: [&str; N]) -> Result<[String; N], String> {
    let mut words = split_spaces(text).into_iter().map(|word| word.text);
    let mut found = [const { String::new() }; N];
    for (place, name) in found.iter_mut().zip(names) {
        *place = words.next().ok_or_else(|| format!("{name}: required argument missing"))?;
    }
    match words.next() {
        Some(_) => Err("too many arguments".into()),
        None => Ok(found),
    }
}

/// A change that a write handler makes in a table.
pub(super) enum Change {
    Insert(u32, MacAddr),
    Clear,
}

impl Change {
    /// Parses the value of the handler `insert`.
    pub(super) fn insert(cx: &Cx<'_>, value: &str) -> Result<Change, String> {
        let [address, mac] = words(value, ["IP", "ETH"])?;
        let mac = MacAddr::parse(&mac, &cx.place()).map_err(|e| format!("ETH: {e}"))?;
        Ok(Change::Insert(parse_ip(cx, &address)?, mac))
    }

    /// Parses the value of the handler `delete`.
    pub(super) fn delete(cx: &Cx<'_>, value: &str) -> Result<Change, String> {
        let [address] = words(value, ["IP"])?;
        Ok(Change::Insert(parse_ip(cx, &address)?, MacAddr::BROADCAST))
    }

    /// Makes the change in a table at the time `now`, in milliseconds. `waiters` drops packets whose
    /// entries are removed.
    pub(super) fn apply(&self, table: &mut Table, now: i64, waiters: &mut dyn Waiters) {
        match *self {
            // If there is no memory for the entry, nothing is inserted; another entry may have been evicted
            // even so.
            Change::Insert(address, mac) => _ = table.insert(address, mac, now, waiters),
            Change::Clear => table.clear(waiters),
        }
    }
}

fn parse_ip(cx: &Cx<'_>, text: &str) -> Result<u32, String> {
    Ipv4Addr::parse(text, &cx.place()).map(Ipv4Addr::to_bits).map_err(|e| format!("IP: {e}"))
}

struct ArpTable {
    shared: Arc<Shared>,
    limits: Limits,
}

impl ArpTable {
    /// Removes expired entries from the table, calls `work`, and notifies the ARPQueriers that use the table
    /// if something has changed for their waiting packets.
    fn with<T>(&self, cx: &mut Cx<'_>, work: impl FnOnce(&Cx<'_>, &mut Table) -> T) -> T {
        let mut table = self.shared.open();
        let before = table.changes();
        table.catch_up(table::now(cx), &mut NoWaiters);
        let result = work(cx, &mut table);
        let has_changed = table.changes() != before;
        drop(table);
        if has_changed {
            self.shared.tell_others(cx);
        }
        result
    }

    fn change(&self, cx: &mut Cx<'_>, change: &Change) {
        self.with(cx, |cx, table| change.apply(table, table::now(cx), &mut NoWaiters));
    }
}

impl Element for ArpTable {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut table = self.shared.open();
        table.set_limits(self.limits);
        table.set_seed(cx.hash_seed());
        drop(table);
        self.with(cx, |_, _| {});
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        // The state is taken only if another ARPTable replaces this one, so the ARPQueriers no longer need
        // this table.
        Some(Box::new(Arc::clone(&self.shared)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let old: Arc<Shared> = *state.downcast().map_err(|_| "not the state of a table")?;
        self.shared.continue_with(&old);
        Ok(())
    }

    fn save_state(&mut self, cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        if self.shared.is_kept_by_other_copy(cx) { None } else { self.shared.open().save(from, out) }
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        match self.shared.is_kept_by_other_copy(cx) {
            true => Ok(Loaded::default()),
            false => self.shared.open().load(cx, state),
        }
    }
}

const HANDLERS: &[Handler<ArpTable>] = &[
    Handler::read("table", |e, cx, _| Ok(e.with(cx, |cx, table| table.show(table::now(cx))))),
    Handler::read("drops", |e, cx, _| Ok(e.with(cx, |_, table| table.drops().to_string()))),
    Handler::read("count", |e, cx, _| Ok(e.with(cx, |_, table| table.len().to_string()))),
    Handler::read("length", |e, cx, _| Ok(e.with(cx, |_, table| table.waiting().to_string()))),
    Handler::set("insert", |e, cx, text| {
        let change = Change::insert(cx, text)?;
        e.change(cx, &change);
        Ok(())
    }),
    Handler::set("delete", |e, cx, text| {
        let change = Change::delete(cx, text)?;
        e.change(cx, &change);
        Ok(())
    }),
    Handler::set("clear", |e, cx, _| {
        e.change(cx, &Change::Clear);
        Ok(())
    }),
];

#[cfg(test)]
mod tests {
    use element::{Args, Setup};

    use super::*;

    fn build(setup: &mut Setup, argument: &str) {
        let mut args = Args::new(setup, &CLASS, 0, (0, 0), true, vec![argument.into()]);
        assert!((CLASS.build)(&mut args).is_ok());
    }

    /// A change of the arguments can still be refused after the new element has been built.
    #[test]
    fn an_element_that_is_only_built_does_not_change_the_table() {
        let mut setup = Setup::new(None);
        build(&mut setup, "CAPACITY 4");
        let shared = setup.service::<Shared>(0).unwrap();
        build(&mut setup, "CAPACITY 9");
        assert_eq!(shared.open().limits().packets, 4);
    }
}
