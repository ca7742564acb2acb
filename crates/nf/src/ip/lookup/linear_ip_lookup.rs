//! # LinearIPLookup
//! Sends IP packets by the longest route that their destination annotation matches, and sets the gateway.
//!
//! The route's gateway, if it has one, becomes the new destination annotation. Packets without a route are dropped;
//! a message names the first five destinations.
//!
//! All the classes of route look-ups share one table, which finds the route of an address in one to three steps
//! however many routes there are, and is changed while packets flow without being built anew. They differ in their
//! handlers, and in the order in which `table` shows routes: here, as they were given; a new one takes the first
//! line that others have left.
//!
//! ## Usage
//! `LinearIPLookup(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`. The mask is a number of bits or an address; without one, the route is
//!   for that address alone. The gateways `-` and `0.0.0.0` mean none. Of several routes for one prefix the first
//!   counts, and a warning says so.
//!
//! ## Handlers
//! - `table`: all routes, one per line, in columns; `-` for no gateway.
//! - `lookup`: for an address: output and gateway of its route; -1 if there is none.
//! - `add`: a route; fails if there is one for the prefix.
//! - `set`: a route, in the place of another one for the prefix, if there is one.
//! - `remove`: `ADDR/MASK`, or a whole route, which then must be the one that there is.
//! - `ctrl`: lines of `add ROUTE`, `set ROUTE`, `remove ROUTE`; if one of them fails, nothing changes.
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

use element::{Class, manual};

use super::{Kind, Listing, build};

/// The class.
pub static CLASS: Class = Class {
    name: "LinearIPLookup",
    aliases: &["SortedIPLookup"],
    manual: manual!("linear_ip_lookup.rs"),
    build: |args| build(args, &KIND),
    ..super::CLASS
};

static KIND: Kind = Kind {
    listing: Listing::FirstFree,
    complaint: Some(|address| format!("LinearIPLookup: no route for {address}")),
    changes: true,
};
