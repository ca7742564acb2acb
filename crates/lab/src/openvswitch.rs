//! Starts Open vSwitch with a database and sockets of its own, so that an instance that already runs on the
//! machine is not disturbed.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

use crate::{Namespace, RunningProgram};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The daemons at their paths in Debian, because `/usr/sbin` is not in every user's path.
const DAEMONS: [&str; 2] = ["/usr/sbin/ovsdb-server", "/usr/sbin/ovs-vswitchd"];

/// The switch daemon that is built with DPDK, at its path in Debian.
const DPDK_DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// The settings of the datapath `dpdk`: it works without huge pages, with 512 MiB of memory, and one thread
/// polls the ports. Open vSwitch adds `--in-memory` unless it sees `--legacy-mem`, and DPDK refuses
/// `--in-memory` without huge pages.
const DPDK: [&str; 2] =
    ["other_config:dpdk-init=true", "other_config:dpdk-extra=--no-huge --no-pci -m 512 --legacy-mem"];

/// True if the daemons and the database schema of Open vSwitch are installed.
pub fn is_installed() -> bool {
    fs::exists(SCHEMA).unwrap_or(false) && DAEMONS.iter().all(|daemon| fs::exists(daemon).unwrap_or(false))
}

/// True if Open vSwitch with DPDK is installed, which [`bridge`] needs for the datapath `dpdk`.
pub fn has_dpdk() -> bool {
    is_installed() && fs::exists(DPDK_DAEMON).unwrap_or(false)
}

/// True if the kernel module of Open vSwitch is loaded, which [`bridge`] needs for the datapath `system`.
pub fn is_in_kernel() -> bool {
    fs::exists("/sys/module/openvswitch").unwrap_or(false)
}

/// Starts Open vSwitch in a namespace, with one bridge named `bridge` that forwards by learning MAC
/// addresses. The interfaces in `ports` become its ports, numbered from 1 in their order. `datapath` is
/// `netdev` for the datapath in user space, which needs no kernel module, `dpdk` for the same with ports of
/// DPDK that poll packet sockets, or `system` for the kernel's datapath. The database and all sockets are in
/// `folder`, which must exist and be empty. The bridge ends when the returned programs are dropped.
///
/// # Errors
/// The error message of the first program that fails.
pub fn bridge(
    space: &Namespace,
    ports: &[&str],
    folder: &Path,
    datapath: &str,
) -> Result<[RunningProgram; 2]> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (database, socket) = (file("conf.db"), file("db.sock"));
    run(command(space, folder, "ovsdb-tool").args(["create", &database, SCHEMA]))?;
    let mut server = command(space, folder, DAEMONS[0]);
    server.args([
        &database,
        &format!("--remote=punix:{socket}"),
        &format!("--unixctl={}", file("server.ctl")),
    ]);
    let server = RunningProgram::new(&mut server)?;
    let remote = format!("unix:{socket}");
    // With `--retry`, `ovs-vsctl` repeats its attempts until the database server is ready.
    let vsctl = |arguments: &[&str]| {
        let database = format!("--db={remote}");
        run(command(space, folder, "ovs-vsctl").args([&database, "--timeout=20"]).args(arguments)).map(drop)
    };
    vsctl(&["--no-wait", "--retry", "init"])?;
    let has_dpdk = datapath == "dpdk";
    if has_dpdk {
        vsctl(&[&["--no-wait", "set", "Open_vSwitch", "."][..], &DPDK].concat())?;
    }
    let mut switch = command(space, folder, if has_dpdk { DPDK_DAEMON } else { DAEMONS[1] });
    let switch = RunningProgram::new(switch.args([&remote, &format!("--unixctl={}", file("switch.ctl"))]))?;
    let add = |(number, port): (usize, &&str)| {
        let kind = match has_dpdk {
            true => format!(" type=dpdk options:dpdk-devargs=net_af_packet{number},iface={port}"),
            false => String::new(),
        };
        format!(" -- add-port bridge {port} -- set interface {port} ofport_request={number}{kind}")
    };
    let ports: String = (1..).zip(ports).map(add).collect();
    let kind = if has_dpdk { "netdev" } else { datapath };
    let text = format!("add-br bridge -- set bridge bridge datapath_type={kind}{ports}");
    vsctl(&text.split(' ').collect::<Vec<_>>())?;
    Ok([switch, server])
}

/// Replaces the flows (OpenFlow rules) of a bridge by the flows in a file, one per line (ovs-ofctl(8)). The
/// rule by which a new bridge forwards is removed, too. `folder` has the bridge's sockets, as in [`bridge`].
///
/// # Errors
/// The error message of `ovs-ofctl`, such as an error in a flow.
pub fn load(space: &Namespace, folder: &Path, flows: &Path) -> Result<()> {
    let bridge = format!("unix:{}", folder.join("bridge.mgmt").display());
    let flows = flows.display().to_string();
    for (what, more) in [("del-flows", None), ("add-flows", Some(flows.as_str()))] {
        let mut arguments = vec!["-O", "OpenFlow13", what, &bridge];
        arguments.extend(more);
        tool(space, folder, "ovs-ofctl", &arguments)?;
    }
    Ok(())
}

/// Runs an Open vSwitch program for the bridge whose database and sockets are in `folder`, and returns its
/// standard output.
///
/// # Errors
/// The error message of the program, from its standard error.
pub fn tool(space: &Namespace, folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    run(command(space, folder, program).args(arguments))
}

fn command(space: &Namespace, folder: &Path, program: &str) -> Command {
    let mut command = space.command(program);
    for folder_of in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(folder_of, folder);
    }
    command
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}
