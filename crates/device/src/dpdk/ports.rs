//! The DPDK ports that a graph uses.
//!
//! Elements register their requirements while they are built ([`Ports::expect`]). Thus a port can be
//! configured once, with as many queues as all copies of its elements need. The first copy that is
//! initialized configures the port, each copy sets up its own queues, and the last copy starts the port. If
//! the port's device is removed, all copies leave the port, and the last one removes it from DPDK.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use element::{Cx, Packet, Setup};
use nix::sys::eventfd::EventFd;
use packet::{Pool, SLOT_CAPACITY};

use super::away::Away;
use super::start::with_its_words;
use super::sys::memory::{Arrived, BURST, Memory, OwnPool, RxQueue, TxQueue};
use super::sys::{port, start};
use super::{Refused, Wanted};
use crate::interface::sys::link;
use crate::interface::sys::tun::Attached;

/// The length in bytes of an Ethernet header with a VLAN tag, which the MTU does not include.
const LINK_HEADER: usize = 18;
/// The number of buffers in DPDK's own pool, per receive queue of the port, if NB_MBUF is 0 or not given.
/// DPDK's own pool is for ports that cannot use the packet pool.
const OWN_BUFFERS: u32 = 8192;
/// The number of descriptors of a queue if NDESC is 0 or not given.
const DESCRIPTORS: u16 = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Refused {
    fn with_its_words(self) -> Refused {
        match self {
            Refused::Missing(text) => Refused::Missing(with_its_words(text)),
            Refused::Failed(text) => Refused::Failed(with_its_words(text)),
        }
    }
}

/// All ports of a graph and the requirements of its elements, shared by all its workers.
#[derive(Default)]
pub(super) struct Ports {
    wanted: Mutex<Vec<Wanted>>,
    open: Mutex<Vec<Arc<Port>>>,
    /// The lock of the copy that looks for a removed port and opens it.
    search: Mutex<()>,
    /// The value of DPDKInfo's NB_MBUF; 0 if it is not given.
    buffers: AtomicU32,
}

/// A port that has been configured. The port is started when all copies of its elements have set up their
/// queues.
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) info: port::Info,
    /// The elements that use the port: the requirements and the queues of each.
    shares: Vec<Share>,
    pub(super) rx: u16,
    pub(super) tx: u16,
    /// The number of copies of elements that have not set up their queues yet; the number of copies that
    /// have left the removed port; and the number of all copies.
    missing: AtomicUsize,
    left: AtomicUsize,
    copies: usize,
    /// True if the port's device was removed, so that all copies have to leave the port.
    pub(super) is_lost: AtomicBool,
    /// Two flags: the user has been notified that the port is there again; the user has been notified that
    /// it is gone.
    told: [AtomicBool; 2],
    /// The network interface of this machine that the port uses, by which its removal is noticed.
    pub(super) end: End,
    /// The bells of ToDPDKDevice elements, which ring when the port is found to be removed.
    bells: Mutex<Vec<Arc<EventFd>>>,
    runs: AtomicBool,
    /// True if a secret key has been set, by which the port spreads packets over its queues.
    pub(super) has_secret_key: AtomicBool,
    /// DPDK's own pool for packets that have to be copied, created when a queue needs it; and the number of
    /// buffers that it gets.
    own: Mutex<Option<Arc<OwnPool>>>,
    buffers: u32,
    pub(super) rx_descriptors: u16,
    tx_descriptors: u16,
}

/// The network interface of this machine that a port uses. Some drivers do not report that it was removed.
pub(super) enum End {
    /// The port uses no interface. Only its driver can report a removal.
    None,
    /// An interface that exists independently of the driver, by its index in the kernel.
    Interface(i32),
    /// A TAP interface that the driver has created. The interface is watched by the driver's file
    /// descriptors, because it may have been moved to another namespace. The descriptors are looked up when
    /// the port has been started.
    Tap(OnceLock<Attached>),
}

