//! A worker's packet pool as memory of DPDK's drivers, and the packets that drivers write to it and read
//! from it.
//!
//! DPDK describes a buffer by a header (`rte_mbuf`). Each slot of the pool's device area has a header in
//! the C part, `shim.c`; slots that are free for drivers are on a stack. A slot belongs to the pool, to a
//! packet, or to DPDK. A slot of DPDK is marked in its metadata as a device's slot, and every slot that a
//! driver returns is checked for the mark. Thus a wrong answer of a driver cannot give a slot two owners.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use packet::{BufferSpan, DeviceId, MAX_PACKET, Packet, Pool, SLOT_STRIDE};

use crate::dpdk::RxReport;

/// The largest number of packets per call that receives or sends; the shim's arrays have this length.
pub(in crate::dpdk) const BURST: usize = 256;
/// The number of free slots that DPDK is to have at each call that receives, beyond a slot for each packet of
/// the burst.
const LEAST: usize = 256;
/// Limits of the number of free slots that DPDK has. If DPDK has more than `MOST` free slots, slots return to
/// the pool until `KEPT` free slots are left.
const MOST: usize = 2048;
const KEPT: usize = 1024;
/// The number of bytes of a slot's headroom that DPDK does not see. Drivers take 128 bytes before the
/// packet for their headroom, and the pool has 256.
const FRONT: u16 = 128;

