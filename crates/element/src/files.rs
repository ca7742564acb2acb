//! Files that write handlers create, and the folders in which the callers of handlers may create them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;

/// The place where the caller of a write handler may have files written. It travels with the call, also
/// with a call that an element keeps for later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// Anywhere, for calls by the configuration itself.
    #[default]
    Anywhere,
    /// Nowhere.
    Nowhere,
    /// In a folder and its subfolders. The path of the folder contains no symbolic links.
    Below(Arc<Path>),
}

impl Files {
    /// Allows files in this folder and its subfolders.
    ///
    /// # Errors
    /// An error of the system if there is no such folder.
    pub fn below(folder: &str) -> io::Result<Files> {
        let folder = Path::new(folder).canonicalize()?;
        if folder.is_dir() { Ok(Files::Below(folder.into())) } else { Err(ErrorKind::NotADirectory.into()) }
    }

    /// Creates a file, or empties the file of this name. Names that do not begin with `/` are relative to
    /// the folder.
    ///
    /// # Errors
    /// An error of the system, or an error that says where files may be written.
    pub fn create(&self, name: &str) -> io::Result<File> {
        match self {
            Files::Anywhere => File::create(name),
            Files::Nowhere => Err(io::Error::other(
                "a client may have no files written (the argument FILES of the ControlSocket names a folder for them)",
            )),
            Files::Below(folder) => below(folder, Path::new(name)),
        }
    }
}

fn below(folder: &Path, name: &Path) -> io::Result<File> {
    let outside =
        || io::Error::other(format!("a client may have files written below {} only", folder.display()));
    if name.components().any(|part| part == Component::ParentDir) {
        return Err(outside());
    }
    let path = folder.join(name);
    let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else { return Err(outside()) };
    let parent = parent.canonicalize()?;
    if !parent.starts_with(folder) {
        return Err(outside());
    }
    let path = parent.join(last);
    // A symbolic link may lead outside of the folder, and opening a pipe or a device may block.
    match fs::symlink_metadata(&path) {
        Ok(there) if !there.is_file() => Err(io::Error::other("only ordinary files are written")),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::create(path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_stay_below_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let at = |name: &str| outer.path().join(name);
        let shown = |name: &str| at(name).display().to_string();
        fs::create_dir_all(at("in/deep")).unwrap();
        fs::create_dir(at("beside")).unwrap();
        fs::write(at("secret"), "kept").unwrap();
        symlink(at("beside"), at("in/way")).unwrap();
        symlink(at("secret"), at("in/link")).unwrap();
        symlink(at("in"), at("alias")).unwrap();
        let files = Files::below(&shown("alias")).unwrap();
        assert_eq!(files, Files::Below(at("in").canonicalize().unwrap().into()));
        for name in ["a", "./b", "deep/c", &shown("in/d"), &shown("alias/deep/e")] {
            files.create(name).unwrap();
        }
        for name in ["in/a", "in/b", "in/deep/c", "in/d", "in/deep/e"] {
            assert!(at(name).is_file(), "{name}");
        }
        let outside = [
            "../secret",
            "deep/../../secret",
            "deep/../a",
            "..",
            "",
            "/",
            "way/x",
            &shown("secret"),
            &shown("beside/x"),
            &shown("in/../secret"),
        ];
        for name in outside {
            let error = files.create(name).unwrap_err().to_string();
            assert!(error.starts_with("a client may have files written below "), "{name}: {error}");
        }
        for name in ["link", "way", "deep", "."] {
            assert!(files.create(name).is_err(), "{name}");
        }
        assert!(files.create("nowhere/x").is_err());
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "kept");
        assert_eq!(fs::read_dir(at("beside")).unwrap().count(), 0);
        assert!(Files::below(&shown("secret")).is_err() && Files::below(&shown("none")).is_err());

        assert!(Files::Nowhere.create(&shown("in/f")).is_err() && !at("in/f").exists());
        Files::Anywhere.create(&shown("beside/f")).unwrap();
    }
}
