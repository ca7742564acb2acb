//! # FromDPDKDevice
//! Receives packets from a port of DPDK, without a copy if the driver can.
//!
//! The port's driver writes frames into the packet pool. Frames are copied in three cases: if the driver
//! cannot write there (the driver for AF_XDP, and cards that cannot reach the pool); if they lie in several
//! buffers; or if they lie in another worker's pool, because they came through a ring port (`net_ring`).
//! The kernel does not see the frames. A ToDPDKDevice with the same port shares the port.
//!
//! With several workers, each worker has a queue of its own if the port has enough queues. If it can, the
//! port spreads packets over its queues by their addresses and ports. A port without packets is polled
//! again after at most 50 microseconds (with `--busy-poll`: at once).
//!
//! Packets get the time of the turn in which they were read, and the MAC header annotation points to their
//! start. Checksums that a sender on the same machine has left to its interface are completed; other
//! checksums are not checked.
//!
//! Ports are configured with DPDK's own arguments: `tidegate run --dpdk --no-huge --vdev=net_tap0 -- FILE`.
//! The program has to be built with the feature `dpdk`.
//!
//! ## Usage
//! `FromDPDKDevice(PORT [, QUEUE, PROMISC, KEYWORDS])`
//!
//! ## Arguments
//! - `PORT`: the port's number, its name (`net_tap0`) or its PCI address.
//! - `QUEUE`: the first queue; with it, the element has one queue unless N_QUEUES or MINQUEUES is greater.
//!   Without it, queues that no other element has.
//! - `PROMISC`: true to receive frames for other hosts as well.
//! - `VLAN_FILTER`: accepted, must be false; a Classifier does it.
//! - `VLAN_STRIP`: accepted, must be false; StripEtherVLANHeader does it.
//! - `VLAN_EXTEND`: accepted, must be false.
//! - `LRO`: accepted, must be false.
//! - `JUMBO`: accepted, must be false: frames have at most 2112 bytes.
//! - `N_QUEUES`: the number of queues; -1 for one per worker, or a single queue with QUEUE.
//! - `MINQUEUES`: the smallest number of queues, unless N_QUEUES is given.
//! - `MAXQUEUES`: the largest number of queues, unless N_QUEUES is given.
//! - `MAXTHREADS`: accepted; `--threads` and StaticThreadSched determine the workers.
//! - `THREADOFFSET`: accepted, as MAXTHREADS.
//! - `SCALE`: accepted, as MAXTHREADS.
//! - `NUMA`: accepted.
//! - `NUMA_NODE`: accepted.
//! - `VERBOSE`: accepted.
//! - `BURST`: the largest number of packets per turn.
//! - `NDESC`: descriptors of each queue; 0 for the usual number.
//! - `MAC`: an Ethernet address for the port.
//! - `MTU`: the longest packet of the port in bytes, without link header.
//! - `MODE`: `rss` or `none`; `flow` and `vmdq` do not exist.
//! - `MAX_RSS`: the number of queues that packets are spread over.
//! - `RSS_KEY`: `secret` or `own`: the port spreads packets by a secret key as long as its own key, or by
//!   its own key, which is often publicly known. A secret key is set only with several workers and queues,
//!   and under the real clock. If the driver does not accept the secret key, a message says so.
//! - `RSS_AGGREGATE`: true to set the aggregate annotation to the port's hash.
//! - `PAINT_QUEUE`: true to set the paint annotation to the number of the queue.
//! - `TIMESTAMP`: accepted; packets have the time of their turn.
//! - `CLEAR`: accepted; annotations are always clear.
//! - `PAUSE`: `full`, `rx`, `tx`, `none` or `unset`; accepted, with a warning unless it is `unset`: the port
//!   keeps its own setting for pause frames, because packets for which there is no room are to be dropped and
//!   counted.
//! - `IPCO`: accepted; checksum results of the port are not used.
//! - `TCO`: accepted, as IPCO.
//! - `UCO`: accepted, as IPCO.
//! - `TSO`: accepted, as IPCO.
//! - `CHECKSUM`: true to complete partial checksums of TCP and UDP.
//! - `ALLOW_NONEXISTENT`: true to do nothing if there is no such port; otherwise a missing port is an
//!   error.
//! - `GONE`: what happens when the port's device is removed: `wait` for a device of its name, whose queues
//!   are then opened with all these arguments, or `stop`: the run ends with an error.
//! - `ACTIVE`: true to receive. If false, packets stay in the port's queues.
//!
//! ## Handlers
//! - `count`: packets received.
//! - `reset_counts`: sets the count to zero.
//! - `reset_count`: the same as `reset_counts`.
//! - `completed`: packets whose checksum was completed.
//! - `active`: true if it receives.
//! - `safe_active`: sets `active`.
//! - `burst`: the value of BURST.
//! - `device`: the port's number.
//! - `driver`: the name of the port's driver.
//! - `vendor`: `Unknown`: the manufacturer of the port is not read.
//! - `mac`: the port's Ethernet address.
//! - `add_mac`: adds an Ethernet address that the port receives for.
//! - `remove_mac`: removes an address that `add_mac` has added.
//! - `mtu`: the port's MTU.
//! - `carrier`: 1 if the port has a link, otherwise 0.
//! - `duplex`: 1 if the link works in both directions at once, otherwise 0; -1 without a link.
//! - `autoneg`: 1 if the speed was negotiated, otherwise 0.
//! - `speed`: the speed of the link, in Mb/s.
//! - `type`: `fiber`, as in FastClick.
//! - `nb_rx_queues`: receive queues of the port.
//! - `nb_tx_queues`: send queues of the port.
//! - `nb_rx_desc`: descriptors of each receive queue.
//! - `hw_count`: packets that the port has received.
//! - `hw_bytes`: bytes that the port has received.
//! - `hw_dropped`: packets that the port had no room for.
//! - `hw_errors`: frames with errors.
//! - `nombufs`: the number of times that there was no slot for a packet.
//! - `tx_count`: packets that the port has sent.
//! - `tx_bytes`: bytes that the port has sent.
//! - `tx_errors`: packets that the port could not send.
//! - `xstats`: the driver's additional counters: all, or the counter whose name is given.
//! - `queue_count`: packets that wait in each queue, or in the queue that is given.
//! - `queue_packets`: packets that have arrived at the queue that is given, or at queue 0.
//! - `queue_bytes`: bytes that have arrived at the queue that is given, or at queue 0.
//! - `max_rss`: sets the number of queues that packets are spread over.
//! - `rss_reta`: the queue of each value of the hash.
//! - `rss_reta_size`: the number of values of the hash that `rss_reta` distinguishes.
//! - `rss_key`: `secret` if the port spreads packets by a secret key, else `own`.
//!
//! ## Example
//! ```click
//! FromDPDKDevice(0, PROMISC true) -> Counter -> ToDPDKDevice(1)
//! ```
//!
//! ## See also
//! ToDPDKDevice, DPDKInfo, FromXDP, FromDevice

