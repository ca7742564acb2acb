//! # KernelTun
//! Exchanges IP packets with the machine's own network stack, over a TUN interface.
//!
//! The interface is created when the graph starts, with an address and a network, and is removed with the
//! element. Packets that the machine sends to other addresses of the network come out of the element. The
//! machine receives the packets that go into the element. Packets from the machine that are not IP leave by
//! output 1, or are dropped if there is no output 1; with TAP true, all packets leave by output 0.
//!
//! Large segments and partial checksums are forwarded unchanged, if no downstream element depends on them,
//! and each path ends at an element that can send them. Otherwise they become ordinary packets with complete
//! checksums here.
//!
//! ## Usage
//! `KernelTun(ADDR/MASK [, GATEWAY, KEYWORDS])`
//!
//! ## Arguments
//! - `ADDR`: the machine's address on the interface, and its network.
//! - `GATEWAY`: an address of that network to which the machine sends packets for other networks.
//! - `TAP`: true if packets have Ethernet headers, as with KernelTap.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//! - `BURST`: the largest number of packets per turn.
//! - `ETHER`: the interface's Ethernet address.
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted; the first packet that the interface does not take is reported, and
//!   later their number.
//! - `MTU`: the longest packet in bytes, without Ethernet header.
//! - `DEVNAME`: the name of the interface; without it, the kernel chooses one.
//! - `DEV_NAME`: an older name for DEVNAME.
//! - `GONE`: what happens when the interface is removed: `wait` creates it again, with all these arguments,
//!   a tenth of a second later; `stop` ends the run with an error.
//!
//! ## Handlers
//! - `dev_name`: the name of the interface.
//! - `selected_calls`: turns in which the interface was read.
//! - `packets`: packets read.
//!
//! ## Example
//! ```click
//! tun :: KernelTun(10.9.0.1/24);
//! tun -> ICMPPingResponder -> IPPrint(ping) -> tun
//! ```
//!
//! ## See also
//! KernelTap, FromHost, FromDevice

use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::Ipv4Prefix;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Field, Filter, HeaderKind, Predicate, Support, Target};
use element::setup::Common;
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Interest, Invalid, StatePart, Timestamp,
    manual,
};
use libc::c_int;
use packet::BATCH_CAPACITY;
use wire::LinkType;
use wire::ethernet::MacAddr;

use super::host::{Made, NEWS, Queue, RECEIVE, Receiver, Transmitter, Wanted, open, settle};
use super::host_interface::HostInterface;
use super::incoming::MarksIp;
use super::sys::link;
use super::sys::news::News;
use super::sys::tun::Tun;
use super::{Gone, LOOK_AGAIN, cannot};
use crate::handover::Claimant;

/// The element class KernelTun.
pub static CLASS: Class = Class {
    name: "KernelTun",
    aliases: &["KernelTunMP"],
    manual: manual!("kernel_tun.rs"),
    args: &args("false"),
    ..DESCRIPTION
};

/// The declared arguments of KernelTun and KernelTap. The classes differ in the default of TAP, which is
/// `tap`.
pub(super) const fn args(tap: &'static str) -> [ArgInfo; 11] {
    [
        ArgInfo::required("ADDR", "IP prefix"),
        ArgInfo::positional("GATEWAY", "IP address", ""),
        ArgInfo::keyword("TAP", "bool", tap),
        ArgInfo::keyword("HEADROOM", "unsigned", "28"),
        ArgInfo::keyword("BURST", "unsigned", "").burst_of_run("1"),
        ArgInfo::keyword("ETHER", "Ethernet address", ""),
        ArgInfo::keyword("IGNORE_QUEUE_OVERFLOWS", "bool", "false"),
        ArgInfo::keyword("MTU", "int", "1500"),
        ArgInfo::keyword("DEVNAME", "interface", ""),
        ArgInfo::keyword("DEV_NAME", "interface", ""),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
    ]
}

pub(super) const DESCRIPTION: Class = Class {
    ports: "0-1/1-2",
    processing: "a/h",
    flow: "x/y",
    notes: Notes { task: Task::Always, has_queues: true, is_live: true, ..Notes::NONE },
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["selected_calls", "packets"]),
        StatePart::kept("interface", &["dev_name"]),
    ],
    // No samples for the generic tests, because the element creates an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

