//! # KernelFilter
//! Keeps the kernel from handling the packets of an interface.
//!
//! Rules of iptables(8) drop the packets before the kernel's own protocols see them; FromDevice still
//! receives them. The rules are removed when the run ends. If the program is killed, they stay; `iptables -D
//! INPUT -i DEVNAME -j DROP` removes one.
//!
//! The rules apply to IPv4. FromDevice with SNIFFER false does the same for all protocols, and leaves nothing
//! behind if the program is killed.
//!
//! ## Usage
//! `KernelFilter(FILTERSPEC, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `FILTERSPEC`: `drop dev DEVNAME`, for the interface DEVNAME.
//! - `IPTABLES_COMMAND`: the program to run, with arguments if there are any; `/sbin/iptables` or
//!   `/usr/sbin/iptables` by default.
//!
//! ## Example
//! ```click
//! KernelFilter(IPTABLES_COMMAND /usr/sbin/iptables -w); Idle -> Discard
//! ```
//!
//! ## See also
//! FromDevice, ToDevice, KernelTap

use std::path::Path;
use std::process::{Command, Stdio};

use element::args::{ArgType, Raw};
use element::class::{ArgInfo, Notes};
use element::{Class, Cx, Effects, Element, manual};

use crate::reason;

/// The element class `KernelFilter`.
pub static CLASS: Class = Class {
    name: "KernelFilter",
    ports: "0/0",
    manual: manual!("kernel_filter.rs"),
    args: &[
        ArgInfo::rest("FILTERSPEC", "drop dev DEVNAME"),
        ArgInfo::keyword("IPTABLES_COMMAND", "command", "").computed("/sbin/iptables or /usr/sbin/iptables"),
    ],
    notes: Notes { is_outside: true, ..Notes::NONE },
    samples: &[""],
    build: |args| {
        let mut filter = KernelFilter {
            command: args.get("IPTABLES_COMMAND").map(|Raw(text)| text),
            devices: Vec::new(),
            added: 0,
        };
        args.each_of_rest(|args, _, text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                ["drop", "dev", device] => filter.devices.extend(String::parse(device, &args.place())),
                _ => args.error("arguments must follow 'drop dev DEVNAME'"),
            }
        });
        args.finish()?;
        Ok(Box::new(filter))
    },
    ..Class::DEFAULT
};

/// The places of the program if no other is given.
const PROGRAMS: [&str; 2] = ["/sbin/iptables", "/usr/sbin/iptables"];

struct KernelFilter {
    /// The program with its first arguments, if it is given.
    command: Option<String>,
    devices: Vec<String>,
    /// The number of devices for which there is a rule: the first ones.
    added: usize,
}

impl KernelFilter {
    /// Runs iptables to add the rule for a device (`-A`) or to delete it (`-D`).
    ///
    /// # Errors
    /// If there is no such program, or it fails.
    fn change(&self, change: &str, device: &str) -> Result<(), String> {
        let found = || PROGRAMS.iter().find(|path| Path::new(path).exists()).map(ToString::to_string);
        let command = self.command.clone().or_else(found).ok_or("no 'iptables' executable found")?;
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("IPTABLES_COMMAND: no program")?;
        let arguments = words.chain([change, "INPUT", "-i", device, "-j", "DROP"]);
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{program}: {}", reason(&error)))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(format!("{command} {change} INPUT -i {device} -j DROP: {said} ({})", output.status))
    }

    /// Removes the rules of the element, also the rest if one cannot be removed.
    ///
    /// # Errors
    /// The reasons for which rules could not be removed.
    fn remove(&mut self) -> Result<(), String> {
        let added = &self.devices[..std::mem::take(&mut self.added)];
        let failures: Vec<String> =
            added.iter().rev().filter_map(|device| self.change("-D", device).err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }
}

impl Element for KernelFilter {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        for device in &self.devices {
            if let Err(reason) = self.change("-A", device) {
                // An element that cannot be initialised is not closed.
                let _ = self.remove();
                return Err(reason);
            }
            self.added += 1;
        }
        Ok(())
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the element's changes with a program that writes its arguments to a file, and fails for the
    /// device `bad`. Returns the results of adding and removing, and the arguments.
    fn run(devices: &[&str]) -> (Result<(), String>, Result<(), String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let (program, log) = (folder.path().join("program"), folder.path().join("log"));
        let script = "echo \"$@\" >> $1\n[ \"$5\" != bad ] || { echo no such >&2; exit 2; }\n";
        std::fs::write(&program, script).unwrap();
        let command = format!("/bin/sh {} {}", program.display(), log.display());
        let devices = devices.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut filter = KernelFilter { command: Some(command), devices: devices.clone(), added: 0 };
        let mut added = Ok(());
        for device in devices {
            added = added.and_then(|()| filter.change("-A", &device));
            filter.added += usize::from(added.is_ok());
        }
        let removed = filter.remove();
        let prefix = format!("{} ", log.display());
        let said = std::fs::read_to_string(&log).unwrap_or_default().replace(&prefix, "");
        let text = |result: Result<(), String>| result.map_err(|reason| reason.replace(&prefix, ""));
        (text(added), text(removed), said)
    }

    #[test]
    fn rules_are_added_and_removed_in_reverse() {
        let (added, removed, said) = run(&["eth0", "we ird"]);
        assert_eq!((added, removed), (Ok(()), Ok(())));
        let expected = "-A INPUT -i eth0 -j DROP\n-A INPUT -i we ird -j DROP\n\
            -D INPUT -i we ird -j DROP\n-D INPUT -i eth0 -j DROP\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn a_failure_is_reported_and_nothing_stays() {
        let (added, removed, said) = run(&["eth0", "bad"]);
        let reason = added.unwrap_err();
        assert!(reason.ends_with("-A INPUT -i bad -j DROP: no such (exit status: 2)"), "{reason}");
        assert_eq!(removed, Ok(()));
        assert!(said.ends_with("-D INPUT -i eth0 -j DROP\n"), "{said}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_reported() {
        let filter =
            KernelFilter { command: Some("/nowhere/iptables".into()), devices: Vec::new(), added: 0 };
        let reason = filter.change("-A", "x").unwrap_err();
        assert_eq!(reason, "/nowhere/iptables: No such file or directory");
    }
}
