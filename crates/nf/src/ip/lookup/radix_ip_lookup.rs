//! # RadixIPLookup
//! Sends IP packets by the longest route that their destination annotation matches, and sets the gateway.
//!
//! Works like LinearIPLookup (see its page for details). In its `table`, a new route takes the line that was
//! freed last by a removed route. A route that replaces another route takes a line in the same way, and does
//! not keep the other route's line.
//!
//! ## Usage
//! `RadixIPLookup(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`.
//!
//! ## Handlers
//! - `table`: all routes, one per line.
//! - `lookup`: for an address: output and gateway of its route; -1 if there is none.
//! - `add`, `set`: add a route; `add` fails if there is a route for the prefix, `set` replaces it.
//! - `remove`: `ADDR/MASK`, or a whole route.
//! - `ctrl`: lines of `add ROUTE`, `set ROUTE`, `remove ROUTE`; if a line fails, nothing changes.
//! - `flush`: removes all routes.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> rt :: RadixIPLookup(10/8 0, 0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! LinearIPLookup, DirectIPLookup, RangeIPLookup

use element::{Class, StatePart, manual};

use super::{Kind, Listing, WITH_FLUSH, build};

/// The element class `RadixIPLookup`.
pub static CLASS: Class = Class {
    name: "RadixIPLookup",
    manual: manual!("radix_ip_lookup.rs"),
    state: &[StatePart::lost("changed routes", "the new configuration lists its own routes", &["table"])],
    table: &WITH_FLUSH,
    build: |args| build(args, &KIND),
    ..super::CLASS
};

static KIND: Kind = Kind {
    listing: Listing::LastFreed,
    complaint: Some(|address| format!("IPRouteTable: no route for {address}")),
    changes: true,
};
