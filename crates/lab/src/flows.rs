//! TCP connections that send as fast as possible, and measurements of the data rate and the processor time
//! at the receiver.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use socket2::{Domain, Protocol, Socket, Type};

use crate::traffic::{SILENCE, accept, control, joined, listen};
use crate::{CONTROL, Namespace};

/// The largest number of bytes in one read or write.
const CHUNK: usize = 128 << 10;

/// The TCP connections of an experiment, which send at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections<'f> {
    /// The number of connections that send at the same time.
    pub count: u16,
    /// The source port of the first connection; each further connection uses the next port. With `None`,
    /// the kernel chooses the ports.
    pub first_port: Option<u16>,
    /// The congestion control of the connections, by its name in the kernel (tcp(7), `TCP_CONGESTION`).
    pub control: &'f str,
}

impl Connections<'_> {
    /// Returns a description of `count` connections with ports that the kernel chooses and the congestion
    /// control [`CONTROL`].
    pub const fn new(count: u16) -> Connections<'static> {
        Connections { count, first_port: None, control: CONTROL }
    }
}

/// The measurements at the receiver of one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// The rate of the data that arrived, in bits per second.
    pub rate: f64,
    /// The part of one processor (0 to 1) that the receiving thread used.
    pub busy: f64,
}

/// Sends over one TCP connection from namespace `from` to an address in namespace `to`, as fast as possible.
/// The measurement begins when the connection has run for a quarter of `time`, and ends with the first data
/// that arrive `time` later. Returns the rate of the data that arrived, in bits per second.
///
/// # Errors
/// If the connection cannot be opened, ends early, or receives no data for eight seconds.
pub fn flow(from: &Namespace, to: &Namespace, address: SocketAddr, time: Duration) -> Result<f64> {
    let received = flows(from, to, address, &Connections::new(1), time)?;
    Ok(received.iter().map(|one| one.rate).sum())
}

/// Sends like [`flow`], over several connections at once. Returns the measurements of each connection.
///
/// # Errors
/// As for [`flow`], or if a source port or the congestion control is not available.
pub fn flows(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    flows: &Connections<'_>,
    time: Duration,
) -> Result<Vec<Received>> {
    let listener = to.enter(|| listen(address))?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = &done;
        let send = |number: u16| -> Result<()> {
            let mut stream = from.enter(|| connect(flows, number, address))?;
            stream.set_write_timeout(Some(SILENCE))?;
            let data = vec![0; CHUNK];
            while !done.load(Ordering::Relaxed) {
                match stream.write_all(&data) {
                    // After the measurement the receiver closes the connection, so a failed write is no
                    // error.
                    Err(_) if done.load(Ordering::Relaxed) => break,
                    result => result?,
                }
            }
            Ok(())
        };
        let senders: Vec<_> = (0..flows.count).map(|number| scope.spawn(move || send(number))).collect();
        let streams: Result<Vec<_>> = senders
            .iter()
            .map(|_| accept(&listener, || senders.iter().any(|sender| sender.is_finished())))
            .collect();
        let measured = streams.and_then(|streams| {
            let receive = |stream: TcpStream| scope.spawn(move || Ok((receive(&stream, time)?, stream)));
            let receivers: Vec<_> = streams.into_iter().map(receive).collect();
            // All receivers keep their streams until all have been measured, so that no connection ends
            // during the measurement of another.
            let all: Vec<Result<(Received, TcpStream)>> = receivers.into_iter().map(joined).collect();
            done.store(true, Ordering::Relaxed);
            all.into_iter().map(|one| one.map(|(received, _)| received)).collect()
        });
        done.store(true, Ordering::Relaxed);
        let sent: Result<()> = senders.into_iter().map(joined).collect::<Vec<_>>().into_iter().collect();
        // The sender's error goes first, because it says why a connection is missing that the receiver waits
        // for.
        sent.and(measured)
    })
}

fn connect(flows: &Connections<'_>, number: u16, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    control(&socket, flows.control)?;
    if let Some(first) = flows.first_port {
        let any = match address {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(any, first + number).into())?;
    }
    socket.connect_timeout(&address.into(), SILENCE)?;
    Ok(socket.into())
}

fn receive(mut stream: &TcpStream, time: Duration) -> Result<Received> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffer = vec![0; CHUNK];
    let connected = Instant::now();
    let (mut begun, mut bytes) = (None, 0u64);
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match begun {
            None if connected.elapsed() >= time / 4 => begun = Some((Instant::now(), used()?)),
            None => {}
            Some((begun, before)) => {
                bytes += n as u64;
                let passed = begun.elapsed();
                if passed >= time {
                    let passed = passed.as_secs_f64();
                    let busy = (used()? - before) / passed;
                    return Ok(Received { rate: bytes as f64 * 8.0 / passed, busy });
                }
            }
        }
    }
}

/// Returns the processor time that this thread has used so far, in seconds (getrusage(2)).
fn used() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    #[test]
    fn connections_are_measured_each() {
        let Some(mut net) = Net::or_skip() else { return };
        let [a, b] = ["a", "b"].map(|name| net.space(name).unwrap());
        net.cable([(&a, "eth0", "10.9.0.1/24"), (&b, "eth0", "10.9.0.2/24")]).unwrap();
        let address = SocketAddr::from(([10, 9, 0, 2], 7000));
        let time = Duration::from_millis(100);
        assert!(flow(&a, &b, address, time).unwrap() > 0.0);
        let three = Connections { count: 3, first_port: Some(9000), control: "reno" };
        let received = flows(&a, &b, address, &three, time).unwrap();
        let is_good = |one: &Received| one.rate > 0.0 && (0.0..2.0).contains(&one.busy);
        assert!(received.len() == 3 && received.iter().all(is_good), "{received:?}");
        let error = flows(&a, &b, address, &Connections { control: "none such", ..three }, time).unwrap_err();
        assert!(error.to_string().starts_with("congestion control none such: "), "{error}");
        b.ip("link set eth0 down").unwrap();
        assert!(flow(&a, &b, address, time).is_err());
    }
}
