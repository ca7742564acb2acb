//! Splits a text of the Click language into tokens (click(5), "Lexical issues").
//!
//! A configuration string is not a token, because only the parser knows where one may be. When the parser
//! has read the opening parenthesis, it calls [`Lexer::config`], which returns the span of the
//! configuration string.

use crate::diagnostic::Diagnostic;
use crate::scan::{self, Kind};
use crate::source::{Directive, SourceId, Span};

/// The number of unterminated configuration strings of a text that end at the next `;`. Later unterminated
/// strings extend to the end of the text. So hostile texts are still read in linear time.
const MAX_CUTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Identifier,
    /// The name of a parameter, `$name`; the span includes the dollar sign.
    Variable,
    /// `->`, an arrow that connects one port with one or more ports.
    Arrow,
    /// `=>`, an arrow that connects many ports pair by pair.
    DoubleArrow,
    /// `~>`, `~NAME>` or `~/NAME>`, FastClick's arrow that begins or ends a context.
    ContextArrow,
    /// `::`, between a name and a class.
    Colons,
    /// `||`, between the alternatives of a compound element.
    Bars,
    /// `...`, which in a compound element stands for the alternatives of the earlier class with the same
    /// name.
    Ellipsis,
    /// Any other character, such as `;`, `,` or a bracket.
    Char(char),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
    /// True if the token is the first in its line. After an error, an identifier at the start of a line
    /// probably starts a statement, so the parser continues there.
    pub(crate) starts_line: bool,
}

/// A lexer at an offset in one text. A clone is used to look ahead: it reads further tokens while the
/// original stays where it is.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    source: SourceId,
    text: &'a str,
    at: usize,
    cuts: usize,
}

