//! # PayloadTable
//! Keeps the payloads of sliced packets until their headers come back.
//!
//! Slice parks the payloads of packets here, and Splice puts them back; all of them that name one table belong together. Each
//! worker has a table of its own, and a token says which; where a network function brings a packet back to another worker, it
//! is handed over to the one that has its payload.
//!
//! Entries are given out one after the other, round and round. One that is still in use when its turn comes again loses one of
//! TTL turns, and the packet that it was to take passes whole; when all are lost, the payload goes, because the network
//! function has dropped what it belongs to. So nothing is dropped where the table is full, and what a network function drops
//! takes up an entry for TTL rounds. Where it drops much, few packets are sliced; a small TTL helps, or more entries. A payload
//! also goes when it has waited for TIMEOUT, so that none stays where no more packets come.
//!
//! A token is 16 bytes long: an AES block of the worker, the entry, a number that the entry does not use again, and 48 zeros,
//! which nobody who does not have the key can make up. The key is new at each start; where packets come from captures alone it is
//! always the same, so that results are.
//!
//! ## Usage
//! `PayloadTable([KEYWORDS])`
//!
//! ## Arguments
//! - `ENTRIES`: payloads that wait at a time, per worker; where less than an eighth of the packet memory is free, packets pass whole. `auto` is as
//!   many as packets of 500 bytes can come at the line rate within the service time.
//! - `TTL`: how many times an entry's turn may come before its payload goes.
//! - `TIMEOUT`: how long a payload waits before it goes, if it has turns left; it goes up to a third of that later. 0 is for as
//!   long as it has turns. It has to be longer than any packet takes through the network function.
//! - `MARKER`: `dscp` gives sliced packets the DSCP 63, so that none gets lost unnoticed; packets that come with it from outside
//!   are sliced whatever their size, so that they are not mistaken for others. `none` leaves the DSCP alone: for network
//!   functions that read or write it. The token alone then tells sliced packets.
//! - `LINE_RATE`: how fast packets come.
//! - `SERVICE_TIME`: how long the network function takes for one, and the ways to it and back; a bare number is microseconds.
//!
//! ## Handlers
//! - `entries`, `ttl`, `timeout`, `marker`: the arguments.
//! - `waiting`: payloads that wait.
//! - `occupancy`: how many waited when batches came: lines with an upper bound, and how often it was below.
//! - `sliced`, `spliced`: packets.
//! - `tunnelled`: those of `spliced` that came back inside of a tunnel and were joined there.
//! - `missing`: sliced packets of which nothing has come back: their payloads went by TTL or TIMEOUT, and no header of theirs has
//!   come since. The network function has dropped them, or their tokens cannot be seen any more. If it grows by more than the network
//!   function drops, data are lost: see docs/slicer.md. A message says so where more are missing than come back.
//! - `bytes_in`, `bytes_crossed`: bytes that came to be sliced, and that went on to the network function.
//! - `ratio`: how many times fewer these are.
//! - `small`: packets that passed whole because slicing is not worth it.
//! - `long`: the same because they are longer than LONGEST.
//! - `unsuitable`: the same because they are no whole segment of TCP and no whole datagram of UDP, open or reset a connection,
//!   have urgent data, go to a group of hosts, or have headers of more than 112 bytes.
//! - `occupied`: the same because the entry was in use.
//! - `no_buffer`: the same because there was no packet memory.
//! - `remarked`: packets from outside with the DSCP of the mark, or with a packet inside that has it, that had to pass whole, and have lost it.
//! - `foreign`: packets from outside with a token that somebody has seen, which could not be parked; they were dropped.
//! - `expired`: payloads that went because nobody fetched them.
//! - `late`: sliced packets that came back after that; they were dropped.
//! - `repeated`: sliced packets that came back once more; they were dropped.
//! - `no_token`: marked packets with no token of ours, or with a part of one, also in tunnels; they were dropped.
//! - `hidden`: sliced packets inside of others where they cannot be joined: in a tunnel that is not known, fragmented, cut, or
//!   protected by a checksum that nobody here can make (AH, MACsec); they were dropped.
//! - `changed`: sliced packets to which bytes have been added, or that lack some; they were dropped.
//! - `unmarked`: sliced packets that came back with another DSCP than that of the mark, which they keep: the network function
//!   writes it. With `MARKER none`, nothing is lost by that. A message says so at the first of them.
//! - `quoted`: ICMP errors of the network function in which the original packet was put in place of the sliced one.
//! - `unrestored`: ICMP errors that quote too little of a sliced packet for that.
//! - `reset`: sets all counts to zero.
//!
//! ## Example
//! ```click
//! t :: PayloadTable(ENTRIES 4000);
//! InfiniteSource(LENGTH 1000, LIMIT 3) -> Slice(t) -> Splice(t) -> Discard
//! ```
//!
//! ## See also
//! Slice, Splice, Slicer

