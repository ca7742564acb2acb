//! # IPAddrRewriter
//! Translates addresses of hosts (basic NAT).
//!
//! Packets for which there is a mapping get its addresses, and leave by the output that goes with it; checksums of IP, TCP and
//! UDP are updated (RFC 1624), but UDP's zero stays. What becomes of others is said for each input as for IPRewriter, but that
//! patterns have no ports:
//!
//! - `pattern SADDR DADDR FOUTPUT ROUTPUT`: packets from the host get this source address, and packets to it are
//!   changed back. DADDR must be a dash.
//!   SADDR may be a range `L-H` or a prefix, of which the first and the last address are not used: a random address that is
//!   free, or, with `#` behind it, the next one.
//!
//! The network header annotation must be set, and the transport header annotation for TCP and UDP checksums to be updated.
//! Fragments are translated like other packets. Behind an IP header that says less than its 20 bytes no checksum is looked for.
//!
//! ## Usage
//! `IPAddrRewriter(INPUTSPEC, ... [, KEYWORDS])`
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
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPAddrRewriter(pattern 192.0.2.0/24 - 0 1, drop);
//! Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, IPAddrPairRewriter, IPRewriterPatterns, StoreIPAddress

use element::{Class, manual};

use super::flavour::Flavour;
use super::plain_policies;
use super::rewriter::{self, *};

/// The class.
pub static CLASS: Class = Class {
    name: "IPAddrRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("ip_addr_rewriter.rs"),
    args: &with_common::<1, 8>([seconds("TIMEOUT", "7200")]),
    handlers: &HANDLERS,
    samples: &["pattern 1.0.0.1-1.0.0.9# - 0 1, drop -> 2/2", "keep 0 0, GUARANTEE 0, TIMEOUT 2, CAPACITY 2"],
    build: |args| {
        let policies = plain_policies(args, 7200);
        rewriter::build(args, Flavour::Address, policies)
    },
    ..Class::DEFAULT
};
