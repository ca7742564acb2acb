//! The server's side of Click's control protocol, version 1.3. A [`Session`] takes the bytes that a client
//! sends, executes commands, and produces numbered replies and data. A session knows no sockets: `mod.rs`
//! reads and writes them.

use element::args::parse_integer;
use element::{Call, ElementId};

/// The line that the server sends first on each connection: the name and the version of the protocol.
pub(super) const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// The largest number of bytes without a line end, and the largest number of bytes of data for a command. If
/// a client sends or announces more, it gets an error and is disconnected. The limits protect the memory of
/// the program.
const MOST_LINE: usize = 1 << 20;
const MOST_DATA: usize = 16 << 20;
/// The number of unsent bytes of output from which on no further command is executed, until the client has
/// taken the replies.
const MUCH_OUTPUT: usize = 1 << 20;

/// The size in bytes of an empty input buffer whose memory is kept for the next command.
const SPARE: usize = 64 << 10;

/// Access to the handlers that clients can call.
pub(super) trait Handlers {
    /// Returns the element with this name, or with this number, counted from 1; `None` if there is none.
    fn element(&self, name: &str) -> Option<ElementId>;
    /// Returns the element that answers for all elements (PROXY); `None` if there is none.
    fn proxy(&self) -> Option<ElementId> {
        None
    }
    /// True if the handler in `call` can be written (`write` true) or read (`write` false).
    fn has(&self, call: &Call, write: bool) -> bool;
    /// True if reading the handler in `call` may run a script, which may change the graph.
    fn runs_script(&self, _call: &Call) -> bool {
        false
    }
    /// Reads a handler. An error is the reason that the client gets.
    fn read(&mut self, call: &Call) -> Result<String, String>;
    /// Writes a handler. An error is the reason that the client gets; it may be empty. `None` if the result
    /// comes later ([`Session::answered`]).
    fn write(&mut self, call: &Call) -> Option<Result<(), String>>;
}

/// The operation of a command on a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
    /// An LLRPC: Click's call of an element's function by number, with data. No element here has such
    /// functions.
    Llrpc,
}

/// The way in which the end of a command's data is found: after a number of bytes, or before a given line.
enum Rest {
    Bytes(usize),
    /// The data are the lines before a line with this text.
    Lines(String),
}

/// The state of one connection: its input, its output, and the command in progress.
#[derive(Default)]
pub(super) struct Session {
    input: Vec<u8>,
    /// The offset in `input` of the first byte that has not been used. Used bytes are removed later.
    start: usize,
    /// The number of bytes after `start` that have been searched without success: for the end of a line, or
    /// for the line that ends the data.
    searched: usize,
    /// True if the last line ended with a CR, so that an LF that follows belongs to the end of that line.
    after_return: bool,
    /// The bytes that have not been sent to the client.
    pub(super) output: Vec<u8>,
    /// A command whose data have not all arrived: its operation, the name of its handler, and the way in
    /// which its data end.
    waiting: Option<(Verb, String, Rest)>,
    /// The name of the handler that has been written and whose result comes later. No further command is
    /// executed until the result has come.
    awaited: Option<String>,
    /// True if the client has closed its side of the connection, so that no more input will arrive.
    ended: bool,
    /// True if the client has sent a line that is not empty. Only the first such line is checked for HTTP.
    begun: bool,
    /// True if the connection is to be closed as soon as `output` has been sent.
    pub(super) quits: bool,
    /// True if clients may not write handlers (READONLY).
    pub(super) read_only: bool,
}

impl Session {
    /// Creates the state of a new connection, with the greeting as its output.
    pub(super) fn new(read_only: bool) -> Session {
        Session { output: GREETING.to_vec(), read_only, ..Session::default() }
    }

