//! # KernelTap
//! Exchanges Ethernet frames with the machine's own network stack, over a TAP interface.
//!
//! The interface is made when the graph starts, with an address and the network behind it, and goes away with the
//! element. The machine sends ARP queries there, which somebody has to answer before it sends anything else; and it
//! takes only frames that are sent to the interface's Ethernet address (ETHER).
//!
//! Large segments and partial checksums go on as they are if nobody behind the element minds and each path ends at an
//! element that can send them; else they become ordinary frames here.
//!
//! ## Usage
//! `KernelTap(ADDR/MASK [, GATEWAY, KEYWORDS])`
//!
//! ## Arguments
//! - `ADDR`: the machine's address on the interface, and its network.
//! - `GATEWAY`: an address of that network to which the machine shall send what goes elsewhere.
//! - `TAP`: whether packets have Ethernet headers.
//! - `HEADROOM`: accepted; packets always have 256 bytes in front.
//! - `BURST`: most packets per turn; without, 1, or what `run --burst` says.
//! - `ETHER`: the interface's Ethernet address; without, the kernel chooses one.
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted; that the interface takes nothing more is said once, and then with the number
//!   of packets.
//! - `MTU`: the longest packet, without Ethernet header.
//! - `DEVNAME`: the name of the interface; without, the kernel chooses one.
//! - `DEV_NAME`: an older name for DEVNAME.
//! - `GONE`: what happens when somebody removes the interface: `wait` makes it again, with all these arguments, a tenth of a second
//!   later; `stop` ends the run with an error.
//!
//! ## Handlers
//! - `dev_name`: the name of the interface.
//! - `selected_calls`: turns in which there was something to read.
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

use super::kernel_tun::{DESCRIPTION, build};

/// The class.
pub static CLASS: Class = Class {
    name: "KernelTap",
    manual: manual!("kernel_tap.rs"),
    build: |args| build(args, true),
    ..DESCRIPTION
};
