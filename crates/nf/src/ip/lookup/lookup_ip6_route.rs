//! # LookupIP6Route
//! Sends IPv6 packets by the longest route that their destination annotation matches, and sets the gateway.
//!
//! If the route has a gateway, it becomes the destination address annotation. Packets without a route are
//! dropped.
//!
//! ## Usage
//! `LookupIP6Route(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`; the gateway `::` means none. A later route for a prefix
//!   replaces an earlier route.
//!
//! ## Handlers
//! - `table`: all routes, one per line.
//! - `add`: adds a route, or replaces the route for the prefix.
//! - `remove`: `ADDR/MASK`; if there is no such route, nothing happens.
//! - `ctrl`: `add ROUTE` or `remove ADDR/MASK`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIP6Address(24) -> rt :: LookupIP6Route(2001:db8::/32 0, ::/0 2001:db8::1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! GetIP6Address, RadixIPLookup, DecIP6HLIM

use std::net::Ipv6Addr;
use std::sync::Arc;

use classify::prefixes::Prefix;
use element::args::{ArgType, Ipv6Prefix, Scope};
use element::class::ArgInfo;
use element::effects::{Case, Counting, DST_IP6, Depends, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use packet::Annotations;

use super::destinations::Destinations;
use super::need_outputs;
use super::route::{Hop, words};
use super::table::{Listing, RouteTable};
use crate::editing::constant;
use crate::sorting::Sorter;

type Route = super::route::Route<u128, Ipv6Addr>;

/// The element class `LookupIP6Route`.
pub static CLASS: Class = Class {
    name: "LookupIP6Route",
    manual: manual!("lookup_ip6_route.rs"),
    ports: "1/-",
    processing: "h/h",
    args: &[ArgInfo::rest("ROUTE", "route")],
    table: &HANDLERS,
    samples: &[
        "::/0 0 -> 1/1",
        "2001:db8::/32 ::1 1, ::/1 :: 0, 8000::/1 2, ::0102:0:0:0/80 fe80::9 2 -> 1/3",
        "",
    ],
    build: |args| {
        let outputs = args.outputs();
        let mut lookup = LookupIp6Route::new(outputs);
        let mut needed = 0;
        args.each_of_rest(|args, place, text| {
            let route = parse(&words(text), &args.place());
            let output = route.and_then(|route| usize::try_from(route.hop.output).ok());
            match (route, output) {
                (Some(route), Some(output)) => {
                    needed = needed.max(output + 1);
                    if let Err(reason) = lookup.add(route) {
                        args.error(reason);
                    }
                }
                _ => args.error(format!("argument {} should be DADDR/MASK [GW] OUTPUT", place + 1)),
            }
        });
        need_outputs(args, needed, outputs)?;
        lookup.table = Arc::unwrap_or_clone(lookup.table).share(args);
        Ok(Box::new(lookup))
    },
    ..Class::DEFAULT
};

/// Parses a route from its words: prefix, optional gateway, output. `None` if they are not well formed.
fn parse(words: &[String], place: &Scope<'_>) -> Option<Route> {
    let (prefix, gateway, output) = match words {
        [prefix, output] => (prefix, None, output),
        [prefix, gateway, output] => (prefix, Some(gateway), output),
        _ => return None,
    };
    let gateway = gateway.map_or(Some(Ipv6Addr::UNSPECIFIED), |word| Ipv6Addr::parse(word, place).ok())?;
    let hop = Hop { gateway, output: i32::parse(output, place).ok()? };
    Some(Route { prefix: parse_prefix(prefix, place)?, hop })
}

fn parse_prefix(word: &str, place: &Scope<'_>) -> Option<Prefix<u128>> {
    let Ipv6Prefix { address, length } = Ipv6Prefix::parse(word, place).ok()?;
    Some(Prefix::new(address.to_bits(), length))
}

struct LookupIp6Route {
    table: Arc<RouteTable<u128, Ipv6Addr>>,
    sorter: Sorter,
    destinations: Destinations<u128>,
}

impl LookupIp6Route {
    fn new(outputs: usize) -> LookupIp6Route {
        LookupIp6Route {
            table: Arc::new(RouteTable::new(Listing::FirstFree)),
            sorter: Sorter::new(outputs),
            destinations: Destinations::new(),
        }
    }

    /// Adds a route. If there is a route for the same prefix, it is removed first; the line that it had in
    /// the table that users see is then free and may get the new route.
    fn add(&mut self, route: Route) -> Result<(), String> {
        self.remove(route.prefix);
        Arc::make_mut(&mut self.table).add(route, false).map(drop).map_err(|_| "too many next hops".into())
    }

    fn remove(&mut self, prefix: Prefix<u128>) {
        let any = Hop { gateway: Ipv6Addr::UNSPECIFIED, output: Hop::<Ipv6Addr>::ANY_OUTPUT };
        Arc::make_mut(&mut self.table).remove(Route { prefix, hop: any });
    }

    fn command(&mut self, cx: &Cx<'_>, name: &str, arguments: &[String]) -> Result<(), String> {
        match name {
            "add" => {
                let route = parse(arguments, &cx.place()).ok_or("expected 'ADDR/MASK [GATEWAY] OUTPUT'")?;
                if !usize::try_from(route.hop.output).is_ok_and(|output| output < self.sorter.outputs()) {
                    return Err("output port out of range".into());
                }
                self.add(route)
            }
            "remove" => {
                let prefix = match arguments {
                    [prefix] => parse_prefix(prefix, &cx.place()),
                    _ => None,
                };
                self.remove(prefix.ok_or("expected 'ADDR/MASK'")?);
                Ok(())
            }
            _ => Err("bad command, should be 'add' or 'remove'".into()),
        }
    }
}

impl Element for LookupIp6Route {
    fn effects(&self) -> Effects {
        let cases = self.table.sets().map(|(hop, set)| {
            let when = Filter::Leaf(Predicate::In { field: DST_IP6, mask: u128::MAX, set });
            let case = Case::new(when, Target::Output(usize::try_from(hop.output).unwrap_or(usize::MAX)));
            match hop.gateway.is_unspecified() {
                true => case,
                false => case.with(constant(DST_IP6, &hop.gateway.octets())),
            }
        });
        // The filter reads the annotation even if there are no routes. Elements upstream that write it thus
        // never leave it out, and routes that are added later find it.
        let other =
            Filter::Leaf(Predicate::In { field: DST_IP6, mask: 0, set: classify::IntervalSet::one(0, 0) });
        let lost = Case::new(other, Target::Drop(DropReason::NoRoute));
        let effects = Effects::cases(cases.chain([lost]).collect()).counting(Counting::Tallied);
        effects.depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let LookupIp6Route { table, destinations, sorter } = self;
        let address = |packet: &Packet| u128::from_be_bytes(packet.annotations().array(Annotations::DST_IP));
        destinations.look_up(&batch, table, address);
        destinations.send(cx, batch, sorter, table, &mut ())
    }
}

const HANDLERS: &[Handler<LookupIp6Route>] = &[
    Handler::get("table", |e| {
        let header = if e.table.is_new() { "" } else { "# Active routes\n" };
        let line = |route: Route| {
            let Route { prefix, hop } = route;
            let address = Ipv6Addr::from_bits(prefix.first());
            format!("{address}/{}\t{}\t{}\n", prefix.length(), hop.gateway, hop.output)
        };
        std::iter::once(header.to_string()).chain(e.table.routes().map(line)).collect()
    }),
    Handler::set("add", |e, cx, value| e.command(cx, "add", &words(value))),
    Handler::set("remove", |e, cx, value| e.command(cx, "remove", &words(value))),
    Handler::set("ctrl", |e, cx, value| {
        let words = words(value);
        let (command, arguments) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        e.command(cx, command, arguments)
    }),
];
