//! # PayloadTable
//! Keeps the payloads of sliced packets until their headers return.
//!
//! Slice parks the payloads of packets here, and Splice joins them again; all elements that name one table
//! belong together. Each worker has a table of its own, and a token identifies the worker. If a network
//! function brings a packet back to another worker, the packet is handed over to the worker that has its
//! payload.
//!
//! Entries are assigned in rotation. If the next entry is still in use, the packet that was to take it passes
//! whole, and the entry loses one of its TTL turns. When it has lost all turns, its payload expires, because
//! the network function has probably dropped its packet. So no packets are dropped while the table is full,
//! except packets from outside with a valid token. Each packet that a network function drops takes up an
//! entry for TTL rounds or until TIMEOUT. If it drops many packets, few packets are sliced; a small TTL
//! helps, or more entries. A payload also expires when it has waited for TIMEOUT, so that no payload stays
//! after the last packet.
//!
//! A token is 16 bytes long: an AES block of the worker, the entry, a number that the entry does not use
//! again, and 48 zero bits. It cannot be forged without the key. The key is generated at each start; if all
//! packets come from captures it is always the same, so that results are repeatable.
//!
//! ## Usage
//! `PayloadTable([KEYWORDS])`
//!
//! ## Arguments
//! - `ENTRIES`: the maximum number of payloads that wait at a time, per worker; if less than an eighth of
//!   the packet pool is free, packets pass whole. A payload takes one entry and the memory of its packet, up
//!   to 33 buffers for a large segment. `auto` is the number of packets of 500 bytes that can
//!   arrive at the line rate within the service time.
//! - `TTL`: the number of times that the rotation finds an entry in use until its payload expires; at least
//!   1.
//! - `TIMEOUT`: the time that a payload waits before it expires even if its entry has turns left; it
//!   expires up to a third of that time later. With 0, a payload waits as long as it has turns. The time
//!   has to be longer than any packet takes through the network function.
//! - `MARKER`: `dscp` gives sliced packets the DSCP 63, so that no loss of a sliced packet goes unnoticed;
//!   packets that arrive with this DSCP from outside are sliced at any size, so that they are not mistaken
//!   for sliced packets. `none` leaves the DSCP unchanged, for network functions that read or write it.
//!   Sliced packets are then identified by the token alone.
//! - `LINE_RATE`: the rate at which packets arrive.
//! - `SERVICE_TIME`: the time that the network function takes for a packet, including the ways to it and
//!   back; a number without a unit is microseconds.
//!
//! ## Handlers
//! - `entries`, `ttl`, `timeout`, `marker`: the arguments.
//! - `waiting`: the number of payloads that wait.
//! - `occupancy`: the distribution of the number of payloads that waited after a batch was sliced: lines
//!   with a power of two, and the number of batches with numbers from half of it to below it.
//! - `sliced`, `spliced`: the number of packets that were sliced and that were joined.
//! - `large`: the number of packets among `sliced` that are large segments: each stands for many packets on
//!   the wire.
//! - `tunnelled`: the number of packets among `spliced` that returned inside of a tunnel and were joined
//!   there.
//! - `missing`: the number of sliced packets of which nothing has returned: their payloads expired by TTL
//!   or TIMEOUT, and their headers have not arrived since. The network function has dropped them, or their
//!   tokens cannot be seen any more. If it grows by more than the network function drops, data is lost: see
//!   docs/slicer.md. A message reports it if more packets are missing than return.
//! - `bytes_in`, `bytes_crossed`: the number of bytes that arrived to be sliced, and that were forwarded to
//!   the network function.
//! - `ratio`: `bytes_in` divided by `bytes_crossed`.
//! - `small`: the number of packets that passed whole because slicing is not worthwhile.
//! - `long`: the number of packets that passed whole because they are longer than LONGEST.
//! - `unsuitable`: the number of packets that passed whole because Slice cannot slice them. They are neither
//!   a complete TCP segment nor a complete UDP datagram, open or reset a connection, or go to a group of
//!   hosts. Or they have urgent data, a source route, IPv6 extension headers that may hide the payload or
//!   change checksums, or headers of more than 112 bytes.
//! - `occupied`: the number of packets that passed whole because the next entry was in use.
//! - `no_buffer`: the number of packets that passed whole because less than an eighth of the packet pool was
//!   free.
//! - `remarked`: the number of packets from outside with the DSCP of the mark, or with such a packet
//!   inside, that had to pass whole, and have lost the mark.
//! - `foreign`: the number of packets from outside with a valid token, which could not be parked; they were
//!   dropped.
//! - `expired`: the number of payloads that expired.
//! - `late`: the number of sliced packets that returned after their payload had expired, or after their
//!   entry had got another payload; they were dropped.
//! - `repeated`: the number of sliced packets that returned a second time; they were dropped.
//! - `no_token`: the number of marked packets without a valid token, or with a part of one, also in
//!   tunnels; they were dropped.
//! - `hidden`: the number of sliced packets inside of other packets where they cannot be joined: in an
//!   unknown tunnel, fragmented, cut, or protected by a checksum that cannot be computed here (AH, MACsec);
//!   they were dropped.
//! - `changed`: the number of sliced packets to which bytes have been added, or from which bytes have been
//!   removed; they were dropped.
//! - `unmarked`: the number of sliced packets that returned with another DSCP than the mark, which they
//!   keep: the network function writes the DSCP. With `MARKER none`, the mark is not needed. A message
//!   reports the first of these packets.
//! - `quoted`: the number of ICMP errors of the network function in which the sliced packet was replaced by
//!   the original packet.
//! - `unrestored`: the number of ICMP errors about a sliced packet that quote too little of it for that, or
//!   have extensions.
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

