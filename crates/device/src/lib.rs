//! Elements at the edge of the graph, by which packets enter and leave it: captures, summary dumps,
//! sockets, and network interfaces by packet sockets, TUN and TAP, AF_XDP and DPDK. ControlSocket gives
//! programs access to handlers, and ChatterSocket to messages.

pub mod chatter_socket;
pub mod control_socket;
pub mod dpdk;
pub mod encapsulation;
mod force_ip;
mod frames;
pub mod from_dump;
pub mod from_ip_summary_dump;
mod handover;
pub mod in_memory_nic;
pub mod interface;
pub mod kernel_filter;
mod losses;
mod pace;
mod rss_key;
mod sink;
pub mod sockets;
pub mod to_dump;
pub mod to_ip_summary_dump;
mod unix_socket;
pub mod xdp;

use element::Class;

/// All element classes of this crate, in the order of their modules.
pub static CLASSES: &[&Class] = &[
    &chatter_socket::CLASS,
    &control_socket::CLASS,
    &dpdk::dpdk_info::CLASS,
    &dpdk::from_dpdk_device::CLASS,
    &dpdk::to_dpdk_device::CLASS,
    &from_dump::CLASS,
    &from_ip_summary_dump::CLASS,
    &in_memory_nic::CLASS,
    &interface::from_device::CLASS,
    &interface::from_host::CLASS,
    &interface::kernel_tap::CLASS,
    &interface::kernel_tun::CLASS,
    &interface::to_device::CLASS,
    &interface::to_host::CLASS,
    &kernel_filter::CLASS,
    &sockets::mcast_socket::CLASS,
    &sockets::socket::CLASS,
    &to_dump::CLASS,
    &to_ip_summary_dump::CLASS,
    &xdp::from_xdp::CLASS,
    &xdp::to_xdp::CLASS,
];

/// Reads the argument SAMPLE, the probability with which each packet is taken. Warns if it is above 1 or
/// not positive.
fn probability(args: &mut element::Args<'_>) -> f64 {
    let sample = args.value::<f64>("SAMPLE");
    if sample > 1.0 {
        args.warn("SAMPLE probability reduced to 1");
    } else if sample <= 0.0 {
        args.warn("SAMPLE probability is 0; emitting no packets");
    }
    sample
}

/// Returns the system's text for an error, without the ` (os error N)` that Rust appends.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}
