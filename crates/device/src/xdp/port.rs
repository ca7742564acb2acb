//! A queue of an interface, opened as an AF_XDP socket with two halves, one that receives ([`Receiver`])
//! and one that sends ([`Transmitter`]). The halves share the socket and no mutable state, so that two
//! elements can have one each.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use element::{Cx, Packet};
use libc::{c_int, xdp_desc, xdp_statistics};
use nix::sys::eventfd::EventFd;
use packet::{DeviceId, Pool, Recipient};

use super::receiver::Receiver;
use super::shared::{LEAST_RING, Shared};
use super::sys::program::MOST_QUEUES;
use super::sys::ring::{Consumer, Producer};
use super::sys::socket::{self, Opened};
use super::{Mode, Receives, Wanted};
use crate::interface::cannot;
use crate::interface::sys::link;

/// The socket of a queue, to which the queue's two halves and its guests (other workers that receive from the
/// queue) have references. When the last of them is dropped, the socket is closed as well, and the pool takes
/// back the slots that the kernel still has.
pub(super) struct Port {
    /// The interface's index in the kernel, and the number of the queue.
    place: (c_int, u32),
    pub(super) socket: OwnedFd,
    pub(super) device: DeviceId,
    /// True if the kernel copies received packets into slots, because the driver cannot write there.
    pub(super) is_copied: bool,
    /// The slots that the kernel has, if other workers can receive from the queue as guests. The field comes
    /// after `socket`, so that it is dropped later: once the socket is closed, the kernel does not touch its
    /// slots, so that the pool can take them back.
    slots: Option<Slots>,
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut released = released();
        released.retain(|&other| other != self.place);
        released.push(self.place);
    }
}

/// The slots that the kernel has for a queue with guests. The last user of the port returns them to the
/// owner's pool when it drops the port. In a reload this can be a guest at another worker, while the owner
/// has no element left that could do so.
struct Slots {
    recipient: Recipient,
    device: DeviceId,
    /// The address of the owner's pool.
    pool: usize,
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.recipient.take_all_empty();
        left().push((self.pool, self.device));
    }
}

/// The devices of closed ports that pools have yet to detach, each with the address of its pool. The devices
/// have no slots any more, but their numbers can be given to other devices only after the pool's worker has
/// detached them ([`sweep`]).
static LEFT: Mutex<Vec<(usize, DeviceId)>> = Mutex::new(Vec::new());

/// Drops a half's reference to the port; with the last reference, the socket is closed. The half's rings must
/// have been dropped before.
pub(super) fn close(port: Arc<Port>, pool: &mut Pool) {
    let (device, has_guests) = (port.device, port.slots.is_some());
    let port = Arc::into_inner(port);
    let is_last = port.is_some();
    drop(port);
    if has_guests {
        sweep(pool);
    } else if is_last {
        pool.detach(device);
    }
}

/// Detaches the devices of this pool whose ports have been closed.
fn sweep(pool: &mut Pool) {
    let start = pool.device_area().0 as usize;
    for (_, device) in left().extract_if(.., |(other, _)| *other == start) {
        pool.detach(device);
    }
}

/// The queues that this process has had and closed: the interface's index in the kernel, and the number of
/// the queue. The kernel may not have released them yet.
static RELEASED: Mutex<Vec<(c_int, u32)>> = Mutex::new(Vec::new());

fn released() -> MutexGuard<'static, Vec<(c_int, u32)>> {
    RELEASED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn left() -> MutexGuard<'static, Vec<(usize, DeviceId)>> {
    LEFT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The half of a queue that sends.
pub(super) struct Transmitter {
    port: Arc<Port>,
    pub(super) queue: u32,
    transmit: Producer<xdp_desc>,
    completed: Consumer<u64>,
    /// The number of packets that were copied into slots of this worker's pool before they could be sent. The
    /// user of the transmitter reads this count and sets it back to 0.
    pub(super) copied: u64,
    /// The number of packets that the kernel took from the ring and the interface then refused, for example
    /// because it has no carrier. The user of the transmitter reads this count and sets it back to 0.
    pub(super) refused: usize,
}

/// The result of making the kernel send the packets in the ring.
#[derive(Debug)]
pub(super) enum Kicked {
    /// The kernel has taken all packets, or will take the rest without another system call.
    All,
    /// The kernel takes no more packets at the moment; packets are left in the ring.
    Full,
    /// The kernel refuses to send, with this error; packets are left in the ring.
    Failed(io::Error),
}

impl Transmitter {
    /// Takes the slots of packets that have been sent out of the ring `completed`, and returns them to the
    /// pool.
    pub(super) fn reap(&mut self, pool: &mut Pool) {
        while let Some(address) = self.completed.take() {
            let (slot, _) = socket::parse(address);
            pool.take_empty(self.port.device, slot);
        }
        self.completed.release();
    }