use element::args::{ArgType, Micros, Scope};
use element::class::{ArgInfo, ConfigurePhase};
use element::metrics;
use element::{Args, Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};

use crate::effects::table_state;
use crate::payloads::{Payloads, Settings, State};

/// The element class `PayloadTable`.
pub static CLASS: Class = Class {
    name: "PayloadTable",
    ports: "0/0",
    manual: manual!("payload_table.rs"),
    args: &ARGS,
    table: &PayloadTable::TABLE_HANDLERS,
    phase: ConfigurePhase::Service,
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

/// The arguments of all elements that have a table: PayloadTable and Slicer.
pub(crate) const ARGS: [ArgInfo; 6] = [
    ArgInfo::keyword("ENTRIES", "unsigned", "auto"),
    ArgInfo::keyword("TTL", "unsigned", "10"),
    ArgInfo::keyword("TIMEOUT", "seconds", "5"),
    ArgInfo::keyword("MARKER", "word", "dscp"),
    ArgInfo::keyword("LINE_RATE", "bandwidth", "10Gbps"),
    ArgInfo::keyword("SERVICE_TIME", "microseconds", "1ms"),
];

/// An element whose handlers show a table of payloads: PayloadTable, and Slicer with a table of its own or of
/// another element.
pub(crate) trait HasTable: Element + Sized {
    /// Returns the table of payloads that the handlers show.
    fn payloads(&self) -> &Payloads;

    /// The handlers of the table of payloads.
    const TABLE_HANDLERS: &'static [Handler<Self>] = &[
        Handler::get("entries", |e| e.payloads().open().table.capacity().to_string()),
        Handler::get("ttl", |e| e.payloads().settings.turns.to_string()),
        Handler::get("timeout", |e| e.payloads().settings.timeout.as_interval()),
        Handler::get("marker", |e| if e.payloads().settings.marks { "dscp" } else { "none" }.into()),
        Handler::<Self>::count("waiting", |e| e.payloads().open().table.waiting() as u64)
            .metric(metrics::PARKED_PAYLOADS),
        Handler::<Self>::get("occupancy", |e| e.payloads().open().counts.occupancy.show_with("")).summed(),
        Handler::count("sliced", |e| e.payloads().open().counts.sliced),
        Handler::count("large", |e| e.payloads().open().counts.large),
        Handler::count("spliced", |e| e.payloads().open().counts.spliced),
        Handler::count("tunnelled", |e| e.payloads().open().counts.tunnelled),
        Handler::<Self>::count("missing", |e| e.payloads().open().counts.missing())
            .metric(metrics::MISSING_PAYLOADS),
        Handler::<Self>::count("bytes_in", |e| e.payloads().open().counts.bytes_in)
            .metric(metrics::SLICED_BYTES),
        Handler::<Self>::count("bytes_crossed", |e| e.payloads().open().counts.bytes_crossed)
            .metric(metrics::CROSSED_BYTES),
        Handler::get("ratio", |e| {
            let counts = &e.payloads().open().counts;
            format!("{:.1}", counts.bytes_in as f64 / counts.bytes_crossed.max(1) as f64)
        }),
        Handler::count("small", |e| e.payloads().open().counts.small),
        Handler::count("long", |e| e.payloads().open().counts.long),
        Handler::count("unsuitable", |e| e.payloads().open().counts.unsuitable),
        Handler::count("occupied", |e| e.payloads().open().counts.occupied),
        Handler::count("no_buffer", |e| e.payloads().open().counts.no_buffer),
        Handler::count("remarked", |e| e.payloads().open().counts.remarked),
        Handler::count("foreign", |e| e.payloads().open().counts.foreign),
        Handler::count("expired", |e| e.payloads().open().counts.expired),
        Handler::count("late", |e| e.payloads().open().counts.late),
        Handler::count("repeated", |e| e.payloads().open().counts.repeated),
        Handler::count("no_token", |e| e.payloads().open().counts.no_token),
        Handler::count("changed", |e| e.payloads().open().counts.changed),
        Handler::count("hidden", |e| e.payloads().open().counts.hidden),
        Handler::count("unmarked", |e| e.payloads().open().counts.unmarked),
        Handler::count("quoted", |e| e.payloads().open().counts.quoted),
        Handler::count("unrestored", |e| e.payloads().open().counts.unrestored),
        Handler::act("reset", |e| e.payloads().open().counts = Default::default()),
    ];
}

