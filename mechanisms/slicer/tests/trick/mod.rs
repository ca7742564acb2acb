//! A misbehaving network function for tests: the element `Trick` declares that it forwards packets, and
//! does something else.
#![allow(dead_code, reason = "each test program uses a part")]

use element::class::ArgInfo;
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, Timestamp};
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::checksum::{PseudoHeader, fill_ipv4, fill_tcp, fill_udp};
use wire::{FromBytes, MacAddr, ipv4};

use crate::around::{CLOSED, KNOWN};
use crate::frames::L3;

/// The class `Trick(WHAT [, N])`; WHAT selects the trick, and N its parameter.
pub(crate) static CLASSES: &[&Class] = &[&Class {
    name: "Trick",
    processing: "h/h",
    args: &[ArgInfo::required("WHAT", "word"), ArgInfo::positional("N", "int", "0")],
    build,
    ..Class::DEFAULT
}];

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let trick = Trick { what: args.required("WHAT"), n: args.value("N"), held: Vec::new(), count: 0 };
    args.finish()?;
    Ok(Box::new(trick))
}

struct Trick {
    what: String,
    n: i32,
    held: Vec<Packet>,
    count: i32,
}

impl Trick {
    fn play(&mut self, cx: &mut Cx<'_>, mut packet: Packet, out: &mut Vec<Packet>) {
        self.count += 1;
        let n = self.n as usize;
        match self.what.as_str() {
            "copies" => {
                out.extend((1..n).map(|_| cx.copy(&packet).unwrap()));
                out.push(packet);
            }
            // Forwards all packets; a copy of the first packet leaves with packet number N.
            "again" => {
                if self.count == 1 {
                    self.held.push(cx.copy(&packet).unwrap());
                } else if self.count == self.n {
                    out.append(&mut self.held);
                }
                out.push(packet);
            }
            "reverse" => {
                self.held.push(packet);
                if self.held.len() == n {
                    out.extend(self.held.drain(..).rev());
                }
            }
            "drop" => match self.count % self.n {
                0 => cx.drop(packet, DropReason::Denied),
                _ => out.push(packet),
            },
            "cut" => {
                packet.truncate(packet.len().saturating_sub(n));
                out.push(packet);
            }
            "resize" => {
                match self.n < 0 {
                    true => packet.truncate(packet.len() - self.n.unsigned_abs() as usize),
                    false => assert!(packet.extend(n)),
                }
                mend(packet.data_mut());
                out.push(packet);
            }
            "append" => out.extend(cx.append(packet, &vec![7; n])),
            "damage" => {
                let last = packet.len() - 1;
                packet.data_mut()[last - n] ^= 1;
                out.push(packet);
            }
            // Wraps the packet in tunnel number N; numbers beyond the list `KNOWN` select tunnels of the list
            // `CLOSED`.
            "wrap" => {
                let frame: Vec<u8> = packet.chunks().flatten().copied().collect();
                let (_, tunnel) = KNOWN.iter().chain(CLOSED).nth(n).unwrap();
                out.extend(cx.packet(&tunnel(&frame)));
                cx.drop(packet, DropReason::Coalesced);
            }
            "esp" => {
                let tunnelled = crate::around::esp(packet.data());
                out.extend(cx.packet(&tunnelled));
                cx.drop(packet, DropReason::Coalesced);
            }
            // Changes one byte: the upper bits of N are its offset, the low eight bits its new value.
            "change" => {
                let data = packet.data_mut();
                let place = (n >> 8) % data.len();
                data[place] = n as u8;
                out.push(packet);
            }
            "tos" => {
                packet.data_mut()[L3 + 1] = self.n as u8;
                mend(packet.data_mut());
                out.push(packet);
            }
            // Translates a datagram from IPv4 to IPv6, where a UDP checksum is required.
            "six" => {
                let frame: Vec<u8> = packet.chunks().flatten().copied().collect();
                let builder = Builder::udp("[64:ff9b::1]:7".parse().unwrap(), "[fd00::2]:8".parse().unwrap());
                let builder = builder.tos(frame[L3 + 1]).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
                out.extend(cx.packet(&builder.build(&frame[L3 + 28..]).unwrap()));
                cx.drop(packet, DropReason::Coalesced);
            }
            // Answers with an ICMP error that quotes the packet, after N extension headers.
            "error" => {
                let error = error(packet.data(), n);
                out.extend(cx.packet(&error));
                cx.drop(packet, DropReason::TtlExpired);
            }
            other => panic!("no trick {other}"),
        }
    }
}

