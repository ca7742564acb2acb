//! Parses text into a syntax tree, by recursive descent (click(5), "BNF grammar").
//!
//! After an error the parser continues at the next `;`, closing bracket or statement keyword, or at an
//! identifier that starts a line. So one call can report many errors.

mod ports;

use std::collections::HashSet;

use crate::Options;
use crate::args;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Findings, Lexer, Token, TokenKind};
use crate::source::{SourceId, Sources, Span};
use crate::syntax::*;

/// The largest nesting depth of braces, parentheses and libraries together; deeper nesting is an error.
pub(crate) const MAX_NESTING: usize = 100;

/// The number of characters in which [`Parser::is_near_arrow`] looks for a mistyped arrow.
const LONGEST_ARROW: usize = 8;

/// A library that a configuration requires, as the caller of [`parse`](crate::parse()) has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryText {
    /// The name of the library's text in messages.
    pub name: String,
    /// The identity of the file: equal for the same file, even if it was required under different names.
    pub file: String,
    /// The text of the library.
    pub text: String,
}

/// A function that finds a library. It gets the required name, and the [`LibraryText::file`] of the text
/// that requires the library (empty if it has none). An error is the text of a hint, which lists the places
/// that were searched.
pub type Library<'a> = &'a dyn Fn(&str, &str) -> Result<LibraryText, String>;

/// Parses texts, and the libraries that they require, into one list of statements. The file name in
/// `options` belongs to the first text.
pub(crate) fn parse(
    sources: &mut Sources,
    texts: &[SourceId],
    options: &Options<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Body {
    let mut libraries = Libraries {
        sources,
        lookup: options.library,
        allows_circles: options.allows_circles,
        read: HashSet::new(),
        open: Vec::new(),
    };
    let mut statements = Vec::new();
    for (number, &id) in texts.iter().enumerate() {
        let file = options.file.filter(|_| number == 0).unwrap_or_default().to_owned();
        statements.extend(parse_source(&mut libraries, (id, file), 0, diagnostics).statements);
    }
    Body { statements }
}

struct Libraries<'a> {
    sources: &'a mut Sources,
    lookup: Option<Library<'a>>,
    /// True if a circle of libraries without the main text gives only a warning.
    allows_circles: bool,
    /// The files of the libraries that have been read. Each is read once, even if it is required several
    /// times.
    read: HashSet<String>,
    /// The texts that are being read, with their files. Each text requires the next.
    open: Vec<(SourceId, String)>,
}

impl Libraries<'_> {
    /// Returns the names of the texts that would require each other in a circle (`a -> b -> a`) if the
    /// library in `file` were read now, and true if the circle includes the main text. Returns `None` if
    /// `file` is not being read already.
    fn circle(&self, file: &str) -> Option<(String, bool)> {
        let start = self.open.iter().position(|(_, open)| !open.is_empty() && open == file)?;
        let names = self.open.iter().skip(start).map(|(id, _)| self.sources.name(*id));
        let mut chain: Vec<&str> = names.collect();
        chain.extend(chain.first().copied());
        Some((chain.join(" -> "), start == 0))
    }
}

fn parse_source(
    libraries: &mut Libraries<'_>,
    (id, file): (SourceId, String),
    depth: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Body {
    let text = libraries.sources.shared_text(id);
    libraries.open.push((id, file));
    let mut parser = Parser::new(id, &text, libraries, depth);
    let body = parser.body(Place::File);
    let findings = parser.findings;
    diagnostics.extend(findings.diagnostics);
    libraries.sources.set_directives(id, findings.directives);
    libraries.open.pop();
    body
}

/// The kind of body that contains a list of statements. It determines the tokens that end the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    File,
    Compound,
    Group,
}

struct Parser<'a, 'b, 'c> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The current token, which is the next to be parsed.
    token: Token,
    /// The span of the token that was parsed last.
    last: Span,
    findings: Findings,
    libraries: &'b mut Libraries<'c>,
    /// The number of open braces, parentheses and libraries, limited to [`MAX_NESTING`].
    depth: usize,
    /// The number of open braces and parentheses of this text. Libraries can be required only where it is
    /// 0.
    brackets: usize,
}

