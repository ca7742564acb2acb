//! Look-ups of routes by destination address. One element implements Click's many classes for IPv4;
//! [`lookup_ip6_route`] is the class for IPv6.
//!
//! The classes for IPv4 differ in their handlers, in the order in which they show their table, and in their
//! message about an address without a route. Each class's file contains its manual and its `Kind`, except
//! that RangeIPLookup has the `Kind` of DirectIPLookup.

mod destinations;
pub mod direct_ip_lookup;
mod gateway;
pub mod linear_ip_lookup;
pub mod lookup_ip6_route;
pub mod lookup_ip_route_mp;
pub mod radix_ip_lookup;
pub mod radix_ipsec_lookup;
pub mod range_ip_lookup;
mod route;
pub mod static_ip_lookup;
mod table;

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Counting, DST_IP, Depends, Filter, Predicate, Target};
use element::{Args, Batch, Class, Complaint, Cx, DropReason, Effects, Element, Handler, Invalid, Severity};

use crate::sorting::Sorter;
use destinations::Destinations;
use route::{Hop, Onward, Route, words};
use table::{Listing, Refused, RouteTable};

/// The fields that the classes for IPv4 have in common. Each class adds its name, its manual and a function
/// that builds the element.
const CLASS: Class = Class {
    ports: "1/-",
    processing: "h/h",
    args: &[ArgInfo::rest("ROUTE", "route")],
    table: &HANDLERS,
    samples: SAMPLES,
    ..Class::DEFAULT
};

const SAMPLES: &[&str] = &[
    "0/0 0 -> 1/1",
    "10.0.0.0/8 1, 10.0.1.0/24 10.0.0.9 0, 10.0.1.2 10.0.0.8 1, 128/1 2 -> 1/3",
    "0/1 1.2.3.4 0, 0/2 1, 0.0.0.0 0, 192/255.192.0.0 5.6.7.8 1 -> 1/2",
    "",
];

/// The differences between the classes for IPv4.
struct Kind {
    /// The order in which the handler `table` shows routes.
    listing: Listing,
    /// The message about an address without a route; `None` if packets without a route are dropped silently.
    complaint: Option<fn(Ipv4Addr) -> String>,
    /// True if the class has handlers that change the table.
    changes: bool,
}

/// The form of a route in Click's messages.
const CLICKS_FORM: &str = "ADDR/MASK [GATEWAY] OUTPUT";
/// The largest number of messages about packets without a route that one element writes.
const COMPLAINTS: u32 = 5;

/// Makes an element of the kind `kind` from the routes in its arguments, whose gateways are only addresses.
fn build(args: &mut Args<'_>, kind: &'static Kind) -> Result<Box<dyn Element>, Invalid> {
    build_for::<Ipv4Addr>(args, kind, ())
}

/// Makes an element of the kind `kind` from the routes in its arguments. Of several routes for one prefix
/// the first is used, and a warning is given.
fn build_for<G: Onward<Desk: Send>>(
    args: &mut Args<'_>,
    kind: &'static Kind,
    desk: G::Desk,
) -> Result<Box<dyn Element>, Invalid> {
    let mut table = RouteTable::new(kind.listing);
    let outputs = args.outputs();
    let mut repeated = 0;
    args.each_of_rest(|args, place, text| {
        let number = place + 1;
        match Route::<u32, G>::parse(&words(text), &args.place(), false, &desk) {
            None => args.error_as(
                format!("argument {number} should be '{}'", G::FORM),
                format!("argument {number} should be '{CLICKS_FORM}'"),
            ),
            Some(route) if !has_output(outputs, &route) => {
                args.error(format!("argument {number} bad OUTPUT"))
            }
            Some(route) => match table.add(route, false) {
                Ok(_) => route.hop.gateway.added(&desk),
                Err(Refused::Exists(_)) => repeated += 1,
                Err(Refused::Full) => args.error(no_memory(&route)),
            },
        }
    });
    args.finish()?;
    if repeated > 0 {
        let s = if repeated > 1 { "s" } else { "" };
        args.warn(Complaint::new(
            format!("{repeated} route{s} ignored: an earlier one has the same prefix"),
            format!("{repeated} route{s} replaced by later versions"),
        ));
    }
    Ok(Box::new(RouteLookup::new(kind, table.share(args), outputs, desk)))
}

