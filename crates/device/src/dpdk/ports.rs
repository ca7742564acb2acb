//! The DPDK ports that a graph uses.
//!
//! Elements register their requirements while they are built ([`Ports::expect`]). Thus a port can be
//! configured once, with as many queues as all copies of its elements need. The first copy that is
//! initialized configures the port, each copy sets up its own queues, and the last copy starts the port. If
//! the port's device is removed, all copies leave the port, and the last one removes it from DPDK.
//!
//! A port outlives the graph that has opened it. When the copies of a new graph are initialised, they find
//! the running port, and use the same queues at the same workers. The port is stopped when no graph uses it.

mod queues;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use element::{Cx, Setup};
use nix::sys::eventfd::EventFd;
use packet::{Pool, SLOT_CAPACITY};

use super::end::End;
use super::shares::Shares;
use super::start::with_its_words;
use super::sys::memory::{Arrived, BURST, Memory, OwnPool, RxQueue, TxQueue};
use super::sys::{port, start};
use super::{Refused, Wanted};
pub(super) use queues::{Receiver, Transmitter};

/// The length in bytes of an Ethernet header with a VLAN tag, which the MTU does not include.
const LINK_HEADER: usize = 18;
/// The number of buffers in DPDK's own pool, per receive queue of the port, if NB_MBUF is 0 or not given.
/// DPDK's own pool is for ports that cannot use the packet pool.
const OWN_BUFFERS: u32 = 8192;

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

/// All ports that a graph uses, and the requirements of its elements on them. The workers of the graph share
/// this value.
#[derive(Default)]
pub(super) struct Ports {
    wanted: Mutex<Vec<Wanted>>,
    open: Mutex<Vec<Arc<Use>>>,
    /// The lock that the copy of an element holds that is looking for a removed port and opening it.
    search: Mutex<()>,
    /// The value of DPDKInfo's NB_MBUF; 0 if it is not given.
    buffers: AtomicU32,
}

/// The ports of this process that are or were open. An entry is valid as long as a graph has the port.
static OPENED: Mutex<Vec<Weak<Port>>> = Mutex::new(Vec::new());

/// A port as the elements of one graph use it.
struct Use {
    port: Arc<Port>,
    shares: Shares,
    /// The number of copies of elements that have not set up their queues yet; 0 if the port ran already
    /// when the graph was initialised.
    missing: AtomicUsize,
}

/// A DPDK port, from its configuration on, both before it is started and while it runs. The port is started
/// when all copies of its elements have set up their queues.
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) info: port::Info,
    /// The elements for which the port was opened: the requirements and the queues of each.
    opened: Shares,
    pub(super) rx: u16,
    pub(super) tx: u16,
    /// The copies of elements that use the port, of all graphs.
    users: Mutex<Vec<Arc<User>>>,
    /// The packet memories of the workers that have opened queues of the port. The driver may have slots of
    /// these memories until the port is stopped.
    memories: Mutex<Vec<Arc<Memory>>>,
    /// For each queue in use, its number and the memory of the worker that receives from it.
    readers: Mutex<Vec<(u16, Weak<Memory>)>>,
    /// For each send queue, a lock that a worker holds while it sends, because DPDK allows only one sender at
    /// a time. The locked value is true while the port runs.
    locks: Vec<Arc<Mutex<bool>>>,
    /// `is_lost` is true if the port's device was removed, so that all copies of elements have to leave the
    /// port. `is_removed` is true when the port has then been removed from DPDK.
    pub(super) is_lost: AtomicBool,
    is_removed: AtomicBool,
    /// Two flags: the user has been notified that the port is there again; the user has been notified that
    /// it is gone.
    told: [AtomicBool; 2],
    /// The network interface of this machine that the port uses, by which its removal is noticed.
    pub(super) end: End,
    /// The eventfds (bells) of ToDPDKDevice elements, which are written to when the port is found to be
    /// removed, so that the elements wake up.
    bells: Mutex<Vec<Weak<EventFd>>>,
    runs: AtomicBool,
    /// True if a secret key has been set, by which the port spreads packets over its queues.
    pub(super) has_secret_key: AtomicBool,
    /// DPDK's own pool for packets that have to be copied, created when a queue needs it (`own`), and the
    /// number of buffers that this pool gets (`buffers`).
    own: Mutex<Option<Arc<OwnPool>>>,
    buffers: u32,
    pub(super) rx_descriptors: u16,
    tx_descriptors: u16,
}

