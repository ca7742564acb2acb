//! The origin of results: the program, machine, time and inputs that produced them. Also the text of
//! `--version`.

use std::path::Path;
use std::sync::OnceLock;

use bench::origin::{Begun, Build, Origin};
use serde::Serialize;

/// The exit status of a benchmark whose figures must not be quoted, because the machine was too busy while it
/// measured, or of `bench soak` if the memory of a case grew.
pub(crate) const UNSTEADY: u8 = 4;

/// Returns the description of this build: version, commit, features.
pub(crate) fn program() -> Build {
    let features = [("dpdk", cfg!(feature = "dpdk")), ("machine-code", cfg!(feature = "machine-code"))];
    let features = features.into_iter().filter(|(_, is_there)| *is_there);
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: git_version::git_version!(
            args = ["--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            fallback = "unknown"
        )
        .into(),
        features: features.map(|(name, _)| name.to_string()).collect(),
        is_debug_build: cfg!(debug_assertions),
    }
}

/// Returns the text of `--version`: version, commit and features.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| program().to_string().trim_start_matches("tidegate ").to_string())
}

/// Begins a result: notes the time and this build. `seed` is the seed of random numbers, if any are used.
pub(crate) fn begin(seed: Option<u64>) -> Begun {
    Begun::now(program(), seed)
}

/// A report together with its origin (program, machine, time and inputs), in the form in which it is written
/// as JSON.
#[derive(Serialize)]
struct Signed<'r, T> {
    #[serde(flatten)]
    report: &'r T,
    origin: &'r Origin,
}

/// Returns a report as JSON, with its origin under the key `origin`.
pub(crate) fn json<T: Serialize>(report: &T, origin: &Origin) -> Result<String, String> {
    let text = serde_json::to_string_pretty(&Signed { report, origin });
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Returns the origin of a result that was begun with `begun` and made from these input files.
pub(crate) fn made_of<'f>(begun: &Begun, files: impl IntoIterator<Item = &'f std::path::PathBuf>) -> Origin {
    begun.origin(files.into_iter().map(|file| -> &Path { file }))
}
