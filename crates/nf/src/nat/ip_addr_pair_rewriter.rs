//! # IPAddrPairRewriter
//! Translates addresses by source and destination together.
//!
//! Packets of a mapping get its addresses, and leave by its output; checksums of IP, TCP and UDP are
//! updated (RFC 1624), except for a UDP checksum of zero. Packets without a mapping are handled by the
//! specification of their input, as in IPRewriter, but patterns have no ports:
//!
//! - `pattern SADDR DADDR FOUTPUT ROUTPUT`: packets between the two hosts get these addresses, and packets in
//!   the other direction are changed back. A dash leaves an address as it is. SADDR may be a range `L-H`, or
//!   a prefix, of which the first and the last address are not used (a prefix of 31 or 32 bits is used as a
//!   whole): a random free address is chosen, or, with `#` after the range, the next free address.
//!
//! The network header annotation must be set; for TCP and UDP checksums to be updated, the transport header
//! annotation must be set, too. Fragments are translated like other packets. If the IP header length is
//! less than 20 bytes, no transport checksum is updated.
//!
//! ## Usage
//! `IPAddrPairRewriter(INPUTSPEC, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `INPUTSPEC`: the action for packets without a mapping, an argument for each input; see above.
//! - `TIMEOUT`: seconds after the last packet when a mapping expires.
//! - `GUARANTEE`: seconds after each packet during which a mapping neither expires nor is evicted for
//!   another; 0 for none.
//! - `REAP_INTERVAL`: 0 to keep expired mappings until a new mapping needs their port, address or memory.
//!   With any other number, mappings are removed when they expire; in Click, up to that many seconds later.
//! - `REAP_TIME`: an old name of REAP_INTERVAL.
//! - `MAPPING_CAPACITY`: the largest number of mappings, or another translator with which this translator
//!   shares its capacity. A mapping takes about 270 bytes, once it exists; packets for which there is no
//!   memory are treated as if this number were exceeded.
//! - `CAPACITY`: another name of MAPPING_CAPACITY.
//! - `REPLY_ANNO`: an annotation byte, which is copied from the flow's first packet to all packets of the
//!   reply.
//! - `END_STALE`: if true, a reload ends mappings that the new INPUTSPEC could not have made. Otherwise they
//!   stay until they expire, except mappings with an input or output that no longer exists.
//! - `LOG`: a NATLog, which records each mapping that is made or removed.
//!
//! ## Handlers
//! - `table`: two lines per mapping (one if the flow is its own reply), the newest first: the addresses
//!   before and after translation, the outputs for flow and reply with a star at the output for this line,
//!   the input, and the seconds until the mapping expires.
//! - `mappings`: an old name of `table`.
//! - `table_size`: the number of mappings that exist and that this element has made.
//! - `nmappings`: an old name of `table_size`.
//! - `mapping_failures`: packets for which no mapping could be made: no address was free, a capacity was used
//!   up, the flow's addresses were taken, or the pattern also changes values that this class does not
//!   translate, such as ports.
//! - `patterns`: a line per input: its pattern, or the name of its action, and the number of its mappings if
//!   there are any. `pattern0`, `pattern1` and so on are these lines one by one; writing a specification
//!   there ends the input's mappings.
//! - `size`: mappings of all translators that share the capacity.
//! - `capacity`: the largest number of mappings.
//! - `clear`: ends all mappings of all translators that share the capacity.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPAddrPairRewriter(pattern 192.0.2.0/24 10.0.0.1 0 1,
//! drop); Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, IPAddrRewriter, IPRewriterPatterns, StoreIPAddress

use element::{Class, manual};

use super::flavour::Flavour;
use super::plain_policies;
use super::rewriter::{self, *};
use super::save::FORM;

/// The element class `IPAddrPairRewriter`.
pub static CLASS: Class = Class {
    name: "IPAddrPairRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("ip_addr_pair_rewriter.rs"),
    args: &with_common::<1, 10>([seconds("TIMEOUT", "7200")]),
    table: &[ONE_TABLE, COUNTS, PATTERNS],
    state: &[MAPPINGS, FAILURES],
    saved_form: FORM,
    samples: &[
        "pattern 1.0.0.1-1.0.0.9# 2.0.0.2 0 1, drop -> 2/2",
        "keep 0 0, GUARANTEE 0, TIMEOUT 2, CAPACITY 2",
    ],
    build: |args| {
        let policies = plain_policies(args);
        rewriter::build(args, Flavour::Pair, policies)
    },
    ..Class::DEFAULT
};
