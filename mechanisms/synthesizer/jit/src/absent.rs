//! Placeholders for [`Conditions`] and [`Writes`] in builds that cannot make machine code. They have no
//! values, so the interpreter's tables of conditions and writes are used.

use crate::{Constant, Exactly, Lane, ROW, RangeCheck, Updates};

/// Machine code for the conditions of a trail. It cannot be made in this build, so the type has no values.
pub enum Conditions {}

impl Conditions {
    /// Returns `None`: no machine code can be made.
    pub fn new(_: &[Exactly], _: &[RangeCheck], _: usize) -> Option<Conditions> {
        None
    }

    /// Cannot be called, because there are no values of this type.
    pub fn differ(&self, _: &[u8]) -> u64 {
        match *self {}
    }
}

/// Machine code for the writes of a class. It cannot be made in this build, so the type has no values.
pub enum Writes {}

impl Writes {
    /// Returns `None`: no machine code can be made.
    pub fn new(_: &[Constant], _: &[Lane], _: Updates, _: usize) -> Option<Writes> {
        None
    }

    /// Cannot be called, because there are no values of this type.
    pub fn window(&self) -> usize {
        match *self {}
    }

    /// Cannot be called, because there are no values of this type.
    pub fn write(&self, _: &mut [u8], _: &[u8; ROW]) -> bool {
        match *self {}
    }
}