impl End {
    fn of(info: &port::Info) -> End {
        match info.interface {
            _ if info.driver == "net_tap" => End::Tap(OnceLock::new()),
            Some(index) => End::Interface(index),
            None => End::None,
        }
    }

    /// Looks up the file descriptors of a TAP interface, once the port has been started and the driver has
    /// opened them.
    fn settle(&self, info: &port::Info) {
        if let (End::Tap(files), Some(index)) = (self, info.interface)
            && let Ok(name) = link::name_of(index)
        {
            files.get_or_init(|| Attached::to(&name));
        }
    }

    /// True if the interface was removed. False if no interface has to be watched.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            End::None => false,
            End::Interface(index) => {
                link::name_of(*index).is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
            }
            End::Tap(files) => files.get().is_some_and(Attached::is_gone),
        }
    }
}

struct Share {
    wanted: Wanted,
    /// The number of the element's copies: one per worker, or 1.
    copies: usize,
    first: u16,
    queues: u16,
    /// For each of the element's queues, a lock if several copies send to it. DPDK allows one sender at a
    /// time.
    locks: Vec<Option<Arc<Mutex<()>>>>,
}

impl Share {
    /// Returns the numbers of the queues that a copy sets up: each `copies`-th of the element's queues.
    fn queues_of(&self, copy: usize) -> impl Iterator<Item = u16> + use<> {
        let first = self.first;
        (0..self.queues).skip(copy).step_by(self.copies).map(move |queue| first + queue)
    }
}

impl Ports {
    /// Returns the ports of the graph that is being built, which all its elements share.
    pub(super) fn of(setup: &Setup) -> Arc<Ports> {
        setup.common.get_or_make(0, Ports::default)
    }

    /// Registers an element's requirements on a port. All copies call this; only the first worker's call
    /// counts, because their requirements are the same.
    pub(super) fn expect(&self, setup: &Setup, wanted: &Wanted) {
        if setup.worker == 0 {
            lock(&self.wanted).push(wanted.clone());
        }
    }

    /// Sets the number of buffers of each of DPDK's own pools; 0 for a number that depends on the port's
    /// queues.
    pub(super) fn set_buffers(&self, buffers: u32) {
        self.buffers.store(buffers, Ordering::Relaxed);
    }

    /// Opens the queues from which an element's copy at this worker receives. The last copy of the port's
    /// elements starts the port.
    ///
    /// # Errors
    /// If DPDK does not run, there is no such port, or DPDK refuses a step; the message includes DPDK's
    /// output.
    pub(super) fn receive(self: &Arc<Self>, cx: &mut Cx<'_>, wanted: &Wanted) -> Result<Receiver, Refused> {
        let (receiver, joined) = self.open_receiver(cx, wanted).map_err(Refused::with_its_words)?;
        match joined {
            Ok(()) => Ok(receiver),
            Err(text) => {
                receiver.close(cx);
                Err(Refused::Failed(text).with_its_words())
            }
        }
    }

    /// Opens the queues, like [`receive`](Self::receive), but also returns them if this was the last copy
    /// and the port could not be started; the second result is then the error.
    pub(super) fn open_receiver(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
    ) -> Result<(Receiver, Result<(), String>), Refused> {
        let (port, memory, share) = self.open(cx, wanted)?;
        let failed = Refused::Failed;
        let mut queues = Vec::new();
        for queue in port.shares[share].queues_of(copy_of(cx, port.shares[share].copies)) {
            port.set_up(cx, &memory, queue).map_err(failed)?;
            queues.push(RxQueue::new(Arc::clone(&memory), port.number, queue));
        }
        let joined = port.joined(cx, &memory);
        Ok((Receiver { ports: Arc::clone(self), port, memory, queues, first: 0 }, joined))
    }

