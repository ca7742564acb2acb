//! The parser of expressions: recursive descent over words, in which the meaning of a word depends on the
//! words before it.
//!
//! ```text
//! expression  = alternatives [ "?" expression ":" expression ]
//! alternatives = sequence { ("or" | "||") sequence }
//! sequence    = factor { ["and" | "&&"] factor }
//! factor      = { "not" | "!" } ( "(" expression ")" | question )
//! question    = "true" | "false" | { qualifier } [ "[" place "]" ] [ "&" mask ] [ sign ] value
//! ```

use crate::Tree;
use std::ops::Range;

use super::draft::{AddressFamily, Data, Draft, Kind, Mask, Previous};
use super::names::Meanings;
use super::words::{Word, split};
use super::{FieldPlace, NameLookup, Primitive, Protocol, Sides, Sign};

/// An error or a warning about the text of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The range of bytes in the text to which the message applies.
    pub span: Range<usize>,
    /// The message for the user.
    pub text: String,
    /// Click's messages about the text, one per line, if they differ from the messages of all errors
    /// together. The first error has all of Click's messages. The text is empty for the other errors, and if
    /// Click has no message.
    pub clicks_words: Option<String>,
    /// True for a warning, false for an error.
    pub is_warning: bool,
}

/// The largest nesting depth of expressions in parentheses and after `?`; deeper expressions are errors.
pub const DEEPEST: usize = 64;

/// The largest nesting depth of `?:` in conditions of `?:`; deeper conditions are errors. An expression `a ?
/// b : c` contains `a` twice when it is written with `and` and `or` alone, so its size doubles with each
/// level.
pub const DEEPEST_CONDITION: usize = 4;

/// The expression of a filter: a Boolean expression of questions.
pub type Expression = Tree<Primitive>;

/// Parses an expression, and returns it with the errors and warnings. If there is an error, the expression
/// must not be used. Errors after an unknown word are not looked for. `names` supplies the parsers of numbers
/// and addresses, and the names of the configuration.
pub fn parse(text: &str, names: &(impl NameLookup + ?Sized)) -> (Expression, Vec<Issue>) {
    let (expression, mut issues) = read(text, names, false);
    if issues.iter().any(|issue| !issue.is_warning) {
        add_clicks_words(&mut issues, &read(text, names, true).1);
    }
    (expression, issues)
}

/// Stores Click's messages in the first error, and an empty text in the other errors, if the messages of the
/// two parsers (with Tidegate's and with Click's words) differ.
fn add_clicks_words(issues: &mut [Issue], clicks: &[Issue]) {
    let words = |issues: &[Issue]| {
        let errors = issues.iter().filter(|issue| !issue.is_warning);
        errors.map(|issue| issue.text.clone()).collect::<Vec<_>>().join("\n")
    };
    let mut clicks_words = words(clicks);
    if clicks_words != words(issues) {
        for issue in issues.iter_mut().filter(|issue| !issue.is_warning) {
            issue.clicks_words = Some(std::mem::take(&mut clicks_words));
        }
    }
}

/// Parses an expression, and returns it with the errors and warnings. With `as_click`, errors are found and
/// worded as in Click. Otherwise each error is reported once, with what was expected.
pub(super) fn read(
    text: &str,
    names: &(impl NameLookup + ?Sized),
    as_click: bool,
) -> (Expression, Vec<Issue>) {
    let words = split(text);
    let everything = match words[..] {
        [] => true,
        [only] => ["-", "any", "all"].contains(&only.text),
        _ => false,
    };
    if everything {
        return (Tree::Constant(true), Vec::new());
    }
    let end = text.len();
    let mut parser = Parser {
        words: &words,
        end,
        at: 0,
        names,
        as_click,
        is_over: false,
        issues: Vec::new(),
        previous: Previous::default(),
    };
    let expression = parser.expression(0);
    if let Some(word) = parser.words.get(parser.at) {
        parser.error(word.span(), format!("garbage after expression at '{}'", word.text));
    }
    (expression, parser.issues)
}

/// Keywords and operators, which are never mistyped values.
const STRUCTURE: &[&str] = &[
    "and", "&&", "or", "||", "not", "!", "(", ")", "?", ":", "src", "dst", "dest", "ip", "ip6", "ether",
    "true", "false",
];

