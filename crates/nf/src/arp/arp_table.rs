//! # ARPTable
//! Keeps Ethernet addresses by IPv4 address, shared by several ARPQueriers.
//!
//! An ARPQuerier without the argument TABLE has a table of its own. Packets wait in the ARPQuerier at which
//! they arrived; the bounds on packets count the packets of all of them.
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
//!   CAPACITY - CAPACITY/N wait, packets for the oldest entries first.
//! - `TIMEOUT`: the time that an address is valid after the last reply; 0 for ever.
//!
//! ## Handlers
//! - `table`: a line per entry, oldest first: IPv4 address, 1 if its Ethernet address is known, else 0,
//!   Ethernet address, seconds since the last reply.
//! - `drops`: packets whose address was not answered in time, or that were refused because too many wait.
//! - `count`: entries.
//! - `length`: packets that wait.
//! - `insert`: `IP ETHER`: notes an address, as a reply would.
//! - `delete`: forgets the Ethernet address of an IPv4 address.
//! - `clear`: removes all entries, and drops the packets that wait.
//!
//! ## Example
//! ```click
//! t :: ARPTable; InfiniteSource(LIMIT 1) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14) -> CheckIPHeader(CHECKSUM false)
//!     -> a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard; Idle -> [1] a
//! ```
//!
//! ## See also
//! ARPQuerier, ARPResponder

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::Arg;
use element::class::{HandlerInfo, Phase};
use element::{Class, Cx, Effects, Element, manual};
use lang::args::split_spaces;
use wire::MacAddr;

use super::table::{self, Limits, NoWaiters, Shared, Table, Waiters};

/// The class.
pub static CLASS: Class = Class {
    name: "ARPTable",
    ports: "0/0",
    manual: manual!("arp_table.rs"),
    args: &table::ARGS,
    handlers: &HANDLERS,
    phase: Phase::Service,
    samples: &["", "CAPACITY 4, TIMEOUT 10"],
    reconfigures: true,
    build: |args| {
        let limits = Limits::read(args);
        args.finish()?;
        // If the element is replaced because of other arguments, the ARPQueriers still refer to the
        // existing table. It is therefore kept, and gets the new limits.
        let id = args.id();
        let common = Arc::clone(&args.setup.common);
        let shared = args.setup.service(id).unwrap_or_else(|| common.get_or_make(id, || Shared::new(limits)));
        shared.open().set_limits(limits);
        args.setup.publish(args.id(), Arc::clone(&shared));
        Ok(Box::new(ArpTable { shared }))
    },
    ..Class::DEFAULT
};

/// The handlers of the table, which ARPTable and ARPQuerier both have.
pub(super) const HANDLERS: [HandlerInfo; 7] = [
    HandlerInfo::read("table"),
    HandlerInfo::count("drops"),
    HandlerInfo::read("count"),
    HandlerInfo::read("length"),
    HandlerInfo::write("insert"),
    HandlerInfo::write("delete"),
    HandlerInfo::write("clear"),
];

/// Splits a handler's value into exactly N words. The errors, for missing or additional words, use the
/// names.
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

/// Returns the text of one of the table's read handlers; any other name means `drops`.
pub(super) fn read(table: &Table, cx: &Cx<'_>, name: &str) -> String {
    match name {
        "table" => table.show(table::now(cx)),
        "count" => table.len().to_string(),
        "length" => table.waiting().to_string(),
        _ => table.drops().to_string(),
    }
}

/// A change that a write handler requests: an Ethernet address for an IPv4 address (the broadcast address
/// to forget it), or the removal of all entries.
pub(super) enum Change {
    Insert(u32, MacAddr),
    Clear,
}

impl Change {
    /// Parses the value of the write handler `insert` or `delete`; any other name means `clear`. The error
    /// says which word is wrong.
    pub(super) fn parse(cx: &Cx<'_>, name: &str, value: &str) -> Result<Change, String> {
        let place = cx.place();
        let ip = |text: &str| Ipv4Addr::parse(text, &place).map_err(|e| format!("IP: {e}"));
        Ok(match name {
            "insert" => {
                let [address, mac] = words(value, ["IP", "ETH"])?;
                let mac = MacAddr::parse(&mac, &place).map_err(|e| format!("ETH: {e}"))?;
                Change::Insert(ip(&address)?.to_bits(), mac)
            }
            "delete" => {
                let [address] = words(value, ["IP"])?;
                Change::Insert(ip(&address)?.to_bits(), MacAddr::BROADCAST)
            }
            _ => Change::Clear,
        })
    }

    /// Makes the change in a table at the time `now`, in milliseconds. `waiters` drops packets whose
    /// entries are removed.
    pub(super) fn apply(&self, table: &mut Table, now: i64, waiters: &mut dyn Waiters) {
        match *self {
            // If there is no memory for the entry, nothing is inserted; the oldest entry has been evicted
            // even so.
            Change::Insert(address, mac) => _ = table.insert(address, mac, now, waiters),
            Change::Clear => table.clear(waiters),
        }
    }
}

struct ArpTable {
    shared: Arc<Shared>,
}

impl ArpTable {
    /// Brings the table up to date, calls `work`, and notifies the ARPQueriers that use the table if
    /// something has changed for their waiting packets.
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
}

impl Element for ArpTable {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.shared.open().set_seed(cx.hash_seed());
        self.with(cx, |_, _| {});
        Ok(())
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(self.with(cx, |cx, table| read(table, cx, name)))
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        let change = Change::parse(cx, name, value)?;
        self.with(cx, |cx, table| change.apply(table, table::now(cx), &mut NoWaiters));
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        // This is called only if another ARPTable replaces this one, so the ARPQueriers no longer need it.
        Some(Box::new(Arc::clone(&self.shared)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let old: Arc<Shared> = *state.downcast().map_err(|_| "not the state of a table")?;
        if !Arc::ptr_eq(&old, &self.shared) {
            let table = old.open().take();
            self.shared.open().go_on_with(table);
        }
        Ok(())
    }
}
