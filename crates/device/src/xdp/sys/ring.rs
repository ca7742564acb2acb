//! A ring of an AF_XDP socket (af_xdp.rst), which the kernel and one thread of Tidegate share. The producer
//! writes entries and advances its index; the consumer reads entries and advances its own index. Indexes wrap
//! around at 2^32. The number of entries of a ring is a power of two.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_void, off_t, xdp_desc, xdp_ring_offset};

/// A type of entries of a ring.
///
/// # Safety
/// The type must consist of plain numbers, so that any bytes are a valid value.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: the type is a number, so that any bytes are a value.
unsafe impl Entry for u64 {}
// SAFETY: the type consists of numbers, without padding, so that any bytes are a value.
unsafe impl Entry for xdp_desc {}

/// The memory of a ring, which the kernel shares, and the offsets of its two indexes and its entries.
struct Shared<T> {
    map: NonNull<u8>,
    length: usize,
    places: xdp_ring_offset,
    size: u32,
    /// The index of Tidegate's side. Entries before it are written or read, but the kernel sees the index
    /// only after it has been stored in the ring.
    own: u32,
    /// The index of the kernel's side, as Tidegate last read it. The kernel may have advanced it since
    /// then.
    seen: u32,
    entries: PhantomData<T>,
}

// SAFETY: the mapping belongs to the ring alone, and can be used from any one thread.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Entry> Shared<T> {
    fn map(socket: BorrowedFd<'_>, at: u64, places: xdp_ring_offset, size: u32) -> io::Result<Shared<T>> {
        let length = places.desc as usize + size as usize * size_of::<T>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: this makes a new mapping, at an address that the kernel chooses.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, flags, socket.as_raw_fd(), at as off_t)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Shared { map, length, places, size, own: 0, seen: 0, entries: PhantomData })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the kernel says that an aligned word is at this offset, inside the mapping, which lives
        // as long as the borrow; the kernel accesses it as atomically as this code does.
        unsafe { &*self.map.as_ptr().add(at as usize).cast::<AtomicU32>() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.places.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.places.consumer)
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.places.desc as usize + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: the entry is inside the mapping, whose length was computed for all entries.
        unsafe { self.map.as_ptr().add(at).cast() }
    }

    fn needs_wakeup(&self) -> bool {
        self.word(self.places.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// A ring that Tidegate writes to and the kernel reads: the slots that the kernel may receive into, or the
/// packets that it is to send.
pub(crate) struct Producer<T>(Shared<T>);

impl<T: Entry> Producer<T> {
    /// Maps a ring of a socket into memory. `size`, in entries, must be the size with which the socket was
    /// set up.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        at: u64,
        places: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        Shared::map(socket, at, places, size).map(Producer)
    }

    /// Returns the number of free entries, as far as it is known. The kernel's index is read again only if
    /// fewer than `wanted` free entries are known.
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let ring = &mut self.0;
        let room = |seen: u32| ring.size.saturating_sub(ring.own.wrapping_sub(seen));
        if room(ring.seen) < wanted {
            // Acquire: the kernel has finished reading the entries that it gave back, before Tidegate
            // writes them again.
            ring.seen = ring.consumer().load(Ordering::Acquire);
        }
        ring.size.saturating_sub(ring.own.wrapping_sub(ring.seen))
    }

    /// Writes an entry, which the kernel sees after the next [`submit`](Self::submit). Returns false, and
    /// writes nothing, if the ring is full.
    pub(crate) fn put(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: the kernel does not touch entries that are not handed over, and there is room for this
        // entry.
        unsafe { self.0.entry(self.0.own).write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
        true
    }

    /// Makes all entries that were written since the last call visible to the kernel.
    pub(crate) fn submit(&mut self) {
        // Release: the kernel sees the index only after the entries, and the slots that they refer to, have
        // been written.
        self.0.producer().store(self.0.own, Ordering::Release);
    }

    /// Returns the number of written entries, submitted or not, that the kernel has not taken yet.
    pub(crate) fn pending(&mut self) -> u32 {
        self.0.seen = self.0.consumer().load(Ordering::Acquire);
        self.0.own.wrapping_sub(self.0.seen)
    }

    /// True if the kernel continues with the ring only after a system call (XDP_RING_NEED_WAKEUP).
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}

/// A ring that the kernel writes to and Tidegate reads: the packets that were received, or the slots of
/// packets that were sent.
pub(crate) struct Consumer<T>(Shared<T>);

impl<T: Entry> Consumer<T> {
    /// Maps a ring of a socket into memory. `size`, in entries, must be the size with which the socket was
    /// set up.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        at: u64,
        places: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        Shared::map(socket, at, places, size).map(Consumer)
    }

    /// True if the kernel has written an entry that has not been taken.
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.0.own == self.0.seen {
            // Acquire: the kernel wrote the entries, and the slots that they refer to, before it advanced
            // this index.
            self.0.seen = self.0.producer().load(Ordering::Acquire);
        }
        self.0.own != self.0.seen
    }

    /// Takes the next entry; `None` if the kernel has written none. The kernel may reuse the entry's memory
    /// after the next [`release`](Self::release).
    pub(crate) fn take(&mut self) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: the kernel has written the entry and does not touch it before it is released; any bytes
        // are a value.
        let entry = unsafe { self.0.entry(self.0.own).read() };
        self.0.own = self.0.own.wrapping_add(1);
        Some(entry)
    }

    /// Allows the kernel to write again to the memory of all entries that were taken.
    pub(crate) fn release(&mut self) {
        // Release: the kernel may write to the entries again only after Tidegate has read them.
        self.0.consumer().store(self.0.own, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// A ring in a file that a producer and a consumer map, laid out as the kernel does it. Entries come
    /// out in the order in which they went in.
    #[test]
    fn what_is_put_is_taken_in_order() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let places = xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };
        let mut producer = Producer::<u64>::map(file.as_fd(), 0, places, 4).unwrap();
        let mut consumer = Consumer::<u64>::map(file.as_fd(), 0, places, 4).unwrap();
        assert!(!producer.needs_wakeup() && !consumer.is_ready());
        let (mut next_in, mut next_out) = (0u64, 0u64);
        // Repeat until the indexes have passed the end of the ring many times.
        for round in 0..50 {
            while producer.put(next_in) {
                next_in += 1;
            }
            assert!(round > 0 || next_in == 4, "four fit");
            assert!(round > 0 || !consumer.is_ready(), "nothing is to be seen before it is submitted");
            producer.submit();
            assert_eq!(producer.pending(), 4);
            for _ in 0..=round % 4 {
                assert_eq!(consumer.take(), Some(next_out));
                next_out += 1;
            }
            assert_eq!(producer.room(4), 0, "nothing is free before it is released");
            consumer.release();
            assert_eq!(producer.room(4), round as u32 % 4 + 1);
        }
    }
}
