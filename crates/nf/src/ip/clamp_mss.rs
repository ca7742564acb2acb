//! # ClampMSS
//! Lowers the maximum segment size (MSS) that TCP connections agree on.
//!
//! In segments with SYN whose option MSS is larger than the argument, the option is set to the argument, and
//! the checksum is updated. All other packets pass unchanged, also segments with SYN and without the option:
//! their senders get segments of at most 536 bytes of data (RFC 9293, section 3.7.1), or 1220 with IPv6. So
//! TCP needs no fragments on a path whose MTU is smaller than that of both ends, such as a tunnel: MSS is
//! the MTU minus 40 bytes, or minus 60 for IPv6. Put the element in both directions.
//!
//! Header annotations must be set; packets without them pass. In IPv6 packets, the TCP header must come
//! directly after the fixed header; others pass. An option that does not lie in the first slot
//! of a packet is not seen.
//!
//! ## Usage
//! `ClampMSS(MSS)`
//!
//! ## Arguments
//! - `MSS`: the largest maximum segment size, in bytes.
//!
//! ## Handlers
//! - `clamped`: segments whose option has been lowered.
//! - `mss`: the largest maximum segment size.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> ClampMSS(1360) -> Discard
//! ```
//!
//! ## See also
//! IPFragmenter, GREEncap, UDPIPEncap

use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Target, wire_field};
use element::{Base, Batch, Class, Cx, Effects, Element, Handler, Packet, StatePart, manual};
use wire::checksum::Delta;
use wire::tcp::{self, flags};
use wire::{FromBytes, ip_protocol, ipv4};

use crate::editing::{bytes, pure, value, when};

/// The element class `ClampMSS`.
pub static CLASS: Class = Class {
    name: "ClampMSS",
    manual: manual!("clamp_mss.rs"),
    args: &[ArgInfo::required("MSS", "unsigned")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &[])],
    samples: &["1360", "1"],
    build: |args| {
        let mss: u16 = args.required("MSS");
        args.finish()?;
        if mss == 0 {
            args.error(format!("MSS: {ZERO}"));
        }
        args.finish()?;
        Ok(Box::new(ClampMss { mss, clamped: 0 }))
    },
    ..Class::DEFAULT
};

/// The error text for 0, with which no connection could send data.
const ZERO: &str = "0 would let connections send nothing; give at least 1 byte";

struct ClampMss {
    mss: u16,
    clamped: u64,
}

/// True if the packet is a TCP segment with its header at the transport header annotation, by its IPv4 or
/// IPv6 header.
fn is_tcp(packet: &Packet) -> bool {
    let Some(network) = packet.header(Base::Network) else { return false };
    match network.first().map(|byte| byte >> 4) {
        Some(4) => ipv4::Header::ref_from_prefix(network)
            .is_ok_and(|(ip, _)| ip.protocol == ip_protocol::TCP && ip.fragment_offset() == 0),
        Some(6) => network.get(6) == Some(&ip_protocol::TCP),
        _ => false,
    }
}

/// Returns the offset of the value of the option MSS in a TCP header with SYN, and the value. Returns `None`
/// if there is none, or if the header is malformed.
fn option(header: &[u8]) -> Option<(usize, u16)> {
    const MSS: u8 = 2;
    let (tcp, _) = tcp::Header::ref_from_prefix(header).ok()?;
    if tcp.flags & flags::SYN == 0 {
        return None;
    }
    let header = header.get(..tcp.header_len())?;
    let mut at = tcp::Header::LEN;
    loop {
        match *header.get(at..)? {
            [] | [0, ..] => return None,
            [1, ..] => at += 1,
            [MSS, 4, high, low, ..] => return Some((at + 2, u16::from_be_bytes([high, low]))),
            [_, 0 | 1, ..] | [_] => return None,
            [_, length, ..] => at += usize::from(length),
        }
    }
}