    /// Opens the queue by which an element's copy at this worker sends. The last copy of the port's
    /// elements starts the port.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub(super) fn send(self: &Arc<Self>, cx: &mut Cx<'_>, wanted: &Wanted) -> Result<Transmitter, Refused> {
        let (transmitter, joined) = self.open_transmitter(cx, wanted).map_err(Refused::with_its_words)?;
        match joined {
            Ok(()) => Ok(transmitter),
            Err(text) => {
                transmitter.close(cx);
                Err(Refused::Failed(text).with_its_words())
            }
        }
    }

    /// Opens the queue, like [`send`](Self::send), but also returns it if this was the last copy and the
    /// port could not be started; the second result is then the error.
    pub(super) fn open_transmitter(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
    ) -> Result<(Transmitter, Result<(), String>), Refused> {
        let (port, memory, number) = self.open(cx, wanted)?;
        let share = &port.shares[number];
        let copy = copy_of(cx, share.copies);
        for queue in share.queues_of(copy) {
            port::set_up_tx(port.number, queue, port.tx_descriptors)
                .map_err(|error| Refused::Failed(port.cannot("set up a send queue", error)))?;
        }
        let at = copy % usize::from(share.queues);
        let (queue, lock) = (share.first + at as u16, share.locks[at].clone());
        let own = port.own(&memory, true).map_err(Refused::Failed)?;
        let queue = TxQueue::new(Arc::clone(&memory), port.number, queue, wanted.room, lock, own);
        let mut transmitter =
            Transmitter { ports: Arc::clone(self), port: Arc::clone(&port), queue, longest: 0 };
        let joined = port.joined(cx, &memory);
        transmitter.longest = port.longest();
        Ok((transmitter, joined))
    }

    /// Registers that a copy of an element does not use a removed port any more. The last copy removes the
    /// port from DPDK.
    pub(super) fn leave(&self, pool: &mut Pool, memory: &Arc<Memory>, port: &Arc<Port>) {
        if port.left.fetch_add(1, Ordering::AcqRel) + 1 == port.copies {
            port.runs.store(false, Ordering::Release);
            memory.remove(pool, port.number);
            lock(&self.open).retain(|other| !Arc::ptr_eq(other, port));
        }
    }

    /// True if all copies have left a removed port, so that it has been removed from DPDK.
    pub(super) fn is_removed(&self, port: &Arc<Port>) -> bool {
        !lock(&self.open).iter().any(|other| Arc::ptr_eq(other, port))
    }

    /// Takes the lock for looking for a removed port, until the guard is dropped. One copy at a time looks
    /// for the port and opens its queues.
    pub(super) fn search(&self) -> MutexGuard<'_, ()> {
        lock(&self.search)
    }

    /// Makes DPDK probe for the device of a removed port, unless DPDK knows a port of its name already.
    /// Returns true if there is a port of the name now.
    pub(super) fn find_again(&self, port: &Port) -> bool {
        let info = &port.info;
        port::find(&info.name).is_some()
            || (!info.arguments.is_empty()
                && port::probe(&info.arguments).is_ok()
                && port::find(&info.name).is_some())
    }

    /// Returns the configured port with this name; `None` if there is none.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Port>> {
        lock(&self.open).iter().find(|port| port.info.name == name).cloned()
    }

    /// Returns the port that an element requires, the memory of this worker, and the index of the element
    /// in the port's `shares`. Configures the port if this is the first copy that opens it.
    ///
    /// # Errors
    /// If DPDK does not run, there is no such port, it cannot be configured, or DPDK has no memory.
    fn open(&self, cx: &mut Cx<'_>, wanted: &Wanted) -> Result<(Arc<Port>, Arc<Memory>, usize), Refused> {
        if !start::is_running() {
            return Err(Refused::Failed(
                "DPDK has not been started: its arguments stand between `--dpdk` and `--`, as in `--dpdk --no-huge \
                 --vdev=net_tap0 -- FILE`"
                    .into(),
            ));
        }
        let Some(number) = port::find(&wanted.port) else {
            return Err(Refused::Missing(format!(
                "{}: Unknown or invalid PORT; {}",
                wanted.port,
                there_are()
            )));
        };
        let mut open = lock(&self.open);
        let found = open.iter().find(|port| port.number == number).cloned();
        let port = match found {
            Some(port) => port,
            None => {
                let mut all = lock(&self.wanted);
                // Elements are recorded under the port's name: after a removal, the port may come back with
                // another number.
                let name = port::info(number).map_or(wanted.port.clone(), |info| info.name);
                let is_same = |other: &Wanted| port::find(&other.port) == Some(number);
                all.iter_mut().filter(|other| is_same(other)).for_each(|other| other.port.clone_from(&name));
                let same = all.iter().filter(|other| other.port == name);
                let port = Arc::new(
                    Port::configure(cx, number, same.cloned(), self.buffers.load(Ordering::Relaxed))
                        .map_err(Refused::Failed)?,
                );
                open.push(Arc::clone(&port));
                port
            }
        };
        let memory = Memory::of(cx.pool()).map_err(Refused::Failed)?;
        let share = port.shares.iter().position(|share| share.wanted.element == wanted.element);
        let share = share.ok_or_else(|| Refused::Failed("an element that was not there at first".into()))?;
        Ok((port, memory, share))
    }

    /// Returns the names of the pools from which drivers take buffers at this worker, and the number of
    /// free buffers of each: the slots that DPDK has of the packet pool, and DPDK's own pools.
    pub(super) fn pools(&self, pool: &mut Pool) -> Vec<(String, usize)> {
        let open = lock(&self.open);
        let own = open.iter().filter_map(|port| Some((port, lock(&port.own).clone()?)));
        let own = own.map(|(port, own)| (format!("copies of {}", port.info.name), own.free() as usize));
        let slots = Memory::known(pool).map(|memory| ("slots".into(), memory.free(pool)));
        slots.into_iter().chain(own).collect()
    }

    /// Stops all ports, when the run is over and before any worker releases its memory: no port may still
    /// have a worker's packets. First takes the packets out of all receive queues, because ports that connect
    /// workers (`net_ring`) may hold packets. Only the first call does something.
    pub(super) fn stop(&self, pool: &mut Pool, memory: &Arc<Memory>) {
        let running: Vec<_> =
            lock(&self.open).iter().filter(|port| port.runs.swap(false, Ordering::AcqRel)).cloned().collect();
        for port in &running {
            for queue in 0..port.rx {
                let mut queue = RxQueue::new(Arc::clone(memory), port.number, queue);
                // Some ports, such as `net_null`, return packets without end, so the number of attempts is
                // limited.
                for _ in 0..64 {
                    let n = queue.receive(
                        pool,
                        BURST,
                        |pool| pool,
                        |pool, arrived, _| {
                            if let Arrived::Slot(packet) = arrived {
                                pool.free(packet);
                            }
                        },
                    );
                    if n == 0 {
                        break;
                    }
                }
            }
        }
        for port in &running {
            memory.stop(pool, port.number);
        }
    }
}

