//! # StaticIPLookup
//! Sends IP packets by the longest route that their destination annotation matches; routes cannot change at
//! run time.
//!
//! Works like LinearIPLookup (see its page for details), without the handlers that change the table.
//!
//! ## Usage
//! `StaticIPLookup(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`.
//!
//! ## Handlers
//! - `table`: all routes, one per line.
//! - `lookup`: for an address: output and gateway of its route; -1 if there is none.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> rt :: StaticIPLookup(10/8 0, 0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! LinearIPLookup, LookupIPRouteMP

use element::{Class, Handler, manual};

use super::{Kind, Listing, RouteLookup, build};

/// The element class `StaticIPLookup`.
pub static CLASS: Class = Class {
    name: "StaticIPLookup",
    aliases: &["LookupIPRoute"],
    manual: manual!("static_ip_lookup.rs"),
    table: &HANDLERS,
    build: |args| build(args, &KIND),
    ..super::CLASS
};

static KIND: Kind = Kind {
    listing: Listing::FirstFree,
    complaint: Some(|address| format!("LinearIPLookup: no route for {address}")),
    changes: false,
};

const HANDLERS: &[Handler<RouteLookup>] = &[RouteLookup::TABLE, RouteLookup::LOOKUP];