    /// Appends bytes that have arrived to the input. An empty slice means that the client has closed its side
    /// of the connection.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        // If there is no memory for the input, the client is disconnected.
        self.quits |= self.input.try_reserve(bytes.len()).is_err();
        if !self.quits {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Executes the commands whose data have arrived, until `MUCH_OUTPUT` bytes of output are waiting, a
    /// result is awaited, or the connection is to be closed. Returns true if it stopped because of the amount
    /// of output. Then the caller has to call it again after the output has been sent.
    pub(super) fn execute(&mut self, handlers: &mut dyn Handlers) -> bool {
        while !self.quits && self.output.len() < MUCH_OUTPUT && self.awaited.is_none() {
            let done = match self.waiting.take() {
                Some((verb, handler, Rest::Bytes(n))) => self.take_bytes(handlers, verb, handler, n),
                Some((verb, handler, Rest::Lines(end))) => self.take_lines(handlers, verb, handler, end),
                None => match self.take_line() {
                    Some(line) => {
                        self.command(handlers, &line);
                        true
                    }
                    None => false,
                },
            };
            if !done {
                self.quits |= self.ended;
                break;
            }
        }
        // Input that has been used is removed only once per call of this function. Its removal after each
        // line would move all remaining bytes each time.
        self.input.drain(..std::mem::take(&mut self.start));
        if self.input.is_empty() && self.input.capacity() > SPARE {
            self.input = Vec::new();
        }
        !self.quits && self.output.len() >= MUCH_OUTPUT
    }

    /// Returns the part of the input that has not been used.
    fn rest(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Marks `n` bytes of the input as used. The search for a line end begins again after them.
    fn advance(&mut self, n: usize) {
        self.start += n;
        self.searched = 0;
    }

    /// Marks an LF as used that is the next byte of the input and follows the CR of the last line: it belongs
    /// to the end of that line. Waits for the next byte if none has arrived.
    fn skip_line_feed(&mut self) {
        if std::mem::take(&mut self.after_return) {
            match self.rest().first() {
                Some(b'\n') => self.advance(1),
                Some(_) => {}
                None => self.after_return = true,
            }
        }
    }

    /// Takes the next line out of the input, without its end: CR, LF, or CR and LF. Returns `None` if no
    /// whole line has arrived; if more than `MOST_LINE` bytes of it have, also ends the session with an
    /// error. After the client has closed its side, the remaining bytes are a line, too.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        self.skip_line_feed();
        let searched = self.searched;
        let Some(end) = self.rest()[searched..].iter().position(|&b| b == b'\r' || b == b'\n') else {
            self.searched = self.rest().len();
            if self.searched > MOST_LINE {
                self.give_up("Line too long");
                return None;
            }
            if !self.ended || self.rest().is_empty() {
                return None;
            }
            let line = self.rest().to_vec();
            self.advance(line.len());
            return Some(line);
        };
        let end = searched + end;
        self.after_return = self.rest()[end] == b'\r';
        let line = self.rest()[..end].to_vec();
        self.advance(end + 1);
        Some(line)
    }

    fn take_bytes(&mut self, handlers: &mut dyn Handlers, verb: Verb, handler: String, n: usize) -> bool {
        self.skip_line_feed();
        if self.rest().len() < n {
            if self.ended {
                self.reply(500, "Not enough data");
            } else {
                self.waiting = Some((verb, handler, Rest::Bytes(n)));
            }
            return false;
        }
        let data = self.rest()[..n].to_vec();
        self.advance(n);
        match verb {
            Verb::Llrpc => self.llrpc(handlers, &handler),
            Verb::Read | Verb::Write => self.call(handlers, verb, &handler, &data),
        }
        true
    }

    fn take_lines(&mut self, handlers: &mut dyn Handlers, verb: Verb, handler: String, end: String) -> bool {
        self.skip_line_feed();
        // The lines ahead of the offset `searched` have already been compared with the line that ends the
        // data.
        while let Some(n) = self.rest()[self.searched..].iter().position(|&b| b == b'\n' || b == b'\r') {
            let at = self.searched;
            // If the last byte that has arrived is a CR, an LF that belongs to the same line end may still
            // follow.
            let length = match &self.rest()[at + n..] {
                [b'\r', b'\n', ..] => n + 2,
                [b'\r'] if !self.ended => break,
                _ => n + 1,
            };
            if self.rest()[at..at + n].trim_ascii_end() == end.as_bytes() {
                let data = self.rest()[..at].to_vec();
                self.advance(at + length);
                self.call(handlers, verb, &handler, &data);
                return true;
            }
            self.searched = at + length;
        }
        if self.rest().len() > MOST_DATA {
            self.give_up("Data too big");
        } else if self.ended {
            self.reply(500, "Not enough data");
        } else {
            self.waiting = Some((verb, handler, Rest::Lines(end)));
        }
        false
    }

    fn give_up(&mut self, why: &str) {
        self.reply(521, why);
        self.quits = true;
    }

    fn command(&mut self, handlers: &mut dyn Handlers, bytes: &[u8]) {
        let line = &*String::from_utf8_lossy(bytes);
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(first) = words.first() else { return };
        if !std::mem::replace(&mut self.begun, true) && is_http(&words) {
            // A web page can make a browser send data that contain commands, after the headers of a request.
            // The connection is closed before the session reads such data.
            return self.give_up("This is no HTTP server");
        }
        let name = first.to_ascii_uppercase();
        let verb = if matches!(name.as_str(), "READ" | "GET" | "READDATA" | "READUNTIL" | "CHECKREAD") {
            Verb::Read
        } else {
            Verb::Write
        };
        match (name.as_str(), words.as_slice()) {
            ("READ" | "GET" | "WRITE" | "SET", [_, handler, ..]) => {
                // The text and the bytes of the line differ in length if bytes that are not UTF-8 were
                // replaced. In this case, the original bytes of the line are passed as the value, because
                // `call` refuses a value that is not UTF-8.
                let value =
                    if line.len() == bytes.len() { value_behind(line, handler).as_bytes() } else { bytes };
                self.call(handlers, verb, handler, value);
            }
            ("READDATA" | "WRITEDATA" | "SETDATA", [_, handler, length]) => {
                self.wait_for(verb, first, handler, length);
            }
            ("READUNTIL" | "WRITEUNTIL", [_, handler, ..]) => {
                let end = value_behind(line, handler).to_string();
                self.waiting = Some((verb, (*handler).to_string(), Rest::Lines(end)));
            }
            ("CHECKREAD" | "CHECKWRITE", [_, handler]) => self.check(handlers, verb, handler),
            ("LLRPC", [_, name]) => self.llrpc(handlers, name),
            ("LLRPC", [_, name, length]) => self.wait_for(Verb::Llrpc, first, name, length),
            ("QUIT" | "CLOSE", words) => {
                if words.len() > 1 {
                    self.reply(500, "Bad command syntax");
                }
                self.reply(200, "Goodbye!");
                self.quits = true;
            }
            ("HELP", _) => self.reply(200, HELP),
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA" | "READUNTIL"
                | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC",
                _,
            ) => self.reply(500, "Wrong number of arguments"),
            _ => self.reply(501, &format!("Command '{name}' unimplemented")),
        }
    }

