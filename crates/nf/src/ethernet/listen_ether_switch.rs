//! # ListenEtherSwitch
//! An EtherSwitch with one more output than inputs, which gets a copy of every frame that is switched.
//!
//! Frames too short for an Ethernet header are dropped. Closing the way to the last output (`remove_port_forwarding`)
//! keeps it from getting frames that leave for all LANs, but not from getting those for one.
//!
//! ## Usage
//! `ListenEtherSwitch([KEYWORDS])`
//!
//! ## Arguments
//! - `TIMEOUT`: how long an address is remembered after its last frame; with 0 nothing is learnt, as in a hub.
//! - `CAPACITY`: most addresses, as in EtherSwitch.
//!
//! ## Handlers
//! - `table`: a line per address: the address, the number of its LAN.
//! - `count`: addresses that take memory; some of them may be about to be forgotten.
//! - `unlearnt`: frames from addresses for which there was no room.
//! - `timeout`: the same as the argument, in whole seconds.
//! - `port_forwarding`, `remove_port_forwarding`, `reset_port_forwarding`: where frames may go, as in EtherSwitch.
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

/// The class.
pub static CLASS: Class = Class {
    name: "ListenEtherSwitch",
    ports: "-/=+",
    flow: "x",
    manual: manual!("listen_ether_switch.rs"),
    samples: &["-> 2/3", "TIMEOUT 0 -> 1/2", "TIMEOUT 0 -> 2/3", "TIMEOUT 2 -> 2/3"],
    build: |args| build(args, true),
    ..SWITCH
};
