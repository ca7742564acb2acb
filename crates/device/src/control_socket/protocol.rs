//! Click's control protocol, version 1.3: lines in, numbered replies and data out. Knows no sockets.

use element::args::parse_integer;
use element::{Call, ElementId};

/// What the server says first.
pub(super) const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// The longest line and the most data of a command. A client that sends more is told so and loses its
/// connection, because what follows could not be understood.
const MOST_LINE: usize = 1 << 20;
const MOST_DATA: usize = 16 << 20;
/// With this much to be sent, no further command is executed.
const MUCH_OUTPUT: usize = 1 << 20;

/// The handlers that clients reach.
pub(super) trait Handlers {
    /// The element of a name, or of a number counted from 1.
    fn element(&self, name: &str) -> Option<ElementId>;
    /// The element that answers for all others, if there is one.
    fn proxy(&self) -> Option<ElementId> {
        None
    }
    /// Whether a handler can be read (or written).
    fn has(&self, call: &Call, write: bool) -> bool;
    /// Reads a handler.
    fn read(&mut self, call: &Call) -> Result<String, String>;
    /// Writes a handler.
    fn write(&mut self, call: &Call) -> Result<(), String>;
}

/// What a command does with its handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
    /// Data that go with a call to a function without a name. No element has any.
    Llrpc,
}

/// What a command still waits for.
enum Rest {
    Bytes(usize),
    /// Lines up to this one.
    Lines(String),
}

/// One connection.
#[derive(Default)]
pub(super) struct Session {
    input: Vec<u8>,
    /// How much of the input has been used up.
    start: usize,
    /// How far behind that the end of a line has been looked for.
    searched: usize,
    /// The last line ended with a CR, whose LF may still come.
    after_return: bool,
    /// What has to be sent.
    pub(super) output: Vec<u8>,
    /// A command whose data have not all come.
    waiting: Option<(Verb, String, Rest)>,
    /// The client has closed its side.
    ended: bool,
    /// A line has come that says something.
    begun: bool,
    /// The connection is closed as soon as the output has been sent.
    pub(super) quits: bool,
    /// Nothing may be written.
    pub(super) read_only: bool,
}

impl Session {
    /// A fresh connection.
    pub(super) fn new(read_only: bool) -> Session {
        Session { output: GREETING.to_vec(), read_only, ..Session::default() }
    }

