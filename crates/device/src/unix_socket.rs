//! Paths of Unix sockets: the file of a socket stays where its program was killed, and `bind` refuses it for ever.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use crate::reason;

/// Looks at the lock of a folder, and the time between two of them. Others have it for a moment.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Binds a socket to a path by `bind`. The file of a socket that nobody has any more is removed before; anything else at
/// the path is left alone. Of several that do this at once, one has the path afterwards, and the others hear that it is
/// in use.
///
/// # Errors
/// What `bind` says, or the path, where a socket that somebody has is bound to it.
pub(crate) fn bind<T>(path: &str, mut bind: impl FnMut() -> io::Result<T>) -> Result<T, String> {
    let refused = match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => error,
        result => return result.map_err(|error| reason(&error)),
    };
    if !is_left_behind(path)? {
        return Err(reason(&refused));
    }
    // Whoever removes such a file has the lock, so that it is none that somebody else has just bound. Who binds without
    // it finds the path free, and then it is theirs.
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

/// True if there is the file of a socket at the path, and nobody has the socket.
///
/// # Errors
/// The path, where somebody has it.
fn is_left_behind(path: &str) -> Result<bool, String> {
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return Ok(false);
    }
    // A socket for datagrams never waits and makes no connection that a server would have to take. The kernel refuses
    // it for want of an owner only; an owner of another type is an error of its own.
    match UnixDatagram::unbound().and_then(|probe| probe.connect(path)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
        Ok(()) => Err(in_use(path)),
        Err(error) if error.raw_os_error() == Some(Errno::EPROTOTYPE as i32) => Err(in_use(path)),
        // Who may not ask is told by `bind` that the path is taken.
        Err(_) => Ok(false),
    }
}

/// The lock of the folder that a path is in; nothing has to be left there for it.
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
        // The queue of a server that takes nobody is full.
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

    /// A folder that somebody else has locked is an error and no endless wait.
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

    /// Whoever has seen the file that was left behind, and is slower, does not remove the new one.
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
            // Without the lock it would go on now.
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
