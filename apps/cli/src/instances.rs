//! The running instances of this machine, by name: where their control sockets are, and the lock that each
//! holds.
//!
//! | control socket | instance |
//! | --- | --- |
//! | `$XDG_RUNTIME_DIR/tidegate/NAME` | of a user, if the variable is set |
//! | `/run/tidegate-NAME/control` | of the superuser, or of a service |
//!
//! Beside each control socket is the instance's lock, SOCKET`.lock`: a file with the number of its process
//! and the path of its configuration, which the process has locked (flock(2)). If the process is killed, its
//! lock ends, so the file that is left does no harm.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The folder of services and of the superuser's instances, and the start of a folder's name in it.
const SYSTEM: &str = "/run";
const PREFIX: &str = "tidegate-";

/// The number of attempts to take a lock, and the time between two attempts. `tidegate ctl` holds the lock
/// of an instance for a moment, to see if the instance runs.
const ATTEMPTS: usize = 20;
/// The flags with which locks are opened: links are not followed, and pipes do not block.
const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;
const BETWEEN: Duration = Duration::from_millis(10);

/// An instance that runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
    pub(crate) holder: Holder,
}

/// The process that holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The number of the process; empty if it has not been written yet.
    pub(crate) pid: String,
    /// The path of the configuration, or a name in its place.
    pub(crate) configuration: String,
}

/// The lock of this process for an instance. The file is removed when the lock is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

/// The reason why a lock could not be taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    Held(Holder),
    Error(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// Returns the name of the instance that runs a configuration file: the file's name without `.click`. `None`
/// if the name has other characters than letters, digits and `._@+-`.
pub(crate) fn name_of(file: &Path) -> Option<&str> {
    let name = file.file_name()?.to_str()?;
    Some(name.strip_suffix(".click").unwrap_or(name)).filter(|name| is_name(name))
}

/// True if a text can be the name of an instance.
pub(crate) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.len() <= 64 && text.chars().all(is_plain)
}

/// Returns the folder of the sockets of this user's instances; `None` if the user has none.
fn user_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    // The superuser's instances are with the services, whether or not there is a login session.
    (folder.is_absolute() && folder != Path::new("/run/user/0")).then(|| folder.join("tidegate"))
}

/// Returns the path for the control socket of a new instance, and makes its folder.
///
/// # Errors
/// If the folder cannot be made.
pub(crate) fn socket_for(name: &str) -> io::Result<PathBuf> {
    let (folder, socket) = match user_folder() {
        Some(folder) => (folder.clone(), folder.join(name)),
        None => {
            let folder = Path::new(SYSTEM).join(format!("{PREFIX}{name}"));
            (folder.clone(), folder.join("control"))
        }
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(socket),
    }
}

/// Returns the instances that run, sorted by name; the user's own come first.
pub(crate) fn running() -> Vec<Instance> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().ok();
    let mut own: Vec<(String, PathBuf)> = Vec::new();
    for entry in user_folder().iter().flat_map(|folder| entries(folder)) {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            own.extend(name(&entry).map(|name| (name, entry.path())));
        }
    }
    let mut services: Vec<(String, PathBuf)> = Vec::new();
    for entry in entries(Path::new(SYSTEM)) {
        let name = name(&entry).and_then(|name| name.strip_prefix(PREFIX).map(String::from));
        services.extend(name.map(|name| (name, entry.path().join("control"))));
    }
    own.sort();
    services.sort();
    let found = own.into_iter().chain(services);
    found.filter_map(|(name, socket)| Some(Instance { holder: holder(&socket)?, name, socket })).collect()
}

/// Returns the process that runs the instance of a control socket; `None` if it does not run.
fn holder(socket: &Path) -> Option<Holder> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).custom_flags(FLAGS).open(lock_path(socket)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(Holder::read(&mut file)),
        _ => None,
    }
}

