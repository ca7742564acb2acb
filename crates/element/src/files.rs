//! Access to files whose names come from clients: files that write handlers create, and configurations that
//! are read. Also tells if this process writes a file already.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The part of the file system in which a write handler may create files for its caller. It is part of the
/// call ([`Rights`](crate::Rights)), also if an element keeps the call and makes it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileScope {
    /// Files may be created anywhere: the configuration itself makes the call.
    #[default]
    Anywhere,
    /// No files may be created.
    Nowhere,
    /// Files may be created in a folder and its subfolders.
    Below(Folder),
}

/// A folder for files that clients name. No name gives access to files outside of the folder: neither by
/// `..`, nor by an absolute path, nor by a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(Arc<Path>);

/// True if this process has the regular file at `path` open for writing, by this or another name.
pub(crate) fn is_written(path: &str) -> bool {
    let Some(file) = fs::metadata(path).ok().filter(fs::Metadata::is_file) else { return false };
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return false };
    let is_same = |other: &fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
    let mut same =
        open.flatten().filter(|entry| fs::metadata(entry.path()).is_ok_and(|other| is_same(&other)));
    same.any(|entry| {
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let text = fs::read_to_string(info).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        // The lowest two bits are the access mode (open(2)); 0 is for reading only.
        flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
    })
}

impl FileScope {
    /// Creates a file, or empties the file of this name. In a [`Folder`], a name that does not begin with
    /// `/` is relative to the folder.
    ///
    /// # Errors
    /// An error of the system, or an error that says that the file must not be written.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.open(name, false)
    }

    /// Creates a file as [`create`](Self::create) does, but does not empty a file that exists.
    ///
    /// # Errors
    /// As for [`create`](Self::create), or if there is something of this name.
    pub fn create_new(&self, name: &str) -> io::Result<File> {
        self.open(name, true)
    }

    fn open(&self, name: &str, is_new: bool) -> io::Result<File> {
        match self {
            FileScope::Anywhere if is_new => File::create_new(name),
            FileScope::Anywhere => File::create(name),
            FileScope::Nowhere => Err(io::Error::other(
                "a client may have no files written (the argument FILES of the ControlSocket names a folder for them)",
            )),
            FileScope::Below(folder) => folder.create(name, is_new),
        }
    }
}

impl Folder {
    /// Returns the folder at `path`, which may contain symbolic links.
    pub fn new(path: &str) -> io::Result<Folder> {
        let path = Path::new(path).canonicalize()?;
        if path.is_dir() { Ok(Folder(path.into())) } else { Err(ErrorKind::NotADirectory.into()) }
    }

    /// Returns the path of the existing regular file `name` in the folder, with all symbolic links resolved.
    ///
    /// # Errors
    /// An error of the system, or an error that says that the file is outside of the folder or not a regular
    /// file.
    pub fn find(&self, name: &str) -> io::Result<PathBuf> {
        let outside = || self.outside("read");
        let path = self.path_of(Path::new(name)).ok_or_else(outside)?.canonicalize()?;
        match path.starts_with(&self.0) {
            false => Err(outside()),
            // Devices and pipes are refused because opening them may block.
            true if !path.is_file() => Err(io::Error::other("only ordinary files are read")),
            true => Ok(path),
        }
    }

    fn create(&self, name: &str, is_new: bool) -> io::Result<File> {
        let outside = || self.outside("written");
        let path = self.path_of(Path::new(name)).ok_or_else(outside)?;
        let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else { return Err(outside()) };
        let parent = parent.canonicalize()?;
        if !parent.starts_with(&self.0) {
            return Err(outside());
        }
        let path = parent.join(last);
        // Symbolic links are refused because they may lead outside of the folder, devices and pipes because
        // opening them may block.
        match fs::symlink_metadata(&path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("only ordinary files are written")),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ if is_new => File::create_new(path),
            // A link that has come meanwhile is not followed.
            _ => {
                let mut options = File::options();
                options.write(true).create(true).truncate(true);
                options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
            }
        }
    }

    /// Returns the path that a name means in the folder; symbolic links are not resolved. `None` if the name
    /// contains `..`.
    fn path_of(&self, name: &Path) -> Option<PathBuf> {
        let goes_up = name.components().any(|part| part == Component::ParentDir);
        (!goes_up).then(|| self.0.join(name))
    }

    fn outside(&self, done: &str) -> io::Error {
        io::Error::other(format!("a client may have files {done} below {} only", self.0.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_written_while_it_is_open_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        assert!(!is_written(&at("none")) && !is_written("/dev/null"));
        let writer = File::create(at("file")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert!(is_written(&at("file")) && is_written(&at("link")));
        drop(writer);
        let _reader = File::open(at("file")).unwrap();
        assert!(!is_written(&at("file")));
    }

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
        let folder = Folder::new(&shown("alias")).unwrap();
        assert_eq!(*folder.0, *at("in").canonicalize().unwrap());
        let files = FileScope::Below(folder.clone());
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
        fs::write(at("beside/x"), "kept").unwrap();
        symlink(at("in/a"), at("in/inside")).unwrap();
        for name in outside.into_iter().filter(|name| !name.is_empty()).chain(["link"]) {
            let error = folder.find(name).unwrap_err().to_string();
            assert!(error.starts_with("a client may have files read below "), "{name}: {error}");
        }
        for name in ["a", "./b", "deep/c", "inside", &shown("in/d")] {
            let path = folder.find(name).unwrap();
            assert!(path.starts_with(&*folder.0) && path.is_file(), "{name}");
        }
        for name in ["", ".", "deep", "nowhere", "a/b"] {
            assert!(folder.find(name).is_err(), "{name}");
        }
        for name in ["link", "way", "deep", "."] {
            assert!(files.create(name).is_err(), "{name}");
        }
        assert!(files.create("nowhere/x").is_err());
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "kept");
        assert_eq!(fs::read_dir(at("beside")).unwrap().count(), 1);
        assert!(Folder::new(&shown("secret")).is_err() && Folder::new(&shown("none")).is_err());

        assert!(FileScope::Nowhere.create(&shown("in/f")).is_err() && !at("in/f").exists());
        FileScope::Anywhere.create(&shown("beside/f")).unwrap();
    }
}
