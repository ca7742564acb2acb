//! Readers of counters of the kernel.

use std::io::{Error, Result};

use lab::Namespace;

/// Reads a counter of the network stack of a namespace. `file` is `snmp` (proc_net_snmp(5)) or `netstat`; in
/// both files, a group of counters has a line with names, and the next line has the numbers.
pub(super) fn count(space: &Namespace, file: &str, group: &str, name: &str) -> Result<u64> {
    let text = space.enter(|| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")))?;
    let mut lines = text.lines().filter_map(|line| line.split_once(": ")).filter(|(of, _)| *of == group);
    let both = lines.next().zip(lines.next());
    let found = both.and_then(|((_, names), (_, numbers))| {
        let mut pairs = names.split(' ').zip(numbers.split(' '));
        pairs.find(|(of, _)| *of == name)?.1.parse().ok()
    });
    found.ok_or_else(|| Error::other(format!("{file} has no {group} {name}")))
}

/// Returns the processor time that the whole machine has spent in soft interrupts since it started, in
/// seconds (proc_stat(5)). The kernel's counters are in hundredths of a second.
pub(super) fn soft_interrupts() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(7)?.parse::<f64>().ok());
    ticks.map(|ticks| ticks / 100.0).ok_or_else(|| Error::other("/proc/stat has no soft interrupts"))
}
