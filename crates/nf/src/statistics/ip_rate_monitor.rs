//! # IPRateMonitor
//! Measures packet rates from and to IP addresses, in more detail for networks with much traffic.
//!
//! Packets on input 0 count for their source, packets on input 1 for their destination; each leaves by the
//! output of the same number. At first, all addresses with the same first byte are measured together. When
//! either rate of such a network reaches THRESH, the network is split by the next byte of the address, down
//! to single addresses. After its rates have fallen below about an eighth of THRESH, as in Click, it is
//! merged again. Rates are exponentially weighted moving averages. Rounding keeps a falling rate from going
//! below about two per second. Therefore networks are never merged again if the threshold, multiplied by
//! RATIO, is 16 or less. The network header annotation must be set; packets without a whole IPv4 header are
//! dropped.
//!
//! ## Usage
//! `IPRateMonitor(TYPE, RATIO, THRESH [, MEMORY, ANNO])`
//!
//! ## Arguments
//! - `TYPE`: `PACKETS` or `BYTES`: the unit that is counted; bytes are the length in the IP header.
//! - `RATIO`: the fraction of packets that are counted, between 0 and 1.
//! - `THRESH`: packets or bytes per second from which on a network is split, as if RATIO were 1.
//! - `MEMORY`: kilobytes for counters, at least 100; 0 for no limit. Memory is counted as Click does, 40
//!   bytes for a counter and 2080 for a network that is split; the real use is up to about three and a half
//!   times as much. When the limit is reached, networks are no longer split.
//! - `ANNO`: if true, packets get both rates per second as annotations: the rate from their addresses as
//!   FWD_RATE, the rate to their addresses as REV_RATE.
//!
//! ## Handlers
//! - `look`: epochs of 8 ms since the last reset; then lines with a network and the rates from and to it.
//! - `thresh`: the threshold, multiplied by RATIO.
//! - `mem`: bytes in use, counted as for MEMORY.
//! - `memmax`: the limit in bytes; written in kilobytes.
//! - `anno_level`: `ADDRESS LEVEL SECONDS`: the network around an address is not split below byte LEVEL (0 to
//!   3) for SECONDS. No effect if this byte of the address has no counter yet.
//! - `reset`: forgets all rates.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> MarkIPHeader -> m :: IPRateMonitor(PACKETS, 0.5, 256, 600) -> Discard;
//! InfiniteSource(LIMIT 100) -> MarkIPHeader -> [1] m [1] -> Discard
//! ```
//!
//! ## See also
//! AggregateCounter, FlowCounter, Meter

use std::any::Any;
use std::net::Ipv4Addr;

use classify::IntervalSet;
use element::args::{ArgType, Args};
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Counting, Depends, Filter, HeaderKind, State, StateAccess, Target, Value, wire_field,
};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
    manual,
};
use packet::Annotations;
use wire::{FromBytes, ipv4};

use super::rate_tree::{RateTree, epoch};
use crate::editing::{annotation, needs};
use crate::fixed::quantize;

