//! # ConnectionLimit
//! Limits the number of TCP connections that may be open at a time.
//!
//! A SYN from input 0 opens a connection, as long as fewer than LIMIT are open. Packets of open connections
//! leave, from either input, by the output with the same number. All other packets are dropped. A connection
//! counts until ten seconds after it has been closed, or until five minutes without a packet.
//!
//! ## Usage
//! `ConnectionLimit(LIMIT)`
//!
//! ## Arguments
//! - `LIMIT`: the limit; at most LIMIT connections may be open at the same time.
//!
//! ## Handlers
//! - `open`: the number of open connections, over all workers.
//! - `refused`: the number of packets that were dropped because their connection is not open.
//! - `flows`: the number of flows in the table, one for each direction of a connection.
//!
//! ## Example
//! ```click
//! FromDump(configs/data/quickstart.pcap) -> CheckIPHeader(14) -> limit :: ConnectionLimit(100) -> Discard;
//! Idle -> [1] limit [1] -> Discard
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use element::class::ArgInfo;
use element::{Args, Class, DropReason, Handler, StatePart, manual};
use sprayer::function::{FlowPacket, FlowStates, Function, FunctionElement, Needs, Verdict, class};
use wire::tcp::flags::{ACK, SYN};

/// The element class `ConnectionLimit`.
pub static CLASS: Class = Class {
    name: "ConnectionLimit",
    ports: "2/2",
    flow: "#/#",
    manual: manual!("firewall.rs"),
    args: &[ArgInfo::required("LIMIT", "unsigned")],
    table: &HANDLERS,
    state: &[StatePart::lost(
        "connections",
        "the function has to see the start of each connection",
        &["open", "refused", "flows"],
    )
    .with_tables(&["flows"])],
    samples: &["10"],
    ..class::<Firewall>()
};

struct Firewall {
    limit: u64,
    /// The number of open connections of all workers; only packets that open a connection, and the ends of
    /// connections, change it.
    open: Arc<AtomicU64>,
    refused: u64,
}

impl Function for Firewall {
    /// The number that this direction of a connection adds to `open`: 1 for the direction that opened the
    /// connection, 0 for the other direction.
    type State = u64;

    fn init(args: &mut Args<'_>, needs: &mut Needs) -> Firewall {
        // The element is opaque by default, because a function may change packets in any way. The firewall
        // does not change packets, so its declaration is complete.
        needs.effects.opaque = None;
        let open = args.setup.common.get_or_make(args.id(), AtomicU64::default);
        Firewall { limit: args.required("LIMIT"), open, refused: 0 }
    }

    fn connection_packets(&mut self, flows: &mut FlowStates<'_, u64>, packets: &mut [FlowPacket<u64>]) {
        for packet in packets {
            if flows.get_local_flow(&packet.flow).is_some() {
                continue;
            }
            let opens = packet.input == 0 && packet.flags & (SYN | ACK) == SYN;
            let another = |open| (open < self.limit).then_some(open + 1);
            if opens && self.open.fetch_update(Relaxed, Relaxed, another).is_ok() {
                let back = packet.flow.reversed();
                if flows.insert_local_pair((&packet.flow, &1), (&back, &0)).is_ok() {
                    continue;
                }
                self.open.fetch_sub(1, Relaxed);
            }
            self.refused += 1;
            packet.verdict = Verdict::Drop(DropReason::Denied);
        }
    }

    fn regular_packets(&mut self, _flows: &FlowStates<'_, u64>, _packets: &mut [FlowPacket<u64>]) {
        // Regular packets (without SYN, FIN and RST) come here only if their connection is open, so they
        // pass.
    }

    fn flow_ended(&mut self, connections: &u64) {
        self.open.fetch_sub(*connections, Relaxed);
    }
}

const HANDLERS: &[Handler<FunctionElement<Firewall>>] = &[
    Handler::read("open", |e, cx, _| Ok(e.function(cx).open.load(Relaxed).to_string())),
    Handler::<FunctionElement<Firewall>>::read("refused", |e, cx, _| Ok(e.function(cx).refused.to_string()))
        .summed(),
    FunctionElement::FLOWS,
];
