//! A folder of proofs, so that none has to be found twice.
//!
//! A proof is found by a hash (SHA-256) of all that it rests on: this program itself, the configuration, the declaration of each
//! element (which says what was read from files, too), and the configuration with programs in it. Where any of these changes, there
//! is no proof until a new one is found. The folder can be deleted at any time; whoever may write there can pass off programs as
//! proven, so that nobody else gets access when it is made.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::reasoning::Reasoned;

/// The variable that says where the folder is.
const FOLDER: &str = "TIDEGATE_PROOFS";

/// What is known about a pair of configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// They do the same.
    Proven,
    /// In so much time that was not found out.
    Undecided(Duration, String),
}

/// What a proof is found by.
#[derive(Clone, Debug)]
pub(crate) struct Key(String);

/// The folder, if there is a place for it, and the hash of this program.
pub(crate) struct Proofs {
    folder: Option<PathBuf>,
    program: Option<Sha256>,
}

/// A hash as something that text is written to.
struct Hashing(Sha256);

impl fmt::Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

impl Proofs {
    /// The user's: `$TIDEGATE_PROOFS`, else `tidegate/proofs` in the folder for caches.
    pub(crate) fn of_user() -> Proofs {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        Proofs::at(set(FOLDER).or_else(|| caches().map(|caches| caches.join("tidegate/proofs"))))
    }

    /// In this folder; without one, nothing is kept.
    fn at(folder: Option<PathBuf>) -> Proofs {
        let program = std::env::current_exe().and_then(fs::File::open).and_then(|mut file| {
            let mut hash = Sha256::new();
            std::io::copy(&mut file, &mut hash)?;
            Ok(hash)
        });
        Proofs { folder, program: program.ok() }
    }

    /// The key of a proof of this kind that two configurations do the same.
    pub(crate) fn key(&self, kind: &str, pair: [&Reasoned; 2]) -> Option<Key> {
        let mut hash = Hashing(self.program.clone()?);
        // A hash takes all that is written to it. Lengths keep parts apart.
        let _ = write!(hash, "\0{kind}\0");
        for reasoned in pair {
            let text = lang::flatten(&reasoned.loaded.graph);
            let _ = write!(hash, "{}\0{text}", text.len());
            for node in &reasoned.chain.nodes {
                let _ = write!(hash, "\0{}\0{:?}", node.name, node.effects);
            }
        }
        let mut key = String::new();
        for byte in hash.0.finalize() {
            let _ = write!(key, "{byte:02x}");
        }
        Some(Key(key))
    }

    /// What is known.
    pub(crate) fn find(&self, key: &Key) -> Option<Kept> {
        let text = fs::read_to_string(self.folder.as_ref()?.join(&key.0)).ok()?;
        let (verdict, _) = text.split_once('\n')?;
        match verdict.split_once(' ') {
            None if verdict == "proven" => Some(Kept::Proven),
            Some(("undecided", rest)) => {
                let (milliseconds, why) = rest.split_once(' ')?;
                Some(Kept::Undecided(Duration::from_millis(milliseconds.parse().ok()?), why.into()))
            }
            _ => None,
        }
    }

    /// Keeps what was found out, with a line about what it is about. Where nothing can be kept, it will be found out again.
    pub(crate) fn keep(&self, key: &Key, kept: &Kept, about: &str) {
        let Some(folder) = &self.folder else { return };
        let verdict = match kept {
            Kept::Proven => "proven".to_string(),
            Kept::Undecided(time, why) => {
                format!("undecided {} {}", time.as_millis(), why.replace('\n', " "))
            }
        };
        let write = || -> std::io::Result<()> {
            if !folder.is_dir() {
                let mut builder = fs::DirBuilder::new();
                std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
                builder.create(folder)?;
            }
            // Whoever reads at the same time sees all of it or nothing.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            write!(file, "{verdict}\n{about}\n")?;
            file.persist(folder.join(&key.0))?;
            Ok(())
        };
        let _ = write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::parse;
    use crate::reasoning::{Unread, of};

    fn reasoned(text: &str) -> Reasoned {
        of(parse("test".into(), text.into(), None, &[], true)).unwrap_or_else(|unread| match unread {
            Unread::Input(text) => panic!("{text}"),
            Unread::Problems(loaded) => panic!("{:?}", loaded.problems),
        })
    }

    #[test]
    fn what_is_kept_is_found_under_the_same_texts_only() {
        let folder = tempfile::tempdir().unwrap();
        let proofs = Proofs::at(Some(folder.path().join("new/proofs")));
        let texts = ["Idle -> Counter -> Discard;", "Idle -> Null -> Counter -> Discard;"].map(reasoned);
        let key = |kind: &str, pair: [usize; 2]| proofs.key(kind, pair.map(|number| &texts[number])).unwrap();
        assert_eq!(proofs.find(&key("stretch", [0, 1])), None);
        proofs.keep(&key("stretch", [0, 1]), &Kept::Proven, "test");
        assert_eq!(proofs.find(&key("stretch", [0, 1])), Some(Kept::Proven));
        for (kind, pair) in [("stretch", [1, 0]), ("stretch", [0, 0]), ("chain", [0, 1])] {
            assert_eq!(proofs.find(&key(kind, pair)), None);
        }
        let undecided = Kept::Undecided(Duration::from_millis(1500), "c: it takes\ntoo long".into());
        proofs.keep(&key("chain", [0, 1]), &undecided, "test");
        let found = Kept::Undecided(Duration::from_millis(1500), "c: it takes too long".into());
        assert_eq!(proofs.find(&key("chain", [0, 1])), Some(found));
    }

    /// Two configurations of one text are not the same if elements read other things from a file.
    #[test]
    fn what_stands_in_files_is_part_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let proofs = Proofs::at(None);
        let rules = folder.path().join("rules");
        let text = format!("Idle -> f :: IPFilter(file {}) -> Discard;", rules.display());
        let mut key = |line: &str| {
            fs::write(&rules, line).unwrap();
            let reasoned = reasoned(&text);
            proofs.key("stretch", [&reasoned, &reasoned]).unwrap().0
        };
        let keys = ["allow tcp\n", "allow udp\n", "allow tcp\n"].map(&mut key);
        assert!(keys[0] == keys[2] && keys[0] != keys[1]);
    }

    #[test]
    fn without_a_folder_nothing_is_known() {
        let proofs = Proofs::at(None);
        let one = reasoned("Idle -> Discard;");
        let key = proofs.key("stretch", [&one, &one]).unwrap();
        proofs.keep(&key, &Kept::Proven, "test");
        assert_eq!(proofs.find(&key), None);
    }
}