impl<'a, 'b, 'c> Parser<'a, 'b, 'c> {
    fn new(id: SourceId, text: &'a str, libraries: &'b mut Libraries<'c>, depth: usize) -> Self {
        let mut lexer = Lexer::new(id, text);
        let mut findings = Findings::default();
        let token = lexer.next(&mut findings);
        let last = Span { source: id, start: 0, end: 0 };
        Parser { text, lexer, token, last, findings, libraries, depth, brackets: 0 }
    }

    // Functions for tokens.

    fn advance(&mut self) -> Token {
        let token = self.token;
        self.last = token.span;
        self.token = self.lexer.next(&mut self.findings);
        token
    }

    /// Returns the kind of the token after the current token, without parsing either.
    fn peek(&mut self) -> TokenKind {
        self.lexer.clone().next(&mut self.findings).kind
    }

    fn is(&self, c: char) -> bool {
        self.token.kind == TokenKind::Char(c)
    }

    fn accept(&mut self, c: char) -> bool {
        let found = self.is(c);
        if found {
            self.advance();
        }
        found
    }

    fn identifier(&mut self) -> Option<Span> {
        (self.token.kind == TokenKind::Identifier).then(|| self.advance().span)
    }

    fn text_of(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or("")
    }

    fn keyword(&self) -> Option<&'a str> {
        let text = self.text_of(self.token.span);
        let is_keyword = matches!(text, "elementclass" | "define" | "require" | "provide");
        (self.token.kind == TokenKind::Identifier && is_keyword).then_some(text)
    }

    /// True if the current token ends a list of statements in this kind of body. The caller parses the
    /// token.
    fn at_end(&self, place: Place) -> bool {
        match self.token.kind {
            TokenKind::End => true,
            // If the `)` of a group is missing, the group must not take the end of the compound element
            // around it.
            TokenKind::Char('}') | TokenKind::Bars => place != Place::File,
            TokenKind::Char(')') => place == Place::Group,
            _ => false,
        }
    }

    // Functions for errors.

    fn error(&mut self, diagnostic: Diagnostic) {
        diagnostic.add_to(&mut self.findings.diagnostics);
    }

    fn near(&self) -> Diagnostic {
        match self.token.kind {
            TokenKind::End => Diagnostic::error(self.token.span, "syntax error near end of file")
                .with_clicks_words("syntax error near ''"),
            _ => {
                let text = self.text_of(self.token.span);
                let mut error = Diagnostic::error(self.token.span, format!("syntax error near '{text}'"));
                if self.token.kind == TokenKind::Variable {
                    error = error
                        .with_clicks_words(format!("syntax error near '{}'", text.trim_start_matches('$')));
                }
                match self.is_near_arrow() {
                    true => error.with_hint("a connection is written '->', without blanks in it"),
                    false => error,
                }
            }
        }
    }

    /// True if a mistyped arrow starts at the current token, such as `- >` or `→`, so that a hint is
    /// useful.
    fn is_near_arrow(&self) -> bool {
        let is_dash = |c: &char| matches!(c, '-' | '–' | '—' | '−' | ' ');
        let mut here =
            self.text.get(self.token.span.start..).unwrap_or("").chars().take(LONGEST_ARROW).peekable();
        match here.peek() {
            Some('→' | '⟶' | '⇒') => true,
            Some(c) if is_dash(c) => here.find(|c| !is_dash(c)) == Some('>'),
            _ => false,
        }
    }

    /// After an error, skips tokens up to the probable start of the next statement.
    fn recover(&mut self, place: Place) {
        let mut open = 0usize;
        let mut first = true;
        loop {
            let starts = !first && (self.keyword().is_some() || self.token.kind == TokenKind::Identifier);
            match self.token.kind {
                TokenKind::End => return,
                _ if open == 0 && (self.at_end(place) || (starts && self.token.starts_line)) => return,
                _ if open == 0 && self.keyword().is_some() => return,
                TokenKind::Char(';') if open == 0 => {
                    self.advance();
                    return;
                }
                TokenKind::Char('{' | '(' | '[') => open += 1,
                TokenKind::Char('}' | ')' | ']') => open = open.saturating_sub(1),
                _ => {}
            }
            first = false;
            self.advance();
        }
    }

    /// Moves to the end of the text, so that no more statements are parsed.
    fn skip_rest(&mut self) {
        self.lexer.skip_rest();
        self.advance();
    }

    /// Runs `inside` at a nesting depth that is one larger. At [`MAX_NESTING`], reports an error, moves to
    /// the end of the text, and returns `None`.
    fn nested<T>(&mut self, open: Span, inside: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_NESTING {
            self.error(
                Diagnostic::error(open, format!("nested more than {MAX_NESTING} levels deep"))
                    .with_hint("name the inner compound elements with 'elementclass'"),
            );
            self.skip_rest();
            return None;
        }
        self.depth += 1;
        self.brackets += 1;
        let result = inside(self);
        self.depth -= 1;
        self.brackets -= 1;
        Some(result)
    }

    // Functions for statements.

    fn body(&mut self, place: Place) -> Body {
        let mut statements = Vec::new();
        while !self.at_end(place) {
            if Diagnostic::is_limit_reached(&self.findings.diagnostics) {
                self.skip_rest();
                break;
            }
            let start = self.token.span;
            let read = match self.token.kind {
                TokenKind::Char(';') => {
                    self.advance();
                    continue;
                }
                _ => match self.keyword() {
                    Some("elementclass") => self.class_statement(&mut statements),
                    Some(keyword) => self.config_statement(keyword, &mut statements),
                    None => self.chain_statement(place, &mut statements),
                },
            };
            if read.is_none() {
                self.recover(place);
                if self.token.span == start && !self.at_end(place) {
                    self.advance();
                }
            }
        }
        Body { statements }
    }

    fn class_statement(&mut self, statements: &mut Vec<Statement>) -> Option<()> {
        self.advance();
        let Some(name) = self.identifier() else {
            let error = self.near().with_hint("'elementclass' needs a name: elementclass NAME { ... }");
            let words = format!("expected element type name\n{}", error.in_clicks_words());
            self.error(error.with_clicks_words(words));
            return None;
        };
        let hint = "write: elementclass NAME { ... }, or elementclass NAME CLASS";
        let class = self.class(hint, None)?;
        statements.push(Statement::Class { name, class });
        Some(())
    }

    fn config_statement(&mut self, keyword: &str, statements: &mut Vec<Statement>) -> Option<()> {
        let span = self.advance().span;
        let Some(config) = self.config() else {
            let error = self.near().with_hint(format!("'{keyword}' needs its arguments in parentheses"));
            self.error(error.with_clicks_words("expected '('"));
            return None;
        };
        match keyword {
            "define" => statements.push(Statement::Define(config)),
            "provide" => statements.push(Statement::Provide(config)),
            _ => self.require(span, config, statements),
        }
        Some(())
    }

    fn require(&mut self, keyword: Span, config: Span, statements: &mut Vec<Statement>) {
        for arg in args::split(self.text_of(config)) {
            let words = args::split_spaces(&arg.text);
            let words: Vec<String> = words.iter().map(|word| args::unquote(&word.text)).collect();
            let span =
                Span { start: config.start + arg.range.start, end: config.start + arg.range.end, ..config };
            match words.as_slice() {
                [] => {}
                [kind, name] if kind == "library" => self.require_library(span, name, statements),
                [kind] if kind == "compact_config" => {
                    statements.push(Statement::Require(kind.clone(), String::new()));
                }
                [name] => statements.push(Statement::Require("package".to_owned(), name.clone())),
                [kind, value] => statements.push(Statement::Require(kind.clone(), value.clone())),
                _ => self.error(
                    Diagnostic::error(span.to(keyword), "syntax error at requirement")
                        .with_hint("write: require(package NAME) or require(library FILE)"),
                ),
            }
        }
    }

    fn require_library(&mut self, span: Span, name: &str, statements: &mut Vec<Statement>) {
        if self.brackets > 0 {
            self.error(
                Diagnostic::error(span, "'require library' must be used at file scope")
                    .with_hint("move it to the top of the file"),
            );
            return;
        }
        let required_by = self.libraries.open.last().map_or("", |(_, file)| file);
        let found = self.libraries.lookup.map(|lookup| lookup(name, required_by));
        let library = match found {
            Some(Ok(library)) => library,
            None | Some(Err(_)) => {
                let mut error = Diagnostic::error(span, format!("cannot find library '{name}'"));
                error.hint = found.and_then(Result::err);
                self.error(error.with_clicks_words(format!("library '{name}' not found in CLICKPATH/conf")));
                return;
            }
        };
        if let Some((circle, is_through_main)) = self.libraries.circle(&library.file) {
            let text = format!("libraries require each other in a circle: {circle}");
            let found = match self.libraries.allows_circles && !is_through_main {
                true => Diagnostic::warning(span, text),
                false => Diagnostic::error(span, text),
            };
            self.error(found.with_hint("move what both need into a library of its own"));
            return;
        }
        if self.libraries.read.contains(&library.file) {
            return;
        }
        if self.depth >= MAX_NESTING {
            self.error(Diagnostic::error(
                span,
                format!("libraries nested more than {MAX_NESTING} levels deep"),
            ));
            return;
        }
        self.libraries.read.insert(library.file.clone());
        let id = self.libraries.sources.add_library(library.name, library.text, span);
        let diagnostics = &mut self.findings.diagnostics;
        let body = parse_source(self.libraries, (id, library.file), self.depth + 1, diagnostics);
        statements.extend(body.statements);
    }

    // Functions for connections.

    fn chain_statement(&mut self, place: Place, statements: &mut Vec<Statement>) -> Option<()> {
        if self.text_of(self.token.span) == "connectiontunnel" && self.peek() == TokenKind::Identifier {
            let hint = "connection tunnels are gone; use a compound element or a group";
            let error = self.near().with_hint(hint);
            self.error(error);
            return None;
        }
        let mut chain = Chain { lists: vec![self.list()?], arrows: Vec::new() };
        while let TokenKind::Arrow | TokenKind::DoubleArrow | TokenKind::ContextArrow = self.token.kind {
            let Token { kind, span, .. } = self.advance();
            let (many, is_context) = (kind == TokenKind::DoubleArrow, kind == TokenKind::ContextArrow);
            chain.arrows.push(Arrow { many, is_context, span });
            if let Some(class) = class_of_context(self.text_of(span)) {
                let node = Node::Implied { class };
                let elements = vec![ElementSyntax { left: None, node, right: None, span }];
                chain.lists.push(ElementList { elements, span, next: self.token.span });
                chain.arrows.push(Arrow { many: false, is_context: false, span });
            }
            match self.list() {
                Some(list) => chain.lists.push(list),
                None => {
                    // The part of the chain ahead of the error is kept, so that its names count as
                    // declared.
                    chain.arrows.pop();
                    statements.push(Statement::Chain(chain));
                    return None;
                }
            }
        }
        let error = self.chain_error(&chain, place);
        if error.is_some() && chain.lists.last().is_some_and(|list| list.elements.is_empty()) {
            // An empty element list after the last arrow means `output`, but after an error the element is
            // missing by mistake.
            chain.lists.pop();
            chain.arrows.pop();
        }
        if !chain.lists.is_empty() {
            statements.push(Statement::Chain(chain));
        }
        match error {
            None => Some(()),
            Some(error) => {
                self.error(error);
                None
            }
        }
    }

    /// Returns the error if no chain may end at the current token, or if the chain is empty.
    fn chain_error(&self, chain: &Chain, place: Place) -> Option<Diagnostic> {
        let is_empty = chain.arrows.is_empty() && chain.lists.iter().all(|list| list.elements.is_empty());
        let may_follow = match self.token.kind {
            TokenKind::Identifier | TokenKind::Char('[' | '(' | '{' | ';') => true,
            _ => self.at_end(place),
        };
        if may_follow && !is_empty {
            return None;
        }
        let error = self.near();
        Some(match self.token.kind {
            TokenKind::Bars | TokenKind::Char('|') => {
                error.with_hint("parameters come first in a compound element: { $a, $b | ... }")
            }
            _ => error,
        })
    }

    fn list(&mut self) -> Option<ElementList> {
        let start = self.token.span;
        let mut elements = Vec::new();
        if self.starts_element() {
            elements.push(self.element()?);
            while self.accept(',') {
                match self.starts_element() {
                    true => elements.push(self.element()?),
                    false => self.skip_after_comma(),
                }
            }
        }
        let span = if elements.is_empty() { Span { end: start.start, ..start } } else { start.to(self.last) };
        Some(ElementList { elements, span, next: self.token.span })
    }

    /// Skips the token after a comma that no element follows. Click ignores such a comma together with the
    /// token after it, so that `a, -> b` makes no connection.
    fn skip_after_comma(&mut self) {
        if matches!(self.token.kind, TokenKind::End | TokenKind::Char(';' | ')' | '}') | TokenKind::Bars) {
            return;
        }
        let text = self.text_of(self.token.span);
        let message = format!("no element follows the ','; the '{text}' after it is ignored");
        self.error(Diagnostic::warning(self.token.span, message).with_clicks_words(""));
        self.advance();
    }

    fn starts_element(&self) -> bool {
        match self.token.kind {
            TokenKind::Identifier => self.keyword().is_none(),
            TokenKind::Char('[' | '(' | '{') => true,
            _ => false,
        }
    }

    fn element(&mut self) -> Option<ElementSyntax> {
        let start = self.token.span;
        let left = self.ports();
        let node = match self.token.kind {
            TokenKind::Identifier if self.keyword().is_none() => self.name()?,
            TokenKind::Char('{') => {
                let class = self.compound()?;
                Node::Declaration { name: None, class, config: self.config() }
            }
            TokenKind::Char('(') => self.group()?,
            _ => Node::Missing,
        };
        let right = if matches!(node, Node::Missing) { None } else { self.ports() };
        Some(ElementSyntax { left, node, right, span: start.to(self.last) })
    }

    fn name(&mut self) -> Option<Node> {
        let name = self.advance().span;
        if self.token.kind != TokenKind::Colons {
            return Some(Node::Name { name, config: self.config() });
        }
        self.advance();
        let class = self.class("an element class must follow '::'", Some(name))?;
        Some(Node::Declaration { name: Some(name), class, config: self.config() })
    }

    fn group(&mut self) -> Option<Node> {
        let open = self.advance().span;
        let body = self.nested(open, |parser| parser.body(Place::Group))?;
        if !self.accept(')') {
            let error =
                self.near().with_related(open, "the group starts here").with_hint("close it with ')'");
            self.error(error.with_clicks_words("expected ')'"));
        }
        Some(Node::Group(body))
    }

    /// Parses a configuration string in parentheses, and returns its span; `None` if the current token is
    /// not `(`.
    fn config(&mut self) -> Option<Span> {
        if !self.is('(') {
            return None;
        }
        let open = self.token.span;
        let config = self.lexer.config(open, &mut self.findings);
        self.last = Span { end: self.lexer.offset(), ..open };
        self.token = self.lexer.next(&mut self.findings);
        Some(config)
    }

    // Functions for classes.

    /// Parses a class. `declared` is the name of the element whose declaration needs it.
    fn class(&mut self, hint: &str, declared: Option<Span>) -> Option<ClassSyntax> {
        match self.token.kind {
            TokenKind::Identifier if self.keyword().is_none() => {
                Some(ClassSyntax::Named(self.advance().span))
            }
            TokenKind::Char('{') => self.compound(),
            _ => {
                let mut error = self.near().with_hint(hint);
                if let Some(name) = declared {
                    let name = self.text_of(name);
                    let words = "missing element type in declaration";
                    error = error.with_clicks_words(format!("{words}\nunknown element class '{name}'"));
                }
                self.error(error);
                None
            }
        }
    }

    fn compound(&mut self) -> Option<ClassSyntax> {
        let open = self.advance().span;
        let alternatives = self.nested(open, |parser| {
            let mut alternatives = vec![parser.alternative()];
            while parser.token.kind == TokenKind::Bars {
                parser.advance();
                alternatives.push(parser.alternative());
            }
            alternatives
        })?;
        if !self.accept('}') {
            let error = self
                .near()
                .with_related(open, "the compound element starts here")
                .with_hint("close it with '}'")
                .with_clicks_words("expected '}'");
            self.error(error);
        }
        Some(ClassSyntax::Compound(alternatives))
    }

    fn alternative(&mut self) -> Alternative {
        let start = self.token.span;
        if self.token.kind == TokenKind::Ellipsis {
            self.advance();
            if !self.at_end(Place::Compound) {
                let error = self.near().with_hint("'...' must be alone between '||' and '}'");
                self.error(error.with_clicks_words("'...' should occur last, after one or more compounds"));
                self.recover(Place::Compound);
                self.body(Place::Compound);
            }
            return Alternative::Ellipsis(start);
        }
        let formals = self.formals();
        let body = self.body(Place::Compound);
        Alternative::Body { formals, body, span: start.to(self.last) }
    }

    /// Parses the parameters of an alternative, `$a, KEYWORD $b |`; returns an empty list if the alternative
    /// does not start with parameters.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals = Vec::new();
        if !self.starts_formals() {
            return formals;
        }
        if self.accept('|') {
            return formals;
        }
        loop {
            let keyword = self.identifier();
            if !is_variable(self.token.kind) {
                break;
            }
            formals.push(Formal { keyword, name: self.advance().span });
            if !self.accept(',') {
                break;
            }
        }
        if !self.accept('|') {
            let error = self.near().with_hint("parameters end with '|': { $a, KEYWORD $b | ... }");
            self.error(error);
            self.recover(Place::Compound);
            self.accept('|');
        }
        formals
    }

    fn starts_formals(&mut self) -> bool {
        match self.token.kind {
            TokenKind::Char('|') => true,
            TokenKind::Identifier if self.keyword().is_none() => is_variable(self.peek()),
            kind => is_variable(kind),
        }
    }
}

