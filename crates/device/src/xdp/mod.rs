//! Elements that receive from and send to network interfaces by AF_XDP. If the driver supports it, frames
//! are received into slots of the pool and sent from them without a copy.
//!
//! - [`from_xdp`], [`to_xdp`]: the elements FromXDP and ToXDP
//! - `interface`: the state of an interface that all workers share: the XDP program, and the guest sockets
//!   of each queue
//! - `seat`: the place of a FromXDP at its interface, which a reload passes on
//! - `key`: the secret key by which an interface spreads frames over its queues
//! - `port`: a queue of an interface, whose sending and receiving halves share a socket; `receiver`: the
//!   receiving half; `outlet`: the sending half as elements share it
//! - `shared`: the state of a queue that several workers receive from
//! - `sys`: the system calls

pub mod from_xdp;
mod interface;
mod key;
mod outlet;
mod port;
mod receiver;
mod seat;
mod shared;
mod sys;
pub mod to_xdp;

use element::Args;

use sys::program::MOST_QUEUES;

/// The argument MODE: the part of the system that runs the XDP program and moves frames between the
/// interface and the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The driver if it supports AF_XDP, otherwise the kernel.
    Auto,
    Driver,
    Kernel,
}

/// The arguments that FromXDP and ToXDP have in common.
#[derive(Clone, Debug)]
struct Wanted {
    device: String,
    /// The number of the only queue to use. With `None`, FromXDP receives from all queues, and each copy of
    /// ToXDP sends by a queue that its worker has open, or else by the queue with the copy's own index, if
    /// the interface has it.
    queue: Option<u32>,
    mode: Mode,
    /// The number of entries of each of a socket's rings: a power of two.
    ring: u32,
    /// True if the interface is to keep its own key, by which it spreads frames over its queues (RSS_KEY
    /// own).
    keeps_key: bool,
}

/// The service that every FromXDP publishes, so that the FromXDP elements of a graph can be counted: the
/// elements of a worker share its pool.
struct Receives;

/// Reads the arguments that FromXDP and ToXDP have in common, and registers an error for each that is
/// wrong.
fn read_wanted(args: &mut Args<'_>) -> Wanted {
    let device: String = args.required("DEVNAME");
    let queue: Option<u32> = args.get("QUEUE");
    let mode = args.value::<String>("MODE");
    let ring = args.value::<u32>("RING");
    if device.is_empty() && args.was_given("DEVNAME") {
        args.error("interface not set");
    }
    if queue.is_some_and(|queue| queue >= MOST_QUEUES) {
        args.error("QUEUE out of range");
    }
    if !ring.is_power_of_two() || !(64..=16384).contains(&ring) {
        args.error("RING: a power of two from 64 to 16384 expected");
    }
    let mode = match mode.as_str() {
        "auto" => Mode::Auto,
        "native" | "drv" | "xdp" => Mode::Driver,
        "skb" | "copy" => Mode::Kernel,
        other => {
            args.error(format!("invalid mode \"{other}\" must be (auto|native|skb|xdp|drv|copy)"));
            Mode::Auto
        }
    };
    Wanted { device, queue, mode, ring, keeps_key: false }
}
