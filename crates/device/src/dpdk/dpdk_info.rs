//! # DPDKInfo
//! Sets DPDK's global parameters, as far as they exist here.
//!
//! Tidegate keeps packets in its own pool (`--memory`). Therefore most of FastClick's parameters have no
//! effect here and are only accepted. NB_MBUF applies to ports that cannot use this pool.
//!
//! ## Usage
//! `DPDKInfo([NB_MBUF, KEYWORDS])`
//!
//! ## Arguments
//! - `NB_MBUF`: buffers of each port that cannot use the packet pool.
//! - `NB_SOCKET_MBUF`: accepted, also several times, once per NUMA node; the packet pool has the memory of
//!   `--memory`.
//! - `MBUF_SIZE`: accepted.
//! - `MBUF_CACHE_SIZE`: accepted.
//! - `RX_PTHRESH`: accepted.
//! - `RX_HTHRESH`: accepted.
//! - `RX_WTHRESH`: accepted.
//! - `TX_PTHRESH`: accepted.
//! - `TX_HTHRESH`: accepted.
//! - `TX_WTHRESH`: accepted.
//! - `MEMPOOL_PREFIX`: accepted.
//! - `DEF_RING_NDESC`: accepted.
//! - `DEF_BURST_SIZE`: accepted.
//! - `RING_SIZE`: accepted.
//! - `RING_POOL_CACHE_SIZE`: accepted.
//! - `RING_PRIV_DATA_SIZE`: accepted.
//!
//! ## Handlers
//! - `pool_count`: a line for each pool from which drivers take buffers at this worker: 0, and the number
//!   of free buffers in it.
//! - `pools`: the names of the pools.
//!
//! ## Example
//! ```click
//! DPDKInfo(NB_MBUF 8192);
//! FromDPDKDevice(0) -> Discard
//! ```
//!
//! ## See also
//! FromDPDKDevice, ToDPDKDevice

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, Handler, manual};

use super::ports::Ports;

/// The element class DPDKInfo.
pub static CLASS: Class = Class {
    name: "DPDKInfo",
    ports: "0/0",
    manual: manual!("dpdk_info.rs"),
    args: &[
        ArgInfo::positional("NB_MBUF", "unsigned", ""),
        ArgInfo::keyword("NB_SOCKET_MBUF", "int", ""),
        ArgInfo::keyword("MBUF_SIZE", "int", ""),
        ArgInfo::keyword("MBUF_CACHE_SIZE", "int", ""),
        ArgInfo::keyword("RX_PTHRESH", "int", ""),
        ArgInfo::keyword("RX_HTHRESH", "int", ""),
        ArgInfo::keyword("RX_WTHRESH", "int", ""),
        ArgInfo::keyword("TX_PTHRESH", "int", ""),
        ArgInfo::keyword("TX_HTHRESH", "int", ""),
        ArgInfo::keyword("TX_WTHRESH", "int", ""),
        ArgInfo::keyword("MEMPOOL_PREFIX", "text", ""),
        ArgInfo::keyword("DEF_RING_NDESC", "int", ""),
        ArgInfo::keyword("DEF_BURST_SIZE", "int", ""),
        ArgInfo::keyword("RING_SIZE", "int", ""),
        ArgInfo::keyword("RING_POOL_CACHE_SIZE", "int", ""),
        ArgInfo::keyword("RING_PRIV_DATA_SIZE", "int", ""),
    ],
    table: &HANDLERS,
    phase: ConfigurePhase::Information,
    samples: &["", "65536, MBUF_SIZE 4096, MEMPOOL_PREFIX a", "NB_SOCKET_MBUF 8191, NB_SOCKET_MBUF 4095"],
    build: |args| {
        let buffers: Option<u32> = args.get("NB_MBUF");
        for argument in CLASS.args.iter().skip(1) {
            if argument.ty == "text" {
                args.get::<String>(argument.name);
            } else {
                args.get::<i64>(argument.name);
            }
        }
        let one = args.setup.common.get_or_make(0, One::default);
        if args.setup.worker == 0 && one.0.swap(true, Ordering::Relaxed) {
            args.error("There can be only one instance of DPDKInfo!");
        }
        args.finish()?;
        let ports = Ports::of(args.setup);
        ports.set_buffers(buffers.unwrap_or(0));
        Ok(Box::new(DpdkInfo(ports)))
    },
    ..Class::DEFAULT
};

/// A flag that a graph has a DPDKInfo already; a second one is an error.
#[derive(Default)]
struct One(AtomicBool);

struct DpdkInfo(Arc<Ports>);

impl Element for DpdkInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}

const HANDLERS: &[Handler<DpdkInfo>] = &[
    Handler::read("pool_count", |e, cx, _| {
        Ok(e.0.pools(cx.pool()).iter().map(|(_, free)| format!("0 {free}\n")).collect())
    }),
    Handler::read("pools", |e, cx, _| {
        Ok(e.0.pools(cx.pool()).iter().map(|(pool, _)| format!("{pool}\n")).collect())
    }),
];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn there_is_one_at_most() {
        let errors = TestRun::default().text("DPDKInfo(1024); DPDKInfo(); Idle -> Discard", &[]).unwrap_err();
        assert!(errors.contains("There can be only one instance of DPDKInfo!"), "{errors}");
    }
}