/// The element class `IPRateMonitor`.
pub static CLASS: Class = Class {
    name: "IPRateMonitor",
    ports: "1-2/1-2",
    flow: "#/#",
    manual: manual!("ip_rate_monitor.rs"),
    args: &[
        ArgInfo::required("TYPE", "PACKETS or BYTES"),
        ArgInfo::required("RATIO", "real"),
        ArgInfo::required("THRESH", "int"),
        ArgInfo::positional("MEMORY", "unsigned", "65536"),
        ArgInfo::positional("ANNO", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("rates", &["look", "mem"])],
    samples: &["PACKETS, 1, 10", "BYTES, 0.5, 1000, 100 -> 2/2", "BYTES, 1, 1, 0, false"],
    build: |args| build(args),
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let kind: String = args.required("TYPE");
    let ratio: f64 = args.required("RATIO");
    let threshold: i32 = args.required("THRESH");
    let memory: usize = args.value("MEMORY");
    let marks = args.value::<bool>("ANNO");
    args.finish()?;
    let packets = match kind.to_ascii_uppercase().as_str() {
        "PACKETS" => true,
        "BYTES" => false,
        _ => {
            args.error("monitor type should be \"PACKETS\" or \"BYTES\"");
            false
        }
    };
    if !(0.0..=1.0).contains(&ratio) {
        args.error("ratio must be between 0 and 1");
    }
    args.finish()?;
    let ratio = quantize(ratio, 16);
    let threshold = u64::from(threshold.max(0).unsigned_abs());
    let tree = RateTree::new((threshold * ratio) >> 16, limit(memory));
    Ok(Box::new(IpRateMonitor { packets, ratio, marks, tree, reset_at: 0 }))
}

/// Converts MEMORY, in kilobytes, to bytes; 0 means no limit, and other values are at least 100 kilobytes.
fn limit(kilobytes: usize) -> usize {
    if kilobytes == 0 { 0 } else { kilobytes.max(100).saturating_mul(1024) }
}

struct IpRateMonitor {
    /// True if the unit that is counted is packets, false if it is bytes.
    packets: bool,
    /// The share of packets that are counted, in units of 1/65,536.
    ratio: u64,
    marks: bool,
    tree: RateTree,
    /// The epoch, in units of 8 ms, of the last reset of the rates.
    reset_at: i64,
}

impl IpRateMonitor {
    /// Measures a packet of an input: calls `update` with the address (the source address on input 0, the
    /// destination address on input 1) and the packet's amount. If ANNO is true, annotates the packet with
    /// the rates that `update` returns, unless there is no memory for them.
    ///
    /// # Errors
    /// [`DropReason::NoHeader`] if the packet has no IPv4 header.
    #[inline]
    fn measure(
        &mut self,
        packet: &mut Packet,
        input: usize,
        update: impl FnOnce(&mut RateTree, u32, u64) -> Option<[u64; 2]>,
    ) -> Result<(), DropReason> {
        let header = packet.header(Base::Network).ok_or(DropReason::NoHeader)?;
        let (ip, _) = ipv4::Header::ref_from_prefix(header).map_err(|_| DropReason::NoHeader)?;
        let address = if input == 0 { ip.source.get() } else { ip.destination.get() };
        let amount = if self.packets { 1 } else { u64::from(ip.total_length.get()) };
        let rates = update(&mut self.tree, address, amount);
        if let Some(rates) = rates.filter(|_| self.marks) {
            let [from, to] = rates.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX));
            packet.annotations_mut().set_u32(Annotations::AGGREGATE, from);
            packet.annotations_mut().set_u32(Annotations::EXTRA_PACKETS, to);
        }
        Ok(())
    }

    fn measure_all(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, input: usize) {
        let now = cx.now();
        let (ratio, is_sure) = (self.ratio, self.ratio >= 0xffff);
        // The two closures need the context, from which random numbers usually come. So the random numbers
        // are drawn from a separate generator.
        let mut random = if is_sure { fastrand::Rng::with_seed(0) } else { cx.random().fork() };
        let mut same = None;
        batch.sift(
            |packet| {
                let counts = is_sure || random.u64(..=0xffff) <= ratio;
                self.measure(packet, input, |tree, address, amount| match is_sure {
                    true => tree.update_next(&mut same, address, input, amount, now),
                    false => tree.update(address, input, counts.then_some(amount), now),
                })
            },
            |packet, reason| cx.drop(packet, reason),
        );
        self.tree.add_rest(same, input, now);
    }
}

