//! # FTPPortMapper
//! Rewrites the commands of FTP clients for active transfers, so that they work through a translator.
//!
//! The input expects packets of FTP control connections on their way to CONTROL_REWRITER. With `PORT` (RFC
//! 959) or `EPRT` (RFC 2428), a client announces the address and port to which the server is to open the
//! data connection. For such a command, the element makes a mapping in DATA_REWRITER from this address and
//! port to the server's data port, which is the control port less one, as if a packet had arrived at
//! DATA_REWRITER_INPUT. The address and port of the mapping are then written into the command. The packet
//! becomes longer or shorter by that, and CONTROL_REWRITER is notified: from there on, it changes the
//! sequence numbers of later packets, and the acknowledgments and selective acknowledgments of the answers.
//! Addresses and ports of the packet's own headers are not changed.
//!
//! The connection must have a mapping in CONTROL_REWRITER. A command is found if it is at the start of a
//! packet's payload and its line ends in the same packet; its address must be the source of the packet. A
//! line that is split over packets, and a line whose packet has no room to grow, pass unchanged; the transfer
//! then fails, and the client must repeat it. A command that is retransmitted, whole or in other pieces, is
//! changed in the same way as before; it is dropped if its packet has no room to grow.
//!
//! A port that is announced again keeps its mapping, whose time-out then starts again as if a packet had
//! arrived; if the mapping has expired or its transfer is over, a new mapping is made. Sequence numbers
//! stay shifted until another connection on the same ports is accepted.
//!
//! Passive transfers need no help if clients are inside. Replies of servers inside (`PASV`, `EPSV`) are not
//! changed.
//!
//! The translators that are named in the arguments work on one worker.
//!
//! ## Usage
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)`
//!
//! ## Arguments
//! - `CONTROL_REWRITER`: a TCPRewriter or IPRewriter downstream.
//! - `DATA_REWRITER`: the translator for the data connections, which may be the same.
//! - `DATA_REWRITER_INPUT`: the input of DATA_REWRITER whose specification makes the mappings.
//!
//! ## Handlers
//! - `commands`: the number of commands that were changed, without retransmissions.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> kind :: IPClassifier(tcp dst port 21, -);
//! kind[0] -> FTPPortMapper(rw, rw, 0) -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! kind[1] -> rw; Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! TCPRewriter, IPRewriter, IPRewriterPatterns

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use element::args::ElementRef;
use element::class::{ArgInfo, ConfigurePhase};
use element::effects::{Action, Depends, Effects, Field, HeaderKind, Target, wire_field};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Element, ElementId, Handler, Invalid, Packet, Setup, StatePart,
    manual,
};
use wire::checksum::Delta;
use wire::{FromBytes, ip_protocol, ipv4, tcp};

use super::desk::Opening;
use super::flavour::Flavour;
use super::published::{Published, locked};
use super::shift::ROOM;
use super::spaces::ONLY;
use super::store::{Store, space};
use super::tuple::Tuple;
use crate::editing::{ipv4_of_protocol, otherwise, pure, when};

/// The element class `FTPPortMapper`.
pub static CLASS: Class = Class {
    name: "FTPPortMapper",
    ports: "1/1",
    manual: manual!("ftp_port_mapper.rs"),
    args: &[
        ArgInfo::required("CONTROL_REWRITER", "element"),
        ArgInfo::required("DATA_REWRITER", "element"),
        ArgInfo::required("DATA_REWRITER_INPUT", "int"),
    ],
    table: &HANDLERS,
    // FTPPortMapper is built before the translators, which look for its service ([`Helps`]).
    phase: ConfigurePhase::Service,
    state: &[StatePart::kept("counts", &["commands"])],
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let control = args.required::<ElementRef>("CONTROL_REWRITER").0;
    let data = args.required::<ElementRef>("DATA_REWRITER").0;
    let input: i32 = args.required("DATA_REWRITER_INPUT");
    args.finish()?;
    args.setup.publish(args.id(), Arc::new(Helps { translators: [control, data] }));
    Ok(Box::new(FtpPortMapper { translators: [control, data], input, found: None, commands: 0 }))
}

/// The service by which an FTPPortMapper names its two translators. The element makes mappings in the
/// translator of data connections, and changes mappings of the translator of control connections. These
/// mappings can belong to flows of any worker, so the translators must work on one worker.
pub(super) struct Helps {
    translators: [ElementId; 2],
}

impl Helps {
    /// True if an FTPPortMapper names this translator.
    pub(super) fn has(setup: &Setup, translator: ElementId) -> bool {
        let mut helpers = (0..setup.elements.len()).filter_map(|id| setup.service::<Helps>(id));
        helpers.any(|helps| helps.translators.contains(&translator))
    }
}

struct FtpPortMapper {
    translators: [ElementId; 2],
    input: i32,
    /// The services of the two translators, first of control connections, then of data connections; `None`
    /// until the element is initialized.
    found: Option<[Arc<Published>; 2]>,
    commands: u64,
}

/// A TCP segment with payload.
struct Segment {
    tuple: Tuple,
    sequence: u32,
    /// The offsets of the payload in the packet's data.
    payload: Range<usize>,
}

impl Segment {
    /// Reads a TCP segment. Returns `None` for other packets, fragments, segments without payload or with
    /// missing bytes, and packets of more than one slot.
    fn read(packet: &Packet) -> Option<Segment> {
        if packet.is_large() {
            return None;
        }
        let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
        if ip.protocol != ip_protocol::TCP || ip.is_fragment() {
            return None;
        }
        let (header, _) = tcp::Header::ref_from_prefix(packet.header(Base::Transport)?).ok()?;
        let start = |base| packet.offset(base).and_then(|at| usize::try_from(at).ok());
        let end = start(Base::Network)? + usize::from(ip.total_length.get());
        let payload = start(Base::Transport)? + header.header_len().max(tcp::Header::LEN)..end;
        if payload.is_empty() || end > packet.len() {
            return None;
        }
        let tuple = Tuple {
            source: ip.source.get(),
            destination: ip.destination.get(),
            source_port: header.source.get(),
            destination_port: header.destination.get(),
        };
        Some(Segment { tuple, sequence: header.sequence.get(), payload })
    }
}

/// A command `PORT` or `EPRT`: the endpoint that it announces, and the offsets of its argument in the
/// payload.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    end: (Ipv4Addr, u16),
    argument: Range<usize>,
    /// The character between the parts of the argument of `EPRT`; `None` for `PORT`.
    delimiter: Option<u8>,
}

impl Command {
    /// Parses the command in the line at the start of a payload. Returns `None` if it is not a valid `PORT`
    /// or `EPRT` for IPv4, or if the line does not end in the payload.
    fn read(payload: &[u8]) -> Option<Command> {
        let (word, rest) = payload.split_first_chunk::<5>()?;
        let is_extended = match word.to_ascii_uppercase().as_slice() {
            b"PORT " => false,
            b"EPRT " => true,
            _ => return None,
        };
        let start = word.len() + rest.iter().take_while(|&&byte| byte == b' ').count();
        let line = payload.get(start..)?;
        let line = &line[..line.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?];
        let argument = start..start + line.len();
        if is_extended {
            let (&delimiter, rest) = line.split_first()?;
            // RFC 2428 allows characters 33 to 126 as delimiters.
            if !delimiter.is_ascii_graphic() {
                return None;
            }
            let mut parts = std::str::from_utf8(rest).ok()?.split(char::from(delimiter));
            let parts = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
            let ["1", address, port, ""] = parts else { return None };
            let end = (address.parse().ok()?, port.parse().ok()?);
            return Some(Command { end, argument, delimiter: Some(delimiter) });
        }
        let mut numbers = [0; 6];
        let mut parts = std::str::from_utf8(line).ok()?.split(',');
        for number in &mut numbers {
            let part = parts.next()?;
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            *number = part.parse().ok().filter(|_| is_number)?;
        }
        let [a, b, c, d, high, low] = numbers;
        let end = (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
        parts.next().is_none().then_some(Command { end, argument, delimiter: None })
    }

    /// Writes the argument that announces this endpoint to `to`, in the form of this command. Returns its
    /// length in bytes.
    fn write(&self, (address, port): (Ipv4Addr, u16), to: &mut [u8; ROOM]) -> usize {
        let mut rest = &mut to[..];
        let [a, b, c, d] = address.octets();
        let [high, low] = port.to_be_bytes();
        // This cannot fail: the text has at most 25 characters.
        let _ = match self.delimiter.map(char::from) {
            Some(delimiter) => write!(rest, "{delimiter}1{delimiter}{address}{delimiter}{port}{delimiter}"),
            None => write!(rest, "{a},{b},{c},{d},{high},{low}"),
        };
        let left = rest.len();
        ROOM - left
    }
}

/// Replaces bytes of a TCP payload by `new`, and updates lengths and checksums. `payload` and `at` are the
/// offsets of the payload and of the old bytes in the packet's data. Removes padding after the IP packet.
/// Returns false, and leaves the packet unchanged, if there is no tailroom or no transport header annotation.
fn replace(packet: &mut Packet, payload: &Range<usize>, at: &Range<usize>, new: &[u8]) -> bool {
    let end = payload.end + new.len() - at.len();
    let Some(transport) = packet.offset(Base::Transport).and_then(|offset| usize::try_from(offset).ok())
    else {
        return false;
    };
    let before = &packet.data()[transport..payload.end];
    let old = wire::checksum::Sum::new().bytes(before).folded();
    let (old_length, new_length) = (payload.end - transport, end - transport);
    if end > packet.len() {
        if !packet.extend(end - packet.len()) {
            return false;
        }
    } else {
        packet.truncate(end.max(payload.end));
    }
    packet.data_mut().copy_within(at.end..payload.end, at.start + new.len());
    packet.data_mut()[at.start..at.start + new.len()].copy_from_slice(new);
    packet.truncate(end);
    let new_sum = wire::checksum::Sum::new().bytes(&packet.data()[transport..end]).folded();
    // The length of the TCP segment is part of the pseudo header, so its change is added. The sums over the
    // segment before and after the replacement both include the old checksum, which cancels out in their
    // difference.
    let change = Delta::u16(old, new_sum) + Delta::u16(old_length as u16, new_length as u16);
    if let Some(bytes) = packet.header_chunk_mut::<{ tcp::Header::LEN }>(Base::Transport) {
        let sum = u16::from_be_bytes([bytes[16], bytes[17]]);
        [bytes[16], bytes[17]] = change.apply(sum).to_be_bytes();
    }
    if let Ok(ip) = crate::editing::ipv4(packet) {
        let old = ip.total_length.get();
        let new = (usize::from(old) + new_length - old_length) as u16;
        ip.total_length.set(new);
        ip.checksum.set(Delta::u16(old, new).apply(ip.checksum.get()));
    }
    true
}

impl FtpPortMapper {
    /// Finds or makes the mapping in the translator `data` for a data connection that has the addresses and
    /// ports `tuple` before translation. Returns the tuple after translation; `None` if there can be no
    /// mapping. Packets of the connection's replies get `annotation` as their reply annotation.
    fn open(&self, cx: &mut Cx<'_>, data: &Published, tuple: Tuple, annotation: u8) -> Option<Tuple> {
        let looked = data.flavour.look_at_tcp(tuple)?;
        let input = u16::try_from(self.input).ok()?;
        let home = data.home();
        let mut store = locked(&home.store);
        store.catch_up(cx.now());
        // The data connection opens only after this command. So the time-out of an existing mapping starts
        // again now.
        let known = store.begin_again(&Store::key(looked.tuple, space(home.owner, looked.which)), cx.now());
        let change = match known {
            Some(change) => change,
            None => {
                let specs = locked(&data.specs);
                let (flavour, owner, is_independent) = (data.flavour, home.owner, data.is_independent);
                let opening = Opening { flavour, owner, input, looked, is_independent };
                opening.open(cx, &mut store, specs.get(usize::from(input))?).ok()?.1
            }
        };
        store.set_annotation(change.session, annotation);
        let to = change.to;
        let source_port = if data.flavour.has_ports() { to.source_port } else { tuple.source_port };
        Some(Tuple { source_port, ..to })
    }

    /// Handles a packet of a control connection. Returns true if a new command was changed. The error is
    /// the drop reason, if a retransmitted command has no room to grow.
    fn handle(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> Result<bool, DropReason> {
        let Some([control, data]) = &self.found else { return Ok(false) };
        let Some(Segment { tuple, sequence, payload }) = Segment::read(packet) else { return Ok(false) };
        let home = control.home();
        let now = cx.now();
        let find = |store: &Store| store.find_at(tuple, space(home.owner, ONLY), now);
        let (change, annotation) = {
            let store = locked(&home.store);
            let Some(change) = find(&store) else { return Ok(false) };
            // A retransmitted command: the bytes that were replaced in the first transmission are replaced
            // again by the same bytes.
            if let Some(shifts) = store.shifts(change.session) {
                // The current offsets of the payload: earlier replacements in this packet have moved it.
                let (mut start, mut end) = (payload.start, payload.end);
                let mut is_known = false;
                for (range, new) in shifts.of(change.is_reply).within(sequence, payload.len()) {
                    let at = start + range.start..start + range.end;
                    if !replace(packet, &(payload.start..end), &at, new) {
                        return Err(DropReason::TooLong);
                    }
                    (start, end) = (start + new.len() - at.len(), end + new.len() - at.len());
                    is_known = true;
                }
                if is_known {
                    return Ok(false);
                }
            }
            (change, store.details(change.session).1)
        };
        let Some(command) = packet.data().get(payload.clone()).and_then(Command::read) else {
            return Ok(false);
        };
        let (address, port) = command.end;
        if address.to_bits() != tuple.source || packet.tailroom() < ROOM {
            return Ok(false);
        }
        let connection = Tuple {
            source: address.to_bits(),
            source_port: port,
            destination: tuple.destination,
            destination_port: tuple.destination_port.wrapping_sub(1),
        };
        let Some(to) = self.open(cx, data, connection, annotation) else { return Ok(false) };
        let mut new = [0; ROOM];
        let length = command.write((Ipv4Addr::from_bits(to.source), to.source_port), &mut new);
        let new = &new[..length];
        let start = sequence.wrapping_add(command.argument.start as u32);
        let is_done = {
            let mut store = locked(&home.store);
            // The mapping of the data connection may have evicted the mapping of the control connection. Then
            // the command is not changed.
            find(&store).is_some_and(|found| found.session == change.session)
                && store.edit(&change, start, command.argument.len(), new)
        };
        let at = payload.start + command.argument.start..payload.start + command.argument.end;
        Ok(is_done && replace(packet, &payload, &at, new))
    }
}

impl Element for FtpPortMapper {
    fn effects(&self) -> Effects {
        let reads =
            [Field::Payload, Field::Length, wire_field::IP_HEADER, Field::HeaderOffset(Base::Transport)];
        let changed = [
            pure(Field::Payload, "command", &reads),
            pure(wire_field::IP_LENGTH, "length", &reads),
            pure(wire_field::IP_CHECKSUM, "checksum", &reads),
            Action::Resize(reads.to_vec()),
        ];
        let mut case = when("has a command of FTP", &reads, Target::Output(0)).updating(&[HeaderKind::Tcp]);
        case.actions.extend(changed);
        let short = when("grows beyond the slot", &reads, Target::Drop(DropReason::TooLong));
        let others = element::effects::Case::new(ipv4_of_protocol(ip_protocol::TCP).not(), Target::Output(0));
        let reason = "other elements own the mappings";
        let cases = vec![others, short, case, otherwise(Vec::new())];
        Effects { opaque: Some(reason), ..Effects::cases(cases) }
            .depending_on(Depends::Time)
            .sharing("mappings of other elements")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let [control, data] = self.translators.map(|id| cx.graph().service::<Published>(id));
        let control = control.filter(|c| matches!(c.flavour, Flavour::Both | Flavour::Tcp));
        let mismatch = |name: &str, class: &str| format!("{name}: type mismatch, expected {class}");
        let control = control.ok_or_else(|| mismatch("CONTROL_REWRITER", "TCPRewriter"))?;
        let data = data.ok_or_else(|| mismatch("DATA_REWRITER", "IPRewriterBase"))?;
        let inputs = locked(&data.specs).len();
        if !usize::try_from(self.input).is_ok_and(|input| input < inputs) {
            return Err("DATA_REWRITER_INPUT out of range".into());
        }
        self.found = Some([control, data]);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut fates = [Ok(()); packet::BATCH_CAPACITY];
        for (packet, fate) in batch.iter_mut().zip(&mut fates) {
            *fate = self.handle(cx, packet).map(|is_changed| self.commands += u64::from(is_changed));
        }
        let mut fates = fates.into_iter();
        crate::editing::each(cx, batch, |_| fates.next().unwrap_or(Ok(())));
    }

    element::keeps!(commands);
}

const HANDLERS: &[Handler<FtpPortMapper>] = &[Handler::count("commands", |e| e.commands)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_is_read_without_panic(
            word in prop_oneof![Just(&b"PORT "[..]), Just(&b"eprt "[..]), Just(&b""[..])],
            rest in prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()],
        ) {
            let payload = [word, &rest, b"\r\n"].concat();
            if let Some(command) = Command::read(&payload) {
                prop_assert!(command.argument.end <= payload.len());
            }
        }
    }

    #[test]
    fn commands_are_written_as_they_were_read() {
        for argument in ["10,0,0,1,3,9", "|1|10.0.0.1|777|", "~1~10.0.0.1~777~"] {
            let word = if argument.contains(',') { "PORT" } else { "EPRT" };
            let command = Command::read(format!("{word} {argument}\r\n").as_bytes()).unwrap();
            assert_eq!(command.end, (Ipv4Addr::new(10, 0, 0, 1), 777));
            let mut text = [0; ROOM];
            let length = command.write(command.end, &mut text);
            assert_eq!(&text[..length], argument.as_bytes());
        }
    }
}
