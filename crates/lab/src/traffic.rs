//! TCP transfers, UDP datagrams and ICMP echo requests between two namespaces, to check that packets arrive
//! unchanged; and the list of routers on a path.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use wire::checksum;

use crate::{CONTROL, Namespace, PATIENCE};

/// The time without received data after which a transfer has failed. If no packets are forwarded for some
/// seconds, TCP's pauses between retransmissions double each time; this time is longer than such a pause.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(20);

/// The time limit for opening a connection, and the time without progress after which a connection of
/// [`flows`](crate::flows) has failed.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);

/// The time to wait for an answer that is expected.
const ANSWER: Duration = Duration::from_secs(20);

/// The time to wait for an answer that must not arrive.
const LISTEN: Duration = Duration::from_secs(2);

/// The type of raw sockets (`SOCK_RAW`, socket(2)), which receive packets with their IP header.
const RAW: i32 = 3;

/// Returns `n` pseudo-random bytes: the same bytes in each call with the same `n`.
fn bytes(n: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(n as u64);
    (0..n.div_ceil(8)).flat_map(|_| random.u64(..).to_le_bytes()).take(n).collect()
}

/// Sends `n` bytes over TCP from namespace `from` to an address in namespace `to`. Compares the bytes that
/// arrive with the bytes that were sent. Runs `meanwhile` once, when a quarter of the bytes has arrived.
///
/// # Errors
/// If the connection fails, if no data arrive for 20 seconds, or if other bytes arrive than were sent.
pub fn transfer(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    n: usize,
    meanwhile: impl FnOnce() + Send,
) -> Result<()> {
    let listener = to.enter(|| listen(address))?;
    let expected = bytes(n);
    thread::scope(|scope| {
        let sender = scope.spawn(|| -> Result<()> {
            let mut stream = from.enter(|| connect(address))?;
            stream.set_write_timeout(Some(STANDSTILL))?;
            stream.set_read_timeout(Some(STANDSTILL))?;
            stream.write_all(&expected)?;
            stream.shutdown(Shutdown::Write)?;
            // The receiver sends a byte when it has received everything.
            stream.read_exact(&mut [0])
        });
        let mut received = Vec::with_capacity(n);
        let mut stream = accept(&listener, || sender.is_finished())?;
        stream.set_read_timeout(Some(STANDSTILL))?;
        let mut part = vec![0; n / 4];
        stream.read_exact(&mut part)?;
        received.append(&mut part);
        meanwhile();
        stream.read_to_end(&mut received)?;
        stream.write_all(&[1])?;
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match received == expected {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")),
        }
    })
}

/// Receives `n` bytes over TCP at `client` from an address in namespace `server`, and compares them with
/// the bytes that were sent.
///
/// # Errors
/// If the connection fails, if no data arrive for 20 seconds, or if other bytes arrive than were sent.
pub fn download(client: &Namespace, server: &Namespace, address: SocketAddr, n: usize) -> Result<()> {
    let listener = server.enter(|| listen(address))?;
    let expected = bytes(n);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Result<Vec<u8>> {
            let mut stream = client.enter(|| connect(address))?;
            stream.set_read_timeout(Some(STANDSTILL))?;
            let mut received = Vec::with_capacity(n);
            stream.read_to_end(&mut received)?;
            Ok(received)
        });
        let send = |mut stream: TcpStream| -> Result<()> {
            stream.set_write_timeout(Some(STANDSTILL))?;
            stream.write_all(&expected)
        };
        let sent = accept(&listener, || receiver.is_finished()).and_then(send);
        let received = joined(receiver)?;
        sent?;
        match received == expected {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")),
        }
    })
}

pub(crate) fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Binds a socket, and retries while the address is in use. An address may be in use for a moment after its
/// socket was closed: a program that another thread starts has copies of all sockets until it calls `exec`.
pub(crate) fn bound<T>(mut bind: impl FnMut() -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// The largest number of connections that wait to be accepted (listen(2)). The number is larger than the
/// number of connections that any experiment opens at once, so that no connection has to retry.
const WAITING: i32 = 4096;

/// Sets the congestion control of a TCP socket, and of connections that it accepts later.
pub(crate) fn control(socket: &Socket, control: &str) -> Result<()> {
    let told = |error| Error::other(format!("congestion control {control}: {error}"));
    socket.set_tcp_congestion(control.as_bytes()).map_err(told)
}

/// Opens a TCP connection with the congestion control [`CONTROL`], within [`SILENCE`].
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    control(&socket, CONTROL)?;
    socket.connect_timeout(&address.into(), SILENCE)?;
    Ok(socket.into())
}