    /// Returns a call of the handler with this name, if the operation is possible. Otherwise appends a
    /// reply with the reason and returns `None`.
    fn find(&mut self, handlers: &dyn Handlers, verb: Verb, name: &str, value: String) -> Option<Call> {
        let (element, handler) = match (handlers.proxy(), name.split_once('.')) {
            // In place of a handler `H` of an element `E`, the handler named `E.H` of the proxy element is
            // called.
            (Some(proxy), Some(("" | "0", handler))) => (Some(proxy), handler),
            (Some(proxy), _) => (Some(proxy), name),
            (None, None) => (None, name),
            (None, Some(("" | "0", handler))) => (None, handler),
            (None, Some((element, handler))) => {
                let Some(id) = handlers.element(element) else {
                    self.reply(510, &format!("No element named '{element}'"));
                    return None;
                };
                (Some(id), handler)
            }
        };
        let proxied = if handlers.proxy().is_some() { "proxied " } else { "" };
        let call = Call::new(element, handler, value);
        let (reads, writes) = (handlers.has(&call, false), handlers.has(&call, true));
        match verb {
            _ if !reads && !writes => self.reply(511, &format!("No {proxied}handler named '{name}'")),
            Verb::Read if !reads => self.reply(530, &format!("Handler '{name}' write-only")),
            Verb::Write if !writes => self.reply(530, &format!("Handler '{name}' read-only")),
            // A script that a read runs may write handlers.
            _ if self.read_only && (verb == Verb::Write || handlers.runs_script(&call)) => {
                self.reply(530, &format!("Permission denied for '{name}'"));
            }
            _ => return Some(call),
        }
        None
    }

    /// Makes the next `length` bytes of the input the data of a command. Appends an error if `length` is no
    /// number or too large; if it is too large, the connection is closed.
    fn wait_for(&mut self, verb: Verb, command: &str, name: &str, length: &str) {
        match parse_integer(length).map(usize::try_from) {
            Ok(Ok(n)) if n <= MOST_DATA => self.waiting = Some((verb, name.to_string(), Rest::Bytes(n))),
            Ok(n) if n.is_ok() || !length.starts_with('-') => self.give_up("Data too big"),
            _ => self.reply(500, &format!("Syntax error in '{}'", command.to_ascii_lowercase())),
        }
    }

