//! The form of a state file, in which a run saves the state of its elements, and the reading and writing of
//! such files.
//!
//! ```text
//! header   "\x89tidegate-state\n", version 4 | time 8 | secret 8 | checksum 4
//! section  1, length of name 2 | of class 2 | form of the class 2 | length of bytes 4, name, class, bytes,
//!          checksum 4
//! end      0, number of sections 8 | length of the file before the end 8 | checksum 4
//! ```
//!
//! Numbers are little-endian; the numbers above are lengths in bytes. Each checksum is the CRC-32C of the
//! bytes ahead of it in its header, section or end. The time is in nanoseconds since 1970, and the secret is
//! the key of the hash that assigns flows to workers. A section is a piece of the state of one element at one
//! worker; an element can have any number of sections.
//!
//! A file is written under another name in the same folder, and renamed when the disk has it. So there is
//! always the old file or the new file, as a whole.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use element::Timestamp;
use engine::{SavedElement, SavedPiece};

use crate::reason;

const MAGIC: &[u8; 16] = b"\x89tidegate-state\n";

/// The version of the form of files.
const VERSION: u32 = 1;

/// The tag byte with which a section begins, and the tag byte (`END`) with which the end of a state file
/// begins.
const SECTION: u8 = 1;
const END: u8 = 0;

/// The largest number of bytes in a section of a state file.
const MOST_BYTES: usize = 1 << 20;

/// The largest length of a state file, in bytes. It bounds the memory for reading the file, and leaves room
/// for some twenty million entries of tables.
const MOST_LENGTH: u64 = 1 << 30;

/// The contents of a state file.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) time: Timestamp,
    pub(crate) secret: u64,
    pub(crate) pieces: Vec<SavedPiece>,
}

/// The reason why a state file cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The system does not let the file be read.
    System(io::Error),
    /// The file is no state file.
    Foreign,
    /// The file has a version of the form that this program does not know.
    Version(u32),
    /// The bytes at this offset are not as they were written.
    Damaged(u64, &'static str),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::System(error) => f.write_str(&reason(error)),
            Unread::Foreign => f.write_str("it is not a state file"),
            Unread::Version(version) => {
                write!(f, "it has version {version} of the form, and this program reads version {VERSION}")
            }
            Unread::Damaged(offset, what) => write!(f, "it is damaged at byte {offset}: {what}"),
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::System(error)
    }
}

/// Reads a state file. Returns `None` if there is no file.
///
/// # Errors
/// If the file cannot be read as a whole: the reason.
pub(crate) fn read(path: &Path) -> Result<Option<Contents>, Unread> {
    // Folders, pipes and devices are refused before they are opened, because opening a pipe may block.
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(metadata) if !metadata.is_file() => return Err(Unread::Foreign),
        Ok(metadata) if metadata.len() > MOST_LENGTH => {
            return Err(Unread::Damaged(MOST_LENGTH, "it is longer than a state file can be"));
        }
        Ok(_) => {}
    }
    let file = BufReader::new(File::open(path)?);
    parse(file).map(Some)
}

/// Reads the contents of a state file.
fn parse(file: impl Read) -> Result<Contents, Unread> {
    let mut parser = Parser { file: file.take(MOST_LENGTH), offset: 0, crc: 0 };
    let mut magic = [0; MAGIC.len()];
    match parser.fill(&mut magic) {
        Err(Unread::Damaged(..)) if parser.offset == 0 => return Err(Unread::Damaged(0, "it is empty")),
        // A file that is no state file may end before as many bytes as the magic bytes have been read.
        Err(Unread::Damaged(..)) if !MAGIC.starts_with(&magic[..parser.offset as usize]) => {
            return Err(Unread::Foreign);
        }
        result => result?,
    }
    if magic != *MAGIC {
        return Err(Unread::Foreign);
    }
    let version = u32::from_le_bytes(parser.array()?);
    if version != VERSION {
        return Err(Unread::Version(version));
    }
    let time = Timestamp(i64::from_le_bytes(parser.array()?));
    let secret = u64::from_le_bytes(parser.array()?);
    parser.check(0)?;
    let mut pieces = Vec::new();
    loop {
        let start = parser.offset;
        let [tag] = parser.array()?;
        match tag {
            SECTION => pieces.push(parser.section(start)?),
            END => {
                let (sections, length) = (parser.number()?, parser.number()?);
                parser.check(start)?;
                if (sections, length) != (pieces.len() as u64, start) {
                    return Err(Unread::Damaged(start, "sections are missing"));
                }
                if parser.file.read(&mut [0])? > 0 {
                    return Err(Unread::Damaged(parser.offset, "there is something after its end"));
                }
                return Ok(Contents { time, secret, pieces });
            }
            _ => return Err(Unread::Damaged(start, "there is no section")),
        }
    }
}

