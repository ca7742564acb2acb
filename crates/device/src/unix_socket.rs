//! Paths of Unix sockets: the file of a socket stays where its program was killed, and `bind` refuses it for ever.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;

use crate::reason;

/// Removes the file of a socket that nobody has any more, so that the path can be bound. Anything else at the path is
/// left alone.
///
/// # Errors
/// The path, where a socket that somebody has is bound to it.
pub(crate) fn make_way(path: &str) -> Result<(), String> {
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return Ok(());
    }
    // A socket for datagrams never waits and makes no connection that a server would have to take. The kernel refuses
    // it for want of an owner only; an owner of another type is an error of its own.
    match UnixDatagram::unbound().and_then(|probe| probe.connect(path)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{path}: {}", reason(&error))),
            _ => Ok(()),
        },
        Ok(()) => Err(in_use(path)),
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPROTOTYPE as i32) => Err(in_use(path)),
        // Who may not ask is told by `bind` that the path is taken.
        Err(_) => Ok(()),
    }
}

fn in_use(path: &str) -> String {
    let taken = reason(&io::Error::from(nix::errno::Errno::EADDRINUSE));
    format!("{taken}: another process or element listens on {path}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn only_files_of_sockets_without_an_owner_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        make_way(&path("nothing")).unwrap();

        let (stream, datagrams) = (path("stream"), path("datagrams"));
        let owners = (UnixListener::bind(&stream).unwrap(), UnixDatagram::bind(&datagrams).unwrap());
        owners.0.set_nonblocking(true).unwrap();
        // The queue of a server that takes nobody is full.
        let clients: Vec<_> = (0..3).map(|_| UnixStream::connect(&stream).unwrap()).collect();
        for path in [&stream, &datagrams] {
            let said = format!("Address already in use: another process or element listens on {path}");
            assert_eq!(make_way(path), Err(said));
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
            make_way(path).unwrap();
            assert!(fs::symlink_metadata(path).is_ok());
        }
        for path in [&stream, &datagrams] {
            make_way(path).unwrap();
            assert!(!fs::exists(path).unwrap());
        }
    }
}
