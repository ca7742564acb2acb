//! Calls in an open loop: requests over long-lived connections, which arrive independently of the answers
//! to earlier requests.
//!
//! Requests of one size arrive at random times (a Poisson process). Each request is sent on a random
//! connection, where it waits until the requests ahead of it are sent. The other side answers each complete
//! request with one byte. The time of a call begins when its request arrives at the sender, so it includes
//! the time that the request waits there.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::traffic::{STANDSTILL, accept, connect, joined, listen};
use crate::{Namespace, PATIENCE};

/// The largest number of bytes in one read or write.
const CHUNK: usize = 64 << 10;

/// The kind of requests that are sent: their size, their rate and their connections.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// The size of a request in bytes.
    pub bytes: usize,
    /// The mean number of requests per second.
    pub per_second: f64,
    /// The number of connections over which the requests are distributed.
    pub connections: usize,
}

/// The results for one kind of request. Requests of the first quarter of the experiment do not count.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// For each answered call, the time from the arrival of the request to the answer, in ascending order.
    pub times: Vec<Duration>,
    /// The number of calls that had no answer 20 seconds after the end of the experiment.
    pub unanswered: usize,
}

impl Answered {
    /// Returns the shortest time within which at least the fraction `part` (0 to 1) of the answered calls had
    /// their answers. Returns `None` if no call was answered.
    pub fn percentile(&self, part: f64) -> Option<Duration> {
        let rank = (part * self.times.len() as f64).ceil() as usize;
        self.times.get(rank.clamp(1, self.times.len().max(1)) - 1).copied()
    }
}

/// Makes calls of several kinds for `time`, all kinds at once, from namespace `from` to an address in
/// namespace `to`. The first kind uses the port of `address`, each further kind the next port; connections
/// use the congestion control [`CONTROL`](crate::CONTROL). Returns the results for each kind. Calls of the
/// first quarter of the time, in which connections increase their rate, are not counted.
///
/// # Errors
/// If a port cannot be listened on, or a connection cannot be opened, fails, or is closed too early.
pub fn calls(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    kinds: &[Calls],
    time: Duration,
) -> Result<Vec<Answered>> {
    thread::scope(|scope| {
        let of_kind = |(port, calls)| {
            let address = SocketAddr::new(address.ip(), port);
            scope.spawn(move || of_one_kind(from, to, address, calls, time))
        };
        let all: Vec<_> = (address.port()..).zip(kinds).map(of_kind).collect();
        all.into_iter().map(joined).collect()
    })
}

fn of_one_kind(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    calls: &Calls,
    time: Duration,
) -> Result<Answered> {
    let listener = to.enter(|| listen(address))?;
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let streams =
                from.enter(|| (0..calls.connections).map(|_| connect(address)).collect::<Result<_>>())?;
            call(streams, calls, time, u64::from(address.port()))
        });
        let streams: Result<_> =
            (0..calls.connections).map(|_| accept(&listener, || client.is_finished())).collect();
        let served = streams.and_then(|streams| answer(streams, calls.bytes));
        // The client's error goes first, because it says why a connection is missing that the server waits
        // for.
        joined(client).and_then(|answered| served.map(|()| answered))
    })
}

/// The end of a connection at which requests are sent.
struct Caller {
    stream: TcpStream,
    /// The arrival times of the requests without an answer, oldest first.
    open: VecDeque<Duration>,
    /// The number of bytes of requests in `open` that the socket has not accepted yet.
    unwritten: usize,
}

