//! Finds ports of DPDK, configures them, and reads and sets their properties.

use std::ffi::{CStr, CString, c_char};

unsafe extern "C" {
    safe fn tg_port_exists(port: u16) -> i32;
    fn tg_port_find(name: *const c_char) -> i32;
    safe fn tg_port_removed(port: u16) -> i32;
    fn tg_probe(arguments: *const c_char) -> i32;
    fn tg_port_info(port: u16, to: *mut RawInfo) -> i32;
    safe fn tg_port_configure(port: u16, rx: u16, tx: u16, mtu: u32, spreads: i32) -> i32;
    fn tg_port_descriptors(port: u16, rx: *mut u16, tx: *mut u16) -> i32;
    safe fn tg_tx_setup(port: u16, queue: u16, descriptors: u16) -> i32;
    safe fn tg_port_promiscuous(port: u16, on: i32) -> i32;
    safe fn tg_port_mtu(port: u16) -> i32;
    safe fn tg_port_set_mtu(port: u16, mtu: u16) -> i32;
    fn tg_port_mac(port: u16, to: *mut u8) -> i32;
    fn tg_port_set_mac(port: u16, bytes: *const u8, how: i32) -> i32;
    fn tg_port_link(port: u16, to: *mut Link) -> i32;
    fn tg_port_counts(port: u16, to: *mut Counts) -> i32;
    fn tg_port_extended(port: u16, number: u32, name: *mut c_char, value: *mut u64) -> i32;
    safe fn tg_port_queue_count(port: u16, queue: u16) -> i32;
    safe fn tg_port_reta(port: u16, number: u16, size: u16) -> i32;
    safe fn tg_port_set_reta(port: u16, queues: u16, size: u16) -> i32;
    fn tg_port_key(port: u16, key: *mut u8, length: u8) -> i32;
    fn tg_port_set_key(port: u16, key: *const u8, length: u8) -> i32;
}

/// The size in bytes of the shim's buffers for the names of ports and counters (RTE_ETH_NAME_MAX_LEN,
/// RTE_ETH_XSTATS_NAME_SIZE).
const NAME: usize = 64;
/// The size in bytes of the shim's buffer for the arguments by which DPDK finds a device.
const ARGUMENTS: usize = 1024;
/// The largest number of ports in DPDK (RTE_MAX_ETHPORTS).
const MOST_PORTS: u16 = 32;
/// The number of queues that have separate counters (RTE_ETHDEV_QUEUE_STAT_CNTRS).
const COUNTED_QUEUES: usize = 16;

#[repr(C)]
struct RawInfo {
    name: [c_char; NAME],
    driver: *const c_char,
    is_virtual: i32,
    most_rx: u16,
    most_tx: u16,
    most_mtu: u16,
    rx_descriptors: u16,
    tx_descriptors: u16,
    reta_size: u16,
    key_length: u16,
    rss: u64,
    interface: u32,
    arguments: [c_char; ARGUMENTS],
}

/// The properties of a port, as its driver reports them.
#[derive(Clone, Debug)]
pub(in crate::dpdk) struct Info {
    pub(in crate::dpdk) name: String,
    pub(in crate::dpdk) driver: String,
    /// True if the driver is software in this process, so that it reaches the packet pool without a mapping
    /// for a device.
    pub(in crate::dpdk) is_virtual: bool,
    pub(in crate::dpdk) most_rx: u16,
    pub(in crate::dpdk) most_tx: u16,
    pub(in crate::dpdk) reta_size: u16,
    /// The length in bytes of the key of the hash by which the port spreads packets over queues; `None` if
    /// the port cannot spread packets. 40 if the driver does not report the length.
    pub(in crate::dpdk) key_length: Option<u8>,
    /// The index in the kernel of the network interface that the port uses, if there is one.
    pub(in crate::dpdk) interface: Option<i32>,
    /// The arguments by which DPDK finds the port's device again after a removal; empty if they are too long
    /// for the buffer, or if the port has no device.
    pub(in crate::dpdk) arguments: String,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::dpdk) struct Link {
    pub(in crate::dpdk) speed: u32,
    pub(in crate::dpdk) is_up: bool,
    pub(in crate::dpdk) is_full_duplex: bool,
    pub(in crate::dpdk) is_negotiated: bool,
}

/// The port's counters, as the driver or the device counts them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::dpdk) struct Counts {
    pub(in crate::dpdk) in_packets: u64,
    pub(in crate::dpdk) out_packets: u64,
    pub(in crate::dpdk) in_bytes: u64,
    pub(in crate::dpdk) out_bytes: u64,
    pub(in crate::dpdk) missed: u64,
    pub(in crate::dpdk) in_errors: u64,
    pub(in crate::dpdk) out_errors: u64,
    pub(in crate::dpdk) no_buffers: u64,
    pub(in crate::dpdk) queue_packets: [u64; COUNTED_QUEUES],
    pub(in crate::dpdk) queue_bytes: [u64; COUNTED_QUEUES],
}