use std::sync::Arc;

use element::args::{parse_bool, parse_integer};
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Action, Case, Field, Filter, PAINT, Target, Value};
use element::{
    Args, Base, Class, Complaint, Cx, Effects, Element, Handler, Invalid, StatePart, Timestamp, manual,
};
use packet::{Annotations, BATCH_CAPACITY, PacketKind};

use super::away::{Away, Look};
use super::ports::{Port, Ports, Receiver};
use super::{Refused, Wanted, read_wanted};
use crate::frames::complete;
use crate::interface::{Gone, LOOK_AGAIN};
use crate::rss_key;

const AGGREGATE: Field = Field::Annotation { offset: Annotations::AGGREGATE as u8, length: 4 };

/// The element class FromDPDKDevice.
pub static CLASS: Class = Class {
    name: "FromDPDKDevice",
    aliases: &["FromDPDKDeviceXCHG"],
    ports: "0/1",
    processing: "h",
    manual: manual!("from_dpdk_device.rs"),
    notes: Notes { task: Task::Always, has_queues: true, has_own_key: true, is_live: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("PORT", "port"),
        ArgInfo::positional("QUEUE", "int", "-1"),
        ArgInfo::positional("PROMISC", "bool", "true"),
        ArgInfo::positional("VLAN_FILTER", "bool", "false"),
        ArgInfo::positional("VLAN_STRIP", "bool", "false"),
        ArgInfo::positional("VLAN_EXTEND", "bool", "false"),
        ArgInfo::positional("LRO", "bool", "false"),
        ArgInfo::positional("JUMBO", "bool", "false"),
        ArgInfo::keyword("N_QUEUES", "int", "-1"),
        ArgInfo::keyword("MINQUEUES", "unsigned", "1"),
        ArgInfo::keyword("MAXQUEUES", "unsigned", "128"),
        ArgInfo::keyword("MAXTHREADS", "int", "-1"),
        ArgInfo::keyword("THREADOFFSET", "int", "-1"),
        ArgInfo::keyword("SCALE", "word", "share"),
        ArgInfo::keyword("NUMA", "bool", "true"),
        ArgInfo::keyword("NUMA_NODE", "int", "-1"),
        ArgInfo::keyword("VERBOSE", "int", "1"),
        ArgInfo::keyword("BURST", "int", "").burst_of_run("32"),
        ArgInfo::keyword("NDESC", "unsigned", "0"),
        ArgInfo::keyword("MAC", "Ethernet address", ""),
        ArgInfo::keyword("MTU", "unsigned", ""),
        ArgInfo::keyword("MODE", "word", "rss"),
        ArgInfo::keyword("MAX_RSS", "unsigned", ""),
        ArgInfo::keyword("RSS_KEY", "word", "secret"),
        ArgInfo::keyword("RSS_AGGREGATE", "bool", "false"),
        ArgInfo::keyword("PAINT_QUEUE", "bool", "false"),
        ArgInfo::keyword("TIMESTAMP", "bool", "false"),
        ArgInfo::keyword("CLEAR", "bool", "false"),
        ArgInfo::keyword("PAUSE", "word", "unset"),
        ArgInfo::keyword("IPCO", "bool", "false"),
        ArgInfo::keyword("TCO", "bool", "false"),
        ArgInfo::keyword("UCO", "bool", "false"),
        ArgInfo::keyword("TSO", "bool", "false"),
        ArgInfo::keyword("CHECKSUM", "bool", "true"),
        ArgInfo::keyword("ALLOW_NONEXISTENT", "bool", "false"),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count", "completed"]), StatePart::kept("port", &[])],
    // No samples for the generic tests, because the element needs a port. Tests on virtual ports cover its
    // behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let wanted = read_wanted(args, false);
    let promiscuous = args.value::<bool>("PROMISC");
    for (name, instead) in [
        ("VLAN_FILTER", "put a Classifier downstream"),
        ("VLAN_STRIP", "put a StripEtherVLANHeader downstream"),
        ("VLAN_EXTEND", "put a Classifier downstream"),
        ("LRO", "frames are as they were sent"),
        ("JUMBO", "frames have at most 2112 bytes"),
    ] {
        if args.value(name) {
            args.error(format!("{name}: not supported; {instead}"));
        }
    }
    let queues = |args: &mut Args<'_>, name| {
        let value: u16 = args.value(name);
        if !(1..=1024).contains(&value) {
            args.error(format!("{name} out of range"));
        }
        value
    };
    let (least, most) = (queues(args, "MINQUEUES"), queues(args, "MAXQUEUES"));
    for name in ["THREADOFFSET", "NUMA_NODE"] {
        args.value::<i64>(name);
    }
    for name in ["NUMA", "TIMESTAMP", "CLEAR", "IPCO", "TCO", "UCO", "TSO"] {
        args.value::<bool>(name);
    }
    let scale: String = args.value("SCALE");
    if !["parallel", "share"].contains(&scale.to_lowercase().as_str()) {
        args.error(format!("Unknown scaling mode {scale} !"));
    }
    match args.value::<String>("MODE").as_str() {
        "" | "rss" | "none" => {}
        mode => args.error(format!("MODE {mode} is not supported; rss or none expected")),
    }
    match args.value::<String>("PAUSE").as_str() {
        "unset" => {}
        pause @ ("full" | "rx" | "tx" | "none") => {
            let text = format!("PAUSE {pause} has no effect: the port keeps its setting for pause frames");
            args.warn(Complaint::from(text).without_clicks_words());
        }
        _ => args.error("PAUSE: full, rx, tx, none or unset expected"),
    }
    let burst = args.value::<i64>("BURST");
    if burst <= 0 {
        args.error("BURST out of range");
    }
    let mtu: Option<u16> = args.get("MTU");
    if mtu.is_some_and(|mtu| !(68..=2094).contains(&mtu)) {
        args.error("MTU: from 68 to 2094: a frame has to fit into 2112 bytes");
    }
    let keeps_key = rss_key::is_kept(args);
    let (mac, spread) = (args.get("MAC"), args.get("MAX_RSS"));
    let wanted = Wanted { promiscuous, least, most, mac, mtu, spread, keeps_key, ..wanted };
    let element = FromDpdkDevice {
        burst: (burst.max(1) as usize).min(BATCH_CAPACITY),
        completes: args.value("CHECKSUM"),
        aggregates: args.value("RSS_AGGREGATE"),
        paints: args.value("PAINT_QUEUE"),
        active: args.value("ACTIVE"),
        ports: Ports::of(args.setup),
        wanted,
        receiver: None,
        gone: Gone::read(args),
        is_gone: false,
        away: None,
        told: None,
        looked: Timestamp::ZERO,
        pause: Timestamp::ZERO,
        idle: 0,
        count: 0,
        completed: 0,
    };
    args.finish()?;
    element.ports.expect(args.setup, &element.wanted);
    Ok(Box::new(element))
}

