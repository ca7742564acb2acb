//! A function of machine code, and the builder of its instructions, over Cranelift.

use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Endianness, Function, InstBuilder, MemFlagsData, Signature, Type, UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{Configurable, Flags};
use cranelift_codegen::{Context, settings};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use memmap2::{Mmap, MmapMut};

/// A compiled function that takes addresses and returns a number. The code is freed with the value.
pub(super) struct Code {
    memory: Mmap,
    first: usize,
}

/// The size of a cache line in bytes.
const LINE: usize = 64;
/// The number of different offsets, one cache line apart, at which a function may begin in its first page of
/// memory.
const LINES: usize = 32;
/// The number of functions that the process has made; it selects the position of the next function.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Code {
    /// Compiles a function that takes `addresses` addresses. `body` adds its instructions, and returns its
    /// result. Returns `None` if machine code cannot be made.
    pub(super) fn new(addresses: usize, body: impl FnOnce(&mut Body<'_>, &[Value]) -> Value) -> Option<Code> {
        let isa = isa()?;
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend((0..addresses).map(|_| AbiParam::new(types::I64)));
        signature.returns.push(AbiParam::new(types::I64));
        let mut context =
            Context::for_function(Function::with_name_signature(UserFuncName::default(), signature));
        let mut frontend = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let params = builder.block_params(block).to_vec();
        let mut body_of = Body { builder };
        let result = body(&mut body_of, &params);
        body_of.builder.ins().return_(&[result]);
        body_of.builder.finalize(isa.frontend_config());
        let compiled = context.compile(&*isa, &mut ControlPlane::default()).ok()?;
        // The function calls nothing outside, so there must be nothing to link.
        if !compiled.buffer.relocs().is_empty() {
            return None;
        }
        let bytes = compiled.buffer.data();
        // Each function has pages of its own. If all functions began at the start of a page, they would
        // compete for the same lines of the instruction cache.
        let first = LINE * (COUNT.fetch_add(1, Ordering::Relaxed) % LINES);
        let mut memory = MmapMut::map_anon(first + bytes.len()).ok()?;
        memory[first..first + bytes.len()].copy_from_slice(bytes);
        Some(Code { memory: memory.make_exec().ok()?, first })
    }

    /// Returns the address of the function's first instruction.
    #[inline(always)]
    pub(super) fn start(&self) -> *const u8 {
        self.memory.as_ptr().wrapping_add(self.first)
    }
}

/// Returns Cranelift's description of this machine's instruction set; `None` if Cranelift does not support
/// this machine.
fn isa() -> Option<OwnedTargetIsa> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").ok()?;
    cranelift_native::builder().ok()?.finish(Flags::new(flags)).ok()
}

/// The body of a function under construction. All numbers are 64 bits wide; shorter ones are zero-extended.
pub(super) struct Body<'f> {
    builder: FunctionBuilder<'f>,
}

/// Returns Cranelift's type for a number of 1, 2, 4 or 8 bytes.
fn kind(width: usize) -> Type {
    match width {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

impl Body<'_> {
    pub(super) fn constant(&mut self, number: u64) -> Value {
        self.builder.ins().iconst(types::I64, number as i64)
    }

    /// Loads a number of `width` bytes (1, 2, 4 or 8) from `place` bytes after an address, in the machine's
    /// byte order.
    pub(super) fn load(&mut self, width: usize, address: Value, place: usize) -> Value {
        let number = self.builder.ins().load(kind(width), plain(), address, place as i32);
        if width < 8 { self.builder.ins().uextend(types::I64, number) } else { number }
    }

    pub(super) fn store(&mut self, width: usize, address: Value, place: usize, number: Value) {
        let number = if width < 8 { self.builder.ins().ireduce(kind(width), number) } else { number };
        self.builder.ins().store(plain(), number, address, place as i32);
    }

    /// Reverses the byte order of a number of `width` bytes.
    pub(super) fn swap(&mut self, width: usize, number: Value) -> Value {
        if width == 1 {
            return number;
        }
        let swapped = self.builder.ins().bswap(number);
        if width < 8 { self.builder.ins().ushr_imm_u(swapped, (64 - 8 * width) as i64) } else { swapped }
    }

    pub(super) fn and(&mut self, number: Value, mask: u64) -> Value {
        if mask == u64::MAX {
            return number;
        }
        let mask = self.constant(mask);
        self.builder.ins().band(number, mask)
    }

    pub(super) fn xor(&mut self, number: Value, bits: u64) -> Value {
        if bits == 0 {
            return number;
        }
        let bits = self.constant(bits);
        self.builder.ins().bxor(number, bits)
    }

    pub(super) fn or(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bor(a, b)
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }

    pub(super) fn shift_right(&mut self, number: Value, bits: u32) -> Value {
        if bits == 0 { number } else { self.builder.ins().ushr_imm_u(number, i64::from(bits)) }
    }

    pub(super) fn turn_left(&mut self, number: Value, bits: u32) -> Value {
        if bits == 0 { number } else { self.builder.ins().rotl_imm_u(number, i64::from(bits)) }
    }

    /// Returns 1 if a number is larger than `most` (unsigned), else 0.
    pub(super) fn is_above(&mut self, number: Value, most: u64) -> Value {
        self.compare(IntCC::UnsignedGreaterThan, number, most)
    }

    /// Returns 1 if two numbers are equal, else 0.
    pub(super) fn is(&mut self, number: Value, other: u64) -> Value {
        self.compare(IntCC::Equal, number, other)
    }

    fn compare(&mut self, how: IntCC, number: Value, other: u64) -> Value {
        let other = self.constant(other);
        let holds = self.builder.ins().icmp(how, number, other);
        self.builder.ins().uextend(types::I64, holds)
    }

    /// Returns `one` if `choice` is not zero, else `other`.
    pub(super) fn choose(&mut self, choice: Value, one: Value, other: Value) -> Value {
        self.builder.ins().select(choice, one, other)
    }
}

/// Returns the flags of a memory access in little-endian byte order that does not trap, because the caller
/// knows the address to be valid.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_endianness(Endianness::Little)
}
