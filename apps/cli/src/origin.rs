//! What results and `--version` say of the program and of where a result comes from.

use std::path::Path;
use std::sync::OnceLock;

use bench::origin::{Begun, Origin, Program};
use serde::Serialize;

/// The exit status where figures were measured that must not be quoted, because the machine was too busy.
pub(crate) const UNSTEADY: u8 = 4;

/// This build.
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

/// Version, commit and features, for `--version`.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| program().to_string().trim_start_matches("tidegate ").to_string())
}

/// A result that begins now.
pub(crate) fn begin(seed: Option<u64>) -> Begun {
    Begun::now(program(), seed)
}

/// A report with where it comes from.
#[derive(Serialize)]
struct Signed<'r, T> {
    #[serde(flatten)]
    report: &'r T,
    origin: &'r Origin,
}

/// A report as JSON, with where it comes from under `origin`.
pub(crate) fn json<T: Serialize>(report: &T, origin: &Origin) -> Result<String, String> {
    let text = serde_json::to_string_pretty(&Signed { report, origin });
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

/// The origin of a result that was made of these files.
pub(crate) fn made_of<'f>(begun: &Begun, files: impl IntoIterator<Item = &'f std::path::PathBuf>) -> Origin {
    begun.origin(files.into_iter().map(|file| -> &Path { file }))
}