/// The number of successive turns without a packet after which the element sleeps between turns (`LOOKS`),
/// and the shortest and the longest time of such a sleep in nanoseconds (`LEAST_PAUSE`, `LONGEST_PAUSE`).
/// Each further turn without a packet doubles the time.
const LOOKS: u32 = 64;
const LEAST_PAUSE: Timestamp = Timestamp(2_000);
const LONGEST_PAUSE: Timestamp = Timestamp(50_000);

struct FromDpdkDevice {
    wanted: Wanted,
    burst: usize,
    completes: bool,
    aggregates: bool,
    paints: bool,
    active: bool,
    ports: Arc<Ports>,
    receiver: Option<Receiver>,
    gone: Gone,
    /// True from the time when the port was found to be removed until it is open again. In the meantime,
    /// `away` has the state by which this copy of the element looks for the port.
    is_gone: bool,
    away: Option<Away>,
    /// The last reported reason why the port could not be opened again. The same reason is not reported
    /// twice.
    told: Option<String>,
    /// The time at which the element last checked whether the port was removed.
    looked: Timestamp,
    /// The time to sleep after the next turn without a packet (`pause`), and the number of successive turns
    /// without a packet (`idle`).
    pause: Timestamp,
    idle: u32,
    count: u64,
    completed: u64,
}

