//! The ports that a graph uses. Elements register their requirements while they are built, so that a port
//! is configured once, with as many queues as all copies of its elements need. Each copy sets up its own
//! queues when it starts, and the last copy starts the port.

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

/// The length in bytes of an Ethernet header with a VLAN tag.
const LINK_HEADER: usize = 18;
/// The number of DPDK's own buffers for each queue of a port that cannot use the pool.
const OWN_BUFFERS: u32 = 8192;
/// The number of descriptors of a queue if neither the element nor the driver gives one.
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

/// All ports of a graph, for all its workers.
#[derive(Default)]
pub(super) struct Ports {
    wanted: Mutex<Vec<Wanted>>,
    open: Mutex<Vec<Arc<Port>>>,
    /// Held by the copy that looks for a port that was removed.
    search: Mutex<()>,
    /// The NB_MBUF of DPDKInfo.
    buffers: AtomicU32,
}

/// A port.
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) info: port::Info,
    /// The requirements of its elements, and the queues that each element has.
    shares: Vec<Share>,
    pub(super) rx: u16,
    pub(super) tx: u16,
    /// The number of copies of elements that have not set up their queues yet, of copies that have left the
    /// port, and of all copies.
    missing: AtomicUsize,
    left: AtomicUsize,
    copies: usize,
    /// True if the port's device was removed.
    pub(super) is_lost: AtomicBool,
    /// True if the user has been notified that the port is there again, and that it is gone.
    told: [AtomicBool; 2],
    /// The machine's interface that the port uses.
    pub(super) end: End,
    /// The bells of elements to be notified of the removal.
    bells: Mutex<Vec<Arc<EventFd>>>,
    runs: AtomicBool,
    /// True if packets are spread over the port's queues by a secret key.
    pub(super) has_secret_key: AtomicBool,
    /// DPDK's own pool for packets that have to be copied, and its number of buffers.
    own: Mutex<Option<Arc<OwnPool>>>,
    buffers: u32,
    pub(super) rx_descriptors: u16,
    tx_descriptors: u16,
}

/// The machine's interface that a port uses.
pub(super) enum End {
    /// No interface: the port has no other end that could be removed, or its driver reports the removal.
    None,
    /// An interface that exists independently of the driver, by its index.
    Interface(i32),
    /// An interface that the driver has created, and the driver's files of it: it may be in another
    /// namespace.
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

    /// Looks up the driver's files, once the port has been started.
    fn settle(&self, info: &port::Info) {
        if let (End::Tap(files), Some(index)) = (self, info.interface)
            && let Ok(name) = link::name_of(index)
        {
            files.get_or_init(|| Attached::to(&name));
        }
    }

    /// True if the interface was removed.
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
    /// The number of workers that have a copy.
    copies: usize,
    first: u16,
    queues: u16,
    /// The locks of queues to which several copies send.
    locks: Vec<Option<Arc<Mutex<()>>>>,
}

impl Share {
    /// Returns the queues of a copy.
    fn queues_of(&self, copy: usize) -> impl Iterator<Item = u16> + use<> {
        let first = self.first;
        (0..self.queues).skip(copy).step_by(self.copies).map(move |queue| first + queue)
    }
}

impl Ports {
    /// Returns the ports of the graph that is being built.
    pub(super) fn of(setup: &Setup) -> Arc<Ports> {
        setup.common.get_or_make(0, Ports::default)
    }

    /// Registers an element's requirements. All copies of an element have the same requirements.
    pub(super) fn expect(&self, setup: &Setup, wanted: &Wanted) {
        if setup.worker == 0 {
            lock(&self.wanted).push(wanted.clone());
        }
    }

    /// Sets the number of buffers of DPDK's own pools.
    pub(super) fn set_buffers(&self, buffers: u32) {
        self.buffers.store(buffers, Ordering::Relaxed);
    }

    /// Opens the queues from which an element's copy at this worker receives.
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

    /// Opens the queues, like [`receive`](Self::receive). The second result is an error if this was the
    /// last copy and the port could not be started.
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

    /// Opens the queue to which an element's copy at this worker sends.
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

    /// Opens the queue, like [`send`](Self::send). The second result is an error if this was the last copy
    /// and the port could not be started.
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

    /// Makes a copy of an element leave a port whose device was removed. The last copy removes the port
    /// from DPDK.
    pub(super) fn leave(&self, pool: &mut Pool, memory: &Arc<Memory>, port: &Arc<Port>) {
        if port.left.fetch_add(1, Ordering::AcqRel) + 1 == port.copies {
            port.runs.store(false, Ordering::Release);
            memory.remove(pool, port.number);
            lock(&self.open).retain(|other| !Arc::ptr_eq(other, port));
        }
    }