/// Makes a listening socket whose `accept` does not block. Its connections have the congestion control
/// [`CONTROL`].
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    control(&socket, CONTROL)?;
    socket.set_reuse_address(true)?;
    bound(|| socket.bind(&address.into()))?;
    socket.listen(WAITING)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

pub(crate) fn accept(listener: &TcpListener, is_given_up: impl Fn() -> bool) -> Result<TcpStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error)
                if error.kind() != ErrorKind::WouldBlock || Instant::now() > until || is_given_up() =>
            {
                return Err(error);
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Sends datagrams with these payload lengths from `from` to an address in `to`, one after the other; the
/// other side sends each back. Returns the number of datagrams that came back unchanged, each within 20
/// seconds.
///
/// # Panics
/// If `address` cannot be bound in `to`.
pub fn exchange_datagrams(from: &Namespace, to: &Namespace, address: SocketAddr, lengths: &[usize]) -> usize {
    exchange(from, to, address, lengths, ANSWER)
}

/// True if a datagram with this payload length does not come back unchanged: it cannot be sent, does not
/// reach `to` in 2 seconds, its reply does not reach `from` in further 2 seconds, or the reply has other
/// bytes.
pub fn gets_no_reply(from: &Namespace, to: &Namespace, address: SocketAddr, length: usize) -> bool {
    exchange(from, to, address, &[length], LISTEN) == 0
}

fn exchange(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    lengths: &[usize],
    limit: Duration,
) -> usize {
    let limit = Some(limit);
    let there = to.enter(|| bound(|| UdpSocket::bind(address))).expect("an address of the namespace");
    let any = match address {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let here = from.enter(|| UdpSocket::bind((any, 0))).expect("any address");
    let set = [here.set_read_timeout(limit), there.set_read_timeout(limit), here.connect(address)];
    assert!(set.iter().all(Result::is_ok));
    let mut buffer = vec![0; 1 << 16];
    let mut arrive = |length: usize| -> Result<bool> {
        let sent = bytes(length);
        here.send(&sent)?;
        let (n, back) = there.recv_from(&mut buffer)?;
        there.send_to(&buffer[..n], back)?;
        let n = here.recv(&mut buffer)?;
        Ok(buffer[..n] == sent)
    };
    lengths.iter().filter(|&&length| arrive(length).unwrap_or(false)).count()
}

/// Sends `n` ICMP echo requests to an address, one after the other, and returns the number of valid replies.
/// A reply is valid if it has the data of its request and a right checksum.
pub fn ping(from: &Namespace, to: Ipv4Addr, n: u16) -> usize {
    echoes(from, to, n, ANSWER)
}

/// True if an ICMP echo request to an address gets no valid reply: none arrives within 2 seconds, or the
/// request cannot be sent.
pub fn gets_no_echo_reply(from: &Namespace, to: Ipv4Addr) -> bool {
    echoes(from, to, 1, LISTEN) == 0
}

fn echoes(from: &Namespace, to: Ipv4Addr, n: u16, limit: Duration) -> usize {
    let socket = from.enter(|| Socket::new(Domain::IPV4, Type::from(RAW), Some(Protocol::ICMPV4)));
    let mut socket = socket.expect("a process that may create namespaces may create raw sockets");
    let target = SocketAddr::from((to, 0)).into();
    assert!(socket.set_read_timeout(Some(limit)).is_ok());
    let identifier = std::process::id() as u16;
    let mut answered = |sequence: u16| -> bool {
        let mut request = [[8, 0], [0, 0], identifier.to_be_bytes(), sequence.to_be_bytes()].concat();
        request.extend_from_slice(&[0xab; 48]);
        let filled = checksum::fill_icmp(&mut request).is_ok();
        if !filled || socket.send_to(&request, &target).is_err() {
            return false;
        }
        let mut buffer = [0; 256];
        loop {
            let Ok(n) = socket.read(&mut buffer) else { return false };
            // The reply follows an IP header without options. Replies to other sockets arrive here too, and
            // are ignored.
            let reply = buffer[..n].get(20..).unwrap_or_default();
            if reply.first() == Some(&0) && reply.get(4..) == request.get(4..) {
                return checksum::icmp_valid(reply);
            }
        }
    };
    (0..n).filter(|&sequence| answered(sequence)).count()
}

/// Returns the routers on the path to an address, like `traceroute`: sends datagrams with a TTL of 1, 2 and
/// so on up to `most`, and collects the source addresses of the ICMP errors. The list ends with the first
/// "unreachable" error, which comes from the address itself if it is reached, because its port is closed. The
/// list ends early ahead of a hop that does not answer within 20 seconds.
pub fn hops(from: &Namespace, to: Ipv4Addr, most: u32) -> Vec<Ipv4Addr> {
    let errors = from.enter(|| Socket::new(Domain::IPV4, Type::from(RAW), Some(Protocol::ICMPV4)));
    let mut errors = errors.expect("a process that may create namespaces may create raw sockets");
    assert!(errors.set_read_timeout(Some(ANSWER)).is_ok());
    let sender = from.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("any address");
    let mut found = Vec::new();
    let mut buffer = [0; 256];
    for ttl in 1..=most {
        let port = 33434 + ttl as u16;
        if sender.set_ttl(ttl).is_err() || sender.send_to(&[0; 32], (to, port)).is_err() {
            break;
        }
        // The message has an IP header without options, the ICMP header, and the headers of the datagram that
        // caused it. The destination port of the datagram shows which datagram it was.
        let answer = loop {
            let Ok(n) = errors.read(&mut buffer) else { return found };
            let Some(icmp) = buffer[..n].get(20..) else { continue };
            if icmp.get(30..32) == Some(&port.to_be_bytes()) {
                break (Ipv4Addr::new(buffer[12], buffer[13], buffer[14], buffer[15]), icmp[0]);
            }
        };
        found.push(answer.0);
        if answer.1 == wire::icmp::kind::UNREACHABLE {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    #[test]
    fn connections_have_one_congestion_control() {
        let Some(mut net) = Net::or_skip() else { return };
        let [a, b] = ["a", "b"].map(|name| net.space(name).unwrap());
        net.cable([(&a, "eth0", "10.9.0.1/24"), (&b, "eth0", "10.9.0.2/24")]).unwrap();
        let address = SocketAddr::from(([10, 9, 0, 2], 7000));
        let listener = b.enter(|| listen(address)).unwrap();
        let active = a.enter(|| connect(address)).unwrap();
        let passive = accept(&listener, || false).unwrap();
        for stream in [active, passive] {
            let control = socket2::SockRef::from(&stream).tcp_congestion().unwrap();
            assert!(control.starts_with(CONTROL.as_bytes()), "{control:?}");
        }
    }

    #[test]
    fn traffic_goes_over_a_cable() {
        let Some(mut net) = Net::or_skip() else { return };
        let [a, b] = ["a", "b"].map(|name| net.space(name).unwrap());
        net.cable([(&a, "eth0", "10.9.0.1/24"), (&b, "eth0", "10.9.0.2/24")]).unwrap();
        let address = Ipv4Addr::new(10, 9, 0, 2);
        let port = SocketAddr::from((address, 7000));
        assert_eq!(ping(&a, address, 2), 2);
        assert_eq!(hops(&a, address, 3), [address]);
        transfer(&a, &b, port, 1 << 20, || ()).unwrap();
        download(&a, &b, port, 1 << 20).unwrap();
        assert_eq!(exchange_datagrams(&a, &b, port, &[0, 1000]), 2);
        assert!(!gets_no_echo_reply(&a, address) && !gets_no_reply(&a, &b, port, 1));
        b.ip("link set eth0 down").unwrap();
        assert!(gets_no_echo_reply(&a, address) && gets_no_reply(&a, &b, port, 1));
    }
}
