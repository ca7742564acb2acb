//! Elements on queues of network interfaces by AF_XDP: nothing is copied between the kernel's driver and
//! the pool.
//!
//! - [`from_xdp`], [`to_xdp`]: frames from and to an interface
//! - `interface`: the state of an interface that all workers share: the program, and the guests of each
//!   queue
//! - `key`: the key by which an interface spreads frames over its queues
//! - `port`: a queue of an interface, in two halves that share a socket; `receiver`: the half that receives
//! - `shared`: the state that is shared by the workers that receive from one queue
//! - `sys`: the system calls
//!
//! Received frames are in slots of the pool before Tidegate sees them, and frames are sent from their
//! slots.

pub mod from_xdp;
mod interface;
mod key;
mod port;
mod receiver;
mod shared;
mod sys;
pub mod to_xdp;

use std::sync::{Arc, Mutex};

use element::{Args, Cx};

use port::Transmitter;
use sys::program::MOST_QUEUES;

/// The part of the system that moves frames between the interface and the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The driver if it can, otherwise the kernel.
    Auto,
    Driver,
    Kernel,
}

/// The arguments that both elements have.
#[derive(Clone, Debug)]
struct Wanted {
    device: String,
    /// The only queue. If none is given: all queues for receiving, the first queue for sending.
    queue: Option<u32>,
    mode: Mode,
    /// The number of entries of each ring.
    ring: u32,
    /// True if the interface is to keep the key by which it spreads frames over queues.
    keeps_key: bool,
}

/// A place in which a FromXDP leaves the sending halves of its queues for a ToXDP of the same worker.
struct Offer {
    device: String,
    queues: Mutex<Vec<Option<Transmitter>>>,
}

impl Offer {
    fn new(device: &str) -> Arc<Offer> {
        Arc::new(Offer { device: device.into(), queues: Mutex::new(Vec::new()) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Option<Transmitter>>) -> T) -> T {
        work(&mut self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// Returns the index of this copy of an element and the number of its copies: one copy per worker, or one
/// in all.
fn copy_of(cx: &Cx<'_>) -> (usize, usize) {
    match cx.workers().copies(cx.id()) {
        0 | 1 => (0, 1),
        copies => (cx.worker().0, copies),
    }
}

/// Reads the arguments that both elements have.
fn read_wanted(args: &mut Args<'_>) -> Wanted {
    let device: String = args.required("DEVNAME");
    let queue: Option<u32> = args.get("QUEUE");
    let mode = args.value::<String>("MODE");
    let ring = args.value::<u32>("RING");
    if device.is_empty() {
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
