//! ICMP errors that a network function makes about sliced packets: they quote the sliced packet, and must
//! quote the original.
//!
//! [`restore`] replaces the quoted headers by the original headers. After them it copies as much of the
//! original payload as an error may contain: 576 bytes in all over IPv4 (RFC 1812, section 4.3.2.3), 1280
//! over IPv6 (RFC 4443, section 2.4). Then the payload is freed, because its packet will not return, except
//! after redirects and source quenches. If the DSCP of the error itself was copied from the mark, it becomes
//! the original's DSCP. An error that quotes too little to include the token passes unchanged; if it quotes
//! the mark, it is counted as `unrestored`. An error with extensions after the quotation (RFC 4884) passes
//! unchanged and is counted, too.

use element::{DropReason, Packet};
use packet::Pool;
use wire::checksum::{PseudoHeader, fill_icmp, fill_icmpv6, fill_ipv4};
use wire::{FromBytes, icmp, ip_protocol, ipv4, ipv6};

use crate::headers::{Headers, after_extensions};
use crate::joining::{Fate, count};
use crate::payloads::State;
use crate::table::Missing;
use crate::token::{MARKER, PayloadPlace, TOKEN};

/// The maximum length in bytes of an ICMP error (index 0) and an ICMPv6 error (index 1), IP header
/// included.
const LONGEST: [usize; 2] = [576, 1280];
/// The length in bytes of the ICMP header ahead of the quoted packet, equal for both versions.
const HEAD: usize = icmp::Header::LEN;

/// The parts of an ICMP error, as offsets in bytes from the start of the packet.
struct Error {
    is_ipv6: bool,
    /// The offsets of the IP header, of the ICMP message and of the quoted packet, and of the end of the
    /// error.
    l3: usize,
    message: usize,
    quoted: usize,
    end: usize,
    /// True if the quoted packet was forwarded nevertheless (redirect, source quench), so that it will
    /// return and its payload must stay.
    goes_on: bool,
    /// True if extensions follow the quoted packet in the message (RFC 4884).
    has_extensions: bool,
}

impl Error {
    /// Returns the parts of the error whose IP header is at `l3`; `None` if the packet is no complete ICMP
    /// error.
    fn find(data: &[u8], l3: usize) -> Option<Error> {
        let ip = data.get(l3..)?;
        let (is_ipv6, header, total) = match ip.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::ref_from_prefix(ip).ok()?;
                let is_whole = header.protocol == ip_protocol::ICMP && !header.is_fragment();
                is_whole.then_some((false, header.header_len(), header.total_length.get().into()))?
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(ip).ok()?;
                let total = ipv6::Header::LEN + usize::from(header.payload_length.get());
                let (protocol, before) = after_extensions(header.next_header, rest)?;
                (protocol == ip_protocol::ICMPV6).then_some((true, ipv6::Header::LEN + before, total))?
            }
            _ => return None,
        };
        let (message, end) = (l3 + header, l3 + total);
        let (kind, quoted) = (*data.get(message)?, message + HEAD);
        let is_error = match is_ipv6 {
            // Types below 128 are errors (RFC 4443, section 2.1).
            true => kind < 128,
            false => {
                icmp::Header::ref_from_prefix(&data[message..]).is_ok_and(|(header, _)| header.is_error())
            }
        };
        let goes_on = !is_ipv6 && matches!(kind, icmp::kind::REDIRECT | icmp::kind::SOURCE_QUENCH);
        // The length field of the quotation, which is not 0 if extensions follow (RFC 4884, section 4).
        let has_extensions =
            !goes_on && data.get(message + if is_ipv6 { 4 } else { 5 }).is_some_and(|&n| n > 0);
        // Errors of these types have the length field: destination unreachable, time exceeded and, over
        // IPv4, parameter problem. Other errors use its byte for other numbers.
        let has_extensions =
            has_extensions && if is_ipv6 { matches!(kind, 1 | 3) } else { matches!(kind, 3 | 11 | 12) };
        (is_error && quoted < end && end <= data.len()).then_some(Error {
            is_ipv6,
            l3,
            message,
            quoted,
            end,
            goes_on,
            has_extensions,
        })
    }
}

/// True if a packet is an ICMP error, which quotes another packet.
#[cold]
pub(crate) fn is_error(data: &[u8], l3: usize) -> bool {
    Error::find(data, l3).is_some()
}

/// True if a packet is an ICMP error that quotes a packet with a valid token. If it arrives from outside,
/// it is an attack: only the network function has seen the token.
#[cold]
pub(crate) fn is_about_ours(state: &State, data: &[u8], l3: usize) -> bool {
    let Some(error) = Error::find(data, l3) else { return false };
    let message = &data[..error.end];
    let Some(headers) = Headers::find(message, error.quoted, usize::MAX) else { return false };
    token_of(state, message, &headers).is_some()
}

/// Decodes the token after the quoted headers; `None` if it is missing or not valid.
fn token_of(state: &State, message: &[u8], headers: &Headers) -> Option<PayloadPlace> {
    let token = message.get(headers.payload.into()..)?.first_chunk::<TOKEN>()?;
    state.cipher.as_ref()?.decrypt(*token)
}