    /// Takes in what has come; nothing means that nothing will come any more.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        // Without memory for what it says, a client is of no use.
        self.quits |= self.input.try_reserve(bytes.len()).is_err();
        if !self.quits {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Executes commands that are complete, until there is much to send. True if there may be more of them.
    pub(super) fn execute(&mut self, handlers: &mut dyn Handlers) -> bool {
        while !self.quits && self.output.len() < MUCH_OUTPUT {
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
        // What has been used up goes at once, not line by line.
        self.input.drain(..std::mem::take(&mut self.start));
        !self.quits && self.output.len() >= MUCH_OUTPUT
    }

    /// What has come and has not been used up.
    fn rest(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Uses up `n` bytes; what is behind them has not been searched.
    fn advance(&mut self, n: usize) {
        self.start += n;
        self.searched = 0;
    }

    /// The next line without its end: CR, LF or both. At the end of the input the rest is a line too.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        // The LF of a line that ended with its CR.
        if std::mem::take(&mut self.after_return) {
            match self.rest().first() {
                Some(b'\n') => self.advance(1),
                Some(_) => {}
                None => self.after_return = true,
            }
        }
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
        // An LF behind the CR of the command is not part of the data.
        if self.after_return && self.rest().first() == Some(&b'\n') {
            self.advance(1);
        }
        let known = !self.after_return || !self.rest().is_empty() || n == 0;
        if self.rest().len() < n || !known {
            if self.ended {
                self.reply(500, "Not enough data");
            } else {
                // Once there is something, it is known whether an LF came first.
                self.after_return &= self.rest().is_empty() && self.searched == 0;
                self.waiting = Some((verb, handler, Rest::Bytes(n)));
            }
            return false;
        }
        self.after_return &= n == 0;
        let data = self.rest()[..n].to_vec();
        self.advance(n);
        match verb {
            Verb::Llrpc => self.llrpc(handlers, &handler),
            Verb::Read | Verb::Write => self.call(handlers, verb, &handler, &data),
        }
        true
    }

    fn take_lines(&mut self, handlers: &mut dyn Handlers, verb: Verb, handler: String, end: String) -> bool {
        if std::mem::take(&mut self.after_return) {
            match self.rest().first() {
                Some(b'\n') => self.advance(1),
                Some(_) => {}
                None => self.after_return = true,
            }
        }
        // Lines up to `searched` are known not to be the last one.
        while let Some(n) = self.rest()[self.searched..].iter().position(|&b| b == b'\n' || b == b'\r') {
            let at = self.searched;
            // Whether an LF belongs to this line is known when there is something behind it.
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
            // What a page has a browser send may have commands behind the headers.
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
                // Bytes that are no text have been replaced, so what was sent is looked at.
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

    /// The handler of a name, if it can be used; a reply says why not, otherwise.
    fn find(&mut self, handlers: &dyn Handlers, verb: Verb, name: &str, value: String) -> Option<Call> {
        let (element, handler) = match (handlers.proxy(), name.split_once('.')) {
            // A proxy's handlers have the names of those that they stand for.
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
            Verb::Write if self.read_only => self.reply(530, &format!("Permission denied for '{name}'")),
            _ => return Some(call),
        }
        None
    }

    /// Waits for as many bytes as a command says.
    fn wait_for(&mut self, verb: Verb, command: &str, name: &str, length: &str) {
        match parse_integer(length).map(usize::try_from) {
            Ok(Ok(n)) if n <= MOST_DATA => self.waiting = Some((verb, name.to_string(), Rest::Bytes(n))),
            Ok(n) if n.is_ok() || !length.starts_with('-') => self.give_up("Data too big"),
            _ => self.reply(500, &format!("Syntax error in '{}'", command.to_ascii_lowercase())),
        }
    }

    /// Elements have no functions without names, so what is left is to say what is wrong with the call.
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
            // Better than to hand on something else than was sent.
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
                Ok(()) => self.reply(200, &format!("Write handler '{name}' OK")),
                Err(reason) if reason.is_empty() => {
                    self.reply(520, &format!("Write handler '{name}' error"));
                }
                Err(reason) => self.reply(520, &format!("Write handler '{name}' error:\n{reason}")),
            },
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

    /// A reply of one or more lines: all but the last one are marked by a dash.
    fn reply(&mut self, code: u32, lines: &str) {
        let lines: Vec<&str> = lines.trim_end_matches('\n').split('\n').collect();
        for (i, line) in lines.iter().enumerate() {
            let mark = if i + 1 < lines.len() { '-' } else { ' ' };
            self.output.extend_from_slice(format!("{code}{mark}{}\r\n", printable(line)).as_bytes());
        }
    }
}

/// True if a client begins with an HTTP request, or with the header that each one has. Commands of this protocol are
/// not, but for `GET`, which HTTP has too.
fn is_http(words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default().to_ascii_uppercase();
    let is_command = matches!(first.as_str(), "READ" | "WRITE" | "SET");
    let has_version = words.last().is_some_and(|last| last.to_ascii_uppercase().starts_with("HTTP/"));
    first.starts_with("HOST:") || (words.len() == 3 && has_version && !is_command)
}

/// What stands behind the handler, the second word of a line; blanks inside are part of it.
fn value_behind<'a>(line: &'a str, handler: &str) -> &'a str {
    let behind_command =
        line.trim_start().split_once(|c: char| c.is_ascii_whitespace()).map_or("", |(_, r)| r);
    behind_command.trim_start().strip_prefix(handler).unwrap_or_default().trim()
}

/// Bytes that are no ASCII characters as `^X` or in octal, as Click shows them, so that a reply stays one line.
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

    /// One element `e` with a read handler, a write handler, and one that fails.
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

        fn write(&mut self, call: &Call) -> Result<(), String> {
            self.0.push(call.value.clone());
            if call.value == "bad" { Err("no".into()) } else { Ok(()) }
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
            fn write(&mut self, _: &Call) -> Result<(), String> {
                Ok(())
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