/// The time until the next attempt, if the removed interface could not be created again.
const PAUSE: Timestamp = Timestamp(1_000_000_000);
/// The MTU that the kernel gives to a new interface, in bytes. The MTU is only set if the argument MTU
/// differs.
const KERNELS_MTU: i32 = 1500;
/// The smallest length of an IP header in bytes, and so the smallest MTU.
const IP: i32 = 20;

/// Builds an element of KernelTun or KernelTap.
pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let nowhere = Ipv4Prefix { address: Ipv4Addr::UNSPECIFIED, mask: Ipv4Addr::UNSPECIFIED };
    let near: Ipv4Prefix = args.required_or("ADDR", nowhere);
    let gateway = args.get::<Ipv4Addr>("GATEWAY").filter(|gateway| !gateway.is_unspecified());
    let tap = args.value("TAP");
    let headroom = args.value::<u32>("HEADROOM");
    let burst = args.value::<u32>("BURST");
    let mac: Option<MacAddr> = args.get("ETHER");
    args.value::<bool>("IGNORE_QUEUE_OVERFLOWS");
    let mtu = args.value::<i32>("MTU");
    let older: Option<String> = args.get("DEV_NAME");
    let name = args.get("DEVNAME").or(older).unwrap_or_default();
    if gateway.is_some_and(|gateway| !near.contains(gateway)) {
        args.error("bad GATEWAY");
    }
    if burst < 1 {
        args.error("BURST must be >= 1");
    }
    if mtu < IP {
        args.error(format!("MTU must be greater than {IP}"));
    }
    if headroom > 8192 {
        args.error("HEADROOM too big");
    }
    let gone = Gone::read(args);
    args.finish()?;
    let link = if tap { LinkType::Ethernet } else { LinkType::RawIp };
    let changed = (mtu != KERNELS_MTU).then_some(mtu as u32);
    let wanted =
        Wanted { name, tap, alone: false, near: Some(near), near6: None, gateway, mac, mtu: changed };
    let marks_ip = if tap { MarksIp::No } else { MarksIp::Only };
    Ok(Box::new(KernelTun {
        made: args.setup.common.get_or_make(args.id(), Made::default),
        burst: (burst as usize).min(BATCH_CAPACITY),
        inputs: args.inputs(),
        outputs: args.outputs(),
        transmitter: Transmitter::new(mtu as usize),
        ..KernelTun::new(wanted, gone, Receiver::new(marks_ip, link), Arc::clone(&args.setup.common))
    }))
}

/// The state of KernelTun, KernelTap and FromHost: an interface that the element creates and reads from,
/// and writes to unless it is a FromHost.
pub(super) struct KernelTun {
    /// The properties of the interface in the configuration. If it gives no name, `wanted` has the name that
    /// the kernel has chosen.
    configured: Wanted,
    wanted: Wanted,
    /// The objects that the elements of this configuration share.
    common: Arc<Common>,
    gone: Gone,
    made: Arc<Made>,
    /// The number of times that this copy has tried to open the interface (see [`Made`]).
    times: u32,
    /// True from the removal of the interface until it has been created again.
    is_gone: bool,
    /// True if the user has been notified that the interface cannot be created again, so that the message
    /// is not repeated.
    is_told: bool,
    burst: usize,
    inputs: usize,
    outputs: usize,
    /// True if the input is a pull input.
    pulls: bool,
    receiver: Receiver,
    transmitter: Transmitter,
    tun: Option<Arc<Tun>>,
    /// The queue of `tun` as an entry in the registry of queues, by which the element that replaces this one
    /// finds it.
    queue: Option<Arc<Queue>>,
    /// `index` is the interface's index in the kernel; `news` is the socket that receives the kernel's
    /// messages about interfaces.
    index: c_int,
    news: Option<News>,
    /// True if the interface was moved to another namespace. The move deletes its addresses, which have to
    /// be set again when it returns.
    is_away: bool,
    /// The interface as ToHost finds it; `None` unless this is a FromHost.
    shared: Option<Arc<HostInterface>>,
}

