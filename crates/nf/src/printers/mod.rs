//! Common parts of elements that print descriptions of packets, such as IPPrint.
//!
//! A class implements `Describe`; `Printing` is the element. A `Printer` writes the text to a file or
//! with the other messages, and `dump` formats bytes.

pub mod arp_print;
pub mod ip6_print;
pub mod ip_print;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};

use element::args::parse_bool;
use element::chatter::DEFAULT_CHANNEL;
use element::effects::{Counting, Field};
use element::{Args, Batch, Cx, Effects, Element, Handler, Packet, WriteTimer};
use lang::args::unquote;
use packet::MAX_PACKET;

/// The form in which the bytes of a packet are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    None,
    Hex,
    /// Characters, with dots for characters that are not printable.
    Ascii,
}

impl Contents {
    /// Parses `NONE`, `HEX` or `ASCII`, or a truth value (true means `HEX`), in upper or lower case, with or
    /// without quotes; `None` for other words.
    pub(crate) fn parse(word: &str) -> Option<Contents> {
        let word = unquote(word);
        let upper = word.to_ascii_uppercase();
        match (upper.as_str(), parse_bool(&word.to_ascii_lowercase())) {
            ("HEX", _) | (_, Some(true)) => Some(Contents::Hex),
            ("NONE", _) | (_, Some(false)) => Some(Contents::None),
            ("ASCII", _) => Some(Contents::Ascii),
            _ => None,
        }
    }

    /// Returns the value of a CONTENTS argument with the text `word`. If it is invalid, reports an error
    /// and returns [`Contents::None`].
    pub(crate) fn from_word(args: &mut Args<'_>, word: &str) -> Contents {
        Contents::parse(word).unwrap_or_else(|| {
            let word = unquote(word).to_ascii_uppercase();
            args.error(format!("bad contents value '{word}'; should be 'NONE', 'HEX', or 'ASCII'"));
            Contents::None
        })
    }
}

/// Converts an argument such as MAXLENGTH to the maximum number of bytes that are printed: a negative
/// number means all bytes.
pub(crate) fn at_most(given: i64) -> usize {
    usize::try_from(given).unwrap_or(MAX_PACKET)
}

/// The positions of spaces and line ends in a dump of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The number of bytes in a group; groups are separated by a space.
    pub(crate) group: usize,
    /// The number of bytes per line. Each line, also the first, is preceded by a line end and two spaces.
    /// `None` for a dump in a single line without a line end.
    pub(crate) line: Option<usize>,
    /// True if there is a space ahead of the first group of a dump in a single line.
    pub(crate) leads: bool,
}

/// Returns the bytes of a packet from offset `start` on, at most `most` bytes, across slots.
pub(crate) fn bytes_from(packet: &Packet, start: usize, most: usize) -> impl Iterator<Item = u8> + '_ {
    packet.chunks().flatten().copied().skip(start).take(most)
}

/// Appends a dump of bytes to a text: in the form `contents`, with the spaces and line ends of `layout`.
pub(crate) fn dump(text: &mut String, bytes: impl Iterator<Item = u8>, contents: Contents, layout: Layout) {
    for (place, byte) in bytes.enumerate() {
        if layout.line.is_some_and(|line| place % line == 0) {
            text.push_str("\n  ");
        } else if place % layout.group == 0 && (place > 0 || layout.leads) {
            text.push(' ');
        }
        match contents {
            Contents::None => {}
            Contents::Hex => hex(text, byte),
            Contents::Ascii => text.push(if (32..=126).contains(&byte) { byte as char } else { '.' }),
        }
    }
}

/// Appends a byte to a text as two hexadecimal digits.
pub(crate) fn hex(text: &mut String, byte: u8) {
    for half in [byte >> 4, byte & 15] {
        text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
    }
}

/// The destination of lines about packets: a file, or standard error together with other messages. The
/// first write error is kept and returned by [`close`](Self::close).
pub(crate) struct Printer {
    path: Option<String>,
    file: Option<BufWriter<File>>,
    timer: WriteTimer,
    fault: Option<String>,
    /// The channel that text goes to if there is no file; `None` for standard error.
    channel: Option<String>,
}

impl Printer {
    pub(crate) fn new(path: Option<String>) -> Printer {
        Printer { path, file: None, timer: WriteTimer::default(), fault: None, channel: None }
    }

    /// Returns a printer whose text goes to this channel if there is no file.
    pub(crate) fn on_channel(self, channel: Option<String>) -> Printer {
        Printer { channel, ..self }
    }

