//! The listening socket of an element: its address in the arguments, further attempts to bind it, and the
//! acceptance of clients.

use std::io::{self, ErrorKind};

use element::{Args, Cx, Interest, Timestamp};

use super::listener::{Address, Listener, Stream};
use crate::reason;

/// The number by which the engine names the listening socket when it reports events of watched files (its
/// token). An element's other files have higher tokens.
pub(crate) const LISTENER: u32 = 0;
/// The number of the timer for another attempt to bind the address.
pub(crate) const OPEN_AGAIN: u32 = 0;
/// The number of the timer after which the listening socket is watched again. An element's other timers have
/// higher numbers.
pub(crate) const LISTEN_AGAIN: u32 = 1;

/// The listening socket of an element, and the arguments about it.
pub(crate) struct ListeningSocket {
    address: Address,
    /// The arguments TYPE and ADDRESS as they stand in the configuration.
    written: [String; 2],
    /// The group whose members can connect to the Unix socket (GROUP).
    group: Option<String>,
    retries: u32,
    retry_warnings: bool,
    /// True if the element that this element replaces has the same address. The address may then be in use
    /// until that element passes its listening socket on.
    awaits_predecessor: bool,
    listener: Option<Listener>,
    /// The TCP port on which the element listens; `None` before it listens, and for other sockets.
    port: Option<u16>,
    /// The error for which the element stopped the driver. [`close`](Self::close) returns it, so that the run
    /// counts as failed.
    fault: Option<String>,
}

/// The listening socket that an element passes to the element of the same name that replaces it in a new
/// configuration.
pub(crate) struct Passed {
    address: Address,
    listener: Option<Listener>,
    port: Option<u16>,
}