/// A copy of an element that uses a port.
#[derive(Default)]
struct User {
    /// True if the copy neither receives nor sends any more, because it will be closed.
    is_drained: AtomicBool,
}

/// A guard for the use of a port by a copy of an element. The use ends when the guard is dropped.
struct Handle {
    port: Arc<Port>,
    user: Arc<User>,
}

impl Handle {
    fn new(port: &Arc<Port>, memory: &Arc<Memory>) -> Handle {
        let user = Arc::<User>::default();
        lock(&port.users).push(Arc::clone(&user));
        let mut memories = lock(&port.memories);
        if !memories.iter().any(|other| Arc::ptr_eq(other, memory)) {
            memories.push(Arc::clone(memory));
        }
        drop(memories);
        Handle { port: Arc::clone(port), user }
    }

    fn drain(&self) {
        self.user.is_drained.store(true, Ordering::Release);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.port.users).retain(|user| !Arc::ptr_eq(user, &self.user));
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
    /// elements starts the port, if it does not run already.
    ///
    /// # Errors
    /// If DPDK does not run, there is no such port, the port has too few queues, two elements receive from
    /// one queue, the port is open with other settings, the element was not there when the port was opened,
    /// or DPDK refuses a step. The message includes DPDK's output, if there is any.
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

    /// Opens the queues as [`receive`](Self::receive) does, but also returns them if this copy was the last
    /// one and the port could not be started; the second result is then the error.
    pub(super) fn open_receiver(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
    ) -> Result<(Receiver, Result<(), String>), Refused> {
        let (used, memory, share) = self.open(cx, wanted)?;
        let (port, share) = (&used.port, &used.shares.all[share]);
        let failed = Refused::Failed;
        let mut queues = Vec::new();
        for queue in share.queues_of(copy_of(cx, share.copies)) {
            port.read_at(&memory, queue).map_err(failed)?;
            if !used.runs_already() {
                port.set_up(cx, &memory, queue).map_err(failed)?;
            }
            queues.push(RxQueue::new(Arc::clone(&memory), port.number, queue));
        }
        let handle = Handle::new(port, &memory);
        let joined = used.joined(cx, &memory);
        Ok((Receiver { ports: Arc::clone(self), handle, memory, queues, first: 0 }, joined))
    }

    /// Opens the queue by which an element's copy at this worker sends. The last copy of the port's elements
    /// starts the port, if it does not run already.
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

    /// Opens the queue as [`send`](Self::send) does, but also returns it if this copy was the last one and
    /// the port could not be started; the second result is then the error.
    pub(super) fn open_transmitter(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
    ) -> Result<(Transmitter, Result<(), String>), Refused> {
        let (used, memory, number) = self.open(cx, wanted)?;
        let (port, share) = (&used.port, &used.shares.all[number]);
        let copy = copy_of(cx, share.copies);
        if !used.runs_already() {
            for queue in share.queues_of(copy) {
                port::set_up_tx(port.number, queue, port.tx_descriptors)
                    .map_err(|error| Refused::Failed(port.cannot("set up a send queue", error)))?;
            }
        }
        let queue = share.first + (copy % usize::from(share.queues)) as u16;
        let lock = port.locks.get(usize::from(queue)).cloned();
        let own = port.own(&memory, true).map_err(Refused::Failed)?;
        let handle = Handle::new(port, &memory);
        let queue = TxQueue::new(Arc::clone(&memory), port.number, queue, wanted.room, lock, own);
        let mut transmitter = Transmitter { ports: Arc::clone(self), handle, queue, longest: 0 };
        let joined = used.joined(cx, &memory);
        transmitter.longest = port.longest();
        Ok((transmitter, joined))
    }

