//! `run --sandbox` and `run --user`: rights that the process gives up when its interfaces are open.
//!
//! Nothing is given up before, because interfaces and files need rights to open. Landlock and capabilities
//! apply to one thread, so each worker gives them up on its own thread. Threads that start later inherit what
//! is left: servers, and the threads that build configurations and write state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use engine::ThreadWork;
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::thread::CapabilitySet;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// The options for rights.
#[derive(clap::Args, Clone)]
pub(crate) struct SandboxOptions {
    /// Give up rights when the interfaces and files of the configuration are open
    #[arg(long, value_enum, value_name = "WHICH", help_heading = "Rights")]
    sandbox: Option<Sandbox>,
    /// Continue as this user when the interfaces and files of the configuration are open: USER or USER:GROUP
    ///
    /// A reload can then open only what this user may open.
    #[arg(long, value_name = "USER", help_heading = "Rights")]
    user: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sandbox {
    /// No further interfaces, sockets, programs and files (docs/service.md); reading is possible in the
    /// folder of the configuration, writing in the folders of --state and --json
    Strict,
}

/// The folders that the process needs after it has entered the sandbox.
pub(crate) struct Folders {
    /// The folders of which files are read.
    pub(crate) read: Vec<PathBuf>,
    /// The folders in which files are read, written, made and removed.
    pub(crate) written: Vec<PathBuf>,
}

/// The paths that are read for metrics and for the local time.
const READ_ALWAYS: [&str; 5] =
    ["/proc", "/sys/class/net", "/sys/devices", "/etc/localtime", "/usr/share/zoneinfo"];

/// The version of Landlock whose restrictions are applied. Those that the kernel does not know are left out.
const LANDLOCK: ABI = ABI::V6;

/// System calls that are refused in any case. The documentation lists them by what they are for.
const REFUSED: &[i64] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    // Rights and attributes of files, which Landlock does not restrict, and lengths, which old versions of
    // it do not.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    libc::SYS_truncate,
    // Programs in the kernel, and its modules.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    // System calls that are carried out without passing this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    // The tree of files, and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Keys, and the machine as a whole.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
];

/// Older forms of system calls in [`REFUSED`], which only some processors have.
#[cfg(target_arch = "x86_64")]
const REFUSED_OLD: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: &[i64] = &[];

/// The flags of clone(2) that make namespaces.
const NAMESPACES: [u64; 7] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
];

impl SandboxOptions {
    /// Checks that the options fit `--dpdk`, and that the user exists.
    ///
    /// # Errors
    /// If they do not: the message for the user.
    pub(crate) fn check(&self, uses_dpdk: bool) -> Result<(), String> {
        if uses_dpdk && self.is_wanted() {
            return Err("--sandbox and --user do not work with --dpdk, whose threads start before".into());
        }
        self.user.as_deref().map_or(Ok(()), |name| find_user(name).map(drop))
    }

    /// True if the process is to give up rights.
    pub(crate) fn is_wanted(&self) -> bool {
        self.sandbox.is_some() || self.user.is_some()
    }

    /// Gives up what the options say, first the user and then all else. `on_threads` calls a function on the
    /// threads of the workers. No other threads that may open files may have started.
    ///
    /// # Errors
    /// If the user is unknown, or the system refuses or does not know a restriction: the message for the
    /// user. Some rights may have been given up then.
    pub(crate) fn enter(
        &self,
        folders: &Folders,
        on_threads: impl FnOnce(&ThreadWork) -> Result<(), String>,
    ) -> Result<(), String> {
        if let Some(name) = &self.user {
            let (user, group) = find_user(name)?;
            change_user(user, group).map_err(|error| format!("--user {name}: {error}"))?;
        }
        if self.sandbox == Some(Sandbox::Strict) {
            let strict = || {
                let ruleset = ruleset(folders)?;
                let of_thread: ThreadWork = Arc::new(move || {
                    restrict_files(&ruleset)?;
                    drop_capabilities()
                });
                on_threads(&of_thread)?;
                of_thread()?;
                refuse_calls()
            };
            strict().map_err(|error| format!("--sandbox strict: {error}"))?;
        }
        device::interface::give_up_rights();
        Ok(())
    }
}

