//! Assembles a program of [`cbpf`](super::cbpf) steps as eBPF (bpf(2), RFC 9669), the kernel's newer
//! language. XDP can run the result on frames that an interface has just received. Each access to the packet
//! is checked against the packet's end, because the kernel must be able to prove that the program is safe.
//!
//! The program chooses a worker. The frame then goes to the worker's socket at the queue by which it was
//! received.

use libc::{
    BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LDX, BPF_LSH, BPF_MEM, BPF_MOD, BPF_MUL, BPF_OR, BPF_RSH, BPF_STX, BPF_W, BPF_X, BPF_XOR, c_int,
};
use wire::ether_type::{IPV4, IPV6, QINQ, QINQ_OLD, VLAN};

use super::cbpf::{Program, Step};
use super::sys::bpf::{CALL, EXIT, LOAD_MAP, MOVE, step};

/// Codes of instructions that only eBPF has (`linux/bpf.h`).
const ALU64: u32 = 0x07;
const JMP32: u32 = 0x06;
const MOV: u32 = 0xb0;
/// The code that converts a register from network byte order to the machine's.
const SWAP: u32 = BPF_ALU | 0xd8;
/// Numbers of the kernel's helper functions (bpf-helpers(7)).
const RANDOM: i32 = 7;
const REDIRECT_MAP: i32 = 51;
/// The result `XDP_PASS`, for a frame without a socket: it goes to the kernel's network stack.
const PASS: i32 = 2;

/// The use of the registers. Registers 6 to 9 keep their values during calls; register 10 points to the end
/// of the stack.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const SCRATCH: u8 = 1;
const SCRATCH_END: u8 = 2;
const PACKET: u8 = 6;
const PACKET_END: u8 = 7;
const A: u8 = 8;
const X: u8 = 9;
const STACK: u8 = 10;
/// The offset on the stack at which the queue's number is stored, after the sixteen memory cells of the
/// steps.
const QUEUE: i16 = place(16);

/// The offsets in bytes of members of `struct xdp_md`, the program's argument.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// The lengths in bytes of an Ethernet header without tags (`LINK`), and of a VLAN tag (`TAG`).
const LINK: i32 = 14;
const TAG: i32 = 4;
/// The largest number of VLAN tags that the program skips. Frames with more go to the first worker.
const TAGS: usize = 2;
/// The mask of an offset that is not constant. The kernel has to know an upper bound; this one is larger than
/// the offset of any transport header.
const FURTHEST: i32 = 0x7fff;

/// Returns an XDP program that redirects each frame to a socket in `map`. A frame for which `map` has no
/// socket goes to the kernel's network stack. The steps of `program` choose the worker by the packet after
/// the link header and the VLAN tags. The index in the map is the queue's number times `workers`, plus the
/// worker. Frames that are not IP, are too short, or have more than two VLAN tags go to worker 0.
pub(super) fn redirecting(program: &Program, workers: u32, map: c_int) -> Vec<u64> {
    let workers = workers.max(1) as i32;
    choosing(
        program,
        workers,
        &[
            step((BPF_LDX | BPF_MEM | BPF_W) as u8, 2, STACK, QUEUE, 0),
            step((ALU64 | BPF_MUL | BPF_K) as u8, 2, 0, 0, workers),
            step((ALU64 | BPF_ADD | BPF_X) as u8, 2, A, 0, 0),
            // The instruction loads a 64-bit constant and takes two words. The source register 1 marks the
            // constant as the descriptor of a map.
            step(LOAD_MAP, 1, 1, 0, map),
            0,
            step(MOVE, 3, 0, 0, PASS),
            step(CALL, 0, 0, 0, REDIRECT_MAP),
            step(EXIT, 0, 0, 0, 0),
        ],
    )
}

/// Returns the instructions that choose a worker, which is then in the register `A`, followed by the
/// instructions `ending`.
pub(super) fn choosing(program: &Program, workers: i32, ending: &[u64]) -> Vec<u64> {
    let mut code = Code::default();
    code.find_packet();
    let starts: Vec<usize> = program.steps.iter().map(|&step| code.add_step(step)).collect();
    let short = code.add(BPF_ALU | MOV | BPF_K, A, 0, 0, 0);
    let end = code.add(BPF_ALU | BPF_MOD | BPF_K, A, 0, 0, workers);
    let place = |target| match target {
        Target::At(at) => at,
        Target::Label(label) => starts.get(program.labels[label]).copied().unwrap_or(short),
        Target::Short => short,
        Target::End => end,
    };
    let mut assembled = code.assemble(place);
    assembled.extend(ending);
    assembled
}

/// Returns the offset on the stack of a memory cell.
const fn place(number: u32) -> i16 {
    -4 * (number as i16 + 1)
}

