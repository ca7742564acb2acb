//! The token with which clients may write handlers.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

/// The fewest characters of a token.
const LEAST: usize = 16;
/// The most bytes of the file of a token.
const MOST: u64 = 4096;

/// The token with which clients may write handlers. Only its hash is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// Reads the token from a file, without white space at its start and end.
    ///
    /// # Errors
    /// If the file cannot be read, if others than its owner may read or write it, if it belongs to another
    /// user, or if the token is too short or has other characters than visible ASCII: a message for the user.
    pub fn read(path: &Path) -> Result<Token, String> {
        let failed = |text: String| format!("{}: {text}", path.display());
        let error = |error: std::io::Error| failed(error.to_string());
        let file = File::open(path).map_err(error)?;
        let about = file.metadata().map_err(error)?;
        if !about.is_file() {
            return Err(failed("the token has to be in a file".into()));
        }
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(failed(format!("other users have access (mode {mode:o}); run `chmod 600` on it")));
        }
        if about.uid() != geteuid().as_raw() && about.uid() != 0 {
            return Err(failed("the file belongs to another user".into()));
        }
        let mut text = String::new();
        file.take(MOST).read_to_string(&mut text).map_err(error)?;
        let token = text.trim();
        if token.len() < LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let text = format!(
                "the token needs {LEAST} or more visible characters of ASCII; \
                 `head -c 24 /dev/urandom | base64` makes one"
            );
            return Err(failed(text));
        }
        Ok(Token::new(token))
    }

    fn new(token: &str) -> Token {
        Token(Sha256::digest(token).into())
    }

    /// True if a client has given this token. The time of the comparison does not depend on the token,
    /// because hashes are compared, and always all of their bytes.
    pub(crate) fn is(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let differences = self.0.iter().zip(given).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        black_box(differences) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        let token = read(" 0123456789abcdef\n", 0o600).ok().unwrap();
        assert!(token.is("0123456789abcdef"));
        assert!(!token.is("0123456789abcdeF") && !token.is("") && !token.is("0123456789abcdef0"));
        for mode in [0o640, 0o604, 0o620, 0o644, 0o666] {
            let error = read("0123456789abcdef", mode).err().unwrap();
            assert!(error.contains("other users have access"), "{error}");
        }
        for text in ["", "short", "0123456789abcde", "0123456789 abcdefgh", "0123456789abcdefgö"] {
            assert!(read(text, 0o400).err().unwrap().contains("16 or more"), "{text}");
        }
        assert!(Token::read(folder.path()).is_err() && Token::read(&folder.path().join("none")).is_err());
    }
}