/// Returns the numbers of the user and the group that the argument of `--user` names.
///
/// # Errors
/// If there is no such user or group: the message for the user, with the option.
fn find_user(name: &str) -> Result<(Uid, Gid), String> {
    let fail = |error: String| format!("--user {name}: {error}");
    let (user, group) = match name.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (name, None),
    };
    let found = User::from_name(user).map_err(|error| fail(crate::reason(&error.into())))?;
    let found = found.ok_or_else(|| fail(format!("there is no user '{user}' on this machine")))?;
    let Some(group) = group else { return Ok((found.uid, found.gid)) };
    let named = Group::from_name(group).map_err(|error| fail(crate::reason(&error.into())))?;
    let named = named.ok_or_else(|| fail(format!("there is no group '{group}' on this machine")))?;
    Ok((found.uid, named.gid))
}

/// Changes user and group of the whole process, for good: also the saved ones, and without further groups.
fn change_user(user: Uid, group: Gid) -> Result<(), String> {
    let change = || {
        nix::unistd::setgroups(&[group])?;
        nix::unistd::setresgid(group, group, group)?;
        nix::unistd::setresuid(user, user, user)
    };
    change().map_err(|error| match error {
        nix::Error::EPERM => "only root may change the user".to_string(),
        other => crate::reason(&other.into()),
    })?;
    // The change has hidden the process's own files from it, which metrics count and reloads look at.
    let dumpable = rustix::process::DumpableBehavior::Dumpable;
    rustix::process::set_dumpable_behavior(dumpable).map_err(|error| crate::reason(&error.into()))
}

/// Makes the rules that leave only the given folders for reading and writing, and signals for the process
/// itself.
fn ruleset(folders: &Folders) -> Result<RulesetCreated, String> {
    let fail = |error: landlock::RulesetError| error.to_string();
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK)).map_err(fail)?;
    let scopes = Scope::Signal | Scope::AbstractUnixSocket;
    let mut ruleset = ruleset.scope(scopes).and_then(Ruleset::create).map_err(fail)?;
    let read = READ_ALWAYS.iter().map(Path::new).chain(folders.read.iter().map(PathBuf::as_path));
    let access = AccessFs::ReadFile | AccessFs::ReadDir;
    for path in read {
        ruleset = allow(ruleset, path, access)?;
    }
    let access = AccessFs::from_all(LANDLOCK)
        & !(AccessFs::Execute
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSym
            | AccessFs::IoctlDev);
    for path in &folders.written {
        ruleset = allow(ruleset, path, access)?;
    }
    Ok(ruleset)
}

