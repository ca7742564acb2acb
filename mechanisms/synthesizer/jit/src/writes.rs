//! Machine code for the writes of a class to the bytes of a packet, including its checksums: one function
//! does all of them.

use cranelift_codegen::ir::Value;

use super::code::{Body, Code};
use super::conditions::{all, span};
use crate::{Constant, Lane, ROW, Updates};

/// The compiled writes of a class, within the first `window` bytes of a packet's slot.
pub struct Writes {
    code: Code,
    window: usize,
}

/// The change of a checksum under construction: a sum of 16-bit words in one's complement arithmetic. The
/// sum is wider than 16 bits and only folded at the end. `most` is the largest value that it can have,
/// which determines the number of foldings.
#[derive(Clone, Copy, Default)]
struct Change {
    sum: Option<Value>,
    most: u64,
}

impl Writes {
    /// Compiles writes and checksum updates within the first `window` bytes of a packet's slot. Returns
    /// `None` if machine code cannot be made, or if a lane or a checksum lies outside of these bytes. Also
    /// returns `None` if a lane takes values that are not in the row of the flow.
    pub fn new(constants: &[Constant], lanes: &[Lane], updates: Updates, window: usize) -> Option<Writes> {
        // Instructions hold offsets as 32-bit numbers.
        i32::try_from(window).ok()?;
        // The compiled function accesses only bytes of its lanes, checksums and values, so all of them have
        // to lie within `window` and the row.
        let ends = updates.iter().flatten().map(|(place, _)| place.saturating_add(2));
        let ends = ends.chain(constants.iter().map(|constant| constant.place.saturating_add(8)));
        let ends = ends.chain(lanes.iter().map(|lane| lane.place.saturating_add(8)));
        let takes_from_row = |lane: &Lane| lane.take == 0 || !lane.is_gathered && lane.from <= ROW - 8;
        if ends.max().is_some_and(|end| end > window) || !lanes.iter().all(takes_from_row) {
            return None;
        }
        let code = Code::new(2, |body, params| {
            let (bytes, row) = (params[0], params[1]);
            for constant in constants {
                put(body, bytes, constant);
            }
            let mut changes = [Change::default(); 2];
            for lane in lanes {
                write(body, bytes, row, lane, &mut changes);
            }
            for (update, change) in updates.iter().zip(changes) {
                if let Some((place, is_optional)) = *update {
                    sum_up(body, bytes, place, is_optional, change);
                }
            }
            body.constant(0)
        })?;
        Some(Writes { code, window })
    }

    /// Returns the number of bytes of the packet's slot that [`write`](Self::write) needs.
    #[inline(always)]
    pub fn window(&self) -> usize {
        self.window
    }

    /// Applies the writes to the bytes of a packet's slot, with the row of the packet's flow. Returns false
    /// and writes nothing if `bytes` is shorter than [`window`](Self::window).
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn write(&self, bytes: &mut [u8], row: &[u8; ROW]) -> bool {
        if bytes.len() < self.window {
            return false;
        }
        // SAFETY: `start` is the start of a function that was made for two addresses, with the calling
        // convention that is named here. The function reads and writes bytes within `window` of the first
        // address, which exist and are borrowed exclusively, and reads bytes within ROW of the second
        // address. Its memory lives as long as `self`.
        unsafe {
            let function: extern "sysv64" fn(*mut u8, *const u8) -> u64 =
                std::mem::transmute(self.code.start());
            function(bytes.as_mut_ptr(), row.as_ptr());
        }
        true
    }
}

/// Adds the instructions for a lane of constants. If only whole bytes are written, nothing is read.
fn put(body: &mut Body<'_>, bytes: Value, &Constant { place, keep, put }: &Constant) {
    let kept = keep.to_le_bytes();
    let is_whole = kept.iter().all(|byte| matches!(byte, 0 | 0xff));
    if is_whole {
        let mut at = 0;
        while at < 8 {
            let run = kept[at..].iter().take_while(|byte| **byte == 0).count();
            let Some(width) = [8, 4, 2, 1].into_iter().find(|width| *width <= run) else {
                at += 1;
                continue;
            };
            let number = body.constant(put >> (8 * at));
            body.store(width, bytes, place + at, number);
            at += width;
        }
        return;
    }
    let (first, width) = span(!keep);
    let shift = 8 * first as u32;
    let old = body.load(width, bytes, place + first);
    let kept = body.and(old, keep >> shift & all(width));
    let put = body.constant(put >> shift & all(width));
    let new = body.or(kept, put);
    body.store(width, bytes, place + first, new);
}

