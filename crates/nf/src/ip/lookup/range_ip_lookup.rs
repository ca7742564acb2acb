//! # RangeIPLookup
//! Sends IP packets by the longest route that their destination annotation matches, and sets the gateway.
//!
//! Works like LinearIPLookup (see its page for details), except that packets without a route are dropped
//! without a message, and that the handler `flush` empties the table.
//!
//! ## Usage
//! `RangeIPLookup(ROUTE, ...)`
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
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> rt :: RangeIPLookup(10/8 0, 0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! LinearIPLookup, RadixIPLookup, DirectIPLookup

use element::{Class, StatePart, manual};

use super::{WITH_FLUSH, build, direct_ip_lookup};

/// The element class `RangeIPLookup`.
pub static CLASS: Class = Class {
    name: "RangeIPLookup",
    manual: manual!("range_ip_lookup.rs"),
    table: &WITH_FLUSH,
    state: &[StatePart::lost("changed routes", "the new configuration lists its own routes", &["table"])],
    build: |args| build(args, &direct_ip_lookup::KIND),
    ..super::CLASS
};
