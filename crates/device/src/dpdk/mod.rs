//! Elements that receive from and send to ports of DPDK. Drivers that can do so write received frames into
//! slots of the packet pool, and send packets from there.
//!
//! - [`from_dpdk_device`], [`to_dpdk_device`], [`dpdk_info`]: the elements
//! - `ports`: the ports of a graph, from their configuration to their end, and the queues of elements;
//!   `shares`: the assignment of queues to elements
//! - `end`: the network interface that a port uses
//! - `away`: ports whose devices were removed, and their return
//! - `handlers`: handlers that query and change a running port
//! - `start`: starts DPDK
//! - `sys`: the interface to DPDK
//! - `absent`: replaces these modules in a program that is built without the feature `dpdk`
//!
//! Without the feature, the elements exist, but cannot be initialized: the error says that the program was
//! built without DPDK.

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(feature = "dpdk")]
mod away;
pub mod dpdk_info;
#[cfg(feature = "dpdk")]
mod end;
pub mod from_dpdk_device;
#[cfg(feature = "dpdk")]
mod handlers;
#[cfg(feature = "dpdk")]
mod ports;
#[cfg(feature = "dpdk")]
mod shares;
#[cfg(feature = "dpdk")]
mod start;
#[cfg(feature = "dpdk")]
mod sys;
pub mod to_dpdk_device;

#[cfg(not(feature = "dpdk"))]
use absent as ports;
#[cfg(not(feature = "dpdk"))]
use absent as away;
#[cfg(not(feature = "dpdk"))]
pub use absent::start;
#[cfg(feature = "dpdk")]
pub use start::start;

use element::Args;
use wire::ethernet::MacAddr;

/// True if the program has been built with the feature `dpdk`.
pub const IS_BUILT: bool = cfg!(feature = "dpdk");

/// A guard of the running DPDK. When the guard is dropped, all ports are closed and DPDK ends.
#[derive(Debug)]
pub struct RunningDpdk(());

/// The report of a port on a packet that it has received.
#[derive(Clone, Copy, Debug, Default)]
struct RxReport {
    /// The hash by which the port spreads packets over queues; 0 if it has computed none.
    hash: u32,
    /// True if the port has found the transport checksum right.
    is_right: bool,
}

/// The requirements of an element on a port: its arguments that concern the port.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "there are no ports"))]
struct Wanted {
    element: usize,
    /// The port's number, name or PCI address (PORT).
    port: String,
    sends: bool,
    /// The number of the first queue (QUEUE), if it is given.
    queue: Option<u16>,
    /// The number of queues (N_QUEUES) if it is given; otherwise its limits (MINQUEUES, MAXQUEUES).
    queues: Option<u16>,
    least: u16,
    most: u16,
    /// The number of descriptors of each queue (NDESC); 0 for the usual number.
    descriptors: u16,
    promiscuous: bool,
    mac: Option<MacAddr>,
    mtu: Option<u16>,
    /// The number of queues over which the port spreads packets (MAX_RSS), if it is given.
    spread: Option<u16>,
    /// True if the port is to keep its own key, by which it spreads packets over queues (RSS_KEY own).
    keeps_key: bool,
    /// The number of packets that may wait in the element (IQUEUE).
    room: usize,
    may_be_missing: bool,
}

/// The reason why a port could not be opened for an element.
#[derive(Debug)]
#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "there are no ports"))]
enum Refused {
    /// There is no port of this name. With ALLOW_NONEXISTENT, the element then runs without a port.
    Missing(String),
    Failed(String),
}

/// Reads the arguments that FromDPDKDevice and ToDPDKDevice have in common. The caller adds the arguments
/// of one class.
fn read_wanted(args: &mut Args<'_>, sends: bool) -> Wanted {
    let port: String = args.required("PORT");
    let number = |args: &mut Args<'_>, name| match args.value(name) {
        value @ 0i64..1024 => Some(value as u16),
        // -1 means that the argument is not given.
        -1 => None,
        _ => {
            args.error(format!("{name} out of range"));
            None
        }
    };
    let (queue, queues) = (number(args, "QUEUE"), number(args, "N_QUEUES"));
    let descriptors = args.value::<u16>("NDESC");
    for name in ["MAXTHREADS", "VERBOSE"] {
        // Accepted without effect: `--threads` and StaticThreadSched determine the threads, and there are no
        // messages that VERBOSE could request.
        args.value::<i64>(name);
    }
    if port.is_empty() && args.was_given("PORT") {
        args.error("PORT not set");
    }
    let element = args.id();
    let may_be_missing = args.value::<bool>("ALLOW_NONEXISTENT");
    let all =
        Wanted { element, port, sends, queue, queues, descriptors, may_be_missing, ..Wanted::default() };
    Wanted { least: 1, most: 128, ..all }
}