#[repr(C)]
struct Headers {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(in crate::dpdk) struct Mbuf {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(in crate::dpdk) struct Mempool {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Received {
    mbuf: *mut Mbuf,
    offset: u64,
    length: u32,
    hash: u32,
    is_right: u32,
}

impl Received {
    fn report(self) -> RxReport {
        RxReport { hash: self.hash, is_right: self.is_right != 0 }
    }
}

unsafe extern "C" {
    fn tg_memory_new(name: *const c_char, base: *mut c_void, stride: usize, count: u32) -> *mut Headers;
    fn tg_memory_reset(memory: *mut Headers) -> i32;
    fn tg_memory_free_count(memory: *mut Headers) -> u32;
    fn tg_memory_give(memory: *mut Headers, slot: u32);
    fn tg_memory_take(memory: *mut Headers) -> u32;
    fn tg_own_pool(name: *const c_char, count: u32, gapless: i32) -> *mut Mempool;
    fn tg_own_pool_count(pool: *const Mempool) -> u32;
    fn tg_receive(memory: *mut Headers, port: u16, queue: u16, to: *mut Received, most: u16) -> u16;
    fn tg_read(mbuf: *const Mbuf, to: *mut u8, size: u32) -> u32;
    fn tg_free(memory: *mut Headers, mbuf: *mut Mbuf);
    fn tg_prepare(memory: *mut Headers, slot: u32, start: u32, length: u32) -> *mut Mbuf;
    fn tg_copy(pool: *mut Mempool, bytes: *const u8, length: u32) -> *mut Mbuf;
    fn tg_send(memory: *mut Headers, port: u16, queue: u16, mbufs: *mut *mut Mbuf, n: u16) -> u16;
    fn tg_rx_setup(memory: *mut Headers, own: *mut Mempool, port: u16, queue: u16, descriptors: u16) -> i32;
    fn tg_port_start(memory: *mut Headers, port: u16) -> i32;
    fn tg_port_stop(memory: *mut Headers, port: u16);
    fn tg_port_remove(memory: *mut Headers, port: u16);
    fn tg_port_map(port: u16, base: *mut c_void, length: usize) -> i32;
}

/// The memory of all DPDK ports that one worker uses: the device area of the worker's pool, and the C part
/// with a header for each slot. The C part stays until the process ends, because drivers may keep headers
/// until their ports are closed. The next pool at the same address in memory uses the C part again, if DPDK
/// has returned all headers.
pub(in crate::dpdk) struct Memory {
    headers: NonNull<Headers>,
    device: DeviceId,
    base: usize,
    length: usize,
    /// The ports for which the area was mapped or could not be mapped, and for each, true if its device
    /// reaches the area.
    reached: Mutex<Vec<(u16, bool)>>,
}

// SAFETY: the C part is touched only by the holder of exclusive access to the worker's pool, which every
// function asks for (`its`), and, in the part that is protected by a lock, by DPDK itself.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

/// The memories that are in use. All elements of a worker that use DPDK find the worker's memory in this
/// list.
static MEMORIES: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());

/// The memories whose pools do not use DPDK any more, and whose C parts can be used again.
static LEFT: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// The memories whose workers have no element that uses DPDK, while DPDK may have slots of their pools. A
/// reload can bring this about; at the end of a run, each worker releases its memory itself.
static PARKED: Mutex<Vec<Arc<Memory>>> = Mutex::new(Vec::new());

fn left() -> MutexGuard<'static, Vec<Memory>> {
    LEFT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn memories() -> MutexGuard<'static, Vec<Weak<Memory>>> {
    MEMORIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

static NUMBER: AtomicUsize = AtomicUsize::new(0);

fn name(kind: &str) -> CString {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("tidegate_{kind}{number}")).unwrap_or_default()
}

impl Memory {
    /// Returns the memory of a pool. If the pool has none yet, takes an unused memory of the same addresses
    /// whose headers DPDK has all returned, or creates one.
    ///
    /// # Errors
    /// If DPDK has no memory for the headers, or too many devices use the pool.
    pub(in crate::dpdk) fn of(pool: &mut Pool) -> Result<Arc<Memory>, String> {
        if let Some(memory) = Memory::known(pool) {
            return Ok(memory);
        }
        let (start, length) = pool.device_area();
        let device = pool.attach().ok_or("too many devices use the memory for packets")?;
        let is_its = |memory: &mut Memory| {
            // SAFETY: a memory in `LEFT` is used by nothing else.
            let is_free = || unsafe { tg_memory_reset(memory.headers.as_ptr()) } != 0;
            (memory.base, memory.length) == (start as usize, length) && is_free()
        };
        if let Some(known) = left().extract_if(.., is_its).next() {
            let memory = Arc::new(Memory { device, ..known });
            memories().push(Arc::downgrade(&memory));
            return Ok(memory);
        }
        let count = (length / SLOT_STRIDE) as u32;
        // SAFETY: the area has `count` slots. DPDK's drivers take headers only from the stack of the C part,
        // which has only headers of slots that the pool has handed out. Drivers write only to the buffers of
        // these headers, and read only buffers that were handed over to the drivers.
        let headers = unsafe { tg_memory_new(name("slots").as_ptr(), start.cast(), SLOT_STRIDE, count) };
        let Some(headers) = NonNull::new(headers) else {
            pool.detach(device);
            return Err(
                "DPDK has no memory for packets' headers (8 MB for each worker); give it more with `-m`"
                    .into(),
            );
        };
        let memory =
            Arc::new(Memory { headers, device, base: start as usize, length, reached: Mutex::default() });
        memories().push(Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Returns the memory of a pool; `None` if the pool has none.
    pub(in crate::dpdk) fn known(pool: &Pool) -> Option<Arc<Memory>> {
        let start = pool.device_area().0 as usize;
        let mut memories = memories();
        memories.retain(|memory| memory.strong_count() > 0);
        memories.iter().filter_map(Weak::upgrade).find(|memory| memory.base == start)
    }

    /// Returns the pointer to the C part of this memory. The mutable reference to `pool` proves that the
    /// caller has exclusive access to the worker's pool. Panics if `pool` is another pool than the one of
    /// this memory.
    fn its(&self, pool: &mut Pool) -> *mut Headers {
        assert_eq!(pool.device_area().0 as usize, self.base, "the memory of another pool");
        self.headers.as_ptr()
    }

    /// Hands slots of the pool to DPDK until DPDK has `wanted` free slots, or the pool has no more.
    pub(in crate::dpdk) fn refill(&self, pool: &mut Pool, wanted: usize) {
        let headers = self.its(pool);
        // SAFETY: `its` proves exclusive access to the pool, here and below.
        let free = unsafe { tg_memory_free_count(headers) } as usize;
        for _ in free..wanted {
            let Some(slot) = pool.hand_out(self.device) else { return };
            // SAFETY: `its` proves exclusive access to the pool.
            unsafe { tg_memory_give(headers, slot) };
        }
    }

    /// Returns slots from DPDK to the pool if DPDK has more than `MOST` free slots, until `KEPT` are left.
    fn settle(&self, pool: &mut Pool) {
        let headers = self.its(pool);
        // SAFETY: as in `refill`.
        let free = unsafe { tg_memory_free_count(headers) } as usize;
        if free > MOST {
            for _ in KEPT..free {
                // SAFETY: as in `refill`.
                pool.take_empty(self.device, unsafe { tg_memory_take(headers) });
            }
        }
    }

    /// Returns the number of free slots that DPDK has.
    pub(in crate::dpdk) fn free(&self, pool: &mut Pool) -> usize {
        let headers = self.its(pool);
        // SAFETY: as in `refill`.
        unsafe { tg_memory_free_count(headers) as usize }
    }

    /// Takes all slots back from DPDK, if nothing else uses the memory any more. All ports that used it must
    /// have been stopped. If the memory belongs to another worker, the slots stay with DPDK until that worker
    /// uses DPDK again.
    pub(in crate::dpdk) fn close(memory: Arc<Memory>, pool: &mut Pool) {
        let mut parked = PARKED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if memory.base != pool.device_area().0 as usize {
            parked.retain(|other| Arc::strong_count(other) == 1);
            // If this is the only reference, no element of the other worker uses the memory any more, and the
            // memory is kept in the list `PARKED`.
            if Arc::strong_count(&memory) == 1 {
                parked.push(memory);
            }
            return;
        }
        parked.retain(|other| !Arc::ptr_eq(other, &memory));
        if let Some(memory) = Arc::into_inner(memory) {
            pool.detach(memory.device);
            left().push(memory);
        }
    }

    /// Sets up a receive queue of a port. Its driver takes buffers from the pool or, if `own` is given,
    /// from DPDK's own pool. Returns a negative error number of DPDK if that fails.
    pub(in crate::dpdk) fn set_up(
        &self,
        pool: &mut Pool,
        own: Option<&OwnPool>,
        port: u16,
        queue: u16,
        descriptors: u16,
    ) -> i32 {
        let headers = self.its(pool);
        let own = own.map_or(std::ptr::null_mut(), |own| own.0.as_ptr());
        // SAFETY: both pointers are valid, and DPDK checks the numbers itself.
        unsafe { tg_rx_setup(headers, own, port, queue, descriptors) }
    }

    pub(in crate::dpdk) fn start(&self, pool: &mut Pool, port: u16) -> i32 {
        let headers = self.its(pool);
        // SAFETY: `its` proves exclusive access to the pool, and DPDK checks the port's number itself.
        unsafe { tg_port_start(headers, port) }
    }

    pub(in crate::dpdk) fn stop(&self, pool: &mut Pool, port: u16) {
        let headers = self.its(pool);
        // SAFETY: as in `start`.
        unsafe { tg_port_stop(headers, port) }
    }

    /// Removes a port and its device from DPDK. No queue of the port may be in use.
    pub(in crate::dpdk) fn remove(&self, pool: &mut Pool, port: u16) {
        let headers = self.its(pool);
        // SAFETY: as in `start`.
        unsafe { tg_port_remove(headers, port) }
        self.reached
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .retain(|(other, _)| *other != port);
    }

    /// Maps the pool's device area for the device of a port. Returns true if the device can reach the area;
    /// the answer is remembered.
    pub(in crate::dpdk) fn reaches(&self, port: u16) -> bool {
        let mut reached = self.reached.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, reaches)) = reached.iter().find(|(other, _)| *other == port) {
            return *reaches;
        }
        // The length can be rounded up to whole pages, because the area is at the start of a longer mapping.
        let length = self.length.next_multiple_of(4096);
        // SAFETY: the device touches only buffers that drivers pass to it, and drivers have only buffers of
        // slots that the pool has handed out.
        let reaches = unsafe { tg_port_map(port, self.base as *mut c_void, length) } >= 0;
        reached.push((port, reaches));
        reaches
    }
}

/// A pool of DPDK's own buffers, for packets that have to be copied.
pub(in crate::dpdk) struct OwnPool(NonNull<Mempool>);

// SAFETY: DPDK's pools may be used from any thread.
unsafe impl Send for OwnPool {}
// SAFETY: as for `Send`.
unsafe impl Sync for OwnPool {}

impl OwnPool {
    /// Creates a pool with `count` buffers. With `gapless`, buffers follow their headers without a gap, as
    /// the driver for AF_XDP requires. The pool stays until the process ends. Returns `None` if DPDK has no
    /// memory for it.
    pub(in crate::dpdk) fn new(count: u32, gapless: bool) -> Option<OwnPool> {
        // SAFETY: the name ends with a zero byte.
        NonNull::new(unsafe { tg_own_pool(name("copies").as_ptr(), count, gapless.into()) }).map(OwnPool)
    }

