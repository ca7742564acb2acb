//! # KernelTap
//! Exchanges Ethernet frames with the machine's own network stack, over a TAP interface.
//!
//! The interface is created when the graph starts, with an address and a network, and is removed with the
//! element. The machine sends packets for the network to the element, but first asks for Ethernet addresses
//! by ARP queries, which the configuration has to answer. The machine takes only frames that are sent to the
//! interface's Ethernet address (ETHER), to a group, or to all hosts.
//!
//! Large segments and partial checksums are forwarded unchanged, if no downstream element depends on them,
//! and each path ends at an element that can send them. Otherwise they become ordinary frames with complete
//! checksums here.
//!
//! ## Usage
//! `KernelTap(ADDR/MASK [, GATEWAY, KEYWORDS])`
//!
//! ## Arguments
//! - `ADDR`: the machine's address on the interface, and its network.
//! - `GATEWAY`: an address of that network to which the machine sends packets for other networks.
//! - `TAP`: true if packets have Ethernet headers.
//! - `HEADROOM`: accepted; packets always have 256 bytes of headroom.
//! - `BURST`: the largest number of packets per turn.
//! - `ETHER`: the interface's Ethernet address; without it, the kernel chooses one.
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted; the first packet that the interface does not take is reported, and
//!   later their number.
//! - `MTU`: the longest packet in bytes, without Ethernet header.
//! - `DEVNAME`: the name of the interface; without it, the kernel chooses one.
//! - `DEV_NAME`: an older name for DEVNAME.
//! - `GONE`: what happens when the interface is removed: `wait` creates it again, with all these arguments,
//!   a tenth of a second later; `stop` ends the run with an error.
//!
//! ## Handlers
//! - `dev_name`: the name of the interface.
//! - `selected_calls`: turns in which the interface was read.
//! - `packets`: packets read.
//!
//! ## Example
//! ```click
//! tap :: KernelTap(10.9.0.1/24, ETHER 2:0:0:0:0:1);
//! tap -> c :: Classifier(12/0806 20/0001, 12/0800);
//! c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:2) -> tap;
//! c[1] -> CheckIPHeader(14) -> ICMPPingResponder -> EtherMirror -> tap
//! ```
//!
//! ## See also
//! KernelTun, FromHost, FromDevice

use element::{Class, manual};

use super::kernel_tun::{DESCRIPTION, args};

/// The element class KernelTap.
pub static CLASS: Class =
    Class { name: "KernelTap", manual: manual!("kernel_tap.rs"), args: &args("true"), ..DESCRIPTION };
