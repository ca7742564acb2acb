//! # WorkPackage
//! Spends time on each packet, as a network function of a given cost would.
//!
//! For each packet, WorkPackage draws W random numbers, which only costs time in the core, and then makes N
//! random accesses of 4 bytes each to memory. The packet passes unchanged, from each input to the output of
//! the same number. As in FastClick, packets are pushed: in a pull path, an Unqueue has to come first.
//!
//! ## Usage
//! `WorkPackage([KEYWORDS])`
//!
//! ## Arguments
//! - `S`: the size of the memory in megabytes.
//! - `N`: the number of accesses per packet.
//! - `R`: the percentage of accesses that go to the packet's headers instead of the memory.
//! - `PAYLOAD`: if true, accesses to the packet may go to any byte of its first slot.
//! - `W`: the number of random numbers per packet.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> WorkPackage(S 1, N 5, W 100) -> Discard
//! ```
//!
//! ## See also
//! DelayShaper

use std::hint::black_box;

use element::class::ArgInfo;
use element::effects::{Counting, Field};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};

/// The element class `WorkPackage`.
pub static CLASS: Class = Class {
    name: "WorkPackage",
    ports: "1-/=",
    processing: "h/h",
    flow: "#/#",
    manual: manual!("work_package.rs"),
    args: &[
        ArgInfo::keyword("S", "unsigned", "0"),
        ArgInfo::keyword("N", "unsigned", "0"),
        ArgInfo::keyword("R", "unsigned", "0"),
        ArgInfo::keyword("PAYLOAD", "bool", "false"),
        ArgInfo::keyword("W", "unsigned", "0"),
    ],
    samples: &["", "S 1, N 3, W 10", "S 1, N 8, R 50", "N 4, R 100, PAYLOAD true", "W 1 -> 2/2"],
    build: |args| {
        let (megabytes, accesses, of_packet) =
            (args.value::<u32>("S"), args.value::<u32>("N"), args.value::<u32>("R"));
        if of_packet > 100 {
            args.error("R: at most 100 of a hundred accesses");
        }
        if megabytes > MOST_MEGABYTES {
            args.error(format!("S: at most {MOST_MEGABYTES}"));
        }
        if megabytes == 0 && accesses > 0 && of_packet < 100 {
            args.error("N needs S megabytes of memory to access");
        }
        let (payload, draws) = (args.value::<bool>("PAYLOAD"), args.value::<u32>("W"));
        args.finish()?;
        let random = fastrand::Rng::with_seed(args.setup.worker as u64);
        let (memory, ports) = (Vec::new(), args.inputs());
        Ok(Box::new(WorkPackage { ports, megabytes, memory, accesses, of_packet, payload, draws, random }))
    },
    ..Class::DEFAULT
};

const WORDS_PER_MEGABYTE: usize = (1 << 20) / size_of::<u32>();
const MOST_MEGABYTES: u32 = 1 << 16;
/// The number of bytes at the start of a packet to which accesses go if PAYLOAD is false: the headers of
/// Ethernet (14 bytes), IPv4 (20) and TCP (20).
const HEADERS: usize = 54;

struct WorkPackage {
    ports: usize,
    megabytes: u32,
    /// The memory that is accessed; empty until `initialize` allocates it.
    memory: Vec<u32>,
    accesses: u32,
    /// The percentage of accesses that read the packet instead of the memory.
    of_packet: u32,
    payload: bool,
    draws: u32,
    random: fastrand::Rng,
}

impl WorkPackage {
    fn work(&mut self, packet: &Packet) -> u32 {
        let mut sum = (0..self.draws).fold(0u32, |sum, _| sum.wrapping_add(self.random.u32(..)));
        for _ in 0..self.accesses {
            let value = if self.of_packet > 0 && self.random.u32(..100) < self.of_packet {
                let data = packet.data();
                let length = if self.payload { data.len() } else { data.len().min(HEADERS) };
                let last = length.saturating_sub(size_of::<u32>());
                let at = self.random.usize(..=last);
                data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
            } else {
                let at = self.random.usize(..self.memory.len().max(1));
                self.memory.get(at).copied().unwrap_or(0)
            };
            sum = sum.wrapping_add(value);
        }
        sum
    }
}

impl Element for WorkPackage {
    fn effects(&self) -> Effects {
        // To spend time is the purpose of the element. Therefore, each packet must come to the element
        // itself, even if a program could replace it.
        let passing = Effects::port_by_port(self.ports);
        let effects = match (self.accesses > 0 && self.of_packet > 0, self.payload) {
            (false, _) => passing,
            (true, true) => passing.observing(&[Field::Payload]),
            (true, false) => {
                let headers = Field::Bytes { base: Base::Data, offset: 0, length: HEADERS as u16 };
                passing.observing(&[headers])
            }
        };
        effects.counting(Counting::Own)
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let words = self.megabytes as usize * WORDS_PER_MEGABYTE;
        let reserved = self.memory.try_reserve_exact(words);
        reserved.map_err(|_| format!("there is no memory for S {}", self.megabytes))?;
        // Write a value other than zero, so that the kernel allocates the pages now and not at the first
        // access.
        self.memory.resize(words, 1);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        for packet in batch.iter() {
            black_box(self.work(packet));
        }
        cx.pass_on(port, batch)
    }
}