/// Returns a result of DPDK; a negative one is an error number and becomes `Err`.
fn checked(result: i32) -> Result<i32, i32> {
    if result < 0 { Err(result) } else { Ok(result) }
}

/// Returns the number of the port with this number, name, or PCI address. The domain `0000:` of an address
/// may be left out.
pub(in crate::dpdk) fn find(text: &str) -> Option<u16> {
    if let Ok(number) = text.parse::<u16>() {
        return (tg_port_exists(number) != 0).then_some(number);
    }
    let by_name = |name: &str| {
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a zero byte.
        u16::try_from(unsafe { tg_port_find(name.as_ptr()) }).ok()
    };
    by_name(text).or_else(|| by_name(&format!("0000:{text}")))
}

/// True if the driver has reported that the port's device was removed, or if there is no port with this
/// number.
pub(in crate::dpdk) fn was_removed(port: u16) -> bool {
    tg_port_removed(port) != 0
}

/// Makes DPDK look for the device with these arguments, such as `net_tap0,iface=tap0`, and make ports for
/// it.
pub(in crate::dpdk) fn probe(arguments: &str) -> Result<(), i32> {
    let arguments = CString::new(arguments).map_err(|_| -libc::EINVAL)?;
    // SAFETY: the text ends with a zero byte.
    checked(unsafe { tg_probe(arguments.as_ptr()) }).map(drop)
}

/// Returns the numbers of all ports that DPDK has, in ascending order.
pub(in crate::dpdk) fn all() -> Vec<u16> {
    (0..MOST_PORTS).filter(|&port| tg_port_exists(port) != 0).collect()
}

pub(in crate::dpdk) fn info(port: u16) -> Result<Info, i32> {
    let mut raw = RawInfo {
        name: [0; NAME],
        driver: std::ptr::null(),
        is_virtual: 0,
        most_rx: 0,
        most_tx: 0,
        most_mtu: 0,
        rx_descriptors: 0,
        tx_descriptors: 0,
        reta_size: 0,
        key_length: 0,
        rss: 0,
        interface: 0,
        arguments: [0; ARGUMENTS],
    };
    // SAFETY: the structure has the layout of the shim's structure, and lives through the call.
    checked(unsafe { tg_port_info(port, &raw mut raw) })?;
    let driver = match raw.driver.is_null() {
        true => String::new(),
        // SAFETY: the pointer is to the name of a driver, which ends with a zero byte and is never freed.
        false => unsafe { CStr::from_ptr(raw.driver) }.to_string_lossy().into_owned(),
    };
    Ok(Info {
        name: text(&raw.name),
        driver,
        is_virtual: raw.is_virtual != 0,
        most_rx: raw.most_rx,
        most_tx: raw.most_tx,
        reta_size: raw.reta_size,
        key_length: u8::try_from(raw.key_length).ok().filter(|_| raw.rss != 0),
        interface: i32::try_from(raw.interface).ok().filter(|&index| index > 0),
        arguments: text(&raw.arguments),
    })
}

/// Returns the text before the first zero byte, or the whole text if there is none.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Configures a port with `rx` receive queues and `tx` send queues. With `mtu` 0, DPDK chooses the MTU (1500,
/// or less if the port supports less). With `spreads`, the port spreads packets over several receive queues
/// by a hash, if it can.
///
/// # Errors
/// DPDK's error number, which is negative; other functions of this module return it as well.
pub(in crate::dpdk) fn configure(port: u16, rx: u16, tx: u16, mtu: u16, spreads: bool) -> Result<(), i32> {
    checked(tg_port_configure(port, rx, tx, mtu.into(), spreads.into())).map(drop)
}

/// Returns numbers of descriptors per receive queue and per send queue that the port supports: the numbers
/// nearest to `rx` and `tx`. Returns `rx` and `tx` if the driver does not report its limits.
pub(in crate::dpdk) fn descriptors(port: u16, mut rx: u16, mut tx: u16) -> (u16, u16) {
    // SAFETY: the pointers are to two numbers, which live through the call.
    unsafe { tg_port_descriptors(port, &raw mut rx, &raw mut tx) };
    (rx, tx)
}

pub(in crate::dpdk) fn set_up_tx(port: u16, queue: u16, descriptors: u16) -> Result<(), i32> {
    checked(tg_tx_setup(port, queue, descriptors)).map(drop)
}