    /// Removes from DPDK a port whose device is gone, if no copy of an element uses the port any more.
    pub(super) fn leave(&self, pool: &mut Pool, memory: &Arc<Memory>, port: &Arc<Port>) {
        let is_last = lock(&port.users).is_empty();
        if is_last && !port.is_removed.swap(true, Ordering::AcqRel) {
            port.set_running(false);
            memory.remove(pool, port.number);
            port.part(pool);
        }
    }

    /// True if all copies have left a removed port, so that it has been removed from DPDK.
    pub(super) fn is_removed(&self, port: &Port) -> bool {
        port.is_removed.load(Ordering::Acquire)
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

    /// Returns the port of this graph with this name that has not been removed from DPDK; `None` if there is
    /// none.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Port>> {
        let open = lock(&self.open);
        let mut ports = open.iter().map(|used| &used.port);
        ports.find(|port| port.info.name == name && !self.is_removed(port)).cloned()
    }

    /// Returns the port that an element requires, the memory of this worker, and the index of the element in
    /// the port's `shares`. The first copy of the graph that opens the port configures it, or takes it over
    /// from another graph.
    ///
    /// # Errors
    /// If DPDK does not run, there is no such port, it cannot be configured, or DPDK has no memory.
    fn open(&self, cx: &mut Cx<'_>, wanted: &Wanted) -> Result<(Arc<Use>, Arc<Memory>, usize), Refused> {
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
        open.retain(|used| !self.is_removed(&used.port));
        let found = open.iter().find(|used| used.port.number == number).cloned();
        let used = match found {
            Some(used) => used,
            None => {
                let mut all = lock(&self.wanted);
                // Elements are recorded under the port's name: after a removal, the port may come back with
                // another number.
                let name = port::info(number).map_or(wanted.port.clone(), |info| info.name);
                let is_same = |other: &Wanted| port::find(&other.port) == Some(number);
                all.iter_mut().filter(|other| is_same(other)).for_each(|other| other.port.clone_from(&name));
                let same = all.iter().filter(|other| other.port == name);
                let elements =
                    same.map(|wanted| (wanted.clone(), cx.workers().copies(wanted.element))).collect();
                let buffers = self.buffers.load(Ordering::Relaxed);
                let used = Arc::new(Use::new(number, elements, buffers).map_err(Refused::Failed)?);
                open.push(Arc::clone(&used));
                used
            }
        };
        let memory = Memory::of(cx.pool()).map_err(Refused::Failed)?;
        let share = used.shares.all.iter().position(|share| share.wanted.element == wanted.element);
        let share = share.ok_or_else(|| Refused::Failed("an element that was not there at first".into()))?;
        Ok((used, memory, share))
    }

    /// Returns the names of the pools from which drivers take buffers at this worker, and the number of
    /// free buffers of each: the slots that DPDK has of the packet pool, and DPDK's own pools.
    pub(super) fn pools(&self, pool: &mut Pool) -> Vec<(String, usize)> {
        let open = lock(&self.open);
        let own = open.iter().filter_map(|used| Some((&used.port, lock(&used.port.own).clone()?)));
        let own = own.map(|(port, own)| (format!("copies of {}", port.info.name), own.free() as usize));
        let slots = Memory::known(pool).map(|memory| ("slots".into(), memory.free(pool)));
        slots.into_iter().chain(own).collect()
    }
}

/// Returns the index of the copy of an element that this worker has: the number of the worker, or 0 if the
/// element has a single copy.
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

