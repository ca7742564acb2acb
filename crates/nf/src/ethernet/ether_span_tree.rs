//! # EtherSpanTree
//! Switches off ports of a switch, so that networks with several ways between switches have no loops
//! (IEEE 802.1D).
//!
//! Each input and the output of the same number are a port of the switch. The inputs get the frames of the
//! protocol from the other switches (`Classifier(14/4242)`); the outputs send such frames. Other frames go
//! through the Suppressor INPUT_SUPPRESSOR, the EtherSwitch, and the Suppressor OUTPUT_SUPPRESSOR; the
//! element lets them pass at the ports that belong to the tree. Every port is silent for the first 30 seconds
//! (listening and learning, twice the forward delay).
//!
//! The priority is 0xdead as in Click, so that the switch becomes the root only if there is no other kind of
//! switch. Each hop costs 1. Unlike Click, the element sends and acknowledges notifications of changes, which
//! Click takes for messages of the best root, and its identifier has the bytes of ADDR in their order.
//!
//! ## Usage
//! `EtherSpanTree(ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH)`
//!
//! ## Arguments
//! - `ADDR`: the Ethernet address of the switch.
//! - `INPUT_SUPPRESSOR`: the Suppressor ahead of the switch, with as many ports.
//! - `OUTPUT_SUPPRESSOR`: the Suppressor behind the switch.
//! - `SWITCH`: the EtherSwitch.
//!
//! ## Handlers
//! - `msgs`: the best message of each port, a line each, and the message on which the tree is based.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> c :: Classifier(14/4242, -);
//! tree :: EtherSpanTree(00:02:03:04:05:06, before, after, switch);
//! c[0] -> tree -> Discard; Idle -> [1] tree [1] -> Discard;
//! c[1] -> before :: Suppressor -> switch :: EtherSwitch -> after :: Suppressor -> Discard;
//! Idle -> [1] before [1] -> [1] switch [1] -> [1] after [1] -> Discard
//! ```
//!
//! ## See also
//! EtherSwitch, Suppressor

use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Emit, Field, Filter, State, StateAccess, Target};
use element::{
    Batch, Call, Class, Cx, DropReason, Effects, Element, ElementId, Handler, Severity, StatePart, Timestamp,
    manual,
};
use wire::MacAddr;

use super::bridge_message::{Configuration, FRAME, Message, Offer, Timing};
use crate::editing::when;

/// The element class `EtherSpanTree`.
pub static CLASS: Class = Class {
    name: "EtherSpanTree",
    ports: "-/=",
    processing: "h/h",
    manual: manual!("ether_span_tree.rs"),
    args: &[
        ArgInfo::required("ADDR", "Ethernet address"),
        ArgInfo::required("INPUT_SUPPRESSOR", "element"),
        ArgInfo::required("OUTPUT_SUPPRESSOR", "element"),
        ArgInfo::required("SWITCH", "element"),
    ],
    table: &HANDLERS,
    state: &[StatePart::lost("tree", "the ports start silent, as after a start of the switch", &["msgs"])],
    samples: &[],
    build: |args| {
        let address: Option<MacAddr> = args.get("ADDR");
        let names = ["INPUT_SUPPRESSOR", "OUTPUT_SUPPRESSOR", "SWITCH"];
        let found: Vec<Option<ElementRef>> = names.iter().map(|&name| args.get(name)).collect();
        let (Some(address), [Some(before), Some(after), Some(_)]) = (address, &found[..]) else {
            return crate::editing::missing(args, "ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH");
        };
        let suppressors = [before.0, after.0];
        args.finish()?;
        let ports = vec![Port::new(); args.outputs()];
        let own = identifier(address);
        let tree = SpanTree {
            address,
            own,
            suppressors,
            ports,
            best: Received::own(own),
            root_port: None,
            changed: None,
            notifies: false,
        };
        Ok(Box::new(tree))
    },
    ..Class::DEFAULT
};

/// The priority of a bridge: a high one, so that the bridge hardly becomes the root.
const PRIORITY: u16 = 0xdead;
/// The cost of a way through one network.
const COST: u32 = 1;

/// Returns the identifier of the bridge with this address.
fn identifier(address: MacAddr) -> u64 {
    let [a, b] = PRIORITY.to_be_bytes();
    let [c, d, e, f, g, h] = address.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The state of a port. The order is that in which a port gets to forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Blocking,
    Listening,
    Learning,
    Forwarding,
}

/// A message, and the time at which the root has sent the one on which it is based.
#[derive(Clone, Copy, Debug)]
struct Received {
    offer: Offer,
    is_changed: bool,
    /// `None` for a message that does not get old.
    sent: Option<Timestamp>,
    timing: Timing,
}

