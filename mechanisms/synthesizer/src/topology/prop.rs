//! The parser of `.prop` files: sections that describe a chain.
//!
//! ```text
//! [GENERIC]                      # keys of SNF, without effect here
//! [NF_MODULES]
//! NF_1 = firewall.click          # a network function and its configuration
//! NF_2 = router.click
//! [NF_TOPO]
//! TOPOLOGY = NF_1[eth1] -> [eth0]NF_2;
//! [ENTRY_POINTS]
//! DOMAINS = [eth0]NF_1, [eth1]NF_2
//! ```
//!
//! `#` begins a comment. Links end with `;`, and entry points are separated by `,` or `;`; both may span
//! several lines.

use lang::{Diagnostic, SourceId, Span, nearest};

/// The contents of a `.prop` file: functions, links and entry points.
#[derive(Debug, Default)]
pub(super) struct Prop {
    /// The network functions. Each name occurs once.
    pub(super) modules: Vec<Module>,
    pub(super) links: Vec<Link>,
    /// The entry points: the interfaces at which packets enter the chain.
    pub(super) entries: Vec<End>,
}

/// A network function as the file declares it.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: Word,
    /// The file name of the function's configuration.
    pub(super) file: Word,
}

/// A link: packets that one function sends to an interface enter another function at an interface.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) from: End,
    pub(super) to: End,
}

/// An interface of a network function, by the names of both.
#[derive(Debug)]
pub(super) struct End {
    pub(super) function: Word,
    pub(super) interface: Word,
}

/// A word of the file and its position, for diagnostics.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

const SECTIONS: [&str; 4] = ["GENERIC", "NF_MODULES", "NF_TOPO", "ENTRY_POINTS"];
/// The keys of SNF's `GENERIC` section: where SNF's results go, and the machine that it compiles for. They
/// have no effect here.
const GENERIC: [&str; 13] = [
    "OUTPUT_FOLDER",
    "OUTPUT_FILE",
    "CLICK_TYPE",
    "HARDWARE_CLASSIFICATION",
    "HARDWARE_CLASSIFICATION_FORMAT",
    "NUMA",
    "CPU_SOCKETS",
    "CPU_CORES",
    "NUMBER_OF_NICS",
    "NIC_HW_QUEUES",
    "PROCESSING_LAYER",
    "RSS_AGGRESSIVE_PINNING",
    "IO_MODE",
];
const LINK_FORM: &str = "write NF_1[interface] -> [interface]NF_2;";
const ENTRY_FORM: &str = "write DOMAINS = [interface]NF_1, [interface]NF_2";

/// Parses the text of a `.prop` file. Errors are added to `diagnostics`; parsing continues after an error,
/// and the result has everything that could be read.
pub(super) fn parse(source: SourceId, text: &str, diagnostics: &mut Vec<Diagnostic>) -> Prop {
    let mut reader = Reader { source, text, diagnostics, ignored: Vec::new(), prop: Prop::default() };
    reader.read();
    reader.prop
}

struct Reader<'a> {
    source: SourceId,
    text: &'a str,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// The keys of the `GENERIC` section that have been read, for a note that they have no effect.
    ignored: Vec<Word>,
    prop: Prop,
}

/// A token of the sections with links and entry points.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A word of ASCII letters, digits and underscores.
    Word(String),
    /// The text between `[` and `]`, without surrounding spaces.
    Bracket(String),
    Arrow,
    /// The sign `;`, `,` or `=`.
    Sign(char),
}

