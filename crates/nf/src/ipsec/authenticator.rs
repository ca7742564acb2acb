//! The element of the classes that append a digest to ESP packets, or check and remove it.

use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Action, Field};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, Severity, StatePart,
};
use hmac::Mac;
use sha1::{Digest, Sha1};

use super::associations::{Associations, Reader};
use super::{ICV, association_field, reject, without_association};
use crate::editing::{otherwise, pure, refused};

/// The fields that both classes have in common.
pub(super) const CLASS: Class = Class {
    ports: "1/-",
    args: &[ArgInfo::required("VERIFY", "0 or 1")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["0 -> 1/1", "1 -> 1/1", "1 -> 1/2"],
    ..Class::DEFAULT
};

/// Makes the element that computes or verifies digests; with `is_keyed`, by the key of the packet's security
/// association.
pub(super) fn build(args: &mut Args<'_>, is_keyed: bool) -> Result<Box<dyn Element>, Invalid> {
    let verify = args.required::<i32>("VERIFY");
    args.finish()?;
    let associations = is_keyed.then(|| Associations::of_graph(args));
    // As in Click, only 0 computes.
    Ok(Box::new(Authenticator { associations, verifies: verify != 0, drops: 0, is_told: false }))
}

struct Authenticator {
    /// The table of security associations, for HMAC-SHA1; `None` for SHA1 without a key.
    associations: Option<Arc<Associations>>,
    verifies: bool,
    drops: u64,
    /// True if the message about packets without association was written.
    is_told: bool,
}

/// Calls `read` with the first `length` bytes of a packet, slot by slot.
fn feed(packet: &Packet, length: usize, mut read: impl FnMut(&[u8])) {
    let mut left = length;
    for chunk in packet.chunks() {
        let step = chunk.len().min(left);
        read(&chunk[..step]);
        left -= step;
    }
}

/// Returns an HMAC of the first `length` bytes of a packet.
fn keyed(table: &Reader<'_>, packet: &Packet, length: usize) -> Result<hmac::Hmac<Sha1>, DropReason> {
    let mut mac = table.of(packet).ok_or(DropReason::NoAssociation)?.mac();
    feed(packet, length, |bytes| mac.update(bytes));
    Ok(mac)
}

/// Returns the digest of the first `length` bytes of a packet, without a key.
fn plain(packet: &Packet, length: usize) -> Sha1 {
    let mut digest = Sha1::new();
    feed(packet, length, |bytes| Digest::update(&mut digest, bytes));
    digest
}

/// Returns the ICV of a packet: the first bytes of its digest.
fn icv(table: Option<&Reader<'_>>, packet: &Packet) -> Result<[u8; ICV], DropReason> {
    let digest = match table {
        Some(table) => keyed(table, packet, packet.len())?.finalize().into_bytes(),
        None => plain(packet, packet.len()).finalize(),
    };
    let mut icv = [0; ICV];
    icv.copy_from_slice(&digest[..ICV]);
    Ok(icv)
}

/// Checks the ICV at the end of a packet, and removes it.
fn verify(table: Option<&Reader<'_>>, packet: &mut Packet) -> Result<(), DropReason> {
    if table.is_some_and(|table| table.of(packet).is_none()) {
        return Err(DropReason::NoAssociation);
    }
    let length = packet.len().checked_sub(ICV).ok_or(DropReason::BadAuthentication)?;
    let mut icv = [0; ICV];
    packet.read_at(length, &mut icv);
    let is_right = match table {
        // The time that the comparison takes does not depend on the bytes.
        Some(table) => keyed(table, packet, length)?.verify_truncated_left(&icv).is_ok(),
        None => plain(packet, length).finalize()[..ICV] == icv,
    };
    if !is_right {
        return Err(DropReason::BadAuthentication);
    }
    packet.truncate(length);
    Ok(())
}

impl Element for Authenticator {
    fn effects(&self) -> Effects {
        let mut reads = vec![Field::Payload, Field::Length];
        let mut cases = Vec::new();
        if self.associations.is_some() {
            reads.push(association_field());
            cases.push(without_association());
        }
        let resized = Action::Resize(vec![Field::Length]);
        if self.verifies {
            cases.push(refused("wrong digest", &reads, DropReason::BadAuthentication).shown());
            cases.push(otherwise(vec![resized]));
        } else {
            cases.push(otherwise(vec![pure(Field::Payload, "append digest", &reads), resized]));
        }
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Authenticator { associations, verifies, drops, is_told } = self;
        let table = associations.as_ref().map(|associations| associations.read());
        let table = table.as_ref();
        if !*verifies {
            return batch.replace_each(|packet| match icv(table, &packet) {
                Ok(icv) => cx.append(packet, &icv),
                Err(reason) => {
                    reject(cx, packet, reason, is_told);
                    None
                }
            });
        }
        batch.sift(
            |packet| verify(table, packet),
            |packet, reason| {
                if reason != DropReason::BadAuthentication {
                    return reject(cx, packet, reason, is_told);
                }
                if *drops == 0 {
                    cx.messages()
                        .remark(Severity::Warning, format_args!("Invalid SHA1 authentication digest"));
                }
                *drops += 1;
                cx.emit_one(1, packet, reason);
            },
        );
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<Authenticator>] = &[Handler::count("drops", |e| e.drops)];
