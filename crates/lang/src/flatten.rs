//! Writes a graph as a configuration in the Click language, without compound elements.

use std::collections::HashMap;

use crate::args;
use crate::graph::Graph;
use crate::scan::{self, Kind};

/// Returns a configuration that parses to the same graph, in Click's layout. It has requirements and
/// provisions, a line for each declaration, an empty line, and the connections in chains.
///
/// A configuration string may contain an unbalanced parenthesis, because arguments may be split inside
/// parentheses. It cannot be written as it is, so it is put in quotes. The configuration string then
/// differs, but its value does not.
pub fn flatten(graph: &Graph) -> String {
    let mut out = String::new();
    // As in Click's layout, all requirements are one statement, followed by an empty line.
    let requirements = graph.requirements.iter().map(|(kind, value)| match value.is_empty() {
        true => kind.clone(),
        false => format!("{kind} \"{}\"", args::escape(value.as_bytes())),
    });
    statement(&mut out, "require", &args::join(requirements));
    statement(&mut out, "provide", &args::join(graph.provisions.iter().map(args::quote)));
    for element in &graph.elements {
        let config = balanced(&element.config);
        match config.is_empty() {
            true => out.push_str(&format!("{} :: {};\n", element.name, element.class)),
            false => out.push_str(&format!("{} :: {}({config});\n", element.name, element.class)),
        }
    }
    if !graph.elements.is_empty() {
        out.push('\n');
    }
    let name = |index: usize| graph.elements.get(index).map_or("", |element| &element.name);
    for chain in chains(graph) {
        for (hop, &((from, output), (to, input))) in chain.iter().enumerate() {
            if hop == 0 {
                let output = if output == 0 { String::new() } else { format!(" [{output}]") };
                out.push_str(&format!("{}{output} -> ", name(from)));
            } else {
                out.push_str("\n    -> ");
            }
            let input = if input == 0 { String::new() } else { format!("[{input}] ") };
            out.push_str(&format!("{input}{}", name(to)));
        }
        out.push_str(";\n");
    }
    out
}

fn statement(out: &mut String, keyword: &str, arguments: &str) {
    if !arguments.is_empty() {
        out.push_str(&format!("{keyword}({arguments});\n\n"));
    }
}

/// A connection: the index of an element and its output port, and the index of an element and its input
/// port.
type Link = ((usize, usize), (usize, usize));

/// Returns the connections as chains, in Click's order: sorted by input port. In a chain, a connection to
/// input 0 of an element is followed by a connection from its output 0.
fn chains(graph: &Graph) -> Vec<Vec<Link>> {
    let mut links: Vec<Link> = graph.connections.iter().map(|c| (c.from, c.to)).collect();
    links.sort_unstable_by_key(|&(from, to)| (to, from));
    links.dedup();
    // For each output port, the indexes of its connections in `links`, in the order of `links`.
    let mut leaving: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for (i, &(from, _)) in links.iter().enumerate() {
        leaving.entry(from).or_default().push(i);
    }
    let follower = |&(_, to): &Link| {
        let next = leaving.get(&(to.0, 0)).filter(|_| to.1 == 0)?;
        next.iter().find(|&&i| links[i].1.1 == 0).or(next.last()).copied()
    };
    let followers: Vec<Option<usize>> = links.iter().map(follower).collect();
    let mut used = vec![false; links.len()];
    let mut follows = vec![false; links.len()];
    followers.iter().flatten().for_each(|&i| follows[i] = true);
    // Chains start at connections that follow no other connection. The connections that are in none of these
    // chains form circles, and a chain starts at any connection of a circle.
    let starts = (0..links.len()).filter(|&i| !follows[i]).chain(0..links.len());
    let mut chains = Vec::new();
    for start in starts {
        let mut chain = Vec::new();
        let mut next = Some(start);
        while let Some(i) = next.filter(|&i| !used[i]) {
            used[i] = true;
            chain.push(links[i]);
            next = followers[i];
        }
        if !chain.is_empty() {
            chains.push(chain);
        }
    }
    chains
}

/// Returns the configuration string with quotes around unbalanced parentheses, which do not change the
/// value of the argument. A comment at the end is closed.
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
        // A comment at the end must not include the parenthesis that closes the configuration string.
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