use std::any::Any;
use std::sync::Arc;

use element::args::{Arg, Micros, Place};
use element::class::{ArgInfo, HandlerInfo, Phase};
use element::{Args, Class, Cx, Effects, Element, Timestamp, manual};

use crate::payloads::{Payloads, Settings, State};
use crate::slice::table_state;

/// The class.
pub static CLASS: Class = Class {
    name: "PayloadTable",
    ports: "0/0",
    manual: manual!("payload_table.rs"),
    args: &ARGS,
    handlers: &HANDLERS,
    phase: Phase::Service,
    samples: &["", "ENTRIES 8, TTL 2, TIMEOUT 10ms, MARKER none", "LINE_RATE 100Gbps, SERVICE_TIME 10us"],
    build: |args| {
        let settings = read_settings(args);
        args.finish()?;
        let payloads = Payloads::new(args, settings);
        args.setup.publish(args.id(), Arc::clone(&payloads));
        Ok(Box::new(PayloadTable { payloads }))
    },
    ..Class::DEFAULT
};

/// Arguments of everybody who has a table.
pub(crate) const ARGS: [ArgInfo; 6] = [
    ArgInfo::keyword("ENTRIES", "unsigned", "auto"),
    ArgInfo::keyword("TTL", "unsigned", "10"),
    ArgInfo::keyword("TIMEOUT", "seconds", "5"),
    ArgInfo::keyword("MARKER", "word", "dscp"),
    ArgInfo::keyword("LINE_RATE", "bandwidth", "10Gbps"),
    ArgInfo::keyword("SERVICE_TIME", "microseconds", "1ms"),
];

/// Handlers of everybody who has a table.
pub(crate) const HANDLERS: [HandlerInfo; 30] = [
    HandlerInfo::read("entries"),
    HandlerInfo::read("ttl"),
    HandlerInfo::read("timeout"),
    HandlerInfo::read("marker"),
    HandlerInfo::count("waiting"),
    HandlerInfo::count("occupancy"),
    HandlerInfo::count("sliced"),
    HandlerInfo::count("spliced"),
    HandlerInfo::count("tunnelled"),
    HandlerInfo::count("missing"),
    HandlerInfo::count("bytes_in"),
    HandlerInfo::count("bytes_crossed"),
    HandlerInfo::read("ratio"),
    HandlerInfo::count("small"),
    HandlerInfo::count("long"),
    HandlerInfo::count("unsuitable"),
    HandlerInfo::count("occupied"),
    HandlerInfo::count("no_buffer"),
    HandlerInfo::count("remarked"),
    HandlerInfo::count("foreign"),
    HandlerInfo::count("expired"),
    HandlerInfo::count("late"),
    HandlerInfo::count("repeated"),
    HandlerInfo::count("no_token"),
    HandlerInfo::count("changed"),
    HandlerInfo::count("hidden"),
    HandlerInfo::count("unmarked"),
    HandlerInfo::count("quoted"),
    HandlerInfo::count("unrestored"),
    HandlerInfo::write("reset"),
];

/// A number, or `auto`.
struct Auto(Option<u32>);

