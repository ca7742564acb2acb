//! The common parts of KernelTun, KernelTap, FromHost and ToHost, which exchange packets with the machine's
//! own network stack over a TUN or TAP interface: the creation of the interface, the receiver and the
//! transmitter.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use element::args::Ipv4Prefix;
use element::{Base, Batch, Cx, DropReason, Interest, Packet};
use packet::{PacketKind, VirtioNet};
use wire::ethernet::MacAddr;
use wire::{LinkType, vlan};

use super::budget::Budget;
use super::cannot;
use super::incoming::{Incoming, MarksIp, Received};
use super::large::leave_checksum;
use super::sys::tun::Tun;
use super::sys::{VIRTIO, address, link, parse_virtio};
use crate::handover::{Claimant, Registry};
use crate::losses::Losses;
use crate::reason;

/// The size in bytes of a buffer for the longest packet and its virtio-net header.
const LONGEST: usize = VIRTIO + packet::MAX_PACKET;
/// The length of an Ethernet header in bytes.
const ETHERNET: usize = 14;
/// The largest number of VLAN tags that do not count for the MTU.
const MOST_TAGS: usize = 2;
/// The token of the interface's file, which is watched for packets.
pub(super) const RECEIVE: u32 = 0;
/// The token of the file by which the kernel reports that interfaces were added or removed.
pub(super) const NEWS: u32 = 1;

/// The properties that an interface is created with: name, type, addresses, default route and MTU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The interface's name; empty if the kernel is to choose one.
    pub(super) name: String,
    pub(super) tap: bool,
    /// True if only one worker has a queue of the interface; false if each worker has one.
    pub(super) alone: bool,
    /// The machine's own IPv4 address on the interface, and its network.
    pub(super) near: Option<Ipv4Prefix>,
    pub(super) near6: Option<(Ipv6Addr, u8)>,
    pub(super) gateway: Option<Ipv4Addr>,
    pub(super) mac: Option<MacAddr>,
    /// The longest packet in bytes, without Ethernet header; `None` for the kernel's choice.
    pub(super) mtu: Option<u32>,
}

/// The number of the attempt to open the interface at which it was last created: attempt 1 is at the start,
/// and further attempts follow each removal until one succeeds. All workers share the number, and lock it
/// while they open the interface. The first worker thus creates the interface, and the others attach a queue.
pub(super) type Made = Mutex<u32>;

/// The queues of TUN and TAP interfaces that elements of this process have open.
static QUEUES: Registry<Queue> = Registry::new();

/// An open queue of an interface. A running element and the element that will replace it have the same queue.
pub(super) struct Queue {
    /// The properties in the configuration of the element that has opened the queue.
    wanted: Wanted,
    pub(super) tun: Arc<Tun>,
}

impl Queue {
    /// Claims the queue with these properties that an element of the running configuration has open at this
    /// worker. Returns `None` if there is none, or its interface was deleted.
    ///
    /// # Errors
    /// If the running configuration has the interface with other properties, which cannot be changed.
    pub(super) fn claim(by: &Claimant, wanted: &Wanted) -> Result<Option<Arc<Queue>>, String> {
        let is_same = |queue: &Queue| queue.wanted == *wanted && queue.tun.is_attached();
        if let Some(queue) = QUEUES.claim(by, is_same) {
            return Ok(Some(queue));
        }
        let has_name = |queue: &Queue| queue.tun.name == wanted.name && queue.tun.is_attached();
        QUEUES.find(by, has_name).map_or(Ok(None), |queue| {
            Err(format!(
                "{}: the running configuration has it with another type, address, gateway or MTU, which a reload cannot \
                 change; stop the run and start it again",
                queue.tun.name
            ))
        })
    }

    /// Lists a queue that was opened for an element with these properties.
    pub(super) fn list(by: &Claimant, wanted: Wanted, tun: Tun) -> Arc<Queue> {
        let queue = Arc::new(Queue { wanted, tun: Arc::new(tun) });
        QUEUES.list(by, &queue, true);
        queue
    }
}

