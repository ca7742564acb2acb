//! A graph as a configuration without compound elements.

use crate::args;
use crate::graph::Graph;
use crate::scan::{self, Kind};

/// Writes a graph as a configuration that parses to the same graph, one declaration or connection a line.
///
/// One thing cannot be written as it is: a parenthesis without its partner, which an argument may hold that
/// was split off another one. It gets quotes, so the configuration string differs but not its value.
pub fn flatten(graph: &Graph) -> String {
    let mut out = String::new();
    let requirements =
        graph.requirements.iter().map(|(kind, value)| format!("{kind} {}", args::quote(value)));
    statement(&mut out, "require", &args::join(requirements));
    statement(&mut out, "provide", &args::join(graph.provisions.iter().map(args::quote)));
    for element in &graph.elements {
        let config = balanced(&element.config);
        match config.is_empty() {
            true => out.push_str(&format!("{} :: {};\n", element.name, element.class)),
            false => out.push_str(&format!("{} :: {}({config});\n", element.name, element.class)),
        }
    }
    let name = |index: usize| graph.elements.get(index).map_or("", |element| &element.name);
    for connection in &graph.connections {
        let ((from, output), (to, input)) = (connection.from, connection.to);
        let output = if output == 0 { String::new() } else { format!(" [{output}]") };
        let input = if input == 0 { String::new() } else { format!("[{input}] ") };
        out.push_str(&format!("{}{output} -> {input}{};\n", name(from), name(to)));
    }
    out
}

fn statement(out: &mut String, keyword: &str, arguments: &str) {
    if !arguments.is_empty() {
        out.push_str(&format!("{keyword}({arguments});\n"));
    }
}

/// Arguments may be split inside parentheses, so a configuration string may hold some that have no partner.
/// These get quotes, which leaves the value of the argument as it is.
fn balanced(config: &str) -> String {
    let mut lonely = Vec::new();
    let mut open = Vec::new();
    let mut end = "";
    for piece in scan::pieces(config) {
        match config.as_bytes().get(piece.start) {
            Some(b'(') if piece.kind == Kind::Plain => open.push(piece.start),
            Some(b')') if piece.kind == Kind::Plain && open.pop().is_none() => lonely.push(piece.start),
            _ => {}
        }
        // A comment at the end must not swallow the closing parenthesis.
        end = match (piece.kind, config.as_bytes().get(piece.start + 1)) {
            (Kind::Comment, Some(b'/')) => "\n",
            (Kind::Comment, _) if !piece.closed => "*/",
            _ => "",
        };
    }
    lonely.extend(open);
    lonely.sort_unstable();
    let mut out = String::with_capacity(config.len() + 2 * lonely.len());
    let mut copied = 0;
    for at in lonely {
        out.push_str(config.get(copied..at).unwrap_or(""));
        out.push('"');
        out.push_str(config.get(at..at + 1).unwrap_or(""));
        out.push('"');
        copied = at + 1;
    }
    out.push_str(config.get(copied..).unwrap_or(""));
    out + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_swallows_the_closing_parenthesis() {
        assert_eq!(balanced("a // b"), "a // b\n");
        assert_eq!(balanced("a // b\n"), "a // b\n");
        assert_eq!(balanced("a /* b"), "a /* b*/");
    }

    #[test]
    fn lonely_parentheses_are_quoted() {
        assert_eq!(balanced("a (b) c"), "a (b) c");
        assert_eq!(balanced("(a"), "\"(\"a");
        assert_eq!(balanced("a) (b) (\")\""), "a\")\" (b) \"(\"\")\"");
    }
}
