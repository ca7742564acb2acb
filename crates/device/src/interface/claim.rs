//! Keeps a second program from receiving from an interface: both would forward each packet, and TCP would suffer from the
//! duplicates.
//!
//! A claim is a Unix socket with a name in the abstract namespace, which is that of the network namespace. It ends with the
//! process, however that ends.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libc::c_int;

/// The claim of this process to receive from an interface alone.
#[derive(Debug)]
pub(crate) struct Claim {
    index: c_int,
    _socket: UnixDatagram,
}

/// Claims of this process: a configuration may receive from an interface several times, and so may the one that takes its
/// place.
static CLAIMS: Mutex<Vec<Weak<Claim>>> = Mutex::new(Vec::new());

impl Claim {
    /// Claims the interface with this number.
    ///
    /// # Errors
    /// Another process has claimed it (`EADDRINUSE`), or what the system says.
    pub(crate) fn new(index: c_int) -> io::Result<Arc<Claim>> {
        let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|claim| claim.strong_count() > 0);
        let found = claims.iter().filter_map(Weak::upgrade).find(|claim| claim.index == index);
        if let Some(claim) = found {
            return Ok(claim);
        }
        let address = SocketAddr::from_abstract_name(name(index))?;
        let claim = Arc::new(Claim { index, _socket: UnixDatagram::bind_addr(&address)? });
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

fn name(index: c_int) -> String {
    format!("tidegate/receiver/{index}")
}

/// The process that has claimed an interface, if this one may see it.
pub(crate) fn holder(index: c_int) -> Option<u32> {
    let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
    let name = format!("@{}", name(index));
    let line = sockets.lines().find(|line| line.rsplit(' ').next() == Some(&name))?;
    // Number, references, protocol, flags, type, state, inode, path.
    let target = format!("socket:[{}]", line.split_whitespace().nth(6)?);
    let has_it = |process: &Path| {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| link == Path::new(&target))
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.into_iter().find(|number| has_it(&Path::new("/proc").join(number.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shares_a_claim_and_others_are_refused() {
        // No interface has this number.
        let index = c_int::MAX - 7;
        let first = Claim::new(index).unwrap();
        let second = Claim::new(index).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(holder(index), Some(std::process::id()));
        // As another process would.
        let address = SocketAddr::from_abstract_name(name(index)).unwrap();
        let refused = UnixDatagram::bind_addr(&address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop((first, second));
        let other = UnixDatagram::bind_addr(&address).unwrap();
        assert_eq!(Claim::new(index).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(other);
        assert!(Claim::new(index).is_ok() && holder(index).is_none());
    }
}
