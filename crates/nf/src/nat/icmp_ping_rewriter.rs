//! # ICMPPingRewriter
//! Translates addresses and identifiers of ICMP echo requests and replies.
//!
//! An echo request gets the addresses of its mapping, and the mapping's source port as identifier; its reply
//! is changed back. Checksums are updated (RFC 1624). Requests without a mapping are handled by the
//! specification of their input, as in IPRewriter. Replies without a mapping and all other packets leave by
//! the output of `pass`, or are dropped. This includes fragments other than the first, messages that end
//! before their identifier, and packets whose IP header length is less than 20 bytes. Header annotations must
//! be set; packets without them are dropped.
//!
//! ## Usage
//! `ICMPPingRewriter(INPUTSPEC, ... [, KEYWORDS])`
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
//! - `DST_ANNO`: true to set the destination annotation to the new destination.
//! - `INDEPENDENT_MAPPING`: if true, an inside address and port keeps one outside port of the range for all
//!   its flows, to any destination (RFC 4787), and no other inside address and port gets it. A flow whose
//!   pattern lacks this port leaves by the outputs of the endpoint's first flow. A flow is dropped if its
//!   replies would belong to another flow, so the range should not contain forwarded ports. Such a translator
//!   works on one worker.
//! - `SUBSCRIBER_CAPACITY`: the largest number of mappings for one source address of flows; 0 for no limit
//!   (RFC 6888). When it is reached, up to 64 mappings of the address are examined, and removed if they
//!   have expired. Such a translator works on one worker.
//! - `OTHER_QUERIES`: if true, queries for time stamps, information and address masks, and their replies,
//!   are translated too.
//!
//! ## Handlers
//! - `table`: two lines per mapping, the newest first: the addresses and ports before and after
//!   translation, the outputs for flow and reply with a star at the output for this line, the input, and
//!   the seconds until the mapping expires.
//! - `mappings`: an old name of `table`.
//! - `table_size`: the number of mappings that exist and that this element has made.
//! - `nmappings`: an old name of `table_size`.
//! - `mapping_failures`: packets for which no mapping could be made: no port or address was free, a capacity
//!   was used up, or the flow's addresses and identifier were taken.
//! - `patterns`: a line per input: its pattern, or the name of its action, and the number of its mappings if
//!   there are any. `pattern0`, `pattern1` and so on are these lines one by one; writing a specification
//!   there ends the input's mappings.
//! - `size`: mappings of all translators that share the capacity.
//! - `capacity`: the largest number of mappings.
//! - `clear`: ends all mappings of all translators that share the capacity.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535 - - 0 1,
//! drop); Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, ICMPRewriter, ICMPPingResponder, ICMPPingSource

use element::class::ArgInfo;
use element::{Class, manual};

use super::flavour::Flavour;
use super::plain_policies;
use super::rewriter::{self, *};
use super::save::FORM;

/// An argument that Click does not have: translates queries other than echo requests, too.
const OTHER_QUERIES: ArgInfo = ArgInfo::keyword("OTHER_QUERIES", "bool", "false");

/// The element class `ICMPPingRewriter`.
pub static CLASS: Class = Class {
    name: "ICMPPingRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("icmp_ping_rewriter.rs"),
    args: &with_common::<5, 14>([seconds("TIMEOUT", "300"), DST_ANNO, SHARING[0], SHARING[1], OTHER_QUERIES]),
    table: &[ONE_TABLE, COUNTS, PATTERNS],
    state: &[MAPPINGS.with_tables(&["ends inside", "subscribers"]), FAILURES],
    saved_form: FORM,
    samples: &[
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop -> 2/2",
        "keep 0 1, TIMEOUT 2, GUARANTEE 0 -> 1/2",
        "pass 0",
        "pattern 1.0.0.1 1024-65535 - - 0 0, INDEPENDENT_MAPPING true, SUBSCRIBER_CAPACITY 9, OTHER_QUERIES true",
    ],
    build: |args| {
        let policies = plain_policies(args);
        let others = args.value(OTHER_QUERIES.name);
        rewriter::build(args, Flavour::Ping { others }, policies)
    },
    ..Class::DEFAULT
};