/// True if a word that the parser does not know is probably a mistyped value or keyword. False for operators,
/// and for keywords where they are not allowed.
fn is_meant(word: &str) -> bool {
    let is_plain = word.starts_with(|c: char| c.is_alphanumeric() || c == ':');
    is_plain && !STRUCTURE.contains(&word) && !Kind::is_word(word)
}

/// The keywords among which the parser looks for a suggestion for a mistyped word.
const MEANT: &[&str] = &[
    "src", "dst", "and", "or", "not", "true", "false", "ip", "ip6", "ether", "tcp", "udp", "icmp", "tcpudp",
    "transp", "host", "net", "proto", "port", "opt", "frag", "unfrag", "ect", "ce", "vers", "hl", "tos",
    "dscp", "len", "id", "ttl", "win", "type", "syn", "ack", "fin", "rst", "psh", "urg",
];

/// Returns the error about a word where a value is required, in a question of this kind; `None` if questions
/// of this kind need no value.
fn not_a_value(kind: Kind, family: Option<AddressFamily>, word: &str) -> Option<String> {
    let bits = if family == Some(AddressFamily::Ip6) { 128 } else { 32 };
    let length = word.split_once('/').and_then(|(_, length)| length.parse::<u32>().ok());
    Some(match kind {
        Kind::Net if length.is_some_and(|length| length > bits) => {
            format!("'{word}' is not a prefix: it has 0 to {bits} bits")
        }
        Kind::Net => format!("'{word}' is not a prefix; write one such as 10.0.0.0/8"),
        Kind::Host if family == Some(AddressFamily::Ether) => format!("'{word}' is not an Ethernet address"),
        Kind::Host => format!("'{word}' is not an address"),
        Kind::Ether => format!("'{word}' is not an Ethernet address"),
        Kind::Port => format!("'{word}' is not a port"),
        Kind::Protocol => format!("'{word}' is not a protocol"),
        Kind::TcpOption => format!("'{word}' is not a TCP flag"),
        Kind::Field(_) => format!("'{word}' is not a number"),
        Kind::Fragment | Kind::Whole | Kind::Ect | Kind::Ce => return None,
    })
}

pub(super) struct Parser<'t, N: NameLookup + ?Sized> {
    words: &'t [Word<'t>],
    /// The length of the text in bytes, at which an error about a missing word is reported.
    end: usize,
    at: usize,
    names: &'t N,
    /// True if errors are found and worded as in Click.
    as_click: bool,
    /// True after an error that makes the rest of the text meaningless: later errors are not reported.
    is_over: bool,
    issues: Vec<Issue>,
    previous: Previous,
}

