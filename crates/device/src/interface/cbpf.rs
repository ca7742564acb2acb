//! Programs in classic BPF (packet(7), bpf(4)), which the kernel runs on packets for any process that may
//! open a packet socket. [`ebpf`](super::ebpf) assembles the same steps for the kernel's newer language.
//! All jumps go forwards.

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE,
    BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MOD, BPF_MSH, BPF_OR,
    BPF_RET, BPF_RSH, BPF_ST, BPF_STX, BPF_TAX, BPF_TXA, BPF_W, BPF_X, BPF_XOR, sock_filter,
};

/// The offset at which a load gives a random number, in the kernel's ancillary data, which is addressed
/// like the packet (`linux/filter.h`).
const RANDOM: u32 = (-0x1000i32 + 56) as u32;

/// An instruction. Instructions work on an accumulator `A`, an index register `X`, and sixteen memory
/// cells, all of 32 bits. A load beyond the end of the packet ends the program with the result 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Loads a byte, two bytes or four bytes of the packet into A. The number is the offset in the packet.
    Byte(u32),
    Half(u32),
    Word(u32),
    /// Loads a byte or two bytes of the packet into A. The offset in the packet is the number plus X.
    ByteAt(u32),
    HalfAt(u32),
    /// Loads a random number into A.
    Random,
    /// Loads a memory cell into A (`Load`) or X (`LoadX`).
    Load(u32),
    LoadX(u32),
    /// Stores A (`Store`) or X (`StoreX`) in a memory cell.
    Store(u32),
    StoreX(u32),
    /// Sets X to the length in bytes of the IPv4 header at an offset in the packet, or to a constant.
    HeaderLengthX(u32),
    SetX(u32),
    /// Copies A to X (`ToX`), or X to A (`FromX`).
    ToX,
    FromX,
    /// Combines A and a constant, with the result in A: bitwise and, left shift, right shift, remainder.
    And(u32),
    Left(u32),
    Right(u32),
    Modulo(u32),
    /// Combines A and X, with the result in A: exclusive or, or, sum.
    XorX,
    OrX,
    AddX,
    /// Ends the program with A (`Return`) or a constant (`ReturnThis`) as its result.
    Return,
    ReturnThis(u32),
    /// Jumps to a label: always; if A equals a constant; if A has any of the bits of a constant; if A is
    /// larger than X; if A is at least X.
    Jump(Label),
    JumpIf(u32, Label),
    JumpIfAny(u32, Label),
    JumpIfAbove(Label),
    JumpIfAtLeast(Label),
}

/// The number of a label, which marks a position in a program as the target of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub(super) usize);

/// A program that is being written: steps and labels.
#[derive(Default)]
pub(crate) struct Program {
    pub(super) steps: Vec<Step>,
    /// For each label, the index of the step after it; 0 if the label has not been placed yet.
    pub(super) labels: Vec<usize>,
}

impl Program {
    /// Creates a label. The caller has to [`place`](Self::place) it, after all jumps to it.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(0);
        Label(self.labels.len() - 1)
    }

    /// Places a label at the present end of the program, so that the next step follows it.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = self.steps.len();
    }

    pub(crate) fn add(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
    }

    /// Returns the program in the form in which the kernel takes it.
    pub(crate) fn assemble(&self) -> Vec<sock_filter> {
        // A conditional jump reaches only 255 instructions, so each is assembled as two: a condition that, if
        // it does not hold, skips the second, and an unconditional jump, which reaches any distance.
        let mut starts = Vec::with_capacity(self.steps.len() + 1);
        let mut next = 0;
        for step in &self.steps {
            starts.push(next);
            next += if step.condition().is_some() { 2 } else { 1 };
        }
        starts.push(next);
        let mut code = Vec::with_capacity(next);
        for step in &self.steps {
            let far = |label: Label, from: usize| (starts[self.labels[label.0]] - from - 1) as u32;
            match (*step, step.condition()) {
                (Step::Jump(label), _) => code.push(filter(BPF_JMP | BPF_JA, far(label, code.len()))),
                (_, Some((condition, value, label))) => {
                    let skips = sock_filter { jt: 0, jf: 1, ..filter(BPF_JMP | condition, value) };
                    code.push(skips);
                    code.push(filter(BPF_JMP | BPF_JA, far(label, code.len())));
                }
                (step, None) => code.push(step.plain()),
            }
        }
        code
    }
}

impl Step {
    fn condition(self) -> Option<(u32, u32, Label)> {
        Some(match self {
            Step::JumpIf(value, label) => (BPF_JEQ | BPF_K, value, label),
            Step::JumpIfAny(bits, label) => (BPF_JSET | BPF_K, bits, label),
            Step::JumpIfAbove(label) => (BPF_JGT | BPF_X, 0, label),
            Step::JumpIfAtLeast(label) => (BPF_JGE | BPF_X, 0, label),
            _ => return None,
        })
    }

    fn plain(self) -> sock_filter {
        match self {
            Step::Byte(at) => filter(BPF_LD | BPF_B | BPF_ABS, at),
            Step::Half(at) => filter(BPF_LD | BPF_H | BPF_ABS, at),
            Step::Word(at) => filter(BPF_LD | BPF_W | BPF_ABS, at),
            Step::ByteAt(at) => filter(BPF_LD | BPF_B | BPF_IND, at),
            Step::HalfAt(at) => filter(BPF_LD | BPF_H | BPF_IND, at),
            Step::Random => filter(BPF_LD | BPF_W | BPF_ABS, RANDOM),
            Step::Load(place) => filter(BPF_LD | BPF_MEM, place),
            Step::LoadX(place) => filter(BPF_LDX | BPF_MEM, place),
            Step::Store(place) => filter(BPF_ST, place),
            Step::StoreX(place) => filter(BPF_STX, place),
            Step::HeaderLengthX(at) => filter(BPF_LDX | BPF_B | BPF_MSH, at),
            Step::SetX(value) => filter(BPF_LDX | BPF_IMM, value),
            Step::ToX => filter(BPF_MISC | BPF_TAX, 0),
            Step::FromX => filter(BPF_MISC | BPF_TXA, 0),
            Step::And(bits) => filter(BPF_ALU | BPF_AND | BPF_K, bits),
            Step::Left(bits) => filter(BPF_ALU | BPF_LSH | BPF_K, bits),
            Step::Right(bits) => filter(BPF_ALU | BPF_RSH | BPF_K, bits),
            Step::Modulo(value) => filter(BPF_ALU | BPF_MOD | BPF_K, value),
            Step::XorX => filter(BPF_ALU | BPF_XOR | BPF_X, 0),
            Step::OrX => filter(BPF_ALU | BPF_OR | BPF_X, 0),
            Step::AddX => filter(BPF_ALU | BPF_ADD | BPF_X, 0),
            Step::ReturnThis(value) => filter(BPF_RET | BPF_K, value),
            // The only step that is left for this arm is `Return`: `assemble` assembles the jumps itself.
            _ => filter(BPF_RET | BPF_A, 0),
        }
    }
}

fn filter(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}