impl Use {
    /// Opens the port with this number for elements of a graph, each with its requirements and the number of
    /// its copies: takes the port that a graph has open, or configures it. `buffers` is NB_MBUF or 0.
    ///
    /// # Errors
    /// If the port has too few queues, two elements receive from one queue, DPDK refuses, or the port is open
    /// with other settings.
    fn new(number: u16, elements: Vec<(Wanted, usize)>, buffers: u32) -> Result<Use, String> {
        let info = port::info(number).map_err(|error| format!("port {number}: {}", start::reason(error)))?;
        let shares = Shares::assign(&info.name, [info.most_rx, info.most_tx], elements.into_iter())?;
        let mut opened = lock(&OPENED);
        opened.retain(|port| port.strong_count() > 0);
        let is_same = |port: &Arc<Port>| port.number == number && port.runs.load(Ordering::Acquire);
        if let Some(port) = opened.iter().filter_map(Weak::upgrade).find(is_same) {
            if let Err(what) = shares.can_continue(&port.opened, port.tx) {
                return Err(format!(
                    "{}: the port is open, and a reload cannot change {what}; stop the run and start it again",
                    info.name
                ));
            }
            return Ok(Use { port, shares, missing: AtomicUsize::new(0) });
        }
        let missing = shares.all.iter().map(|share| share.copies).sum();
        let port = Arc::new(Port::configure(number, info, shares.clone(), buffers)?);
        opened.push(Arc::downgrade(&port));
        Ok(Use { port, shares, missing: AtomicUsize::new(missing) })
    }

    /// True if the port ran already when the graph was initialised.
    fn runs_already(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Registers that a copy of an element has set up its queues. The last copy sets up queues that no
    /// element has, starts the port, and applies MAC, MTU, PROMISC, MAX_RSS and RSS_KEY.
    fn joined(&self, cx: &mut Cx<'_>, memory: &Memory) -> Result<(), String> {
        match self.runs_already() || self.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            true => Ok(()),
            false => self.port.begin(cx, memory),
        }
    }
}

