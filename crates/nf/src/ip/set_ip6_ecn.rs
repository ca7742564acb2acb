//! # SetIP6ECN
//! Sets the explicit congestion notification bits of IPv6 headers.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIP6ECN(ECN)`
//!
//! ## Arguments
//! - `ECN`: 0 to 3; or `no` or `-` (0), `ect1` or `ECT(1)` (1), `ect2` or `ECT(0)` (2), `ce` or `CE` (3).
//!
//! ## Handlers
//! - `ecn`: the value, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> SetIP6ECN(ect1) -> Discard
//! ```
//!
//! ## See also
//! SetIPECN, SetIP6DSCP, SetIP6Hlim, SetIP6FlowLabel

use element::{Class, manual};

use super::set_ip_ecn::{DESCRIPTION, SetEcn};
use super::set_ip6_dscp::V6;

/// The element class `SetIP6ECN`.
pub static CLASS: Class = Class {
    name: "SetIP6ECN",
    manual: manual!("set_ip6_ecn.rs"),
    table: &SetEcn::<V6>::HANDLERS,
    build: |args| SetEcn::<V6>::build(args),
    ..DESCRIPTION
};
