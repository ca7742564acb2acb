//! # ARPFaker
//! Sends an unsolicited ARP reply a second after the start, and every ten seconds after that.
//!
//! ## Usage
//! `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//!
//! ## Arguments
//! - `DSTIP`, `DSTETH`: addresses of the host that gets the reply.
//! - `SRCIP`, `SRCETH`: the IPv4 address and the Ethernet address of the sender that the reply names.
//!
//! ## Example
//! ```click
//! ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.99, 2:0:0:0:0:99) -> Discard; DriverManager(wait 30s, stop)
//! ```
//!
//! ## See also
//! ARPResponder, ARPQuerier

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::{Class, Cx, Effects, Element, Timestamp, manual};
use wire::{LinkType, arp, ethernet};

use super::{FRAME, Party, frame};

/// The element class `ARPFaker`.
pub static CLASS: Class = Class {
    name: "ARPFaker",
    ports: "0/1",
    processing: "h/h",
    manual: manual!("arp_faker.rs"),
    args: &[
        ArgInfo::required("DSTIP", "IPv4 address"),
        ArgInfo::required("DSTETH", "Ethernet address"),
        ArgInfo::required("SRCIP", "IPv4 address"),
        ArgInfo::required("SRCETH", "Ethernet address"),
    ],
    samples: &[],
    build: |args| {
        let target = Party { ip: args.required_or("DSTIP", NO_IP), mac: args.required("DSTETH") };
        let sender = Party { ip: args.required_or("SRCIP", NO_IP), mac: args.required("SRCETH") };
        args.finish()?;
        Ok(Box::new(ArpFaker { frame: frame(arp::REPLY, target.mac, sender, target) }))
    },
    ..Class::DEFAULT
};

const NO_IP: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const FIRST: Timestamp = Timestamp::from_secs(1);
const INTERVAL: Timestamp = Timestamp::from_secs(10);

struct ArpFaker {
    frame: [u8; FRAME],
}

impl Element for ArpFaker {
    fn effects(&self) -> Effects {
        Effects::source("ARP reply")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_timer(0, cx.now() + FIRST);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Some(mut packet) = cx.packet(&self.frame) {
            packet.set_link_header(ethernet::Header::LEN);
            packet.set_link(LinkType::Ethernet.number());
            let batch = cx.batch_of(packet);
            cx.emit(0, batch);
        }
        cx.set_timer(0, cx.now() + INTERVAL);
    }
}