/// True for a token that names a parameter of a compound. A dollar sign alone takes an argument whose value
/// the compound does not use.
fn is_variable(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Variable | TokenKind::Char('$'))
}

/// Returns the class of the element that an arrow with the name of a protocol stands for: `IPIn` for `~ip>`,
/// `IPOut` for `~/ip>`. Returns `None` for other arrows.
fn class_of_context(arrow: &str) -> Option<String> {
    let name = arrow.strip_prefix('~')?.strip_suffix('>')?;
    match name.strip_prefix('/') {
        Some(name) => Some(format!("{}Out", name.to_uppercase())),
        None => (!name.is_empty()).then(|| format!("{}In", name.to_uppercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> (Body, Vec<String>) {
        let mut sources = Sources::new();
        let id = sources.add("t", text);
        let mut diagnostics = Vec::new();
        let body = parse(&mut sources, &[id], &Options::default(), &mut diagnostics);
        (body, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
    }

    /// Parses a text, and returns the messages of the errors.
    pub(super) fn errors(text: &str) -> Vec<String> {
        check(text).1
    }

    #[test]
    fn the_whole_grammar_is_accepted() {
        for text in [
            "a :: A; b, c :: B(1); a -> b; a [1] -> [0] c -> d :: D -> E(2) -> [1, 3-5] f [0] -> g",
            "a => (input -> output; [1] -> X -> [1]) => b; x -> (->) -> y; -> z",
            "elementclass A { } elementclass B A; elementclass C { $a, K $b, __REST__ $r | || | x :: A || ... }",
            "define($a 1) require(x, package y) provide(z); { input -> output }(1, 2) -> X;;",
            "a, b -> c, d; a b c; x y :: Z",
        ] {
            assert_eq!(errors(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn statements_need_no_semicolon() {
        assert_eq!(check("a :: A b :: B a -> b elementclass C { } c :: C").0.statements.len(), 5);
    }

    #[test]
    fn every_error_is_reported_once_and_parsing_goes_on() {
        assert_eq!(
            errors("a -> ] b;\n c :: ; d :: D\n e -> , f\n g :: G [x] -> h; elementclass; i |\nj :: J"),
            [
                "syntax error near ']'",
                "syntax error near ';'",
                "syntax error near ','",
                "syntax error: port number should be integer",
                "syntax error near ';'",
                "syntax error near '|'",
            ]
        );
        let (body, _) = check("a -> ] b;\n c :: ; d :: D");
        assert_eq!(body.statements.len(), 2, "what stands before and after the errors is kept");
    }

    #[test]
    fn open_brackets_are_reported_at_the_end() {
        assert_eq!(errors("x :: { a -> b"), ["syntax error near end of file"]);
        assert_eq!(errors("x -> ( a -> b"), ["syntax error near end of file"]);
        assert_eq!(errors("x :: X(a"), ["missing ')' at the end of the configuration string"]);
        assert_eq!(errors("a }"), ["syntax error near '}'"]);
        assert_eq!(errors("a )"), ["syntax error near ')'"]);
    }

    #[test]
    fn depth_is_bounded() {
        for open in ["{", "(", "a -> (", "x :: {", "elementclass A {"] {
            let found = errors(&open.repeat(100_000));
            assert!(found.iter().any(|message| message.contains("levels deep")), "{open}");
        }
    }
}