/// Returns the index of this worker's copy of an element: the worker's number, or 0 for a single copy.
fn copy_of(cx: &Cx<'_>, copies: usize) -> usize {
    if copies > 1 { cx.worker().0 } else { 0 }
}

fn there_are() -> String {
    let ports = port::all();
    let names: Vec<_> = ports
        .iter()
        .map(|&number| format!("{number} ({})", port::info(number).map(|info| info.name).unwrap_or_default()))
        .collect();
    match names.is_empty() {
        true => "there are none: `--vdev` makes virtual ones, and cards have to be bound to vfio-pci".into(),
        false => format!("there are {}", names.join(", ")),
    }
}

impl Port {
    /// Configures the port with queues for all elements that require it. Assigns the queues in the order in
    /// which the elements were built. `number` is the port's number in DPDK, `all` has the elements'
    /// requirements, and `buffers` is NB_MBUF or 0.
    ///
    /// # Errors
    /// If the port has too few queues, two elements receive from one queue, or DPDK refuses.
    fn configure(
        cx: &Cx<'_>,
        number: u16,
        all: impl Iterator<Item = Wanted>,
        buffers: u32,
    ) -> Result<Port, String> {
        let info = port::info(number).map_err(|error| format!("port {number}: {}", start::reason(error)))?;
        let (mut next, most) = ([0u16; 2], [info.most_rx, info.most_tx]);
        let mut shares = Vec::new();
        let mut missing = 0;
        for wanted in all {
            let copies = cx.workers().copies(wanted.element);
            if copies == 0 {
                continue;
            }
            missing += copies;
            let side = usize::from(wanted.sends);
            // Without N_QUEUES, an element has one queue if QUEUE is given, and one queue per copy otherwise,
            // within MINQUEUES and MAXQUEUES.
            let usual = if wanted.queue.is_some() { 1 } else { copies as u16 };
            let queues =
                wanted.queues.unwrap_or(usual.clamp(wanted.least, wanted.most.max(wanted.least))).max(1);
            let mut first = wanted.queue.unwrap_or(next[side]);
            if first >= most[side] && wanted.sends && wanted.queue.is_none() {
                // No send queue is left: the element shares queues with elements that have been assigned
                // before.
                first = 0;
            }
            let there = most[side].saturating_sub(first);
            if there == 0 || wanted.queues.is_some_and(|queues| queues > there) {
                let (name, what) = (&info.name, if wanted.sends { "send" } else { "receive" });
                return Err(format!("{name} has {} {what} queues, which is not enough", most[side]));
            }
            let queues = queues.min(there);
            next[side] = next[side].max(first + queues);
            shares.push(Share { wanted, copies, first, queues, locks: Vec::new() });
        }
        let taken = |share: &Share, queue: u16| (share.first..share.first + share.queues).contains(&queue);
        for queue in 0..next[0] {
            let receives = |share: &&Share| !share.wanted.sends && taken(share, queue);
            if shares.iter().filter(receives).count() > 1 {
                return Err(format!("{}: two elements receive from queue {queue}", info.name));
            }
        }
        let users = |queue: u16| -> usize {
            let senders = shares.iter().filter(|share| share.wanted.sends && taken(share, queue));
            senders.map(|share| share.copies.div_ceil(usize::from(share.queues))).sum()
        };
        let locks: Vec<_> = (0..next[1]).map(|queue| (users(queue) > 1).then(Arc::default)).collect();
        for share in shares.iter_mut().filter(|share| share.wanted.sends) {
            share.locks = locks[usize::from(share.first)..][..usize::from(share.queues)].to_vec();
        }
        let descriptors = |sends: bool| {
            let of_side = shares.iter().filter(|share| share.wanted.sends == sends);
            of_side.map(|share| share.wanted.descriptors).max().filter(|&n| n > 0).unwrap_or(DESCRIPTORS)
        };
        let mtu = shares.iter().find_map(|share| share.wanted.mtu).unwrap_or(0);
        let [mut rx, mut tx] = next.map(|n| n.max(1));
        let receiving = next[0];
        let mut configured = port::configure(number, rx, tx, mtu, receiving > 1);
        if configured.is_err() && rx != tx {
            // Some drivers require as many send queues as receive queues.
            (rx, tx) = (rx.max(tx), rx.max(tx));
            configured = port::configure(number, rx, tx, mtu, receiving > 1);
        }
        configured.map_err(|error| {
            let hint = if error == -libc::EBUSY { "; it is in use already" } else { "" };
            format!("{}: configure: {}{hint}", info.name, start::reason(error))
        })?;
        let (rx_descriptors, tx_descriptors) =
            port::descriptors(number, descriptors(false), descriptors(true));
        Ok(Port {
            number,
            end: End::of(&info),
            left: AtomicUsize::new(0),
            copies: missing,
            is_lost: AtomicBool::new(false),
            told: Default::default(),
            bells: Mutex::default(),
            info,
            shares,
            rx,
            tx,
            missing: AtomicUsize::new(missing),
            runs: AtomicBool::new(false),
            has_secret_key: AtomicBool::new(false),
            own: Mutex::new(None),
            buffers: if buffers > 0 { buffers } else { OWN_BUFFERS * u32::from(rx) },
            rx_descriptors,
            tx_descriptors,
        })
    }

