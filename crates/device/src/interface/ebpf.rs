//! Programs for packets in the kernel's newer language (bpf(2), RFC 9669), for frames that an interface has
//! just received: the steps of [`cbpf`](super::cbpf), written so that the kernel can prove them to be safe.
//!
//! Such a program chooses a worker, and the frame goes to this worker's socket at the queue by which the
//! frame was received.

use libc::{
    BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LDX, BPF_LSH, BPF_MEM, BPF_MOD, BPF_MUL, BPF_OR, BPF_RSH, BPF_STX, BPF_W, BPF_X, BPF_XOR, c_int,
};
use wire::ether_type::{IPV4, IPV6, QINQ, QINQ_OLD, VLAN};

use super::cbpf::{Program, Step};
use super::sys::bpf::{CALL, EXIT, LOAD_MAP, MOVE, step};

/// Codes that only the newer language has (`linux/bpf.h`).
const ALU64: u32 = 0x07;
const JMP32: u32 = 0x06;
const MOV: u32 = 0xb0;
/// Converts from network byte order.
const SWAP: u32 = BPF_ALU | 0xd8;
/// Functions of the kernel.
const RANDOM: i32 = 7;
const REDIRECT_MAP: i32 = 51;
/// `XDP_PASS`: to the kernel's own network stack.
const PASS: i32 = 2;

/// Registers. Calls preserve registers 6 to 9; register 10 is the end of the stack.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const SCRATCH: u8 = 1;
const SCRATCH_END: u8 = 2;
const PACKET: u8 = 6;
const PACKET_END: u8 = 7;
const A: u8 = 8;
const X: u8 = 9;
const STACK: u8 = 10;
/// The offset of the queue's number on the stack, after the sixteen places of memory.
const QUEUE: i16 = place(16);

/// Members of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// The lengths in bytes of a link header, and of a VLAN tag in it.
const LINK: i32 = 14;
const TAG: i32 = 4;
/// The number of VLAN tags that are skipped.
const TAGS: usize = 2;
/// The largest value of an index, which the kernel has to know: more than the length of a frame.
const FURTHEST: i32 = 0x7fff;

/// Returns a program that redirects frames to sockets: to the socket of the worker that `program` chooses
/// by the packet after the link header. The map has the socket of each worker at each queue; the sockets of
/// a queue follow each other. Frames that are not IP go to the first worker.
pub(super) fn redirecting(program: &Program, workers: u32, map: c_int) -> Vec<u64> {
    let workers = workers.max(1) as i32;
    choosing(
        program,
        workers,
        &[
            step((BPF_LDX | BPF_MEM | BPF_W) as u8, 2, STACK, QUEUE, 0),
            step((ALU64 | BPF_MUL | BPF_K) as u8, 2, 0, 0, workers),
            step((ALU64 | BPF_ADD | BPF_X) as u8, 2, A, 0, 0),
            // A constant that takes two instructions; source register 1 says that its value is the
            // descriptor of a map.
            step(LOAD_MAP, 1, 1, 0, map),
            0,
            step(MOVE, 3, 0, 0, PASS),
            step(CALL, 0, 0, 0, REDIRECT_MAP),
            step(EXIT, 0, 0, 0, 0),
        ],
    )
}

/// Returns the program up to the choice of the worker, which is in `A`, followed by `ending`.
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

/// Returns the offset of a place of memory on the stack.
const fn place(number: u32) -> i16 {
    -4 * (number as i16 + 1)
}

/// The target of a jump.
#[derive(Clone, Copy)]
enum Target {
    /// To an instruction.
    At(usize),
    /// To a label of the program.
    Label(usize),
    /// The end: the packet is shorter than a load requires.
    Short,
    /// The end: the worker is in `A`.
    End,
}

/// Instructions, some of which are jumps.
#[derive(Default)]
struct Code(Vec<(u64, Option<Target>)>);

impl Code {
    /// Adds an instruction. Returns its index.
    fn add(&mut self, code: u32, to: u8, from: u8, offset: i16, constant: i32) -> usize {
        self.0.push((step(code as u8, to, from, offset, constant), None));
        self.0.len() - 1
    }

    /// Adds a jump; `from` is the register to compare with, if it is not compared with a constant.
    fn jump(&mut self, code: u32, to: u8, from: u8, constant: i32, target: Target) {
        self.0.push((step(code as u8, to, from, 0, constant), Some(target)));
    }

    /// Returns the instructions with resolved jumps. Jumps only go forwards, and their distances fit into
    /// their offsets: programs have some thousand instructions.
    fn assemble(&self, place: impl Fn(Target) -> usize) -> Vec<u64> {
        let instructions = self.0.iter().enumerate();
        instructions
            .map(|(at, &(instruction, target))| match target {
                Some(target) => instruction | step(0, 0, 0, (place(target) - at - 1) as i16, 0),
                None => instruction,
            })
            .collect()
    }

    /// Stores the queue, and finds the packet after the link header and VLAN tags.
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
        // The kernel does not allow reads of registers that have not been written.
        self.add(BPF_ALU | MOV | BPF_K, A, 0, 0, 0);
        self.add(BPF_ALU | MOV | BPF_K, X, 0, 0, 0);
    }

    /// Loads a part of the packet into `A`, at the offset `at`, to which the register `index` is added if
    /// it is given.
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

    /// Adds a step. Returns the index of its first instruction.
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

/// The ending that returns the worker as the result.
#[cfg(test)]
pub(super) const RETURN: [u64; 2] =
    [step((ALU64 | MOV | BPF_X) as u8, RESULT, A, 0, 0), step(EXIT, 0, 0, 0, 0)];
