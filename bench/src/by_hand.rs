//! An element that does the work of ten routers in a row, written by hand for the packets of the benchmark
//! `synthesizer`. Its cost is a lower bound: no machine code that replaces the tables of a synthesized
//! program can cost less.

use element::effects::{Case, Filter, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet};
use packet::PacketKind;
use wire::LinkType;
use wire::checksum::Delta;

/// The class of the element. It tests and writes the same fields as the synthesized program of ten routers
/// does for packets that all of them forward. If a batch has a packet that one of them would not forward, the
/// whole batch is dropped.
pub(crate) static TEN_ROUTERS: Class = Class {
    name: "BenchmarkTenRouters",
    ports: "1/1",
    processing: "h/h",
    build: |args| {
        args.finish()?;
        Ok(Box::new(TenRouters))
    },
    ..Class::DEFAULT
};

struct TenRouters;

/// The Ethernet header that the last router writes.
const LINK: [u8; 14] = [2, 0, 0, 0, 9, 2, 2, 0, 0, 0, 9, 1, 8, 0];
/// The length in bytes of the longest packet that no router fragments.
const LONGEST: usize = 9014;
/// The lowest address above the addresses that the routers have themselves. The element forwards packets to
/// this address and higher ones.
const OTHERS: u32 = u32::from_be_bytes([10, 11, 1, 0]);

impl Element for TenRouters {
    fn effects(&self) -> Effects {
        Effects {
            opaque: Some("it is written by hand"),
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0))])
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let now = cx.now();
        for packet in batch.iter_mut() {
            if !forward(packet) {
                cx.drop_all(batch, DropReason::Unsuitable);
                return None;
            }
            packet.set_time(now);
        }
        Some(batch)
    }
}

#[inline(always)]
fn forward(packet: &mut Packet) -> bool {
    let is_usual = packet.kind() == PacketKind::Host
        && packet.len() <= LONGEST
        && packet.annotations().bytes()[19] == 0
        && packet.data().len() >= 34;
    let Some(bytes) = packet.slot_bytes_mut::<34>(0).filter(|_| is_usual) else { return false };
    let address = u32::from_be_bytes([bytes[30], bytes[31], bytes[32], bytes[33]]);
    if bytes[14] & 15 != 5 || bytes[22] <= 10 || address < OTHERS {
        return false;
    }
    bytes[..14].copy_from_slice(&LINK);
    let old = u16::from_be_bytes([bytes[22], bytes[23]]);
    let new = old - 0x0a00;
    bytes[22] -= 10;
    let sum = Delta::u16(old, new).apply(u16::from_be_bytes([bytes[24], bytes[25]]));
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    packet.set_offset(Base::Mac, Some(0));
    packet.set_headers(14, 34);
    packet.set_port(0);
    packet.set_link(LinkType::Ethernet.number());
    true
}

#[cfg(test)]
mod tests {
    use crate::runner::{drive, running};
    use crate::synthesis::{Form, form_of};

    #[test]
    fn all_packets_of_the_benchmark_are_forwarded() {
        let Some(Form::Lasting(worker)) = form_of("routers-10-by-hand") else { panic!("no such form") };
        let mut worker = worker(1000).unwrap();
        drive(&mut worker, 3000).unwrap();
        let of = |name: &str| {
            let graph = &worker.plan().graph;
            let id = graph.elements.iter().position(|element| element.class == name).unwrap();
            &worker.core().counters[id]
        };
        assert_eq!(of("BenchmarkTenRouters").dropped(), 0);
        assert!(of("BenchmarkExit").sent >= 3000);
        worker.finish().unwrap();
    }

    /// Checks on frames of 64 bytes that the element and the ten routers write the same packets.
    #[test]
    fn packets_become_what_routers_make_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, chain: &str| {
            let file = folder.path().join(name);
            let text =
                format!("BenchmarkFrames(100, 10, 64) -> Unqueue -> {chain} -> ToDump({})", file.display());
            let mut worker = running(text, engine::Options::default()).unwrap();
            while worker.step(256) {}
            worker.finish().unwrap();
            std::fs::read(file).unwrap()
        };
        let routers = crate::synthesis::ten_routers();
        let (by_hand, routers) = (written("by-hand", "BenchmarkTenRouters"), written("routers", &routers));
        assert_eq!(by_hand.len(), routers.len());
        assert!(by_hand.len() > 100 * 64);
        // The comparison skips the headers of the capture and its records, because the times differ.
        let frames =
            |capture: &[u8]| capture[24..].chunks(16 + 64).map(|r| r[16..].to_vec()).collect::<Vec<_>>();
        assert_eq!(frames(&by_hand), frames(&routers));
    }
}
