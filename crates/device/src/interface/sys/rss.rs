//! Reads and sets the key of the hash by which an interface chooses the receive queue of a packet, by ioctl
//! (ETHTOOL_GRSSH, ETHTOOL_SRSSH of `linux/ethtool.h`).

use std::io;

use super::link;

const GET: u32 = 0x46;
const SET: u32 = 0x47;
/// The value, in a request, of the field for the number of entries of the indirection table that leaves the
/// table unchanged.
const NO_CHANGE: u32 = u32::MAX;
/// The bit of the Toeplitz hash in the set of hash functions.
const TOEPLITZ: u8 = 1;
/// The number of 32-bit words of `struct ethtool_rxfh` before the indirection table.
const HEAD: usize = 6;
/// The largest number of entries of an indirection table (`MOST_ENTRIES`), and the largest length of a key in
/// bytes (`MOST_BYTES`), that are accepted. The longest key of the kernel's drivers has 52 bytes.
const MOST_ENTRIES: u32 = 1 << 16;
const MOST_BYTES: u32 = 256;

/// The hash of an interface: the size of its indirection table, and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hash {
    /// The number of entries of the indirection table, which maps hashes to queues.
    entries: usize,
    pub(crate) key: Vec<u8>,
}

impl Hash {
    /// Returns these settings of the hash with the key `key` in place of the present key.
    pub(crate) fn with_key(&self, key: Vec<u8>) -> Hash {
        Hash { entries: self.entries, key }
    }
}

/// Reads the hash of the interface with this name.
///
/// # Errors
/// If the kernel refuses the request; `EOPNOTSUPP` if the hash has no key, is no Toeplitz hash, or has a key
/// or table of more than the accepted size.
pub(crate) fn get(name: &str) -> io::Result<Hash> {
    let unsupported = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    // A request without room for table and key returns their sizes.
    let mut sizes = words(GET, 0, 0);
    link::ethtool(name, &mut sizes)?;
    let [_, _, entries, bytes, ..] = sizes[..] else { return Err(unsupported()) };
    if bytes == 0 || bytes > MOST_BYTES || entries > MOST_ENTRIES {
        return Err(unsupported());
    }
    let mut all = words(GET, entries, bytes);
    link::ethtool(name, &mut all)?;
    // Hash functions other than Toeplitz have no key, or do not use it. A hash function of 0 means that the
    // driver does not report it.
    let [function, ..] = all[4].to_ne_bytes();
    if function != 0 && function & TOEPLITZ == 0 {
        return Err(unsupported());
    }
    let entries = entries as usize;
    let key = all[HEAD + entries..].iter().flat_map(|word| word.to_ne_bytes()).take(bytes as usize).collect();
    Ok(Hash { entries, key })
}

/// Sets the key of an interface's hash. The key must be as long as the interface's present key. The hash
/// function and the indirection table stay.
///
/// # Errors
/// If the kernel refuses the request; `EOPNOTSUPP` if the interface reports success but keeps another key.
pub(crate) fn set(name: &str, hash: &Hash) -> io::Result<()> {
    link::ethtool(name, &mut request(hash))?;
    match get(name)?.key == hash.key {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// Returns the request that sets a key. The kernel expects the key after the room for the whole indirection
/// table, even if the request does not set the table.
fn request(hash: &Hash) -> Vec<u32> {
    let mut request = words(SET, hash.entries as u32, hash.key.len() as u32);
    request[2] = NO_CHANGE;
    for (word, bytes) in request[HEAD + hash.entries..].iter_mut().zip(hash.key.chunks(4)) {
        let mut whole = [0; 4];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_ne_bytes(whole);
    }
    request
}

/// Returns a `struct ethtool_rxfh` in 32-bit words: command, context, number of entries, length of the key
/// in bytes, hash function, and a reserved word; then room for the table (a word per entry) and the key.
fn words(command: u32, entries: u32, bytes: u32) -> Vec<u32> {
    let mut words = vec![0; HEAD + entries as usize + (bytes as usize).div_ceil(4)];
    words[..4].copy_from_slice(&[command, 0, entries, bytes]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_the_kernel_reads_them() {
        for length in [40u8, 52, 5] {
            let key: Vec<u8> = (1..=length).collect();
            let request = request(&Hash { entries: 128, key: key.clone() });
            let bytes: Vec<u8> = request.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
            assert_eq!([word(0), word(4), word(8), word(12)], [0x47, 0, u32::MAX, length.into()]);
            // The request names no hash function, which leaves it unchanged; reserved bytes are zero.
            assert_eq!(bytes[16..24], [0; 8]);
            // The indirection table begins at byte 24 and is zero.
            assert_eq!(bytes[24..24 + 4 * 128], [0; 4 * 128]);
            let behind = 24 + 4 * 128;
            assert_eq!(bytes[behind..behind + key.len()], key[..]);
            assert!(bytes.len() >= behind + key.len() && bytes.len().is_multiple_of(4));
        }
    }

    #[test]
    fn interfaces_without_a_key_say_so() {
        assert_eq!(get("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(get("no-such-device").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
