//! # LookupIPRouteMP
//! Sends IP packets by the longest route that their destination annotation matches, and has no handlers.
//!
//! Works like StaticIPLookup: routes cannot be changed at run time.
//!
//! ## Usage
//! `LookupIPRouteMP(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT`; of several routes for one prefix the first counts.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> rt :: LookupIPRouteMP(10/8 0, 0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard
//! ```
//!
//! ## See also
//! StaticIPLookup, LinearIPLookup

use std::net::Ipv4Addr;

use element::{Args, Class, Element, Invalid, manual};

use super::{Kind, Listing, Refused, Route, RouteLookup, RouteTable, need_outputs, no_memory, words};

/// The element class `LookupIPRouteMP`.
pub static CLASS: Class = Class {
    name: "LookupIPRouteMP",
    manual: manual!("lookup_ip_route_mp.rs"),
    table: &(),
    build,
    ..super::CLASS
};

static KIND: Kind = Kind { listing: Listing::FirstFree, complaint: Some(complaint), changes: false };

/// Returns Click's message about an address without a route: it shows the address in hexadecimal digits, in
/// the machine's byte order.
fn complaint(address: Ipv4Addr) -> String {
    format!("LookupIPRouteMP: no gw for {:x}", u32::from_ne_bytes(address.octets()))
}

/// Makes the element. Unlike the function `build` for the other classes, it accepts no gateway `-`, gives no
/// warning about routes for the same prefix, and has Click's other error messages.
fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let mut table: RouteTable = RouteTable::new(KIND.listing);
    let outputs = args.outputs();
    let mut needed = 0;
    args.each_of_rest(|args, place, text| {
        let words = words(text);
        let route = Route::parse(&words, &args.place(), false, &());
        let route = route.filter(|_| words.iter().all(|word| word != "-"));
        let output = route.and_then(|route| usize::try_from(route.hop.output).ok());
        let (Some(route), Some(output)) = (route, output) else {
            args.error(format!("argument {} should be 'DADDR/MASK [GATEWAY] OUTPUT'", place + 1));
            return;
        };
        needed = needed.max(output + 1);
        if table.add(route, false) == Err(Refused::Full) {
            args.error(no_memory(&route));
        }
    });
    need_outputs(args, needed, outputs)?;
    Ok(Box::new(RouteLookup::new(&KIND, table.share(args), outputs, ())))
}