/// Restores the quoted packet if the packet is an ICMP error that quotes a sliced packet. Other packets and
/// errors that cannot be restored are forwarded. If another worker has the payload, the error goes to that
/// worker; if the payload is gone, the error is dropped.
#[cold]
pub(crate) fn restore(
    pool: &mut Pool,
    state: &mut State,
    worker: usize,
    l3: usize,
    mut packet: Packet,
) -> Fate {
    let data = packet.data();
    let Some(error) = Error::find(data, l3).filter(|_| !packet.is_large()) else { return Fate::Out(packet) };
    // The quoted lengths are those of the sliced packet, even if less of it is quoted, so no limit is
    // checked.
    let message = &data[..error.end];
    let headers = Headers::find(message, error.quoted, usize::MAX);
    let found = headers.and_then(|headers| Some((headers, token_of(state, message, &headers)?)));
    let Some((headers, PayloadPlace { worker: home, index, generation })) = found else {
        state.counts.unrestored += u64::from(Headers::bears_mark(data, error.quoted));
        return Fate::Out(packet);
    };
    if usize::from(home) != worker {
        return Fate::Over(home.into(), packet);
    }
    if error.has_extensions {
        // Another length of the quotation would move the extensions, whose offset is written in the message
        // (RFC 4884).
        state.counts.unrestored += 1;
        return Fate::Out(packet);
    }
    let quoted = usize::from(headers.payload);
    let most = (error.l3 + LONGEST[usize::from(error.is_ipv6)]).saturating_sub(quoted);
    let Some(parked) = state.table.get(index, generation) else {
        let gone = state.table.take(index, generation).err().unwrap_or(Missing::Taken);
        return Fate::Drop(packet, count(state, gone));
    };
    let (original, payload) = parked.quote(most);
    let sum = headers.has_filled_in(data, &original).then(|| parked.sum());
    if !error.goes_on
        && let Ok(parked) = state.table.take(index, generation)
    {
        pool.free(parked.packet);
    }
    packet.truncate(quoted);
    if !packet.extend(payload.len()) {
        return Fate::Drop(packet, DropReason::NoBuffer);
    }
    let data = packet.data_mut();
    data[quoted..].copy_from_slice(&payload);
    headers.restore(data, &original, sum);
    finish(data, &error, original.dscp);
    state.counts.quoted += 1;
    Fate::Out(packet)
}

/// Corrects the length and the checksums of the error itself after its quotation has changed. If its DSCP was
/// copied from the mark of the sliced packet, replaces it by `dscp`.
fn finish(data: &mut [u8], error: &Error, dscp: Option<u8>) {
    let length = data.len() - error.l3;
    let (front, message) = data.split_at_mut(error.message);
    let ip = &mut front[error.l3..];
    if error.is_ipv6 {
        let Ok((header, _)) = ipv6::Header::mut_from_prefix(ip) else { return };
        header.payload_length.set((length - ipv6::Header::LEN) as u16);
        let class = header.traffic_class();
        header.set_traffic_class(unmarked(class >> 2, dscp) << 2 | class & 3);
        // A message of at least eight bytes can be given a checksum, so the result needs no check.
        let _ = fill_icmpv6(&PseudoHeader::from(&*header), message);
    } else {
        let Ok((header, _)) = ipv4::Header::mut_from_prefix(ip) else { return };
        header.total_length.set(length as u16);
        header.set_dscp(unmarked(header.dscp(), dscp));
        let _ = fill_ipv4(ip);
        let _ = fill_icmp(message);
    }
}

/// Returns the DSCP of an error whose DSCP is `own`, about a packet whose original DSCP is `dscp` (`None`
/// if it was not marked). Routers copy the type of service of the packet to the error, either completely or
/// with a precedence of their own (RFC 1812, section 4.3.2.5). Only copied bits are replaced.
fn unmarked(own: u8, dscp: Option<u8>) -> u8 {
    const SERVICE: u8 = 0b111;
    match dscp {
        Some(dscp) if own == MARKER => dscp,
        Some(dscp) if own & SERVICE == MARKER & SERVICE => own & !SERVICE | dscp & SERVICE,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_with_a_length_field_may_have_extensions() {
        let has_extensions = |kind: u8| {
            let mut error = [0; 56];
            error[..12].copy_from_slice(&[0x45, 0, 0, 56, 0, 0, 0, 0, 64, ip_protocol::ICMP, 0, 0]);
            (error[20], error[25]) = (kind, 32);
            Error::find(&error, 0).is_some_and(|error| error.has_extensions)
        };
        let kinds: Vec<u8> = (0..=u8::MAX).filter(|&kind| has_extensions(kind)).collect();
        assert_eq!(kinds, [3, 11, 12], "RFC 4884, section 4");
    }

    #[test]
    fn nothing_of_the_mark_is_left() {
        assert_eq!(unmarked(0b11_1111, Some(0b00_1010)), 0b00_1010);
        assert_eq!(unmarked(0b11_0111, Some(0b00_1010)), 0b11_0010);
        assert_eq!(unmarked(0b11_0000, Some(0b00_1010)), 0b11_0000);
        assert_eq!(unmarked(0b11_0111, None), 0b11_0111);
    }
}
