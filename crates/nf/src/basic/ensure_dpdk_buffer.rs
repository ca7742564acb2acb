//! # EnsureDPDKBuffer
//! Passes packets unchanged.
//!
//! In FastClick, the element copies packets into buffers of DPDK, because ToDPDKDevice needs them there.
//! Here, ToDPDKDevice takes packets from the packet pool, and copies those that a card cannot reach by
//! itself. So the element has nothing to do, and its arguments have no effect.
//!
//! ## Usage
//! `EnsureDPDKBuffer([FORCE_COPY, EXTRA_HEADROOM, KEYWORDS])`
//!
//! ## Arguments
//! - `FORCE_COPY`: accepted.
//! - `EXTRA_HEADROOM`: accepted; the headroom is always 256 bytes.
//! - `FAIL`: accepted; no packet is outside of the packet pool. Not together with FORCE_COPY.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> EnsureDPDKBuffer -> Discard
//! ```
//!
//! ## See also
//! ToDPDKDevice, Null

use element::class::ArgInfo;
use element::{Class, manual};

use super::null::Null;

/// The element class `EnsureDPDKBuffer`.
pub static CLASS: Class = Class {
    name: "EnsureDPDKBuffer",
    manual: manual!("ensure_dpdk_buffer.rs"),
    args: &[
        ArgInfo::positional("FORCE_COPY", "bool", "false"),
        ArgInfo::positional("EXTRA_HEADROOM", "int", "0"),
        ArgInfo::keyword("FAIL", "bool", "false"),
    ],
    samples: &["", "true, 64", "FAIL true"],
    build: |args| {
        let copies = args.value::<bool>("FORCE_COPY");
        args.value::<i32>("EXTRA_HEADROOM");
        if args.value::<bool>("FAIL") && copies {
            args.error("You cannot have both FORCE_COPY and FAIL at the same time");
        }
        Null::build(args)
    },
    ..Class::DEFAULT
};
