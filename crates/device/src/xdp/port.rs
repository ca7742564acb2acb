//! A queue of an interface: a half that receives and a half that sends. They share a socket and no mutable
//! state.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
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
use super::{Mode, Offer, Wanted};
use crate::interface::cannot;
use crate::interface::sys::link;

/// The part of a queue that both halves and guests share. The last holder that closes it takes back the
/// slots that the kernel still has.
pub(super) struct Port {
    pub(super) socket: OwnedFd,
    pub(super) device: DeviceId,
    /// True if the kernel copies received packets into slots.
    pub(super) is_copied: bool,
}

/// Closes a half. Its rings must be dropped before.
pub(super) fn close(port: Arc<Port>, pool: &mut Pool) {
    // Guests have left by now, because everything is drained before anything is closed. If a guest has not
    // left, slots stay with the kernel, and their memory is not released.
    if let Some(Port { socket, device, .. }) = Arc::into_inner(port) {
        // The kernel does not touch slots any more once the socket is closed.
        drop(socket);
        pool.detach(device);
    }
}

/// The half that sends.
pub(super) struct Transmitter {
    port: Arc<Port>,
    pub(super) queue: u32,
    transmit: Producer<xdp_desc>,
    completed: Consumer<u64>,
    /// The number of packets that were copied into slots of the pool.
    pub(super) copied: u64,
    /// The number of packets that the kernel has taken but the interface has refused.
    pub(super) refused: usize,
}

/// The result of an attempt to send.
#[derive(Debug)]
pub(super) enum Kicked {
    /// The kernel has taken all packets.
    All,
    /// The kernel takes nothing more now.
    Full,
    /// The packets cannot be sent.
    Failed(io::Error),
}

impl Transmitter {
    /// Takes back the slots of packets that were sent.
    pub(super) fn reap(&mut self, pool: &mut Pool) {
        while let Some(address) = self.completed.take() {
            let (slot, _) = socket::parse(address);
            pool.take_empty(self.port.device, slot);
        }
        self.completed.release();
    }

    /// Returns the number of packets that the ring has room for.
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        self.transmit.room(wanted.try_into().unwrap_or(u32::MAX)) as usize
    }

    /// Puts a packet into the ring, for [`kick`](Self::kick) to send.
    ///
    /// # Errors
    /// The packet, if there is no room or no slot for a copy.
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
        // Cannot fail: the room was checked above.
        self.transmit.put(socket::descriptor(span.slot, span.start, span.length));
        Ok(())
    }

    /// Makes the kernel send the packets in the ring.
    pub(super) fn kick(&mut self) -> Kicked {
        self.transmit.submit();
        let mut pending = self.transmit.pending();
        while pending > 0 && self.transmit.needs_wakeup() {
            let mut is_refused = false;
            let error = match socket::kick(self.port.socket.as_fd()) {
                Ok(()) => None,
                Err(error) => match error.raw_os_error() {
                    // The last packet that the kernel took was not sent, for example without a carrier.
                    Some(libc::EBUSY) => {
                        is_refused = true;
                        None
                    }
                    // The kernel sends a part at a time.
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

    /// True if the interface of the socket was removed, even if another interface has its name and index
    /// now.
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

/// The name of the step that fails if a pool cannot be the memory of more queues.
const TOO_MANY: &str = "queues";
/// The time to wait until the kernel has released a queue whose socket has been closed: the kernel does so
/// asynchronously.
const RELEASE: Duration = Duration::from_secs(1);
/// The number of free slots of a queue below which a burst may find none.
const FEW: u32 = 512;

/// Returns the number of free slots that each queue may have, with this number of receiving elements and
/// queues per element. A quarter of the device area is left for packets that are being processed.
fn share(pool: &Pool, elements: usize, queues: usize) -> u32 {
    let slots = pool.device_area().1 / packet::SLOT_STRIDE;
    (slots / 4 * 3 / (elements * queues).max(1)) as u32
}

/// Opens a queue. With `shares`, other workers can be its guests.
fn open(
    cx: &mut Cx<'_>,
    wanted: &Wanted,
    index: c_int,
    (queue, shares): (u32, bool),
) -> Result<(Receiver, Transmitter, Option<Recipient>), (&'static str, io::Error)> {
    let opened = socket::open(cx.pool(), wanted.ring)?;
    let is_copied = wanted.mode == Mode::Kernel;
    let until = Instant::now() + if cx.is_heir() { Duration::ZERO } else { RELEASE };
    loop {
        match socket::bind(opened.socket.as_fd(), index, queue, is_copied) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => break result.map_err(|error| ("bind", error))?,
        }
    }
    let attached = match shares {
        true => cx.pool().attach_shared().map(|(device, recipient)| (device, Some(recipient))),
        false => cx.pool().attach().map(|device| (device, None)),
    };
    let (device, recipient) = attached.ok_or((TOO_MANY, io::Error::from_raw_os_error(libc::ENOSPC)))?;
    let Opened { socket, fill, receive, transmit, completed } = opened;
    let is_copied = socket::is_copied(socket.as_fd());
    let port = Arc::new(Port { socket, device, is_copied });
    let receiver = Receiver::of_owner(queue, Arc::clone(&port), fill, receive);
    let transmitter = Transmitter { port, queue, transmit, completed, copied: 0, refused: 0 };
    Ok((receiver, transmitter, recipient))
}

/// Returns the message for an error, with advice if these sockets have special causes.
pub(super) fn explain(wanted: &Wanted, step: &str, error: &io::Error) -> String {
    let device = &wanted.device;
    let text = cannot(device, step, error);
    let text = text.split(';').next().unwrap_or_default();
    let what = match (step, error.raw_os_error()) {
        ("bind", Some(libc::EBUSY)) => {
            "another socket has this queue; one FromXDP and one ToXDP of a configuration share it, at one worker"
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

/// Opens the queues of an interface that belong to this copy of an element: the queues whose number modulo
/// the number of copies is the copy's index. Each queue has a half that receives, and a half that sends if
/// the interface sends by that queue. With `bell`, the bell of this copy, all other copies can be guests at
/// its queues.
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
            // The interface has no more queues.
            Err(("bind", error)) if queue > 0 && wanted.queue.is_none() && is_invalid(&error) => break,
            Err((step, error)) => {
                close_all(cx.pool(), receivers, transmitters);
                return Err(explain(wanted, step, &error));
            }
        }
    }
    let elements = (0..cx.place().elements()).filter(|&id| cx.graph().service::<Offer>(id).is_some()).count();
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

/// Closes the halves of queues.
pub(super) fn close_all(pool: &mut Pool, receivers: Vec<Receiver>, transmitters: Vec<Option<Transmitter>>) {
    receivers.into_iter().for_each(|receiver| receiver.close(pool));
    transmitters.into_iter().flatten().for_each(|transmitter| transmitter.close(pool));
}

/// Opens a queue for sending only. Returns `None` if the interface does not send by this queue and other
/// queues will do.
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
    use super::*;

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
