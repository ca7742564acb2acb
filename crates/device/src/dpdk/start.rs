//! Starts DPDK with the user's arguments, and with further options of Tidegate: DPDK is to write no
//! messages of its own and to leave no files.

use super::RunningDpdk;
use super::sys::start as system;

/// DPDK's options by which a user determines how DPDK shares memory with other programs. If one of them is
/// given, Tidegate adds no option of its own that would contradict it.
const SHARING: [&str; 8] = [
    "--in-memory",
    "--no-shconf",
    "--file-prefix",
    "--proc-type",
    "--huge-dir",
    "--huge-unlink",
    "--single-file-segments",
    "--base-virtaddr",
];

/// Returns the arguments for DPDK: the program's name, Tidegate's options, and the user's arguments. An
/// option that the user has given is not added.
fn complete(given: &[String]) -> Vec<String> {
    let says = |name: &str| {
        given
            .iter()
            .any(|word| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    };
    let mut words = vec!["tidegate".to_string()];
    let mut add = |text: &str| words.push(text.into());
    if !says("--log-level") {
        add("--log-level=error");
    }
    if !says("--telemetry") && !says("--no-telemetry") {
        add("--no-telemetry");
    }
    if !SHARING.iter().any(|name| says(name)) {
        // With the option that is added here, DPDK leaves no files, even if the process is killed. Without
        // huge pages there are no files for them, so that `--no-shconf` is enough.
        add(if says("--no-huge") || says("--legacy-mem") { "--no-shconf" } else { "--in-memory" });
    } else if says("--huge-dir") && !says("--huge-unlink") && !says("--in-memory") && !says("--no-huge") {
        add("--huge-unlink");
    }
    words.extend(given.iter().cloned());
    words
}

/// Starts DPDK with the user's arguments. Call this before the graph is built; DPDK can be started once in
/// a process, and ends when the result is dropped.
///
/// # Errors
/// If DPDK cannot be started. The message contains the reason, DPDK's output, and advice.
pub fn start(arguments: &[String]) -> Result<RunningDpdk, String> {
    let given = |name: &str| arguments.iter().any(|word| word.starts_with(name));
    let quiet = !["--log-level", "--syslog", "-h", "--help"].iter().any(|name| given(name));
    system::start(&complete(arguments), quiet).map_err(|reason| {
        let hint = match given("--no-huge") {
            true => "",
            false => "; without huge pages, or without root, it needs `--no-huge`",
        };
        with_its_words(format!("DPDK cannot be started: {reason}{hint}"))
    })?;
    Ok(RunningDpdk(()))
}

/// Appends to a message the output of DPDK since the last call, if there is any.
pub(super) fn with_its_words(text: String) -> String {
    match system::said() {
        said if said.is_empty() => text,
        said => format!("{text}\nDPDK says:\n{said}"),
    }
}

impl Drop for RunningDpdk {
    fn drop(&mut self) {
        system::end();
    }
}