impl Element for IpRateMonitor {
    fn effects(&self) -> Effects {
        let mut cases = vec![needs(HeaderKind::Ipv4)];
        let sides = [wire_field::IP_SRC, wire_field::IP_DST];
        for (input, address) in sides.iter().enumerate() {
            let case = Case::new(Filter::TRUE, Target::Output(input)).on(input);
            let rate = |offset| {
                let mut key = vec![address.clone()];
                key.extend((!self.packets).then_some(wire_field::IP_LENGTH));
                let any = IntervalSet::one(0, u32::MAX.into());
                Action::Set(annotation(offset, 4), Value::Choose { set: any, key })
            };
            cases.push(match self.marks {
                true => case.with(rate(Annotations::AGGREGATE)).with(rate(Annotations::EXTRA_PACKETS)),
                false => case,
            });
        }
        let access = if self.marks { StateAccess::EveryPacket } else { StateAccess::Soft };
        let state = State { table: "rates", key: sides.to_vec(), both_directions: true, access };
        let mut effects = Effects { state: vec![state], counts: Counting::Own, ..Effects::cases(cases) };
        if self.marks {
            effects.depends.extend([Depends::Time, Depends::Handler]);
            effects.depends.extend((self.ratio < 0xffff).then_some(Depends::Random));
        }
        effects.observing(&[wire_field::IP_LENGTH])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.reset_at = epoch(cx.now());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.measure_all(cx, &mut batch, port);
        cx.pass_on(port, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let mut batch = cx.pull(port, max);
        self.measure_all(cx, &mut batch, port);
        batch
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let empty = RateTree::new(self.tree.threshold, self.tree.limit);
        let tree = std::mem::replace(&mut self.tree, empty);
        Some(Box::new(((self.packets, self.ratio), tree, self.reset_at)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (mut tree, reset_at): (RateTree, i64);
        let unit: (bool, u64);
        (unit, tree, reset_at) = *state.downcast().map_err(|_| "the state of another class")?;
        if unit != (self.packets, self.ratio) {
            return Err("it measures something else now".into());
        }
        (tree.threshold, self.reset_at) = (self.tree.threshold, reset_at);
        tree.set_limit(self.tree.limit, cx.now());
        self.tree = tree;
        Ok(())
    }
}

const HANDLERS: &[Handler<IpRateMonitor>] = &[
    Handler::read("look", |e, cx, _| {
        Ok({
            let since = epoch(cx.now()) - e.reset_at;
            format!("{since}\n{}", e.tree.show(cx.now()))
        })
    }),
    Handler::get("thresh", |e| e.tree.threshold.to_string()),
    Handler::count("mem", |e| e.tree.used as u64),
    Handler::data(
        "memmax",
        |e| e.tree.limit.to_string(),
        |e, cx, value| {
            let now = cx.now();
            let words: Vec<&str> = match value.contains(',') {
                true => value.split(',').map(str::trim).collect(),
                false => value.split_whitespace().collect(),
            };

            let [number] = words[..] else { return Err("expecting 1 integer".into()) };
            let kilobytes = usize::parse(number, &cx.place()).map_err(|_| "not an integer")?;
            e.tree.set_limit(limit(kilobytes), now);
            Ok(())
        },
    ),
    Handler::set("anno_level", |e, cx, value| {
        let now = cx.now();
        let words: Vec<&str> = match value.contains(',') {
            true => value.split(',').map(str::trim).collect(),
            false => value.split_whitespace().collect(),
        };

        let [address, level, seconds] = words[..] else {
            return Err("expecting 3 arguments".into());
        };
        let place = cx.place();
        let address = Ipv4Addr::parse(address, &place).map_err(|_| "not an IP address")?;
        let level = usize::parse(level, &place).ok().filter(|level| (0..4).contains(level));
        let level = level.ok_or("2nd argument specifies a level, between 0 and 3, to annotate")?;
        let seconds = i32::parse(seconds, &place).ok().filter(|&seconds| seconds > 0);
        let seconds = seconds.ok_or("3rd argument specifies when this rule expires, must be > 0")?;
        let until = epoch(now + Timestamp::from_secs(seconds.into()));
        e.tree.keep_whole(address.to_bits(), level, until);
        Ok(())
    }),
    Handler::set("reset", |e, cx, _| {
        let now = cx.now();

        e.tree.clear();
        e.reset_at = epoch(now);
        Ok(())
    }),
];