/// Opens a queue of the interface, and creates the interface if no other worker has done so. `time` is the
/// number of the caller's attempt to open the interface, counted from 1; the interface is created if [`Made`]
/// has a smaller number. The worker that creates the interface also sets its addresses and routes and brings
/// it up, while the other workers wait. If that fails, the next worker tries. The kernel removes all of that
/// with the interface.
///
/// # Errors
/// If the interface cannot be created, is in use by another program, or cannot be brought up.
pub(super) fn open(cx: &mut Cx<'_>, wanted: &Wanted, made: &Made, time: u32) -> Result<Tun, String> {
    let (_, workers) = if wanted.alone { (0, 1) } else { cx.workers().copy() };
    // Several workers have to use the same name, so the kernel cannot choose it.
    let name = match wanted.name.as_str() {
        "" if workers > 1 => format!("tap{}.{}", std::process::id(), cx.id()),
        name => name.into(),
    };
    let shown = if name.is_empty() { "/dev/net/tun" } else { &name };
    let mut times = made.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let is_made = *times >= time;
    if workers > 1 && !is_made && is_in_use(&name) {
        return Err(cannot(shown, "TUNSETIFF", &io::Error::from_raw_os_error(libc::EBUSY)));
    }
    let tun =
        Tun::open(&name, wanted.tap, workers > 1).map_err(|(step, error)| cannot(shown, step, &error))?;
    if !is_made {
        settle(cx, wanted, &tun.name)?;
        *times = time;
    }
    Ok(tun)
}

/// Sets the addresses, routes and MTU of an interface, and brings it up. A failure to set the Ethernet
/// address or the MTU is only a warning.
///
/// # Errors
/// If an IP address or route cannot be set, or the interface cannot be brought up.
pub(super) fn settle(cx: &mut Cx<'_>, wanted: &Wanted, name: &str) -> Result<(), String> {
    let warn = |cx: &mut Cx<'_>, what: &str, error: &io::Error| {
        cx.warn(format_args!("could not set interface {what}: {}", reason(error)));
    };
    if let Some(near) = wanted.near {
        address::set(name, near.address, near.mask).map_err(|(step, error)| cannot(name, step, &error))?;
    }
    if let Some(mac) = wanted.mac
        && let Err(error) = link::set_mac(name, mac)
    {
        warn(cx, "Ethernet address", &error);
    }
    if let Some(mtu) = wanted.mtu
        && let Err(error) = link::set_mtu(name, mtu as i32)
    {
        warn(cx, "MTU", &error);
    }
    link::set_flags(name, libc::IFF_UP, 0).map_err(|error| cannot(name, "SIOCSIFFLAGS", &error))?;
    if let Some((address, prefix)) = wanted.near6 {
        address::set6(name, address, prefix).map_err(|error| cannot(name, "SIOCSIFADDR", &error))?;
    }
    if let Some(gateway) = wanted.gateway {
        address::set_default_route(gateway).map_err(|error| cannot(name, "default route", &error))?;
    }
    Ok(())
}

/// True if the interface is up and has a carrier: for a TUN or TAP interface, another process then has it
/// open. A queue for Tidegate would get only a part of the packets.
fn is_in_use(name: &str) -> bool {
    link::is_up(name).unwrap_or(false) && link::has_carrier(name).unwrap_or(false)
}

/// The part of an element that receives packets from the machine's network stack.
pub(super) struct Receiver {
    pub(super) incoming: Incoming,
    budget: Budget,
    buffer: Vec<u8>,
    /// The number of turns in which the interface was read.
    pub(super) turns: u64,
    /// True if reading has shown that the interface was removed.
    pub(super) is_gone: bool,
}

impl Receiver {
    pub(super) fn new(marks_ip: MarksIp, link: LinkType) -> Receiver {
        Receiver {
            incoming: Incoming::new(packet::MAX_PACKET, marks_ip, link),
            budget: Budget::default(),
            buffer: vec![0; LONGEST],
            turns: 0,
            is_gone: false,
        }
    }

