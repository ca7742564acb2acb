//! Common parts of elements that check headers, such as CheckIPHeader.
//!
//! A class implements [`HeaderCheck`]; [`Checker`] is the element. It passes good packets to output 0. It
//! counts bad packets by reason, reports the first of them (with VERBOSE, each), and sends them to output 1
//! or drops them.

use element::effects::{Counting, Target};
use element::{Args, Batch, Cx, DropReason, Effects, Element, Handler, Packet, Severity, StatePart, Tally};

/// The possible faults of a header, in the order in which they are checked. Each has a text for messages
/// and a drop reason.
pub(crate) type Reasons = &'static [(&'static str, DropReason)];

/// The parts of a checking element that depend on the type of the header.
pub(crate) trait HeaderCheck: Send + 'static {
    /// The possible faults of the header.
    const REASONS: Reasons;
    /// The beginning of the message about a bad packet; the text of the fault follows after a colon.
    const MESSAGE: &'static str;
    /// The form of the element's name at the start of a message, before `MESSAGE`.
    const SPEAKER: Speaker;

    /// Returns the element's effects; see [`Element::effects`].
    fn effects(&self) -> Effects;

    /// Prepares the check of headers; called once before the first packet. Does nothing by default.
    fn prepare(&mut self, _cx: &mut Cx<'_>) {}

    /// Checks one packet, and sets the annotations that the class promises for good packets. The error is
    /// the index of the fault in `REASONS`.
    fn check(&self, packet: &mut Packet) -> Result<(), usize>;
}

/// The form of the element's name at the start of a message.
pub(crate) enum Speaker {
    /// The element's name: `name: `.
    Name,
    /// The element's name and class: `name :: Class: `.
    Declaration,
    None,
}

/// An element that checks headers with `check`.
pub(crate) struct Checker<C> {
    pub(crate) check: C,
    outcome: Outcome,
}

/// Settings for messages about packets with faulty headers, and counts of good and bad packets.
struct Outcome {
    verbose: bool,
    details: bool,
    good: u64,
    /// The number of bad packets for each fault, with the indices of `REASONS`.
    bad: Vec<u64>,
}

impl<C: HeaderCheck> Checker<C> {
    /// Makes the element that checks headers with `check`. The arguments VERBOSE and DETAILS are false if the
    /// class does not have them.
    pub(crate) fn boxed(
        args: &mut Args<'_>,
        class: &'static element::Class,
        check: C,
    ) -> Result<Box<dyn Element>, element::Invalid> {
        let mut flag = |name| class.arg(name).is_some() && args.value(name);
        let (verbose, details) = (flag("VERBOSE"), flag("DETAILS"));
        args.finish()?;
        let outcome = Outcome { verbose, details, good: 0, bad: vec![0; C::REASONS.len()] };
        Ok(Box::new(Checker { check, outcome }))
    }
}

impl Outcome {
    #[cold]
    fn reject<C: HeaderCheck>(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: usize) {
        let (text, drop) = C::REASONS[reason];
        if self.verbose || self.bad.iter().all(|&n| n == 0) {
            let speaker = match C::SPEAKER {
                Speaker::Name => format!("{}: ", cx.name()),
                Speaker::Declaration => format!("{}: ", cx.declaration()),
                Speaker::None => String::new(),
            };
            let reason = if text.is_empty() { String::new() } else { format!(": {text}") };
            cx.messages().remark(Severity::Warning, format_args!("{speaker}{}{reason}", C::MESSAGE));
        }
        self.bad[reason] += 1;
        cx.emit_one(1, packet, drop);
    }
}

impl<C: HeaderCheck> Element for Checker<C> {
    fn effects(&self) -> Effects {
        let mut effects = self.check.effects().counting(Counting::Tallied);
        // Bad packets have to come to the element itself: it prints a message, and `drop_details`
        // distinguishes more reasons than the effects declare.
        effects.cases.iter_mut().for_each(|case| case.is_shown = case.to != Target::Output(0));
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.check.prepare(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { check, outcome } = self;
        batch.sift(|packet| check.check(packet), |packet, reason| outcome.reject::<C>(cx, packet, reason));
        outcome.good += batch.len() as u64;
    }

    fn tally(&mut self, tally: &Tally) {
        self.outcome.good += tally.packets;
    }

    element::keeps!(outcome.good, outcome.bad);
}

impl<C: HeaderCheck> Checker<C> {
    /// The handlers of most classes: `count` of good packets, `drops` of bad packets and, if DETAILS is true,
    /// `drop_details`.
    pub(crate) const HANDLERS: &'static [Handler<Self>] =
        &[Handler::count("count", |e| e.outcome.good), Self::DROPS, Self::DETAILS];
    /// The declaration of the state of a class with [`HANDLERS`](Self::HANDLERS): the counts that these
    /// handlers show.
    pub(crate) const STATE: &'static [StatePart] =
        &[StatePart::kept("counts", &["count", "drops", "drop_details"])];
    /// The handlers of a class that does not count good packets.
    pub(crate) const ONLY_DROPS: &'static [Handler<Self>] = &[Self::DROPS];
    const DROPS: Handler<Self> = Handler::count("drops", |e| e.outcome.bad.iter().sum::<u64>());
    /// The handler with one line per fault, the count and the text; it exists if DETAILS is true.
    const DETAILS: Handler<Self> = Handler::<Self>::get("drop_details", |e| {
        let rows = C::REASONS.iter().zip(&e.outcome.bad);
        rows.map(|((text, _), n)| format!("{n}\t{text}\n")).collect()
    })
    .only_if(|e| e.outcome.details)
    .tabled();
}