/// Lowers the option MSS of a packet to `most`. Returns true if it was larger.
fn clamp(packet: &mut Packet, most: u16) -> bool {
    if !is_tcp(packet) {
        return false;
    }
    let found = packet.header(Base::Transport).and_then(option);
    let Some((at, _)) = found.filter(|&(_, mss)| mss > most) else { return false };
    let Some(header) = packet.header_mut(Base::Transport) else { return false };
    // The checksum adds pairs of bytes from the start of the header, and the option may start at an odd
    // offset.
    let (start, end) = (at & !1, (at + 2).next_multiple_of(2));
    let Some(pairs) = header.get_mut(start..end) else { return false };
    let mut old = [0; 4];
    old[..pairs.len()].copy_from_slice(pairs);
    pairs[at - start..at - start + 2].copy_from_slice(&most.to_be_bytes());
    let change = Delta::bytes(&old[..pairs.len()], pairs);
    if let Ok((tcp, _)) = tcp::Header::mut_from_prefix(header) {
        tcp.checksum.set(change.apply(tcp.checksum.get()));
    }
    true
}

impl Element for ClampMss {
    fn effects(&self) -> Effects {
        let options = bytes(Base::Transport, tcp::Header::LEN, 40);
        let checksum = bytes(Base::Transport, 16, 2);
        let mut reads = vec![options.clone(), bytes(Base::Transport, 12, 2), Field::Length];
        reads.extend([Base::Network, Base::Transport].map(Field::HeaderOffset));
        reads.extend([wire_field::IP_VERSION_IHL, wire_field::IP_PROTOCOL, wire_field::IP_FRAGMENT]);
        reads.push(bytes(Base::Network, 6, 1));
        let clamps = when("has SYN and a larger MSS", &reads, Target::Output(0))
            .with(pure(options, "MSS", &reads))
            .with(pure(checksum.clone(), "checksum", &[reads.clone(), vec![checksum]].concat()));
        Effects::cases(vec![clamps, Case::new(Filter::TRUE, Target::Output(0))])
            .depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            self.clamped += u64::from(clamp(packet, self.mss));
        }
    }

    element::keeps!(clamped);
}

const HANDLERS: &[Handler<ClampMss>] = &[
    Handler::count("clamped", |e| e.clamped),
    Handler::<ClampMss>::get("mss", |e| e.mss.to_string()).and_set(|e, cx, text| {
        let mss: u16 = value(cx, text, "expected a number of bytes")?;
        if mss == 0 {
            return Err(ZERO.into());
        }
        e.mss = mss;
        Ok(())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a TCP header with these flags and options.
    fn header(flags: u8, options: &[u8]) -> Vec<u8> {
        let words = (tcp::Header::LEN + options.len()) / 4;
        let mut header = vec![0; tcp::Header::LEN];
        (header[12], header[13]) = ((words as u8) << 4, flags);
        header.extend(options);
        header
    }

    #[test]
    fn the_option_is_found() {
        let found = |flags, options: &[u8]| option(&header(flags, options));
        assert_eq!(found(flags::SYN, &[2, 4, 5, 0xb4]), Some((22, 1460)));
        assert_eq!(found(flags::SYN | flags::ACK, &[1, 3, 3, 7, 2, 4, 5, 0xb4]), Some((26, 1460)));
        assert_eq!(found(flags::SYN, &[1, 2, 4, 5, 0xb4, 0, 0, 0]), Some((23, 1460)));
        assert_eq!(found(flags::ACK, &[2, 4, 5, 0xb4]), None);
        for options in [&[][..], &[0, 2, 4, 5], &[3, 0, 0, 0], &[1, 1, 1, 2], &[2, 3, 5, 1], &[9, 200, 0, 0]]
        {
            assert_eq!(found(flags::SYN, options), None, "{options:?}");
        }
        assert_eq!(option(&header(flags::SYN, &[2, 4, 5, 0xb4])[..22]), None);
    }
}
