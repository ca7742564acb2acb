//! The texts of errors in messages of scripts.

use std::io;

use nix::errno::Errno;

/// Returns the system's text for an error, without the error number.
pub(super) fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().to_owned())
}

/// Returns a text of several lines after a line that says in which context it came up. The lines of the text
/// are indented by `indent`. If a line has the place of a mistake in a configuration, `FILE:LINE: `, the
/// place stays at the start of the line. As in Click, the context gets the place of the first line.
pub(super) fn in_context(context: &str, indent: &str, text: &str) -> String {
    let place = text.lines().next().map_or("", |line| split_place(line).0);
    let lines = text.lines().map(|line| {
        let (place, rest) = split_place(line);
        format!("\n{place}{indent}{rest}")
    });
    format!("{place}{context}{}", lines.collect::<String>())
}

/// Splits a line into the place `FILE:LINE: ` at its start, which may be empty, and the rest.
fn split_place(line: &str) -> (&str, &str) {
    let place = line.find(": ").and_then(|end| line.split_at_checked(end + 2));
    let is_place = |text: &str| {
        let (file, number) = text.rsplit_once(':').unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && !file.is_empty() && !file.contains(char::is_whitespace)
    };
    place.filter(|(place, _)| is_place(&place[..place.len() - 2])).unwrap_or(("", line))
}
