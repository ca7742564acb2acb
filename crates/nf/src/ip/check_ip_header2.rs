//! # CheckIPHeader2
//! Checks IPv4 headers as CheckIPHeader does, but not their checksums.
//!
//! ## Usage
//! `CheckIPHeader2([OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the IP header.
//! - `INTERFACES`: addresses of the router with their prefixes.
//! - `BADSRC`: further bad source addresses.
//! - `GOODDST`: further destinations to which packets are good with any source.
//! - `CHECKSUM`: true to check the checksum, too.
//! - `VERBOSE`: true to report every bad packet, not only the first.
//! - `DETAILS`: if true, there is a handler `drop_details`: bad packets by reason.
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader2(14) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader

use element::class::ArgInfo;
use element::{Class, manual};

use super::check_ip_header::{DESCRIPTION, build};

/// The element class `CheckIPHeader2`.
pub static CLASS: Class = Class {
    name: "CheckIPHeader2",
    manual: manual!("check_ip_header2.rs"),
    args: &[
        DESCRIPTION.args[0],
        DESCRIPTION.args[1],
        DESCRIPTION.args[2],
        DESCRIPTION.args[3],
        ArgInfo::keyword("CHECKSUM", "bool", "false"),
        DESCRIPTION.args[5],
        DESCRIPTION.args[6],
    ],
    samples: &["14", "14, CHECKSUM true, DETAILS true -> 1/2"],
    build: |args| build(args, &CLASS),
    ..DESCRIPTION
};
