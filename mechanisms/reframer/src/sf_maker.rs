//! # SFMaker
//! Holds packets like Reframer, with the arguments, units and defaults of FastClick's element of this name.
//!
//! The element does what Reframer does, on any number of threads, for IPv6 too, and without losing packets:
//! packets that a flow holds leave before a packet that is not held, and all packets leave at the end of a
//! run.
//!
//! ## Usage
//! `SFMaker([DELAY, KEYWORDS])`
//!
//! ## Arguments
//! - `DELAY`: the maximum time that a packet waits, in microseconds.
//! - `DELAY_LAST`, `DELAY_HARD`: must be 0, as in FastClick.
//! - `VERBOSE`, `TAKE_ALL`, `ALWAYSUP`: accepted for compatibility with FastClick, without effect.
//! - `PROTO_COMPRESS`: true to drop ACKs without data that the next ACK of their burst makes superfluous:
//!   COMPRESS of Reframer.
//! - `REORDER`: true to sort TCP segments that leave together, with and without PROTO_COMPRESS.
//! - `PRIO`: the flow that goes first: SENT (the flow that has sent the fewest packets), DELAY (the flow
//!   that has waited longest) or FIRST (the flow that was seen first).
//! - `PASSTHROUGH`: if true, under MODEL SECOND the first packet of each flow is not held.
//! - `MODEL`: SECOND or NONE.
//! - `BYPASS_SYN`: if true, TCP SYN packets are not held.
//! - `BYPASS_AFTER_FAIL`: the number of bursts of one packet, minus the number of longer bursts, after which
//!   a flow is not held any more, at most 127; 0 for never.
//! - `MAX_BURST`: the maximum number of packets of a flow that leave together.
//! - `MAX_TX_BURST`: the maximum number of packets per batch that leaves.
//! - `MIN_TX_BURST`, `MAX_TX_DELAY`: accepted for compatibility with FastClick, without effect: packets
//!   that leave do not wait again.
//! - `MAX_CAP`: the maximum number of packets that are held at a time; further packets leave at once, with
//!   the packets that their flow holds. -1 for no limit.
//!
//! ## Handlers
//! - `queued`: the number of packets that are held.
//! - `pushed`: the number of packets that arrived.
//! - `sent`: the number of packets that left, including packets that PROTO_COMPRESS dropped.
//! - `dropped`: the number of ACKs that PROTO_COMPRESS dropped.
//! - `reordered`: the number of bursts in which REORDER moved segments.
//! - `active`: the number of flows that hold packets.
//! - `count`: the number of packets that waited, and have left.
//! - `superframes`: the number of rounds in which bursts left that had waited; `count` and the means refer
//!   to these bursts, too.
//! - `superframe_size_avg`, `superframe_flows_avg`: the mean numbers of packets and bursts per round.
//! - `packets_avg`: the mean number of packets per burst of a flow.
//! - `bursts_avg`: the value of `packets_avg`, because each packet that arrives counts as a burst.
//! - `compress_avg`: the mean number of ACKs dropped per burst.
//! - `useless_wait_avg`: the mean time in microseconds that a burst waited after its last packet had
//!   arrived.
//! - `flush`: releases all packets and stops holding: DELAY becomes 0.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> SFMaker(DELAY 64, MAX_BURST 32) -> Discard
//! ```
//!
//! ## See also
//! Reframer, Batcher

use element::args::{ArgType, Scope};
use element::class::ArgInfo;
use element::{Class, StatePart, Timestamp, manual};

use crate::delays::Delays;
use crate::lists::Priority;
use crate::reframer::{OF_SF_MAKER, build};
use crate::settings::{Bypass, Count, Micros, ReframerSettings, batch_length};