/// Adds the instructions for a lane. Of its eight bytes, 1, 2, 4 or 8 consecutive bytes are loaded and
/// stored. They contain all bytes that the lane writes, and whole 16-bit words that a checksum accounts for.
/// The changes of the IPv4 and the transport checksum are added to `changes`.
fn write(body: &mut Body<'_>, bytes: Value, row: Value, lane: &Lane, changes: &mut [Change; 2]) {
    let [network, transport] = lane.covers;
    // In the lane the first byte is the highest byte of the number; in loaded memory it is the lowest.
    let wanted = (!lane.keep | network | transport).swap_bytes();
    // 16-bit words of checksums begin at even offsets of the lane, so the loaded part has to begin at an
    // even offset, too.
    let even = if network | transport == 0 { 0 } else { (wanted & 0xff00_ff00_ff00_ff00) >> 8 };
    let (first, width) = span(wanted | even);
    let shift = 8 * (8 - first - width) as u32;
    let narrow = |bits: u64| bits >> shift & all(width);
    let place = lane.place + first;
    let native = body.load(width, bytes, place);
    let old = body.swap(width, native);
    let mut new = body.and(old, narrow(lane.keep));
    if lane.sum != 0 {
        let plus = body.constant(narrow(lane.add));
        let sum = body.add(old, plus);
        let sum = body.and(sum, narrow(lane.sum));
        new = body.or(new, sum);
    }
    if lane.put != 0 {
        let put = body.constant(narrow(lane.put));
        new = body.or(new, put);
    }
    if lane.take != 0 {
        let values = body.load(8, row, lane.from);
        let values = body.swap(8, values);
        let values = body.turn_left(values, lane.turn);
        let values = body.shift_right(values, shift);
        let values = body.and(values, narrow(lane.take));
        new = body.or(new, values);
    }
    let swapped = body.swap(width, new);
    body.store(width, bytes, place, swapped);
    for (change, covers) in changes.iter_mut().zip(lane.covers) {
        if covers != 0 {
            change.add(body, old, new, narrow(covers), width);
        }
    }
}

impl Change {
    /// Adds the change of a number in the packet to this change of a checksum. Of the number, which has
    /// `width` bytes and changes from `old` to `new`, only the bits in `covers` count: the bits that the
    /// checksum accounts for.
    fn add(&mut self, body: &mut Body<'_>, old: Value, new: Value, covers: u64, width: usize) {
        let not_old = body.xor(old, u64::MAX);
        for number in [not_old, new] {
            let words = body.and(number, covers);
            // In one's complement arithmetic, 2^16 counts as 1. So the sum of the 32-bit halves of eight
            // bytes is equivalent to the sum of their 16-bit words.
            let halves = match width {
                8 => {
                    let high = body.shift_right(words, 32);
                    let low = body.and(words, 0xffff_ffff);
                    body.add(high, low)
                }
                _ => words,
            };
            self.sum = Some(match self.sum {
                Some(sum) => body.add(sum, halves),
                None => halves,
            });
            self.most += if width == 8 { 2 * 0xffff_ffff } else { covers };
        }
    }
}

/// Adds the update of the checksum at `place` by a change (RFC 1624, equation 3). It does the same as
/// [`wire::checksum::Delta::apply`], or as `apply_udp` if `is_optional`: a checksum of zero stays zero.
fn sum_up(body: &mut Body<'_>, bytes: Value, place: usize, is_optional: bool, change: Change) {
    let native = body.load(2, bytes, place);
    let old = body.swap(2, native);
    let not_old = body.xor(old, 0xffff);
    // 0xffff counts as zero in one's complement arithmetic; adding it keeps the sum from being 0, so that the
    // checksum does not become 0xffff.
    let nothing = body.constant(0xffff);
    let mut sum = body.add(not_old, nothing);
    if let Some(change) = change.sum {
        sum = body.add(sum, change);
    }
    let mut most = change.most + 2 * 0xffff;
    while most > 0xffff {
        let low = body.and(sum, 0xffff);
        let high = body.shift_right(sum, 16);
        sum = body.add(low, high);
        // The last carry is at most 1, and does not cause another carry.
        most = if most <= 0x1_fffe { 0xffff } else { 0xffff + (most >> 16) };
    }
    let new = body.xor(sum, 0xffff);
    let new = if is_optional {
        let negative_zero = body.constant(0xffff);
        let is_zero = body.is(new, 0);
        let new = body.choose(is_zero, negative_zero, new);
        body.choose(old, new, old)
    } else {
        new
    };
    let swapped = body.swap(2, new);
    body.store(2, bytes, place, swapped);
}