impl FromDpdkDevice {
    /// Checks whether the port's device was removed. If so, reports it, and then stops the run (with `GONE
    /// stop`), or leaves the port and sets a timer to look for it again (with `GONE wait`).
    #[cold]
    fn look(&mut self, cx: &mut Cx<'_>) {
        self.looked = cx.now();
        let Some(port) = self.receiver.as_ref().map(Receiver::port).filter(|port| port.is_gone()) else {
            return;
        };
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        if port.says_gone() || self.gone == Gone::Stop {
            cx.warn(format_args!("{}: {}", self.wanted.port, self.gone.text()));
        }
        match self.gone {
            Gone::Stop => cx.stop(),
            Gone::Wait => {
                self.away = self.receiver.take().map(|receiver| receiver.leave(cx));
                cx.set_coarse_timer(0, cx.now() + LOOK_AGAIN);
            }
        }
    }

    /// Looks for the port again. If it is there, opens its queues and continues to receive; otherwise sets
    /// a timer for the next attempt.
    #[cold]
    fn find_again(&mut self, cx: &mut Cx<'_>, away: Away) {
        match away.receive_again(cx, &self.wanted) {
            Look::Back(receiver) => {
                if receiver.port().says_back() {
                    cx.note(format_args!("{}: is there again", self.wanted.port));
                }
                self.receiver = Some(receiver);
                (self.is_gone, self.told) = (false, None);
                if self.active {
                    cx.schedule();
                }
            }
            Look::Away(away, error) => {
                self.away = Some(away);
                if error.is_some() && error != self.told {
                    let text = error.clone().unwrap_or_default();
                    cx.warn(format_args!("{}: cannot be opened again: {text}", self.wanted.port));
                    self.told = error;
                }
                cx.set_coarse_timer(0, cx.now() + LOOK_AGAIN);
            }
        }
    }
}