    pub(super) fn start(&self, cx: &mut Cx<'_>, tun: &Tun) -> Result<(), String> {
        let watched = cx.files().watch(RECEIVE, tun.file().as_fd(), Interest::Read);
        watched.map_err(|error| cannot(&tun.name, "poll", &error))
    }

    /// Reads packets and emits them, at most `most` in the long run ([`Budget`]). Returns true if there may
    /// be more packets now.
    pub(super) fn receive(&mut self, cx: &mut Cx<'_>, tun: &Tun, most: usize) -> bool {
        if self.is_gone {
            return false;
        }
        self.turns += 1;
        let mut batch = cx.batch();
        let mut more = true;
        self.budget.begin(most);
        while self.budget.has_some() && cx.has_room() {
            let length = match tun.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) => {
                    self.fault(cx, &error);
                    more = false;
                    break;
                }
            };
            let Some((header, bytes)) = self.buffer[..length].split_first_chunk::<VIRTIO>() else {
                self.budget.spend(0);
                continue;
            };
            let received = Received {
                device: &tun.name,
                bytes,
                length: bytes.len(),
                time: cx.now(),
                kind: kind(bytes, self.incoming.link),
                vlan: None,
                virtio: parse_virtio(header),
            };
            let made = self.incoming.take(cx, &mut batch, &received);
            self.budget.spend(made);
        }
        cx.emit(0, batch);
        more
    }

    fn fault(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return;
        }
        // With these errors, the file is open, but the interface does not exist any more.
        self.is_gone = matches!(error.raw_os_error(), Some(libc::EBADFD | libc::EIO | libc::ENODEV));
        if self.is_gone {
            return cx.files().unwatch(RECEIVE);
        }
        cx.warn(format_args!("read: {}", reason(error)));
    }
}

/// Returns the packet type of a frame: broadcast, multicast, or for this host, by the Ethernet destination.
fn kind(bytes: &[u8], link: LinkType) -> PacketKind {
    match bytes.first_chunk() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) if link == LinkType::Ethernet => PacketKind::Broadcast,
        Some([first, ..]) if link == LinkType::Ethernet && first & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::Host,
    }
}

/// The part of an element that sends packets to the machine's network stack.
#[derive(Default)]
pub(super) struct Transmitter {
    /// The longest packet that is sent, in bytes without Ethernet header; with 0 only the interface's limit
    /// applies.
    mtu: usize,
    losses: Losses,
    /// True if elements upstream may send packets whose checksum or segmentation is left to an interface.
    offloads: bool,
    pub(super) drops: u64,
}

impl Transmitter {
    pub(super) fn new(mtu: usize) -> Transmitter {
        Transmitter { mtu, ..Transmitter::default() }
    }

