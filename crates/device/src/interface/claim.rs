//! Keeps a second Tidegate process from receiving from an interface: both would forward each packet, and
//! TCP would suffer from the duplicates.
//!
//! A claim is a Unix socket that listens at a name in the abstract namespace, which contains the
//! interface's index. Abstract names belong to the network namespace, as interfaces do. The claim ends with
//! the process, even if the process is killed. Any user may create such names, so the kernel is asked for
//! the owner of a claim (`SO_PEERCRED`): only claims of root and of this process's own user count. Names
//! end with a random number, so that other users cannot occupy all of them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libc::c_int;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::sys::peer;

/// A claim to receive alone from the interface with this index. The claim ends when all elements that share
/// it have dropped it.
#[derive(Debug)]
pub(crate) struct Claim {
    index: c_int,
    _socket: UnixListener,
}

/// The claims of this process. Several elements of a configuration, and elements of the configuration that
/// replaces it, may receive from one interface. They share a claim.
static CLAIMS: Mutex<Vec<Weak<Claim>>> = Mutex::new(Vec::new());

impl Claim {
    /// Claims the interface named `device`, with the index `index`, for an element with SHARED false.
    /// Returns `None` if the system does not allow a claim: the element then receives without it.
    ///
    /// # Errors
    /// If another process of root or of this process's user has a claim on the interface.
    pub(crate) fn of(device: &str, index: c_int) -> Result<Option<Arc<Claim>>, String> {
        match Claim::new(index) {
            Ok(claim) => Ok(Some(claim)),
            Err(Refused::System) => Ok(None),
            Err(Refused::Other(process)) => {
                let process = process.map(|number| format!(" (process {number})")).unwrap_or_default();
                Err(format!(
                    "{device}: another tidegate{process} receives from it, and packets would be forwarded twice; end \
                     that process, or write SHARED true to receive in both"
                ))
            }
        }
    }

    /// Returns this process's claim on the interface with this index, or makes one.
    fn new(index: c_int) -> Result<Arc<Claim>, Refused> {
        let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|claim| claim.strong_count() > 0);
        let found = claims.iter().filter_map(Weak::upgrade).find(|claim| claim.index == index);
        if let Some(claim) = found {
            return Ok(claim);
        }
        let own = format!("{}{:016x}", prefix(index), RandomState::new().build_hasher().finish());
        let socket =
            SocketAddr::from_abstract_name(&own).and_then(|address| UnixListener::bind_addr(&address));
        let claim = Arc::new(Claim { index, _socket: socket.map_err(|_| Refused::System)? });
        // This process makes its own claim before it looks for claims of other processes. If two processes
        // start at once, at least one of them sees the other's claim.
        if let Some(other) = others(index).into_iter().filter(|other| other.name != own).find(Other::counts) {
            return Err(Refused::Other(other.process()));
        }
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// The reason why an interface could not be claimed.
#[derive(Debug)]
enum Refused {
    /// Another process has a claim on the interface. The number is the number of that process, if this
    /// process may see it.
    Other(Option<u32>),
    System,
}

fn prefix(index: c_int) -> String {
    format!("tidegate/receiver/{index}/")
}

/// A claim on an interface, perhaps of another process: the name of its socket without `@`, and the
/// socket's inode.
struct Other {
    name: String,
    inode: String,
}

/// Returns all claims on the interface with this index, also those of this process, from `/proc/net/unix`.
fn others(index: c_int) -> Vec<Other> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let prefix = format!("@{}", prefix(index));
    let claim = |line: &str| {
        // The fields of a line: number, references, protocol, flags, type, state, inode, path.
        let [inode, path] = [6, 7].map(|field| line.split_whitespace().nth(field));
        let name = path?.strip_prefix('@').filter(|_| path.is_some_and(|path| path.starts_with(&prefix)))?;
        // Connections that wait in the socket's queue have the socket's name and no inode.
        let inode = inode.filter(|&inode| inode != "0")?;
        Some(Other { name: name.into(), inode: inode.into() })
    };
    sockets.lines().filter_map(claim).collect()
}

impl Other {
    /// True if the claim belongs to root or to this process's user. A claim whose owner cannot be
    /// determined does not count.
    fn counts(&self) -> bool {
        let own = peer::own_user();
        let of_process = || Some(std::fs::metadata(format!("/proc/{}", self.process()?)).ok()?.uid());
        self.owner().or_else(of_process).is_some_and(|user| user == 0 || user == own)
    }

    /// Returns the user who has created the claim, as the kernel reports it to a process that connects to
    /// the socket. Returns `None` if that fails, for example if the socket's queue of connections is full.
    fn owner(&self) -> Option<u32> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
        let address = UnixAddr::new_abstract(self.name.as_bytes()).ok()?;
        connect(socket.as_raw_fd(), &address).ok()?;
        peer::user(socket.as_fd()).ok()
    }

    /// Returns the number of the process that has the claim; `None` if the process has ended, or if this
    /// process may not see it.
    fn process(&self) -> Option<u32> {
        let target = format!("socket:[{}]", self.inode);
        let has_it = |process: &Path| {
            let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            files
                .filter_map(|file| std::fs::read_link(file.path()).ok())
                .any(|link| link == Path::new(&target))
        };
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|number| has_it(&Path::new("/proc").join(number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shares_a_claim_and_others_are_refused() {
        // An index that no interface has.
        let index = c_int::MAX - 7;
        let [first, second] = [(); 2].map(|()| Claim::new(index).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert!(others(index).is_empty());
        // A claim such as another process would make.
        let address = SocketAddr::from_abstract_name(format!("{}other", prefix(index))).unwrap();
        let other = UnixListener::bind_addr(&address).unwrap();
        match Claim::new(index) {
            Err(Refused::Other(process)) => assert_eq!(process, Some(std::process::id())),
            refused => panic!("{refused:?}"),
        }
        let text = Claim::of("eth0", index).unwrap_err();
        assert!(text.contains("SHARED true"), "{text}");
        // Fill the socket's queue of connections, so that its owner cannot be asked. The claim still
        // counts, because the owner is found by its process.
        let ask = || others(index).iter().find(|other| other.name.ends_with("other")).unwrap().owner();
        while ask().is_some() {}
        match Claim::new(index) {
            Err(Refused::Other(process)) => assert_eq!(process, Some(std::process::id())),
            refused => panic!("{refused:?}"),
        }
        drop(other);
        assert!(Claim::new(index).is_ok());
    }
}