/// The target of a jump, which is not known as an offset yet.
#[derive(Clone, Copy)]
enum Target {
    /// The instruction with this index.
    At(usize),
    /// The label with this number of the program of steps.
    Label(usize),
    /// The end of the instructions that choose a worker, with worker 0 as the result: the packet is shorter
    /// than a load requires, or is not IP.
    Short,
    /// The end of the instructions that choose a worker, with the worker in the register `A`.
    End,
}

/// The instructions written so far. A jump has a target, and its offset is filled in at the end.
#[derive(Default)]
struct Code(Vec<(u64, Option<Target>)>);

impl Code {
    /// Adds an instruction that is not a jump. Returns its index.
    fn add(&mut self, code: u32, to: u8, from: u8, offset: i16, constant: i32) -> usize {
        self.0.push((step(code as u8, to, from, offset, constant), None));
        self.0.len() - 1
    }

    /// Adds a jump. Its condition compares the register `to` with the register `from` or with `constant`,
    /// as `code` says.
    fn jump(&mut self, code: u32, to: u8, from: u8, constant: i32, target: Target) {
        self.0.push((step(code as u8, to, from, 0, constant), Some(target)));
    }

    /// Returns the instructions with the offsets of jumps filled in; `place` returns the index of a target.
    /// All jumps go forwards. Offsets have 16 bits, which suffice for programs of some thousand
    /// instructions.
    fn assemble(&self, place: impl Fn(Target) -> usize) -> Vec<u64> {
        let instructions = self.0.iter().enumerate();
        instructions
            .map(|(at, &(instruction, target))| match target {
                Some(target) => instruction | step(0, 0, 0, (place(target) - at - 1) as i16, 0),
                None => instruction,
            })
            .collect()
    }

    /// Writes the instructions that store the queue's number on the stack, and that make the register
    /// `PACKET` point to the IP header. The instructions skip the link header and VLAN tags.
    fn find_packet(&mut self) {
        let word = BPF_LDX | BPF_MEM | BPF_W;
        self.add(word, PACKET, CONTEXT, DATA, 0);
        self.add(word, PACKET_END, CONTEXT, DATA_END, 0);
        self.add(word, SCRATCH, CONTEXT, RX_QUEUE_INDEX, 0);
        self.add(BPF_STX | BPF_MEM | BPF_W, STACK, SCRATCH, QUEUE, 0);
        let mut found = Vec::new();
        for tags in 0..=TAGS {
            self.load(BPF_H, LINK - 2, None);
            for ip in [IPV4, IPV6] {
                found.push(self.0.len());
                self.jump(JMP32 | BPF_JEQ | BPF_K, A, 0, ip.into(), Target::Short);
            }
            if tags < TAGS {
                let next = self.0.len() + 4;
                for tag in [VLAN, QINQ, QINQ_OLD] {
                    self.jump(JMP32 | BPF_JEQ | BPF_K, A, 0, tag.into(), Target::At(next));
                }
                self.jump(BPF_JMP | BPF_JA, 0, 0, 0, Target::Short);
                self.add(ALU64 | BPF_ADD | BPF_K, PACKET, 0, 0, TAG);
            }
        }
        self.jump(BPF_JMP | BPF_JA, 0, 0, 0, Target::Short);
        let here = self.add(ALU64 | BPF_ADD | BPF_K, PACKET, 0, 0, LINK);
        for jump in found {
            self.0[jump].1 = Some(Target::At(here));
        }
        // A and X must have values, because the kernel rejects programs that read a register before it is
        // written.
        self.add(BPF_ALU | MOV | BPF_K, A, 0, 0, 0);
        self.add(BPF_ALU | MOV | BPF_K, X, 0, 0, 0);
    }

    /// Writes the instructions that load 1, 2 or 4 bytes of the packet (`size`) into `A`. The offset is `at`,
    /// plus the value of the register `index` if it is given. The instructions jump to the end, with worker
    /// 0, if the packet is too short.
    fn load(&mut self, size: u32, at: i32, index: Option<u8>) {
        let bytes = match size {
            BPF_B => 1,
            BPF_H => 2,
            _ => 4,
        };
        let from = match index {
            Some(index) => {
                self.add(ALU64 | MOV | BPF_X, SCRATCH, index, 0, 0);
                self.add(ALU64 | BPF_AND | BPF_K, SCRATCH, 0, 0, FURTHEST);
                self.add(ALU64 | BPF_ADD | BPF_X, SCRATCH, PACKET, 0, 0);
                SCRATCH
            }
            None => PACKET,
        };
        self.add(ALU64 | MOV | BPF_X, SCRATCH_END, from, 0, 0);
        self.add(ALU64 | BPF_ADD | BPF_K, SCRATCH_END, 0, 0, at + bytes);
        self.jump(BPF_JMP | BPF_JGT | BPF_X, SCRATCH_END, PACKET_END, 0, Target::Short);
        self.add(BPF_LDX | BPF_MEM | size, A, from, at as i16, 0);
        if bytes > 1 {
            self.add(SWAP, A, 0, 0, 8 * bytes);
        }
    }

