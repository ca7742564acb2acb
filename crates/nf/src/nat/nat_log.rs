//! # NATLog
//! Logs the sessions of translators: when each mapping was made and removed.
//!
//! Providers have to find out later which subscriber had an address and port at a time (RFC 6888). A
//! translator names the NATLog by its argument LOG; several translators may name the same. Each mapping that
//! is made or removed is an event: in a file as a line of comma-separated values, at a collector as an IPFIX
//! record (RFC 7011, RFC 8158). A mapping that has expired is removed when the translator's next packets
//! come, or a handler reads its mappings. Mappings that a reload keeps, or that a state file brings back, are
//! no events. At the end of the run, and when a reload removes a translator, its mappings are deleted, unless
//! they were saved in a state file.
//!
//! A line has the values time (seconds since 1970), event (`create` or `delete`), protocol (its number),
//! source, source_port, nat_source and nat_source_port: addresses and ports of the flow's first packet before
//! and after translation. With DESTINATIONS, destination, destination_port, nat_destination and
//! nat_destination_port follow; otherwise these are empty. For ICMP, the identifier is the source port. The
//! first line of the file has these names. A file that exists is continued. Lines are written within a
//! second; with `--clock trace`, at the latest at the end of the run. While the disk is full, up to 16 MiB
//! wait.
//!
//! IPFIX messages go over UDP, so they may be lost. They have at most 512 bytes, because the path MTU is not
//! known. The template is sent with the first message and then each minute. natEvent is 4 for a session that
//! was created, and 5 for one that was deleted.
//!
//! ## Usage
//! `NATLog([KEYWORDS])`
//!
//! ## Arguments
//! - `FILE`: the file; `-` is standard output. FILE, COLLECTOR or both must be given.
//! - `COLLECTOR`: the collector of IPFIX messages, as `ADDRESS` or `ADDRESS:PORT`; the default port is 4739.
//! - `DOMAIN`: the number of the observation domain in IPFIX messages.
//! - `DESTINATIONS`: if true, events also have the flow's destination before and after translation. RFC 6888
//!   (requirement 12) allows this only where it is required, to protect subscribers.
//!
//! ## Handlers
//! - `created`, `deleted`: the sessions that were logged as created and as deleted.
//! - `messages`: messages that were sent to the collector.
//! - `unsent`: messages that could not be sent, for example because there was no route.
//! - `unwritten`: events that were not written to FILE, because it could not be written for too long.
//! - `reopen`: writes what waits, and opens FILE again, for example after a log file was renamed.
//!
//! ## Example
//! ```click
//! sessions :: NATLog(FILE -);
//! FastUDPFlows(RATE 0, LIMIT 6, LENGTH 60, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
//! DSTIP 198.51.100.1, FLOWS 2, FLOWSIZE 3)
//!     -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, LOG sessions)
//!     -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, UDPRewriter, ICMPPingRewriter, FlowIPNAT

use std::any::Any;
use std::sync::Arc;

use element::args::Raw;
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};

use super::ipfix;
use super::session_log::{Log, SessionLog, Settings};
use crate::report_file::ReportFile;

/// The element class `NATLog`.
pub static CLASS: Class = Class {
    name: "NATLog",
    ports: "0/0",
    manual: manual!("nat_log.rs"),
    args: &[
        ArgInfo::keyword("FILE", "file", ""),
        ArgInfo::keyword("COLLECTOR", "address and port", ""),
        ArgInfo::keyword("DOMAIN", "unsigned", "1"),
        ArgInfo::keyword("DESTINATIONS", "bool", "false"),
    ],
    table: &HANDLERS,
    phase: ConfigurePhase::Service,
    state: &[StatePart::kept("counts", &[])],
    samples: &["FILE $OUTPUT", "FILE $OUTPUT, DESTINATIONS true, DOMAIN 9"],
    build: |args| {
        let file: Option<String> = args.get("FILE");
        let collector = args.get::<Raw>("COLLECTOR");
        let address = collector.as_ref().map(|Raw(text)| ipfix::collector(text.trim()));
        if let Some(None) = address {
            args.error("COLLECTOR: an address such as 192.0.2.1 or 192.0.2.1:4739 is needed");
        }
        let settings = Settings {
            file,
            collector: address.flatten(),
            domain: args.value("DOMAIN"),
            has_destinations: args.value("DESTINATIONS"),
        };
        if settings.file.is_none() && collector.is_none() {
            args.error("FILE or COLLECTOR must be given");
        }
        args.finish()?;
        let log = args.setup.common.get_or_make(args.id(), SessionLog::default);
        args.setup.publish(args.id(), Arc::clone(&log));
        Ok(Box::new(NatLog { settings, log }))
    },
    ..Class::DEFAULT
};

/// The time between two writes of what waits.
const INTERVAL: Timestamp = Timestamp::from_secs(1);

struct NatLog {
    settings: Settings,
    log: Arc<SessionLog>,
}

impl Element for NatLog {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.log.with(|log| {
            if log.is_open(&self.settings) {
                return Ok(());
            }
            if let Some(path) = self.settings.file.as_deref().filter(|&path| path != "-") {
                ReportFile::is_handed_over(cx, "FILE", path)?;
            }
            log.open(&self.settings)
        })?;
        if !cx.follows_captures() {
            cx.set_background_timer(0, cx.now() + INTERVAL);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if let Err(fault) = self.log.with(Log::flush) {
            cx.warn(format_args!("{fault}"));
        }
        cx.set_background_timer(token, cx.now() + INTERVAL);
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.log.with(Log::flush)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Arc::clone(&self.log)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let old = state.downcast::<Arc<SessionLog>>().map_err(|_| "not the state of a NATLog")?;
        self.log.continue_from(&old)
    }
}

const HANDLERS: &[Handler<NatLog>] = &[
    Handler::<NatLog>::read("created", |e, _, _| Ok(e.log.with(|log| log.counts().created.to_string()))),
    Handler::<NatLog>::read("deleted", |e, _, _| Ok(e.log.with(|log| log.counts().deleted.to_string()))),
    Handler::<NatLog>::read("messages", |e, _, _| Ok(e.log.with(|log| log.messages().0.to_string()))),
    Handler::<NatLog>::read("unsent", |e, _, _| Ok(e.log.with(|log| log.messages().1.to_string()))),
    Handler::<NatLog>::read("unwritten", |e, _, _| Ok(e.log.with(|log| log.unwritten().to_string()))),
    Handler::set("reopen", |e, _, _| e.log.with(Log::reopen)),
];
