//! The origin of a result: program, command, machine, load and inputs. With its origin, a result can be
//! reproduced, and distinguished from results of other machines or builds.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The origin of a result, under the key `origin` in JSON. The JSON of `tidegate synthesize --emit json` has
/// no origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The build of the program.
    pub program: Build,
    /// The arguments of the program, without its name.
    pub arguments: Vec<String>,
    /// The seed of random numbers; None if the result does not depend on random numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The date and time of the start, in UTC (RFC 3339).
    pub began: String,
    /// The time from the start of the program's work to its result, in seconds.
    pub seconds: f64,
    /// The machine that the program ran on.
    pub machine: Machine,
    /// The work of other programs while the program produced the result.
    pub load: Load,
    /// The regular files that the result depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
}

/// A build of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version of the program.
    pub version: String,
    /// The commit of the source; a `+` at its end means that files had been changed.
    pub commit: String,
    /// The enabled features of the build that are disabled by default.
    pub features: Vec<String>,
    /// True if the program was built without optimizations.
    pub is_debug_build: bool,
}

/// The properties of a machine that affect the results of benchmarks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model name of the processor.
    pub processor: String,
    /// The number of cores that the program may use.
    pub cores: usize,
    /// The size of memory in kibibytes.
    pub memory_kib: u64,
    /// The name and version of the kernel.
    pub kernel: String,
    /// The governor of the clock frequency; None if the machine has no governor, as most virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// True if the machine is a virtual machine.
    pub is_virtual: bool,
}

/// The work of other programs on a machine during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The load average over one minute when the measurement began.
    pub average: f64,
    /// The fraction of the processor time of all cores that other programs took, from 0 to 1.
    pub others: f64,
    /// The fraction of the processor time of all cores that the hypervisor gave to other virtual machines,
    /// from 0 to 1.
    pub stolen: f64,
}

/// A file that a result depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// The name of the file, as given by the user.
    pub file: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 of the content, as printed by `sha256sum`.
    pub sha256: String,
}

/// The time, load and processor time at the start of the work for a result. At its end, the result's
/// [`Origin`] is made from them.
#[derive(Debug)]
pub struct Begun {
    program: Build,
    seed: Option<u64>,
    began: OffsetDateTime,
    start: Instant,
    average: f64,
    spent: Option<Spent>,
}

impl Begun {
    /// Records the current time, load and processor time as the start of a result.
    pub fn now(program: Build, seed: Option<u64>) -> Begun {
        let average = read("/proc/loadavg").split(' ').next().and_then(|average| average.parse().ok());
        Begun {
            program,
            seed,
            began: OffsetDateTime::now_utc(),
            start: Instant::now(),
            average: average.unwrap_or_default(),
            spent: Spent::so_far(),
        }
    }

    /// Returns the origin of a result that is complete now, with its input files. Inputs that are no
    /// regular files (standard input, pipes, devices) are left out, because they cannot be read again.
    pub fn origin<'f>(&self, inputs: impl IntoIterator<Item = &'f Path>) -> Origin {
        let load = match (self.spent, Spent::so_far()) {
            (Some(before), Some(after)) => after.since(before, self.average),
            _ => Load { average: self.average, others: 0.0, stolen: 0.0 },
        };
        Origin {
            program: self.program.clone(),
            arguments: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
            seed: self.seed,
            began: self
                .began
                .replace_nanosecond(0)
                .unwrap_or(self.began)
                .format(&Rfc3339)
                .unwrap_or_default(),
            seconds: self.start.elapsed().as_millis() as f64 / 1000.0,
            machine: Machine::this(),
            load,
            inputs: inputs.into_iter().filter_map(InputFile::of).collect(),
        }
    }
}