    fn cannot(&self, what: &str, error: i32) -> String {
        let hint = match -error {
            libc::EPERM | libc::EACCES => "; this needs root, or the capabilities that its driver wants",
            libc::ENOMEM => "; give DPDK more memory with `-m`",
            _ => "",
        };
        format!("{}: cannot {what}: {}{hint}", self.info.name, start::reason(error))
    }

    /// Returns DPDK's own pool if packets of one direction have to be copied, and `None` if the port can
    /// use the packet pool. Packets are copied if the device cannot reach the packet pool. The driver for
    /// AF_XDP also needs copies on receive, because it assumes that buffers directly follow their headers;
    /// the packets that it sends it copies itself.
    ///
    /// # Errors
    /// If DPDK has no memory for its pool.
    fn own(&self, memory: &Memory, sends: bool) -> Result<Option<Arc<OwnPool>>, String> {
        let is_xdp = self.info.driver == "net_af_xdp" && !sends;
        if !is_xdp && (self.info.is_virtual || memory.reaches(self.number)) {
            return Ok(None);
        }
        let mut own = lock(&self.own);
        if own.is_none() {
            *own = OwnPool::new(self.buffers, is_xdp).map(Arc::new);
        }
        own.clone().map(Some).ok_or_else(|| {
            format!(
                "{}: DPDK has no memory for copies of packets; give it more with `-m`, or fewer buffers with \
                 `DPDKInfo(NB_MBUF 8192)`",
                self.info.name
            )
        })
    }