    pub(in crate::dpdk) fn free(&self) -> u32 {
        // SAFETY: the pool exists until the process ends.
        unsafe { tg_own_pool_count(self.0.as_ptr()) }
    }
}

/// A queue of a port from which one worker receives packets.
pub(in crate::dpdk) struct RxQueue {
    pub(in crate::dpdk) number: u16,
    port: u16,
    memory: Arc<Memory>,
    received: Box<[Received; BURST]>,
    /// The buffer for a packet that lies in several DPDK buffers or in another worker's pool, from which it
    /// is copied.
    scratch: Vec<u8>,
}

// SAFETY: received packets are read and freed before the function that receives returns.
unsafe impl Send for RxQueue {}

/// A received packet, as the queue passes it on.
pub(in crate::dpdk) enum Arrived<'a> {
    /// A packet in a slot of this worker's pool, without a copy.
    Slot(Packet),
    /// The bytes of a packet that lies in other memory. The bytes are valid during the call only, and have to
    /// be copied.
    Elsewhere(&'a [u8]),
}

impl RxQueue {
    pub(in crate::dpdk) fn new(memory: Arc<Memory>, port: u16, number: u16) -> RxQueue {
        let nothing = Received { mbuf: std::ptr::null_mut(), offset: 0, length: 0, hash: 0, is_right: 0 };
        RxQueue { number, port, memory, received: Box::new([nothing; BURST]), scratch: Vec::new() }
    }