/// The errors and line directives that the lexer has found on its way.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) directives: Vec<Directive>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: SourceId, text: &'a str) -> Lexer<'a> {
        Lexer { source, text, at: 0, cuts: 0 }
    }

    /// Returns the offset in bytes up to which the text has been read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Moves to the end of the text, so that the next token is the end.
    pub(crate) fn skip_rest(&mut self) {
        self.at = self.text.len();
    }

    /// Returns the next token. Unterminated comments and line directives ahead of it are added to `findings`.
    /// If a clone of the lexer has just passed them, they are not added again; [`parse`](crate::parse())
    /// removes later repetitions of errors.
    pub(crate) fn next(&mut self, findings: &mut Findings) -> Token {
        let starts_line = self.skip_blank(findings);
        let start = self.at;
        let bytes = self.text.as_bytes();
        let rest = self.text.get(start..).unwrap_or("");
        let (kind, length) = match rest.chars().next() {
            None => (TokenKind::End, 0),
            Some(c) if is_identifier(c) => (TokenKind::Identifier, identifier_length(rest.as_bytes())),
            Some('$') => match parameter_length(bytes.get(start + 1..).unwrap_or_default()) {
                0 => (TokenKind::Char('$'), 1),
                length => (TokenKind::Variable, length + 1),
            },
            Some(_) if rest.starts_with("->") => (TokenKind::Arrow, 2),
            Some(_) if rest.starts_with("=>") => (TokenKind::DoubleArrow, 2),
            Some('~') => match context_arrow_length(rest.as_bytes()) {
                0 => (TokenKind::Char('~'), 1),
                length => (TokenKind::ContextArrow, length),
            },
            Some(_) if rest.starts_with("::") => (TokenKind::Colons, 2),
            Some(_) if rest.starts_with("||") => (TokenKind::Bars, 2),
            Some(_) if rest.starts_with("...") => (TokenKind::Ellipsis, 3),
            Some(c) => (TokenKind::Char(c), c.len_utf8()),
        };
        self.at = start + length;
        Token { kind, span: self.span(start, self.at), starts_line }
    }

    /// Returns the span of the configuration string between the opening parenthesis at `open` and the
    /// parenthesis that closes it, where the lexer continues. If no parenthesis closes it, adds an error to
    /// `findings` and returns an empty span. The lexer then continues at the next `;` or at the end of the
    /// text.
    pub(crate) fn config(&mut self, open: Span, findings: &mut Findings) -> Span {
        let bytes = self.text.as_bytes();
        let (start, mut at, mut depth) = (open.end, open.end, 0usize);
        let mut open_piece = None;
        // The first quoted string that contains a line break: probably its quote was not closed, so that it
        // ends where the next string starts.
        let mut long = None;
        while let Some(piece) = scan::piece_at(bytes, at) {
            if !piece.closed {
                open_piece = Some(piece);
                break;
            }
            at = piece.end;
            if long.is_none() && !matches!(piece.kind, Kind::Comment | Kind::Directive) {
                let line_end = bytes[piece.start..piece.end].iter().position(|&byte| byte == b'\n');
                long =
                    line_end.filter(|&length| length > 0).map(|length| (piece.start, piece.start + length));
            }
            match (piece.kind, bytes.get(piece.start)) {
                // The line break after the directive belongs to the configuration string.
                (Kind::Directive, _) => self.directive(piece.start, findings),
                (Kind::Plain, Some(b'(')) => depth += 1,
                (Kind::Plain, Some(b')')) if depth == 0 => {
                    self.at = piece.end;
                    return self.span(start, piece.start);
                }
                (Kind::Plain, Some(b')')) => depth -= 1,
                _ => {}
            }
        }
        findings.diagnostics.push(match open_piece {
            Some(piece) if piece.kind == Kind::Comment => {
                unterminated_comment(self.span(piece.start, piece.start + 2))
            }
            Some(piece) => {
                let error = Diagnostic::error(self.span(piece.start, piece.start + 1), "unterminated string")
                    .with_clicks_words("expected ')'")
                    .with_hint("close the quote, or quote the quote character if it is part of the text");
                match long {
                    Some((start, end)) => {
                        error.with_related(self.span(start, end), "is the quote of this one closed?")
                    }
                    None => error,
                }
            }
            None => Diagnostic::error(open, "missing ')' at the end of the configuration string")
                .with_clicks_words("expected ')'")
                .with_hint("every '(' needs its ')', quoted ones excepted"),
        });
        let cut =
            if self.cuts < MAX_CUTS { self.text.get(start..).and_then(|rest| rest.find(';')) } else { None };
        self.cuts += 1;
        self.at = cut.map_or(self.text.len(), |offset| start + offset);
        self.span(start, start)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start, end }
    }

    /// Skips white space, comments and line directives. Returns true if the next token is the first of its
    /// line.
    fn skip_blank(&mut self, findings: &mut Findings) -> bool {
        let bytes = self.text.as_bytes();
        let mut starts_line = self.at == 0;
        while let Some(&byte) = bytes.get(self.at) {
            if self.at == 0 && bytes.starts_with(b"#!") {
                // A first line such as `#!/usr/bin/click -f`, which makes a file a script, is ignored.
                self.at = self.text.find('\n').unwrap_or(self.text.len());
            } else if byte == b'#' && self.at == 0 {
                self.directive(0, findings);
                self.at = scan::line_end(bytes, 0);
            } else if byte.is_ascii_whitespace() || byte == 0x0b {
                starts_line |= byte == b'\n' || byte == b'\r';
                self.at += 1;
            } else {
                match scan::piece_at(bytes, self.at) {
                    Some(piece) if piece.kind == Kind::Comment => {
                        if !piece.closed {
                            report_once(findings, unterminated_comment(self.span(self.at, self.at + 2)));
                        }
                        self.at = piece.end;
                    }
                    Some(piece) if piece.kind == Kind::Directive => {
                        self.directive(piece.start, findings);
                        self.at = piece.end;
                    }
                    _ => break,
                }
            }
        }
        starts_line
    }

    /// Adds the line directive at offset `at` to `findings`.
    fn directive(&mut self, at: usize, findings: &mut Findings) {
        let end = scan::line_end(self.text.as_bytes(), at);
        let line = self.text.get(at..end).unwrap_or("");
        let span = self.span(at, end);
        let is_crlf = self.text.as_bytes().get(end..end + 2) == Some(b"\r\n");
        let start = (end + 1 + usize::from(is_crlf)).min(self.text.len());
        let body = line.trim_start_matches('#').trim_start();
        let body = body.strip_prefix("line").unwrap_or(body).trim();
        let (number, file) = body.split_at(body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len()));
        // The C preprocessor writes flags after the file name; they are ignored.
        let file = file.trim();
        let name = scan::pieces(file).next().filter(|piece| piece.kind == Kind::Double);
        let file = name.map(|piece| unescaped(file.get(1..piece.end.saturating_sub(1)).unwrap_or("")));
        match number.parse() {
            Ok(line) => {
                let directive = Directive { start, line, file };
                if findings.directives.last().is_none_or(|last| last.start < directive.start) {
                    findings.directives.push(directive);
                }
            }
            Err(_) => report_once(
                findings,
                Diagnostic::error(span, "unknown preprocessor directive").with_hint(
                    "comments begin with //; lines that start with '#' have the form: # LINE \"FILE\"",
                ),
            ),
        }
    }
}

/// Returns a file name without the backslashes that protect characters of it.
fn unescaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        out.extend(if c == '\\' { rest.next() } else { Some(c) });
    }
    out
}

/// Returns the length of the context arrow with which `text` starts; 0 if there is none.
fn context_arrow_length(text: &[u8]) -> usize {
    let Some(rest) = text.strip_prefix(b"~") else { return 0 };
    let (slash, rest) = rest.strip_prefix(b"/").map_or((0, rest), |rest| (1, rest));
    let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let is_arrow = rest.get(name) == Some(&b'>') && (slash == 0 || name > 0);
    if is_arrow { slash + name + 2 } else { 0 }
}