    /// Appends the error reply to the command LLRPC (a call of an element's function by number): its name or
    /// element is wrong, or elements have no such functions.
    fn llrpc(&mut self, handlers: &dyn Handlers, name: &str) {
        match name.split_once('#') {
            Some((element, number)) if u32::from_str_radix(number, 16).is_ok() => {
                if self.find(handlers, Verb::Read, &format!("{element}.name"), String::new()).is_some() {
                    self.reply(501, &format!("Cannot call LLRPC '{name}' remotely"));
                }
            }
            _ => self.reply(500, &format!("Syntax error in LLRPC name '{name}'")),
        }
    }

    fn call(&mut self, handlers: &mut dyn Handlers, verb: Verb, name: &str, value: &[u8]) {
        let text = std::str::from_utf8(value);
        let Some(call) = self.find(handlers, verb, name, text.unwrap_or_default().to_string()) else {
            return;
        };
        if text.is_err() {
            // A value that is not UTF-8 is refused, because the handler would otherwise get other bytes than
            // the client has sent.
            let (code, what) = if verb == Verb::Read { (590, "Read") } else { (520, "Write") };
            return self.reply(code, &format!("{what} handler '{name}' error:\nvalue is not UTF-8 text"));
        }
        match verb {
            Verb::Llrpc => {}
            Verb::Read => match handlers.read(&call) {
                Ok(value) => {
                    self.reply(200, &format!("Read handler '{name}' OK"));
                    self.output.extend_from_slice(format!("DATA {}\r\n", value.len()).as_bytes());
                    self.output.extend_from_slice(value.as_bytes());
                }
                Err(reason) => self.reply(590, &format!("Read handler '{name}' error:\n{reason}")),
            },
            Verb::Write => match handlers.write(&call) {
                Some(result) => self.written(name, result),
                None => self.awaited = Some(name.to_string()),
            },
        }
    }

    /// Returns the number of bytes that are kept for the client: input that has not been used, and output
    /// that has not been sent.
    pub(super) fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// True if the client has to go on: it has sent a part of a command, or has not taken all replies.
    pub(super) fn is_halfway(&self) -> bool {
        self.waiting.is_some() || self.kept() > 0
    }

    /// True if the result of a handler that has been written comes later.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Takes the result of the handler that was awaited.
    pub(super) fn answered(&mut self, result: Result<(), String>) {
        if let Some(name) = self.awaited.take() {
            self.written(&name, result);
        }
    }

    /// Appends the reply for a handler that has been written.
    fn written(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.reply(200, &format!("Write handler '{name}' OK")),
            Err(reason) if reason.is_empty() => {
                self.reply(520, &format!("Write handler '{name}' error"));
            }
            Err(reason) => self.reply(520, &format!("Write handler '{name}' error:\n{reason}")),
        }
    }

    fn check(&mut self, handlers: &dyn Handlers, verb: Verb, name: &str) {
        let mut quiet = Session::new(self.read_only);
        if quiet.find(handlers, verb, name, String::new()).is_some() {
            let verb = if verb == Verb::Read { "Read" } else { "Write" };
            self.reply(200, &format!("{verb} handler '{name}' OK"));
        } else if quiet.output[GREETING.len()..].starts_with(b"530 Handler") {
            let what = if verb == Verb::Read { "readable" } else { "writable" };
            self.reply(511, &format!("Handler '{name}' not {what}"));
        } else {
            self.output.extend_from_slice(&quiet.output[GREETING.len()..]);
        }
    }

    /// Appends a reply of one or more lines. Each line begins with the code; a dash after the code marks
    /// all lines but the last one.
    fn reply(&mut self, code: u32, lines: &str) {
        let lines: Vec<&str> = lines.trim_end_matches('\n').split('\n').collect();
        for (i, line) in lines.iter().enumerate() {
            let mark = if i + 1 < lines.len() { '-' } else { ' ' };
            self.output.extend_from_slice(format!("{code}{mark}{}\r\n", printable(line)).as_bytes());
        }
    }
}

