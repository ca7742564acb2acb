//! # ICMPPingRewriter
//! Translates addresses and identifiers of ICMP echo requests and replies.
//!
//! An echo request gets the addresses of its mapping, and the source port as identifier; its reply is changed back. Checksums
//! are updated (RFC 1624). What becomes of requests that no mapping is for is said for each input as for IPRewriter; replies
//! that no mapping is for leave by the output of `pass`, or are dropped, and so are other packets, fragments behind the
//! first, and packets whose IP header says less than its 20 bytes. Header annotations must be set.
//!
//! ## Usage
//! `ICMPPingRewriter(INPUTSPEC, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `INPUTSPEC`: what becomes of packets that no mapping is for, an argument for each input; see above.
//! - `TIMEOUT`: how long a mapping holds after its last packet.
//! - `GUARANTEE`: for so many seconds after each packet a mapping does not give way to others; 0 for not at all.
//! - `REAP_INTERVAL`: 0 if mappings that are over are to hold until a new one needs their place. With any other number
//!   they end when they are over, where Click's end up to so many seconds later.
//! - `REAP_TIME`: an old name of REAP_INTERVAL.
//! - `MAPPING_CAPACITY`: most mappings, or another translator with which this one shares its capacity. A mapping takes
//!   about 270 bytes, from the time when it is needed on; packets for which there is no memory are treated as above
//!   this number.
//! - `CAPACITY`: the same.
//! - `REPLY_ANNO`: an annotation byte of the first packet that all packets of the reply get.
//! - `DST_ANNO`: whether the destination annotation becomes the new destination.
//! - `INDEPENDENT_MAPPING`: whether an address and port inside has one port of a range outside for all its flows, wherever they
//!   go (RFC 4787); then no two have the same one. All of them leave where the first one has. A flow is dropped whose reply is
//!   somebody else's: ports that are forwarded should not be in the range. Such a translator works on one worker.
//! - `SUBSCRIBER_CAPACITY`: most mappings for one source address of flows; 0 for no limit (RFC 6888). Those of it
//!   that are over make room at once, as far as 64 show. Such a translator works on one worker.
//! - `OTHER_QUERIES`: whether queries for time stamps, information and address masks, and their replies, are translated too.
//!
//! ## Handlers
//! - `table`: two lines per mapping, the newest first: what packets have, what they get, the output for flow and reply
//!   with a star at the one for this line, the input, and the seconds until it is over.
//! - `mappings`: an old name of `table`.
//! - `table_size`: mappings that this element has made.
//! - `nmappings`: an old name of `table_size`.
//! - `mapping_failures`: flows that got none, because no port or address was free or the capacity was used up.
//! - `patterns`: a line per input: its pattern, or its kind, and how many mappings it has made. `pattern0`, `pattern1` and
//!   so on are these lines one by one; writing a specification there ends the input's mappings.
//! - `size`: mappings of all translators that share the capacity.
//! - `capacity`: most mappings.
//! - `clear`: ends all mappings.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, ICMPRewriter, ICMPPingResponder, ICMPPingSource

use element::class::ArgInfo;
use element::{Class, manual};

use super::flavour::Flavour;
use super::plain_policies;
use super::rewriter::{self, *};

/// Beyond what Click has.
const OTHER_QUERIES: ArgInfo = ArgInfo::keyword("OTHER_QUERIES", "bool", "false");

/// The class.
pub static CLASS: Class = Class {
    name: "ICMPPingRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("icmp_ping_rewriter.rs"),
    args: &with_common::<5, 12>([seconds("TIMEOUT", "300"), DST_ANNO, SHARING[0], SHARING[1], OTHER_QUERIES]),
    handlers: &HANDLERS,
    samples: &[
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop -> 2/2",
        "keep 0 1, TIMEOUT 2, GUARANTEE 0 -> 1/2",
        "pass 0",
        "pattern 1.0.0.1 1024-65535 - - 0 0, INDEPENDENT_MAPPING true, SUBSCRIBER_CAPACITY 9, OTHER_QUERIES true",
    ],
    build: |args| {
        let policies = plain_policies(args, 300);
        let others = args.or(OTHER_QUERIES.name, false);
        rewriter::build(args, Flavour::Ping { others }, policies)
    },
    ..Class::DEFAULT
};
