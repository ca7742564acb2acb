//! Messages of commands on standard error.
//!
//! If standard error is systemd's journal, each line begins with its severity, as in sd-daemon(3), and the
//! errors of a configuration have one line each instead of a picture of the text.

use std::fmt::Arguments;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use lang::Severity;

/// True if standard error is systemd's journal. systemd gives the device and the inode in a variable, which
/// programs inherit whose standard error is another file (systemd.exec(5)).
pub(crate) fn is_journal() -> bool {
    static IS_JOURNAL: LazyLock<bool> = LazyLock::new(|| {
        let Ok(listed) = std::env::var("JOURNAL_STREAM") else { return false };
        let own = rustix::fs::fstat(std::io::stderr().as_fd());
        own.is_ok_and(|own| listed == format!("{}:{}", own.st_dev, own.st_ino))
    });
    *IS_JOURNAL
}

/// Writes a text of this severity to standard error, and ends its last line if it has no end. Errors, such
/// as a closed standard error, are ignored.
pub(crate) fn say(severity: Severity, text: &str) {
    let mut lines = String::with_capacity(text.len() + 8);
    for line in text.lines() {
        if is_journal() {
            lines += match severity {
                Severity::Error => "<3>",
                Severity::Warning => "<4>",
                Severity::Note => "<6>",
            };
        }
        lines += line;
        lines += "\n";
    }
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// Writes a line to standard error.
pub(crate) fn tell(text: Arguments<'_>) {
    say(Severity::Note, &text.to_string());
}

/// Writes a line about something that a user should look at to standard error.
pub(crate) fn warn(text: Arguments<'_>) {
    say(Severity::Warning, &text.to_string());
}

/// Writes text to standard error as it is, without a line end. Errors are ignored.
pub(crate) fn show(text: Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}
