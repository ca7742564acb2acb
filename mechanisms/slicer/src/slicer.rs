//! # Slicer
//! Connects clients and a network function, which receives headers only.
//!
//! Input and output 0 face the clients, input and output 1 the network function. Packets from clients leave
//! to the network function sliced, as by Slice, and packets that return leave to the clients joined, as by
//! Splice. A network function with several interfaces has a Slicer at each interface, with one PayloadTable
//! for all: packets that enter at one Slicer may leave at another. Without TABLE, the element has a table
//! of its own, for one interface.
//!
//! ## Usage
//! `Slicer([TABLE, KEYWORDS])`
//!
//! ## Arguments
//! - `TABLE`: the PayloadTable; the arguments from ENTRIES on are then ignored.
//! - `THRESHOLD`, `LONGEST`, `BYTES`, `FRACTION`, `TAIL`: as for Slice.
//! - `MTU`: as for Splice; outputs 2 and 3 correspond to its outputs 1 and 2.
//! - `ENTRIES`, `TTL`, `TIMEOUT`, `MARKER`, `LINE_RATE`, `SERVICE_TIME`: as for PayloadTable.
//!
//! ## Handlers
//! - `threshold`, `longest`, `bytes`, `fraction`, `tail`: as for Slice.
//! - `entries`, `ttl`, `timeout`, `marker`: as for PayloadTable. With TABLE, these values and all counts
//!   below are those of that table.
//! - `waiting`, `occupancy`, `sliced`, `large`, `spliced`, `tunnelled`, `missing`: as for PayloadTable.
//! - `bytes_in`, `bytes_crossed`, `ratio`: as for PayloadTable.
//! - `small`, `long`, `unsuitable`, `occupied`, `no_buffer`, `remarked`: as for PayloadTable, about packets
//!   that passed whole.
//! - `foreign`, `expired`, `late`, `repeated`, `no_token`, `changed`, `hidden`, `unmarked`: as for
//!   PayloadTable, about packets that were dropped or did not return as they left.
//! - `quoted`, `unrestored`: as for PayloadTable, about ICMP errors.
//! - `reset`: sets all counts to zero.
//!
//! ## Example
//! ```click
//! t :: PayloadTable;
//! a, b :: Slicer(t);
//! FromDevice(client) -> a; a [1] -> ToDevice(nf0); FromDevice(nf0) -> [1] a; a -> ToDevice(client);
//! FromDevice(server) -> b; b [1] -> ToDevice(nf1); FromDevice(nf1) -> [1] b; b -> ToDevice(server);
//! ```
//!
//! ## See also
//! Slice, Splice, PayloadTable

use std::any::Any;
use std::sync::Arc;

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Sliced, Support};
use element::{Args, Batch, Class, Cx, Effects, Element, ElementId, Invalid, StatePart, manual};

use crate::effects::{ETHERNET_START, case, table_state};
use crate::offloads::Offloads;
use crate::payload_table::{self, HasTable, read_settings};
use crate::payloads::{Payloads, State};
use crate::slice::{SLICING, Slices, read_slicing, table_of};
use crate::slicing::Slicing;
use crate::splice::MTU;
use crate::splicing::Splicing;

/// The element class `Slicer`.
pub static CLASS: Class = Class {
    name: "Slicer",
    ports: "2/2-4",
    processing: "h/h",
    flow: "xy/yxyy",
    manual: manual!("slicer.rs"),
    args: &ARGS,
    table: &[Slicer::SLICING_HANDLERS, Slicer::TABLE_HANDLERS],
    state: &[
        StatePart::kept("payloads", &["waiting"]),
        StatePart::kept(
            "counts",
            &[
                "occupancy",
                "sliced",
                "large",
                "spliced",
                "tunnelled",
                "missing",
                "bytes_in",
                "bytes_crossed",
                "ratio",
                "small",
                "long",
                "unsuitable",
                "occupied",
                "no_buffer",
                "remarked",
                "foreign",
                "expired",
                "late",
                "repeated",
                "no_token",
                "changed",
                "hidden",
                "unmarked",
                "quoted",
                "unrestored",
            ],
        ),
    ],
    samples: &["", "THRESHOLD 100, ENTRIES 3, TTL 2", "MARKER none, BYTES 160, FRACTION 0.5"],
    build,
    ..Class::DEFAULT
};