impl KernelTun {
    fn new(wanted: Wanted, gone: Gone, receiver: Receiver, common: Arc<Common>) -> KernelTun {
        KernelTun {
            configured: wanted.clone(),
            wanted,
            common,
            gone,
            made: Arc::default(),
            times: 0,
            is_gone: false,
            is_told: false,
            burst: 1,
            inputs: 0,
            outputs: 1,
            pulls: false,
            receiver,
            transmitter: Transmitter::default(),
            tun: None,
            queue: None,
            index: 0,
            news: None,
            is_away: false,
            shared: None,
        }
    }

    /// Creates the state of a FromHost, which only reads from the interface; ToHost writes to it.
    pub(super) fn shared(
        wanted: Wanted,
        gone: Gone,
        burst: usize,
        interface: Arc<HostInterface>,
        common: Arc<Common>,
    ) -> KernelTun {
        let receiver = Receiver::new(MarksIp::Yes, LinkType::Ethernet);
        KernelTun { burst, shared: Some(interface), ..KernelTun::new(wanted, gone, receiver, common) }
    }

    /// Opens this copy's queue of the interface, creates the interface if no other copy has, and watches it
    /// for packets. If the running configuration has the queue open, shares it. ToHost gets the new file.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.times += 1;
        let by = Claimant::new(cx, &self.common);
        let queue = match Queue::claim(&by, &self.configured)? {
            Some(queue) => {
                let mut made = self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                *made = self.times.max(*made);
                queue
            }
            None => {
                let tun = open(cx, &self.wanted, &self.made, self.times)?;
                Queue::list(&by, self.configured.clone(), tun)
            }
        };
        let tun = Arc::clone(&queue.tun);
        self.receiver.start(cx, &tun)?;
        // If the kernel has chosen the name, the interface keeps it when it is created again.
        self.wanted.name = tun.name.clone();
        let index = link::index(&tun.name).ok();
        // An interface that is taken over from the running configuration may be in another network namespace.
        (self.index, self.is_away) = (index.unwrap_or(0), index.is_none());
        (self.tun, self.queue) = (Some(tun), Some(queue));
        self.share();
        Ok(())
    }

    /// Reads the kernel's messages about interfaces. If the interface has returned from another namespace,
    /// sets its addresses and routes again.
    #[cold]
    fn hear(&mut self, cx: &mut Cx<'_>) {
        let Some(news) = &self.news else { return };
        self.is_away |= news.take(self.index).was_removed;
        let name = self.wanted.name.clone();
        let Some(index) = link::index(&name).ok().filter(|_| self.is_away && !self.is_gone) else { return };
        // The file shows that this is the element's own interface. If that interface was deleted, another
        // interface may have its name.
        let is_ours = self.tun.as_ref().is_some_and(|tun| tun.is_attached());
        let is_first = self.wanted.alone || cx.workers().copy().0 == 0;
        if !is_ours {
            return;
        }
        (self.is_away, self.index) = (false, index);
        if is_first {
            match settle(cx, &self.wanted, &name) {
                Ok(()) => {
                    cx.note(format_args!("{name}: has been in another namespace; it has its addresses again"))
                }
                Err(error) => cx.warn(format_args!("{error}")),
            }
        }
    }

    /// Reports that the interface was removed. Sets a timer to create it again (GONE wait), or stops the
    /// run (GONE stop).
    #[cold]
    fn lose(&mut self, cx: &mut Cx<'_>) {
        self.is_gone = true;
        let text = match self.gone {
            Gone::Wait => "was removed; making it again",
            Gone::Stop => Gone::Stop.text(),
        };
        self.say(cx, text);
        match self.gone {
            Gone::Wait => cx.set_coarse_timer(0, cx.now() + LOOK_AGAIN),
            Gone::Stop => cx.stop(),
        }
    }

    fn say(&self, cx: &mut Cx<'_>, text: &str) {
        cx.warn(format_args!("{}: {text}", self.wanted.name));
    }

    fn share(&self) {
        if let Some(shared) = &self.shared {
            shared.set(self.tun.clone());
        }
    }
}