impl Received {
    /// Returns the message of a bridge that is the root.
    fn own(bridge: u64) -> Received {
        let offer = Offer { root: bridge, cost: 0, bridge, port: 0 };
        Received { offer, is_changed: false, sent: None, timing: Timing::USUAL }
    }

    fn show(&self) -> String {
        let Offer { root, cost, bridge, port } = self.offer;
        let flag = if self.is_changed { "TC" } else { "tc" };
        let Timing { max_age, hello, forward_delay } = self.timing;
        format!(
            " {bridge:>16x}:{port:04x}: {flag}  {cost:x} -> {root:>16x}  m/h/d: {max_age:x}/{hello:x}/{forward_delay:x}\n"
        )
    }
}

#[derive(Clone, Copy, Debug)]
struct Port {
    stage: Stage,
    /// The time since which the port is at this stage.
    since: Timestamp,
    /// True if the next message acknowledges a notification.
    acknowledges: bool,
    /// The best message that was received.
    best: Received,
}

impl Port {
    fn new() -> Port {
        let best = Received { offer: Offer::NONE, ..Received::own(0) };
        Port { stage: Stage::Blocking, since: Timestamp::ZERO, acknowledges: false, best }
    }
}

struct SpanTree {
    address: MacAddr,
    /// The identifier of this bridge.
    own: u64,
    /// The elements that pass or drop frames ahead of the switch and behind it.
    suppressors: [ElementId; 2],
    ports: Vec<Port>,
    /// The message on which the tree is based: the best of the ports, with the cost of the way to it, or the
    /// bridge's own.
    best: Received,
    /// The port that leads to the root; `None` at the root.
    root_port: Option<usize>,
    /// The time until which messages say that the tree has changed, at the root.
    changed: Option<Timestamp>,
    /// True until the bridge ahead has acknowledged a notification that the tree has changed.
    notifies: bool,
}

impl SpanTree {
    /// Returns the offer of this bridge at a port.
    fn offer(&self, port: usize) -> Offer {
        Offer { bridge: self.own, port: port as u16, ..self.best.offer }
    }

    /// Brings a port nearer to forwarding by one stage, or blocks it.
    fn change(&mut self, cx: &mut Cx<'_>, port: usize, forwards: bool) {
        let Some(one) = self.ports.get_mut(port) else { return };
        let stage = match (forwards, one.stage) {
            (false, _) => Stage::Blocking,
            (true, Stage::Blocking) => Stage::Listening,
            (true, Stage::Listening) => Stage::Learning,
            (true, _) => Stage::Forwarding,
        };
        if stage == one.stage {
            return;
        }
        let before = std::mem::replace(&mut one.stage, stage);
        one.since = cx.now();
        let text = format!("Changing port {port} from {} to {}", before as u8, stage as u8);
        cx.messages().remark(Severity::Note, format_args!("{text}"));
        let passes = [stage >= Stage::Learning, stage == Stage::Forwarding];
        for (element, passes) in self.suppressors.into_iter().zip(passes) {
            let call = Call::new(Some(element), format!("active{port}"), passes.to_string());
            if let Err(reason) = cx.handlers().write(&call) {
                cx.warn(format_args!("{reason}"));
            }
        }
        // A port changes the tree if it begins or ends to forward.
        if (stage == Stage::Forwarding) != (before == Stage::Forwarding) {
            self.note_change(cx.now());
        }
    }

    /// Notes that the tree has changed, for the next messages.
    fn note_change(&mut self, now: Timestamp) {
        match self.root_port {
            Some(_) => self.notifies = true,
            None => {
                let Timing { max_age, forward_delay, .. } = self.best.timing;
                let seconds = i64::from(max_age) + i64::from(forward_delay);
                self.changed = Some(now + Timestamp::from_secs(seconds));
            }
        }
    }

    /// Finds the root, and which ports belong to the tree.
    fn find(&mut self, cx: &mut Cx<'_>) {
        (self.best, self.root_port) = (Received::own(self.own), None);
        for (index, port) in self.ports.iter().enumerate() {
            let mut best = port.best;
            best.offer.cost = best.offer.cost.saturating_add(COST);
            if best.offer < self.best.offer {
                (self.best, self.root_port) = (best, Some(index));
            }
        }
        for index in 0..self.ports.len() {
            let is_ours = self.offer(index) <= self.ports[index].best.offer;
            if Some(index) != self.root_port && !is_ours {
                self.change(cx, index, false);
            } else if self.ports[index].stage == Stage::Blocking {
                self.change(cx, index, true);
            }
        }
    }