    /// Sets up a receive queue, whose driver takes buffers from the packet pool or from DPDK's own pool.
    fn set_up(&self, cx: &mut Cx<'_>, memory: &Memory, queue: u16) -> Result<(), String> {
        let own = self.own(memory, false)?;
        // The driver fills the queue's descriptors with buffers during this call, so DPDK needs that many
        // free slots.
        let free = memory.free(cx.pool());
        memory.refill(cx.pool(), free + usize::from(self.rx_descriptors) + BURST);
        let result = memory.set_up(cx.pool(), own.as_deref(), self.number, queue, self.rx_descriptors);
        if result < 0 { Err(self.cannot("set up a receive queue", result)) } else { Ok(()) }
    }

    /// Registers that a copy of an element has set up its queues. The last copy sets up queues that no
    /// element has, starts the port, and applies MAC, MTU, PROMISC, MAX_RSS and RSS_KEY.
    fn joined(&self, cx: &mut Cx<'_>, memory: &Memory) -> Result<(), String> {
        if self.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let taken = |sends: bool, queue: u16| {
            let of_side = self.shares.iter().filter(|share| share.wanted.sends == sends);
            of_side.into_iter().any(|share| (share.first..share.first + share.queues).contains(&queue))
        };
        // Queues that no element uses must be set up as well. The driver requires them.
        for queue in (0..self.rx).filter(|&queue| !taken(false, queue)) {
            self.set_up(cx, memory, queue)?;
        }
        for queue in (0..self.tx).filter(|&queue| !taken(true, queue)) {
            port::set_up_tx(self.number, queue, self.tx_descriptors)
                .map_err(|error| self.cannot("set up a send queue", error))?;
        }
        let wanted = || self.shares.iter().map(|share| &share.wanted);
        if let Some(mac) = wanted().find_map(|wanted| wanted.mac) {
            port::set_mac(self.number, mac.0, port::Mac::Set)
                .map_err(|error| self.cannot("set its address", error))?;
        }
        let result = memory.start(cx.pool(), self.number);
        if result < 0 {
            return Err(self.cannot("start", result));
        }
        self.end.settle(&self.info);
        self.runs.store(true, Ordering::Release);
        if let Some(mtu) = wanted().find_map(|wanted| wanted.mtu)
            && port::mtu(self.number) != Ok(usize::from(mtu))
        {
            port::set_mtu(self.number, mtu)
                .map_err(|error| self.cannot(&format!("set an MTU of {mtu}"), error))?;
        }
        // Many virtual ports do not support the setting (ENOTSUP) and receive all frames anyway, so that this
        // error is not reported.
        let promiscuous = wanted().any(|wanted| wanted.promiscuous);
        if let Err(error) = port::set_promiscuous(self.number, promiscuous)
            && promiscuous
            && error != -libc::ENOTSUP
        {
            let text = self.cannot("set promiscuous mode", error);
            cx.warn(format_args!("{text}"));
        }
        if let Some(queues) = wanted().find_map(|wanted| wanted.spread) {
            port::set_reta(self.number, queues, self.info.reta_size)
                .map_err(|error| self.cannot("spread packets over queues (MAX_RSS)", error))?;
        }
        self.hide_key(cx);
        Ok(())
    }

