//! Calls in an open loop: requests over long-lived connections that arrive independently of the answers to
//! earlier requests.
//!
//! Requests of one size arrive at random times (a Poisson process). Each request takes a random connection,
//! where it waits for the requests ahead of it. The other side answers each whole request with one byte.
//! The time of a call counts from the arrival of its request, so that it includes the time that the request
//! waits at the sender.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::traffic::{STANDSTILL, accept, connect, joined, listen};
use crate::{PATIENCE, Space};

/// The most bytes of one read or write.
const CHUNK: usize = 64 << 10;

/// The requests of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// The size of a request in bytes.
    pub bytes: usize,
    /// The mean number of requests per second.
    pub per_second: f64,
    /// The number of connections.
    pub connections: usize,
}

/// The results of the calls of one kind.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// The times of the answered calls, in rising order.
    pub times: Vec<Duration>,
    /// The number of calls without an answer 20 seconds after the end of the period.
    pub unanswered: usize,
}

impl Answered {
    /// Returns the longest time of the fastest `part` (0 to 1) of the calls; `None` if there are none.
    pub fn percentile(&self, part: f64) -> Option<Duration> {
        let rank = (part * self.times.len() as f64).ceil() as usize;
        self.times.get(rank.clamp(1, self.times.len().max(1)) - 1).copied()
    }
}

/// Makes calls of these kinds for a period, all at once, from one namespace to addresses in another. The
/// kinds have consecutive ports; connections use [`CONTROL`](crate::CONTROL). Calls of the first quarter of
/// the time, in which connections find their pace, are not in the result.
///
/// # Errors
/// If a connection cannot be opened, or ends.
pub fn calls(
    from: &Space,
    to: &Space,
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
    from: &Space,
    to: &Space,
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
        // The client has the reason for a missing connection.
        joined(client).and_then(|answered| served.map(|()| answered))
    })
}

/// A connection at the side of the caller.
struct Caller {
    stream: TcpStream,
    /// The arrival times of requests that have no answer yet.
    open: VecDeque<Duration>,
    /// The number of bytes of these requests that are still to be written.
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
    // The time between two arrivals of a Poisson process.
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

/// A connection at the answering side.
struct Answerer {
    stream: TcpStream,
    /// The number of bytes received of an incomplete request.
    part: usize,
    /// The number of answers that are still to be written.
    unwritten: usize,
}

/// Answers until all connections have ended.
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
                // The caller has closed the connection with answers unread.
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

/// Reads the available bytes; `None` at the end of the stream.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Ok(None),
        Ok(n) => Ok(Some(n)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Some(0)),
        Err(error) => Err(error),
    }
}

/// Waits until at least one of the streams is ready. Returns the indices of the ready streams, and the
/// events.
fn wait<'s>(
    streams: impl Iterator<Item = (&'s TcpStream, PollFlags)>,
    time: Duration,
) -> Result<Vec<(usize, PollFlags)>> {
    let mut all: Vec<_> = streams.map(|(stream, flags)| PollFd::new(stream.as_fd(), flags)).collect();
    match ppoll(&mut all, Some(TimeSpec::from_duration(time)), None) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(Error::from(error)),
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
            // Larger than a single read, and than the buffers of a connection.
            Calls { bytes: 8 << 20, per_second: 20.0, connections: 2 },
        ];
        let all = calls(&a, &b, address, &kinds, Duration::from_millis(400)).unwrap();
        // About 600 and 6 calls are expected after the first quarter.
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
