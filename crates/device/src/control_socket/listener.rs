//! The addresses of control sockets, the sockets that listen there, and the connections of clients as streams
//! of bytes.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};

use element::args::{ArgType, Args, TcpPort};
use nix::errno::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::reason;
use crate::unix_socket;

/// The number of further ports that are tried if a port is in use and ADDRESS ends with `+`.
const MORE_PORTS: u16 = 11;
/// The largest length in bytes of a Unix socket's path (unix(7)).
const LONGEST_PATH: usize = 107;
/// The number of clients that can wait for being accepted.
const BACKLOG: i32 = 128;

/// An address of a control socket.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp {
        host: Ipv4Addr,
        port: u16,
        /// The number of ports after `port` that are tried if it is in use.
        more: u16,
    },
    Unix(String),
    /// A connection that the program was started with (SOCKET), by the number of its file descriptor.
    Given(RawFd),
}

impl Address {
    /// Returns the address that the arguments TYPE (in capitals) and ADDRESS give. Tells `args` what is wrong
    /// with them.
    pub(crate) fn parse(args: &mut Args<'_>, kind: &str, address: String) -> Address {
        match kind {
            "TCP" => Address::parse_tcp(args, &address),
            "SOCKET" => match address.parse() {
                Ok(file) => Address::Given(file),
                Err(_) => {
                    args.error("SOCKET requires a file descriptor");
                    Address::Given(-1)
                }
            },
            "UNIX" => {
                if address.len() > LONGEST_PATH {
                    args.error("filename too long");
                }
                Address::Unix(address)
            }
            other => {
                if args.was_given("TYPE") {
                    args.error(format!("unknown socket type '{other}'"));
                }
                Address::Unix(String::new())
            }
        }
    }

    fn parse_tcp(args: &mut Args<'_>, address: &str) -> Address {
        let localhost = args.value::<bool>("LOCALHOST");
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (
                Some(host.parse().unwrap_or_else(|_| {
                    args.error(format!("ADDRESS: '{host}' is no IPv4 address"));
                    Ipv4Addr::LOCALHOST
                })),
                port,
            ),
            None => (None, address),
        };
        if localhost && host.is_some_and(|host: Ipv4Addr| !host.is_loopback()) {
            args.error("LOCALHOST: ADDRESS says something else");
        }
        let default = if localhost { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let host = host.unwrap_or(default);
        let (number, more) = match port.strip_suffix('+') {
            Some(number) => (number, MORE_PORTS),
            None => (port, 0),
        };
        let port = TcpPort::parse(number, &args.place());
        if port.is_err() {
            args.error("PORT requires TCP port");
        }
        Address::Tcp { host, port: port.unwrap_or_default().0, more }
    }
}

/// A socket that clients connect to.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Creates the socket of an address: `None` for a connection that the program was started with. The
    /// members of `group` may connect to a Unix socket, too. Does not wait for clients in
    /// [`accept`](Listener::accept).
    ///
    /// # Errors
    /// If the address is in use or cannot be bound, or the group does not exist: a message for the user.
    pub(crate) fn bind(address: &Address, group: Option<&str>) -> Result<Option<Listener>, String> {
        match address {
            Address::Tcp { host, port, more } => {
                bind_tcp(*host, *port, *more).map(Some).map_err(|error| reason(&error))
            }
            Address::Unix(path) => bind_unix(path, group).map(Some),
            Address::Given(_) => Ok(None),
        }
    }

    /// Returns the port of a TCP socket.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Listener::Unix(_) => None,
        }
    }

    /// Accepts a client. Returns the connection and, for a message, where it comes from.
    pub(crate) fn accept(&self) -> io::Result<(Stream, String)> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // Replies are small, and each client waits for its reply, so they are not delayed to be
                // combined.
                stream.set_nodelay(true)?;
                (Stream::Tcp(stream), format!(" from {}.{}", from.ip(), from.port()))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                (Stream::Unix(stream), String::new())
            }
        })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

fn bind_tcp(host: Ipv4Addr, port: u16, more: u16) -> io::Result<Listener> {
    let mut tries = (port..=port.saturating_add(more)).map(|port| TcpListener::bind((host, port)));
    let mut result = tries.next().unwrap_or_else(|| Err(ErrorKind::AddrInUse.into()));
    while let Err(error) = &result
        && error.kind() == ErrorKind::AddrInUse
        && let Some(next) = tries.next()
    {
        result = next;
    }
    let listener = result?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Tcp(listener))
}

fn bind_unix(path: &str, group: Option<&str>) -> Result<Listener, String> {
    let group = group.map(group_number).transpose()?;
    let listener = unix_socket::bind(path, || listen_for_owner(path))?;
    if let Some(group) = group {
        open_for_group(path, group).map_err(|error| format!("GROUP: {}", reason(&error)))?;
    }
    listener.set_nonblocking(true).map_err(|error| reason(&error))?;
    Ok(Listener::Unix(listener))
}

/// Returns the number of a group of users.
///
/// # Errors
/// If there is no such group: a message for the user.
fn group_number(name: &str) -> Result<u32, String> {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("GROUP: there is no group '{name}'")),
        Err(error) => Err(format!("GROUP: {}", reason(&error.into()))),
    }
}

/// Listens on a path, to which only this program's user can connect.
fn listen_for_owner(path: &str) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The file at the path gets the permissions of the socket (unix(7) on Linux), so that no other user can
    // connect between the creation of the file and a change of its permissions.
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

/// Lets the members of a group connect to the Unix socket at a path.
fn open_for_group(path: &str, group: u32) -> io::Result<()> {
    // Another user of the folder could exchange the file for a link to a file of this program's user. So both
    // changes are made on one file that has been opened without following a link. The system changes a file
    // that is open by its path only (O_PATH) under its name in /proc (open(2)).
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.file_type().is_socket() {
        return Err(io::Error::other("the file of the socket was replaced"));
    }
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    chown(&name, None, Some(group))?;
    std::fs::set_permissions(&name, Permissions::from_mode(0o660))
}

/// The connection of a client.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Given(File),
}

impl Stream {
    /// Returns a stream on a second descriptor of the connection with this file descriptor. The first
    /// descriptor stays open, because the process that started this program may expect it.
    #[allow(unsafe_code)]
    pub(crate) fn given(file: RawFd) -> io::Result<Stream> {
        if file < 0 {
            return Err(Errno::EBADF.into());
        }
        // SAFETY: the file is not closed during the call, which only asks the system for a second descriptor,
        // and that fails if there is no such file.
        let file = unsafe { BorrowedFd::borrow_raw(file) }.try_clone_to_owned()?;
        socket2::SockRef::from(&file).set_nonblocking(true)?;
        Ok(Stream::Given(file.into()))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Given(file) => file.as_fd(),
        }
    }

    pub(crate) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
            Stream::Given(file) => file.read(to),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Given(file) => file.write(bytes),
        }
    }
}