/// The element class `SFMaker`.
pub static CLASS: Class = Class {
    name: "SFMaker",
    processing: "h/h",
    manual: manual!("sf_maker.rs"),
    args: &[
        ArgInfo::positional("DELAY", "microseconds", "100"),
        ArgInfo::positional("DELAY_LAST", "microseconds", "0"),
        ArgInfo::positional("DELAY_HARD", "microseconds", "0"),
        ArgInfo::keyword("VERBOSE", "int", "0"),
        ArgInfo::keyword("TAKE_ALL", "bool", "false"),
        ArgInfo::keyword("PROTO_COMPRESS", "bool", "false"),
        ArgInfo::keyword("REORDER", "bool", "true"),
        ArgInfo::keyword("PRIO", "SENT|DELAY|FIRST", "SENT"),
        ArgInfo::keyword("PASSTHROUGH", "bool", "true"),
        ArgInfo::keyword("MODEL", "SECOND|NONE", "SECOND"),
        ArgInfo::keyword("BYPASS_SYN", "bool", "false"),
        ArgInfo::keyword("BYPASS_AFTER_FAIL", "int", "0"),
        ArgInfo::keyword("MAX_BURST", "unsigned", "1024"),
        ArgInfo::keyword("MAX_TX_BURST", "unsigned", "32"),
        ArgInfo::keyword("MIN_TX_BURST", "unsigned", "1"),
        ArgInfo::keyword("MAX_TX_DELAY", "microseconds", "0"),
        ArgInfo::keyword("ALWAYSUP", "bool", "false"),
        ArgInfo::keyword("MAX_CAP", "int", "-1"),
    ],
    table: &OF_SF_MAKER,
    state: &[
        StatePart::drained(
            "packets",
            &[
                "queued",
                "active",
                "sent",
                "count",
                "bursts_avg",
                "packets_avg",
                "superframe_size_avg",
                "superframe_flows_avg",
                "useless_wait_avg",
            ],
        ),
        StatePart::lost("flows", "each flow is known again with its next packet", &[]),
        StatePart::kept("counts", &["pushed", "superframes", "dropped", "compress_avg", "reordered"]),
    ],
    samples: &[
        "",
        "50, MODEL NONE, PRIO DELAY",
        "PROTO_COMPRESS true, PASSTHROUGH false, PRIO FIRST, BYPASS_SYN true, BYPASS_AFTER_FAIL 2, MAX_CAP 5",
    ],
    build: |args| {
        let Micros(delay) = args.value("DELAY");
        for (name, complaint) in [
            ("DELAY_LAST", "DELAY_LAST must be 0 if SF_LLDS is enabled and not SF_LLDS_SP"),
            ("DELAY_HARD", "SFDHARD is not supported with LLDS. It must be 0."),
        ] {
            if args.value::<i32>(name) != 0 {
                args.error(complaint);
            }
        }
        for name in ["VERBOSE", "MIN_TX_BURST", "MAX_TX_DELAY"] {
            args.value::<i32>(name);
        }
        for name in ["TAKE_ALL", "ALWAYSUP"] {
            args.value::<bool>(name);
        }
        let (passthrough, Model(second)) = (args.value::<bool>("PASSTHROUGH"), args.value("MODEL"));
        let fails: i32 = args.value("BYPASS_AFTER_FAIL");
        let most: i32 = args.value("MAX_CAP");
        let settings = ReframerSettings {
            delay,
            // 0 is allowed, as in FastClick, and means that each packet leaves alone.
            max_burst: args.value::<u32>("MAX_BURST").max(1) as usize,
            max_tx_burst: batch_length(args.value::<Count>("MAX_TX_BURST").0),
            priority: args.value::<Prio>("PRIO").0,
            reorder: args.value("REORDER"),
            compress: args.value("PROTO_COMPRESS"),
            bypass: if args.value::<bool>("BYPASS_SYN") { Bypass::syn() } else { Bypass::none() },
            max_held: usize::try_from(most).unwrap_or(usize::MAX),
            first_passes: passthrough && second,
            flush_ends: true,
            bypass_after: fails.clamp(0, i8::MAX.into()) as i8,
            elephants: 0,
            slo: Timestamp::ZERO,
            min_burst: 0.0,
            max_bytes: 0,
            tunnels: false,
            quic_id: 0,
            delays: Delays::default(),
            max_acks: usize::MAX,
            capacity: 65_536,
        };
        build(args, settings)
    },
    ..Class::DEFAULT
};

/// The argument PRIO: a priority in FastClick's words.
#[derive(Default)]
struct Prio(Priority);

impl ArgType for Prio {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Prio, String> {
        match text.trim() {
            "SENT" => Ok(Prio(Priority::ShortestFlow)),
            "DELAY" => Ok(Prio(Priority::LongestWait)),
            "FIRST" => Ok(Prio(Priority::OldestFlow)),
            _ => Err("Unknown PRIO !".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// The argument MODEL, true for SECOND: the first packet of a flow passes (if PASSTHROUGH is true), and the
/// second is held.
#[derive(Default)]
struct Model(bool);

impl ArgType for Model {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Model, String> {
        match text.trim() {
            "SECOND" => Ok(Model(true)),
            "NONE" => Ok(Model(false)),
            _ => Err("Unknown MODEL !".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}
