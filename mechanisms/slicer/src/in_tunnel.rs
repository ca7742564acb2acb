//! Large segments that have returned in a tunnel, and are cut.

use element::offload::describe;
use element::{Cx, DropReason, Packet};

use crate::offloads::Offloads;
use crate::tunnel::Outer;

/// A large segment that has returned in a tunnel.
pub(crate) struct InTunnel {
    /// The headers of the tunnel.
    pub(crate) outer: Outer,
    /// The packet from the network function: the tunnel, and in it the short packet.
    pub(crate) front: Packet,
    /// The offset in `front` of the IP header in the tunnel.
    pub(crate) inner: usize,
    /// The joined segment, which starts with its IP header.
    pub(crate) large: Packet,
    /// The DSCP before slicing.
    pub(crate) dscp: Option<u8>,
    /// True if the parts exceed the MTU.
    pub(crate) is_long: bool,
}

impl InTunnel {
    /// Cuts the large segment, and passes each of its segments, in a tunnel of its own, to `each`, in order.
    pub(crate) fn cut(
        self,
        cx: &mut Cx<'_>,
        offloads: &mut Offloads,
        mut each: impl FnMut(&mut Cx<'_>, Packet),
    ) {
        let InTunnel { outer, front, inner, large, dscp, .. } = self;
        let before = outer.sums(&front);
        let mut number = 0;
        offloads.finish(cx, large, |cx, mut part| {
            if !part.unstrip(inner) {
                return cx.drop(part, DropReason::NoHeadroom);
            }
            part.data_mut()[..inner].copy_from_slice(&front.data()[..inner]);
            describe(&mut part, &front);
            outer.identify(part.data_mut(), number);
            number += 1;
            let (length, mut outer) = (part.len(), outer);
            outer.set_end(part.data_mut(), length, dscp);
            outer.resum(&mut part, &before);
            each(cx, part);
        });
        cx.pool().free(front);
    }
}
