//! Elements on ports of DPDK: drivers write received frames into slots of the pool, and send packets from
//! there.
//!
//! - [`from_dpdk_device`], [`to_dpdk_device`], [`dpdk_info`]: the elements
//! - `ports`: the queues of a graph's elements, and a port's life: configured, started, stopped
//! - `away`: ports that were removed, and come back
//! - `handlers`: handlers of a port
//! - `sys`: the interface to DPDK itself
//!
//! Without the feature `dpdk` the elements are known, and fail at the start with the message that this
//! program has been built without DPDK; `absent` replaces the other modules then.

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(feature = "dpdk")]
mod away;
pub mod dpdk_info;
pub mod from_dpdk_device;
#[cfg(feature = "dpdk")]
mod handlers;
#[cfg(feature = "dpdk")]
mod ports;
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

/// True if the program has been built with DPDK.
pub const IS_BUILT: bool = cfg!(feature = "dpdk");

/// A guard of the running DPDK, which ends when this is dropped.
#[derive(Debug)]
pub struct Running(());

/// The requirements of an element on a port.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "there are no ports"))]
struct Wanted {
    element: usize,
    /// The port's number, name or PCI address.
    port: String,
    sends: bool,
    /// The first queue, if it is given.
    queue: Option<u16>,
    /// The number of queues if it is given, and its limits otherwise.
    queues: Option<u16>,
    least: u16,
    most: u16,
    /// The number of descriptors of each queue; 0 for the port's own choice.
    descriptors: u16,
    promiscuous: bool,
    mac: Option<MacAddr>,
    mtu: Option<u16>,
    /// The number of queues that hashes are spread over.
    spread: Option<u16>,
    /// True if the port is to keep the key by which it spreads packets over queues.
    keeps_key: bool,
    /// The number of packets that may wait in the element.
    room: usize,
    may_be_missing: bool,
}

/// The reason why an element has no port.
#[derive(Debug)]
#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "there are no ports"))]
enum Refused {
    /// There is no such port, which the element may accept.
    Missing(String),
    Failed(String),
}

/// Reads the arguments that both elements have, up to QUEUE.
fn read_wanted(args: &mut Args<'_>, sends: bool) -> Wanted {
    let port: String = args.required("PORT");
    let number = |args: &mut Args<'_>, name| match args.value(name) {
        value @ 0i64..1024 => Some(value as u16),
        // The default.
        -1 => None,
        _ => {
            args.error(format!("{name} out of range"));
            None
        }
    };
    let (queue, queues) = (number(args, "QUEUE"), number(args, "N_QUEUES"));
    let descriptors = args.value::<u16>("NDESC");
    for name in ["MAXTHREADS", "VERBOSE"] {
        // The workers determine the threads.
        args.value::<i64>(name);
    }
    if port.is_empty() {
        args.error("PORT not set");
    }
    let element = args.id();
    let may_be_missing = args.value::<bool>("ALLOW_NONEXISTENT");
    let all =
        Wanted { element, port, sends, queue, queues, descriptors, may_be_missing, ..Wanted::default() };
    Wanted { least: 1, most: 128, ..all }
}