impl Passed {
    /// Closes the socket and removes the file of a Unix socket, because the element that replaces this one
    /// has another address.
    fn end(self) {
        if let (Some(_), Address::Unix(path)) = (&self.listener, &self.address) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// True if the error concerns only this attempt to accept a client: the client is gone already, or a signal
/// arrived.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// True if the arguments of another element with a socket have this type and address, by position or by name.
fn is_same_address([kind, address]: &[String; 2], other: &[String]) -> bool {
    let value = |argument: &String| match argument.split_once(char::is_whitespace) {
        Some(("TYPE" | "ADDRESS" | "PORT" | "FILENAME", value)) => value.trim().to_string(),
        _ => argument.clone(),
    };
    let others: Vec<String> = other.iter().map(value).collect();
    others.iter().any(|other| kind.eq_ignore_ascii_case(other)) && others.contains(address)
}

impl ListeningSocket {
    /// Reads the arguments TYPE, ADDRESS, PORT, FILENAME, LOCALHOST, GROUP, RETRIES and RETRY_WARNINGS.
    pub(crate) fn read(args: &mut Args<'_>) -> ListeningSocket {
        let kind = args.required::<String>("TYPE").to_ascii_uppercase();
        let [port, file] = ["PORT", "FILENAME"].map(|name| args.get::<String>(name));
        let given = [("PORT", port), ("FILENAME", file)];
        let [own, foreign] = if kind == "TCP" {
            given
        } else {
            let [a, b] = given;
            [b, a]
        };
        if foreign.1.is_some() {
            args.error(format!("{} is not for a socket of type {kind}; give {}", foreign.0, own.0));
        }
        let address: Option<String> = args.get("ADDRESS");
        if address.is_some() && own.1.is_some() {
            args.error(format!("ADDRESS and {} are mutually exclusive", own.0));
        }
        let address = address.or(own.1).unwrap_or_default();
        if address.is_empty() {
            args.error("ADDRESS: required argument missing");
        }
        let written = [kind.clone(), address.clone()];
        let address = Address::parse(args, &kind, address);
        let group = args.get::<String>("GROUP");
        if group.is_some() && !matches!(address, Address::Unix(_)) {
            args.error("GROUP is for Unix sockets");
        }
        ListeningSocket {
            address,
            written,
            group,
            retries: args.value::<u32>("RETRIES"),
            retry_warnings: args.value("RETRY_WARNINGS"),
            awaits_predecessor: false,
            listener: None,
            port: None,
            fault: None,
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the TCP port on which the element listens; `None` before it listens, and for other sockets.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Opens the listening socket, in the element's `initialize`. Returns true if it listens; otherwise a
    /// timer is set for another attempt, as RETRIES allows.
    ///
    /// # Errors
    /// If there is no attempt left, or the socket cannot be watched.
    pub(crate) fn begin(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        self.awaits_predecessor =
            cx.predecessor().is_some_and(|other| is_same_address(&self.written, &other));
        self.open(cx)
    }

    /// Binds the address. If it cannot be bound, sets a timer for another attempt as RETRIES allows. While
    /// the replaced element may have the address, a first failure does not count.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        match Listener::bind(&self.address, self.group.as_deref()) {
            Ok(listener) => {
                self.port = listener.as_ref().and_then(Listener::port);
                self.listener = listener;
                self.listen(cx)?;
                Ok(true)
            }
            Err(_) if self.awaits_predecessor => {
                cx.set_timer(OPEN_AGAIN, cx.now());
                Ok(false)
            }
            Err(reason) => {
                if self.retries == 0 {
                    return Err(format!("bind: {reason}"));
                }
                if self.retry_warnings {
                    let left = self.retries;
                    let plural = if left == 1 { "try" } else { "tries" };
                    cx.warn(format_args!("bind: {reason} ({left} {plural} left)"));
                }
                self.retries -= 1;
                cx.set_timer(OPEN_AGAIN, cx.now() + Timestamp::from_secs(1));
                Ok(false)
            }
        }
    }

    /// Watches the listening socket.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    fn listen(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(listener) = &self.listener else { return Ok(()) };
        cx.files().watch(LISTENER, listener.file(), Interest::Read).map_err(|error| error.to_string())
    }

    /// Does the work of the timers [`OPEN_AGAIN`] and [`LISTEN_AGAIN`]. Returns true if the socket has been
    /// opened now. If there is no attempt left, stops the driver.
    pub(crate) fn timer(&mut self, cx: &mut Cx<'_>, token: u32) -> bool {
        self.awaits_predecessor = false;
        let result = if token == LISTEN_AGAIN { self.listen(cx).map(|()| false) } else { self.open(cx) };
        result.unwrap_or_else(|error| {
            self.fault = Some(error);
            cx.stop();
            false
        })
    }

    /// Accepts the next client: returns its connection and, for a message, where it comes from. `None` if
    /// there is no further client, or none can be accepted now.
    pub(crate) fn accept(&mut self, cx: &mut Cx<'_>) -> Option<(Stream, String)> {
        loop {
            // Each client takes two file descriptors: the connection, and a copy of it that the engine
            // watches. A copy of the listening socket's descriptor is made and closed to see if a second
            // descriptor is available. If it is not, the client is not accepted, and waits in the kernel's
            // queue of connections.
            let listener = self.listener.as_ref()?;
            let second = listener.file().try_clone_to_owned();
            match second.and_then(|second| listener.accept().map(|accepted| (accepted, second))) {
                Ok((accepted, _)) => return Some(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if passes(&error) => {}
                Err(error) => {
                    let why = reason(&error);
                    cx.warn(format_args!("accept: {why}"));
                    // The client that could not be accepted stays in the kernel's queue, and the kernel would
                    // report it again at once. The listening socket is watched again after a second.
                    cx.files().unwatch(LISTENER);
                    cx.set_timer(LISTEN_AGAIN, cx.now() + Timestamp::from_secs(1));
                    return None;
                }
            }
        }
    }

    /// Closes the listening socket.
    ///
    /// # Errors
    /// The error for which the element has stopped the driver.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.files().unwatch(LISTENER);
        // The file at the path belongs to this element as long as its socket is open. Therefore the file is
        // removed before the socket is closed.
        if self.listener.is_some()
            && let Address::Unix(path) = &self.address
        {
            let _ = std::fs::remove_file(path);
        }
        self.listener = None;
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Gives the listening socket away, in the element's `take_state`.
    pub(crate) fn pass(&mut self) -> Passed {
        Passed { address: self.address.clone(), listener: self.listener.take(), port: self.port }
    }

    /// Takes the listening socket of the replaced element, in the element's `put_state`.
    ///
    /// # Errors
    /// If it has another address. That socket is then closed, and so are its clients.
    pub(crate) fn take_over(&mut self, cx: &mut Cx<'_>, passed: Passed) -> Result<(), String> {
        if passed.address != self.address {
            passed.end();
            // The replaced element's socket, which has just been closed, may have kept this element from
            // binding its address. So the element tries again now.
            if self.listener.is_none() {
                cx.set_timer(OPEN_AGAIN, cx.now());
            }
            return Err("another address: clients are not taken over".into());
        }
        if passed.listener.is_some() {
            cx.clear_timer(OPEN_AGAIN);
            (self.listener, self.port) = (passed.listener, passed.port);
        }
        self.listen(cx)
    }
}