/// Applies the rules to the calling thread.
fn restrict_files(ruleset: &RulesetCreated) -> Result<(), String> {
    let ruleset = ruleset.try_clone().map_err(|error| crate::reason(&error))?;
    match ruleset.restrict_self().map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::NotEnforced => {
            Err("the kernel has no Landlock (Linux 5.13 or later, in the list `lsm`)".into())
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Allows what `access` says below a path. A path that does not exist needs no rule.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let Ok(opened) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(LANDLOCK) };
    ruleset.add_rule(PathBeneath::new(opened, access)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Drops all capabilities of this thread, which threads that it starts would inherit.
fn drop_capabilities() -> Result<(), String> {
    let none = rustix::thread::CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // Ambient capabilities are dropped with the permitted ones.
    rustix::thread::set_capabilities(None, none).map_err(|error| crate::reason(&error.into()))
}

/// Has the kernel refuse, with the error EPERM, system calls that this program does not make in the sandbox.
/// Sockets can be made that requests about interfaces and the service manager's messages need, and those by
/// which the kernel tells of changes of interfaces.
fn refuse_calls() -> Result<(), String> {
    // The arguments of clone3 are in memory, where a filter cannot look. The C library takes clone where the
    // kernel does not have clone3.
    let clone = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    install(clone, libc::ENOSYS)?;
    install(refused().map_err(|error| error.to_string())?, libc::EPERM)
}

/// Returns the system calls that are refused, each with the conditions of which one has to hold. A system
/// call without conditions is always refused.
fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let condition = |argument, op, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value);
    let is = |argument, value| condition(argument, SeccompCmpOp::Eq, value);
    let is_not = |argument, value| condition(argument, SeccompCmpOp::Ne, value);
    let masked = |argument, mask, value| condition(argument, SeccompCmpOp::MaskedEq(mask), value);
    let all = REFUSED.iter().chain(REFUSED_OLD).map(|&call| (call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = all.collect();

    let [unix, netlink] = [libc::AF_UNIX, libc::AF_NETLINK].map(|family| family as u64);
    let mut sockets = vec![
        SeccompRule::new(vec![is_not(0, unix)?, is_not(0, netlink)?])?,
        SeccompRule::new(vec![is(0, netlink)?, is_not(2, libc::NETLINK_ROUTE as u64)?])?,
    ];
    // By a connection to a Unix socket, another program could be asked to start programs. The last four
    // bits of the second argument are the type without flags.
    for kind in (1..=15).filter(|&kind| kind != libc::SOCK_DGRAM as u64) {
        sockets.push(SeccompRule::new(vec![is(0, unix)?, masked(1, 0xf, kind)?])?);
    }
    rules.insert(libc::SYS_socket, sockets);

    let own = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        rules.insert(call, vec![SeccompRule::new(vec![is_not(0, own)?])?]);
    }
    let spaces = NAMESPACES.iter().map(|&flag| SeccompRule::new(vec![masked(0, flag, flag)?]));
    rules.insert(libc::SYS_clone, spaces.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Has the kernel answer the given system calls of all threads with an error.
fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<(), String> {
    let fail = |error: BackendError| error.to_string();
    let machine = std::env::consts::ARCH.try_into().map_err(fail)?;
    let action = SeccompAction::Errno(error as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).map_err(fail)?;
    let program: BpfProgram = filter.try_into().map_err(fail)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::net::UdpSocket;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};
    use nix::sys::signal::kill;
    use nix::unistd::{getpid, getppid};

    use super::*;

    /// The variable that tells the test program to try what the sandbox refuses, in this folder.
    const INSIDE: &str = "TIDEGATE_TEST_SANDBOX";

    /// Enters the sandbox in a process of its own, because it cannot be left.
    #[test]
    fn the_sandbox_refuses_what_the_documentation_says() {
        let folder = tempfile::tempdir().unwrap();
        let own = ["--exact", "sandbox::tests::inside", "--nocapture", "--test-threads", "1"];
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(own).env(INSIDE, folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        if said.contains("no Landlock") {
            println!("skipped: {said}");
            return;
        }
        assert!(output.status.success() && said.contains("all refused"), "{output:?}");
    }

    #[test]
    fn inside() {
        let Some(folder) = std::env::var_os(INSIDE).map(PathBuf::from) else { return };
        let [written, read, other] = ["written", "read", "other"].map(|name| folder.join(name));
        for folder in [&written, &read, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let _listener = UnixListener::bind(other.join("socket")).unwrap();
        let options = SandboxOptions { sandbox: Some(Sandbox::Strict), user: None };
        let folders = Folders { read: vec![read.clone()], written: vec![written.clone()] };
        // The harness has a thread of its own, which stays outside of the sandbox but for the system calls.
        if let Err(error) = options.enter(&folders, |_| Ok(())) {
            return println!("{error}");
        }
        // A run needs these.
        fs::write(written.join("new"), "text").unwrap();
        fs::rename(written.join("new"), written.join("file")).unwrap();
        assert_eq!(fs::read_to_string(read.join("file")).unwrap(), "text");
        std::thread::spawn(|| UnixDatagram::unbound().unwrap()).join().unwrap();
        kill(getpid(), None).unwrap();
        // A run must not do these.
        let own = written.join("file");
        let refused = [
            ("read", fs::read(other.join("file")).map(drop)),
            ("write", fs::write(read.join("file"), "")),
            ("make", fs::write(other.join("new"), "")),
            ("remove", fs::remove_file(other.join("file"))),
            ("change rights", fs::set_permissions(&own, fs::Permissions::from_mode(0o4755))),
            ("change the owner", chown(&own, Some(1), None)),
            ("run a program", Command::new("/bin/true").status().map(drop)),
            ("connect", UnixStream::connect(other.join("socket")).map(drop)),
            ("send", UdpSocket::bind("127.0.0.1:0").map(drop)),
            ("signal", kill(getppid(), None).map_err(Into::into)),
            ("make a namespace", unshare(CloneFlags::CLONE_NEWUSER).map_err(Into::into)),
        ];
        for (what, result) in refused {
            let error = result.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
        }
        println!("all refused");
    }
}