    /// Returns the number of packets that the send ring has room for. If the number is not less than
    /// `wanted`, there may be more room.
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        self.transmit.room(wanted.try_into().unwrap_or(u32::MAX)) as usize
    }

    /// Puts a packet into the send ring, for [`kick`](Self::kick) to send. A packet that does not lie in
    /// one slot of `pool` is copied into one.
    ///
    /// # Errors
    /// The packet itself, if the ring is full; or if the packet needs a copy and is too long for a slot, or
    /// there is no free slot.
    pub(super) fn put(&mut self, pool: &mut Pool, packet: Packet) -> Result<(), Packet> {
        if self.room(1) == 0 {
            return Err(packet);
        }
        let span = match pool.hand_over(self.port.device, packet) {
            Ok(span) => span,
            Err(packet) => match pool.copy_out(self.port.device, &packet) {
                Some(span) => {
                    pool.free(packet);
                    self.copied += 1;
                    span
                }
                None => return Err(packet),
            },
        };
        // The call cannot fail, because the ring has room for the packet, as checked above.
        self.transmit.put(socket::descriptor(span.slot, span.start, span.length));
        Ok(())
    }

    /// Makes the kernel send the packets in the ring, by as many system calls as it needs.
    pub(super) fn kick(&mut self) -> Kicked {
        self.transmit.submit();
        let mut pending = self.transmit.pending();
        while pending > 0 && self.transmit.needs_wakeup() {
            let mut is_refused = false;
            let error = match socket::kick(self.port.socket.as_fd()) {
                Ok(()) => None,
                Err(error) => match error.raw_os_error() {
                    // The interface refused the last packet that the kernel took, for example because it
                    // has no carrier.
                    Some(libc::EBUSY) => {
                        is_refused = true;
                        None
                    }
                    // The kernel sends only a part of the packets per call.
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => None,
                    _ => Some(error),
                },
            };
            if let Some(error) = error {
                return Kicked::Failed(error);
            }
            let left = self.transmit.pending();
            if left == pending {
                return Kicked::Full;
            }
            self.refused += usize::from(is_refused);
            pending = left;
        }
        Kicked::All
    }

    /// True if the interface to which the socket was bound was removed, even if another interface has its
    /// name and index now.
    pub(super) fn is_unbound(&self) -> bool {
        let result = socket::kick(self.port.socket.as_fd());
        result.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)))
    }

    /// Returns the number of packets in the ring that the kernel has not taken.
    pub(super) fn pending(&mut self) -> usize {
        self.transmit.pending() as usize
    }

    pub(super) fn statistics(&self) -> Option<xdp_statistics> {
        socket::statistics(self.port.socket.as_fd())
    }

    pub(super) fn close(self, pool: &mut Pool) {
        let Transmitter { port, transmit, completed, .. } = self;
        drop((transmit, completed));
        close(port, pool);
    }
}

/// The name of the step that fails if the pool cannot be the memory of another queue.
const TOO_MANY: &str = "queues";
/// The longest time to wait for a queue that another socket has. The kernel releases the queue of a closed
/// socket asynchronously, so that it may still be in use for a moment.
const RELEASE: Duration = Duration::from_secs(1);
/// The number of free slots per queue below which the user is warned that bursts may use them up, unless the
/// queue's ring is smaller. Each guest (another worker that receives from the queue) adds [`LEAST_RING`]
/// slots to this number.
const FEW: u32 = 512;

/// Returns the number of the pool's slots that the kernel may have for each queue. This worker has `elements`
/// elements that receive, with `queues` queues each. All queues together get three quarters of the device
/// area; the last quarter is left for packets that are being processed.
fn share(pool: &Pool, elements: usize, queues: usize) -> u32 {
    let slots = pool.device_area().1 / packet::SLOT_STRIDE;
    (slots / 4 * 3 / (elements * queues).max(1)) as u32
}