/// True if the words of a client's first line are an HTTP request, or the header `Host`, which requests of
/// browsers have. An HTTP request has three words, the last of which is a version. READ, WRITE and SET with
/// such a value are taken for commands; `GET`, which exists in both protocols, is taken for a request.
fn is_http(words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default().to_ascii_uppercase();
    let is_command = matches!(first.as_str(), "READ" | "WRITE" | "SET");
    let has_version = words.last().is_some_and(|last| last.to_ascii_uppercase().starts_with("HTTP/"));
    first.starts_with("HOST:") || (words.len() == 3 && has_version && !is_command)
}

/// Returns the text after the handler's name, which is the second word of a line. Blanks at its ends are
/// removed, and blanks inside are kept.
fn value_behind<'a>(line: &'a str, handler: &str) -> &'a str {
    let behind_command =
        line.trim_start().split_once(|c: char| c.is_ascii_whitespace()).map_or("", |(_, r)| r);
    behind_command.trim_start().strip_prefix(handler).unwrap_or_default().trim()
}

/// Replaces each byte that is not a printable ASCII character by `^X` or by an octal number, as Click does.
/// So the result contains no line ends.
fn printable(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for byte in line.bytes() {
        match byte {
            0..32 => out.extend(['^', char::from(byte + 64)]),
            32..127 => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

const HELP: &str = "\
Commands supported:
READ handler [arg...]   call read handler, return DATA
READDATA handler len    call read handler with len data bytes, return DATA
READUNTIL handler term  call read handler, take data until term, return DATA
WRITE handler [arg...]  call write handler
WRITEDATA handler len   call write handler, pass len data bytes
WRITEUNTIL handler term call write handler, take data until term
CHECKREAD handler       check if read handler is valid
CHECKWRITE handler      check if write handler is valid
LLRPC elt#number [len]  call LLRPC, pass len data bytes, return DATA
QUIT                    close connection";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The handlers of an element `e` (`r` and `name` for reading, `w` for writing, `both`), and the handler
    /// `list` without an element. A call with the value `bad` fails.
    #[derive(Default)]
    struct Fake(Vec<String>);

    impl Handlers for Fake {
        fn element(&self, name: &str) -> Option<ElementId> {
            ["e", "1"].contains(&name).then_some(0)
        }

        fn has(&self, call: &Call, write: bool) -> bool {
            let list: &[&str] = if write { &["w", "both"] } else { &["r", "both", "name"] };
            call.element.is_some() && list.contains(&call.handler.as_str()) || call.handler == "list"
        }

        fn read(&mut self, call: &Call) -> Result<String, String> {
            match call.value.as_str() {
                "bad" => Err("one\ntwo".into()),
                value => Ok(format!("<{value}>")),
            }
        }

        fn write(&mut self, call: &Call) -> Option<Result<(), String>> {
            self.0.push(call.value.clone());
            match call.value.as_str() {
                "bad" => Some(Err("no".into())),
                "later" => None,
                _ => Some(Ok(())),
            }
        }
    }

    fn talk(input: &[u8], pieces: usize) -> (String, Vec<String>) {
        let (mut session, mut fake) = (Session::new(false), Fake::default());
        for piece in input.chunks(pieces.max(1)) {
            session.take_in(piece);
            while session.execute(&mut fake) {}
        }
        session.take_in(&[]);
        while session.execute(&mut fake) {}
        assert!(session.quits);
        let output = session.output.strip_prefix(GREETING).unwrap();
        (String::from_utf8(output.to_vec()).unwrap(), fake.0)
    }

    #[test]
    fn commands_and_replies() {
        let cases: &[(&str, &str)] = &[
            ("READ e.r\r\n", "200 Read handler 'e.r' OK\r\nDATA 2\r\n<>"),
            ("get 1.r  a  b \n", "200 Read handler '1.r' OK\r\nDATA 6\r\n<a  b>"),
            ("READ list\r", "200 Read handler 'list' OK\r\nDATA 2\r\n<>"),
            ("READ .list", "200 Read handler '.list' OK\r\nDATA 2\r\n<>"),
            ("READ e.r bad\n", "590-Read handler 'e.r' error:\r\n590-one\r\n590 two\r\n"),
            ("READDATA e.r 3\r\na\nb", "200 Read handler 'e.r' OK\r\nDATA 5\r\n<a\nb>"),
            ("READDATA e.r 9\r\na", "500 Not enough data\r\n"),
            ("READDATA e.r x\n", "500 Syntax error in 'readdata'\r\n"),
            (
                "READUNTIL e.r END\nx\ny\nEND \nREAD e.r",
                concat!(
                    "200 Read handler 'e.r' OK\r\nDATA 6\r\n<x\ny\n>",
                    "200 Read handler 'e.r' OK\r\nDATA 2\r\n<>",
                ),
            ),
            ("WRITE e.r\n", "530 Handler 'e.r' read-only\r\n"),
            ("READ e.w\n", "530 Handler 'e.w' write-only\r\n"),
            ("READ x.w\n", "510 No element named 'x'\r\n"),
            ("READ e.z\n", "511 No handler named 'e.z'\r\n"),
            ("WRITE e.w 1\n", "200 Write handler 'e.w' OK\r\n"),
            ("WRITE e.w bad\n", "520-Write handler 'e.w' error:\r\n520 no\r\n"),
            ("CHECKREAD e.r\n", "200 Read handler 'e.r' OK\r\n"),
            ("CHECKWRITE e.r\n", "511 Handler 'e.r' not writable\r\n"),
            ("CHECKREAD x.r\n", "510 No element named 'x'\r\n"),
            ("READ\n", "500 Wrong number of arguments\r\n"),
            ("\r\n \r\nfoo\x01 bar\n", "501 Command 'FOO^A' unimplemented\r\n"),
            ("LLRPC e#1\n", "501 Cannot call LLRPC 'e#1' remotely\r\n"),
            (
                "LLRPC e#1F 0x5\nQUIT\nLLRPC x#1",
                "501 Cannot call LLRPC 'e#1F' remotely\r\n510 No element named 'x'\r\n",
            ),
            (
                "LLRPC e 1\nxLLRPC e#1 x",
                "500 Syntax error in LLRPC name 'e'\r\n500 Syntax error in 'llrpc'\r\n",
            ),
            ("READUNTIL e.r the  end \na\rthe  end\t\r\n", "200 Read handler 'e.r' OK\r\nDATA 4\r\n<a\r>"),
            ("READDATA e.r -1\n", "500 Syntax error in 'readdata'\r\n"),
            ("QUIT\nREAD e.r\n", "200 Goodbye!\r\n"),
            ("HELPLESS\x7f\n", "501 Command 'HELPLESS\\177' unimplemented\r\n"),
            (
                "READ e.r\rREAD e.r\r\n\nREADDATA e.r 1\r\nxREADDATA e.r 1\ry",
                concat!(
                    "200 Read handler 'e.r' OK\r\nDATA 2\r\n<>200 Read handler 'e.r' OK\r\nDATA 2\r\n<>",
                    "200 Read handler 'e.r' OK\r\nDATA 3\r\n<x>200 Read handler 'e.r' OK\r\nDATA 3\r\n<y>",
                ),
            ),
            ("quit now\n", "500 Bad command syntax\r\n200 Goodbye!\r\n"),
        ];
        for (input, output) in cases {
            for pieces in [1, 3, 1000] {
                assert_eq!(talk(input.as_bytes(), pieces).0, *output, "{input:?} in pieces of {pieces}");
            }
        }
    }

    #[test]
    fn values_arrive_as_they_were_sent() {
        let (_, written) = talk(b"WRITE e.w  \"a b\"  c\nWRITEDATA e.w 4\n\n\r\"x\nWRITE e.w\n", 2);
        assert_eq!(written, ["\"a b\"  c", "\n\r\"x", ""]);
    }

    /// After the CR that ends a command's line, one LF belongs to the line end. A further LF is data, even if
    /// the data arrive later than the command.
    #[test]
    fn data_may_start_with_a_line_feed() {
        let input = b"WRITEDATA e.w 2\r\n\nxWRITEDATA e.w 2\r\n\n\nWRITEUNTIL e.w END\r\n\ny\r\nEND\r\n\
                      WRITEDATA e.w 0\r\nWRITEDATA e.w 1\r\n\nWRITEDATA e.w 1\r\n\r\nWRITEDATA e.w 1\rz";
        for pieces in 1..=input.len() {
            let (_, written) = talk(input, pieces);
            assert_eq!(written, ["\nx", "\n\n", "\ny\r\n", "", "\n", "\r", "z"], "in pieces of {pieces}");
        }
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for input in [&b"WRITE e.w \xff\n"[..], b"WRITEDATA e.w 2\n\xc3\x28", b"WRITEUNTIL e.w\n\xff\n\n"] {
            let refused = "520-Write handler 'e.w' error:\r\n520 value is not UTF-8 text\r\n";
            assert_eq!(talk(input, 1), (refused.to_string(), Vec::new()));
        }
        assert_eq!(talk("WRITE e.w \u{e9}\n".as_bytes(), 1).1, ["\u{e9}"]);
    }

    #[test]
    fn a_proxy_gets_the_whole_name() {
        struct Proxy;
        impl Handlers for Proxy {
            fn element(&self, _: &str) -> Option<ElementId> {
                None
            }
            fn proxy(&self) -> Option<ElementId> {
                Some(7)
            }
            fn has(&self, call: &Call, write: bool) -> bool {
                call.element == Some(7) && !write && call.handler != "x.none"
            }
            fn read(&mut self, call: &Call) -> Result<String, String> {
                Ok(call.handler.clone())
            }
            fn write(&mut self, _: &Call) -> Option<Result<(), String>> {
                Some(Ok(()))
            }
        }
        let mut session = Session::new(false);
        session.take_in(b"READ a.b\nREAD .list\nREAD x.none\n");
        session.execute(&mut Proxy);
        let output = String::from_utf8_lossy(&session.output[GREETING.len()..]).into_owned();
        let expected = "200 Read handler 'a.b' OK\r\nDATA 3\r\na.b200 Read handler '.list' OK\r\nDATA 4\r\nlist\
                        511 No proxied handler named 'x.none'\r\n";
        assert_eq!(output, expected);
    }

    #[test]
    fn read_only_sessions_do_not_write() {
        let (mut session, mut fake) = (Session::new(true), Fake::default());
        session.take_in(b"WRITE e.w 1\nREAD e.r\n");
        session.execute(&mut fake);
        assert!(fake.0.is_empty());
        assert!(
            String::from_utf8_lossy(&session.output).contains("530 Permission denied for 'e.w'\r\n200 Read")
        );
    }

    #[test]
    fn what_a_browser_sends_is_not_carried_out() {
        let beginnings = [
            "GET / HTTP/1.1",
            "get /e.w HTTP/1.0",
            "POST /x HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "PUT http://localhost:7777/ http/2",
            "\r\nHEAD / HTTP/1.1",
            "Host: localhost:7777",
            "host:x",
        ];
        for beginning in beginnings {
            let input = format!("{beginning}\r\nHost: localhost\r\n\r\nx\r\nWRITE e.w 1\r\n");
            for pieces in [1, 7, 1000] {
                let refused = ("521 This is no HTTP server\r\n".to_string(), Vec::new());
                assert_eq!(talk(input.as_bytes(), pieces), refused, "{input:?}");
            }
        }
        let (_, written) = talk(b"WRITE e.w HTTP/1.1\nGET e.r HTTP/1.1\nHost: x\nset e.w 2\n", 3);
        assert_eq!(written, ["HTTP/1.1", "2"]);
    }

    #[test]
    fn endless_lines_and_data_end_the_connection() {
        let (mut session, mut fake) = (Session::new(false), Fake::default());
        session.take_in(&vec![b'x'; MOST_LINE + 1]);
        session.execute(&mut fake);
        assert!(session.quits && String::from_utf8_lossy(&session.output).ends_with("521 Line too long\r\n"));
        let (reply, _) = talk(b"WRITEDATA e.w 99999999999\nQUIT\n", 10);
        assert_eq!(reply, "521 Data too big\r\n");
    }

    proptest! {
        #[test]
        fn garbage_gets_replies(input in prop::collection::vec(any::<u8>(), 0..300), pieces in 1usize..40) {
            let (whole, _) = talk(&input, input.len());
            let (parts, _) = talk(&input, pieces);
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn commands_from_words(words in prop::collection::vec(prop::sample::select(vec![
            "READ", "write", "WRITEDATA", "READUNTIL", "CHECKREAD", "HELP", "e.w", "e.r", "1", "0", " ", "\n", "\r\n", "e.",
            ".", "x",
        ]), 0..40), pieces in 1usize..40) {
            let input = words.join(" ");
            let (whole, written) = talk(input.as_bytes(), input.len());
            prop_assert_eq!((whole, written), talk(input.as_bytes(), pieces));
        }
    }
}