/// The reader of a state file. It reads the header, the sections and the end one after the other, and keeps
/// the offset in the file and the checksum of the header, section or end that is being read.
struct Parser<R> {
    file: io::Take<R>,
    offset: u64,
    crc: u32,
}

impl<R: Read> Parser<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Unread> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => return Err(Unread::Damaged(self.offset, "it is cut")),
                Ok(length) => {
                    filled += length;
                    self.offset += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, Unread> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Result<usize, Unread> {
        self.array().map(|bytes| u16::from_le_bytes(bytes).into())
    }

    fn text(&mut self, length: usize) -> Result<String, Unread> {
        let mut bytes = vec![0; length];
        let start = self.offset;
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Unread::Damaged(start, "a name is not UTF-8"))
    }

    /// Reads a section after its tag. `start` is the offset of the tag.
    fn section(&mut self, start: u64) -> Result<SavedPiece, Unread> {
        let (name, class) = (self.length()?, self.length()?);
        let form = u16::from_le_bytes(self.array()?);
        let length = u32::from_le_bytes(self.array()?) as usize;
        // The length is checked here, because memory is allocated for it before the checksum of the section
        // can be verified.
        if length > MOST_BYTES {
            return Err(Unread::Damaged(start, "a section is too long"));
        }
        let element = SavedElement { name: self.text(name)?, class: self.text(class)?, form };
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        self.check(start)?;
        Ok(SavedPiece { element, bytes })
    }

    /// Reads and verifies the checksum of the header, section or end that begins at the offset `start`. The
    /// bytes after the checksum begin the next section, or the end.
    fn check(&mut self, start: u64) -> Result<(), Unread> {
        let expected = self.crc;
        let found = u32::from_le_bytes(self.array()?);
        self.crc = 0;
        if found == expected { Ok(()) } else { Err(Unread::Damaged(start, "a checksum is wrong")) }
    }
}

/// A state file that is being written. It is removed if it is not finished.
pub(crate) struct NewFile {
    file: Option<BufWriter<File>>,
    /// The temporary path of the file while it is written, and its path when it is finished.
    paths: [PathBuf; 2],
    sections: u64,
    length: u64,
    /// The bytes of the header, section or end that is written next.
    part: Vec<u8>,
}

/// Returns the path with `ending` appended to its name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

