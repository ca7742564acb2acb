//! The program by which the kernel chooses the worker that gets a packet: among the packet sockets of
//! FromDevice, and among the AF_XDP sockets of FromXDP. The program's steps see the packet from its IP
//! header on.
//!
//! The program follows the engine's rule ([`element::steering::Rss`]) for the most common packets:
//! protocols with ports after plain IPv4 and IPv6 headers, and fragments. The engine checks the worker of
//! each packet again. A different choice for other packets (queries, errors, packets in tunnels) therefore
//! only costs a transfer to another worker.

use element::steering::Spreading;
use flow::rss::ToeplitzKey;
use libc::{c_int, sock_filter};
use wire::ip_protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use wire::tcp::flags::{FIN, RST, SYN};

use super::cbpf::{Label, Program, Step};
use super::ebpf;

/// The use of the program's 32-bit memory cells (0 to 15). Cells 0 to 7 are for the addresses. The cells
/// below hold the ports, the distance from the flow's worker to the chosen worker, a scratch value, and the
/// hash.
const PORTS: u32 = 8;
const FURTHER: u32 = 9;
const OTHER: u32 = 10;
const HASH: u32 = 11;
/// The number of lowest bits of the hash that determine the queue ([`flow::rss::queue`]).
const HASH_BITS: u32 = 7;

/// The rule by which the kernel distributes packets to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    /// Packets go to the worker that their flow belongs to, as far as the program can find it; both
    /// directions of a connection have the same worker. Packets that are not IP go to worker 0.
    Hash,
    /// Unfragmented TCP segments go to a random worker, except for segments that open or close connections.
    /// The excepted segments and all other packets go as with `Hash`. The number is the number of workers
    /// that get the segments of a connection: the flow's worker and the workers after it; 0 for all workers.
    Spray(usize),
}

impl Steering {
    /// Returns the steering that the argument STEERING requests or, without it, the steering of the engine
    /// (`--steering`). Returns `None` if the argument has another value than `hash` and `spray`.
    pub(crate) fn new(argument: Option<&str>, spreading: Option<&dyn Spreading>) -> Option<Steering> {
        let cores = spreading.and_then(Spreading::by_interfaces);
        match argument {
            Some("hash") => Some(Steering::Hash),
            Some("spray") => Some(Steering::Spray(cores.unwrap_or(0))),
            Some(_) => None,
            None => Some(cores.map_or(Steering::Hash, Steering::Spray)),
        }
    }

    /// Returns the program for a fanout group of packet sockets. Its result is an index into `joined`,
    /// which lists the workers in the order in which their sockets joined the group. Packets of a worker
    /// that has not joined yet go to index 0.
    pub(super) fn program(self, joined: &[usize], workers: usize, key: &ToeplitzKey) -> Vec<sock_filter> {
        self.steps(joined, workers, key).assemble()
    }

    /// Returns the AF_XDP program for frames of an interface, which redirects each frame to a socket in
    /// `map`. The index in the map is the queue's number times the number of workers, plus the worker.
    pub(crate) fn redirecting(self, workers: usize, key: &ToeplitzKey, map: c_int) -> Vec<u64> {
        let all: Vec<usize> = (0..workers).collect();
        ebpf::redirecting(&self.steps(&all, workers, key), workers as u32, map)
    }

    fn steps(self, joined: &[usize], workers: usize, key: &ToeplitzKey) -> Program {
        let mut writer = Writer { program: Program::default(), joined, workers, key };
        writer.program.add([Step::SetX(0), Step::StoreX(FURTHER)]);
        let [v4, v6] = [writer.program.label(), writer.program.label()];
        writer.program.add([Step::Byte(0), Step::And(0xf0), Step::JumpIf(0x40, v4), Step::JumpIf(0x60, v6)]);
        writer.program.add([Step::ReturnThis(writer.place_of(0))]);
        writer.program.place(v4);
        self.write_v4(&mut writer);
        writer.program.place(v6);
        self.write_v6(&mut writer);
        writer.program
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
        // The smaller address goes first, so that both directions have the same hash.
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
            // The comparison ends at the first word in which the addresses differ, with a jump to `swapped`
            // or to `sorted`.
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

    /// Writes the steps that examine the transport header. Before them, A holds the protocol and X the length
    /// of the IP header in bytes. The steps end the program for a segment that is sprayed over all workers.
    /// Otherwise they jump to `has_ports` with the sorted ports in the cell `PORTS`, or to `rest` for a
    /// protocol without ports. For a segment that is sprayed over some workers, the distance of the chosen
    /// worker is in the cell `FURTHER`.
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
                // Any number will do: the kernel, or for XDP the end of the program, takes the result modulo
                // the number of workers.
                0 => program.add([Step::Random, Step::Return]),
                // The chosen worker is at a random distance after the flow's worker, less than `cores`, the
                // number of workers that get the segments of a connection.
                cores => program.add([Step::Random, Step::Modulo(cores as u32), Step::Store(FURTHER)]),
            }
        }
        program.place(ports);
        // Both ports go into one word, the smaller port in the upper half, so that both directions have the
        // same hash.
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

