//! Starts DPDK with the user's arguments, and with options that keep it quiet and avoid files that would be
//! left over.

use super::Running;
use super::sys::start as system;

/// DPDK's options by which a user says how it shares memory with other programs.
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

/// Returns the arguments for DPDK: the program's name, options of Tidegate, and the user's arguments, which
/// take precedence.
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
        // No files at all, even if the process is killed. Without huge pages there are no files of huge
        // pages anyway.
        add(if says("--no-huge") || says("--legacy-mem") { "--no-shconf" } else { "--in-memory" });
    } else if says("--huge-dir") && !says("--huge-unlink") && !says("--in-memory") && !says("--no-huge") {
        add("--huge-unlink");
    }
    words.extend(given.iter().cloned());
    words
}

/// Starts DPDK with the given arguments: before the graph, and once in a process.
///
/// # Errors
/// If DPDK cannot be started: the reason, DPDK's output, and advice.
pub fn start(arguments: &[String]) -> Result<Running, String> {
    let given = |name: &str| arguments.iter().any(|word| word.starts_with(name));
    let quiet = !["--log-level", "--syslog", "-h", "--help"].iter().any(|name| given(name));
    system::start(&complete(arguments), quiet).map_err(|reason| {
        let hint = match given("--no-huge") {
            true => "",
            false => "; without huge pages, or without root, it needs `--no-huge`",
        };
        with_its_words(format!("DPDK cannot be started: {reason}{hint}"))
    })?;
    Ok(Running(()))
}

/// Returns a message, followed by DPDK's output since the last look.
pub(super) fn with_its_words(text: String) -> String {
    match system::said() {
        said if said.is_empty() => text,
        said => format!("{text}\nDPDK says:\n{said}"),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        system::end();
    }
}
