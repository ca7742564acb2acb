//! The replacement for machine code where none can be made.

use super::super::flows::ROW;
use super::super::lane::{Constant, Lane};
use super::super::trail::{Check, Exactly};
use super::Updates;

/// Conditions cannot be compiled: the type has no values.
pub(in crate::program) enum Conditions {}

impl Conditions {
    pub(in crate::program) fn new(_: &[Exactly], _: &[Check], _: usize) -> Option<Conditions> {
        None
    }

    pub(in crate::program) fn differ(&self, _: &[u8]) -> u64 {
        match *self {}
    }
}

/// Writes cannot be compiled: the type has no values.
pub(in crate::program) enum Writes {}

impl Writes {
    pub(in crate::program) fn new(_: &[Constant], _: &[Lane], _: Updates, _: usize) -> Option<Writes> {
        None
    }

    pub(in crate::program) fn window(&self) -> usize {
        match *self {}
    }

    pub(in crate::program) fn write(&self, _: &mut [u8], _: &[u8; ROW]) -> bool {
        match *self {}
    }
}