    /// Receives at most `most` packets, and calls `show` for each with what the port says of it. Returns the
    /// number of packets received, including packets in invalid slots, which are skipped. The queue must have
    /// been started. `pool` gets the worker's pool out of `context`.
    pub(in crate::dpdk) fn receive<C>(
        &mut self,
        context: &mut C,
        most: usize,
        pool: impl Fn(&mut C) -> &mut Pool,
        mut show: impl FnMut(&mut C, Arrived<'_>, RxReport),
    ) -> usize {
        let most = most.min(BURST);
        self.memory.refill(pool(context), LEAST + most);
        let headers = self.memory.its(pool(context));
        // SAFETY: the array has room for `most` packets, and the port has been started with this queue, which
        // belongs to one worker.
        let n =
            unsafe { tg_receive(headers, self.port, self.number, self.received.as_mut_ptr(), most as u16) };
        for received in &self.received[..usize::from(n)] {
            let Some(mbuf) = NonNull::new(received.mbuf) else {
                let stride = SLOT_STRIDE as u64;
                let slot = u32::try_from(received.offset / stride).unwrap_or(u32::MAX);
                let start = (received.offset % stride) as usize;
                let (pool, device) = (pool(context), self.memory.device);
                match pool.take_back(device, slot, start, received.length as usize) {
                    Some(packet) => show(context, Arrived::Slot(packet), received.report()),
                    None => {
                        pool.take_empty(device, slot);
                    }
                }
                continue;
            };
            let length = (received.length as usize).min(MAX_PACKET);
            if self.scratch.len() < length {
                self.scratch.resize(length, 0);
            }
            // SAFETY: the packet belongs to this function until it is freed, once, below. The buffer has room
            // for `length` bytes.
            let there = unsafe { tg_read(mbuf.as_ptr(), self.scratch.as_mut_ptr(), length as u32) } as usize;
            show(context, Arrived::Elsewhere(&self.scratch[..there]), received.report());
            let headers = self.memory.its(pool(context));
            // SAFETY: the packet belongs to this function until it is freed here.
            unsafe { tg_free(headers, mbuf.as_ptr()) };
        }
        usize::from(n)
    }
}

/// A queue of a port to which packets are sent, and the packets that wait for it.
pub(in crate::dpdk) struct TxQueue {
    port: u16,
    queue: u16,
    memory: Arc<Memory>,
    /// The lock that a sender holds during a call of the driver. The value in the lock is true while the port
    /// runs. `None` if no other copy sends to this queue and the port does not stop.
    shared: Option<Arc<Mutex<bool>>>,
    /// DPDK's own pool, into which packets are copied if the device cannot read the packet pool.
    own: Option<Arc<OwnPool>>,
    /// The packets that the port has not taken yet, in order: their slots, which are marked as DPDK's.
    waiting: VecDeque<BufferSpan>,
    /// The number of packets that were copied to be sent: into one slot, into a buffer of `own`, or both. A
    /// packet that is copied twice counts once.
    pub(in crate::dpdk) copied: u64,
}

impl TxQueue {
    pub(in crate::dpdk) fn new(
        memory: Arc<Memory>,
        port: u16,
        queue: u16,
        room: usize,
        shared: Option<Arc<Mutex<bool>>>,
        own: Option<Arc<OwnPool>>,
    ) -> TxQueue {
        TxQueue { port, queue, memory, shared, own, waiting: VecDeque::with_capacity(room), copied: 0 }
    }

