//! A folder with the results of proofs, so that a proof that was found is not searched for again.
//!
//! The key of a result is a hash (SHA-256) of all that the proof depends on: this program itself, the kind of
//! comparison, the configuration and the configuration with programs in it, and the declaration of each
//! element in both (which includes the contents of files that the element read). If any of these changes, a
//! new proof has to be found. The folder can be deleted at any time. A user who can write there can make
//! unproven programs count as proven, so the folder is created without access for other users.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::reasoning::Reasoned;

/// The name of the environment variable that names the folder of proofs.
const FOLDER: &str = "TIDEGATE_PROOFS";

/// The limits with which a proof was searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The seconds that the whole command had for all its proofs. The part of this time that one region got
    /// is not stored, because it depends on how fast the other proofs were.
    pub(crate) seconds: u64,
    /// The most bytes of decision diagrams.
    pub(crate) memory: usize,
}

impl Tried {
    /// True if a search within the limits `other` has no better chance to find a proof than the search within
    /// these limits had, because it has neither more time nor more memory.
    pub(crate) fn is_enough_for(self, other: Tried) -> bool {
        self.seconds >= other.seconds && self.memory >= other.memory
    }
}

/// The stored result for a pair of configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The configurations are proven to do the same.
    Proven,
    /// A packet has shown that the configurations differ. For a proven region: that the whole chain with the
    /// programs differs from its configuration. A refutation overrides any proof.
    Refuted,
    /// A search within these limits had no result, for this reason.
    Undecided(Tried, String),
}

/// The name of the file in which the result for a pair of configurations is stored.
#[derive(Clone, Debug)]
pub(crate) struct Key(String);

/// The folder with the results of proofs, if one is known, and the hash of this program's executable file, if
/// it can be read.
pub(crate) struct Proofs {
    folder: Option<PathBuf>,
    program: Option<Sha256>,
}

/// A hash that formatted text can be written to.
struct Hashing(Sha256);

impl fmt::Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

impl Proofs {
    /// Returns the user's folder of proofs: `$TIDEGATE_PROOFS`, or else `tidegate/proofs` in the user's
    /// cache folder.
    pub(crate) fn of_user() -> Proofs {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        Proofs::at(set(FOLDER).or_else(|| caches().map(|caches| caches.join("tidegate/proofs"))))
    }

    /// Returns proofs that neither store nor find results, for programs that are composed while packets flow.
    /// Such results would fill the folder without limit, because each change of an element makes another
    /// program.
    pub(crate) fn none() -> Proofs {
        Proofs { folder: None, program: None }
    }

    /// Returns the proofs in this folder. Without a folder, no results are stored or found.
    fn at(folder: Option<PathBuf>) -> Proofs {
        let program = std::env::current_exe().and_then(fs::File::open).and_then(|mut file| {
            let mut hash = Sha256::new();
            std::io::copy(&mut file, &mut hash)?;
            Ok(hash)
        });
        Proofs { folder, program: program.ok() }
    }

    /// Returns the key for the result of comparing two configurations, in this order. `kind` names the kind
    /// of comparison, such as of one region or of the whole chain. Returns `None` for [`Proofs::none`], and
    /// if this program cannot read its own file.
    pub(crate) fn key(&self, kind: &str, pair: [&Reasoned; 2]) -> Option<Key> {
        let mut hash = Hashing(self.program.clone()?);
        // Writing to a hash never fails. The length of each text is hashed ahead of the text, so that
        // different pairs of texts never give the same bytes.
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

    /// Returns the result that is stored under a key, or `None` if there is none or it cannot be read.
    pub(crate) fn find(&self, key: &Key) -> Option<Kept> {
        let text = fs::read_to_string(self.folder.as_ref()?.join(&key.0)).ok()?;
        let (verdict, _) = text.split_once('\n')?;
        match verdict.split_once(' ') {
            None if verdict == "proven" => Some(Kept::Proven),
            None if verdict == "refuted" => Some(Kept::Refuted),
            Some(("undecided", rest)) => {
                let mut words = rest.splitn(3, ' ');
                let seconds = words.next()?.parse().ok()?;
                let memory = words.next()?.parse().ok()?;
                Some(Kept::Undecided(Tried { seconds, memory }, words.next()?.into()))
            }
            _ => None,
        }
    }

    /// Checks that results can be stored, for a user who has asked for proofs with `--prove`. The error is
    /// the reason why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Err(format!("there is no folder for proofs: set {FOLDER} to one"));
        };
        if self.program.is_none() {
            return Err("this program cannot read its own file, which proofs depend on".into());
        }
        let made = made(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder).map(drop));
        made.map_err(|error| {
            format!("{}: no proof can be kept there: {}", folder.display(), crate::reason(&error))
        })
    }

    /// Stores a result, followed by the line `about`, which names the configuration, and the region if the
    /// result is about one region. Errors are ignored: a result that cannot be stored has to be found again.
    /// An undecided search does not replace a proof or a refutation, which another command may have stored in
    /// the meantime.
    pub(crate) fn keep(&self, key: &Key, kept: &Kept, about: &str) {
        let Some(folder) = &self.folder else { return };
        let is_undecided = matches!(kept, Kept::Undecided(..));
        if is_undecided && matches!(self.find(key), Some(Kept::Proven | Kept::Refuted)) {
            return;
        }
        let verdict = match kept {
            Kept::Proven => "proven".to_string(),
            Kept::Refuted => "refuted".to_string(),
            Kept::Undecided(Tried { seconds, memory }, why) => {
                format!("undecided {seconds} {memory} {}", why.replace('\n', " "))
            }
        };
        let write = || -> io::Result<()> {
            made(folder)?;
            // The file is renamed to its name when it is complete, so that a concurrent reader sees the
            // whole file or no file.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            write!(file, "{verdict}\n{about}\n")?;
            file.persist(folder.join(&key.0))?;
            Ok(())
        };
        let _ = write();
    }
}

