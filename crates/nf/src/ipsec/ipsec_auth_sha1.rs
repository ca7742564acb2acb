//! # IPsecAuthSHA1
//! Appends a SHA1 digest of the whole packet, cut to 12 bytes, or checks and removes it.
//!
//! The digest has no key, so that everybody can compute it: it detects errors, but not forged packets. Use
//! IPsecAuthHMACSHA1 against forged packets.
//!
//! Packets with a wrong digest, and packets that are too short for one, leave by output 1, or are dropped
//! without such an output. The first of them is reported.
//!
//! ## Usage
//! `IPsecAuthSHA1(VERIFY)`
//!
//! ## Arguments
//! - `VERIFY`: 0 appends the digest, 1 checks and removes it.
//!
//! ## Handlers
//! - `drops`: packets with a wrong digest.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> Discard
//! ```
//!
//! ## See also
//! IPsecAuthHMACSHA1, IPsecESPEncap, SetCRC32

use element::{Class, manual};

use super::authenticator;

/// The element class `IPsecAuthSHA1`.
pub static CLASS: Class = Class {
    name: "IPsecAuthSHA1",
    manual: manual!("ipsec_auth_sha1.rs"),
    build: |args| authenticator::build(args, false),
    ..authenticator::CLASS
};