impl Port {
    /// Configures the port with the queues in `shares`. `number` is the port's number in DPDK. `buffers` is
    /// NB_MBUF; 0 if it is not given.
    ///
    /// # Errors
    /// If DPDK refuses.
    fn configure(number: u16, info: port::Info, shares: Shares, buffers: u32) -> Result<Port, String> {
        let next = shares.used;
        let mtu = shares.wanted().find_map(|wanted| wanted.mtu).unwrap_or(0);
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
            port::descriptors(number, shares.descriptors(false), shares.descriptors(true));
        Ok(Port {
            number,
            end: End::of(&info),
            users: Mutex::default(),
            memories: Mutex::default(),
            readers: Mutex::default(),
            locks: (0..tx).map(|_| Arc::default()).collect(),
            is_lost: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            told: Default::default(),
            bells: Mutex::default(),
            info,
            opened: shares,
            rx,
            tx,
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

    /// Returns DPDK's own pool if packets of one direction have to be copied, and `None` if the port can use
    /// the packet pool. Packets are copied if the device cannot reach the packet pool. The driver for AF_XDP
    /// also needs copies on receive, because it assumes that buffers directly follow their headers; the
    /// driver itself copies packets that it sends.
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

    /// Sets up queues that no element has, starts the port, and applies MAC, MTU, PROMISC, MAX_RSS and
    /// RSS_KEY.
    fn begin(&self, cx: &mut Cx<'_>, memory: &Memory) -> Result<(), String> {
        // Queues that no element uses must be set up as well. The driver requires them.
        for queue in (0..self.rx).filter(|&queue| !self.opened.takes(false, queue)) {
            self.set_up(cx, memory, queue)?;
        }
        for queue in (0..self.tx).filter(|&queue| !self.opened.takes(true, queue)) {
            port::set_up_tx(self.number, queue, self.tx_descriptors)
                .map_err(|error| self.cannot("set up a send queue", error))?;
        }
        let wanted = || self.opened.wanted();
        if let Some(mac) = wanted().find_map(|wanted| wanted.mac) {
            port::set_mac(self.number, mac.0, port::Mac::Set)
                .map_err(|error| self.cannot("set its address", error))?;
        }
        let result = memory.start(cx.pool(), self.number);
        if result < 0 {
            return Err(self.cannot("start", result));
        }
        self.end.settle(&self.info);
        self.set_running(true);
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
        let receivers = self.opened.all.iter().filter(|share| !share.wanted.sends);
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

    /// Returns true at the first call for this port only, so that only one copy of an element reports that
    /// the port is gone.
    pub(super) fn says_gone(&self) -> bool {
        !self.told[1].swap(true, Ordering::Relaxed)
    }

    /// Returns true once, when the reopened port runs, so that only one copy of an element reports that the
    /// port is there again: the copy that has set up its queues last.
    pub(super) fn says_back(&self) -> bool {
        self.runs.load(Ordering::Acquire) && !self.told[0].swap(true, Ordering::Relaxed)
    }

    /// Registers the eventfd of an element, by which the element wakes up when a copy of any element finds
    /// that the port was removed.
    pub(super) fn ring(&self, bell: &Arc<EventFd>) {
        let mut bells = lock(&self.bells);
        bells.retain(|bell| bell.strong_count() > 0);
        bells.push(Arc::downgrade(bell));
    }

    pub(super) fn bells(&self) -> Vec<Arc<EventFd>> {
        lock(&self.bells).iter().filter_map(Weak::upgrade).collect()
    }

    /// Registers that the worker with this memory receives from a queue. Elements of several graphs at the
    /// same worker may receive from the queue, one graph after the other.
    ///
    /// # Errors
    /// If another worker receives from the queue.
    fn read_at(&self, memory: &Arc<Memory>, queue: u16) -> Result<(), String> {
        let mut readers = lock(&self.readers);
        let known = readers.iter().find(|(other, _)| *other == queue).map(|(_, reader)| reader);
        match known {
            Some(reader) if !Weak::ptr_eq(reader, &Arc::downgrade(memory)) => Err(format!(
                "{}: another worker receives from queue {queue}, and a reload cannot change the worker; stop the run and \
                 start it again",
                self.info.name
            )),
            Some(_) => Ok(()),
            None => {
                readers.push((queue, Arc::downgrade(memory)));
                Ok(())
            }
        }
    }

    /// Stops the port if all copies of elements that use it neither receive nor send any more: at the end of
    /// a run, or with the last graph that has the port. First takes up to 64 bursts of packets out of each
    /// receive queue, because ports that connect workers (`net_ring`) may hold packets. After the port has
    /// been stopped, further calls do nothing.
    pub(super) fn stop(&self, pool: &mut Pool, memory: &Arc<Memory>) {
        let are_drained = lock(&self.users).iter().all(|user| user.is_drained.load(Ordering::Acquire));
        if !are_drained || !self.runs.swap(false, Ordering::AcqRel) {
            return;
        }
        self.set_running(false);
        for queue in 0..self.rx {
            let mut queue = RxQueue::new(Arc::clone(memory), self.number, queue);
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
        memory.stop(pool, self.number);
        self.part(pool);
    }

    fn set_running(&self, runs: bool) {
        self.locks.iter().for_each(|sends| *lock(sends) = runs);
        self.runs.store(runs, Ordering::Release);
    }

    /// Releases the memories of the workers that have opened queues of the port; the port no longer has
    /// packets in these memories.
    fn part(&self, pool: &mut Pool) {
        for memory in std::mem::take(&mut *lock(&self.memories)) {
            Memory::close(memory, pool);
        }
    }

    /// Returns the length in bytes of the longest frame that the port carries and a slot can hold.
    fn longest(&self) -> usize {
        let mtu = port::mtu(self.number).unwrap_or(SLOT_CAPACITY);
        (mtu + LINK_HEADER).min(SLOT_CAPACITY)
    }
}

#[cfg(test)]
pub(super) mod tests;
