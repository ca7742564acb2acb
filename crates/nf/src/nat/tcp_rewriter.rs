//! # TCPRewriter
//! Translates addresses and ports of TCP packets.
//!
//! Packets of a known flow get its new addresses and ports, and leave by its output; checksums are updated
//! (RFC 1624). Each input has a specification for all other packets:
//!
//! - `drop` or `discard`: the packets are dropped.
//! - `pass OUTPUT` or `nochange OUTPUT`: the packets leave by the output unchanged, and no mapping is made.
//! - `keep FOUTPUT ROUTPUT`: a mapping is made that changes no addresses and ports; the flow leaves by one
//!   output, its reply by the other.
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: the flow gets these addresses and ports, and its
//!   reply is changed back. A dash leaves a field as it is. SPORT may be a range `L-H`: the packet's own port
//!   if it is in the range and free, else a random free port; with `#` after the range, the next free port;
//!   with `?`, always a random free port. A port is free if no other mapping has replies with the addresses
//!   and ports that its replies would have and, with several workers, its replies come to the same worker. If
//!   a pattern without a range makes a mapping whose replies equal those of an older mapping, the older
//!   mapping is removed.
//! - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of IPRewriterPatterns.
//! - `ELEMENT`: a RoundRobinIPMapper, SourceIPHashMapper or MaglevIPMapper chooses the pattern.
//!
//! Header annotations must be set. Packets of other protocols, fragments other than the first, packets with
//! fewer than 8 bytes after the IP header, and packets whose IP header length is less than 20 bytes leave by
//! the output of `pass`, or are dropped.
//!
//! Sequence numbers are not changed, unless an FTPPortMapper has changed the length of a line: then the
//! sequence numbers after the line, and the acknowledgments of the other side (selective acknowledgments,
//! too) are shifted by the change.
//!
//! ## Usage
//! `TCPRewriter(INPUTSPEC, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `INPUTSPEC`: the action for packets without a mapping, an argument for each input; see above.
//! - `TCP_TIMEOUT`: seconds after the last packet when a mapping expires, once data have arrived in both
//!   directions.
//! - `TIMEOUT`: another name of TCP_TIMEOUT; TCP_TIMEOUT is used if both are given.
//! - `TCP_DONE_TIMEOUT`: seconds after the last packet when a mapping expires, once the connection was
//!   closed in both directions, or reset.
//! - `TCP_NODATA_TIMEOUT`: seconds after the last packet when a mapping expires, while data have arrived in
//!   at most one direction.
//! - `TCP_GUARANTEE`: seconds after each packet during which a mapping neither expires nor is evicted for
//!   another.
//! - `GUARANTEE`: another name of TCP_GUARANTEE; GUARANTEE is used if both are given.
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
//! - `HANDLE_MIGRATION`: an argument of FastClick; without effect, because each flow's mapping belongs to one
//!   worker.
//! - `DST_ANNO`: true to set the destination annotation to the new destination.
//! - `INDEPENDENT_MAPPING`: if true, an inside address and port keeps one outside port of the range for all
//!   its flows, to any destination (RFC 4787), and no other inside address and port gets it. A flow whose
//!   pattern lacks this port leaves by the outputs of the endpoint's first flow. A flow is dropped if its
//!   replies would belong to another flow, so the range should not contain forwarded ports. Such a translator
//!   works on one worker.
//! - `INDEPENDENT_FILTERING`: if true, any host outside may send to such a port, not only hosts to which
//!   the inside has sent: packets without a mapping are then translated without making one, at inputs that
//!   drop or pass them. Requires INDEPENDENT_MAPPING.
//! - `SUBSCRIBER_CAPACITY`: the largest number of mappings for one source address of flows; 0 for no limit
//!   (RFC 6888). When it is reached, up to 64 mappings of the address are examined, and removed if they
//!   have expired. Such a translator works on one worker.
//!
//! ## Handlers
//! - `table`: two lines per mapping (one if the flow is its own reply), the newest first: the addresses and
//!   ports before and after translation, the outputs for flow and reply with a star at the output for this
//!   line, the input, and the seconds until the mapping expires.
//! - `mappings`: an old name of `table`.
//! - `lookup`: for `SADDR SPORT DADDR DPORT` of a packet: the four values that it would get, or nothing.
//! - `table_size`: the number of mappings that exist and that this element has made.
//! - `nmappings`: an old name of `table_size`.
//! - `mapping_failures`: packets for which no mapping could be made: no port or address was free, a capacity
//!   was used up, or the flow's addresses and ports were taken.
//! - `patterns`: a line per input: its pattern, or the name of its action, and the number of its mappings if
//!   there are any. `pattern0`, `pattern1` and so on are these lines one by one; writing a specification
//!   there ends the input's mappings.
//! - `size`: mappings of all translators that share the capacity.
//! - `capacity`: the largest number of mappings.
//! - `clear`: ends all mappings of all translators that share the capacity.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, UDPRewriter, IPRewriterPatterns, RoundRobinIPMapper, FTPPortMapper

use element::{Class, manual};

use super::flavour::Flavour;
use super::rewriter::{self, *};
use super::save::FORM;
use super::tcp_policy;

/// The element class `TCPRewriter`.
pub static CLASS: Class = Class {
    name: "TCPRewriter",
    ports: "1-/1-",
    processing: "h/h",
    manual: manual!("tcp_rewriter.rs"),
    args: &with_common::<10, 19>([
        seconds("TCP_TIMEOUT", "86400"),
        seconds("TIMEOUT", "").computed("TCP_TIMEOUT"),
        seconds("TCP_DONE_TIMEOUT", "240"),
        seconds("TCP_NODATA_TIMEOUT", "300"),
        seconds("TCP_GUARANTEE", "").computed("GUARANTEE"),
        DST_ANNO,
        SHARING[0],
        SHARING[1],
        INDEPENDENT_FILTERING,
        HANDLE_MIGRATION,
    ]),
    table: &[LOOKUP, ONE_TABLE, COUNTS, PATTERNS],
    state: &[MAPPINGS, FAILURES],
    saved_form: FORM,
    samples: &[
        "pattern 1.0.0.1 1024-65535? - - 0 1, pass 0 -> 2/2",
        "keep 0 0, TCP_GUARANTEE 0, TCP_NODATA_TIMEOUT 3",
    ],
    build: |args| {
        args.value::<bool>(HANDLE_MIGRATION.name);
        let tcp = tcp_policy(args);
        rewriter::build(args, Flavour::Tcp, [tcp; 2])
    },
    ..Class::DEFAULT
};