    /// Sets a secret key, by which the port spreads packets over its queues. Does nothing if the engine gives
    /// no key: with one worker, or under the trace clock. Does nothing either if the port cannot spread
    /// packets, if its elements have a single receive queue, or with RSS_KEY own. If the port refuses the
    /// key, the user is warned.
    fn hide_key(&self, cx: &mut Cx<'_>) {
        let receivers = self.shares.iter().filter(|share| !share.wanted.sends);
        let (mut queues, mut keeps) = (0, false);
        receivers.for_each(|share| (queues, keeps) = (queues + share.queues, keeps | share.wanted.keeps_key));
        let Some(length) = self.info.key_length.filter(|_| queues > 1 && !keeps) else { return };
        let Some(key) = cx.workers().interface_key(length.into()) else { return };
        match port::set_key(self.number, &key) {
            Ok(()) => self.has_secret_key.store(true, Ordering::Relaxed),
            Err(error) => {
                cx.warn(format_args!("{}", crate::rss_key::refusal(&self.info.name, &start::reason(error))));
            }
        }
    }

    /// Returns true at the first call only, for the copy that reports that the port is gone.
    pub(super) fn says_gone(&self) -> bool {
        !self.told[1].swap(true, Ordering::Relaxed)
    }

    /// Returns true once, for the copy that reports that the port is there again: the copy that has opened
    /// the port last, so that it runs.
    pub(super) fn says_back(&self) -> bool {
        self.runs.load(Ordering::Acquire) && !self.told[0].swap(true, Ordering::Relaxed)
    }

    /// Registers a bell that rings when a copy of any element finds that the port was removed.
    pub(super) fn ring(&self, bell: &Arc<EventFd>) {
        lock(&self.bells).push(Arc::clone(bell));
    }

    pub(super) fn bells(&self) -> Vec<Arc<EventFd>> {
        lock(&self.bells).clone()
    }

    /// Returns the length in bytes of the longest frame that the port carries and a slot can hold.
    fn longest(&self) -> usize {
        let mtu = port::mtu(self.number).unwrap_or(SLOT_CAPACITY);
        (mtu + LINK_HEADER).min(SLOT_CAPACITY)
    }
}

/// The receive queues of a port that belong to a copy of an element.
pub(super) struct Receiver {
    ports: Arc<Ports>,
    port: Arc<Port>,
    memory: Arc<Memory>,
    queues: Vec<RxQueue>,
    /// The index of the queue that is read first in the next turn. The index advances by one each turn, so
    /// that no queue starves.
    first: usize,
}