/// An argument type: a number, or `auto` (`None`).
#[derive(Default)]
struct Auto(Option<u32>);

impl ArgType for Auto {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Auto, String> {
        match text.trim() {
            "auto" => Ok(Auto(None)),
            text => u32::parse(text, place).map(|number| Auto(Some(number))),
        }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

/// The argument MARKER; true for `dscp`: sliced packets are marked by their DSCP.
#[derive(Default)]
struct Marker(bool);

impl ArgType for Marker {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Marker, String> {
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

/// Reads the arguments of a table; errors are reported to `args`.
pub(crate) fn read_settings(args: &mut Args<'_>) -> Settings {
    Settings {
        entries: args.value::<Auto>("ENTRIES").0,
        turns: args.value("TTL"),
        timeout: args.value::<Timestamp>("TIMEOUT").max(Timestamp::ZERO),
        marks: args.value::<Marker>("MARKER").0,
        line_rate: args.value("LINE_RATE"),
        service_time: args.value::<Micros>("SERVICE_TIME").0,
    }
}

struct PayloadTable {
    payloads: Arc<Payloads>,
}

impl HasTable for PayloadTable {
    fn payloads(&self) -> &Payloads {
        &self.payloads
    }
}

impl Element for PayloadTable {
    fn effects(&self) -> Effects {
        // The state is declared as shared, because each worker has a table and packets may go to any of
        // them.
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
        // The example of the NFSlicer paper (section III-C): packets of 500 bytes at 100 Gb/s, 10 us in the
        // network function each.
        let settings = Settings {
            entries: None,
            turns: 10,
            timeout: Timestamp::from_secs(5),
            marks: true,
            line_rate: Bandwidth(12_500_000_000),
            service_time: Micros::from_micros(10).0,
        };
        assert_eq!(settings.entries(), 250);
        let slower = Settings { line_rate: Bandwidth(1_250_000_000), ..settings };
        assert_eq!(Settings { service_time: Micros::from_micros(1000).0, ..slower }.entries(), 2500);
        assert_eq!(Settings { entries: Some(0), ..settings }.entries(), 1);
        assert_eq!(Settings { entries: Some(u32::MAX), ..settings }.entries(), 1 << 24);
    }
}