impl Origin {
    /// Formats program, machine, load and inputs as lines of text, for reports.
    pub fn lines(&self) -> String {
        let mut text = format!("{}; {}; {}.\n", self.program, self.machine, self.load);
        for InputFile { file, sha256, .. } in &self.inputs {
            text += &format!("{file}: SHA-256 {sha256}\n");
        }
        text
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tidegate {} (commit {}", self.version, self.commit)?;
        if !self.features.is_empty() {
            write!(f, ", with {}", self.features.join(" and "))?;
        }
        f.write_str(if self.is_debug_build { ", debug build)" } else { ")" })
    }
}

impl Machine {
    /// Returns the properties of the machine that the program runs on.
    pub fn this() -> Machine {
        let processors = read("/proc/cpuinfo");
        let field = |name: &str| {
            let value = |line: &str| {
                line.strip_prefix(name)?.split_once(':').map(|(_, value)| value.trim().to_string())
            };
            processors.lines().find_map(value)
        };
        let memory = read("/proc/meminfo");
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_string();
        Machine {
            processor: field("model name").unwrap_or_else(|| "a processor without a name".into()),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            memory_kib: total
                .and_then(|total| total.trim().trim_end_matches(" kB").parse().ok())
                .unwrap_or_default(),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            governor: Some(governor).filter(|governor| !governor.is_empty()),
            is_virtual: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.cores == 1 { "" } else { "s" };
        let place = if self.is_virtual { ", virtual machine" } else { "" };
        write!(f, "{} core{plural} of {}{place}, {}", self.cores, self.processor, self.kernel)?;
        self.governor.iter().try_for_each(|governor| write!(f, ", governor {governor}"))
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [others, stolen] = [self.others, self.stolen].map(|part| 100.0 * part);
        write!(
            f,
            "load average {:.2}, {others:.0} % of all cores' time taken by other programs, {stolen:.0} % by the hypervisor",
            self.average
        )
    }
}

impl InputFile {
    /// Reads a file to compute its size and hash; None if it is no regular file or cannot be read.
    fn of(path: &Path) -> Option<InputFile> {
        if !path.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            let read = file.read(&mut buffer).ok()?;
            if read == 0 {
                let sha256 = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                return Some(InputFile { file: path.display().to_string(), bytes, sha256 });
            }
            bytes += read as u64;
            hasher.update(buffer.get(..read)?);
        }
    }
}

/// The processor time that the machine has spent since its start, and the processor time of this program, in
/// clock ticks.
#[derive(Clone, Copy, Debug)]
struct Spent {
    /// The ticks of all cores, including idle time.
    all: u64,
    /// The clock ticks for which all cores have executed programs or the kernel.
    busy: u64,
    /// The ticks that the hypervisor gave to other virtual machines.
    stolen: u64,
    /// The clock ticks of processor time of this program and of its children that have ended.
    own: u64,
}

impl Spent {
    fn so_far() -> Option<Spent> {
        let (machine, own) = (read("/proc/stat"), read("/proc/self/stat"));
        Spent::parse(&machine, &own)
    }

    /// Parses the texts of `/proc/stat` (proc_stat(5)) and `/proc/self/stat` (proc_pid_stat(5)). None if one
    /// of the texts has another form.
    fn parse(machine: &str, own: &str) -> Option<Spent> {
        let numbers: Vec<u64> =
            machine.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        // The columns of the first line are user, nice, system, idle, waiting for input or output,
        // interrupts, soft interrupts, and stolen time.
        let [user, nice, system, idle, waiting, interrupts, soft, stolen, ..] = numbers[..] else {
            return None;
        };
        let busy = user + nice + system + interrupts + soft;
        // The name of the program, in parentheses, may contain blanks and parentheses. `utime` is the 12th
        // field after it.
        let own = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let own = own.map(|n| n.parse::<u64>().ok()).sum::<Option<u64>>()?;
        Some(Spent { all: busy + idle + waiting + stolen, busy, stolen, own })
    }

    fn since(self, before: Spent, average: f64) -> Load {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        let busy = self.busy.saturating_sub(before.busy);
        let others = busy.saturating_sub(self.own.saturating_sub(before.own)) as f64 / all;
        let part = |part: f64| (part.min(1.0) * 1000.0).round() / 1000.0;
        Load {
            average,
            others: part(others),
            stolen: part(self.stolen.saturating_sub(before.stolen) as f64 / all),
        }
    }
}

/// Returns the content of a file of the kernel; empty if there is no such file.
fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_parted_among_this_program_others_and_the_hypervisor() {
        let own = |utime: u64| format!("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 {utime} 20 30 40 0 0");
        let before = Spent::parse("cpu 100 0 50 800 10 5 5 30 0 0\ncpu0 1", &own(10)).unwrap();
        assert_eq!((before.all, before.busy, before.stolen, before.own), (1000, 160, 30, 100));
        let after = Spent::parse("cpu  400 0 50 1000 10 5 5 130 0 0", &own(110)).unwrap();
        let load = after.since(before, 1.5);
        assert_eq!(load, Load { average: 1.5, others: 0.333, stolen: 0.167 });
        assert!(Spent::parse("", "").is_none() && Spent::parse("cpu 1 2 3", &own(1)).is_none());
    }

    #[test]
    fn origins_name_files_and_survive_json() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        std::fs::write(&file, "abc").unwrap();
        let program = Build {
            version: "1.2.3".into(),
            commit: "0123456789ab".into(),
            features: vec!["dpdk".into()],
            is_debug_build: false,
        };
        let begun = Begun::now(program, None);
        let without = begun.origin([]);
        assert_eq!(
            serde_json::from_str::<Origin>(&serde_json::to_string(&without).unwrap()).unwrap(),
            without
        );
        let origin = Begun { seed: Some(7), ..begun }.origin([file.as_path(), Path::new("-"), folder.path()]);
        let [input] = &origin.inputs[..] else { panic!("{:?}", origin.inputs) };
        assert_eq!(input.bytes, 3);
        assert_eq!(input.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(origin.machine.cores > 0 && origin.machine.memory_kib > 0 && origin.began.ends_with('Z'));
        let json = serde_json::to_string(&origin).unwrap();
        assert_eq!(serde_json::from_str::<Origin>(&json).unwrap(), origin);
        assert!(
            origin.lines().starts_with("tidegate 1.2.3 (commit 0123456789ab, with dpdk); "),
            "{}",
            origin.lines()
        );
    }
}
