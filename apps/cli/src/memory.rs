//! Sizes of memory on the command line: parses them, and checks them before a command starts against the
//! memory that this process can have.

use std::fs;
use std::path::Path;

/// The limits of this process's memory in bytes. A limit that does not exist or is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Limits {
    /// The memory that the machine has available without swapping.
    available: Option<u64>,
    /// The lowest memory limit of the control groups that the process is in.
    group: Option<u64>,
    /// The address space, in bytes, that the process may still allocate under its limit (`ulimit -v`).
    address_space: Option<u64>,
}

impl Limits {
    fn here() -> Limits {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Limits {
            available: available(&read("/proc/meminfo")),
            group: group(&read("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")),
            address_space: address_space(&read("/proc/self/limits"), &read("/proc/self/status")),
        }
    }

    /// Returns the lowest limit and its description for messages, or `None` if no limit is known.
    fn tightest(&self) -> Option<(u64, &'static str)> {
        let all = [
            (self.available, "this machine has (MemAvailable)"),
            (self.group, "the control group has (memory.max)"),
            (self.address_space, "the process may have (ulimit -v)"),
        ];
        all.into_iter().filter_map(|(bytes, what)| Some((bytes?, what))).min()
    }

    /// Returns the size that the user has asked for, or an error if it is above a limit.
    fn check(&self, size: usize) -> Result<usize, String> {
        match self.tightest() {
            Some((most, what)) if size as u64 > most => {
                Err(format!("{} is more than the {} that {what}; give less", shown(size as u64), shown(most)))
            }
            _ => Ok(size),
        }
    }

    /// Returns the default size `usual`, but at most half of the lowest memory limit: the other half is for
    /// tables and the program.
    fn usual(&self, usual: usize) -> usize {
        self.tightest().map_or(usual, |(most, _)| usual.min(usize::try_from(most / 2).unwrap_or(usual)))
    }
}

/// Parses a size in bytes, with K, M or G for powers of 1024, and checks it against the limits of this
/// process.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    Limits::here().check(number(text)?)
}

/// Parses a size as [`parse_size`] does, for decision diagrams. The size must be at least
/// [`LEAST_DIAGRAMS`].
pub(crate) fn parse_diagrams(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        size @ LEAST_DIAGRAMS.. => Ok(size),
        _ => Err(format!("decision diagrams take {} at least", shown(LEAST_DIAGRAMS as u64))),
    }
}

/// The least memory for decision diagrams, in bytes.
const LEAST_DIAGRAMS: usize = 1 << 20;

/// Returns the default memory for packets in bytes: 4 GiB, but at most half of the lowest limit of this
/// process.
pub(crate) fn for_packets() -> usize {
    Limits::here().usual(4 << 30)
}

/// Returns the default memory for decision diagrams in bytes: 1 GiB, but at most half of the lowest limit of
/// this process.
pub(crate) fn for_diagrams() -> usize {
    Limits::here().usual(1 << 30)
}

fn number(text: &str) -> Result<usize, String> {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let size = number.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    size.ok_or_else(|| "give a number of bytes, such as 512M or 8G".into())
}

/// Returns a size in the form in which users write it, such as 512M, rounded down.
fn shown(size: u64) -> String {
    match size {
        0..0x100_000 => format!("{}K", size >> 10),
        0x100_000..0x100_0000_0000 if size >> 20 < 10 << 10 => format!("{}M", size >> 20),
        _ => format!("{}G", size >> 30),
    }
}

/// Returns the available memory in bytes, from the text of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    kib(meminfo, "MemAvailable:")
}

/// Returns the number of KiB that follows `word` at the start of a line, converted to bytes.
fn kib(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the lowest memory limit of the groups in the text of `/proc/self/cgroup`, and of their parents.
/// `root` is the folder of the cgroup file systems (versions 1 and 2).
fn group(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (base, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            _ => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let is_of_memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
        let path = Path::new(path.trim_start_matches('/')).to_path_buf();
        let groups: Vec<_> = path.ancestors().map(|group| base.join(group).join(file)).collect();
        groups.into_iter().filter(move |_| is_of_memory)
    });
    limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Returns the unused address space in bytes: the soft limit in `/proc/self/limits` less the size of the
/// process in `/proc/self/status`. `None` without a limit.
fn address_space(limits: &str, status: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kib(status, "VmSize:").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(number("512"), Ok(512));
        assert_eq!(number("2k"), Ok(2048));
        assert_eq!(number("3M"), Ok(3 << 20));
        assert_eq!(number("8G"), Ok(8 << 30));
        for wrong in ["", "M", "-1", "1T", "99999999999999999999", "18014398509481984K"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        let all = [(1000 << 10, "1000K"), (5 << 20, "5M"), ((10 << 30) - 1, "10239M"), (10 << 40, "10240G")];
        assert!(all.iter().all(|&(size, text)| shown(size) == text));
    }

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(available("MemTotal:  9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal:  9 kB\n"), None);
        let limits =
            |most: &str| format!("Limit  Soft Limit\nMax address space         {most}  unlimited  bytes\n");
        assert_eq!(address_space(&limits("1048576"), "VmSize:\t 24 kB\n"), Some(1000 << 10));
        assert_eq!(address_space(&limits("1024"), "VmSize:\t 24 kB\n"), Some(0));
        assert_eq!(address_space(&limits("unlimited"), "VmSize:\t 24 kB\n"), None);
    }

    #[test]
    fn groups_around_a_group_limit_it_too() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(group("0::/a/b\n", root.path()), None);
        put("a/b/memory.max", "max\n");
        put("a/memory.max", "5000000\n");
        assert_eq!(group("0::/a/b\n", root.path()), Some(5_000_000));
        put("a/b/memory.max", "4000000\n");
        assert_eq!(group("0::/a/b\n", root.path()), Some(4_000_000));
        assert_eq!(group("0::/\n", root.path()), None);
        // Version 1 of control groups has a file system for each controller, so the memory limit is in the
        // folder `memory` instead of in the group's own folder.
        put("memory/c/memory.limit_in_bytes", "3000000\n");
        assert_eq!(group("4:cpu:/a\n3:memory:/c\n", root.path()), Some(3_000_000));
        assert_eq!(group("4:cpu:/c\n", root.path()), None);
    }

    #[test]
    fn the_tightest_limit_counts_and_is_named() {
        let limits = |available, group, address_space| Limits { available, group, address_space };
        let machine = limits(Some(8 << 30), None, None);
        assert_eq!(machine.check(8 << 30), Ok(8 << 30));
        let told = machine.check(10_000 << 30).unwrap_err();
        assert_eq!(told, "10000G is more than the 8192M that this machine has (MemAvailable); give less");
        let told = limits(Some(8 << 30), Some(64 << 20), Some(1 << 30)).check(1 << 30).unwrap_err();
        assert!(told.contains("the 64M that the control group has (memory.max)"), "{told}");
        let told = limits(Some(8 << 30), None, Some(1 << 30)).check(2 << 30).unwrap_err();
        assert!(told.contains("the 1024M that the process may have (ulimit -v)"), "{told}");
        assert_eq!(limits(None, None, None).check(usize::MAX), Ok(usize::MAX));
        assert_eq!((machine.usual(4 << 30), machine.usual(1 << 30)), (4 << 30, 1 << 30));
        assert_eq!(limits(Some(2 << 30), None, None).usual(4 << 30), 1 << 30);
    }
}
