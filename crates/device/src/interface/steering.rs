//! Which worker the kernel gives a packet to: a program that has the packet's IP header in front of it.
//!
//! It knows what the engine's own rule ([`element::steering::Rss`]) does with the packets that come most: protocols with ports
//! behind plain IPv4 and IPv6 headers, and fragments. The engine looks again, so what it gets otherwise (queries, errors,
//! packets in tunnels) costs a way to another worker and no more.

use element::steering::Spreading;
use flow::rss::KEY;
use libc::sock_filter;
use wire::ip_protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use wire::tcp::flags::{FIN, RST, SYN};

use super::cbpf::{Label, Program, Step};

/// Places of memory behind those of addresses: the ports, how many workers behind the one that the flow belongs to, what is
/// being worked with, and the hash.
const PORTS: u32 = 8;
const FURTHER: u32 = 9;
const OTHER: u32 = 10;
const HASH: u32 = 11;
/// Bits of the hash that say the queue ([`flow::rss::queue`]).
const HASH_BITS: u32 = 7;

/// How packets come to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steering {
    /// Each flow, in both directions, to the worker that it belongs to.
    Hash,
    /// TCP segments to any of so many workers, but for those that open and close connections; 0 for all.
    Spray(usize),
}

impl Steering {
    /// What was asked for: by an argument, or for the whole engine.
    pub(super) fn new(argument: Option<&str>, spreading: Option<&dyn Spreading>) -> Option<Steering> {
        let cores = spreading.and_then(Spreading::by_interfaces);
        match argument {
            Some("hash") => Some(Steering::Hash),
            Some("spray") => Some(Steering::Spray(cores.unwrap_or(0))),
            Some(_) => None,
            None => Some(cores.map_or(Steering::Hash, Steering::Spray)),
        }
    }

    /// The program: the result says which of the workers, as they have joined.
    pub(super) fn program(self, joined: &[usize], workers: usize) -> Vec<sock_filter> {
        let mut writer = Writer { program: Program::default(), joined, workers };
        writer.program.add([Step::SetX(0), Step::StoreX(FURTHER)]);
        let [v4, v6] = [writer.program.label(), writer.program.label()];
        writer.program.add([Step::Byte(0), Step::And(0xf0), Step::JumpIf(0x40, v4), Step::JumpIf(0x60, v6)]);
        writer.program.add([Step::ReturnThis(writer.place_of(0))]);
        writer.program.place(v4);
        self.write_v4(&mut writer);
        writer.program.place(v6);
        self.write_v6(&mut writer);
        writer.program.assemble()
    }

    fn write_v4(self, writer: &mut Writer<'_>) {
        let [part, rest, has_ports] = [(); 3].map(|()| writer.program.label());
        writer.program.add([
            Step::Half(6),
            Step::JumpIfAny(0x3fff, part),
            Step::HeaderLengthX(0),
            Step::Byte(9),
        ]);
        self.write_transport(writer, has_ports, rest);
        writer.program.place(part);
        writer.program.place(rest);
        writer.program.add([Step::SetX(0), Step::StoreX(PORTS)]);
        writer.program.place(has_ports);
        // Addresses, the smaller one first.
        let sorted = writer.program.label();
        writer.program.add([
            Step::Word(12),
            Step::Store(0),
            Step::Word(16),
            Step::Store(1),
            Step::LoadX(0),
            Step::JumpIfAtLeast(sorted),
            Step::Store(0),
            Step::StoreX(1),
        ]);
        writer.program.place(sorted);
        writer.hash(&[0, 1, PORTS]);
        writer.finish();
    }

    fn write_v6(self, writer: &mut Writer<'_>) {
        let [rest, has_ports] = [(); 2].map(|()| writer.program.label());
        writer.program.add([Step::SetX(40), Step::Byte(6)]);
        self.write_transport(writer, has_ports, rest);
        writer.program.place(rest);
        writer.program.add([Step::SetX(0), Step::StoreX(PORTS)]);
        writer.program.place(has_ports);
        let [sorted, swapped, done] = [(); 3].map(|()| writer.program.label());
        for word in (0..16).step_by(4) {
            // Both jumps leave at the first words that differ.
            let same = writer.program.label();
            writer.program.add([
                Step::Word(24 + word),
                Step::ToX,
                Step::Word(8 + word),
                Step::JumpIfAbove(swapped),
                Step::JumpIfAtLeast(same),
                Step::Jump(sorted),
            ]);
            writer.program.place(same);
        }
        for (label, first, second) in [(sorted, 8, 24), (swapped, 24, 8)] {
            writer.program.place(label);
            for word in 0..4 {
                writer.program.add([Step::Word(first + 4 * word), Step::Store(word)]);
                writer.program.add([Step::Word(second + 4 * word), Step::Store(4 + word)]);
            }
            writer.program.add([Step::Jump(done)]);
        }
        writer.program.place(done);
        writer.hash(&[0, 1, 2, 3, 4, 5, 6, 7, PORTS]);
        writer.finish();
    }