impl Receiver {
    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    /// Returns a warning if the port's MTU allows frames that are longer than a slot, and `None` otherwise.
    pub(super) fn remark(&self) -> Option<String> {
        let mtu = port::mtu(self.port.number).unwrap_or(0);
        let is_long = mtu + LINK_HEADER > SLOT_CAPACITY;
        is_long.then(|| format!("frames of more than {SLOT_CAPACITY} bytes may be lost"))
    }

    /// Receives at most `most` packets from all queues in turn. Calls `show` for each packet, with the hash
    /// that the port computed and the number of the queue. Returns the number of packets; `None` while the
    /// port has not been started.
    pub(super) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        most: usize,
        mut show: impl FnMut(&mut Cx<'_>, Packet, u32, u16),
    ) -> Option<usize> {
        if !self.port.runs.load(Ordering::Acquire) {
            return None;
        }
        let queues = self.queues.len();
        let mut made = 0;
        for turn in 0..queues {
            if made >= most {
                break;
            }
            let queue = &mut self.queues[(self.first + turn) % queues];
            let number = queue.number;
            made += queue.receive(
                cx,
                most - made,
                |cx| cx.pool(),
                |cx, arrived, hash| match arrived {
                    Arrived::Slot(packet) => {
                        cx.accounts().count_made(1);
                        show(cx, packet, hash, number);
                    }
                    Arrived::Elsewhere(bytes) => {
                        if let Some(packet) = cx.packet(bytes) {
                            show(cx, packet, hash, number);
                        }
                    }
                },
            );
        }
        self.first = (self.first + 1) % queues.max(1);
        Some(made)
    }

    /// Leaves the port, whose device was removed.
    pub(super) fn leave(self, cx: &mut Cx<'_>) -> Away {
        let Receiver { ports, port, memory, queues, .. } = self;
        drop(queues);
        Away::new(cx, ports, port, memory)
    }

    pub(super) fn close(self, cx: &mut Cx<'_>) {
        let Receiver { ports, memory, queues, .. } = self;
        ports.stop(cx.pool(), &memory);
        drop(queues);
        Memory::close(memory, cx.pool());
    }
}

/// The send queue of a port that belongs to a copy of an element. Other copies may share it.
pub(super) struct Transmitter {
    ports: Arc<Ports>,
    port: Arc<Port>,
    queue: TxQueue,
    longest: usize,
}

impl Transmitter {
    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    /// Returns the length in bytes of the longest frame that the port carries.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the number of packets that wait in the element because the port has not taken them.
    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Returns the number of copies that were made of packets to be sent.
    pub(super) fn copied(&self) -> u64 {
        self.queue.copied
    }

    pub(super) fn put(&mut self, pool: &mut Pool, packet: Packet) -> Result<(), Packet> {
        self.queue.put(pool, packet)
    }

    /// Sends waiting packets, in order, until the port takes no more. Returns the number of packets sent; 0
    /// while the port has not been started.
    pub(super) fn flush(&mut self, pool: &mut Pool) -> usize {
        if !self.port.runs.load(Ordering::Acquire) {
            return 0;
        }
        self.queue.flush(pool)
    }

    /// Takes back the first packet that waits to be sent, for a caller that drops it. Returns `None` if no
    /// packet waits.
    pub(super) fn take_back(&mut self, pool: &mut Pool) -> Option<Packet> {
        self.queue.take_back(pool)
    }

    /// Leaves the port, whose device was removed. The caller has taken all waiting packets back.
    pub(super) fn leave(self, cx: &mut Cx<'_>) -> Away {
        let Transmitter { ports, port, queue, .. } = self;
        Away::new(cx, ports, port, queue.into_memory())
    }

    pub(super) fn close(self, cx: &mut Cx<'_>) {
        let Transmitter { ports, queue, .. } = self;
        let memory = queue.into_memory();
        ports.stop(cx.pool(), &memory);
        Memory::close(memory, cx.pool());
    }
}

#[cfg(test)]
pub(super) mod tests;
