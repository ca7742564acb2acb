//! Memory, processor time and open files of this process, as the kernel counts them.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::ClockId;

/// The figures of the process. A figure that the kernel does not give is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<f64>,
    pub(crate) virtual_bytes: Option<f64>,
    pub(crate) threads: Option<f64>,
    pub(crate) open_files: Option<f64>,
    pub(crate) most_files: Option<f64>,
}

impl Process {
    /// Reads the figures.
    pub(crate) fn read() -> Process {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let number = |text: &str, start: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(start))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let cpu = ClockId::CLOCK_PROCESS_CPUTIME_ID.now().ok().map(Duration::from);
        Process {
            cpu_seconds: cpu.map(|time| time.as_secs_f64()),
            resident_bytes: number(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024.0),
            virtual_bytes: number(&status, "VmSize:").map(|kibibytes| kibibytes * 1024.0),
            threads: number(&status, "Threads:"),
            // The folder that is being read is an open file itself.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| files.count().saturating_sub(1) as f64),
            most_files: number(&limits, "Max open files"),
        }
    }
}

/// Returns a time in seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_gives_all_figures() {
        let process = Process::read();
        assert!(process.cpu_seconds.unwrap() > 0.0);
        assert!(process.resident_bytes.unwrap() > 1e5 && process.virtual_bytes >= process.resident_bytes);
        assert!(process.threads.unwrap() >= 1.0);
        assert!(process.open_files.unwrap() >= 3.0 && process.most_files > process.open_files);
    }
}
