//! Network address translation: IPRewriter and related translators, the elements that choose patterns for
//! them, the translation of ICMP errors about translated packets, and the log of sessions.

mod change;
mod declaration;
mod desk;
mod elsewhere;
mod flavour;
pub mod flow_ip_nat;
pub mod flow_ip_nat_reverse;
pub mod flow_napt_load_balancer;
pub mod flow_napt_load_balancer_reverse;
pub mod ftp_port_mapper;
pub mod icmp_ping_rewriter;
pub mod icmp_rewriter;
pub mod ip_addr_pair_rewriter;
pub mod ip_addr_rewriter;
pub mod ip_rewriter;
pub mod ip_rewriter_patterns;
mod ipfix;
pub mod maglev_ip_mapper;
mod mapper;
pub mod nat_log;
mod pattern;
mod plain;
mod published;
mod reverse;
mod rewriter;
pub mod round_robin_ip_mapper;
mod save;
mod session_event;
mod session_log;
mod shift;
pub mod source_ip_hash_mapper;
mod spaces;
mod spec;
mod state;
mod store;
pub mod tcp_rewriter;
pub mod thread_ip_mapper;
mod tuple;
pub mod udp_rewriter;
mod used;

use element::Args;

use rewriter::{last_given, last_of};
use state::Policy;

/// Reads TCP's time-outs from the arguments, in nanoseconds. `TIMEOUT` is another name of `TCP_TIMEOUT`,
/// and `TCP_GUARANTEE` of `GUARANTEE`. If both names are given, `TCP_TIMEOUT` and `GUARANTEE` are used.
fn tcp_policy(args: &mut Args<'_>) -> Policy {
    Policy {
        plain: last_of(args, &[], "TCP_NODATA_TIMEOUT"),
        busy: last_of(args, &["TIMEOUT"], "TCP_TIMEOUT"),
        done: last_of(args, &[], "TCP_DONE_TIMEOUT"),
        guarantee: last_of(args, &["TCP_GUARANTEE"], "GUARANTEE"),
    }
}

/// Reads UDP's time-outs from the arguments, in nanoseconds. A time-out can have several names: `plain` and
/// `guarantee` take precedence over the last given name in `others` and `more`. If no name in `streaming`
/// is given, streams of datagrams have the plain time-out.
fn udp_policy(
    args: &mut Args<'_>,
    (others, plain): (&[&'static str], &'static str),
    streaming: &[&'static str],
    (more, guarantee): (&[&'static str], &'static str),
) -> Policy {
    let plain = last_of(args, others, plain);
    let guarantee = last_of(args, more, guarantee);
    let busy = last_given(args, streaming).unwrap_or(plain);
    Policy { plain, busy, done: plain, guarantee }
}

/// Reads `TIMEOUT` and `GUARANTEE` of translators that do not distinguish states of connections: all their
/// mappings have one time-out. Returns the policy twice, because [`build`](rewriter::build) takes two.
fn plain_policies(args: &mut Args<'_>) -> [Policy; 2] {
    let plain = last_of(args, &[], "TIMEOUT");
    let guarantee = last_of(args, &[], "GUARANTEE");
    [Policy { plain, busy: plain, done: plain, guarantee }; 2]
}

/// Reads the time-outs of translators of one direction: of TCP and of UDP.
fn one_way_policies(args: &mut Args<'_>) -> [Policy; 2] {
    let tcp = tcp_policy(args);
    [tcp, udp_policy(args, (&[], "UDP_TIMEOUT"), &[], (&[], "UDP_GUARANTEE"))]
}