/// Opens a queue of the interface with the index `index`, without giving the kernel slots yet. With `shares`,
/// other workers can receive from the queue as guests, and the third result is the handle by which they take
/// packets out of this worker's slots. On an error, returns the name of the step that failed and the reason.
fn open(
    cx: &mut Cx<'_>,
    wanted: &Wanted,
    index: c_int,
    (queue, shares): (u32, bool),
) -> Result<(Receiver, Transmitter, Option<Recipient>), (&'static str, io::Error)> {
    sweep(cx.pool());
    let opened = socket::open(cx.pool(), wanted.ring)?;
    let is_copied = wanted.mode == Mode::Kernel;
    let place = (index, queue);
    // While this function waits for a queue in a reload, packets wait in the rings of queues that are in use.
    // So a reload waits only for a queue that this process has closed.
    let waits = !cx.is_of_reload() || released().contains(&place);
    let until = Instant::now() + if waits { RELEASE } else { Duration::ZERO };
    loop {
        match socket::bind(opened.socket.as_fd(), index, queue, is_copied) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => break result.map_err(|error| ("bind", error))?,
        }
    }
    released().retain(|&other| other != place);
    let attached = match shares {
        true => cx.pool().attach_shared().map(|(device, recipient)| (device, Some(recipient))),
        false => cx.pool().attach().map(|device| (device, None)),
    };
    let (device, recipient) = attached.ok_or((TOO_MANY, io::Error::from_raw_os_error(libc::ENOSPC)))?;
    let Opened { socket, fill, receive, transmit, completed } = opened;
    let is_copied = socket::is_copied(socket.as_fd());
    let pool = cx.pool().device_area().0 as usize;
    let slots = recipient.clone().map(|recipient| Slots { recipient, device, pool });
    let port = Arc::new(Port { place, socket, device, is_copied, slots });
    let receiver = Receiver::of_owner(queue, Arc::clone(&port), fill, receive);
    let transmitter = Transmitter { port, queue, transmit, completed, copied: 0, refused: 0 };
    Ok((receiver, transmitter, recipient))
}

/// Returns the message that a step failed with this error, with advice about causes that only AF_XDP
/// sockets have.
pub(super) fn explain(wanted: &Wanted, step: &str, error: &io::Error) -> String {
    let device = &wanted.device;
    let text = cannot(device, step, error);
    let text = text.split(';').next().unwrap_or_default();
    let what = match (step, error.raw_os_error()) {
        ("bind", Some(libc::EBUSY)) => {
            "another socket has this queue; one FromXDP and one ToXDP of a configuration share it, at one worker, and a \
             reload cannot change the worker"
        }
        ("bind", Some(libc::EINVAL)) => "the interface has no such QUEUE; `ethtool -l` shows how many it has",
        ("XDP_UMEM_REG", Some(libc::EINVAL)) => {
            "the kernel does not take the pool as it is (unaligned chunks, Linux 5.4 and later); use FromDevice and ToDevice"
        }
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "this needs root, or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW"
        }
        (_, Some(libc::EMFILE)) => "`ulimit -n` is too low: a queue that workers share has a socket for each",
        ("XDP_UMEM_REG", Some(libc::ENOBUFS)) => {
            "`ulimit -l` does not allow 64 MiB, and there is no CAP_IPC_LOCK"
        }
        ("attach", Some(libc::EBUSY | libc::EEXIST)) => {
            return format!(
                "{device}: {step}: another XDP program is there; `ip -d link show {device}` shows it"
            );
        }
        ("attach", Some(libc::EOPNOTSUPP)) => "its driver cannot; use MODE skb",
        ("attach", Some(libc::ERANGE | libc::EINVAL)) => {
            "its driver refuses, often for an MTU that is too large, here or at the other end; use MODE skb"
        }
        (TOO_MANY, _) => {
            return format!(
                "{device}: too many queues; give some of them by QUEUE, or `ethtool -L {device} combined 8`"
            );
        }
        _ => return cannot(device, step, error),
    };
    format!("{text}; {what}")
}

/// Opens the queues of an interface that belong to this copy of an element, and gives the kernel free slots
/// for them. A queue belongs to the copy whose index is the queue's number modulo the number of copies. Each
/// queue has a receiving half; it has a sending half unless the interface has fewer send queues. With `bell`,
/// which wakes this copy, all other copies can receive from the queues as guests. Warns if there are few
/// slots for each queue.
///
/// # Errors
/// The message that a queue could not be opened; queues that were opened before are closed.
pub(super) fn open_queues(
    cx: &mut Cx<'_>,
    wanted: &Wanted,
    index: c_int,
    (copy, copies): (usize, usize),
    bell: Option<&Arc<EventFd>>,
) -> Result<(Vec<Receiver>, Vec<Option<Transmitter>>), String> {
    let send_queues = link::send_queues(&wanted.device).unwrap_or(MOST_QUEUES);
    let (mut receivers, mut transmitters, mut recipients) = (Vec::new(), Vec::new(), Vec::new());
    let all = wanted.queue.map_or(0..MOST_QUEUES, |queue| queue..queue + 1);
    for queue in all.filter(|&queue| queue as usize % copies == copy) {
        match open(cx, wanted, index, (queue, bell.is_some())) {
            Ok((receiver, transmitter, recipient)) => {
                receivers.push(receiver);
                recipients.push(recipient);
                match queue < send_queues {
                    true => transmitters.push(Some(transmitter)),
                    false => transmitter.close(cx.pool()),
                }
            }
            // The kernel refuses a queue's number if the interface has no such queue: the queues before it
            // are all there are.
            Err(("bind", error)) if queue > 0 && wanted.queue.is_none() && is_invalid(&error) => break,
            Err((step, error)) => {
                close_all(cx.pool(), receivers, transmitters);
                return Err(explain(wanted, step, &error));
            }
        }
    }
    let elements =
        (0..cx.place().elements()).filter(|&id| cx.graph().service::<Receives>(id).is_some()).count();
    let share = share(cx.pool(), elements, receivers.len());
    let guests = if bell.is_some() { copies as u32 - 1 } else { 0 };
    let mut are_filled = true;
    for (receiver, recipient) in receivers.iter_mut().zip(recipients) {
        match recipient.zip(bell) {
            Some((recipient, bell)) => {
                let of_queue = (share, wanted.ring);
                let shared = Shared::new(recipient, Arc::clone(bell), of_queue, guests);
                receiver.settle(shared.share(of_queue, guests), Some(shared));
            }
            None => receiver.settle(share.min(wanted.ring), None),
        }
        are_filled &= receiver.refill(cx.pool());
    }
    let most = wanted.ring.saturating_mul(guests + 1);
    if !are_filled || share < FEW.min(wanted.ring) + guests * LEAST_RING {
        let (device, queues, share) = (&wanted.device, receivers.len(), share.min(most));
        cx.warn(format_args!(
            "{device}: each of {queues} queues has {share} free slots only, which bursts may use up; fewer queues \
             have more (QUEUE, or `ethtool -L {device}`), and so have more workers"
        ));
    }
    Ok((receivers, transmitters))
}

