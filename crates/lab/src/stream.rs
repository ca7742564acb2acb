//! A stream of numbered datagrams at a steady rate, which counts the datagrams that arrive, are lost or are
//! duplicated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::traffic::bound;
use crate::{Namespace, PATIENCE};

/// The number of datagrams that are sent per second, unless the receiver is slower.
const RATE: f64 = 5_000.0;

/// The largest number of datagrams that may be sent after the last one that arrived. A ring or a socket of
/// the tested program can hold as many. So none is lost only because the program gets no processor time, as
/// can happen on a busy machine.
const AHEAD: u32 = 200;

/// A running stream of numbered datagrams: 5,000 per second, or as many as the receiver takes. A thread
/// sends them and another receives them, until [`stop`](Self::stop).
#[derive(Debug)]
pub struct DatagramStream {
    sender: thread::JoinHandle<()>,
    receiver: thread::JoinHandle<Vec<u32>>,
    flows: usize,
    progress: Arc<Progress>,
}

/// The progress of the receiver, which the sender reads to adapt its rate.
#[derive(Debug, Default)]
struct Progress {
    has_ended: AtomicBool,
    /// The number of datagrams that have arrived, duplicates included.
    arrived: AtomicU32,
    /// The highest number of a datagram that has arrived, plus one; 0 before the first.
    reached: AtomicU32,
}

impl DatagramStream {
    /// Starts a stream from namespace `from` to an address in namespace `to`. The datagrams have `flows`
    /// source ports in turn, so they form as many flows.
    ///
    /// # Panics
    /// If `address` cannot be bound in `to`.
    pub fn start(from: &Namespace, to: &Namespace, address: SocketAddr, flows: usize) -> DatagramStream {
        DatagramStream::new(from, to, address, flows, Some(0))
    }

    /// Starts a stream like [`start`](Self::start), for a path to the receiver that may not exist yet.
    /// Until the first datagram arrives, the sender does not wait for the receiver, so datagrams may be
    /// lost.
    pub fn start_early(
        from: &Namespace,
        to: &Namespace,
        address: SocketAddr,
        flows: usize,
    ) -> DatagramStream {
        DatagramStream::new(from, to, address, flows, None)
    }

    fn new(
        from: &Namespace,
        to: &Namespace,
        address: SocketAddr,
        flows: usize,
        taken: Option<u32>,
    ) -> DatagramStream {
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
        DatagramStream { sender, receiver, flows, progress }
    }

    /// Waits until `more` datagrams have arrived since the call.
    ///
    /// # Panics
    /// If they do not arrive within [`PATIENCE`].
    pub fn wait_for(&self, more: u32) {
        let arrived = || self.progress.arrived.load(Ordering::Relaxed);
        let (wanted, until) = (arrived() + more, Instant::now() + PATIENCE);
        while arrived() < wanted {
            assert!(Instant::now() < until, "{} datagrams have arrived, not {wanted}", arrived());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the stream. Returns three counts: the datagrams that arrived, duplicates included; the datagrams
    /// that are missing between the first and the last that arrived of their flow; and the datagrams that
    /// arrived again after they had arrived before.
    pub fn stop(self) -> [usize; 3] {
        let Counted { arrived, missing, doubled, .. } = self.end();
        [arrived, missing, doubled]
    }

    /// Ends the stream, and returns all counts.
    ///
    /// # Panics
    /// If a thread of the stream has panicked.
    pub fn end(self) -> Counted {
        self.progress.has_ended.store(true, Ordering::Relaxed);
        let results = (self.sender.join(), self.receiver.join());
        let (Ok(()), Ok(numbers)) = results else { panic!("a stream has come to grief") };
        let mut flows = BTreeMap::<usize, BTreeSet<u32>>::new();
        let mut overtaken = 0;
        for &number in &numbers {
            let flow = flows.entry(number as usize % self.flows).or_default();
            overtaken += usize::from(flow.last().is_some_and(|&last| number < last));
            flow.insert(number);
        }
        let different = flows.values().map(BTreeSet::len).sum::<usize>();
        let sent = |flow: &BTreeSet<u32>| match (flow.first(), flow.last()) {
            (Some(first), Some(last)) => (last - first) as usize / self.flows + 1,
            _ => 0,
        };
        let missing = flows.values().map(sent).sum::<usize>() - different;
        Counted { arrived: numbers.len(), missing, doubled: numbers.len() - different, overtaken }
    }
}

/// The counts of datagrams of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The datagrams that arrived, duplicates included.
    pub arrived: usize,
    /// The datagrams that are missing between the first and the last that arrived of their flow.
    pub missing: usize,
    /// The datagrams that arrived again after they had arrived before.
    pub doubled: usize,
    /// The datagrams that arrived after a later datagram of their flow.
    pub overtaken: usize,
}

/// Sends datagrams until the stream ends, at most [`AHEAD`] after the last one that arrived. `taken` is the
/// number of the first datagram that the path certainly carries; the sender does not wait for datagrams
/// before it. With `None`, it is the number that is next when the sender notices the first arrival.
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
        // Datagrams that are due but over the limit are never sent, because sending them later in a burst
        // could overload the receiver.
        due =
            due.min(taken.map_or(AHEAD, |taken| (reached.max(taken) + AHEAD).saturating_sub(number)).into());
        while due >= 1.0 {
            // If the interface does not accept the datagram, it counts as sent, and is lost.
            let _ = sockets[number as usize % sockets.len()].send_to(&number.to_be_bytes(), address);
            (number, due) = (number + 1, due - 1.0);
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// Receives datagrams until the stream has ended and nothing arrives for a second. Returns their numbers in
/// the order of arrival.
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