pub(in crate::dpdk) fn set_promiscuous(port: u16, on: bool) -> Result<(), i32> {
    checked(tg_port_promiscuous(port, on.into())).map(drop)
}

pub(in crate::dpdk) fn mtu(port: u16) -> Result<usize, i32> {
    checked(tg_port_mtu(port)).map(|mtu| mtu as usize)
}

pub(in crate::dpdk) fn set_mtu(port: u16, mtu: u16) -> Result<(), i32> {
    checked(tg_port_set_mtu(port, mtu)).map(drop)
}

pub(in crate::dpdk) fn mac(port: u16) -> Result<[u8; 6], i32> {
    let mut bytes = [0; 6];
    // SAFETY: the pointer is to the six bytes of an Ethernet address, which live through the call.
    checked(unsafe { tg_port_mac(port, bytes.as_mut_ptr()) })?;
    Ok(bytes)
}

/// The operations of [`set_mac`] on a port's Ethernet addresses: sets the main address, adds a further one,
/// or removes a further one.
#[derive(Clone, Copy)]
pub(in crate::dpdk) enum Mac {
    Set = 0,
    Add = 1,
    Remove = 2,
}

pub(in crate::dpdk) fn set_mac(port: u16, bytes: [u8; 6], how: Mac) -> Result<(), i32> {
    // SAFETY: the pointer is to the six bytes of an Ethernet address, which live through the call.
    checked(unsafe { tg_port_set_mac(port, bytes.as_ptr(), how as i32) }).map(drop)
}

pub(in crate::dpdk) fn link(port: u16) -> Result<Link, i32> {
    let mut link = Link::default();
    // SAFETY: the structure has the layout of the shim's structure; the shim writes 0 or 1 into the bool
    // fields.
    checked(unsafe { tg_port_link(port, &raw mut link) })?;
    Ok(link)
}

pub(in crate::dpdk) fn counts(port: u16) -> Result<Counts, i32> {
    let mut counts = Counts::default();
    // SAFETY: the structure has the layout of the shim's structure, and lives through the call.
    checked(unsafe { tg_port_counts(port, &raw mut counts) })?;
    Ok(counts)
}

/// Returns the names and values of the driver's additional counters (`xstats`).
pub(in crate::dpdk) fn extended(port: u16) -> Result<Vec<(String, u64)>, i32> {
    let mut all = Vec::new();
    loop {
        let (mut name, mut value) = ([0; NAME], 0);
        // SAFETY: the pointers are to room for a name and for a number.
        let there = unsafe { tg_port_extended(port, all.len() as u32, name.as_mut_ptr(), &raw mut value) };
        if all.len() >= checked(there)? as usize {
            return Ok(all);
        }
        all.push((text(&name), value));
    }
}

/// Returns the number of packets that wait in a receive queue, or a negative error number.
pub(in crate::dpdk) fn queue_count(port: u16, queue: u16) -> i32 {
    tg_port_queue_count(port, queue)
}

/// Returns the redirection table: for each of `size` values of the hash, the queue to which packets go. The
/// table ends early if the port does not report it.
pub(in crate::dpdk) fn reta(port: u16, size: u16) -> Vec<i32> {
    (0..size).map_while(|number| checked(tg_port_reta(port, number, size)).ok()).collect()
}

/// Sets the redirection table, which has `size` entries, so that packets go to the first `queues` queues in
/// turn.
pub(in crate::dpdk) fn set_reta(port: u16, queues: u16, size: u16) -> Result<(), i32> {
    checked(tg_port_set_reta(port, queues, size)).map(drop)
}

/// Returns the key of the hash by which a port spreads packets over queues. `length` is the key's length in
/// bytes.
pub(in crate::dpdk) fn key(port: u16, length: u8) -> Result<Vec<u8>, i32> {
    // Drivers write the whole key that they have, even if it is longer than `length`.
    let mut key = [0; u8::MAX as usize];
    // SAFETY: the buffer has room for the longest key.
    checked(unsafe { tg_port_key(port, key.as_mut_ptr(), length) })?;
    Ok(key[..usize::from(length)].to_vec())
}

/// Sets the key of the hash by which a port spreads packets over queues.
///
/// # Errors
/// DPDK's error number; `-EOPNOTSUPP` if the driver accepts the key but keeps its own.
pub(in crate::dpdk) fn set_key(port: u16, key: &[u8]) -> Result<(), i32> {
    let length = u8::try_from(key.len()).map_err(|_| -libc::EINVAL)?;
    // SAFETY: the key has `length` bytes.
    checked(unsafe { tg_port_set_key(port, key.as_ptr(), length) })?;
    // Some drivers report success and keep their own key, so the key is read again.
    if self::key(port, length)? == key { Ok(()) } else { Err(-libc::EOPNOTSUPP) }
}