    /// With the protocol in A and the length of the IP header in X: sprays, or goes to `has_ports` with the ports in their
    /// place, or to `rest`.
    fn write_transport(self, writer: &mut Writer<'_>, has_ports: Label, rest: Label) {
        let program = &mut writer.program;
        let [tcp, ports, sorted] = [(); 3].map(|()| program.label());
        program.add([Step::JumpIf(TCP.into(), tcp)]);
        program.add([UDP, DCCP, SCTP, UDP_LITE].map(|protocol| Step::JumpIf(protocol.into(), ports)));
        program.add([Step::Jump(rest)]);
        program.place(tcp);
        if let Steering::Spray(cores) = self {
            program.add([Step::ByteAt(13), Step::JumpIfAny((SYN | FIN | RST).into(), ports)]);
            match cores {
                // The number of sockets is the divisor.
                0 => program.add([Step::Random, Step::Return]),
                // Further on, from the worker that the flow belongs to.
                cores => program.add([Step::Random, Step::Modulo(cores as u32), Step::Store(FURTHER)]),
            }
        }
        program.place(ports);
        // Ports, the smaller one in the upper half.
        program.add([
            Step::HalfAt(0),
            Step::Store(OTHER),
            Step::HalfAt(2),
            Step::LoadX(OTHER),
            Step::JumpIfAtLeast(sorted),
            Step::Left(16),
            Step::OrX,
            Step::Store(PORTS),
            Step::Jump(has_ports),
        ]);
        program.place(sorted);
        program.add([
            Step::Store(OTHER),
            Step::FromX,
            Step::Left(16),
            Step::LoadX(OTHER),
            Step::OrX,
            Step::Store(PORTS),
            Step::Jump(has_ports),
        ]);
    }
}

/// The part of a program that does not depend on the kind of packet.
struct Writer<'a> {
    program: Program,
    /// The workers of the sockets, in the kernel's order.
    joined: &'a [usize],
    workers: usize,
}

impl Writer<'_> {
    /// The place of a worker's socket. Before it has joined, any other one's will do.
    fn place_of(&self, worker: usize) -> u32 {
        self.joined.iter().position(|&joined| joined == worker).unwrap_or(0) as u32
    }

    /// Computes the Toeplitz hash of these places of memory: each bit of it is the parity of some bits of the input.
    fn hash(&mut self, words: &[u32]) {
        // Of the hash of a number of workers that is a power of two, fewer bits matter.
        let bits = match self.workers.is_power_of_two() {
            true => self.workers.trailing_zeros().min(HASH_BITS),
            false => HASH_BITS,
        };
        self.program.add([Step::SetX(0), Step::StoreX(HASH)]);
        for bit in 0..bits {
            self.program.add([Step::SetX(0)]);
            for (at, &word) in words.iter().enumerate() {
                let mask = mask(at, bit);
                self.program.add([Step::Load(word), Step::And(mask), Step::XorX, Step::ToX]);
            }
            for half in [16, 8, 4, 2, 1] {
                self.program.add([Step::Right(half), Step::XorX, Step::ToX]);
            }
            self.program.add([
                Step::And(1),
                Step::Left(bit),
                Step::LoadX(HASH),
                Step::OrX,
                Step::Store(HASH),
            ]);
        }
    }

    /// Ends with the worker that the hash says, or one behind it.
    fn finish(&mut self) {
        let workers = self.workers as u32;
        self.program.add([Step::Load(HASH), Step::Modulo(workers)]);
        self.program.add([Step::LoadX(FURTHER), Step::AddX, Step::Modulo(workers)]);
        for worker in 1..self.workers {
            let other = self.program.label();
            let place = self.place_of(worker);
            let here = self.program.label();
            self.program.add([Step::JumpIf(worker as u32, here), Step::Jump(other)]);
            self.program.place(here);
            self.program.add([Step::ReturnThis(place)]);
            self.program.place(other);
        }
        self.program.add([Step::ReturnThis(self.place_of(0))]);
    }
}

