//! # UDPRewriter
//! Translates addresses and ports of UDP packets, and of TCP packets without regard to their connections.
//!
//! Packets of a flow that is known get its new addresses and ports, and leave by the output that goes with it; checksums are
//! updated (RFC 1624), but UDP's zero stays. What becomes of others is said for each input:
//!
//! - `drop` or `discard`: they are dropped.
//! - `pass OUTPUT` or `nochange OUTPUT`: they leave by the output as they are, and no mapping is made.
//! - `keep FOUTPUT ROUTPUT`: a mapping onto themselves is made; the flow leaves by one output, its reply by the other.
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: the flow gets these addresses and ports, and its reply is changed
//!   back. A dash leaves a field as it is. SPORT may be a range `L-H`: the packet's own port if it is in the range and free,
//!   else a random one that is free; with `#` behind the range the next one, with `?` always a random one. A port is free if
//!   the reply that it would make is nobody's yet. A pattern without a range that makes the reply of an older mapping ends
//!   that one.
//! - `pattern NAME FOUTPUT ROUTPUT`: the same with a pattern of IPRewriterPatterns.
//! - `ELEMENT`: as a RoundRobinIPMapper or SourceIPHashMapper says.
//!
//! Header annotations must be set. Packets other than UDP, TCP and DCCP, fragments behind the first, packets
//! that end within 8 bytes behind the IP header, and those whose IP header says less than its 20 bytes leave by the output of
//! `pass`, or are dropped.
//!
//! The protocol does not count: a TCP packet is translated as a UDP packet with the same addresses and ports. Checksums of DCCP
//! stay as they are.
//!
//! ## Usage
//! `UDPRewriter(INPUTSPEC, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `INPUTSPEC`: what becomes of packets that no mapping is for, an argument for each input; see above.
//! - `UDP_TIMEOUT`: how long a mapping holds after its last packet.
//! - `TIMEOUT`: the same, and counts if both are given.
//! - `UDP_STREAMING_TIMEOUT`: the same once there were three packets and one of them a reply; TIMEOUT if not given.
//! - `STREAMING_TIMEOUT`: the same, and counts if both are given.
//! - `UDP_GUARANTEE`: for so many seconds after each packet a mapping does not give way to others.
//! - `GUARANTEE`: the same as UDP_GUARANTEE, and counts if both are given.
//! - `REAP_INTERVAL`: 0 if mappings that are over are to hold until a new one needs their place. With any other number
//!   they end when they are over, where Click's end up to so many seconds later.
//! - `REAP_TIME`: an old name of REAP_INTERVAL.
//! - `MAPPING_CAPACITY`: most mappings, or another translator with which this one shares its capacity. A mapping takes
//!   about 270 bytes, from the time when it is needed on; packets for which there is no memory are treated as above
//!   this number.
//! - `CAPACITY`: the same.
//! - `REPLY_ANNO`: an annotation byte of the first packet that all packets of the reply get.
//! - `HANDLE_MIGRATION`: FastClick's; without effect, for a translator belongs to one worker.
//! - `DST_ANNO`: whether the destination annotation becomes the new destination.
//! - `INDEPENDENT_MAPPING`: whether an address and port inside has one port of a range outside for all its flows, wherever they
//!   go (RFC 4787); then no two have the same one. All of them leave where the first one has. A flow is dropped whose reply is
//!   somebody else's: ports that are forwarded should not be in the range. Such a translator works on one worker.
//! - `INDEPENDENT_FILTERING`: whether everybody outside may send to such a port, and not only those that were sent to: packets
//!   that no mapping is for, at an input that drops or passes them, are then translated without one. Needs
//!   INDEPENDENT_MAPPING.
//! - `SUBSCRIBER_CAPACITY`: most mappings for one source address of flows; 0 for no limit (RFC 6888). Those of it
//!   that are over make room at once, as far as 64 show. Such a translator works on one worker.
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
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, TCPRewriter, IPRewriterPatterns, RoundRobinIPMapper

use element::{Class, manual};

use super::flavour::Flavour;
use super::rewriter::{self, *};
use super::udp_policy;

/// The class.
pub static CLASS: Class = Class {
    name: "UDPRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("udp_rewriter.rs"),
    args: &with_common::<10, 17>([
        seconds("UDP_TIMEOUT", "300"),
        seconds("TIMEOUT", "300"),
        seconds("UDP_STREAMING_TIMEOUT", ""),
        seconds("STREAMING_TIMEOUT", ""),
        seconds("UDP_GUARANTEE", "5"),
        DST_ANNO,
        SHARING[0],
        SHARING[1],
        INDEPENDENT_FILTERING,
        HANDLE_MIGRATION,
    ]),
    handlers: &HANDLERS,
    samples: &["pattern 1.0.0.1 1024-65535 - - 0 1, drop -> 2/2", "keep 0 0, UDP_GUARANTEE 0, TIMEOUT 3"],
    build: |args| {
        args.or(HANDLE_MIGRATION.name, false);
        let streaming = ["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"];
        let udp = udp_policy(args, &["UDP_TIMEOUT", "TIMEOUT"], &streaming, &["UDP_GUARANTEE", "GUARANTEE"]);
        rewriter::build(args, Flavour::Udp, [udp; 2])
    },
    ..Class::DEFAULT
};
