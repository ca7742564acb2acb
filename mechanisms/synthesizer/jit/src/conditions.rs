//! Machine code for the conditions of a trail on a packet's bytes: one function tests all of them.

use super::code::{Body, Code};
use crate::{Exactly, RangeCheck};
use cranelift_codegen::ir::Value;

/// The compiled conditions of a trail, which read the first `window` bytes of a packet.
pub struct Conditions {
    code: Code,
    window: usize,
}

impl Conditions {
    /// Compiles conditions that read the first `window` bytes of a packet. Returns `None` if machine code
    /// cannot be made, if a condition reads bytes beyond `window`, or if a range check shifts out all bits.
    pub fn new(exactly: &[Exactly], checks: &[RangeCheck], window: usize) -> Option<Conditions> {
        // Instructions hold offsets as 32-bit numbers.
        i32::try_from(window).ok()?;
        // The compiled function reads bytes of its conditions only, so all of them have to lie within
        // `window`.
        let ends = exactly.iter().map(|exactly| exactly.place.saturating_add(16));
        let ends = ends.chain(checks.iter().map(|check| usize::from(check.place) + 8));
        if ends.max().is_some_and(|end| end > window) || checks.iter().any(|check| check.shift >= 64) {
            return None;
        }
        let code = Code::new(1, |body, params| {
            let bytes = params[0];
            let mut differs = None;
            for &Exactly { place, mask, bits } in exactly {
                for half in 0..2 {
                    let of = |number: u128| (number >> (64 * half)) as u64;
                    if of(mask) != 0 {
                        let other = exact(body, bytes, place + 8 * half, of(mask), of(bits));
                        add(body, &mut differs, other);
                    }
                }
            }
            for check in checks {
                let other = range(body, bytes, check);
                add(body, &mut differs, other);
            }
            differs.unwrap_or_else(|| body.constant(0))
        })?;
        Some(Conditions { code, window })
    }

    /// Tests the conditions on the bytes of a packet from its start. Returns zero if all conditions hold, and
    /// another number if a condition does not hold or if `bytes` is shorter than `window`.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn differ(&self, bytes: &[u8]) -> u64 {
        if bytes.len() < self.window {
            return u64::MAX;
        }
        // SAFETY: `start` is the start of a function that was made for one address, with the calling
        // convention that is named here. The function reads bytes within `window` of the address, which
        // exist, and writes nothing. Its memory lives as long as `self`.
        unsafe {
            let function: extern "sysv64" fn(*const u8) -> u64 = std::mem::transmute(self.code.start());
            function(bytes.as_ptr())
        }
    }
}

fn add(body: &mut Body<'_>, differs: &mut Option<Value>, other: Value) {
    *differs = Some(match *differs {
        Some(differs) => body.or(differs, other),
        None => other,
    });
}

/// Adds a comparison of the eight bytes at `place` with required values. Returns the tested bits that
/// differ, in the machine's byte order; zero if the condition holds.
fn exact(body: &mut Body<'_>, bytes: Value, place: usize, mask: u64, bits: u64) -> Value {
    let (first, width) = span(mask);
    let number = body.load(width, bytes, place + first);
    let shift = 8 * first as u32;
    let differs = body.xor(number, bits >> shift & all(width));
    let mask = mask >> shift;
    if mask == all(width) { differs } else { body.and(differs, mask) }
}

/// Adds the instructions that test whether the number that `check` reads from the packet is in the required
/// range. Their result is 1 if the number is outside of the range, else 0.
fn range(body: &mut Body<'_>, bytes: Value, check: &RangeCheck) -> Value {
    let length = 8 - usize::from(check.shift) / 8;
    // For a number of 3, 5, 6 or 7 bytes, eight bytes are read, and the bytes after the number are shifted
    // out.
    let width = if matches!(length, 1 | 2 | 4) { length } else { 8 };
    let number = body.load(width, bytes, check.place.into());
    let number = body.swap(width, number);
    let number = body.shift_right(number, 8 * (width - length) as u32);
    let number = if check.mask == all(length) { number } else { body.and(number, check.mask) };
    let low = body.constant(check.low.wrapping_neg());
    let above = if check.low == 0 { number } else { body.add(number, low) };
    body.is_above(above, check.span)
}

/// Returns the smallest group of 1, 2, 4 or 8 of eight bytes that can be loaded at once and contains all bits
/// of a mask: the index of the group's first byte, and its width in bytes. The mask must not be zero.
pub(super) fn span(mask: u64) -> (usize, usize) {
    let first = (mask.trailing_zeros() / 8) as usize;
    let last = 7 - (mask.leading_zeros() / 8) as usize;
    let width = (last - first + 1).next_power_of_two();
    (first.min(8 - width), width)
}

/// Returns a mask with all bits of the lowest `width` bytes of a number set.
pub(super) fn all(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}
