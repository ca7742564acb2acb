//! # FromHost
//! Receives the packets that the machine's own network stack sends to a TAP interface.
//!
//! The interface is created when the graph starts, and is removed with the element. ToHost sends to the same
//! interface. Before the machine sends IPv4 packets to an address, it asks for the Ethernet address by ARP
//! queries, which the configuration has to answer. The header annotations of IP packets are set, and for IPv4
//! the destination annotation. KernelTap combines both elements.
//!
//! ## Usage
//! `FromHost(DEVNAME [, DST, KEYWORDS])`
//!
//! ## Arguments
//! - `DEVNAME`: the name of the interface.
//! - `DST`: the machine's address on the interface, and its network; without it, the address has to be set
//!   by other means.
//! - `GATEWAY`: an address of that network to which the machine sends packets for other networks.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//! - `ETHER`: the interface's Ethernet address; without it, the kernel chooses one.
//! - `MTU`: the longest packet in bytes, without Ethernet header; without it, the kernel's choice (1500).
//! - `DST6`: the machine's IPv6 address on the interface, and its network.
//! - `GONE`: what happens when the interface is removed: `wait` creates it again, with all these arguments,
//!   a tenth of a second later, also for ToHost; `stop` ends the run with an error.
//!
//! ## Handlers
//! - `dev_name`: the name of the interface.
//! - `signal`: true if there is room downstream.
//!
//! ## Example
//! ```click
//! FromHost(fake, 192.0.2.1/24) -> c :: Classifier(12/0806 20/0001, -);
//! c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:2) -> ToHost(fake);
//! c[1] -> Print(sent) -> Discard
//! ```
//!
//! ## See also
//! ToHost, KernelTap

use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::{Ipv4Prefix, Ipv6Prefix};
use element::class::{ArgInfo, ConfigurePhase, Notes, Task};
use element::{Args, Class, Element, Invalid, StatePart, manual};

use super::Gone;
use super::host::Wanted;
use super::host_interface::HostInterface;
use super::kernel_tun::KernelTun;

/// The element class FromHost.
pub static CLASS: Class = Class {
    name: "FromHost",
    ports: "0/1",
    processing: "h",
    manual: manual!("from_host.rs"),
    notes: Notes { task: Task::Always, is_live: true, is_paired: true, ..Notes::NONE },
    // Initialized ahead of ToHost, which looks for the interface.
    phase: ConfigurePhase::Service,
    args: &[
        ArgInfo::required("DEVNAME", "interface"),
        ArgInfo::positional("DST", "IP prefix", ""),
        ArgInfo::keyword("GATEWAY", "IP address", ""),
        ArgInfo::keyword("HEADROOM", "unsigned", "28"),
        ArgInfo::keyword("ETHER", "Ethernet address", ""),
        ArgInfo::keyword("MTU", "int", ""),
        ArgInfo::keyword("DST6", "IPv6 prefix", ""),
        ArgInfo::keyword("GONE", "wait or stop", "wait"),
    ],
    table: &super::kernel_tun::OF_FROM_HOST,
    state: &[StatePart::kept("interface", &["dev_name"])],
    // No samples for the generic tests, because the element creates an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let name: String = args.required("DEVNAME");
    let near: Option<Ipv4Prefix> = args.get("DST");
    let gateway = args.get::<Ipv4Addr>("GATEWAY").filter(|gateway| !gateway.is_unspecified());
    let near6 = args.get::<Ipv6Prefix>("DST6").map(|prefix| (prefix.address, prefix.length));
    args.value::<u32>("HEADROOM");
    let mtu: Option<u32> = args.get("MTU");
    let mac = args.get("ETHER");
    if name.is_empty() && args.was_given("DEVNAME") {
        args.error("must specify device name");
    }
    if gateway.is_some_and(|gateway| near.is_none_or(|near| !near.contains(gateway))) {
        args.error("bad GATEWAY");
    }
    let gone = Gone::read(args);
    args.finish()?;
    let interface = Arc::new(HostInterface::new(&name));
    args.setup.publish(args.id(), Arc::clone(&interface));
    let wanted = Wanted { name, tap: true, alone: true, near, near6, gateway, mac, mtu };
    let burst = args.setup.burst.unwrap_or(1);
    Ok(Box::new(KernelTun::shared(wanted, gone, burst, interface, Arc::clone(&args.setup.common))))
}
