//! Network address translation: IPRewriter and related translators, the elements that choose patterns for
//! them, and the translation of ICMP errors about translated packets.

mod change;
mod declaration;
mod desk;
mod elsewhere;
mod flavour;
pub mod ftp_port_mapper;
pub mod icmp_ping_rewriter;
pub mod icmp_rewriter;
pub mod ip_addr_pair_rewriter;
pub mod ip_addr_rewriter;
pub mod ip_rewriter;
pub mod ip_rewriter_patterns;
pub mod maglev_ip_mapper;
mod mapper;
mod pattern;
mod published;
mod rewriter;
pub mod round_robin_ip_mapper;
mod shift;
pub mod source_ip_hash_mapper;
mod spec;
mod state;
mod store;
pub mod tcp_rewriter;
mod tuple;
pub mod udp_rewriter;
mod used;

use element::Args;

use rewriter::{last_given, last_of};
use state::Policy;

/// Default times in seconds: the time during which a mapping is not evicted, and the time-outs of mappings.
const GUARANTEE: i64 = 5;
const NO_DATA: i64 = 300;
const DATA: i64 = 86_400;
const DONE: i64 = 240;
const DATAGRAMS: i64 = 300;

/// Reads the time-outs of TCP.
fn tcp_policy(args: &mut Args<'_>) -> Policy {
    Policy {
        plain: last_of(args, &["TCP_NODATA_TIMEOUT"], NO_DATA),
        busy: last_of(args, &["TIMEOUT", "TCP_TIMEOUT"], DATA),
        done: last_of(args, &["TCP_DONE_TIMEOUT"], DONE),
        guarantee: last_of(args, &["TCP_GUARANTEE", "GUARANTEE"], GUARANTEE),
    }
}

/// Reads the time-outs of UDP; each is the last that is given of several names.
fn udp_policy(
    args: &mut Args<'_>,
    plain: &[&'static str],
    streaming: &[&'static str],
    guarantee: &[&'static str],
) -> Policy {
    let plain = last_of(args, plain, DATAGRAMS);
    let guarantee = last_of(args, guarantee, GUARANTEE);
    let busy = last_given(args, streaming).unwrap_or(plain);
    Policy { plain, busy, done: plain, guarantee }
}

/// Reads the time-outs of translators with one kind of mapping.
fn plain_policies(args: &mut Args<'_>, seconds: i64) -> [Policy; 2] {
    let plain = last_of(args, &["TIMEOUT"], seconds);
    let guarantee = last_of(args, &["GUARANTEE"], GUARANTEE);
    [Policy { plain, busy: plain, done: plain, guarantee }; 2]
}