/// Finishes the reading of routes, which need `needed` outputs. Warns if there are no routes, and fails if
/// the element has fewer outputs than `needed`.
fn need_outputs(args: &mut Args<'_>, needed: usize, outputs: usize) -> Result<(), Invalid> {
    args.finish()?;
    if needed == 0 {
        args.warn("no routes");
    }
    if needed > outputs {
        args.error(format!("need {needed} or more output ports"));
    }
    args.finish()
}

fn has_output<G>(outputs: usize, route: &Route<u32, G>) -> bool {
    usize::try_from(route.hop.output).is_ok_and(|output| output < outputs)
}

fn no_memory<G: Onward>(route: &Route<u32, G>) -> String {
    format!("no memory to store route '{route}'")
}

/// A route look-up for IPv4, of any of the classes.
struct RouteLookup<G: Onward = Ipv4Addr> {
    kind: &'static Kind,
    table: Arc<RouteTable<u32, G>>,
    desk: G::Desk,
    complaints: u32,
    sorter: Sorter,
    destinations: Destinations<u32>,
}

/// A command of a handler to change the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Add,
    Set,
    Remove,
}

impl Command {
    fn named(name: &str) -> Option<Command> {
        Some(match name {
            "add" => Command::Add,
            "set" => Command::Set,
            "remove" => Command::Remove,
            _ => return None,
        })
    }
}

/// A change that a command has made to the table, with the route that is needed to undo it.
enum Change<G> {
    Added(Route<u32, G>),
    /// A route was replaced by another. This is the replaced route.
    Replaced(Route<u32, G>),
    Removed(Route<u32, G>),
}

