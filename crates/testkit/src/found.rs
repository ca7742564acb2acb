//! Captures, rule sets and routes that were found elsewhere: tests use them where they are, and say so where not.

use std::path::{Path, PathBuf};

/// A folder (`traces`, `rules/snf`) or file of the found data: below `TIDEGATE_DATA`, else beside the repository. Where
/// there is none, the test that asks is told to skip.
pub fn path(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join(name);
    if !path.exists() {
        println!("skipped: there is no {} (set TIDEGATE_DATA)", path.display());
        return None;
    }
    Some(path)
}

/// All files below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
