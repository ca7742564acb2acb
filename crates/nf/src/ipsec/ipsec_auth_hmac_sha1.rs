//! # IPsecAuthHMACSHA1
//! Appends an HMAC-SHA1 of the whole packet, cut to 12 bytes (RFC 2404), or checks and removes it.
//!
//! The key is the authentication key of the route by which RadixIPsecLookup has sent the packet: 16 bytes, as
//! in Click (RFC 2404 has keys of 20 bytes). Packets without security association are dropped.
//!
//! Packets with a wrong digest, and packets that are too short for one, leave by output 1, or are dropped
//! without such an output. The first of them is reported.
//!
//! ## Usage
//! `IPsecAuthHMACSHA1(VERIFY)`
//!
//! ## Arguments
//! - `VERIFY`: 0 appends the digest, 1 checks and removes it.
//!
//! ## Handlers
//! - `drops`: packets with a wrong digest.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 fa010000 0a000001 0a010001 0800f7ff 00000000>, LIMIT 1)
//!   -> CheckIPHeader(CHECKSUM false) -> rt :: RadixIPsecLookup(10.0.0.0/16 0,
//!     10.1.0.0/16 1 1234 \<000102030405060708090a0b0c0d0e0f> \<101112131415161718191a1b1c1d1e1f> 1 32);
//! rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> Discard
//! ```
//!
//! ## See also
//! IPsecAuthSHA1, IPsecESPEncap, IPsecAES, RadixIPsecLookup

use element::{Class, StatePart, manual};

use super::authenticator;

/// The element class `IPsecAuthHMACSHA1`.
pub static CLASS: Class = Class {
    name: "IPsecAuthHMACSHA1",
    manual: manual!("ipsec_auth_hmac_sha1.rs"),
    build: |args| authenticator::build(args, true),
    // In a single element no packet has an association, so the generic tests see no drops.
    state: &[StatePart::kept("counts", &[])],
    ..authenticator::CLASS
};