    /// Forgets messages that are too old, and brings ports nearer to forwarding whose time has come.
    fn age(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Timing { max_age, forward_delay, .. } = self.best.timing;
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            let is_old = |sent: Timestamp| sent + Timestamp::from_secs(max_age.into()) <= now;
            if port.best.sent.is_some_and(is_old) {
                port.best = Port::new().best;
                cx.messages().remark(Severity::Note, format_args!("Expiring message on port {index}"));
            }
            let moves = matches!(port.stage, Stage::Listening | Stage::Learning);
            if moves && port.since + Timestamp::from_secs(forward_delay.into()) < now {
                self.change(cx, index, true);
            }
        }
        self.find(cx);
        self.changed = self.changed.filter(|&until| now < until && self.root_port.is_none());
    }

    /// Returns the message that is sent by a port now; `None` if another bridge is responsible for its
    /// network.
    fn message(&mut self, now: Timestamp, index: usize) -> Option<Message> {
        if Some(index) == self.root_port {
            return self.notifies.then_some(Message::Notification);
        }
        let offer = self.offer(index);
        let port = self.ports.get_mut(index).filter(|port| offer <= port.best.offer)?;
        let acknowledges = std::mem::take(&mut port.acknowledges);
        let age = self.best.sent.map_or(Timestamp::ZERO, |sent| now - sent);
        let is_changed = self.changed.is_some() || (self.root_port.is_some() && self.best.is_changed);
        let configuration = Configuration { offer, is_changed, age, timing: self.best.timing };
        Some(Message::Configuration(configuration, acknowledges))
    }

    fn receive(&mut self, cx: &mut Cx<'_>, port: usize, message: Message) {
        let now = cx.now();
        let is_root_port = Some(port) == self.root_port;
        let Some(one) = self.ports.get_mut(port) else { return };
        match message {
            Message::Notification => {
                one.acknowledges = true;
                self.note_change(now);
            }
            Message::Configuration(new, acknowledges) if new.offer <= one.best.offer => {
                let Configuration { offer, is_changed, age, timing } = new;
                one.best = Received { offer, is_changed, sent: Some(now - age), timing };
                self.notifies &= !(acknowledges && is_root_port);
            }
            Message::Configuration(..) => {}
        }
        self.find(cx);
    }
}

impl Element for SpanTree {
    fn effects(&self) -> Effects {
        let reads = [Field::Payload, Field::Length];
        let cases = vec![
            when("no message", &reads, Target::Drop(DropReason::BadNetworkHeader)),
            Case::new(Filter::TRUE, Target::Drop(DropReason::Answered)),
        ];
        let hello = Emit {
            name: "hello",
            input: None,
            reads: reads.to_vec(),
            output: None,
            starts: None,
            when: Filter::TRUE,
        };
        let tree = State {
            table: "tree",
            key: Vec::new(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        let effects = Effects { emits: vec![hello], state: vec![tree], ..Effects::cases(cases) };
        effects.depending_on(Depends::Time).calling(true)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for (name, element) in ["INPUT_SUPPRESSOR", "OUTPUT_SUPPRESSOR"].into_iter().zip(self.suppressors) {
            let has = |port: usize| {
                let call = Call::new(Some(element), format!("active{port}"), "");
                cx.graph().has_handler(&call, true)
            };
            if !(0..self.ports.len()).all(has) {
                return Err(format!("{name}: no Suppressor with as many ports as this element"));
            }
        }
        (0..self.ports.len()).for_each(|port| self.change(cx, port, true));
        cx.set_timer(0, cx.now() + Timestamp::from_secs(self.best.timing.hello.into()));
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            let mut frame = [0; FRAME];
            let length = packet.read_at(0, &mut frame);
            match Message::parse(&frame[..length]) {
                Some(message) => {
                    self.receive(cx, port, message);
                    cx.drop(packet, DropReason::Answered);
                }
                None => cx.drop(packet, DropReason::BadNetworkHeader),
            }
        }
        cx.recycle(batch);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.age(cx);
        for port in 0..self.ports.len() {
            if let Some(message) = self.message(cx.now(), port)
                && let Some(packet) = cx.packet(&message.frame(self.address))
            {
                cx.emit_one(port, packet, DropReason::NoOutput);
            }
        }
        let hello = i64::from(self.best.timing.hello.max(1));
        cx.set_timer(0, cx.now() + Timestamp::from_secs(hello));
    }
}

const HANDLERS: &[Handler<SpanTree>] =
    &[Handler::get("msgs", |e| e.ports.iter().map(|port| port.best.show()).chain([e.best.show()]).collect())];
