//! Datagrams that come at a steady pace, and what becomes of each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::traffic::bound;
use crate::{PATIENCE, Space};

/// Datagrams per second.
const RATE: f64 = 5_000.0;

/// How far the sender may be ahead of what has arrived. That is what a ring or a socket holds for somebody who has no turn
/// for a long time, as may be on a busy machine: nothing is lost by that.
const AHEAD: u32 = 200;

/// Numbered datagrams that come at a steady pace: 5,000 a second, or as many as are taken.
#[derive(Debug)]
pub struct Stream {
    sender: thread::JoinHandle<()>,
    receiver: thread::JoinHandle<Vec<u32>>,
    flows: usize,
    progress: Arc<Progress>,
}

/// What the two ends tell each other.
#[derive(Debug, Default)]
struct Progress {
    has_ended: AtomicBool,
    /// Datagrams that have arrived.
    arrived: AtomicU32,
    /// One more than the highest number among them.
    reached: AtomicU32,
}

impl Stream {
    /// Starts to send them to an address, from as many ports as flows.
    pub fn start(from: &Space, to: &Space, address: SocketAddr, flows: usize) -> Stream {
        Stream::new(from, to, address, flows, Some(0))
    }

    /// The same before there is anybody who takes them, which is not waited for.
    pub fn start_early(from: &Space, to: &Space, address: SocketAddr, flows: usize) -> Stream {
        Stream::new(from, to, address, flows, None)
    }

    fn new(from: &Space, to: &Space, address: SocketAddr, flows: usize, taken: Option<u32>) -> Stream {
        let sockets = from.enter(|| {
            let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any address");
            (0..flows).map(bind).collect::<Vec<_>>()
        });
        let socket = to.enter(|| bound(|| UdpSocket::bind(address))).expect("an address of the namespace");
        let set = SockRef::from(&socket).set_recv_buffer_size(8 << 20);
        assert!(set.is_ok() && socket.set_read_timeout(Some(Duration::from_secs(1))).is_ok());
        let progress = Arc::new(Progress::default());
        let of_sender = Arc::clone(&progress);
        let sender = thread::spawn(move || send(&sockets, address, &of_sender, taken));
        let of_receiver = Arc::clone(&progress);
        let receiver = thread::spawn(move || receive(&socket, &of_receiver));
        Stream { sender, receiver, flows, progress }
    }

    /// Waits until so many more have arrived.
    ///
    /// # Panics
    /// They do not arrive.
    pub fn wait_for(&self, more: u32) {
        let arrived = || self.progress.arrived.load(Ordering::Relaxed);
        let (wanted, until) = (arrived() + more, Instant::now() + PATIENCE);
        while arrived() < wanted {
            assert!(Instant::now() < until, "{} datagrams have arrived, not {wanted}", arrived());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it: how many have arrived, how many between the first and the last one of their flow have not, and how many came
    /// again.
    pub fn stop(self) -> [usize; 3] {
        self.progress.has_ended.store(true, Ordering::Relaxed);
        let results = (self.sender.join(), self.receiver.join());
        let (Ok(()), Ok(numbers)) = results else { panic!("a stream has come to grief") };
        let mut flows = BTreeMap::<usize, BTreeSet<u32>>::new();
        for &number in &numbers {
            flows.entry(number as usize % self.flows).or_default().insert(number);
        }
        let different = flows.values().map(BTreeSet::len).sum::<usize>();
        let sent = |flow: &BTreeSet<u32>| match (flow.first(), flow.last()) {
            (Some(first), Some(last)) => (last - first) as usize / self.flows + 1,
            _ => 0,
        };
        [numbers.len(), flows.values().map(sent).sum::<usize>() - different, numbers.len() - different]
    }
}

/// Sends; from the number `taken` on they are taken, or from the one after the first that arrives.
fn send(sockets: &[UdpSocket], address: SocketAddr, progress: &Progress, mut taken: Option<u32>) {
    let mut last = Instant::now();
    let mut due = 0.0;
    let mut number = 0u32;
    while !progress.has_ended.load(Ordering::Relaxed) {
        due += std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64() * RATE;
        let reached = progress.reached.load(Ordering::Relaxed);
        if reached > 0 && taken.is_none() {
            taken = Some(number);
        }
        // What could not be sent in time is not sent in a rush.
        due =
            due.min(taken.map_or(AHEAD, |taken| (reached.max(taken) + AHEAD).saturating_sub(number)).into());
        while due >= 1.0 {
            // While the interface takes nothing there is nothing to be done.
            let _ = sockets[number as usize % sockets.len()].send_to(&number.to_be_bytes(), address);
            (number, due) = (number + 1, due - 1.0);
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// The numbers of what arrives, until nothing does any more.
fn receive(socket: &UdpSocket, progress: &Progress) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut buffer = [0; 4];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => {
                let number = u32::from_be_bytes(buffer);
                numbers.push(number);
                progress.arrived.fetch_add(1, Ordering::Relaxed);
                progress.reached.fetch_max(number + 1, Ordering::Relaxed);
            }
            Err(_) if progress.has_ended.load(Ordering::Relaxed) => return numbers,
            Err(_) => {}
        }
    }
}
