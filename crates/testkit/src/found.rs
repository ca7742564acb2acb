//! Captures, rule sets and route tables from other sources, which are not in the repository. Tests use them
//! if they are present; otherwise they print that they are skipped.

use std::path::{Path, PathBuf};

/// Returns the path of a folder (`traces`, `rules/snf`) or file with data from other sources. It is searched
/// below `TIDEGATE_DATA` if that variable is set, otherwise in `shared/data` next to the repository. If it
/// does not exist, prints this and returns `None`.
pub fn path(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join(name);
    if !path.exists() {
        println!("skipped: there is no {} (set TIDEGATE_DATA)", path.display());
        return None;
    }
    Some(path)
}

/// Returns all files below a folder, in all subfolders, sorted by path.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