    /// Writes the instructions of a step. Returns the index of the first.
    fn add_step(&mut self, step: Step) -> usize {
        let start = self.0.len();
        let (with_constant, with_x) = (BPF_ALU | BPF_K, BPF_ALU | BPF_X);
        let (word, stored) = (BPF_LDX | BPF_MEM | BPF_W, BPF_STX | BPF_MEM | BPF_W);
        match step {
            Step::Byte(at) => self.load(BPF_B, at as i32, None),
            Step::Half(at) => self.load(BPF_H, at as i32, None),
            Step::Word(at) => self.load(BPF_W, at as i32, None),
            Step::ByteAt(at) => self.load(BPF_B, at as i32, Some(X)),
            Step::HalfAt(at) => self.load(BPF_H, at as i32, Some(X)),
            Step::Random => {
                self.add(CALL.into(), 0, 0, 0, RANDOM);
                self.add(with_x | MOV, A, RESULT, 0, 0);
            }
            Step::Load(from) => drop(self.add(word, A, STACK, place(from), 0)),
            Step::LoadX(from) => drop(self.add(word, X, STACK, place(from), 0)),
            Step::Store(to) => drop(self.add(stored, STACK, A, place(to), 0)),
            Step::StoreX(to) => drop(self.add(stored, STACK, X, place(to), 0)),
            Step::HeaderLengthX(at) => {
                self.add(with_x | MOV, X, A, 0, 0);
                self.load(BPF_B, at as i32, None);
                self.add(with_x | MOV, SCRATCH, A, 0, 0);
                self.add(with_x | MOV, A, X, 0, 0);
                self.add(with_x | MOV, X, SCRATCH, 0, 0);
                self.add(with_constant | BPF_AND, X, 0, 0, 15);
                self.add(with_constant | BPF_LSH, X, 0, 0, 2);
            }
            Step::SetX(value) => drop(self.add(with_constant | MOV, X, 0, 0, value as i32)),
            Step::ToX => drop(self.add(with_x | MOV, X, A, 0, 0)),
            Step::FromX => drop(self.add(with_x | MOV, A, X, 0, 0)),
            Step::And(bits) => drop(self.add(with_constant | BPF_AND, A, 0, 0, bits as i32)),
            Step::Left(bits) => drop(self.add(with_constant | BPF_LSH, A, 0, 0, bits as i32)),
            Step::Right(bits) => drop(self.add(with_constant | BPF_RSH, A, 0, 0, bits as i32)),
            Step::Modulo(value) => drop(self.add(with_constant | BPF_MOD, A, 0, 0, value as i32)),
            Step::XorX => drop(self.add(with_x | BPF_XOR, A, X, 0, 0)),
            Step::OrX => drop(self.add(with_x | BPF_OR, A, X, 0, 0)),
            Step::AddX => drop(self.add(with_x | BPF_ADD, A, X, 0, 0)),
            Step::Return => self.jump(BPF_JMP | BPF_JA, 0, 0, 0, Target::End),
            Step::ReturnThis(value) => {
                self.add(with_constant | MOV, A, 0, 0, value as i32);
                self.jump(BPF_JMP | BPF_JA, 0, 0, 0, Target::End);
            }
            Step::Jump(label) => self.jump(BPF_JMP | BPF_JA, 0, 0, 0, Target::Label(label.0)),
            Step::JumpIf(value, label) => {
                self.jump(JMP32 | BPF_JEQ | BPF_K, A, 0, value as i32, Target::Label(label.0));
            }
            Step::JumpIfAny(bits, label) => {
                self.jump(JMP32 | BPF_JSET | BPF_K, A, 0, bits as i32, Target::Label(label.0));
            }
            Step::JumpIfAbove(label) => {
                self.jump(JMP32 | BPF_JGT | BPF_X, A, X, 0, Target::Label(label.0));
            }
            Step::JumpIfAtLeast(label) => {
                self.jump(JMP32 | BPF_JGE | BPF_X, A, X, 0, Target::Label(label.0));
            }
        }
        start
    }
}

/// The instructions at the end of a program for tests, which return the chosen worker as the program's
/// result.
#[cfg(test)]
pub(super) const RETURN: [u64; 2] =
    [step((ALU64 | MOV | BPF_X) as u8, RESULT, A, 0, 0), step(EXIT, 0, 0, 0, 0)];