impl Element for KernelTun {
    fn effects(&self) -> Effects {
        let mut effects = self.receiver.incoming.effects(self.outputs);
        if self.inputs > 0 {
            if !self.wanted.tap {
                let no_header = Filter::All(vec![Predicate::present(HeaderKind::Ipv4).not()]);
                effects.cases.push(Case::new(no_header, Target::Drop(DropReason::NoHeader)));
            }
            effects.cases.push(Case::new(Filter::TRUE, Target::Send));
        }
        let offloads = Some(if self.wanted.tap { -14 } else { 0 });
        Effects {
            support: Support { offloads, ..Support::default() },
            ..effects.observing(&[Field::Length, Field::Payload])
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open(cx)?;
        self.news = News::open().ok();
        if let Some(news) = &self.news {
            let watched = cx.files().watch(NEWS, news.socket(), Interest::Aside);
            watched.map_err(|error| cannot(&self.wanted.name, "poll", &error))?;
        }
        self.transmitter.start(cx);
        self.pulls = self.inputs > 0 && !cx.graph().input_is_push(0);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        match &self.tun {
            Some(tun) => self.transmitter.send(cx, tun, self.wanted.tap, batch),
            None => cx.drop_all(batch, DropReason::NotConnected),
        }
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(tun) = &self.tun else { return false };
        let before = self.receiver.incoming.count;
        let mut goes_on = self.receiver.receive(cx, tun, self.burst);
        let was_removed = self.receiver.is_gone && !self.is_gone;
        let mut worked = self.receiver.incoming.count > before;
        if self.pulls {
            let batch = cx.pull(0, self.burst);
            worked |= !batch.is_empty();
            goes_on |= !batch.is_empty() || cx.may_pull(0);
            self.transmitter.send(cx, tun, self.wanted.tap, batch);
        }
        if was_removed {
            self.lose(cx);
        }
        if goes_on {
            cx.schedule();
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        match self.open(cx) {
            Ok(()) => {
                (self.is_gone, self.receiver.is_gone, self.is_told) = (false, false, false);
                cx.note(format_args!("{}: is there again", self.wanted.name));
                cx.schedule();
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    self.say(cx, &format!("cannot be made again: {error}"));
                }
                cx.set_coarse_timer(0, cx.now() + PAUSE);
            }
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == NEWS {
            return self.hear(cx);
        }
        cx.schedule();
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        cx.unschedule();
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.transmitter.end(cx, &self.wanted.name);
        self.receiver.incoming.end(cx, &self.wanted.name);
        // When the last file of the interface is closed, the kernel removes the interface with its addresses
        // and routes.
        cx.files().unwatch(RECEIVE);
        cx.files().unwatch(NEWS);
        self.tun = None;
        if self.queue.take().is_none_or(|queue| Arc::strong_count(&queue) == 1) {
            self.share();
        }
        self.gone.end(&self.wanted.name, self.is_gone)
    }

    element::keeps!(receiver.turns, receiver.incoming.count);
}

const HANDLERS: &[Handler<KernelTun>] = &[
    DEV_NAME,
    Handler::count("selected_calls", |e| e.receiver.turns),
    Handler::count("packets", |e| e.receiver.incoming.count),
];

const DEV_NAME: Handler<KernelTun> =
    Handler::get("dev_name", |e| e.tun.as_ref().map_or(&e.wanted.name, |tun| &tun.name).clone());

/// The handlers of FromHost, whose elements have the same state.
pub(super) const OF_FROM_HOST: &[Handler<KernelTun>] =
    &[DEV_NAME, Handler::read("signal", |_, cx, _| Ok(cx.may_push(0).to_string()))];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn arguments_that_are_wrong_are_refused_in_clicks_words() {
        for (arguments, text) in [
            ("10.0.0.1/8, 11.0.0.1", "bad GATEWAY"),
            ("10.0.0.1/8, BURST 0", "BURST must be >= 1"),
            ("10.0.0.1/8, MTU 19", "MTU must be greater than 20"),
            ("10.0.0.1/8, HEADROOM 8193", "HEADROOM too big"),
            ("", "ADDR: required argument missing"),
            ("10.0.0.1/8, DEVNAME a/b", "a/b: TUNSETIFF: No such device"),
        ] {
            for class in ["KernelTun", "KernelTap"] {
                let errors =
                    TestRun::default().text(&format!("{class}({arguments}) -> Discard"), &[]).unwrap_err();
                // If this machine has no `/dev/net/tun`, opening it fails before the name is refused.
                let absent = errors.contains("/dev/net/tun") && text.contains("TUNSETIFF");
                assert!(errors.contains(text) || absent, "{arguments}: {errors}");
            }
        }
    }
}