/// Returns the control socket that a name on the command line means: the path of a socket or HOST:PORT as it
/// is, and the socket of a running instance for its name.
///
/// # Errors
/// If there is no such socket or instance: the message for the user.
pub(crate) fn resolve(name: &str) -> Result<String, String> {
    if !is_name(name) {
        return Ok(name.to_string());
    }
    let found = running().into_iter().find(|instance| instance.name == name);
    let found = found.map(|instance| instance.socket.display().to_string());
    let is_socket = || fs::metadata(name).is_ok_and(|file| file.file_type().is_socket());
    found.or_else(|| is_socket().then(|| name.to_string())).ok_or_else(|| {
        format!("{name}: no such socket, and no instance of this name runs; `tidegate ctl` lists them")
    })
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

impl Holder {
    fn read(file: &mut File) -> Holder {
        let mut text = String::new();
        let _ = file.take(8192).read_to_string(&mut text);
        // A process that has the lock can write any text there, and the text is shown on terminals.
        let mut lines = text.lines();
        let pid =
            lines.next().unwrap_or_default().parse::<u32>().map_or(String::new(), |pid| pid.to_string());
        let is_shown = |c: &char| !c.is_control();
        Holder { pid, configuration: lines.next().unwrap_or_default().chars().filter(is_shown).collect() }
    }
}

impl Lock {
    /// Takes the lock of the instance with a control socket.
    ///
    /// # Errors
    /// If another process holds it, or the file cannot be used.
    pub(crate) fn take(socket: &Path, configuration: &str) -> Result<Lock, Refusal> {
        let path = lock_path(socket);
        let mut result = Err(Refusal::Error(io::Error::other("the lock changes all the time")));
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(FLAGS);
            let mut file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) => {
                    result = Err(Refusal::Held(Holder::read(&mut file)));
                    thread::sleep(BETWEEN);
                    continue;
                }
            }
            // The process that had the lock before may have removed the file. A link is no lock, because
            // another file would be written.
            let (locked, there) = (file.metadata()?, fs::symlink_metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                file.set_len(0)?;
                writeln!(file, "{}\n{configuration}", std::process::id())?;
                return Ok(Lock { path, _file: file });
            }
        }
        result
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // The folder of an instance in `/run` is empty then; other folders are not removed.
        if let Some(folder) = self.path.parent()
            && folder.parent() == Some(Path::new(SYSTEM))
            && folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
        {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_files() {
        for (file, name) in [
            ("/etc/tidegate/gateway.click", Some("gateway")),
            ("a.b", Some("a.b")),
            ("x y.click", None),
            (".click", None),
            ("/", None),
        ] {
            assert_eq!(name_of(Path::new(file)), name, "{file}");
        }
    }

    #[test]
    fn one_process_holds_a_lock_and_what_is_left_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        assert_eq!(holder(&socket), None);
        let lock = Lock::take(&socket, "/a.click").unwrap();
        let own = Holder { pid: std::process::id().to_string(), configuration: "/a.click".into() };
        assert_eq!(holder(&socket), Some(own.clone()));
        let Err(Refusal::Held(told)) = Lock::take(&socket, "/b.click") else { panic!("it is held") };
        assert_eq!(told, own);
        drop(lock);
        assert!(!lock_path(&socket).exists());
        // The file of a killed process.
        fs::write(lock_path(&socket), "1\n/a.click\n").unwrap();
        assert_eq!(holder(&socket), None);
        drop(Lock::take(&socket, "/b.click").unwrap());
        // A link is refused, and the file that it leads to stays as it is.
        let other = folder.path().join("other");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, lock_path(&socket)).unwrap();
        assert!(matches!(Lock::take(&socket, "/b.click"), Err(Refusal::Error(_))));
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
    }

    #[test]
    fn of_several_at_once_one_gets_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let locks: Vec<_> = thread::scope(|scope| {
            let take = || Lock::take(&socket, "/a.click");
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
    }
}
