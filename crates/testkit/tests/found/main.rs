//! Tests with captures from other sources, outside the repository: the main jobs, and all example
//! configurations.

mod captures;
mod emitted;
