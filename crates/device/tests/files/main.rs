//! Tests of elements that read and write files: captures, IP summary dumps, and errors of writing.

mod captures;
mod link_types;
mod summaries;
mod writers;