impl NewFile {
    /// Begins a file that is to replace the file at `path`. A file that an earlier run has left unfinished is
    /// removed.
    ///
    /// # Errors
    /// If the system does not let it be created.
    pub(crate) fn create(path: &Path, time: Timestamp, secret: u64) -> io::Result<NewFile> {
        let new = beside(path, ".new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // The file has addresses of users and a secret, so only its owner may read it. If another program
        // creates a file or symbolic link of this name after an unfinished file was removed, it is not
        // opened, and the save fails.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let file = Some(BufWriter::with_capacity(1 << 18, file));
        let (paths, part) = ([new, path.to_path_buf()], Vec::new());
        let mut made = NewFile { file, paths, sections: 0, length: 0, part };
        made.part.extend(MAGIC);
        made.part.extend(VERSION.to_le_bytes());
        made.part.extend(time.0.to_le_bytes());
        made.part.extend(secret.to_le_bytes());
        made.end_part()?;
        Ok(made)
    }

    /// Adds a piece of state.
    ///
    /// # Errors
    /// If the system does not let it be written, or the file would be too long to be read.
    pub(crate) fn add(&mut self, piece: &SavedPiece) -> io::Result<()> {
        let SavedPiece { element: SavedElement { name, class, form }, bytes } = piece;
        let lengths = [name, class].map(|text| u16::try_from(text.len()).ok());
        let [Some(of_name), Some(of_class)] = lengths else {
            return Err(io::Error::other(format!("the name of element {name:.40} is too long")));
        };
        if bytes.len() > MOST_BYTES || self.length + (bytes.len() + (1 << 18)) as u64 > MOST_LENGTH {
            return Err(io::Error::other(format!("the state is larger than {} MiB", MOST_LENGTH >> 20)));
        }
        self.part.push(SECTION);
        self.part.extend(of_name.to_le_bytes());
        self.part.extend(of_class.to_le_bytes());
        self.part.extend(form.to_le_bytes());
        self.part.extend((bytes.len() as u32).to_le_bytes());
        self.part.extend(name.as_bytes());
        self.part.extend(class.as_bytes());
        self.part.extend(bytes);
        self.sections += 1;
        self.end_part()
    }

    /// Writes the header, section or end whose bytes have been collected, and its checksum.
    fn end_part(&mut self) -> io::Result<()> {
        let checksum = crc32c::crc32c(&self.part);
        self.part.extend(checksum.to_le_bytes());
        self.length += self.part.len() as u64;
        if let Some(file) = &mut self.file {
            file.write_all(&self.part)?;
        }
        self.part.clear();
        Ok(())
    }

    /// Completes the file, and puts it in the place of the old file once the disk has it.
    ///
    /// # Errors
    /// If the system does not let it be written. The old file then stays.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let length = self.length;
        self.part.push(END);
        self.part.extend(self.sections.to_le_bytes());
        self.part.extend(length.to_le_bytes());
        self.end_part()?;
        let Some(file) = self.file.take() else { return Ok(()) };
        let [new, path] = &self.paths;
        let renamed = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
            file.sync_all()?;
            fs::rename(new, path)
        });
        if renamed.is_err() {
            let _ = fs::remove_file(new);
        }
        renamed?;
        // The new name of the file is on the disk only after the folder has been written to the disk, too.
        // The new file already has its final name, so an error of this write, such as a folder that may not
        // be read, is not reported. If the machine fails in this case, the old file may be back after the
        // restart.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.paths[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn piece(name: &str, bytes: Vec<u8>) -> SavedPiece {
        SavedPiece { element: SavedElement { name: name.into(), class: "C".into(), form: 3 }, bytes }
    }

    fn written(folder: &Path) -> Vec<u8> {
        let path = folder.join("state");
        let mut file = NewFile::create(&path, Timestamp(5), 7).unwrap();
        for (name, length) in [("a", 10), ("b/c", 0), ("a", 3000)] {
            file.add(&piece(name, vec![1; length])).unwrap();
        }
        file.finish().unwrap();
        fs::read(path).unwrap()
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        // After a file is written, no unfinished file is left in the folder: neither one of an earlier run
        // (`state.new`), nor one that is dropped before it is finished.
        fs::write(folder.path().join("state.new"), "half").unwrap();
        written(folder.path());
        let path = folder.path().join("state");
        drop(NewFile::create(&path, Timestamp(0), 0).unwrap());
        let Contents { time, secret, pieces } = read(&path).unwrap().unwrap();
        assert_eq!((time, secret), (Timestamp(5), 7));
        assert_eq!(pieces, [piece("a", vec![1; 10]), piece("b/c", vec![]), piece("a", vec![1; 3000])]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
        assert!(read(&folder.path().join("none")).unwrap().is_none());
        assert!(matches!(read(folder.path()), Err(Unread::Foreign)));
    }

    /// In a folder that a user may write but not read, a state file can be written. (Root may read each
    /// folder.)
    #[test]
    fn a_file_is_written_in_a_folder_that_may_not_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let allow = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        allow(0o300);
        let whole = written(folder.path());
        allow(0o700);
        assert!(parse(&whole[..]).is_ok());
    }

    #[test]
    fn every_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path());
        assert!(parse(&whole[..]).is_ok());
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "cut to {length}");
        }
        assert!(parse(&[&whole[..], b"x"].concat()[..]).is_err());
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(parse(&bytes[..]).is_err(), "bit {bit} of byte {at}");
            }
        }
        // A file in which a section is missing, or occurs twice, is damaged.
        let section = MAGIC.len() + 24..MAGIC.len() + 24 + 11 + 2 + 10 + size_of::<u32>();
        let rest = &whole[section.end..];
        assert!(parse(&[&whole[..section.start], rest].concat()[..]).is_err());
        assert!(parse(&[&whole[..section.end], &whole[section.clone()], rest].concat()[..]).is_err());
    }

    #[test]
    fn hostile_lengths_allocate_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = written(folder.path());
        let length = MAGIC.len() + 24 + 7;
        bytes[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = parse(&bytes[..]).unwrap_err().to_string();
        assert_eq!(error, "it is damaged at byte 40: a section is too long");
        // The inputs are made from the header of one written file, because writing a file takes long: it
        // waits until the file is on the disk.
        let header = &bytes[..MAGIC.len() + 24];
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let rest = (0..random.usize(..200)).map(|_| random.u8(..));
            let bytes: Vec<u8> = header.iter().copied().chain(rest).collect();
            assert!(parse(&bytes[..]).is_err());
        }
    }
}