    /// True if all copies have left a port.
    pub(super) fn is_removed(&self, port: &Arc<Port>) -> bool {
        !lock(&self.open).iter().any(|other| Arc::ptr_eq(other, port))
    }

    /// Locks the search: one copy at a time looks for a port that was removed and opens it.
    pub(super) fn search(&self) -> MutexGuard<'_, ()> {
        lock(&self.search)
    }

    /// Makes DPDK probe for the device of a port that was removed, unless another copy has done so. Returns
    /// true if the port is there.
    pub(super) fn find_again(&self, port: &Port) -> bool {
        let info = &port.info;
        port::find(&info.name).is_some()
            || (!info.arguments.is_empty()
                && port::probe(&info.arguments).is_ok()
                && port::find(&info.name).is_some())
    }

    /// Returns an open port by its name.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Port>> {
        lock(&self.open).iter().find(|port| port.info.name == name).cloned()
    }

    /// Opens the port that an element requires. Returns the configured port, the memory of this worker, and
    /// the index of the element's share.
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
                // If the port comes back, its number may be another one.
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

    /// Returns the names of the pools from which drivers take buffers here, and the number of free buffers
    /// of each.
    pub(super) fn pools(&self, pool: &mut Pool) -> Vec<(String, usize)> {
        let open = lock(&self.open);
        let own = open.iter().filter_map(|port| Some((port, lock(&port.own).clone()?)));
        let own = own.map(|(port, own)| (format!("copies of {}", port.info.name), own.free() as usize));
        let slots = Memory::known(pool).map(|memory| ("slots".into(), memory.free(pool)));
        slots.into_iter().chain(own).collect()
    }

    /// Stops all ports when the run is over: no port may have packets of a worker when the worker releases
    /// its memory. Rings between ports are emptied.
    pub(super) fn stop(&self, pool: &mut Pool, memory: &Arc<Memory>) {
        let running: Vec<_> =
            lock(&self.open).iter().filter(|port| port.runs.swap(false, Ordering::AcqRel)).cloned().collect();
        for port in &running {
            for queue in 0..port.rx {
                let mut queue = RxQueue::new(Arc::clone(memory), port.number, queue);
                // Some ports return packets without end.
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

/// Returns the index of this worker's copy.
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
    /// Assigns queues to the elements that require the port, and configures the port with all these queues.
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
            // A QUEUE means one queue, unless N_QUEUES is given.
            let usual = if wanted.queue.is_some() { 1 } else { copies as u16 };
            let queues =
                wanted.queues.unwrap_or(usual.clamp(wanted.least, wanted.most.max(wanted.least))).max(1);
            let mut first = wanted.queue.unwrap_or(next[side]);
            if first >= most[side] && wanted.sends && wanted.queue.is_none() {
                // A queue to which other elements send as well.
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
            // Some drivers have queues in pairs only.
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

    /// Returns DPDK's own pool for one direction if packets have to be copied: if the device may not reach
    /// the packet pool, or if the driver for AF_XDP receives, which assumes that buffers directly follow
    /// their headers. This driver copies the packets that it sends itself.
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

    /// Sets up a queue for receiving.
    fn set_up(&self, cx: &mut Cx<'_>, memory: &Memory, queue: u16) -> Result<(), String> {
        let own = self.own(memory, false)?;
        // Drivers fill their rings at once.
        let free = memory.free(cx.pool());
        memory.refill(cx.pool(), free + usize::from(self.rx_descriptors) + BURST);
        let result = memory.set_up(cx.pool(), own.as_deref(), self.number, queue, self.rx_descriptors);
        if result < 0 { Err(self.cannot("set up a receive queue", result)) } else { Ok(()) }
    }

    /// Registers that a copy of an element has set up its queues. The last copy starts the port.
    fn joined(&self, cx: &mut Cx<'_>, memory: &Memory) -> Result<(), String> {
        if self.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let taken = |sends: bool, queue: u16| {
            let of_side = self.shares.iter().filter(|share| share.wanted.sends == sends);
            of_side.into_iter().any(|share| (share.first..share.first + share.queues).contains(&queue))
        };
        // Queues that no element has requested: the port may be required to have them.
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
        // Many virtual ports receive everything anyway, and do not support the setting.
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

    /// Makes the port spread packets over its queues by a secret key, unless an element wants the port to
    /// keep its own.
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

    /// Returns true for the copy that notifies the user: the first copy that finds that the port is gone.
    pub(super) fn says_gone(&self) -> bool {
        !self.told[1].swap(true, Ordering::Relaxed)
    }

    /// Returns true for the copy that notifies the user that the port is there again: the last copy to open
    /// it.
    pub(super) fn says_back(&self) -> bool {
        self.runs.load(Ordering::Acquire) && !self.told[0].swap(true, Ordering::Relaxed)
    }

    /// Registers a bell that rings when the port is found to be removed.
    pub(super) fn ring(&self, bell: &Arc<EventFd>) {
        lock(&self.bells).push(Arc::clone(bell));
    }

    pub(super) fn bells(&self) -> Vec<Arc<EventFd>> {
        lock(&self.bells).clone()
    }

    /// Returns the length of the longest frame in bytes.
    fn longest(&self) -> usize {
        let mtu = port::mtu(self.number).unwrap_or(SLOT_CAPACITY);
        (mtu + LINK_HEADER).min(SLOT_CAPACITY)
    }
}

/// The queues from which a copy of an element receives.
pub(super) struct Receiver {
    ports: Arc<Ports>,
    port: Arc<Port>,
    memory: Arc<Memory>,
    queues: Vec<RxQueue>,
    /// The index of the queue to begin with; it rotates so that no queue starves.
    first: usize,
}

impl Receiver {
    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    /// Returns a warning for the user before the element starts.
    pub(super) fn remark(&self) -> Option<String> {
        let mtu = port::mtu(self.port.number).unwrap_or(0);
        let is_long = mtu + LINK_HEADER > SLOT_CAPACITY;
        is_long.then(|| format!("frames of more than {SLOT_CAPACITY} bytes may be lost"))
    }

    /// Receives at most `most` packets, and calls `show` for each with the port's hash and the number of
    /// the queue. Returns `None` while the port has not been started.
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

    /// Leaves a port whose device was removed.
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

/// The queue to which a copy of an element sends.
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

    /// Returns the number of packets that wait for the port.
    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Returns the number of packets that were copied.
    pub(super) fn copied(&self) -> u64 {
        self.queue.copied
    }

    pub(super) fn put(&mut self, pool: &mut Pool, packet: Packet) -> Result<(), Packet> {
        self.queue.put(pool, packet)
    }

    /// Sends waiting packets, as many as the port takes. Returns their number.
    pub(super) fn flush(&mut self, pool: &mut Pool) -> usize {
        if !self.port.runs.load(Ordering::Acquire) {
            return 0;
        }
        self.queue.flush(pool)
    }

    /// Returns the next packet that waits in the queue to be sent, for a caller that drops it.
    pub(super) fn take_back(&mut self, pool: &mut Pool) -> Option<Packet> {
        self.queue.take_back(pool)
    }

    /// Leaves a port whose device was removed. No packet waits for it any more.
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
pub(super) mod tests {
    use testkit::Run;

    use super::port;

    /// Runs on a port. Returns the handler's value of the port's key and the key that the port has
    /// afterwards.
    fn key_after(number: u16, how: Run, keyword: &str) -> (String, Vec<u8>) {
        let text = format!("in :: FromDPDKDevice({number}{keyword}) -> Discard; Script(wait 1ms, stop)");
        let outcome = how.with(crate::CLASSES).text(&text, &["in.rss_key"]).unwrap();
        let length = port::info(number).unwrap().key_length.unwrap();
        (outcome.values[0].clone().unwrap(), port::key(number, length).unwrap())
    }

    /// Several workers have packets spread by a secret key. Part of the test that starts DPDK, which is
    /// possible once in a process, with a port for this part.
    pub(in crate::dpdk) fn keys_are_secret(number: u16) {
        let own = port::key(number, 40).unwrap();
        // No secret key: with one worker, with the captures' time, and if it is not wanted.
        for (how, keyword) in
            [(Run::real(), ""), (Run::trace().on(2), ""), (Run::real().on(2), ", RSS_KEY own")]
        {
            assert_eq!(key_after(number, how, keyword), ("own".into(), own.clone()), "{how:?}");
        }
        let (first, second) =
            (key_after(number, Run::real().on(2), ""), key_after(number, Run::real().on(2), ""));
        assert_eq!((&*first.0, &*second.0), ("secret", "secret"));
        assert!(first.1.len() == 40 && first.1 != own && first.1 != second.1, "{first:?} {second:?} {own:?}");
        // A driver accepts keys of one length only.
        assert!(port::set_key(number, &[1; 300]).is_err());
        port::set_key(number, &own).unwrap();
    }
}
