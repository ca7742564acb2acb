//! Elements that pass, drop, copy, count and print packets, regardless of their headers, and an element
//! that spends time on packets.

pub mod align;
pub mod average_counter;
pub mod check_length;
pub mod counter;
pub mod discard;
pub mod ensure_dpdk_buffer;
pub mod idle;
pub mod multi_counter;
pub mod null;
pub mod print;
pub mod pull_null;
pub mod pull_tee;
pub mod push_null;
pub mod search;
pub mod string_matcher;
pub mod strip;
pub mod tee;
pub mod unstrip;
pub mod unstrip_anno;
pub mod work_package;