impl Element for FromDpdkDevice {
    fn effects(&self) -> Effects {
        let given = |name| Value::Pure { name, reads: Vec::new() };
        let mut case = Case::new(Filter::FALSE, Target::Output(0))
            .with(Action::Set(Field::Kind, given("whom it was for")));
        if self.aggregates {
            case = case.with(Action::Set(AGGREGATE, given("the port's hash")));
        }
        if self.paints {
            case = case.with(Action::Set(PAINT, given("the port's queue")));
        }
        let mut effects = Effects { cases: vec![case], ..Effects::source("received packet") };
        effects.emits[0].output = Some(0);
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match self.ports.receive(cx, &self.wanted) {
            Ok(receiver) => {
                if let Some(remark) = receiver.remark() {
                    cx.warn(format_args!("{remark}"));
                }
                self.receiver = Some(receiver);
                if self.active {
                    cx.schedule();
                }
                Ok(())
            }
            Err(Refused::Missing(_)) if self.wanted.may_be_missing => Ok(()),
            Err(Refused::Missing(text) | Refused::Failed(text)) => Err(text),
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now() - self.looked > LOOK_AGAIN {
            self.look(cx);
        }
        let Some(receiver) = &mut self.receiver else { return false };
        if !self.active {
            return false;
        }
        let mut batch = cx.batch();
        let (completes, aggregates, paints) = (self.completes, self.aggregates, self.paints);
        let mut completed = 0;
        let received = receiver.receive(cx, self.burst, |cx, mut packet, report, queue| {
            packet.set_time(cx.now());
            packet.set_kind(PacketKind::of_frame(packet.data()));
            packet.set_offset(Base::Mac, Some(0));
            packet.set_right_checksum(report.is_right);
            completed += u64::from(completes && complete(packet.data_mut()));
            if aggregates {
                packet.annotations_mut().set_u32(Annotations::AGGREGATE, report.hash);
            }
            if paints {
                packet.annotations_mut().set_u8(Annotations::PAINT, queue as u8);
            }
            if let Err(packet) = batch.push(packet) {
                let mut full = cx.batch_of(packet);
                std::mem::swap(&mut batch, &mut full);
                cx.emit(0, full);
            }
        });
        self.completed += completed;
        let n = received.unwrap_or(0);
        self.count += n as u64;
        cx.emit(0, batch);
        self.idle = if n > 0 { 0 } else { self.idle + 1 };
        if self.idle < LOOKS {
            self.pause = LEAST_PAUSE;
            cx.schedule();
        } else {
            // DPDK reports no event when packets arrive, so the port is polled again after a pause.
            cx.set_coarse_timer(0, cx.now() + self.pause);
            self.pause = (self.pause + self.pause).min(LONGEST_PAUSE);
        }
        n > 0
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Some(away) = self.away.take() {
            return self.find_again(cx, away);
        }
        if self.active {
            cx.schedule();
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        cx.clear_timer(0);
        cx.unschedule();
        self.receiver.iter().for_each(Receiver::drain);
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(receiver) = self.receiver.take() {
            receiver.close(cx);
        }
        if let Some(away) = self.away.take() {
            away.close(cx);
        }
        self.gone.end(&self.wanted.port, self.is_gone)
    }

    element::keeps!(count, completed);
}

impl FromDpdkDevice {
    /// Returns the value of a read handler of the port, or `without`, the value that FastClick shows, if the
    /// element has no port: the port did not exist (ALLOW_NONEXISTENT true) or was removed.
    fn of_port(
        &self,
        without: &str,
        read: impl FnOnce(&Port) -> Result<String, String>,
    ) -> Result<String, String> {
        self.receiver.as_ref().map_or_else(|| Ok(without.into()), |receiver| read(receiver.port()))
    }

    fn port(&self) -> Result<&Port, String> {
        self.receiver.as_ref().map(Receiver::port).ok_or_else(|| "there is no port".into())
    }

    fn set_active(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), String> {
        self.active = parse_bool(value).ok_or("Not a valid boolean")?;
        if self.active && self.receiver.is_some() {
            cx.schedule();
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<FromDpdkDevice>] = &[
    Handler::count("count", |e| e.count),
    Handler::act("reset_counts", |e| e.count = 0),
    Handler::act("reset_count", |e| e.count = 0),
    Handler::count("completed", |e| e.completed),
    Handler::data("active", |e| (e.receiver.is_some() && e.active).to_string(), FromDpdkDevice::set_active),
    Handler::set("safe_active", FromDpdkDevice::set_active),
    Handler::data(
        "burst",
        |e| e.burst.to_string(),
        |e, _, value| {
            let burst = parse_integer(value).ok().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
            e.burst = burst.ok_or("BURST out of range")?.min(BATCH_CAPACITY);
            Ok(())
        },
    ),
    Handler::read("device", |e, _, _| e.of_port("undefined", Port::device)),
    Handler::read("driver", |e, _, _| e.of_port("", Port::driver)),
    Handler::read("vendor", |e, _, _| e.of_port("", |_| Ok("Unknown".into()))),
    Handler::read("mac", |e, _, _| e.of_port("", Port::mac)),
    Handler::set("add_mac", |e, cx, value| e.port()?.add_mac(cx, value)),
    Handler::set("remove_mac", |e, cx, value| e.port()?.remove_mac(cx, value)),
    Handler::read("mtu", |e, _, _| e.of_port("0", Port::mtu)),
    Handler::read("carrier", |e, _, _| e.of_port("0", Port::carrier)),
    Handler::read("duplex", |e, _, _| e.of_port("0", Port::duplex)),
    Handler::read("autoneg", |e, _, _| e.of_port("0", Port::autoneg)),
    Handler::read("speed", |e, _, _| e.of_port("0", Port::speed)),
    Handler::read("type", |e, _, _| e.of_port("0", |_| Ok("fiber".into()))),
    Handler::read("nb_rx_queues", |e, _, _| e.of_port("0", Port::nb_rx_queues)),
    Handler::read("nb_tx_queues", |e, _, _| e.of_port("0", Port::nb_tx_queues)),
    Handler::read("nb_rx_desc", |e, _, _| e.of_port("0", Port::nb_rx_desc)),
    Handler::read("hw_count", |e, _, _| e.of_port("0", Port::hw_count)),
    Handler::read("hw_bytes", |e, _, _| e.of_port("0", Port::hw_bytes)),
    Handler::read("hw_dropped", |e, _, _| e.of_port("0", Port::hw_dropped)),
    Handler::read("hw_errors", |e, _, _| e.of_port("0", Port::hw_errors)),
    Handler::read("nombufs", |e, _, _| e.of_port("0", Port::nombufs)),
    Handler::read("tx_count", |e, _, _| e.of_port("0", Port::tx_count)),
    Handler::read("tx_bytes", |e, _, _| e.of_port("0", Port::tx_bytes)),
    Handler::read("tx_errors", |e, _, _| e.of_port("0", Port::tx_errors)),
    Handler::read_param("xstats", |e, _, param| e.of_port("0", |port| port.xstats(param))),
    Handler::read_param("queue_count", |e, _, param| e.of_port("0", |port| port.queue_count(param))),
    Handler::read_param("queue_packets", |e, _, param| e.of_port("0", |port| port.queue_packets(param))),
    Handler::read_param("queue_bytes", |e, _, param| e.of_port("0", |port| port.queue_bytes(param))),
    Handler::set("max_rss", |e, cx, value| e.port()?.max_rss(cx, value)),
    Handler::read("rss_reta", |e, _, _| e.of_port("0", Port::rss_reta)),
    Handler::read("rss_reta_size", |e, _, _| e.of_port("0", Port::rss_reta_size)),
    Handler::read("rss_key", |e, _, _| e.of_port(rss_key::word(false), Port::rss_key)),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn arguments_that_are_wrong_are_refused() {
        for (arguments, text) in [
            ("", "PORT: required argument missing"),
            ("\"\"", "PORT not set"),
            ("0, QUEUE 5000", "QUEUE out of range"),
            ("0, N_QUEUES -2", "N_QUEUES out of range"),
            ("0, MAXQUEUES 0", "MAXQUEUES out of range"),
            ("0, BURST 0", "BURST out of range"),
            ("0, MTU 9000", "MTU: from 68 to 2094"),
            ("0, MODE flow", "MODE flow is not supported"),
            ("0, SCALE sideways", "Unknown scaling mode sideways !"),
            ("0, LRO true", "LRO: not supported"),
            ("0, 0, false, VLAN_STRIP true", "StripEtherVLANHeader"),
        ] {
            let errors = TestRun::default().text(&format!("FromDPDKDevice({arguments}) -> Discard"), &[]);
            let errors = errors.unwrap_err();
            assert!(errors.contains(text), "{arguments}: {errors}");
        }
    }

    #[test]
    fn what_is_missing_is_said_when_it_starts() {
        let errors = TestRun::default().text("FromDPDKDevice(0) -> Discard", &[]).unwrap_err();
        let expected = if super::super::IS_BUILT { "--dpdk" } else { "--features dpdk" };
        assert!(errors.contains(expected), "{errors}");
    }
}