impl Arg for Auto {
    fn parse(text: &str, place: &Place<'_>) -> Result<Auto, String> {
        match text.trim() {
            "auto" => Ok(Auto(None)),
            text => u32::parse(text, place).map(|number| Auto(Some(number))),
        }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

/// How sliced packets are told from others.
struct Marker(bool);

impl Arg for Marker {
    fn parse(text: &str, _: &Place<'_>) -> Result<Marker, String> {
        match text.trim() {
            "dscp" => Ok(Marker(true)),
            "none" => Ok(Marker(false)),
            _ => Err("expected 'dscp' or 'none'".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// Reads the arguments of a table.
pub(crate) fn read_settings(args: &mut Args<'_>) -> Settings {
    let default = Settings::DEFAULT;
    Settings {
        entries: args.or("ENTRIES", Auto(default.entries)).0,
        turns: args.or("TTL", default.turns),
        timeout: args.or("TIMEOUT", default.timeout).max(Timestamp::ZERO),
        marks: args.or("MARKER", Marker(default.marks)).0,
        line_rate: args.or("LINE_RATE", default.line_rate),
        service_time: args.or("SERVICE_TIME", Micros(default.service_time)).0,
    }
}

/// Answers a read handler.
pub(crate) fn read(payloads: &Payloads, name: &str) -> String {
    let state = payloads.open();
    let counts = &state.counts;
    let count = match name {
        "timeout" => return payloads.settings.timeout.as_interval(),
        "marker" => return if payloads.settings.marks { "dscp" } else { "none" }.into(),
        "occupancy" => return counts.occupancy.show_with(""),
        "ratio" => {
            let crossed = counts.bytes_crossed.max(1) as f64;
            return format!("{:.1}", counts.bytes_in as f64 / crossed);
        }
        "entries" => state.table.capacity() as u64,
        "ttl" => payloads.settings.turns.into(),
        "waiting" => state.table.waiting() as u64,
        "sliced" => counts.sliced,
        "spliced" => counts.spliced,
        "tunnelled" => counts.tunnelled,
        "missing" => counts.missing(),
        "bytes_in" => counts.bytes_in,
        "bytes_crossed" => counts.bytes_crossed,
        "small" => counts.small,
        "long" => counts.long,
        "unsuitable" => counts.unsuitable,
        "occupied" => counts.occupied,
        "no_buffer" => counts.no_buffer,
        "remarked" => counts.remarked,
        "foreign" => counts.foreign,
        "expired" => counts.expired,
        "late" => counts.late,
        "repeated" => counts.repeated,
        "no_token" => counts.no_token,
        "changed" => counts.changed,
        "hidden" => counts.hidden,
        "unmarked" => counts.unmarked,
        "quoted" => counts.quoted,
        _ => counts.unrestored,
    };
    count.to_string()
}

/// Does what a write handler says.
pub(crate) fn write(payloads: &Payloads, _name: &str) {
    payloads.open().counts = Default::default();
}

struct PayloadTable {
    payloads: Arc<Payloads>,
}

impl Element for PayloadTable {
    fn effects(&self) -> Effects {
        // Each worker has one.
        Effects { state: vec![table_state()], ..Effects::none() }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.payloads.start(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.payloads.look(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.payloads.close(cx.pool());
        Ok(())
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(read(&self.payloads, name))
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _value: &str) -> Result<(), String> {
        write(&self.payloads, name);
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.payloads.take_state()))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        match state.downcast::<State>() {
            Ok(state) => self.payloads.put_state(cx, *state),
            Err(_) => return Err("the state of another class".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use element::args::Bandwidth;

    use super::*;

    #[test]
    fn entries_follow_from_rate_and_service_time() {
        // The example of the paper (section III-C): 100 Gb/s of packets of 500 bytes, 10 us each.
        let settings = Settings {
            line_rate: Bandwidth(12_500_000_000),
            service_time: Micros::from_micros(10).0,
            ..Settings::DEFAULT
        };
        assert_eq!(settings.entries(), 250);
        assert_eq!(Settings::DEFAULT.entries(), 2500);
        assert_eq!(Settings { entries: Some(0), ..settings }.entries(), 1);
        assert_eq!(Settings { entries: Some(u32::MAX), ..settings }.entries(), 1 << 24);
    }
}