    pub(in crate::dpdk) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Appends a packet to the waiting packets. The packet is copied first if it does not lie in one slot of
    /// `pool` or has too little headroom for DPDK.
    ///
    /// # Errors
    /// The packet itself, if it needs a copy and there is no free slot or it is too long for a slot.
    pub(in crate::dpdk) fn put(&mut self, pool: &mut Pool, packet: Packet) -> Result<(), Packet> {
        let device = self.memory.device;
        let there =
            if packet.headroom() < usize::from(FRONT) { Err(packet) } else { pool.hand_over(device, packet) };
        let span = match there {
            Ok(span) => span,
            Err(packet) => match pool.copy_out(device, &packet) {
                Some(span) => {
                    pool.free(packet);
                    // If `own` is used, all packets are copied when they are sent, and are counted then.
                    self.copied += u64::from(self.own.is_none());
                    span
                }
                None => return Err(packet),
            },
        };
        self.waiting.push_back(span);
        Ok(())
    }

    /// Sends waiting packets, in order, until the port takes no more or DPDK has no buffer for a copy.
    /// Returns the number of packets sent.
    pub(in crate::dpdk) fn flush(&mut self, pool: &mut Pool) -> usize {
        let mut sent = 0;
        while !self.waiting.is_empty() {
            let (taken, all) = self.send(pool);
            sent += taken;
            if !all {
                break;
            }
        }
        self.memory.settle(pool);
        sent
    }