/// Creates a folder that only its owner can access, unless it exists already.
fn made(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Texts, parse};
    use crate::reasoning::of;

    fn reasoned(text: &str) -> Reasoned {
        of(parse(Texts::of("test", text.into()), &[], true))
            .unwrap_or_else(|loaded| panic!("{:?}", loaded.problems))
    }

    #[test]
    fn what_is_kept_is_found_under_the_same_texts_only() {
        let folder = tempfile::tempdir().unwrap();
        let proofs = Proofs::at(Some(folder.path().join("new/proofs")));
        let texts = ["Idle -> Counter -> Discard;", "Idle -> Null -> Counter -> Discard;"].map(reasoned);
        let key = |kind: &str, pair: [usize; 2]| proofs.key(kind, pair.map(|number| &texts[number])).unwrap();
        assert_eq!(proofs.find(&key("region", [0, 1])), None);
        proofs.keep(&key("region", [0, 1]), &Kept::Proven, "test");
        assert_eq!(proofs.find(&key("region", [0, 1])), Some(Kept::Proven));
        for (kind, pair) in [("region", [1, 0]), ("region", [0, 0]), ("chain", [0, 1])] {
            assert_eq!(proofs.find(&key(kind, pair)), None);
        }
        let tried = Tried { seconds: 20, memory: 1 << 30 };
        let undecided = Kept::Undecided(tried, "c: it takes\ntoo long".into());
        proofs.keep(&key("chain", [0, 1]), &undecided, "test");
        let found = Kept::Undecided(tried, "c: it takes too long".into());
        assert_eq!(proofs.find(&key("chain", [0, 1])), Some(found));
        // An undecided search does not replace a stored proof, but a refutation replaces it.
        proofs.keep(&key("region", [0, 1]), &undecided, "test");
        assert_eq!(proofs.find(&key("region", [0, 1])), Some(Kept::Proven));
        proofs.keep(&key("region", [0, 1]), &Kept::Refuted, "test");
        assert_eq!(proofs.find(&key("region", [0, 1])), Some(Kept::Refuted));
        assert_eq!(proofs.check(), Ok(()));
    }

    /// Two configurations with the same text have different keys if their elements read different files.
    #[test]
    fn what_stands_in_files_is_part_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let proofs = Proofs::at(None);
        let rules = folder.path().join("rules");
        let text = format!("Idle -> f :: IPFilter(file {}) -> Discard;", rules.display());
        let mut key = |line: &str| {
            fs::write(&rules, line).unwrap();
            let reasoned = reasoned(&text);
            proofs.key("region", [&reasoned, &reasoned]).unwrap().0
        };
        let keys = ["allow tcp\n", "allow udp\n", "allow tcp\n"].map(&mut key);
        assert!(keys[0] == keys[2] && keys[0] != keys[1]);
    }

    #[test]
    fn without_a_folder_nothing_is_known() {
        let proofs = Proofs::at(None);
        let one = reasoned("Idle -> Discard;");
        let key = proofs.key("region", [&one, &one]).unwrap();
        proofs.keep(&key, &Kept::Proven, "test");
        assert_eq!(proofs.find(&key), None);
        assert!(proofs.check().unwrap_err().contains(FOLDER));
    }

    #[test]
    fn a_search_is_repeated_with_more_time_or_more_memory_only() {
        let tried = Tried { seconds: 20, memory: 100 };
        let is_enough = |seconds, memory| tried.is_enough_for(Tried { seconds, memory });
        assert!(is_enough(20, 100) && is_enough(1, 100) && is_enough(20, 1));
        assert!(!is_enough(21, 100) && !is_enough(20, 101));
    }
}