/// True if a character may be in an identifier: ASCII letters, digits, `_` and `@`. An identifier may also
/// have single `/` between such characters.
fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '@'
}

fn identifier_length(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(&byte) if is_identifier(byte.into()) => at += 1,
            Some(b'/') if text.get(at + 1).is_some_and(|&byte| is_identifier(byte.into())) => at += 1,
            _ => return at,
        }
    }
}

/// Returns the length in bytes of the parameter name at the start of `text`: ASCII letters, digits and
/// underscores; 0 if there is none.
pub(crate) fn parameter_length(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

fn unterminated_comment(span: Span) -> Diagnostic {
    Diagnostic::error(span, "unterminated comment").with_hint("close it with '*/'")
}

fn report_once(findings: &mut Findings, diagnostic: Diagnostic) {
    if findings.diagnostics.last() != Some(&diagnostic) {
        diagnostic.add_to(&mut findings.diagnostics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::*;

    fn lex(text: &str) -> (Vec<(TokenKind, &str)>, Findings) {
        let mut findings = Findings::default();
        let mut lexer = Lexer::new(SourceId::default(), text);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next(&mut findings);
            if token.kind == End {
                return (tokens, findings);
            }
            tokens.push((token.kind, &text[token.span.start..token.span.end]));
        }
    }

    #[test]
    fn identifiers_hold_single_slashes_inside() {
        let (tokens, _) = lex("rack/unit/slot//comment\na@1/b/ 1x");
        assert_eq!(
            tokens,
            [(Identifier, "rack/unit/slot"), (Identifier, "a@1/b"), (Char('/'), "/"), (Identifier, "1x")]
        );
        assert_eq!(lex("a/*c*/b").0, [(Identifier, "a"), (Identifier, "b")]);
    }

    #[test]
    fn operators_and_odd_characters() {
        let (tokens, _) = lex("->=>::||...|.;$a_1 $é-");
        let kinds: Vec<_> = tokens.iter().map(|token| token.0).collect();
        assert_eq!(
            kinds,
            [
                Arrow,
                DoubleArrow,
                Colons,
                Bars,
                Ellipsis,
                Char('|'),
                Char('.'),
                Char(';'),
                Variable,
                Char('$'),
                Char('é'),
                Char('-')
            ]
        );
    }

    #[test]
    fn directives_are_collected_once() {
        let (tokens, findings) = lex("a\n# 12 \"x y\"\nb # c\n#line 3\n#pragma\n");
        assert_eq!(tokens.len(), 4, "a '#' inside a line is a character");
        let directives: Vec<_> =
            findings.directives.iter().map(|d| (d.start, d.line, d.file.as_deref())).collect();
        assert_eq!(directives, [(13, 12, Some("x y")), (27, 3, None)]);
        assert_eq!(findings.diagnostics.len(), 1);
        let (tokens, findings) = lex("#!/usr/bin/click -f\na");
        assert_eq!((tokens.len(), findings.diagnostics.len()), (1, 0));
    }

    fn config(text: &str) -> (&str, Vec<String>) {
        let mut findings = Findings::default();
        let mut lexer = Lexer::new(SourceId::default(), text);
        let open = lexer.next(&mut findings);
        let span = lexer.config(open.span, &mut findings);
        (&text[span.start..span.end], findings.diagnostics.into_iter().map(|d| d.message).collect())
    }

    #[test]
    fn configuration_strings_end_at_the_balanced_parenthesis() {
        for (text, expected) in [
            ("(plain) x)", "plain"),
            ("(f(g(h), i) j)", "f(g(h), i) j"),
            ("(\")\" ')' x)", "\")\" ')' x"),
            ("(a // b)\n c)", "a // b)\n c"),
            ("(/* a) */ b \\)", "/* a) */ b \\"),
            ("()", ""),
        ] {
            assert_eq!(config(text), (expected, vec![]));
        }
    }

    #[test]
    fn unterminated_configuration_strings_stop_at_a_semicolon() {
        let message = "missing ')' at the end of the configuration string".to_owned();
        assert_eq!(config("(a (b); c"), ("", vec![message]));
        assert_eq!(config("('a; c"), ("", vec!["unterminated string".to_owned()]));
        assert_eq!(config("(/*a"), ("", vec!["unterminated comment".to_owned()]));
        let (mut findings, mut lexer) = (Findings::default(), Lexer::new(SourceId::default(), "(a; c"));
        let open = lexer.next(&mut findings).span;
        lexer.config(open, &mut findings);
        assert_eq!(lexer.next(&mut findings).kind, Char(';'));
    }
}
