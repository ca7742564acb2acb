//! Binds Unix sockets to paths. If a program is killed, the file of its socket remains, and the system
//! refuses to bind the path again. Such a file is removed here, but never the file of a socket in use.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use crate::reason;

/// The number of attempts to lock a folder (`LOOKS`), and the time between two attempts (`BETWEEN_LOOKS`).
/// Other processes hold the lock only for a moment.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Binds a socket to `path` by calling `bind`, and returns the result of the call. If the path is the file
/// of a socket without an owner, removes the file first; any other file stays. If several processes do this
/// at once, one of them gets the path, and the others get the error that it is in use.
///
/// # Errors
/// If `bind` fails, the folder cannot be locked, or the file cannot be removed. If another socket is in use
/// at the path, the message names the path.
pub(crate) fn bind<T>(path: &str, mut bind: impl FnMut() -> io::Result<T>) -> Result<T, String> {
    let refused = match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => error,
        result => return result.map_err(|error| reason(&error)),
    };
    if !is_left_behind(path)? {
        return Err(reason(&refused));
    }
    // The lock keeps processes from removing a file that another process has just bound: each process
    // checks again and removes the file only with the lock. A process that binds without the lock succeeds
    // only if the path is free.
    let _lock = lock(Path::new(path)).map_err(|error| format!("{}: {}", reason(&refused), reason(&error)))?;
    if is_left_behind(path)? {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("{path}: {}", reason(&error)));
            }
            _ => {}
        }
    }
    bind().map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => in_use(path),
        _ => reason(&error),
    })
}

/// True if the path is the file of a socket that no process has open. False if it is another file, or
/// cannot be examined.
///
/// # Errors
/// If a process has the socket open; the message names the path.
fn is_left_behind(path: &str) -> Result<bool, String> {
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return Ok(false);
    }
    // Connecting a datagram socket tests for an owner. The call never blocks, and makes no connection that a
    // server would have to accept. The kernel refuses it only if there is no owner; for an owner of another
    // socket type it returns an error of its own.
    match UnixDatagram::unbound().and_then(|probe| probe.connect(path)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
        Ok(()) => Err(in_use(path)),
        Err(error) if error.raw_os_error() == Some(Errno::EPROTOTYPE as i32) => Err(in_use(path)),
        // If this process may not connect to the socket, `bind` will report that the path is in use.
        Err(_) => Ok(false),
    }
}

/// Locks the folder that contains a path, without a lock file, until the returned file is closed.
///
/// # Errors
/// If the folder cannot be opened, or another process has locked it for a second.
fn lock(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    for _ in 0..LOOKS {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Err(io::Error::other("another process has locked the folder"))
}

fn in_use(path: &str) -> String {
    let taken = reason(&io::Error::from(Errno::EADDRINUSE));
    format!("{taken}: another process or element listens on {path}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::{Barrier, mpsc};

    use super::*;

    #[test]
    fn only_files_of_sockets_without_an_owner_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let listen = |path: &str| bind(path, || UnixListener::bind(path));
        let in_use = "Address already in use";

        let (stream, datagrams) = (path("stream"), path("datagrams"));
        let owners = (listen(&stream).unwrap(), UnixDatagram::bind(&datagrams).unwrap());
        owners.0.set_nonblocking(true).unwrap();
        // The server accepts no connections, so its queue is full. Its socket must still be recognized as
        // in use.
        let clients: Vec<_> = (0..3).map(|_| UnixStream::connect(&stream).unwrap()).collect();
        for path in [&stream, &datagrams] {
            let said = format!("{in_use}: another process or element listens on {path}");
            assert_eq!(listen(path).unwrap_err(), said);
        }
        for _ in &clients {
            owners.0.accept().unwrap();
        }
        assert!(owners.0.accept().is_err(), "the question is no connection");

        drop(owners);
        let (text, link) = (path("text"), path("link"));
        fs::write(&text, "kept").unwrap();
        std::os::unix::fs::symlink(&stream, &link).unwrap();
        for path in [&text, &link] {
            assert_eq!(listen(path).unwrap_err(), in_use);
            assert!(fs::symlink_metadata(path).is_ok());
        }
        for path in [&stream, &datagrams] {
            listen(path).unwrap();
        }
        assert!(listen(&path("nowhere/socket")).unwrap_err().starts_with("No such file"));
    }

    /// Expects an error after a second, not an endless wait, if another process has locked the folder.
    #[test]
    fn a_locked_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let _lock = lock(&path).unwrap();
        let error = bind(path.to_str().unwrap(), || UnixListener::bind(&path)).unwrap_err();
        assert_eq!(error, "Address already in use: another process has locked the folder");
        assert!(path.exists());
    }

    /// A process finds a file without an owner, and another process removes and binds it first. Expects
    /// that the slower process gets an error and does not remove the new file.
    #[test]
    fn the_slower_one_hears_that_the_path_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let lock = lock(&path).unwrap();
        let (begun, has_begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let slower = scope.spawn(|| {
                bind(path.to_str().unwrap(), || {
                    let _ = begun.send(());
                    UnixListener::bind(&path)
                })
            });
            has_begun.recv().unwrap();
            // If the slower thread did not wait for the lock, it would remove the file now.
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&path).unwrap();
            let _winner = UnixListener::bind(&path).unwrap();
            drop(lock);
            let error = slower.join().unwrap().unwrap_err();
            assert!(error.starts_with("Address already in use: another process or element"), "{error}");
            UnixStream::connect(&path).unwrap();
        });
    }

    #[test]
    fn one_of_several_has_a_path_that_was_left_behind() {
        const THREADS: usize = 4;
        const IN_USE: &str = "Address already in use";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let path = path.to_str().unwrap();
        let start = Barrier::new(THREADS);
        for turn in 0..200 {
            let _ = fs::remove_file(path);
            drop(UnixListener::bind(path).unwrap());
            let listeners: Vec<_> = std::thread::scope(|scope| {
                let listen = || {
                    start.wait();
                    bind(path, || UnixListener::bind(path))
                };
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(listen)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = listeners.into_iter().partition(Result::is_ok);
            let [Ok(winner)] = &won[..] else { panic!("turn {turn}: {lost:?}") };
            let is_told =
                |lost: &Result<_, String>| lost.as_ref().is_err_and(|text| text.starts_with(IN_USE));
            assert!(lost.iter().all(is_told), "{lost:?}");
            let _client = UnixStream::connect(path).unwrap();
            winner.set_nonblocking(true).unwrap();
            winner.accept().unwrap();
        }
    }
}
