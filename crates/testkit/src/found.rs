//! Captures, rule sets and routes from other sources: tests use them if they are present, and otherwise
//! print that they skip.

use std::path::{Path, PathBuf};

/// Returns the path of a folder (`traces`, `rules/snf`) or file of this data: below `TIDEGATE_DATA` if set,
/// otherwise in `shared/data` outside the repository. If it does not exist, prints that the test is
/// skipped.
pub fn path(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join(name);
    if !path.exists() {
        println!("skipped: there is no {} (set TIDEGATE_DATA)", path.display());
        return None;
    }
    Some(path)
}

/// Returns all files below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
