//! Elements at the edge of the graph: captures, sockets and network interfaces.

pub mod control_socket;
pub mod dpdk;
pub mod encapsulation;
mod force_ip;
mod frames;
pub mod from_dump;
pub mod from_ip_summary_dump;
pub mod in_memory_nic;
pub mod interface;
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

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[
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
    &sockets::mcast_socket::CLASS,
    &sockets::socket::CLASS,
    &to_dump::CLASS,
    &to_ip_summary_dump::CLASS,
    &xdp::from_xdp::CLASS,
    &xdp::to_xdp::CLASS,
];

/// Reads the probability with which packets are taken.
fn probability(args: &mut element::Args<'_>) -> f64 {
    let sample = args.value::<f64>("SAMPLE");
    if sample > 1.0 {
        args.warn("SAMPLE probability reduced to 1");
    } else if sample <= 0.0 {
        args.warn("SAMPLE probability is 0; emitting no packets");
    }
    sample
}

/// Returns the system's text for an error, without the number that Rust adds.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}
