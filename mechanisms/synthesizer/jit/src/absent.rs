//! The replacement for machine code where none can be made.

use crate::{Check, Constant, Exactly, Lane, ROW, Updates};

/// Conditions cannot be compiled: the type has no values.
pub enum Conditions {}

impl Conditions {
    /// Returns `None`.
    pub fn new(_: &[Exactly], _: &[Check], _: usize) -> Option<Conditions> {
        None
    }

    /// Is never called.
    pub fn differ(&self, _: &[u8]) -> u64 {
        match *self {}
    }
}

/// Writes cannot be compiled: the type has no values.
pub enum Writes {}

impl Writes {
    /// Returns `None`.
    pub fn new(_: &[Constant], _: &[Lane], _: Updates, _: usize) -> Option<Writes> {
        None
    }

    /// Is never called.
    pub fn window(&self) -> usize {
        match *self {}
    }

    /// Is never called.
    pub fn write(&self, _: &mut [u8], _: &[u8; ROW]) -> bool {
        match *self {}
    }
}