const ARGS: [ArgInfo; 13] = {
    let [threshold, longest, bytes, fraction, tail] = SLICING;
    let [entries, ttl, timeout, marker, rate, time] = payload_table::ARGS;
    let table = ArgInfo::positional("TABLE", "element", "");
    [table, threshold, longest, bytes, fraction, tail, MTU, entries, ttl, timeout, marker, rate, time]
};

/// The numbers of the input and output towards the clients, and towards the network function.
const CLIENTS: usize = 0;
const FUNCTION: usize = 1;

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let table = args.get("TABLE").map(|ElementRef(element)| table_of(args, element));
    let settings = read_settings(args);
    let slicing = read_slicing(args);
    let mtu = args.value::<u32>("MTU");
    args.finish()?;
    let (table, payloads) = match table {
        Some(found) => found.ok_or(Invalid)?,
        None => (args.id(), Payloads::new(args, settings)),
    };
    let owns_table = table == args.id();
    slicing.tell(&payloads);
    let (splicing, offloads) = (Splicing::new(mtu, 2), Offloads::default());
    Ok(Box::new(Slicer { table, owns_table, payloads, slicing, splicing, offloads }))
}

struct Slicer {
    table: ElementId,
    owns_table: bool,
    payloads: Arc<Payloads>,
    slicing: Slicing,
    splicing: Splicing,
    offloads: Offloads,
}

impl Slices for Slicer {
    fn slicing(&self) -> &Slicing {
        &self.slicing
    }
}

impl HasTable for Slicer {
    fn payloads(&self) -> &Payloads {
        &self.payloads
    }
}

impl Element for Slicer {
    fn effects(&self) -> Effects {
        let is_whole = !self.payloads.open().leaves_rest;
        let offloads = self.slicing.is_whole().then_some(ETHERNET_START);
        let mut cases = vec![case(CLIENTS, FUNCTION, "sliced", self.slicing.is_whole())];
        cases.extend(self.splicing.cases(FUNCTION, CLIENTS, is_whole));
        let marks = self.payloads.settings.marks;
        let sliced =
            Sliced { parks: Some((FUNCTION, self.table)), joins: Some((FUNCTION, self.table)), marks };
        Effects {
            state: vec![table_state()],
            support: Support { sliced, offloads, ..Support::default() },
            ..Effects::cases(cases)
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.offloads = Offloads::new(cx.graph());
        if self.owns_table { self.payloads.start(cx) } else { Ok(()) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        let (offloads, output) = (&mut self.offloads, 1 - port);
        if port == CLIENTS {
            self.slicing.slice_all(cx, &self.payloads, (offloads, output), &mut batch);
        } else {
            self.splicing.splice_all(cx, &self.payloads, (offloads, output), port, &mut batch);
        }
        cx.emit(output, batch);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.payloads.look(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.owns_table {
            self.payloads.close(cx.pool());
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        self.owns_table.then(|| Box::new(self.payloads.take_state()) as Box<dyn Any + Send>)
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        match state.downcast::<State>() {
            Ok(state) if self.owns_table => self.payloads.put_state(cx, *state),
            Ok(state) => Payloads::give_up(cx.pool(), *state),
            Err(_) => return Err("the state of another class".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    const PAIR: &str = "t :: PayloadTable; a, b :: Slicer(t);
        source :: InfiniteSource(LENGTH 1000, LIMIT 3) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
            -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> a;
        a [1] -> [1] b; b -> c :: Counter -> Discard;
        Idle -> [1] a; a -> Discard; Idle -> b; b [1] -> Discard;";

    fn check(run: TestRun, config: &str) {
        let outcome = run.text(config, &["a.sliced", "b.spliced", "t.spliced", "c.byte_count"]).unwrap();
        let values: Vec<String> = outcome.values.into_iter().map(Result::unwrap).collect();
        assert_eq!(values, ["3", "3", "3", &(3 * (14 + 20 + 8 + 1000)).to_string()]);
    }

    #[test]
    fn what_comes_in_at_one_leaves_at_another_one() {
        check(TestRun::default(), PAIR);
    }

    #[test]
    fn each_worker_has_a_table() {
        check(TestRun::trace().on(2), &(PAIR.to_string() + "StaticThreadSched(source 1)"));
    }
}