fn is_invalid(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Closes both halves of all these queues. The kernel's slots return to the pool, unless other workers
/// (guests) still have sockets at the queues.
pub(super) fn close_all(pool: &mut Pool, receivers: Vec<Receiver>, transmitters: Vec<Option<Transmitter>>) {
    receivers.into_iter().for_each(|receiver| receiver.close(pool));
    transmitters.into_iter().flatten().for_each(|transmitter| transmitter.close(pool));
}

/// Opens a queue for sending only. Returns `None` for a queue other than 0 by which the interface does not
/// send, unless QUEUE demands it: other copies then send by other queues.
///
/// # Errors
/// The message that the queue could not be opened.
pub(super) fn open_transmitter(
    cx: &mut Cx<'_>,
    wanted: &Wanted,
    queue: u32,
) -> Result<Option<Transmitter>, String> {
    let device = &wanted.device;
    let index = link::index(device).map_err(|error| cannot(device, "SIOCGIFINDEX", &error))?;
    let is_optional = queue > 0 && wanted.queue.is_none();
    if is_optional && link::send_queues(device).is_ok_and(|queues| queue >= queues) {
        return Ok(None);
    }
    match open(cx, wanted, index, (queue, false)) {
        Ok((receiver, transmitter, _)) => {
            receiver.close(cx.pool());
            Ok(Some(transmitter))
        }
        Err(("bind", error)) if is_optional && is_invalid(&error) => Ok(None),
        Err((step, error)) => Err(explain(wanted, step, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// In a reload, the owner can close both halves while a guest at another worker still receives. The test
    /// uses a stream in place of the queue's socket; its other end shows that the socket has been closed.
    #[test]
    fn the_last_guest_closes_the_socket_and_returns_the_slots() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let (device, recipient) = pool.attach_shared().unwrap();
        let (socket, mut other_end) = UnixStream::pair().unwrap();
        other_end.set_nonblocking(true).unwrap();
        let mut is_closed = || other_end.read(&mut [0]).is_ok();
        let place = (c_int::MAX, 7);
        let slots = Some(Slots { recipient, device, pool: pool.device_area().0 as usize });
        let port = Arc::new(Port { place, socket: socket.into(), device, is_copied: false, slots });
        let (receiving, sending, guest) = (Arc::clone(&port), Arc::clone(&port), port);
        assert!((0..3).all(|_| pool.hand_out(device).is_some()));
        close(receiving, &mut pool);
        close(sending, &mut pool);
        assert!(!is_closed() && !released().contains(&place));
        assert_eq!(pool.stats().in_use, 3);
        std::thread::spawn(|| drop(guest)).join().unwrap();
        assert!(is_closed() && released().contains(&place));
        pool.collect();
        assert_eq!(pool.stats().in_use, 0);
        sweep(&mut pool);
        assert_eq!(pool.attach_shared().map(|(again, _)| again), Some(device), "the number is used again");
    }

    #[test]
    fn all_queues_together_leave_slots_for_packets() {
        let pool = Pool::new(256 << 20).unwrap();
        let slots = pool.device_area().1 / packet::SLOT_STRIDE;
        for (elements, queues) in [(1, 1), (2, 8), (2, 20), (4, 32)] {
            let each = share(&pool, elements, queues) as usize;
            assert!(each > 0 && each * elements * queues <= slots * 3 / 4, "{elements} {queues}: {each}");
        }
    }
}
