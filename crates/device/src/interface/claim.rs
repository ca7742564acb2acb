//! Prevents a second process from receiving from an interface: both would forward each packet, and TCP
//! would suffer from the duplicates.
//!
//! A claim is a Unix socket with a name in the abstract namespace, which belongs to the network namespace.
//! It ends with the process, even if the process is killed. Any user may create such names, so the kernel
//! is asked for the owner of a claim (`SO_PEERCRED`): only claims of root and of this process's own user
//! count. Names end with a random number, so that other users cannot occupy all of them.

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

/// The claim of this process to receive from an interface alone.
#[derive(Debug)]
pub(crate) struct Claim {
    index: c_int,
    _socket: UnixListener,
}

/// The claims of this process: a configuration may receive from an interface several times, and so may the
/// configuration that replaces it.
static CLAIMS: Mutex<Vec<Weak<Claim>>> = Mutex::new(Vec::new());

impl Claim {
    /// Claims an interface for an element that does not share it. Returns `None` if the kernel does not
    /// allow it: packets matter more than claims.
    ///
    /// # Errors
    /// If another process receives from the interface.
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

    /// Claims the interface with this index.
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
        // Our claim exists before the look for others, so that if two programs start at once, at least
        // one sees the other.
        if let Some(other) = others(index).into_iter().filter(|other| other.name != own).find(Other::counts) {
            return Err(Refused::Other(other.process()));
        }
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// The reason why there is no claim.
#[derive(Debug)]
enum Refused {
    /// The claim of another process, with its number if this process may see it.
    Other(Option<u32>),
    System,
}

fn prefix(index: c_int) -> String {
    format!("tidegate/receiver/{index}/")
}

/// A claim that another process may have: its name, and the inode of its socket.
struct Other {
    name: String,
    inode: String,
}

/// Returns all claims of an interface.
fn others(index: c_int) -> Vec<Other> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let prefix = format!("@{}", prefix(index));
    let claim = |line: &str| {
        // Fields: number, references, protocol, flags, type, state, inode, path.
        let [inode, path] = [6, 7].map(|field| line.split_whitespace().nth(field));
        let name = path?.strip_prefix('@').filter(|_| path.is_some_and(|path| path.starts_with(&prefix)))?;
        Some(Other { name: name.into(), inode: inode?.into() })
    };
    sockets.lines().filter_map(claim).collect()
}

impl Other {
    /// True if the claim belongs to root or to the user of this process. A claim whose owner cannot be
    /// found out is ignored.
    fn counts(&self) -> bool {
        let own = peer::own_user();
        let of_process = || Some(std::fs::metadata(format!("/proc/{}", self.process()?)).ok()?.uid());
        self.owner().or_else(of_process).is_some_and(|user| user == 0 || user == own)
    }

    /// Returns the user who has created the claim, whom the kernel reports to a process that connects.
    /// Fails if the queue of the claim's socket is full of connections.
    fn owner(&self) -> Option<u32> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
        let address = UnixAddr::new_abstract(self.name.as_bytes()).ok()?;
        connect(socket.as_raw_fd(), &address).ok()?;
        peer::user(socket.as_fd()).ok()
    }

    /// Returns the process that has the claim, if this process may see it.
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
        // No interface has this index.
        let index = c_int::MAX - 7;
        let [first, second] = [(); 2].map(|()| Claim::new(index).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert!(others(index).is_empty());
        // A claim as another process would make it.
        let address = SocketAddr::from_abstract_name(format!("{}other", prefix(index))).unwrap();
        let other = UnixListener::bind_addr(&address).unwrap();
        match Claim::new(index) {
            Err(Refused::Other(process)) => assert_eq!(process, Some(std::process::id())),
            refused => panic!("{refused:?}"),
        }
        let text = Claim::of("eth0", index).unwrap_err();
        assert!(text.contains("SHARED true"), "{text}");
        // A process cannot hide its claim by a full queue of connections.
        let ask = || others(index).iter().find(|other| other.name.ends_with("other")).unwrap().owner();
        while ask().is_some() {}
        assert!(Claim::new(index).is_err());
        drop(other);
        assert!(Claim::new(index).is_ok());
    }
}
