//! A single function of machine code.

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

/// A function that takes addresses and gives a number.
pub(super) struct Code {
    memory: Mmap,
    first: usize,
}

/// Bytes of a line of the cache, lines of a page that functions may begin at, and how many functions have been made.
const LINE: usize = 64;
const LINES: usize = 32;
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Code {
    /// Makes a function of so many addresses. `None` where there is no machine code.
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
        // Nothing outside is called, so nothing is left to be linked.
        if !compiled.buffer.relocs().is_empty() {
            return None;
        }
        let bytes = compiled.buffer.data();
        // Each function has pages of its own. Did all begin with a page, they would take one another's place in the cache.
        let first = LINE * (COUNT.fetch_add(1, Ordering::Relaxed) % LINES);
        let mut memory = MmapMut::map_anon(first + bytes.len()).ok()?;
        memory[first..first + bytes.len()].copy_from_slice(bytes);
        Some(Code { memory: memory.make_exec().ok()?, first })
    }

    /// Where it begins.
    #[inline(always)]
    pub(super) fn start(&self) -> *const u8 {
        self.memory.as_ptr().wrapping_add(self.first)
    }
}

/// The machine that this runs on.
fn isa() -> Option<OwnedTargetIsa> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").ok()?;
    cranelift_native::builder().ok()?.finish(Flags::new(flags)).ok()
}

/// What a function does, instruction by instruction. Numbers of fewer than eight bytes have zeros in front.
pub(super) struct Body<'f> {
    builder: FunctionBuilder<'f>,
}

/// The type of a number of 1, 2, 4 or 8 bytes.
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

    /// The number in `width` bytes at a place behind an address, in the machine's byte order.
    pub(super) fn load(&mut self, width: usize, address: Value, place: usize) -> Value {
        let number = self.builder.ins().load(kind(width), plain(), address, place as i32);
        if width < 8 { self.builder.ins().uextend(types::I64, number) } else { number }
    }

    pub(super) fn store(&mut self, width: usize, address: Value, place: usize, number: Value) {
        let number = if width < 8 { self.builder.ins().ireduce(kind(width), number) } else { number };
        self.builder.ins().store(plain(), number, address, place as i32);
    }

    /// A number of so many bytes in the other byte order.
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

    /// All bits of both.
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

    /// One if a number is larger than another one, else zero.
    pub(super) fn is_above(&mut self, number: Value, most: u64) -> Value {
        self.compare(IntCC::UnsignedGreaterThan, number, most)
    }

    /// One if it is that number, else zero.
    pub(super) fn is(&mut self, number: Value, other: u64) -> Value {
        self.compare(IntCC::Equal, number, other)
    }

    fn compare(&mut self, how: IntCC, number: Value, other: u64) -> Value {
        let other = self.constant(other);
        let holds = self.builder.ins().icmp(how, number, other);
        self.builder.ins().uextend(types::I64, holds)
    }

    /// One of two numbers: the first one if something is not zero.
    pub(super) fn choose(&mut self, choice: Value, one: Value, other: Value) -> Value {
        self.builder.ins().select(choice, one, other)
    }
}

/// Bytes at any address, of which the caller knows that they are there.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_endianness(Endianness::Little)
}