impl<G: Onward> RouteLookup<G> {
    fn new(kind: &'static Kind, table: Arc<RouteTable<u32, G>>, outputs: usize, desk: G::Desk) -> Self {
        RouteLookup {
            kind,
            table,
            desk,
            complaints: 0,
            sorter: Sorter::new(outputs),
            destinations: Destinations::new(),
        }
    }

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>) {
        let Some(complaint) = self.kind.complaint else { return };
        let left = COMPLAINTS.saturating_sub(self.complaints) as usize;
        for address in self.destinations.unrouted().take(left) {
            self.complaints += 1;
            let address = Ipv4Addr::from_bits(address);
            cx.messages().remark(Severity::Warning, format_args!("{}", complaint(address)));
        }
    }

    fn execute(&mut self, cx: &Cx<'_>, command: Command, words: &[String]) -> Result<Change<G>, String> {
        let removes = command == Command::Remove;
        let route =
            Route::<u32, G>::parse(words, &cx.place(), removes, &self.desk).ok_or_else(|| match command {
                Command::Remove => "expected 'ADDR/MASK [GATEWAY OUTPUT]'".into(),
                _ => format!("expected '{}'", G::FORM),
            })?;
        let any = removes && route.hop.output == Hop::<G>::ANY_OUTPUT;
        if !any && !has_output(self.sorter.outputs(), &route) {
            return Err("bad OUTPUT".into());
        }
        if removes {
            // The route is named by prefix, address and output; what else belongs to its gateway is not said.
            let is_asked = |there: &Route<u32, G>| {
                there.hop.gateway.address() == route.hop.gateway.address()
                    && there.hop.output == route.hop.output
            };
            let route = self.table.get(route.prefix).filter(is_asked).unwrap_or(route);
            let removed = Arc::make_mut(&mut self.table).remove(route).map(Change::Removed);
            // The message repeats the words of the command `remove`, because a part of the route that the
            // user has left out means any value, and cannot be shown. Words after the output may be keys.
            let shown = || words.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(" ");
            return removed.ok_or_else(|| format!("route '{}' not found", shown()));
        }
        match Arc::make_mut(&mut self.table).add(route, command == Command::Set) {
            Ok(before) => {
                route.hop.gateway.added(&self.desk);
                Ok(before.map_or(Change::Added(route), Change::Replaced))
            }
            Err(Refused::Exists(there)) => Err(format!("conflict with existing route '{there}'")),
            Err(Refused::Full) => Err(no_memory(&route)),
        }
    }

    /// Executes commands, one per line. If a command fails, the commands before it are undone, and the error
    /// is returned.
    fn control(&mut self, cx: &Cx<'_>, commands: &str) -> Result<(), String> {
        let mut changes = Vec::new();
        for line in commands.lines() {
            let words = words(line);
            let Some((first, rest)) = words.split_first() else { continue };
            let change = match Command::named(first) {
                Some(command) => self.execute(cx, command, rest),
                None => Err(format!("bad command '{first}'")),
            };
            match change {
                Ok(change) => changes.push(change),
                Err(reason) => {
                    self.undo(changes);
                    return Err(reason);
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, changes: Vec<Change<G>>) {
        let table = Arc::make_mut(&mut self.table);
        for change in changes.into_iter().rev() {
            match change {
                Change::Added(route) => drop(table.remove(route)),
                // There is room for the route, because it was in the table before the command.
                Change::Replaced(route) | Change::Removed(route) => {
                    let _ = table.add(route, true);
                    route.hop.gateway.added(&self.desk);
                }
            }
        }
    }
}

impl<G: Onward<Desk: Send>> Element for RouteLookup<G> {
    fn effects(&self) -> Effects {
        let mut cases: Vec<Case> = Vec::new();
        for (hop, set) in self.table.sets() {
            let when = Filter::Leaf(Predicate::In { field: DST_IP, mask: u128::MAX, set });
            cases.extend(hop.gateway.cases(when, usize::try_from(hop.output).unwrap_or(usize::MAX)));
        }
        // The filter reads the annotation even if there are no routes. Elements upstream that write it thus
        // never leave it out, and routes that are added later find it.
        let other =
            Filter::Leaf(Predicate::In { field: DST_IP, mask: 0, set: classify::IntervalSet::one(0, 0) });
        let lost = Case::new(other, Target::Drop(DropReason::NoRoute));
        cases.push(if self.kind.complaint.is_some() { lost.shown() } else { lost });
        let effects = Effects::cases(cases).counting(Counting::Tallied);
        if self.kind.changes { effects.depending_on(Depends::Handler) } else { effects }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let RouteLookup { table, destinations, .. } = self;
        destinations.look_up(&batch, table, |packet| u32::from_be_bytes(packet.destination()));
        if destinations.has_unrouted() {
            self.complain(cx);
        }
        let RouteLookup { table, destinations, sorter, desk, .. } = self;
        destinations.send(cx, batch, sorter, table, desk)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        G::take_state(&self.desk)
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        G::put_state(&mut self.desk, state)
    }
}

/// The handlers of the classes; each class lists those that it has.
impl<G: Onward<Desk: Send>> RouteLookup<G> {
    const TABLE: Handler<Self> =
        Handler::get("table", |e| e.table.routes().map(|route| route.line(&e.desk)).collect());
    const LOOKUP: Handler<Self> = Handler::read_param("lookup", |e, cx, param| {
        let address = Ipv4Addr::parse(param, &cx.place()).map_err(|_| "expected IP address")?;
        let Some(hop) = e.table.lookup(address.to_bits()) else { return Ok("-1".into()) };
        let gateway = hop.gateway.address();
        Ok(match gateway.is_unspecified() {
            true => hop.output.to_string(),
            false => format!("{} {gateway}", hop.output),
        })
    });
    const ADD: Handler<Self> =
        Handler::set("add", |e, cx, value| e.execute(cx, Command::Add, &words(value)).map(drop));
    const SET: Handler<Self> =
        Handler::set("set", |e, cx, value| e.execute(cx, Command::Set, &words(value)).map(drop));
    const REMOVE: Handler<Self> =
        Handler::set("remove", |e, cx, value| e.execute(cx, Command::Remove, &words(value)).map(drop));
    const CTRL: Handler<Self> = Handler::set("ctrl", |e, cx, value| e.control(cx, value));
    const FLUSH: Handler<Self> = Handler::act("flush", |e| e.table = Arc::new(e.table.cleared()));

    const HANDLERS: &'static [Handler<Self>] =
        &[Self::TABLE, Self::LOOKUP, Self::ADD, Self::SET, Self::REMOVE, Self::CTRL];
}

const HANDLERS: &[Handler<RouteLookup>] = <RouteLookup>::HANDLERS;
/// The handlers of the classes that can remove all routes at once.
const WITH_FLUSH: &[Handler<RouteLookup>] = &[
    RouteLookup::TABLE,
    RouteLookup::LOOKUP,
    RouteLookup::ADD,
    RouteLookup::SET,
    RouteLookup::REMOVE,
    RouteLookup::CTRL,
    RouteLookup::FLUSH,
];
