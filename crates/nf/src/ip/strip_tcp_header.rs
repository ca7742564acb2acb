//! # StripTCPHeader
//! Removes a TCP header from the front of the packet.
//!
//! If the transport header annotation is set, all bytes up to the end of the TCP header are removed;
//! otherwise the packet must start with the TCP header. Packets that end inside the header are dropped.
//!
//! ## Usage
//! `StripTCPHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripIPHeader -> StripTCPHeader -> Discard
//! ```
//!
//! ## See also
//! StripTransportHeader, UnstripTransportHeader, StripIPHeader

use element::effects::{Case, Filter, Number, Predicate, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, tcp};

use crate::editing::{Fate, bytes, each, is_marked};
use crate::stripping::{cases, to_header};

/// The element class `StripTCPHeader`.
pub static CLASS: Class = Class {
    name: "StripTCPHeader",
    manual: manual!("strip_tcp_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripTcpHeader))
    },
    ..Class::DEFAULT
};

struct StripTcpHeader;

fn strip(packet: &mut Packet) -> Fate {
    let base = if packet.offset(Base::Transport).is_some() { Base::Transport } else { Base::Data };
    let header = packet.header(base).ok_or(DropReason::TooShort)?;
    let (tcp, _) = tcp::Header::ref_from_prefix(header).map_err(|_| DropReason::TooShort)?;
    let length = tcp.header_len();
    to_header(packet, base, length)
}

impl Element for StripTcpHeader {
    fn effects(&self) -> Effects {
        let length = |base| Number::constant(0).plus(4, bytes(base, 12, 1), 0xf0);
        let short =
            |base| Case::new(Predicate::reaches(base, 0, 20).not(), Target::Drop(DropReason::TooShort));
        let in_case = |condition: &Filter, case: Case| {
            let when = condition.clone().and([case.when]);
            Case { when, ..case }
        };
        let marked = is_marked(Base::Transport);
        let [transport, data] = [Base::Transport, Base::Data]
            .map(|base| std::iter::once(short(base)).chain(cases(base, &length(base))));
        Effects::cases(transport.map(|case| in_case(&marked, case)).chain(data).collect())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, strip);
    }
}
