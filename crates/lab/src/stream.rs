//! Datagrams that do not wait for anybody.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::Space;

/// Numbered datagrams that come at a steady pace, 5,000 a second, and are sent whether anybody takes them or not.
#[derive(Debug)]
pub struct Stream {
    sender: thread::JoinHandle<()>,
    receiver: thread::JoinHandle<Vec<u32>>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    /// Starts to send them to an address, from as many ports as flows.
    pub fn start(from: &Space, to: &Space, address: SocketAddr, flows: usize) -> Stream {
        let sockets = from.enter(|| {
            let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any address");
            (0..flows).map(bind).collect::<Vec<_>>()
        });
        let receiver = to.enter(|| UdpSocket::bind(address)).expect("an address of the namespace");
        let set = SockRef::from(&receiver).set_recv_buffer_size(8 << 20);
        assert!(set.is_ok() && receiver.set_read_timeout(Some(Duration::from_secs(1))).is_ok());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = [Arc::clone(&stop), Arc::clone(&stop)];
        let [sender_stops, receiver_stops] = stopped;
        let sender = thread::spawn(move || {
            let start = Instant::now();
            let mut number = 0u32;
            while !sender_stops.load(Ordering::Relaxed) {
                while f64::from(number) < start.elapsed().as_secs_f64() * 5_000.0 {
                    // While the interface takes nothing there is nothing to be done.
                    let _ = sockets[number as usize % flows].send_to(&number.to_be_bytes(), address);
                    number += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        let receiver = thread::spawn(move || {
            let mut numbers = Vec::new();
            let mut buffer = [0; 4];
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => numbers.push(u32::from_be_bytes(buffer)),
                    Err(_) if receiver_stops.load(Ordering::Relaxed) => return numbers,
                    Err(_) => {}
                }
            }
        });
        Stream { sender, receiver, stop }
    }

    /// Ends it: how many have arrived, how many between the first and the last one have not, and how many came again.
    pub fn stop(self) -> [usize; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let results = (self.sender.join(), self.receiver.join());
        let (Ok(()), Ok(numbers)) = results else { panic!("a stream has come to grief") };
        let all: BTreeSet<u32> = numbers.iter().copied().collect();
        let range = all.last().zip(all.first()).map_or(0, |(last, first)| (last - first + 1) as usize);
        [numbers.len(), range - all.len(), numbers.len() - all.len()]
    }
}
