//! # LinearIPLookup
//! Sends IP packets by the longest route that their destination annotation matches, and sets the gateway.
//!
//! If the route has a gateway, it becomes the new destination annotation. Packets without a route are
//! dropped, and for each of the first five such packets a message names the destination.
//!
//! All classes of route look-ups for IPv4 share one table implementation. It finds the route of an address in
//! one to three steps, independently of the number of routes. Handlers change it at run time without
//! rebuilding it. The classes differ in their handlers, and in the order in which `table` shows routes: here,
//! the order in which they were given; a new route takes the first line that a removed route has left free.
//!
//! ## Usage
//! `LinearIPLookup(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`. The mask is a number of bits or an address; without a mask, the
//!   route is for the single address. The gateways `-` and `0.0.0.0` mean none. Of several routes for one
//!   prefix the first counts, and a warning is given.
//!
//! ## Handlers
//! - `table`: all routes, one per line, in columns; `-` for no gateway.
//! - `lookup`: for an address: output and gateway of its route; -1 if there is none.
//! - `add`: adds a route; fails if there is a route for the prefix.
//! - `set`: adds a route, or replaces the route for the prefix.
//! - `remove`: `ADDR/MASK`, or a whole route, which then must be equal to the route in the table.
//! - `ctrl`: lines of `add ROUTE`, `set ROUTE`, `remove ROUTE`; if a line fails, nothing changes.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> rt :: LinearIPLookup(
//!     18.26.4.24/32 0, 18.26.4.255/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! StaticIPLookup, RadixIPLookup, DirectIPLookup, RangeIPLookup, LookupIPRouteMP, GetIPAddress, IPClassifier

use element::{Class, StatePart, manual};

use super::{Kind, Listing, build};

/// The element class `LinearIPLookup`.
pub static CLASS: Class = Class {
    name: "LinearIPLookup",
    aliases: &["SortedIPLookup"],
    manual: manual!("linear_ip_lookup.rs"),
    state: &[StatePart::lost("changed routes", "the new configuration lists its own routes", &["table"])],
    build: |args| build(args, &KIND),
    ..super::CLASS
};

static KIND: Kind = Kind {
    listing: Listing::FirstFree,
    complaint: Some(|address| format!("LinearIPLookup: no route for {address}")),
    changes: true,
};
