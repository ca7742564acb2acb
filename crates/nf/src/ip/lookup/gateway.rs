//! Gateways: what is done with packets that take a route, beside the choice of an output.

use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use element::{Cx, Packet};
use packet::Annotations;

use crate::sorting::{Fate, Sorter};

/// The part of a next hop beside the output: the gateway's address, IPv4 or IPv6, and what else is done with
/// packets that go there.
pub(super) trait Gateway: Copy + Eq + Hash {
    /// The state that an element needs beside its table of routes.
    type Desk;

    /// Prepares packets that take a route with this gateway and this output, and notes in `sorter` where they
    /// go. The address 0 stands for a destination in the same network: the packets keep their destination
    /// annotation.
    fn direct(
        self,
        desk: &mut Self::Desk,
        cx: &mut Cx<'_>,
        output: usize,
        packets: &mut [Packet],
        sorter: &mut Sorter,
    );
}

impl Gateway for Ipv4Addr {
    type Desk = ();

    #[inline]
    fn direct(self, (): &mut (), _: &mut Cx<'_>, output: usize, packets: &mut [Packet], sorter: &mut Sorter) {
        sorter.note(Fate::Output(output), packets.len());
        if !self.is_unspecified() {
            packets.iter_mut().for_each(|packet| packet.set_destination(self.octets()));
        }
    }
}

impl Gateway for Ipv6Addr {
    type Desk = ();

    #[inline]
    fn direct(self, (): &mut (), _: &mut Cx<'_>, output: usize, packets: &mut [Packet], sorter: &mut Sorter) {
        sorter.note(Fate::Output(output), packets.len());
        if !self.is_unspecified() {
            let write = |packet: &mut Packet| {
                packet.annotations_mut().set_array(Annotations::DST_IP, self.octets());
            };
            packets.iter_mut().for_each(write);
        }
    }
}