    /// Writes packets to the interface. Packets that it does not take, that are longer than the MTU, or that
    /// lack their header are dropped. With `tap`, packets start with their Ethernet header; otherwise they
    /// are made to start with their IP header.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, tun: &Arc<Tun>, tap: bool, mut batch: Batch) {
        let mut sent = cx.batch();
        for mut packet in batch.drain() {
            match self.send_one(cx, tun, tap, &mut packet) {
                // The push does not fail, because both batches have the same capacity.
                Ok(()) => drop(sent.push(packet)),
                Err(why) => {
                    self.drops += 1;
                    cx.drop(packet, why);
                }
            }
        }
        cx.recycle(batch);
        cx.sent(sent);
    }

    /// Finds out from the graph if packets with unfinished checksums or segmentation may arrive.
    pub(super) fn start(&mut self, cx: &Cx<'_>) {
        self.offloads = cx.graph().facts().uses_offloads();
    }

    fn send_one(
        &mut self,
        cx: &mut Cx<'_>,
        tun: &Tun,
        tap: bool,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        let refused = if tap {
            (packet.len() < ETHERNET).then_some((DropReason::TooShort, "packet too small"))
        } else {
            bare(packet).err()
        };
        // The annotation `virtio` describes work that is left to an interface. If no upstream element leaves
        // such work, the annotation has no meaning.
        let virtio = match self.offloads {
            true => {
                leave_checksum(packet, if tap { LinkType::Ethernet } else { LinkType::RawIp });
                packet.annotations().virtio
            }
            false => VirtioNet::default(),
        };
        if let Some((why, text)) = refused {
            self.losses.count(cx, &tun.name, (why, 1), Some(format_args!("{text}")));
            return Err(why);
        }
        let length = match virtio.gso_type {
            0 => packet.len(),
            _ => usize::from(virtio.header_length) + usize::from(virtio.gso_size),
        };
        let mtu = self.mtu;
        if mtu > 0 && length > mtu && length - if tap { link_header(packet.data()) } else { 0 } > mtu {
            let text = format_args!("packet larger than MTU ({mtu})");
            self.losses.count(cx, &tun.name, (DropReason::TooLarge, 1), Some(text));
            return Err(DropReason::TooLarge);
        }
        loop {
            let Err(error) = tun.write(&virtio, packet.chunks()) else { return Ok(()) };
            let number = error.raw_os_error().unwrap_or(0);
            let why = match number {
                libc::EINTR => continue,
                libc::ENOBUFS | libc::EAGAIN => DropReason::SendQueueFull,
                libc::EIO | libc::EBADFD | libc::ENODEV => DropReason::InterfaceDown,
                _ => DropReason::WriteError,
            };
            let text = format_args!("write failed: {}", reason(&error));
            self.losses.count(cx, &tun.name, (why, 1), Some(text));
            return Err(why);
        }
    }

    /// Reports the dropped packets that have not been reported yet, at the end of a run.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, name: &str) {
        self.losses.end(cx, name);
    }
}

/// Returns the length in bytes of an Ethernet frame's link header, with up to two VLAN tags. The frame must
/// be at least as long as an Ethernet header. Tags do not count for the MTU, as with the machine's own VLAN
/// interfaces.
fn link_header(frame: &[u8]) -> usize {
    let type_at = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let mut length = ETHERNET;
    while length < ETHERNET + MOST_TAGS * vlan::Tag::LEN && type_at(length - 2).is_some_and(vlan::is_tag) {
        length += vlan::Tag::LEN;
    }
    length
}

/// Makes the packet start with its network header, which must be an IP header.
///
/// # Errors
/// The drop reason and its text, if there is no such header; the packet may then only be dropped.
fn bare(packet: &mut Packet) -> Result<(), (DropReason, &'static str)> {
    let missing = (DropReason::NoHeader, "no network header");
    let offset = packet.offset(Base::Network).ok_or(missing)?;
    let header = packet.header(Base::Network).filter(|header| header.len() >= 20).ok_or(missing)?;
    if !matches!(header[0] >> 4, 4 | 6) {
        return Err((DropReason::BadIpHeader, "unknown IP version"));
    }
    let moved =
        if offset < 0 { packet.unstrip(offset.unsigned_abs()) } else { packet.strip(offset as usize) };
    moved.then_some(()).ok_or(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_belong_to_the_link_header() {
        let frame = |types: &[u16]| {
            let tags = types.iter().flat_map(|ether_type| [ether_type.to_be_bytes(), [0, 5]].concat());
            [2; 12].into_iter().chain(tags).collect::<Vec<u8>>()
        };
        for (types, length) in [
            (&[0x0800][..], 14),
            (&[0x8100, 0x0800], 18),
            (&[0x88a8, 0x8100, 0x0800], 22),
            (&[0x8100, 0x8100, 0x8100, 0x0800], 22),
            // The frame ends after its tag. The type that should follow the tag counts as part of the header.
            (&[0x8100], 18),
            (&[], 14),
        ] {
            assert_eq!(link_header(&frame(types)), length, "{types:x?}");
        }
    }
}
