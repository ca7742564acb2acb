//! # SprayedNAT
//! Translates the source of TCP connections.
//!
//! The translator of Figure 5 in Sadok et al., "A Case for Spraying Packets in Software Middleboxes"
//! (HotNets 2018). SYN packets from input 0 open connections. A connection gets ADDR and a port that no
//! other connection to the same server has. Packets from either input leave, translated, by the output with
//! the same number; packets of unknown connections are dropped. Put CheckIPHeader upstream.
//!
//! ## Usage
//! `SprayedNAT(ADDR)`
//!
//! ## Arguments
//! - `ADDR`: the source address of translated connections.
//!
//! ## Handlers
//! - `flows`: the number of flows in the table, two for each connection.
//!
//! ## Example
//! ```click
//! FromDump(configs/data/quickstart.pcap) -> CheckIPHeader(14) -> nat :: SprayedNAT(192.0.2.1) -> Discard;
//! Idle -> [1] nat [1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter

use std::net::{IpAddr, Ipv4Addr};

use element::class::ArgInfo;
use element::effects::Leaves;
use element::{Args, Base, Class, DropReason, Packet, manual};
use sprayer::function::{FlowPacket, FlowStates, Function, Needs, Verdict, class};
use wire::checksum::Delta;
use wire::ip_protocol::TCP;
use wire::tcp::flags::{ACK, SYN};
use wire::{FiveTuple, ipv4, tcp};

/// The element class `SprayedNAT`.
pub static CLASS: Class = Class {
    name: "SprayedNAT",
    ports: "2/2",
    flow: "#/#",
    manual: manual!("nat.rs"),
    args: &[ArgInfo::required("ADDR", "IP address")],
    samples: &["192.0.2.1"],
    ..class::<Nat>()
};

/// The first port for connections; lower ports are for servers.
const FIRST_PORT: u16 = 1024;

struct Nat {
    address: Ipv4Addr,
    /// The port that was assigned or tried last; the search for a free port continues after it.
    port: u16,
}

impl Function for Nat {
    /// The five-tuple that packets of this direction get.
    type State = FiveTuple;

    fn init(args: &mut Args<'_>, needs: &mut Needs) -> Nat {
        needs.effects.leaves = Leaves::AtHome;
        Nat { address: args.required_or("ADDR", Ipv4Addr::UNSPECIFIED), port: FIRST_PORT }
    }

    fn connection_packets(
        &mut self,
        flows: &mut FlowStates<'_, FiveTuple>,
        packets: &mut [FlowPacket<FiveTuple>],
    ) {
        for packet in packets {
            let mut translated = flows.get_local_flow(&packet.flow);
            // Only a SYN from input 0 opens a connection. If the SYN is sent again, the connection is
            // already known.
            if translated.is_none() && packet.input == 0 && packet.flags & (SYN | ACK) == SYN {
                translated = self.select_port(flows, &packet.flow).filter(|translated| {
                    let back = (&translated.reversed(), &packet.flow.reversed());
                    flows.insert_local_pair((&packet.flow, translated), back).is_ok()
                });
            }
            translate(packet, translated);
        }
    }

    fn regular_packets(&mut self, _flows: &FlowStates<'_, FiveTuple>, packets: &mut [FlowPacket<FiveTuple>]) {
        for packet in packets {
            translate(packet, packet.state);
        }
    }
}

impl Nat {
    /// Returns the five-tuple that a new connection gets: with a port such that replies have this worker as
    /// their home, and belong to no other connection. `None` if no port is free, or if the server's address
    /// is not an IPv4 address.
    fn select_port(&mut self, flows: &FlowStates<'_, FiveTuple>, flow: &FiveTuple) -> Option<FiveTuple> {
        let IpAddr::V4(server) = flow.destination() else { return None };
        (FIRST_PORT..=u16::MAX).find_map(|_| {
            self.port = self.port.checked_add(1).unwrap_or(FIRST_PORT);
            let (source, destination) = ((self.address, self.port), (server, flow.destination_port()));
            let translated = FiveTuple::v4(source, destination, TCP);
            let is_free =
                flows.is_home(&translated) && flows.get_local_flow(&translated.reversed()).is_none();
            is_free.then_some(translated)
        })
    }
}

fn translate(packet: &mut FlowPacket<FiveTuple>, translated: Option<FiveTuple>) {
    if translated.and_then(|translated| update_header(&mut packet.packet, &translated)).is_none() {
        packet.verdict = Verdict::Drop(DropReason::NoMapping);
    }
}

/// Replaces the addresses and ports of a TCP segment over IPv4, and updates its checksums. Returns `None`,
/// without a change, if the packet has no network header annotation, its headers are malformed or truncated,
/// or the addresses are not IPv4.
fn update_header(packet: &mut Packet, to: &FiveTuple) -> Option<()> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (to.source(), to.destination()) else { return None };
    let header = packet.header_mut(Base::Network)?;
    let tcp = usize::from(header.first()? & 15) * 4;
    if tcp < ipv4::Header::LEN || header.len() < tcp + tcp::Header::LEN {
        return None;
    }
    let addresses = [source.octets(), destination.octets()];
    let ports = [to.source_port().to_be_bytes(), to.destination_port().to_be_bytes()];
    let mut change = |at: usize, new: &[u8]| {
        let old = &mut header[at..at + new.len()];
        let change = Delta::bytes(old, new);
        old.copy_from_slice(new);
        change
    };
    let (addresses, ports) = (change(12, addresses.as_flattened()), change(tcp, ports.as_flattened()));
    for (at, change) in [(10, addresses), (tcp + 16, addresses + ports)] {
        let sum = u16::from_be_bytes([header[at], header[at + 1]]);
        header[at..at + 2].copy_from_slice(&change.apply(sum).to_be_bytes());
    }
    Some(())
}