impl<N: NameLookup + ?Sized> Parser<'_, N> {
    fn error(&mut self, span: Range<usize>, text: impl Into<String>) {
        if !self.is_over {
            self.issues.push(Issue { span, text: text.into(), clicks_words: None, is_warning: false });
        }
    }

    /// Returns the range of bytes from word number `first` to the last word before the current word; at least
    /// the range of the word `first`.
    fn span_from(&self, first: usize) -> Range<usize> {
        let start = self.words.get(first).map_or(self.end, |word| word.start);
        let last = self.at.max(first + 1) - 1;
        start..self.words.get(last).map_or(self.end, |word| word.span().end)
    }

    /// Returns the current word; an empty text after the last word.
    fn word(&self) -> &str {
        self.words.get(self.at).map_or("", |word| word.text)
    }

    /// Advances past the current word if it is one of `texts`, and returns true if it was.
    fn take(&mut self, texts: &[&str]) -> bool {
        let taken = self.at < self.words.len() && texts.contains(&self.word());
        self.at += usize::from(taken);
        taken
    }

    fn expression(&mut self, depth: usize) -> Expression {
        let mut chosen = Vec::new();
        let mut last = self.alternatives(depth);
        while self.word() == "?" {
            let question = self.at;
            self.at += 1;
            if depth >= DEEPEST {
                self.too_deep("expression", DEEPEST);
                return last;
            }
            let then = self.expression(depth + 1);
            if self.at == question + 1 || !self.take(&[":"]) {
                self.error(self.span_from(question), "missing ':' in ternary expression");
                return last;
            }
            chosen.push((last, then));
            last = self.alternatives(depth);
        }
        // The expressions `?:` of a chain `a ? b : c ? d : e` are nested in each other, so the length of the
        // chain counts as depth.
        if depth + chosen.len() > DEEPEST {
            self.too_deep("expression", DEEPEST);
            return last;
        }
        if chosen.iter().any(|(condition, _)| choices(condition) >= DEEPEST_CONDITION) {
            self.too_deep("condition of '?'", DEEPEST_CONDITION);
            return last;
        }
        let choose = |last, (condition, then)| Tree::Choose(Box::new([condition, then, last]));
        chosen.into_iter().rev().fold(last, choose)
    }

    fn too_deep(&mut self, what: &str, most: usize) {
        self.error(self.span_from(self.at), format!("{what} nested more than {most} deep"));
        self.at = self.words.len();
    }

    fn alternatives(&mut self, depth: usize) -> Expression {
        let mut parts = vec![self.sequence(depth)];
        while self.take(&["or", "||"]) {
            parts.push(self.sequence(depth));
        }
        Tree::any(parts)
    }

    fn sequence(&mut self, depth: usize) -> Expression {
        let mut parts = Vec::new();
        let mut wanted = true;
        loop {
            let before = self.at;
            let part = self.factor(depth);
            if self.at == before {
                if wanted {
                    self.error(self.span_from(before), "missing expression");
                }
                return Tree::all(parts);
            }
            parts.push(part);
            wanted = self.take(&["and", "&&"]);
        }
    }

    fn factor(&mut self, depth: usize) -> Expression {
        let mut negated = false;
        let mut sign = None;
        while ["not", "!"].contains(&self.word()) {
            sign = Some(self.at);
            negated = !negated;
            self.at += 1;
        }
        let before = self.at;
        let inner = if self.word() == "(" {
            if depth >= DEEPEST {
                self.too_deep("expression", DEEPEST);
                return Tree::Constant(false);
            }
            self.at += 1;
            let inner = self.expression(depth + 1);
            if self.at == before + 1 {
                self.error(self.span_from(before), "missing expression after '('");
            }
            if !self.take(&[")"]) && self.at > before + 1 {
                self.error(self.span_from(before), "missing ')'");
            }
            inner
        } else {
            self.question()
        };
        if let Some(sign) = sign
            && self.at == before
        {
            let text = format!("missing expression after '{}'", self.words[sign].text);
            self.error(self.words[sign].span(), text);
        }
        if negated { inner.not() } else { inner }
    }

    fn question(&mut self) -> Expression {
        match self.word() {
            "" | ")" | "||" | "or" | "?" | ":" => return Tree::Constant(false),
            "true" | "false" => {
                self.at += 1;
                return Tree::Constant(self.words[self.at - 1].text == "true");
            }
            _ => {}
        }
        let first = self.at;
        let mut draft = Draft { as_click: self.as_click, ..Draft::default() };
        let negated = self.qualifiers(&mut draft);
        if self.at > first {
            self.previous = Previous::default();
        }
        if self.more() && self.word() == "[" && self.at > first && draft.kind.is_none() {
            self.brackets(&mut draft);
        }
        self.mask(&mut draft);
        self.sign(&mut draft);
        let good = self.value(&mut draft);
        if self.at == first {
            let text = format!("empty term near '{}'", self.words[first].text);
            self.error(self.words[first].span(), text);
            return Tree::Constant(false);
        }
        let mut notes = Vec::new();
        let done = if good { draft.finish(&self.previous, &mut notes) } else { None };
        let span = self.span_from(first);
        for (text, is_warning) in notes {
            self.issues.push(Issue { span: span.clone(), text, clicks_words: None, is_warning });
        }
        match done {
            None => Tree::Constant(false),
            Some((primitive, previous)) => {
                self.previous = previous;
                let question = Tree::Leaf(primitive);
                if negated { question.not() } else { question }
            }
        }
    }

    /// True if another word follows the current word. The parser asks because words such as `[`, `&` or `==`
    /// at the end of the text are not taken as the beginning of a place, mask or value.
    fn more(&self) -> bool {
        self.at + 1 < self.words.len()
    }

    /// Parses the qualifiers of a question (`src` and `dst`, protocols, kinds, `not`) in any order. Returns
    /// true if there was an odd number of `not` among them, so that the question is negated.
    fn qualifiers(&mut self, draft: &mut Draft) -> bool {
        let mut negated = false;
        while self.at < self.words.len() {
            let here = self.words[self.at];
            let next = |n: usize| self.words.get(self.at + n).map_or("", |word| word.text);
            let mut used = 1;
            let mut complaint = None;
            if let Some(kind) = Kind::named(here.text) {
                complaint = draft.set_kind(kind);
            } else if let Some(protocol) = self.only_protocol(here.text) {
                complaint = draft.set_protocol(protocol);
            } else if !Meanings::of(here.text, self.names).is_empty() {
                break;
            } else {
                match here.text {
                    "src" => {
                        let ends = match (next(1), ["dst", "dest"].contains(&next(2))) {
                            ("and" | "&&", true) => Sides::Both,
                            ("or" | "||", true) => Sides::Either,
                            _ => Sides::Source,
                        };
                        used = if ends == Sides::Source { 1 } else { 3 };
                        complaint = draft.set_ends(ends);
                    }
                    "dst" | "dest" => complaint = draft.set_ends(Sides::Destination),
                    "ip" | "ip6" | "ether" if draft.family.is_some() => break,
                    "ip" => draft.family = Some(AddressFamily::Ip),
                    "ip6" => draft.family = Some(AddressFamily::Ip6),
                    "ether" => draft.family = Some(AddressFamily::Ether),
                    "not" | "!" => negated = !negated,
                    _ => break,
                }
            }
            if let Some(text) = complaint {
                self.error(here.span(), text);
            }
            self.at += used;
        }
        negated
    }

    /// Returns the protocol that a word means, if it has no other meaning.
    fn only_protocol(&self, word: &str) -> Option<Protocol> {
        let meanings = Meanings::of(word, self.names);
        let others = Meanings { protocol: None, ..meanings };
        meanings.protocol.filter(|_| others.is_empty())
    }

    /// Parses a field in brackets: `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`, in bytes.
    fn brackets(&mut self, draft: &mut Draft) {
        let open = self.at;
        let Some(length) = self.words[open..].iter().position(|word| word.text == "]") else {
            self.at += 1;
            return self.error(self.words[open].span(), "missing ']'");
        };
        let inside: String = self.words[open + 1..open + length].iter().map(|word| word.text).collect();
        self.at = open + length + 1;
        let number = |text: &str| self.names.integer(text);
        let place = match (inside.split_once(':'), inside.split_once(',')) {
            (Some((first, count)), _) => number(first).zip(number(count)),
            (_, Some((first, last))) => {
                number(first).zip(number(last)).map(|(first, last)| (first, last.saturating_sub(first) + 1))
            }
            _ => number(&inside).map(|first| (first, 1)),
        };
        let span = self.span_from(open);
        let Some((first, count)) = place else {
            return self.error(span, "syntax error after '[', expected '[POS]' or '[POS:LEN]'");
        };
        if !(1..=4).contains(&count) {
            return self.error(span, "LEN in '[POS:LEN]' out of range, should be between 1 and 4");
        }
        // Click limits the offset of a field to 8191 bytes.
        if !(0..1 << 13).contains(&first) {
            return self.error(span, format!("POS in '[POS:LEN]' out of range, bound {}", (1 << 13) - 1));
        }
        if first / 4 != (first + count - 1) / 4 {
            return self.error(span, format!("field [{first}:{count}] does not fit in a single word"));
        }
        draft.bracketed = true;
        let place = FieldPlace { protocol: draft.protocol, bit: first as u32 * 8, bits: count as u8 * 8 };
        if let Some(text) = draft.set_kind(Kind::Field(place)) {
            self.error(span, text);
        }
    }

    fn mask(&mut self, draft: &mut Draft) {
        if self.word() != "&" || !self.more() {
            return;
        }
        let word = self.words[self.at + 1];
        let number = self.names.integer(word.text).and_then(|n| u32::try_from(n).ok());
        let family = draft.family;
        let mask = match number {
            Some(number) => Some(Mask::Number(number)),
            None if family != Some(AddressFamily::Ether)
                && let Some(mask) = self.names.ipv4(word.text) =>
            {
                Some(Mask::Ip(mask))
            }
            None if family == Some(AddressFamily::Ip6)
                && let Some(mask) = self.names.ipv6(word.text) =>
            {
                Some(Mask::Ip6(mask))
            }
            None if family != Some(AddressFamily::Ip) => self.names.ether(word.text).map(Mask::Ether),
            None => None,
        };
        if let Some(mask) = mask {
            self.at += 2;
            if matches!(mask, Mask::Number(0) | Mask::Ip(0)) {
                self.error(word.span(), "zero mask ignored");
            } else {
                draft.mask = Some(mask);
            }
        }
    }

    fn sign(&mut self, draft: &mut Draft) {
        if !self.more() {
            return;
        }
        let sign = match self.word() {
            "=" | "==" => Sign::Equal,
            "!=" => Sign::NotEqual,
            "<" => Sign::Less,
            "<=" => Sign::LessOrEqual,
            ">" => Sign::Greater,
            ">=" => Sign::GreaterOrEqual,
            _ => return,
        };
        draft.sign = sign;
        self.at += 1;
    }

    /// Parses the value of a question, if there is one. Returns false if the question must not be completed,
    /// because an error about its value has been reported.
    fn value(&mut self, draft: &mut Draft) -> bool {
        let Some(&word) = self.words.get(self.at) else { return true };
        match self.named(word, draft) {
            Ok(Some(data)) => draft.data = data,
            Ok(None) => match self.literal(word.text, draft) {
                Some((data, words)) => {
                    draft.data = data;
                    self.at += words;
                    return true;
                }
                None => {
                    if draft.sign != Sign::Equal {
                        self.error(word.span(), format!("dangling operator near '{}'", word.text));
                    } else if !self.as_click && is_meant(word.text) {
                        return self.refuse(word, draft);
                    }
                    return true;
                }
            },
            Err(text) => {
                self.error(word.span(), text);
                self.at += 1;
                return false;
            }
        }
        self.at += 1;
        true
    }

    /// Reports an error about a word without meaning: that it is no value where the kind needs one, or that
    /// it is unknown. Always returns false.
    fn refuse(&mut self, word: Word<'_>, draft: &Draft) -> bool {
        // In `ip proto tcp`, the word `tcp` is the value, so no other value is expected.
        let kind = draft.kind.filter(|&kind| kind != Kind::Protocol || draft.protocol.is_none());
        let is_like_address = word.text.starts_with(|c: char| c.is_ascii_digit()) && word.text.contains('.');
        let like = if word.text.contains('/') { Kind::Net } else { Kind::Host };
        let kind = kind.or(Some(like).filter(|_| is_like_address));
        if let Some(text) = kind.and_then(|kind| not_a_value(kind, draft.family, word.text)) {
            self.error(word.span(), text);
            self.at += 1;
        } else {
            let near = self.names.nearest(word.text, MEANT);
            let guess = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            self.error(word.span(), format!("'{}' means nothing here{guess}", word.text));
            // The meaning of the following words depends on the unknown word, so further errors would be
            // misleading.
            self.at = self.words.len();
            self.is_over = true;
        }
        false
    }

    /// Returns the meaning of a word as a name, if exactly one meaning fits the qualifiers of the question;
    /// `None` if the word is not a name, or if it is a keyword and the question has no kind yet. Returns an
    /// error if no meaning fits, or several do.
    fn named(&self, word: Word<'_>, draft: &Draft) -> Result<Option<Data>, String> {
        let kind = draft.kind;
        if kind.is_none() && Kind::is_word(word.text) {
            return Ok(None);
        }
        let all = Meanings::of(word.text, self.names);
        if all.is_empty() {
            return Ok(None);
        }
        let fits = |kinds: &[Kind], protocols: &[Protocol]| {
            kind.is_none_or(|kind| kinds.contains(&kind))
                && draft.protocol.is_none_or(|p| protocols.is_empty() || protocols.contains(&p))
        };
        let icmp = [Kind::Field(FieldPlace::ICMP_TYPE)];
        let keep = |yes: bool, data: Option<Data>| data.filter(|_| yes);
        let tcp = [Protocol::TCP, Protocol::TcpOrUdp];
        let ports = [
            keep(fits(&[Kind::Port], &tcp), all.tcp_port.map(Data::Port)),
            keep(fits(&[Kind::Port], &[Protocol::UDP, Protocol::TcpOrUdp]), all.udp_port.map(Data::Port)),
        ];
        let meant: Vec<Data> = [
            keep(fits(&[Kind::Protocol], &[]), all.protocol.map(Data::Protocol)),
            ports[0],
            // A name with the same number for TCP and UDP has one meaning, not two.
            ports[1].filter(|_| ports[0] != ports[1]),
            keep(fits(&[Kind::TcpOption], &tcp), all.tcp_flag.map(|flag| Data::Number(flag.into()))),
            keep(fits(&icmp, &[Protocol::ICMP]), all.icmp_type.map(Data::IcmpType)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let [one] = meant[..] {
            // If the only meaning is a TCP flag, the result is [`Data::TcpFlag`] instead of a number, so that
            // the parser can infer the kind of the question from it.
            let is_flag = matches!(one, Data::Number(_));
            return Ok(Some(if is_flag { Data::TcpFlag(all.tcp_flag.unwrap_or(0)) } else { one }));
        }
        let mut tries = Vec::new();
        let mut offer = |known: bool, what: &str| {
            if known {
                tries.push(format!("'{what} {}'", word.text));
            }
        };
        offer(all.protocol.is_some(), "proto");
        if all.tcp_port == all.udp_port {
            offer(all.tcp_port.is_some(), "port");
        } else {
            offer(all.tcp_port.is_some(), "tcp port");
            offer(all.udp_port.is_some(), "udp port");
        }
        offer(all.tcp_flag.is_some(), "tcp opt");
        offer(all.icmp_type.is_some(), "icmp type");
        let said = [kind.map(|kind| kind.to_string()), draft.protocol.map(|protocol| protocol.to_string())];
        let said: Vec<String> = said.into_iter().flatten().chain([word.text.to_string()]).collect();
        let fault = if meant.is_empty() { "meaningless" } else { "ambiguous" };
        Err(format!("'{}' is {fault}; try {}", said.join(" "), tries.join(", ")))
    }

    /// Parses a number or an address at the current word. Returns it with the number of words that it
    /// takes: three for `ADDRESS mask MASK`, otherwise one. `None` if the word is neither.
    fn literal(&self, word: &str, draft: &Draft) -> Option<(Data, usize)> {
        let names = self.names;
        if let Some(number) = names.integer(word) {
            return Some((Data::Number(number), 1));
        }
        let (family, net) = (draft.family, draft.kind == Some(Kind::Net));
        let ip = matches!(family, None | Some(AddressFamily::Ip));
        let ip6 = matches!(family, None | Some(AddressFamily::Ip6));
        if ip && let Some(address) = names.ipv4(word) {
            let mask = || {
                let mask = self.words.get(self.at + 2)?;
                names.ipv4(mask.text).filter(|_| self.words[self.at + 1].text == "mask")
            };
            if let Some(mask) = mask() {
                return Some((Data::Net(address, mask), 3));
            }
            let prefix = names.ipv4_prefix(word).filter(|_| net);
            return Some((prefix.map_or(Data::Host(address), |(address, mask)| Data::Net(address, mask)), 1));
        }
        if ip && let Some((address, mask)) = names.ipv4_prefix(word) {
            return Some((Data::Net(address, mask), 1));
        }
        if ip6 && let Some(address) = names.ipv6(word) {
            let prefix = names.ipv6_prefix(word).filter(|_| net);
            return Some((
                prefix.map_or(Data::Host6(address), |(address, mask)| Data::Net6(address, mask)),
                1,
            ));
        }
        if ip6 && let Some((address, mask)) = names.ipv6_prefix(word) {
            return Some((Data::Net6(address, mask), 1));
        }
        let ether = matches!(family, None | Some(AddressFamily::Ether));
        names.ether(word).filter(|_| ether).map(|address| (Data::Ether(address), 1))
    }
}

/// Returns the largest depth to which choices (`?:`) are nested in the conditions of other choices.
fn choices(expression: &Expression) -> usize {
    let most = |parts: &[Expression]| parts.iter().map(choices).max().unwrap_or(0);
    match expression {
        Tree::Constant(_) | Tree::Leaf(_) => 0,
        Tree::Not(inner) => choices(inner),
        Tree::All(parts) | Tree::Any(parts) => most(parts),
        Tree::Choose(parts) => (choices(&parts[0]) + 1).max(most(&parts[1..])),
    }
}