    /// Sends up to 64 of the first waiting packets by one call of the driver. Returns the number that the
    /// port took, and true if it took all packets of the call.
    fn send(&mut self, pool: &mut Pool) -> (usize, bool) {
        const AT_ONCE: usize = 64;
        let lock =
            self.shared.as_ref().map(|lock| lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if lock.as_ref().is_some_and(|runs| !**runs) {
            return (0, false);
        }
        let headers = self.memory.its(pool);
        let mut mbufs = [std::ptr::null_mut(); AT_ONCE];
        let mut n = 0;
        for span in self.waiting.iter().take(AT_ONCE) {
            let mbuf = match &self.own {
                // SAFETY: the slot is marked as DPDK's, so that nothing else uses its header, and the bytes
                // lie in it.
                None => unsafe { tg_prepare(headers, span.slot, span.start.into(), span.length.into()) },
                Some(own) => {
                    let at = self.base_of(span);
                    // SAFETY: the bytes lie in a slot that is marked as DPDK's, which nothing writes to.
                    unsafe { tg_copy(own.0.as_ptr(), at, span.length.into()) }
                }
            };
            if mbuf.is_null() {
                break;
            }
            mbufs[n] = mbuf;
            n += 1;
        }
        if n == 0 {
            return (0, false);
        }
        // SAFETY: the array has `n` packets, whose headers belong to the port from now on; the queue is set
        // up, and no other thread sends to it meanwhile.
        let sent = unsafe { tg_send(headers, self.port, self.queue, mbufs.as_mut_ptr(), n as u16) };
        drop(lock);
        let sent = usize::from(sent).min(n);
        let spans = self.waiting.drain(..sent);
        if self.own.is_some() {
            for span in spans {
                pool.take_empty(self.memory.device, span.slot);
                self.copied += 1;
            }
            for &mbuf in &mbufs[sent..n] {
                // SAFETY: the port has not taken this copy, so that it still belongs to this function.
                unsafe { tg_free(headers, mbuf) };
            }
        }
        (sent, sent == n)
    }

    fn base_of(&self, span: &BufferSpan) -> *const u8 {
        (self.memory.base + span.slot as usize * SLOT_STRIDE + usize::from(span.start)) as *const u8
    }

    /// Takes the first packet out of the packets that the port has not taken yet, and returns it to the
    /// caller; `None` if no packet waits.
    pub(in crate::dpdk) fn take_back(&mut self, pool: &mut Pool) -> Option<Packet> {
        let span = self.waiting.pop_front()?;
        pool.take_back(self.memory.device, span.slot, span.start.into(), span.length.into())
    }

    pub(in crate::dpdk) fn into_memory(self) -> Arc<Memory> {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpdk::start;
    use crate::dpdk::sys::port;

    fn pool() -> Pool {
        Pool::new(64 << 20).unwrap()
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    /// Receives the packets that are in a queue. Returns the bytes of each packet, and the packet itself if
    /// it lies in a slot of the pool.
    fn receive(queue: &mut RxQueue, pool: &mut Pool) -> Vec<(Vec<u8>, Option<Packet>)> {
        let mut all = Vec::new();
        queue.receive(
            pool,
            BURST,
            |pool| pool,
            |_, arrived, _| {
                all.push(match arrived {
                    Arrived::Slot(packet) => (packet.data().to_vec(), Some(packet)),
                    Arrived::Elsewhere(bytes) => (bytes.to_vec(), None),
                });
            },
        );
        all
    }

    /// Sends packets through the virtual ports `net_ring` and `net_null`, and expects that each slot comes
    /// back. All is one test, because DPDK can be started only once in a process.
    #[test]
    fn slots_go_to_ports_and_come_back() {
        let devices = "--vdev=net_ring0 --vdev=net_null0,size=2000 --vdev=net_null1";
        let running = start(&words(&format!("--no-huge --no-pci -m 192 {devices}"))).unwrap();
        let again = start(&words("--no-huge")).unwrap_err();
        assert!(again.contains("only once"), "{again}");
        crate::dpdk::ports::tests::keys_are_secret(port::find("net_null1").unwrap());
        let (ring, null) = (port::find("net_ring0").unwrap(), port::find("net_null0").unwrap());
        let (mut one, mut other) = (pool(), pool());
        let (mine, theirs) = (Memory::of(&mut one).unwrap(), Memory::of(&mut other).unwrap());
        assert!(Arc::ptr_eq(&mine, &Memory::of(&mut one).unwrap()) && !Arc::ptr_eq(&mine, &theirs));
        for number in [ring, null] {
            port::configure(number, 1, 1, 0, false).unwrap();
            mine.refill(&mut one, 2000);
            assert_eq!(mine.set_up(&mut one, None, number, 0, 512), 0);
            port::set_up_tx(number, 0, 512).unwrap();
            assert_eq!(mine.start(&mut one, number), 0);
        }
        let mut to_ring = TxQueue::new(Arc::clone(&mine), ring, 0, 64, None, None);
        let mut from_ring = RxQueue::new(Arc::clone(&mine), ring, 0);

        // A packet goes to a port and comes back in the same slot, without a copy. A packet of another pool
        // and a packet with too little headroom are copied, and a packet that is too long is refused.
        let packet = one.packet(&[7; 900]).unwrap();
        let place = packet.data().as_ptr();
        assert!(to_ring.put(&mut one, packet).is_ok());
        let guest = other.packet(b"guest").unwrap();
        assert!(to_ring.put(&mut one, guest).is_ok());
        let mut grown = one.packet(&[5; 100]).unwrap();
        assert!(grown.unstrip(200));
        assert!(to_ring.put(&mut one, grown).is_ok());
        let large = other.packet(&[1; 5000]).unwrap();
        let large = to_ring.put(&mut one, large).unwrap_err();
        other.free(large);
        assert_eq!((to_ring.flush(&mut one), to_ring.copied, to_ring.waiting()), (3, 2, 0));
        let came = receive(&mut from_ring, &mut one);
        let lengths: Vec<usize> = came.iter().map(|(bytes, _)| bytes.len()).collect();
        assert_eq!(lengths, [900, 5, 300]);
        assert!(came.iter().all(|(_, packet)| packet.is_some()), "all of them in slots of ours");
        assert_eq!(came[0].1.as_ref().map(|packet| packet.data().as_ptr()), Some(place));
        came.into_iter().filter_map(|(_, packet)| packet).for_each(|packet| one.free(packet));

        // A worker with another pool receives from the port: the packets are copied, and the slots return
        // to the first pool.
        for n in 0..50u8 {
            let packet = one.packet(&[n; 60]).unwrap();
            assert!(to_ring.put(&mut one, packet).is_ok());
        }
        assert_eq!(to_ring.flush(&mut one), 50);
        let mut elsewhere = RxQueue::new(Arc::clone(&theirs), ring, 0);
        let before = mine.free(&mut one);
        let came = receive(&mut elsewhere, &mut other);
        assert!(
            came.iter().enumerate().all(|(n, (bytes, packet))| *bytes == [n as u8; 60] && packet.is_none())
        );
        assert_eq!((came.len(), mine.free(&mut one)), (50, before + 50));

        // The driver of `net_null` makes packets: it takes a slot for each, and returns the slot when the
        // packet has been sent.
        let mut from_null = RxQueue::new(Arc::clone(&mine), null, 0);
        let mut to_null = TxQueue::new(Arc::clone(&mine), null, 0, 256, None, None);
        for _ in 0..200 {
            for (bytes, packet) in receive(&mut from_null, &mut one) {
                assert_eq!(bytes.len(), 2000);
                assert!(to_null.put(&mut one, packet.unwrap()).is_ok());
            }
            assert_eq!(to_null.flush(&mut one), BURST);
        }
        assert!(mine.free(&mut one) <= MOST, "what is not needed goes back to the pool");

        // DPDK's own buffers have room for the longest frame.
        let own = Arc::new(OwnPool::new(64, false).unwrap());
        let mut to_card = TxQueue::new(Arc::clone(&mine), ring, 0, 64, None, Some(own));
        let longest = one.packet(&[9; packet::SLOT_CAPACITY]).unwrap();
        assert!(to_card.put(&mut one, longest).is_ok());
        assert_eq!((to_card.flush(&mut one), to_card.waiting()), (1, 0));
        let came = receive(&mut from_ring, &mut one);
        assert!(came.iter().map(|(bytes, _)| bytes.len()).eq([packet::SLOT_CAPACITY]));

        // A waiting packet can be taken back. One packet stays in the ring when the memory is closed.
        let packet = one.packet(b"waits").unwrap();
        assert!(to_ring.put(&mut one, packet).is_ok());
        let packet = to_ring.take_back(&mut one).unwrap();
        assert_eq!(packet.data(), b"waits");
        one.free(packet);
        let packet = one.packet(b"stays in the ring").unwrap();
        assert!(to_ring.put(&mut one, packet).is_ok());
        assert_eq!(to_ring.flush(&mut one), 1);
        drop((to_ring, from_ring, from_null, to_null, to_card));
        let headers = mine.headers;
        Memory::close(mine, &mut one);

        // DPDK still has the header of the packet in the ring, so the C part cannot be used again, and a
        // second C part is made. Once the packet has been received, new memories use one of these two C
        // parts.
        let second = Memory::of(&mut one).unwrap();
        assert_ne!(second.headers, headers);
        assert_eq!(receive(&mut elsewhere, &mut other).len(), 1);
        Memory::close(second, &mut one);
        for _ in 0..20 {
            let again = Memory::of(&mut one).unwrap();
            again.refill(&mut one, 100);
            assert_eq!(again.free(&mut one), 100);
            Memory::close(again, &mut one);
        }
        drop(elsewhere);
        for number in [ring, null] {
            theirs.stop(&mut other, number);
        }
        Memory::close(theirs, &mut other);
        assert_eq!((one.stats().in_use, one.stats().leaked), (0, 0));
        drop(running);
    }
}
