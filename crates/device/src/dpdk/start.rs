//! Starting DPDK with the user's arguments, and with what keeps it quiet and leaves nothing behind.

use super::Running;
use super::sys::start as system;

/// Options of DPDK's with which a user says how it shares memory with other programs.
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

/// The arguments that DPDK gets: the program's name, what we add, and the user's, which count where both say something.
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
        // No files at all, also where the process is killed. Without huge pages there are none of those anyway.
        add(if says("--no-huge") || says("--legacy-mem") { "--no-shconf" } else { "--in-memory" });
    } else if says("--huge-dir") && !says("--huge-unlink") && !says("--in-memory") && !says("--no-huge") {
        add("--huge-unlink");
    }
    words.extend(given.iter().cloned());
    words
}

/// Starts DPDK with these arguments: before the graph, and once in a process.
///
/// # Errors
/// What DPDK says, and what to do.
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

/// A message, and what DPDK has said on the way.
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