impl Reader<'_> {
    fn read(&mut self) {
        let lines = lines(self.text);
        let mut section: Option<&str> = None;
        let mut seen = Vec::new();
        // The tokens of the sections NF_TOPO and ENTRY_POINTS, in which line breaks have no meaning, so
        // that they are parsed at the end.
        let mut links = Vec::new();
        let mut entries = Vec::new();
        for &(start, end) in &lines {
            let line = &self.text[start..end];
            if let Some(name) = header(line) {
                let known = SECTIONS.into_iter().find(|known| *known == name);
                if known.is_none() {
                    let near = nearest(name, SECTIONS.into_iter()).map(|near| format!("; perhaps '{near}'"));
                    let hint = format!("sections are {}{}", SECTIONS.join(", "), near.unwrap_or_default());
                    self.error(start, end, format!("unknown section '{name}'"), &hint);
                }
                // Only the header of an unknown section is reported; its contents are skipped.
                section = Some(known.unwrap_or(""));
                seen.extend(known);
                continue;
            }
            match section {
                None => {
                    let hint = "begin with a section, such as [NF_MODULES]";
                    self.error(start, end, "text before the first section", hint);
                    section = Some("");
                }
                Some("GENERIC") => self.generic(start, end),
                Some("NF_MODULES") => self.module(start, end),
                Some("NF_TOPO") => self.tokens(start, end, &mut links),
                Some("ENTRY_POINTS") => self.tokens(start, end, &mut entries),
                Some(_) => {}
            }
        }
        self.links(&links);
        self.entries(&entries);
        self.whole(&seen);
        if let Some(first) = self.ignored.first() {
            let names: Vec<&str> = self.ignored.iter().map(|word| word.text.as_str()).collect();
            let text = format!("not used here: {}", names.join(", "));
            let hint = "where results go and how many cores work are options of the command";
            self.diagnostics.push(Diagnostic::note(first.span, text).with_hint(hint));
        }
    }

    /// Checks that the file has functions and entry points. `seen` has the names of the sections that
    /// occur.
    fn whole(&mut self, seen: &[&str]) {
        let end = self.text.len();
        if self.prop.modules.is_empty() && !seen.contains(&"NF_MODULES") {
            self.error(end, end, "no section NF_MODULES", "say which configurations there are: NF_1 = FILE");
        } else if self.prop.modules.is_empty() && !self.has_errors() {
            self.error(end, end, "no network function", "give some in NF_MODULES: NF_1 = FILE");
        }
        if self.prop.entries.is_empty() && !self.has_errors() {
            let hint = "say in ENTRY_POINTS where packets come in: DOMAINS = [interface]NF_1";
            self.error(end, end, "no entry point", hint);
        }
    }

    fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == lang::Severity::Error)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start, end }
    }

    fn error(&mut self, start: usize, end: usize, message: impl Into<String>, hint: &str) {
        self.diagnostics.push(Diagnostic::error(self.span(start, end), message).with_hint(hint));
    }

    /// Parses a line `KEY = value`, which lies between two offsets of the text. Reports an error with the
    /// hint, and returns `None`, if it has another form.
    fn assignment(&mut self, start: usize, end: usize, hint: &str) -> Option<(Word, Word)> {
        let line = &self.text[start..end];
        let sides = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let Some((key, value)) = sides.filter(|(key, _)| !key.is_empty()) else {
            self.error(start, end, "'KEY = value' expected", hint);
            return None;
        };
        let word =
            |text: &str, at: usize| Word { text: text.to_string(), span: self.span(at, at + text.len()) };
        Some((word(key, start), word(value, end - value.len())))
    }

    fn generic(&mut self, start: usize, end: usize) {
        let hint = "a value may be any text";
        let Some((key, _)) = self.assignment(start, end, hint) else { return };
        if GENERIC.contains(&key.text.as_str()) {
            self.ignored.push(key);
            return;
        }
        let text = format!("unknown key '{}'", key.text);
        let near = nearest(&key.text, GENERIC.into_iter());
        let hint = near.map_or("it means nothing here".into(), |near| format!("perhaps '{near}'"));
        self.diagnostics.push(Diagnostic::warning(key.span, text).with_hint(hint));
    }

    fn module(&mut self, start: usize, end: usize) {
        const HINT: &str = "write NF_1 = FILE, with a number for each network function";
        let Some((name, file)) = self.assignment(start, end, HINT) else { return };
        let number = name.text.strip_prefix("NF_").unwrap_or_default();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            let text = format!("'{}' is no name of a network function", name.text);
            return self.error(name.span.start, name.span.end, text, HINT);
        }
        if file.text.is_empty() {
            let text = format!("{} has no configuration", name.text);
            return self.error(start, end, text, HINT);
        }
        if let Some(before) = self.prop.modules.iter().find(|module| module.name.text == name.text) {
            let again = Diagnostic::error(name.span, format!("{} is given twice", name.text))
                .with_related(before.name.span, "first here")
                .with_hint("give the second one another number");
            return self.diagnostics.push(again);
        }
        self.prop.modules.push(Module { name, file });
    }

    fn tokens(&mut self, start: usize, end: usize, tokens: &mut Vec<(Token, Span)>) {
        let line = &self.text[start..end];
        let mut at = 0;
        while let Some(first) = line[at..].chars().next() {
            let rest = &line[at..];
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (token, length) = match first {
                _ if first.is_whitespace() => (None, first.len_utf8()),
                _ if is_word(first) => {
                    let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                    (Some(Token::Word(rest[..length].to_string())), length)
                }
                '[' => match rest[1..]
                    .find(['[', ']'])
                    .map(|close| close + 1)
                    .filter(|&at| rest[at..].starts_with(']'))
                {
                    Some(close) => (Some(Token::Bracket(rest[1..close].trim().to_string())), close + 1),
                    None => {
                        self.error(start + at, end, "'[' without ']'", "put the interface between [ and ]");
                        return;
                    }
                },
                '-' if rest.starts_with("->") => (Some(Token::Arrow), 2),
                ';' | ',' | '=' => (Some(Token::Sign(first)), 1),
                _ => {
                    let (from, to) = (start + at, start + at + first.len_utf8());
                    self.error(from, to, format!("'{first}' is not expected here"), LINK_FORM);
                    (None, first.len_utf8())
                }
            };
            let span = self.span(start + at, start + at + length);
            tokens.extend(token.map(|token| (token, span)));
            at += length;
        }
    }

    /// Returns the tokens after `KEY =`, with which the section has to begin unless it is empty. Reports an
    /// error with the hint `form` if it begins otherwise.
    fn without_key<'t>(
        &mut self,
        mut tokens: &'t [(Token, Span)],
        key: &str,
        form: &str,
    ) -> &'t [(Token, Span)] {
        match tokens {
            [] => {}
            [(Token::Word(word), _), (Token::Sign('='), _), rest @ ..] if word == key => tokens = rest,
            [(Token::Word(word), span), (Token::Sign('='), _), rest @ ..] => {
                let text = format!("unknown key '{word}', '{key}' expected");
                self.error(span.start, span.end, text, form);
                tokens = rest;
            }
            [(_, span), ..] => self.error(span.start, span.end, format!("'{key} =' expected"), form),
        }
        tokens
    }

    fn links(&mut self, tokens: &[(Token, Span)]) {
        let mut rest = self.without_key(tokens, "TOPOLOGY", LINK_FORM);
        while let [first, ..] = rest {
            if first.0 == Token::Sign(';') {
                rest = &rest[1..];
                continue;
            }
            let read = match rest {
                [a @ (Token::Word(_), _), b @ (Token::Bracket(_), _), (Token::Arrow, _), c, d, ..] => {
                    end(a, b).zip(end(d, c)).map(|(from, to)| Link { from, to })
                }
                _ => None,
            };
            match read {
                Some(link) => {
                    self.prop.links.push(link);
                    let last = rest[4].1;
                    rest = &rest[5..];
                    if !matches!(rest, [] | [(Token::Sign(';'), _), ..]) {
                        self.error(last.end, last.end, "';' expected after a link", LINK_FORM);
                    }
                }
                None => {
                    let length = rest.iter().position(|(token, _)| *token == Token::Sign(';'));
                    let length = length.unwrap_or(rest.len());
                    let last = rest[length.max(1) - 1].1;
                    self.error(first.1.start, last.end, "this is no link", LINK_FORM);
                    rest = &rest[length..];
                }
            }
        }
    }

    fn entries(&mut self, tokens: &[(Token, Span)]) {
        let tokens = self.without_key(tokens, "DOMAINS", ENTRY_FORM);
        let is_end = |(token, _): &(Token, Span)| matches!(token, Token::Sign(',' | ';'));
        for part in tokens.split(is_end).filter(|part| !part.is_empty()) {
            let read = match part {
                [interface, function] => end(function, interface),
                _ => None,
            };
            let (first, last) = (part[0].1, part[part.len() - 1].1);
            match read {
                Some(entry) => self.prop.entries.push(entry),
                None => self.error(first.start, last.end, "this is no entry point", ENTRY_FORM),
            }
        }
    }
}

