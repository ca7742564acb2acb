//! # ListenEtherSwitch
//! Switches Ethernet frames like EtherSwitch, and sends a copy of every frame to an additional last output.
//!
//! Frames that are too short for an Ethernet header are dropped. If the way to the last output is forbidden
//! (`remove_port_forwarding`), that output gets no copies of frames that leave for all LANs, but still copies
//! of frames for one LAN.
//!
//! ## Usage
//! `ListenEtherSwitch([KEYWORDS])`
//!
//! ## Arguments
//! - `TIMEOUT`: the time for which an address is kept after its last frame; with 0, no address is learnt,
//!   as in a hub.
//! - `CAPACITY`: the maximum number of addresses, as in EtherSwitch.
//!
//! ## Handlers
//! - `table`: a line per address: the address, and the number of its LAN.
//! - `count`: the number of addresses in memory, including addresses that have expired but are not yet
//!   removed.
//! - `unlearnt`: the number of frames from addresses for which there was no room.
//! - `timeout`: the timeout in whole seconds.
//! - `port_forwarding`, `remove_port_forwarding`, `reset_port_forwarding`: the LANs to which frames may go,
//!   as in EtherSwitch.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> s :: ListenEtherSwitch -> Discard;
//! Idle -> [1] s [1] -> Discard; s [2] -> Discard
//! ```
//!
//! ## See also
//! EtherSwitch, Tee

use element::{Class, manual};

use super::ether_switch::{SWITCH, build};

/// The element class `ListenEtherSwitch`.
pub static CLASS: Class = Class {
    name: "ListenEtherSwitch",
    ports: "-/=+",
    manual: manual!("listen_ether_switch.rs"),
    samples: &["-> 2/3", "TIMEOUT 0 -> 1/2", "TIMEOUT 0 -> 2/3", "TIMEOUT 2 -> 2/3"],
    build: |args| build(args, true),
    ..SWITCH
};
