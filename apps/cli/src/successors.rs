//! The configurations that may replace a running configuration: which client may ask for which text or
//! file.

use std::path::{Path, PathBuf};

use element::{CallOrigin, Folder};
use engine::RebuildRequest;

use crate::load::read_text;

/// The rules about which configurations the handler `hotconfig` accepts.
pub(crate) struct Successors {
    /// The folder with the configurations that any client may ask for by name: its path as it was given, and
    /// the opened folder. `None` without such a folder.
    folder: Option<(String, Folder)>,
    /// True if clients of Unix sockets may send the text of a configuration.
    takes_texts: bool,
}

/// A configuration that a client has asked for and that may replace the running one.
#[derive(Debug)]
pub(crate) struct Successor {
    /// The name of the configuration in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The file of the configuration, if it has one.
    pub(crate) file: Option<PathBuf>,
}

impl Successors {
    /// Accepts configurations in files below a folder and, with `takes_texts`, texts from clients of Unix
    /// sockets.
    ///
    /// # Errors
    /// If the folder cannot be opened: the message for the user.
    pub(crate) fn new(folder: Option<&str>, takes_texts: bool) -> Result<Successors, String> {
        let open = |path: &str| match Folder::new(path) {
            Ok(folder) => Ok((path.trim_end_matches('/').to_string(), folder)),
            Err(error) => Err(format!("--config-dir {path}: {}", crate::reason(&error))),
        };
        Ok(Successors { folder: folder.map(open).transpose()?, takes_texts })
    }

    /// Returns the configuration that a request to replace the running configuration is for. `own` is the
    /// file that the run was started with, if there is one.
    ///
    /// # Errors
    ///
    /// If there is no such file, or the text is not accepted: the message for the user.
    pub(crate) fn requested(
        &self,
        request: &RebuildRequest,
        own: Option<&Path>,
    ) -> Result<Successor, String> {
        let Some(value) = &request.value else {
            let file = own.filter(|file| *file != Path::new("-"));
            let file = file.ok_or("the configuration was given as text: there is no file to read again")?;
            let (name, text) = read_text(file)?;
            return Ok(Successor { name, text, file: Some(file.to_path_buf()) });
        };
        self.find(value, request.origin)
    }

    /// Returns the configuration that a value of the handler `hotconfig` means: the name of a file, or a
    /// text. If there is a folder, a value of only letters, digits and `._-+/` is a name, because no useful
    /// configuration consists of these characters alone.
    ///
    /// # Errors
    /// If there is no such file, or if a caller of this origin may not send texts: the message for the
    /// user.
    fn find(&self, value: &str, origin: CallOrigin) -> Result<Successor, String> {
        let name = value.trim();
        if let Some((path, folder)) = self.folder.as_ref().filter(|_| is_name(name)) {
            let shown = format!("{path}/{name}");
            let file = folder.find(name).map_err(|error| format!("{shown}: {}", crate::reason(&error)))?;
            let (_, text) = read_text(&file)?;
            return Ok(Successor { name: shown, text, file: Some(file) });
        }
        match origin {
            CallOrigin::Configuration => {}
            CallOrigin::UnixClient if self.takes_texts => {}
            CallOrigin::UnixClient | CallOrigin::Anybody => return Err(self.refusal(origin)),
        }
        Ok(Successor { name: "config".into(), text: value.to_string(), file: None })
    }

    /// Returns the message about a text that is refused because of the caller's origin.
    fn refusal(&self, origin: CallOrigin) -> String {
        let instead = match &self.folder {
            Some((path, _)) => format!("write the name of a file below {path} (letters, digits and ._-+/)"),
            None => "start with --config-dir DIR, and write the name of a file below it".to_string(),
        };
        let or = match origin {
            CallOrigin::UnixClient => "; --allow-config allows texts to clients of Unix sockets",
            _ => "",
        };
        format!(
            "the text of a configuration is not accepted here, because a configuration can write any file: \
             {instead}{or}"
        )
    }
}

/// True if a value is not empty and has only letters, digits and `._-+/`, so that it can be the name of a
/// file.
fn is_name(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || "._-+/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("configs");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        for name in ["configs/a.click", "configs/deep/b", "secret"] {
            std::fs::write(outer.path().join(name), "Idle -> Discard;").unwrap();
        }
        std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
        let path = folder.display().to_string();
        let origins = [CallOrigin::Configuration, CallOrigin::UnixClient, CallOrigin::Anybody];
        for takes_texts in [false, true] {
            let by_name = Successors::new(Some(&path), takes_texts).unwrap();
            for origin in origins {
                for name in ["a.click", " a.click\n", "deep/b"] {
                    let found = by_name.find(name, origin).unwrap();
                    assert_eq!(found.name, format!("{path}/{}", name.trim()));
                    assert!(found.file.unwrap().starts_with(folder.canonicalize().unwrap()));
                }
                for name in ["../secret", "deep/../../secret", "link", "/etc/passwd", "none", "deep"] {
                    let error = by_name.find(name, origin).unwrap_err();
                    assert!(error.starts_with(&format!("{path}/{name}: ")), "{error}");
                }
            }
            let nothing = Successors::new(None, takes_texts).unwrap();
            for successors in [by_name, nothing] {
                for text in ["Idle->Discard", "Idle -> Discard;", ""] {
                    let taken = origins.map(|origin| successors.find(text, origin).is_ok());
                    assert_eq!(taken, [true, takes_texts, false], "{text}");
                }
            }
        }
        let nothing = Successors::new(None, false).unwrap();
        let error = nothing.find("a.click", CallOrigin::UnixClient).unwrap_err();
        assert!(error.contains("start with --config-dir DIR") && error.contains("--allow-config"), "{error}");
        let error = Successors::new(Some("/nonesuch"), false).err().unwrap();
        assert_eq!(error, "--config-dir /nonesuch: No such file or directory");
    }
}
