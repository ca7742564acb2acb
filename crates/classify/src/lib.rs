//! Which packets: sets of field values, and the languages that describe them.
//!
//! - [`IntervalSet`]: a set of numbers as disjoint intervals, the currency of declared effects
//! - [`pattern`]: Click's byte patterns (`12/0800 33/02%12`), compiled into a decision tree

mod interval;
pub mod pattern;

pub use interval::IntervalSet;