/// Makes an end of a link from a word and a bracket; `None` if the tokens are not a word and a bracket, or if
/// the bracket is empty.
fn end(function: &(Token, Span), interface: &(Token, Span)) -> Option<End> {
    let (Token::Word(name), Token::Bracket(text)) = (&function.0, &interface.0) else { return None };
    if text.is_empty() {
        return None;
    }
    let word = |text: &String, span: Span| Word { text: text.clone(), span };
    Some(End { function: word(name, function.1), interface: word(text, interface.1) })
}

/// Returns the offsets of the start and the end of each line that is not empty, without comments and
/// surrounding white space.
fn lines(text: &str) -> Vec<(usize, usize)> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let said = line.split('#').next().unwrap_or_default();
        let trimmed = said.trim();
        if !trimmed.is_empty() {
            let from = start + said.len() - said.trim_start().len();
            lines.push((from, from + trimmed.len()));
        }
        start += line.len();
    }
    lines
}

/// Returns the name of the section that a line begins; `None` if it is no section header.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?.trim();
    (!name.contains(['[', ']'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use lang::{Severity, Sources};
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (Prop, Vec<String>) {
        let mut sources = Sources::new();
        let id = sources.add("chain.prop", text);
        let mut diagnostics = Vec::new();
        let prop = parse(id, text, &mut diagnostics);
        let shown = |diagnostic: &Diagnostic| {
            let text = diagnostic.render(&sources);
            text.lines().next().unwrap_or_default().to_string()
        };
        (prop, diagnostics.iter().map(shown).collect())
    }

    fn shown(prop: &Prop) -> String {
        let end = |end: &End| format!("{}[{}]", end.function.text, end.interface.text);
        let modules = prop.modules.iter().map(|module| format!("{}={}", module.name.text, module.file.text));
        let links = prop.links.iter().map(|link| format!("{}>{}", end(&link.from), end(&link.to)));
        let entries = prop.entries.iter().map(|entry| format!("in {}", end(entry)));
        modules.chain(links).chain(entries).collect::<Vec<_>>().join(" ")
    }

    const WHOLE: &str = "# a chain\r\n[GENERIC]\r\nNUMA = true\r\n[ NF_MODULES ]\nNF_1 = a b.click # one\n\tNF_2=../c.click\n\
        [NF_TOPO]\nTOPOLOGY = NF_1[netmap:e1] -> [e0]NF_2;\n NF_1 [ e2 ]\n->[0000:04:00.0] NF_2\n\
        [ENTRY_POINTS]\r\nDOMAINS = [e0]NF_1,\n\t[br-0.7]NF_2\n";

    #[test]
    fn all_sections_are_read() {
        let (prop, said) = read(WHOLE);
        assert_eq!(
            shown(&prop),
            "NF_1=a b.click NF_2=../c.click NF_1[netmap:e1]>NF_2[e0] NF_1[e2]>NF_2[0000:04:00.0] \
             in NF_1[e0] in NF_2[br-0.7]"
        );
        assert_eq!(said, ["chain.prop:3:1: note: not used here: NUMA"]);
    }

    #[test]
    fn one_function_needs_no_topology() {
        let (prop, said) =
            read("[NF_MODULES]\nNF_1 = a\n[NF_TOPO]\nTOPOLOGY =\n[ENTRY_POINTS]\nDOMAINS = [e]NF_1");
        assert_eq!((shown(&prop).as_str(), said.len()), ("NF_1=a in NF_1[e]", 0));
    }

    #[test]
    fn errors_have_places_and_do_not_end_the_reading() {
        let (prop, said) = read(
            "NF_0 = x\n[GENERIC]\nNUMAA = 1\nwhat\n[NF_MODULS]\nNF_9 = x\n[NF_MODULES]\nNF_1 =\nFW = a\nNF_2 = b\nNF_2 = c\n\
             [NF_TOPO]\nNF_2[a] -> [b]NF_3\nNF_2[c] [d]NF_3; NF_2[] -> [e]NF_3;\nNF_2[f -> [g]NF_3;\n?\n\
             [ENTRY_POINTS]\nDOMANS = NF_2[h], [i]NF_2, [j]\n",
        );
        assert_eq!(shown(&prop), "NF_2=b NF_2[a]>NF_3[b] in NF_2[i]");
        assert_eq!(
            said,
            [
                "chain.prop:1:1: error: text before the first section",
                "chain.prop:3:1: warning: unknown key 'NUMAA'",
                "chain.prop:4:1: error: 'KEY = value' expected",
                "chain.prop:5:1: error: unknown section 'NF_MODULS'",
                "chain.prop:8:1: error: NF_1 has no configuration",
                "chain.prop:9:1: error: 'FW' is no name of a network function",
                "chain.prop:11:1: error: NF_2 is given twice",
                "chain.prop:15:5: error: '[' without ']'",
                "chain.prop:16:1: error: '?' is not expected here",
                "chain.prop:13:1: error: 'TOPOLOGY =' expected",
                "chain.prop:13:19: error: ';' expected after a link",
                "chain.prop:14:1: error: this is no link",
                "chain.prop:14:18: error: this is no link",
                "chain.prop:15:1: error: this is no link",
                "chain.prop:18:1: error: unknown key 'DOMANS', 'DOMAINS' expected",
                "chain.prop:18:10: error: this is no entry point",
                "chain.prop:18:28: error: this is no entry point",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let (_, said) = read("");
        assert_eq!(said, ["chain.prop:1:1: error: no section NF_MODULES"]);
        let (_, said) = read("[NF_MODULES]\n");
        assert_eq!(said, ["chain.prop:2:1: error: no network function"]);
        let (_, said) = read("[NF_MODULES]\nNF_1 = a");
        assert_eq!(said, ["chain.prop:2:9: error: no entry point"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}", cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
            read(&text);
            // A valid text is cut off at some point, and a random text is inserted somewhere.
            let end = cut.index(WHOLE.len());
            let mut other = WHOLE.to_string();
            other.truncate(end);
            let place = at.index(other.len() + 1);
            other.insert_str(place, &text);
            let (_, said) = read(&other);
            prop_assert!(said.len() < 200);
        }

        #[test]
        fn spans_lie_in_the_text(text in "(\\[NF_TOPO\\]|\\[NF_MODULES\\]|NF_1|=|;|->|\\[a\\]|#|\n| |ü){0,40}") {
            let mut sources = Sources::new();
            let id = sources.add("t", text.clone());
            let mut diagnostics = Vec::new();
            parse(id, &text, &mut diagnostics);
            for diagnostic in diagnostics {
                prop_assert!(text.get(diagnostic.span.start..diagnostic.span.end).is_some());
                prop_assert!(diagnostic.severity != Severity::Error || diagnostic.hint.is_some());
            }
        }
    }
}
