//! The origin of results, and the text of `--version`.

use std::path::Path;
use std::sync::OnceLock;

use bench::origin::{Begun, Origin, Program};
use serde::Serialize;

/// The exit status if figures were measured that must not be quoted, because the machine was too busy.
pub(crate) const UNSTEADY: u8 = 4;

/// Describes this build.
pub(crate) fn program() -> Program {
    let features = [("dpdk", cfg!(feature = "dpdk")), ("machine-code", cfg!(feature = "machine-code"))];
    let features = features.into_iter().filter(|(_, is_there)| *is_there);
    Program {
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

/// Returns version, commit and features, for `--version`.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| program().to_string().trim_start_matches("tidegate ").to_string())
}

/// Begins a result: its time starts now.
pub(crate) fn begin(seed: Option<u64>) -> Begun {
    Begun::now(program(), seed)
}

/// A report with its origin.
#[derive(Serialize)]
struct Signed<'r, T> {
    #[serde(flatten)]
    report: &'r T,
    origin: &'r Origin,
}

/// Returns a report as JSON, with its origin under `origin`.
pub(crate) fn json<T: Serialize>(report: &T, origin: &Origin) -> Result<String, String> {
    let text = serde_json::to_string_pretty(&Signed { report, origin });
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Returns the origin of a result that was made of these files.
pub(crate) fn made_of<'f>(begun: &Begun, files: impl IntoIterator<Item = &'f std::path::PathBuf>) -> Origin {
    begun.origin(files.into_iter().map(|file| -> &Path { file }))
}
