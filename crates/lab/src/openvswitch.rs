//! Open vSwitch with a database and sockets of its own, so that one that runs on the machine already is left alone.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

use crate::{Running, Space};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Debian has the daemons there, which is not in everybody's path.
const DAEMONS: [&str; 2] = ["/usr/sbin/ovsdb-server", "/usr/sbin/ovs-vswitchd"];

/// Whether it is installed.
pub fn is_installed() -> bool {
    fs::exists(SCHEMA).unwrap_or(false) && DAEMONS.iter().all(|daemon| fs::exists(daemon).unwrap_or(false))
}

/// Whether the kernel has its datapath.
pub fn is_in_kernel() -> bool {
    fs::exists("/sys/module/openvswitch").unwrap_or(false)
}

/// A bridge in a namespace between interfaces, numbered from 1 on, which forwards by learning addresses; it runs as long as
/// what is returned lives. `datapath` is `netdev` for the one that needs nothing from the kernel but packet sockets, `system` for the
/// kernel's. The database and all sockets are in a folder that nobody else uses.
///
/// # Errors
/// What the first program says that fails.
pub fn bridge(space: &Space, ports: &[&str], folder: &Path, datapath: &str) -> Result<[Running; 2]> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (database, socket) = (file("conf.db"), file("db.sock"));
    run(command(space, folder, "ovsdb-tool").args(["create", &database, SCHEMA]))?;
    let mut server = command(space, folder, DAEMONS[0]);
    server.args([
        &database,
        &format!("--remote=punix:{socket}"),
        &format!("--unixctl={}", file("server.ctl")),
    ]);
    let server = Running::new(&mut server)?;
    let remote = format!("unix:{socket}");
    // It tries again until the server is there.
    let vsctl = |arguments: &str| {
        let database = format!("--db={remote}");
        let arguments = arguments.split(' ');
        run(command(space, folder, "ovs-vsctl").args([&database, "--timeout=20"]).args(arguments)).map(drop)
    };
    vsctl("--no-wait --retry init")?;
    let mut switch = command(space, folder, DAEMONS[1]);
    let switch = Running::new(switch.args([&remote, &format!("--unixctl={}", file("switch.ctl"))]))?;
    let add = |(number, port): (usize, &&str)| {
        format!(" -- add-port bridge {port} -- set interface {port} ofport_request={number}")
    };
    let ports: String = (1..).zip(ports).map(add).collect();
    vsctl(&format!("add-br bridge -- set bridge bridge datapath_type={datapath}{ports}"))?;
    Ok([switch, server])
}

/// Puts the flows of a file, a line each (ovs-ofctl(8)), in the place of those that a bridge has, also of the one by which a
/// new bridge learns addresses.
///
/// # Errors
/// What is wrong with them.
pub fn load(space: &Space, folder: &Path, flows: &Path) -> Result<()> {
    let bridge = format!("unix:{}", folder.join("bridge.mgmt").display());
    let flows = flows.display().to_string();
    for (what, more) in [("del-flows", None), ("add-flows", Some(flows.as_str()))] {
        let mut arguments = vec!["-O", "OpenFlow13", what, &bridge];
        arguments.extend(more);
        tool(space, folder, "ovs-ofctl", &arguments)?;
    }
    Ok(())
}

/// What one of its programs says that is run with the folder of a bridge.
///
/// # Errors
/// What it says if it fails.
pub fn tool(space: &Space, folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    run(command(space, folder, program).args(arguments))
}

fn command(space: &Space, folder: &Path, program: &str) -> Command {
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
