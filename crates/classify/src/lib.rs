//! The classification of packets. The crate has sets of field values, and the languages in which users
//! describe packets. It also has data structures that find the first matching rule or the longest prefix.
//!
//! - [`IntervalSet`]: a set of numbers as disjoint intervals, used by the declared effects of elements
//! - [`Tree`]: a Boolean expression over tests of any type
//! - [`linear`]: whole numbers that depend on a packet: a constant plus multiples of the packet's fields
//! - [`filter`]: Click's expressions over IP packets (`src net 10/8 and tcp port www`), and matchers that
//!   find the first of many expressions that holds
//! - [`cuts`], [`products`]: find the first of many boxes over header fields that contains a packet; `cuts`
//!   by decision trees, `products` by tables
//! - [`prefixes`]: longest-prefix match (LPM) over IPv4 and IPv6 addresses
//! - [`pattern`]: Click's byte patterns (`12/0800 33/02%12`), compiled into a decision graph

pub mod cuts;
mod decision;
pub mod filter;
mod interval;
pub mod linear;
pub mod pattern;
pub mod prefixes;
pub mod products;
mod tree;

pub use interval::IntervalSet;
pub use tree::Tree;