    /// Opens the output file, if a path was given. In general the file is created or emptied. If the running
    /// configuration writes the same file, a reload appends to it, because the file must stay as it is if the
    /// reload is refused.
    ///
    /// # Errors
    /// If the file cannot be created; the text has the path and the reason.
    pub(crate) fn open(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let is_continued = cx.check_unwritten(path).is_err();
        // The file is opened for appending, because the element of the running configuration and the element
        // that replaces it in a reload may both write to it for a while.
        let opened = OpenOptions::new().create(true).append(true).open(path).and_then(|file| {
            if !is_continued && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        });
        self.file = Some(BufWriter::new(opened.map_err(|error| format!("{path}: {}", reason(&error)))?));
        Ok(())
    }

    /// Writes a text and a line end to the file or to standard error.
    pub(crate) fn line(&mut self, cx: &mut Cx<'_>, text: &str) {
        let Some(file) = &mut self.file else {
            let channel = self.channel.as_deref().unwrap_or(DEFAULT_CHANNEL);
            return cx.messages().message_to(channel, format_args!("{text}\n"));
        };
        if let Err(error) = writeln!(file, "{text}") {
            self.fault.get_or_insert_with(|| reason(&error));
        }
    }

    /// Starts the element's timer, which calls the element with `token`, if text is buffered and the timer is
    /// not running. The element then calls [`write_out`](Self::write_out), so that the text is in the file
    /// within a second. Under the trace clock, no timer is started ([`WriteTimer`]).
    fn set_timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if self.file.as_ref().is_some_and(|file| !file.buffer().is_empty()) {
            self.timer.start(cx, token);
        }
    }

    /// Writes the buffered text to the file; called when the timer of [`set_timer`](Self::set_timer) has
    /// expired.
    fn write_out(&mut self) {
        self.timer.end();
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.fault.get_or_insert_with(|| reason(&error));
        }
    }

    /// Writes the buffered text, and closes the file.
    ///
    /// # Errors
    /// If this or an earlier write to the file failed; the text has the path and the first reason.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        let flushed = self.file.take().map_or(Ok(()), |mut file| file.flush());
        let fault = self.fault.take().or(flushed.err().map(|error| reason(&error)));
        match (fault, &self.path) {
            (Some(fault), Some(path)) => Err(format!("{path}: {fault}")),
            _ => Ok(()),
        }
    }
}

/// The part of a printing element that depends on its class: makes a text from a packet.
pub(crate) trait Describe: 'static + Send {
    /// Returns the fields on which the text depends.
    fn seen(&self) -> Vec<Field>;

    /// Appends the description of a packet to `text`, which is empty. Returns `None` if the packet is not
    /// printed.
    fn describe(&mut self, packet: &Packet, text: &mut String) -> Option<()>;
}

/// An element that prints a description of each packet, unless it is not active, and forwards the packet.
pub(crate) struct Printing<D> {
    what: D,
    active: bool,
    printer: Printer,
    /// The text of the current packet; a buffer that is kept for its memory.
    text: String,
}

impl<D: Describe> Printing<D> {
    pub(crate) fn new(what: D, active: bool, printer: Printer) -> Printing<D> {
        Printing { what, active, printer, text: String::new() }
    }
}

impl<D: Describe> Element for Printing<D> {
    fn effects(&self) -> Effects {
        Effects::pass().observing(&self.what.seen()).counting(Counting::Own)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.printer.open(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter() {
            self.text.clear();
            if self.what.describe(packet, &mut self.text).is_some() {
                self.printer.line(cx, &self.text);
            }
        }
        self.printer.set_timer(cx, 0);
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.printer.write_out();
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.printer.close()
    }
}

impl<D: Describe> Printing<D> {
    /// The handlers of printing elements: `active`.
    pub(crate) const HANDLERS: &'static [Handler<Self>] =
        &[Handler::flag("active", |e| &mut e.active, "expected boolean")];
}

/// Returns the system's text for an error, without the error number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(bytes: &[u8], contents: Contents, group: usize, line: Option<usize>, leads: bool) -> String {
        let mut text = String::new();
        dump(&mut text, bytes.iter().copied(), contents, Layout { group, line, leads });
        text
    }

    #[test]
    fn spaces_and_lines() {
        let bytes: Vec<u8> = (0..26).collect();
        let lines = "\n  00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617\n  1819";
        assert_eq!(dumped(&bytes, Contents::Hex, 4, Some(24), false), lines);
        assert_eq!(dumped(&bytes[..5], Contents::Hex, 4, None, false), "00010203 04");
        assert_eq!(dumped(b"abcdefghi\x7f", Contents::Ascii, 8, None, true), " abcdefgh i.");
        assert_eq!(dumped(b"", Contents::Hex, 4, Some(24), true), "");
    }

    #[test]
    fn words_for_contents() {
        let words = ["hex", "TRUE", "no", "None", "'ascii'", "octal"].map(Contents::parse);
        let [hex, none, ascii] = [Contents::Hex, Contents::None, Contents::Ascii].map(Some);
        assert_eq!(words, [hex, hex, none, none, ascii, None]);
    }
}