/// The bits of a word of the input that a bit of the hash is the parity of: bit 31 of the first word meets the first 32 bits of
/// the key, the one behind it those from the second on.
fn mask(word: usize, bit: u32) -> u32 {
    let of_key = |at: usize| u32::from(KEY[at / 8] >> (7 - at % 8) & 1);
    (0..32).fold(0, |mask, at| mask << 1 | of_key(32 * word + at + 31 - bit as usize))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use element::steering::{Dispatch, Rss};
    use proptest::prelude::*;
    use wire::LinkType;
    use wire::build::Builder;
    use wire::tcp::flags::{ACK, PSH};

    use super::*;
    use crate::interface::sys::fanout;

    /// The kernel itself, which runs a program on what comes to a socket: the result says how many bytes are kept.
    struct Kernel {
        from: UnixDatagram,
        to: UnixDatagram,
    }

    impl Kernel {
        fn new(steering: Steering, joined: &[usize]) -> Kernel {
            let (from, to) = UnixDatagram::pair().unwrap();
            to.set_nonblocking(true).unwrap();
            fanout::filter(to.as_fd(), &steering.program(joined, joined.len())).unwrap();
            Kernel { from, to }
        }

        /// The place of the worker that gets a packet: nothing arrives for the first one.
        fn place(&self, packet: &[u8]) -> usize {
            let mut buffer = [0; 2000];
            match self.from.send(packet) {
                Ok(_) => self.to.recv(&mut buffer).unwrap_or(0),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A packet of at least 128 bytes, so that how much is kept of it says something.
    fn packet(addresses: (IpAddr, IpAddr), ports: (u16, u16), protocol: u8, flags: u8) -> Vec<u8> {
        let ends = ((addresses.0, ports.0).into(), (addresses.1, ports.1).into());
        let builder = match protocol {
            TCP => Builder::tcp(ends.0, ends.1, flags),
            UDP => Builder::udp(ends.0, ends.1),
            _ => Builder::ip(addresses.0, addresses.1, protocol),
        };
        let start = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        let payload = [&start[..], &[7; 120]].concat();
        builder.build(&payload).unwrap()
    }

    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(a, b)| (IpAddr::V4(a.into()), IpAddr::V4(b.into()))),
            // Alike in some words, and in all.
            (any::<(u128, u128)>(), 0u32..=128).prop_map(|((a, b), same)| {
                let keeps = u128::MAX.checked_shl(128 - same).unwrap_or(0);
                (IpAddr::V6(a.into()), IpAddr::V6((a & keeps | b & !keeps).into()))
            }),
        ]
    }

    /// Workers in the order in which they join: as the engine has it, or any other one.
    fn joined() -> impl Strategy<Value = Vec<usize>> {
        (1usize..=9).prop_flat_map(|workers| {
            prop_oneof![
                Just((0..workers).rev().collect::<Vec<_>>()),
                Just((0..workers).collect::<Vec<_>>()).prop_shuffle(),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn flows_come_to_the_worker_that_they_belong_to(
            joined in joined(), addresses in addresses(), ports: (u16, u16),
            protocol in prop_oneof![Just(TCP), Just(UDP), Just(SCTP), Just(DCCP), Just(UDP_LITE), any::<u8>()],
            sprays: bool, part in 0u16..4,
        ) {
            // What the engine has to look at itself is left out.
            prop_assume!(!matches!(protocol, 0 | 1 | 4 | 41 | 43 | 44 | 47 | 50 | 51 | 58 | 60 | 135 | 137 | 139 | 140));
            let mut packet = packet(addresses, ports, protocol, SYN | ACK);
            if addresses.0.is_ipv4() {
                // Whole, or the first, a middle or the last fragment.
                packet[6..8].copy_from_slice(&[0u16, 0x2000, 0x2007, 0x0007][usize::from(part)].to_be_bytes());
            }
            let steering = if sprays { Steering::Spray(0) } else { Steering::Hash };
            let place = Kernel::new(steering, &joined).place(&packet);
            let owner = Rss::new(joined.len()).worker_of_frame(&packet, LinkType::RawIp);
            prop_assert_eq!(joined[place], owner);
        }

        #[test]
        fn a_few_workers_follow_the_one_that_a_connection_belongs_to(
            joined in joined(), addresses in addresses(), ports: (u16, u16), cores in 1usize..5,
        ) {
            let cores = cores.min(joined.len());
            let packet = packet(addresses, ports, TCP, ACK);
            let owner = Rss::new(joined.len()).worker_of_frame(&packet, LinkType::RawIp);
            let kernel = Kernel::new(Steering::Spray(cores), &joined);
            for _ in 0..10 {
                let worker = joined[kernel.place(&packet)];
                prop_assert!((worker + joined.len() - owner) % joined.len() < cores, "{worker}, {owner}");
            }
        }

        #[test]
        fn anything_goes_somewhere(bytes in prop::collection::vec(any::<u8>(), 1..300), sprays: bool) {
            let steering = if sprays { Steering::Spray(0) } else { Steering::Hash };
            let joined = [2, 0, 1];
            // Other sockets' programs end with a number that the kernel divides by that of the sockets.
            let place = Kernel::new(steering, &joined).place(&bytes);
            prop_assert!(sprays || place < joined.len());
        }
    }

    /// Also where all checksums are the same, as those of segments that a local sender leaves to its interface.
    #[test]
    fn segments_are_spread_evenly() {
        let joined = [3, 2, 1, 0];
        let ends = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let segment = packet(ends, (1000, 80), TCP, ACK | PSH);
        let kernel = Kernel::new(Steering::Spray(4), &joined);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[joined[kernel.place(&segment)]] += 1;
        }
        // Six standard deviations of the binomial distribution are 164.
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