/// A program that is being written, and the values from which its steps are made.
struct Writer<'a> {
    program: Program,
    /// The workers in the order in which their sockets joined the kernel's group: the position of a worker is
    /// the index of its socket.
    joined: &'a [usize],
    workers: usize,
    key: &'a ToeplitzKey,
}

impl Writer<'_> {
    /// Returns the index of a worker's socket. While the worker has not joined, returns 0: any socket will
    /// do, because the engine checks the worker.
    fn place_of(&self, worker: usize) -> u32 {
        self.joined.iter().position(|&joined| joined == worker).unwrap_or(0) as u32
    }

    /// Writes the steps that compute the Toeplitz hash of the memory cells `words` into the cell `HASH`. Each
    /// bit of the hash is the parity of the input's bits that a mask selects.
    fn hash(&mut self, words: &[u32]) {
        // If the number of workers is a power of two, the worker depends on fewer bits of the hash.
        let bits = match self.workers.is_power_of_two() {
            true => self.workers.trailing_zeros().min(HASH_BITS),
            false => HASH_BITS,
        };
        self.program.add([Step::SetX(0), Step::StoreX(HASH)]);
        for bit in 0..bits {
            self.program.add([Step::SetX(0)]);
            for (at, &word) in words.iter().enumerate() {
                let mask = mask(self.key, at, bit);
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

    /// Writes the steps that end the program. The chosen worker is the worker that the hash determines plus
    /// the distance in the memory cell `FURTHER`, modulo the number of workers. The result is the index of
    /// its socket.
    fn finish(&mut self) {
        let workers = self.workers as u32;
        self.program.add([Step::Load(HASH), Step::Modulo(workers)]);
        self.program.add([Step::LoadX(FURTHER), Step::AddX, Step::Modulo(workers)]);
        if self.joined.iter().copied().eq(0..self.workers) {
            return self.program.add([Step::Return]);
        }
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

/// Returns the mask of an input word for a bit of the hash: the hash bit is the parity of the masked bits
/// of all words. For Toeplitz, bit 31 of word 0 selects the key's first 32 bits, and each following input
/// bit selects 32 bits that begin one bit later.
fn mask(key: &ToeplitzKey, word: usize, bit: u32) -> u32 {
    let of_key = |at: usize| u32::from(key[at / 8] >> (7 - at % 8) & 1);
    (0..32).fold(0, |mask, at| mask << 1 | of_key(32 * word + at + 31 - bit as usize))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixDatagram;
    use std::sync::LazyLock;

    use element::steering::{Dispatch, Rss, key_of};
    use proptest::prelude::*;
    use wire::LinkType;
    use wire::build::Builder;
    use wire::tcp::flags::{ACK, PSH};

    use super::*;
    use crate::interface::sys::{bpf, fanout};

    /// A key that is made from a seed, in place of the public key.
    static KEY: LazyLock<ToeplitzKey> = LazyLock::new(|| key_of(7));

    fn rss(workers: usize) -> Rss {
        Rss::with_key(workers, *KEY)
    }

    /// A socket pair of the kernel whose receiver runs a program on each packet. The program's result is
    /// the number of bytes that the receiver gets, so that tests can see it.
    struct Kernel {
        from: UnixDatagram,
        to: UnixDatagram,
    }

    impl Kernel {
        fn new(steering: Steering, joined: &[usize]) -> Kernel {
            let (from, to) = UnixDatagram::pair().unwrap();
            to.set_nonblocking(true).unwrap();
            fanout::filter(to.as_fd(), &steering.program(joined, joined.len(), &KEY)).unwrap();
            Kernel { from, to }
        }

        /// Sends a packet and returns the program's result: the index of the socket that would get the
        /// packet. For index 0, the receiver gets no bytes.
        fn place(&self, packet: &[u8]) -> usize {
            let mut buffer = [0; 2000];
            match self.from.send(packet) {
                Ok(_) => self.to.recv(&mut buffer).unwrap_or(0),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A program that is loaded for XDP, so that tests can run it on frames.
    struct Driver(OwnedFd);

    impl Driver {
        fn or_skip(steering: Steering, workers: usize) -> Option<Driver> {
            let all: Vec<usize> = (0..workers).collect();
            let code = ebpf::choosing(&steering.steps(&all, workers, &KEY), workers as i32, &ebpf::RETURN);
            match bpf::load(bpf::KIND_XDP, &code) {
                Ok(program) => Some(Driver(program)),
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    println!("skipped: loading a program: {error}");
                    None
                }
                Err(error) => panic!("{steering:?}, {workers}, {} instructions: {error}", code.len()),
            }
        }

        /// Returns the loaded program for `workers` workers (1 to 9). The first call loads the programs for
        /// all these numbers. Returns `None` if this process may not load programs.
        fn of(sprays: bool, workers: usize) -> Option<&'static Driver> {
            static ALL: LazyLock<[Vec<Option<Driver>>; 2]> = LazyLock::new(|| {
                let of = |steering| (1..=9).map(|workers| Driver::or_skip(steering, workers)).collect();
                [Steering::Hash, Steering::Spray(0)].map(of)
            });
            ALL[usize::from(sprays)][workers - 1].as_ref()
        }

        fn worker(&self, frame: &[u8]) -> usize {
            bpf::run(self.0.as_fd(), frame).unwrap() as usize
        }
    }

    /// Builds an Ethernet frame around an IP packet, with the given number of VLAN tags (0 to 2).
    fn frame(packet: &[u8], tags: usize) -> Vec<u8> {
        let kind = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let tags = [[0x88, 0xa8, 0, 5], [0x81, 0x00, 0, 7]].into_iter().skip(2 - tags).flatten();
        [2; 12].into_iter().chain(tags).chain(kind).chain(packet.iter().copied()).collect()
    }

    /// Builds a packet of at least 128 bytes, more than any index, so that the number of bytes that arrive
    /// shows the index.
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
            // IPv6 addresses that are equal in their first `same` bits.
            (any::<(u128, u128)>(), 0u32..=128).prop_map(|((a, b), same)| {
                let keeps = u128::MAX.checked_shl(128 - same).unwrap_or(0);
                (IpAddr::V6(a.into()), IpAddr::V6((a & keeps | b & !keeps).into()))
            }),
        ]
    }

    /// Protocols of which the program knows all headers, in contrast to those that only the engine
    /// examines.
    fn protocols() -> impl Strategy<Value = u8> {
        let others = any::<u8>().prop_filter("looked at by the engine", |protocol| {
            !matches!(protocol, 0 | 1 | 4 | 41 | 43 | 44 | 47 | 50 | 51 | 58 | 60 | 135 | 137 | 139 | 140)
        });
        prop_oneof![Just(TCP), Just(UDP), Just(SCTP), Just(DCCP), Just(UDP_LITE), others]
    }

    /// Makes an IPv4 packet whole (0), or the first (1), a middle (2) or the last fragment (3) of a packet.
    fn fragment(mut packet: Vec<u8>, part: usize) -> Vec<u8> {
        if packet[0] >> 4 == 4 {
            packet[6..8].copy_from_slice(&[0u16, 0x2000, 0x2007, 0x0007][part].to_be_bytes());
        }
        packet
    }

    /// 1 to 9 workers in the order in which they join: in reverse, as in the engine, or in a random order.
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
            protocol in protocols(), sprays: bool, part in 0usize..4,
        ) {
            let packet = fragment(packet(addresses, ports, protocol, SYN | ACK), part);
            let steering = if sprays { Steering::Spray(0) } else { Steering::Hash };
            let place = Kernel::new(steering, &joined).place(&packet);
            let owner = rss(joined.len()).worker_of_frame(&packet, LinkType::RawIp);
            prop_assert_eq!(joined[place], owner);
        }

        #[test]
        fn frames_come_to_the_same_worker(
            workers in 1usize..=9, addresses in addresses(), ports: (u16, u16), protocol in protocols(), sprays: bool,
            part in 0usize..4, tags in 0usize..3, options in 0u8..=10,
        ) {
            let mut packet = fragment(packet(addresses, ports, protocol, RST), part);
            if addresses.0.is_ipv4() {
                packet.splice(20..20, vec![1; 4 * usize::from(options)]);
                packet[0] += options;
            }
            let frame = frame(&packet, tags);
            let Some(driver) = Driver::of(sprays, workers) else { return Ok(()) };
            let owner = rss(workers).worker_of_frame(&frame, LinkType::Ethernet);
            prop_assert_eq!(driver.worker(&frame), owner);
        }

        #[test]
        fn frames_of_any_bytes_go_somewhere(
            bytes in prop::collection::vec(any::<u8>(), 14..300), kind in prop::sample::select(&[0x0800u16, 0x86dd, 0x8100, 0]),
            version in 0u8..16, sprays: bool,
        ) {
            let mut bytes = bytes;
            bytes[12..14].copy_from_slice(&kind.to_be_bytes());
            if let Some(first) = bytes.get_mut(14) {
                *first = version << 4 | *first & 15;
            }
            let Some(driver) = Driver::of(sprays, 3) else { return Ok(()) };
            prop_assert!(driver.worker(&bytes) < 3);
        }

        #[test]
        fn a_few_workers_follow_the_one_that_a_connection_belongs_to(
            joined in joined(), addresses in addresses(), ports: (u16, u16), cores in 1usize..5,
        ) {
            let cores = cores.min(joined.len());
            let packet = packet(addresses, ports, TCP, ACK);
            let owner = rss(joined.len()).worker_of_frame(&packet, LinkType::RawIp);
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
            // A program that sprays ends with a random number, which the kernel of a real group takes modulo
            // the number of sockets. Other results must be indexes of sockets.
            let place = Kernel::new(steering, &joined).place(&bytes);
            prop_assert!(sprays || place < joined.len());
        }
    }

    /// Sends one segment 4000 times, so that all checksums are the same, as for segments whose checksum a
    /// local sender leaves to its interface. Expects that each of 4 workers gets about 1000.
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
        // A deviation of 200 is more than six standard deviations of the binomial distribution, which are
        // 164.
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn frames_of_a_connection_are_spread() {
        let ends = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let regular = frame(&packet(ends, (1000, 80), TCP, ACK | PSH), 1);
        let owner = rss(4).worker_of_frame(&regular, LinkType::Ethernet);
        for (cores, used) in [(0, 4), (1, 1), (2, 2), (3, 3)] {
            let Some(driver) = Driver::or_skip(Steering::Spray(cores), 4) else { return };
            let mut counts = [0; 4];
            for _ in 0..4000 {
                counts[(driver.worker(&regular) + 4 - owner) % 4] += 1;
            }
            let least = 4000 / used - 200;
            assert!(counts[..used].iter().all(|&count| count > least), "{cores}: {counts:?}");
            assert!(counts[used..].iter().all(|&count| count == 0), "{cores}: {counts:?}");
            for flags in [SYN, SYN | ACK, FIN | ACK, RST] {
                let opens = frame(&packet(ends, (1000, 80), TCP, flags), 1);
                assert!((0..50).all(|_| driver.worker(&opens) == owner), "{flags:x}");
            }
        }
    }

    #[test]
    fn the_kernel_takes_the_program_for_any_number_of_workers() {
        for workers in [1, 2, 3, 7, 8, 31, 64, 128, 200, 1000] {
            for steering in [Steering::Hash, Steering::Spray(0), Steering::Spray(workers.min(5))] {
                let Some(_) = Driver::or_skip(steering, workers) else { return };
                assert!(steering.redirecting(workers, &KEY, 0).len() < 4096);
            }
        }
    }
}