fn call(streams: Vec<TcpStream>, calls: &Calls, time: Duration, seed: u64) -> Result<Answered> {
    let mut callers = Vec::new();
    for stream in streams {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        callers.push(Caller { stream, open: VecDeque::new(), unwritten: 0 });
    }
    let mut random = fastrand::Rng::with_seed(seed);
    // `pause` returns a random time between two arrivals of a Poisson process.
    let mut pause = || Duration::from_secs_f64(-(1.0 - random.f64()).ln() / calls.per_second);
    let mut chosen = fastrand::Rng::with_seed(seed + 1);
    let (data, mut buffer) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut answered = Answered::default();
    let start = Instant::now();
    let mut next = pause();
    loop {
        let now = start.elapsed();
        while next <= now && next < time {
            let caller = &mut callers[chosen.usize(..calls.connections)];
            caller.open.push_back(next);
            caller.unwritten += calls.bytes;
            caller.write(&data)?;
            next += pause();
        }
        let is_open = |caller: &Caller| !caller.open.is_empty();
        let is_over = next >= time;
        if is_over && (!callers.iter().any(is_open) || now > time + STANDSTILL) {
            break;
        }
        let until = if is_over { time + STANDSTILL } else { next };
        let wanted = |caller: &Caller| match caller.unwritten {
            0 => PollFlags::POLLIN,
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let ready =
            wait(callers.iter().map(|caller| (&caller.stream, wanted(caller))), until.saturating_sub(now))?;
        for (number, flags) in ready {
            let caller = &mut callers[number];
            if flags.contains(PollFlags::POLLOUT) {
                caller.write(&data)?;
            }
            if flags.intersects(!PollFlags::POLLOUT) {
                let answers = read(&mut caller.stream, &mut buffer)?;
                let answers = answers.ok_or(ErrorKind::UnexpectedEof)?;
                let now = start.elapsed();
                let done = caller.open.drain(..answers.min(caller.open.len()));
                answered.times.extend(done.filter(|came| *came >= time / 4).map(|came| now - came));
            }
        }
    }
    let is_counted = |came: &&Duration| **came >= time / 4;
    answered.unanswered = callers.iter().flat_map(|caller| &caller.open).filter(is_counted).count();
    answered.times.sort_unstable();
    Ok(answered)
}

impl Caller {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        while self.unwritten > 0 {
            match self.stream.write(&data[..self.unwritten.min(data.len())]) {
                Ok(n) => self.unwritten -= n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The end of a connection at which requests are answered.
struct Answerer {
    stream: TcpStream,
    /// The number of bytes that were received of an incomplete request.
    part: usize,
    /// The number of answers, of one byte each, that the socket has not accepted yet.
    unwritten: usize,
}

/// Answers requests of `bytes` bytes on all streams, until all connections are closed.
fn answer(streams: Vec<TcpStream>, bytes: usize) -> Result<()> {
    let mut answerers = Vec::new();
    for stream in streams {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        answerers.push(Answerer { stream, part: 0, unwritten: 0 });
    }
    let mut buffer = vec![0; CHUNK];
    while !answerers.is_empty() {
        let wanted = |one: &Answerer| match one.unwritten {
            0 => PollFlags::POLLIN,
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let ready = wait(answerers.iter().map(|one| (&one.stream, wanted(one))), PATIENCE)?;
        if ready.is_empty() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut ended = Vec::new();
        for (number, _) in ready {
            let one = &mut answerers[number];
            match read(&mut one.stream, &mut buffer) {
                Ok(Some(n)) => {
                    let requests = (one.part + n) / bytes.max(1);
                    one.part = (one.part + n) % bytes.max(1);
                    one.unwritten += requests;
                }
                Ok(None) => ended.push(number),
                // The caller has closed the connection although answers were on their way.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => ended.push(number),
                Err(error) => return Err(error),
            }
            match one.stream.write(&vec![1; one.unwritten]) {
                Ok(n) => one.unwritten -= n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => ended.push(number),
            }
        }
        ended.dedup();
        for number in ended.into_iter().rev() {
            answerers.swap_remove(number);
        }
    }
    Ok(())
}

/// Reads the bytes that are available and returns their number, 0 if there are none; `None` at the end of
/// the stream.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Ok(None),
        Ok(n) => Ok(Some(n)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Some(0)),
        Err(error) => Err(error),
    }
}

/// Waits until a stream is ready for one of its events, at most for `time`. Returns the indexes of the ready
/// streams with their events; the list is empty if the time is over.
fn wait<'s>(
    streams: impl Iterator<Item = (&'s TcpStream, PollFlags)>,
    time: Duration,
) -> Result<Vec<(usize, PollFlags)>> {
    let mut all: Vec<_> = streams.map(|(stream, flags)| PollFd::new(stream.as_fd(), flags)).collect();
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match ppoll(&mut all, Some(TimeSpec::from_duration(left)), None) {
            Ok(_) => break,
            // A signal does not shorten the wait.
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(Error::from(error)),
        }
    }
    let ready = all.iter().enumerate().filter_map(|(number, one)| Some((number, one.revents()?)));
    Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    #[test]
    fn calls_of_several_kinds_are_answered() {
        let Some(mut net) = Net::or_skip() else { return };
        let [a, b] = ["a", "b"].map(|name| net.space(name).unwrap());
        net.cable([(&a, "eth0", "10.9.0.1/24"), (&b, "eth0", "10.9.0.2/24")]).unwrap();
        let address = SocketAddr::from(([10, 9, 0, 2], 7000));
        let kinds = [
            Calls { bytes: 150, per_second: 2000.0, connections: 4 },
            // A request of this size needs several reads, and does not fit into the buffers of a
            // connection.
            Calls { bytes: 8 << 20, per_second: 20.0, connections: 2 },
        ];
        let all = calls(&a, &b, address, &kinds, Duration::from_millis(400)).unwrap();
        // In the last three quarters of 400 ms, about 600 and 6 calls are expected.
        let [small, large] = &all[..] else { panic!("{}", all.len()) };
        assert!((400..800).contains(&small.times.len()) && (1..30).contains(&large.times.len()), "{all:?}");
        assert!(all.iter().all(|one| one.unanswered == 0 && one.times.is_sorted()));
        assert!(large.times[0] > small.times[0], "{large:?}");
        b.ip("link set eth0 down").unwrap();
        assert!(calls(&a, &b, address, &kinds[..1], Duration::from_millis(50)).is_err());
    }

    #[test]
    fn percentiles_are_of_all_calls() {
        let times = (1..=1000).map(Duration::from_micros).collect();
        let answered = Answered { times, unanswered: 0 };
        let of = |part| answered.percentile(part).map(|time| time.as_micros());
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(of), [1, 500, 990, 1000].map(Some));
        assert_eq!(Answered::default().percentile(0.5), None);
    }
}
