//! Parses port lists, such as `[1, 3-5]`.

use super::Parser;
use crate::diagnostic::Diagnostic;
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::syntax::Ports;

/// The highest port number that may be written in a configuration.
const MAX_PORT: usize = 65_535;

impl Parser<'_, '_, '_> {
    /// Parses a port list, such as `[1, 3-5]`, if there is one. `[]`, and a dash at the end as in `[1-]`, add
    /// as many ports as the connection needs. After an error the list has the ports ahead of it; without any,
    /// there is no list.
    pub(super) fn ports(&mut self) -> Option<Ports> {
        if !self.is('[') {
            return None;
        }
        let open = self.advance().span;
        let mut ports = Ports { ranges: Vec::new(), expands: false, span: open };
        let mut is_range = false;
        loop {
            match self.token.kind {
                TokenKind::Identifier => self.port(&mut ports, is_range, open),
                TokenKind::Char(']') => {
                    ports.expands = true;
                    self.advance();
                    break;
                }
                _ => {
                    self.port_error("expected port number", "a port number belongs here");
                    break;
                }
            }
            match self.token.kind {
                TokenKind::Char(']') => {
                    self.advance();
                    break;
                }
                TokenKind::Char('-') if !is_range => {
                    self.advance();
                    is_range = true;
                }
                TokenKind::Char(',') => {
                    self.advance();
                    is_range = false;
                }
                _ => self
                    .port_error("expected ','", "separate port numbers by ',', and close the list with ']'"),
            }
        }
        if ports.ranges.is_empty() && ports.expands {
            ports.ranges.push((0, 0));
        }
        ports.span = open.to(self.last);
        Some(ports).filter(|ports| !ports.ranges.is_empty())
    }

    fn port_error(&mut self, what: &str, hint: &str) {
        self.error(Diagnostic::error(self.token.span, format!("syntax error: {what}")).with_hint(hint));
    }

    /// Parses a port number and adds it to `ports`: as the end of the last range if `is_range`, otherwise as
    /// a range of its own. `open` is the place of the bracket that opens the port list.
    fn port(&mut self, ports: &mut Ports, is_range: bool, open: Span) {
        let port = self.port_number();
        match ports.ranges.last_mut() {
            Some((first, last)) if is_range && *first <= port => *last = port,
            Some(&mut (first, _)) if is_range => {
                let message = format!("bad port range {first}-{port}");
                let span = open.to(self.last);
                self.error(Diagnostic::error(span, message).with_hint("the lower port comes first"));
            }
            _ => ports.ranges.push((port, port)),
        }
    }

    /// Parses an identifier as a port number; after an error, the number is 0.
    fn port_number(&mut self) -> usize {
        let digits = self.text_of(self.token.span);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            self.port_error("port number should be integer", "a port number belongs here");
            self.advance();
            return 0;
        }
        let span = self.advance().span;
        match digits.parse() {
            Ok(port) if port <= MAX_PORT => port,
            _ => {
                self.error(
                    Diagnostic::error(span, format!("port number {digits} too large"))
                        .with_hint(format!("ports go up to {MAX_PORT}")),
                );
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parser::tests::errors;

    #[test]
    fn ports_are_bounded() {
        assert_eq!(errors("a [65535] -> b"), [""; 0]);
        assert_eq!(errors("a [65536] -> b"), ["port number 65536 too large"]);
        assert_eq!(errors("a [99999999999999999999] -> b"), ["port number 99999999999999999999 too large"]);
        assert_eq!(errors("a [3-1] -> b"), ["bad port range 3-1"]);
        assert_eq!(errors("a [] -> [1-] b"), [""; 0]);
        let expected = ["syntax error: port number should be integer", "syntax error: expected ','"];
        assert_eq!(errors("a [x, 1 2] -> b"), expected);
        assert_eq!(errors("a [;] -> b"), ["syntax error: expected port number", "syntax error near ']'"]);
    }
}
