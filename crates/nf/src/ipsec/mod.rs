//! IPsec with the Encapsulating Security Payload (ESP), as Click's elements do it.
//!
//! A [RadixIPsecLookup](crate::ip::lookup::radix_ipsec_lookup) has the security associations, and marks each
//! packet with its association. The elements here find it by the mark. All elements of a graph use one table
//! of associations (`associations`).

pub(crate) mod associations;
mod authenticator;
mod chaining;
pub mod ipsec_aes;
pub mod ipsec_auth_hmac_sha1;
pub mod ipsec_auth_sha1;
pub mod ipsec_des;
pub mod ipsec_encap;
pub mod ipsec_esp_encap;
pub mod ipsec_esp_unencap;
mod replay_window;

use element::effects::{Case, Field, Target};
use element::{Cx, DropReason, Packet, Severity};

use crate::editing::{annotation, when};

/// The offset in the annotation area of the security parameter index (SPI) of an outgoing packet, 4 bytes in
/// the machine's byte order.
pub(crate) const SPI: usize = 32;
/// The offset in the annotation area of the packet's security association, 8 bytes: its number in the table
/// of associations, in the machine's byte order, or 0.
pub(crate) const ASSOCIATION: usize = 40;

/// The field of declarations for the annotation [`SPI`].
pub(crate) fn spi_field() -> Field {
    annotation(SPI, 4)
}

/// The field of declarations for the annotation [`ASSOCIATION`].
pub(crate) fn association_field() -> Field {
    annotation(ASSOCIATION, 8)
}

/// The length in bytes of the ESP header: SPI, sequence number and an initialization vector.
const HEADER: usize = 16;
/// The length in bytes of the initialization vector, at the end of the ESP header.
const VECTOR: usize = 8;
/// The length in bytes of the pad length and the next header, at the end of an encapsulated packet.
const TRAILER: usize = 2;
/// The length in bytes of the integrity check value (ICV) at the end of a packet: the first 96 bits of a
/// digest.
const ICV: usize = 12;

/// Returns the case of declared effects for packets without a security association.
fn without_association() -> Case {
    when("no security association", &[association_field()], Target::Drop(DropReason::NoAssociation)).shown()
}

/// Drops a packet. For the first packet that has no security association, writes a message; `is_told` is true
/// once it is written.
#[cold]
fn reject(cx: &mut Cx<'_>, packet: Packet, reason: DropReason, is_told: &mut bool) {
    if reason == DropReason::NoAssociation && !std::mem::replace(is_told, true) {
        let name = cx.declaration();
        cx.messages().remark(
            Severity::Warning,
            format_args!(
                "{name}: packets without a security association are dropped; they have to come from \
                output 0 or 1 of a RadixIPsecLookup, by a route with keys"
            ),
        );
    }
    cx.drop(packet, reason);
}