/// Corrects lengths and checksums in a frame with IPv4.
fn mend(frame: &mut [u8]) {
    let ip = &mut frame[L3..];
    let length = ip.len();
    let (header, _) = ipv4::Header::mut_from_prefix(ip).unwrap();
    header.total_length.set(length as u16);
    let (l4, is_tcp, pseudo) = (header.header_len(), header.protocol == 6, PseudoHeader::from(&*header));
    fill_ipv4(&mut ip[..l4]).unwrap();
    if is_tcp {
        fill_tcp(&pseudo, &mut ip[l4..]).unwrap();
    } else {
        ip[l4 + 4..l4 + 6].copy_from_slice(&((length - l4) as u16).to_be_bytes());
        fill_udp(&pseudo, &mut ip[l4..]).unwrap();
    }
}

/// Returns an ICMP error as a router sends it about a frame. The error quotes as much of the frame as is
/// allowed, after `options` IPv6 extension headers of eight bytes each.
fn error(frame: &[u8], options: usize) -> Vec<u8> {
    let ip = &frame[L3..];
    let builder = match ip[0] >> 4 {
        4 => Builder::icmp([10, 9, 9, 9].into(), [10, 0, 0, 1].into(), 11, 0, [0, 0]),
        _ => Builder::icmp("fd00::9".parse().unwrap(), "fd00::1".parse().unwrap(), 3, 0, [0, 0]),
    };
    let most = if ip[0] >> 4 == 4 { 576 - 20 - 8 } else { 1280 - 40 - 8 };
    let most = most - 8 * options;
    let frame = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&ip[..ip.len().min(most)]);
    let mut frame = frame.unwrap();
    for _ in 0..options {
        let option = [frame[L3 + 6], 0, 1, 4, 0, 0, 0, 0];
        // A single extension header is hop-by-hop options; several are destination options.
        frame[L3 + 6] = if options == 1 { 0 } else { 60 };
        frame.splice(L3 + 40..L3 + 40, option);
        let length = (frame.len() - L3 - 40) as u16;
        frame[L3 + 4..L3 + 6].copy_from_slice(&length.to_be_bytes());
    }
    frame
}

impl Element for Trick {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let mut out = Vec::new();
        for packet in batch.drain() {
            self.play(cx, packet, &mut out);
        }
        cx.recycle(batch);
        out.into_iter().for_each(|packet| cx.emit_one(0, packet, DropReason::NoOutput));
        None
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for packet in std::mem::take(&mut self.held).into_iter().rev() {
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
    }
}

/// Returns the number of packets that the element of this class has dropped for a reason.
pub(crate) fn dropped(outcome: &RunResults, class: &str, reason: DropReason) -> u64 {
    let element = outcome.report.elements.iter().find(|element| element.class == class).unwrap();
    element.drops.get(reason.as_str()).copied().unwrap_or(0)
}

/// Sends `frames` through Slice, `function` and Splice. `table` and `slice` are the arguments of
/// PayloadTable and Slice. Returns the frames that leave, the values of handlers, and the outcome.
pub(crate) fn through(
    table: &str,
    slice: &str,
    function: &str,
    frames: &[Vec<u8>],
    handlers: &[&str],
) -> (Vec<Vec<u8>>, Vec<u64>, RunResults) {
    let time = Timestamp(1_000_000_000);
    let input =
        |bytes: &Vec<u8>| TestPacket { bytes: bytes.clone(), time, annotations: [0; 48], headers: [None; 3] };
    let number = offer(vec![frames.iter().map(input).collect()]);
    let text = format!(
        "t :: PayloadTable({table});
         TestSource({number}, 0) -> Slice(t, {slice}) -> {function} -> Splice(t) -> TestSink({number}, 0)"
    );
    let outcome =
        TestRun::trace().with(CLASSES).text(&text, handlers).unwrap_or_else(|text| panic!("{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let seen = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
    let value = |value: &Result<String, String>| value.as_ref().unwrap().trim().parse().unwrap();
    let values = outcome.values.iter().map(value).collect();
    (seen, values, outcome)
}
