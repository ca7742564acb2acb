//! Reads handlers that the command line names, and shows their values in Click's format.

use element::{Class, ElementId};
use engine::Workers;
use lang::nearest;

/// Reads the handlers that `-H` (in Click: `-h`) names, and returns their values in Click's format. The value
/// of a single name stands alone, unless the name has a pattern or a class in place of an element. Otherwise
/// each value has the line `name:` before it.
///
/// # Errors
/// The second result has a message for each handler that could not be read. The other handlers are read all
/// the same.
pub(crate) fn read_all(workers: &mut Workers, wanted: &[String]) -> (String, Vec<String>) {
    let (mut text, mut errors) = (String::new(), Vec::new());
    for want in wanted {
        let (found, by_pattern) = match find(workers, want) {
            Ok(found) => found,
            Err(error) => {
                errors.push(error + &hint(workers, want));
                continue;
            }
        };
        for (element, handler) in found {
            let name = match element {
                Some(id) => format!("{}.{handler}", workers.plan().graph.elements[id].name),
                None => handler.clone(),
            };
            match workers.read(element, &handler, "") {
                Err(error) => errors.push(format!("{name}: {error}")),
                Ok(mut value) => {
                    let class = element.map(|id| workers.plan().classes[id]);
                    let mut infos = class.into_iter().flat_map(|class| class.each_handler());
                    let is_raw = infos.any(|info| info.name == handler && info.is_raw);
                    if !is_raw && !value.is_empty() && !value.ends_with('\n') {
                        value.push('\n');
                    }
                    if wanted.len() > 1 || by_pattern {
                        text.push_str(&format!("{name}:\n{value}\n"));
                    } else {
                        text.push_str(&value);
                    }
                }
            }
        }
    }
    (text, errors)
}

/// Returns a message for each handler of `-H` that cannot be read, with a remedy if one is known. It is
/// called before the run, so that a mistake is found early.
pub(crate) fn missing(workers: &Workers, wanted: &[String]) -> Vec<String> {
    let help = "; -H prints a handler: write ELEMENT.HANDLER";
    let error = |want: &String| {
        let error = find(workers, want).err()?;
        Some(if want.contains('.') { error + &hint(workers, want) } else { error + help })
    };
    wanted.iter().filter_map(error).collect()
}

/// The most elements that a configuration can have for a message to list the names of all of them.
const MOST_LISTED: usize = 8;

/// Returns the end of a message about a handler that does not exist: the nearest handler or element, or a
/// list of the elements. An empty text if there is nothing to suggest.
fn hint(workers: &Workers, want: &str) -> String {
    let graph = &workers.plan().graph;
    let Some((element, handler)) = want.split_once('.') else { return String::new() };
    let near = match graph.find(element) {
        Some(id) => {
            let class = workers.plan().classes[id];
            let names = class.each_handler().filter(|handler| handler.access.read);
            nearest(handler, names.map(|handler| handler.name)).map(|near| format!("{element}.{near}"))
        }
        None => {
            let names = graph.elements.iter().map(|element| element.name.as_str());
            nearest(element, names).map(|near| format!("{near}.{handler}"))
        }
    };
    match near {
        Some(near) => format!("; did you mean '{near}'?"),
        None if graph.find(element).is_none() && graph.elements.len() <= MOST_LISTED => {
            let names: Vec<&str> = graph.elements.iter().map(|element| element.name.as_str()).collect();
            format!("; the elements are {}", names.join(", "))
        }
        None => String::new(),
    }
}

/// Reads one handler, `ELEMENT.HANDLER` or `HANDLER` of the graph, with a parameter.
///
/// # Errors
/// If the handler does not exist or cannot be read, or if the name means handlers of several elements: the
/// message for the user.
pub(crate) fn read_one(workers: &mut Workers, want: &str, param: &str) -> Result<String, String> {
    let found = find(workers, want).map_err(|error| error + &hint(workers, want))?;
    match found.0.as_slice() {
        [(element, handler)] => workers.read(*element, handler, param),
        _ => Err(format!("no '{want}' read handler")),
    }
}

type Found = (Vec<(Option<ElementId>, String)>, bool);

/// Returns the read handlers that a name means: `HANDLER` of the graph, or `ELEMENT.HANDLER`, where ELEMENT
/// is the name of one element, a pattern of names, a class, or Click's name `Storage` for all queues. The
/// bool is true if the name may mean several elements. A pattern means only elements that have the handler.
fn find(workers: &Workers, want: &str) -> Result<Found, String> {
    // Element names have no dots, but handler names may have dots, so the first dot separates them.
    let Some((element, handler)) = want.split_once('.') else {
        return match workers.can_read(None, want) {
            Some(true) => Ok((vec![(None, want.to_string())], false)),
            _ => Err(format!("no '{want}' handler")),
        };
    };
    let handler = handler.to_string();
    let graph = &workers.plan().graph;
    if let Some(id) = graph.find(element) {
        return match workers.can_read(Some(id), &handler) {
            Some(true) => Ok((vec![(Some(id), handler)], false)),
            Some(false) => Err(format!("'{want}' is a write handler")),
            None => Err(format!("no '{want}' handler")),
        };
    }
    let is_pattern = element.contains(['*', '?', '[']);
    let fits = |&id: &ElementId| match is_pattern {
        true => glob(element.as_bytes(), graph.elements[id].name.as_bytes()),
        false => {
            let class = workers.plan().classes[id];
            class.name == element
                || class.aliases.contains(&element)
                || element == STORAGE && is_storage(class)
        }
    };
    let matching: Vec<ElementId> = (0..graph.elements.len()).filter(fits).collect();
    let can_read = |id: &&ElementId| workers.can_read(Some(**id), &handler) == Some(true);
    let found: Vec<_> = matching.iter().filter(can_read).map(|&id| (Some(id), handler.clone())).collect();
    match (found.is_empty(), is_pattern) {
        (false, _) => Ok((found, true)),
        // As in Click, a pattern may match elements of which none has the handler.
        (true, true) if !matching.is_empty() => Ok((found, true)),
        (true, true) => Err(format!("no element matching '{element}'")),
        (true, false) if !matching.is_empty() => {
            Err(format!("no element of class '{element}' has the read handler '{handler}'"))
        }
        (true, false) => Err(format!("no element '{element}'")),
    }
}

/// Click's name for all elements that store packets, in place of the name of an element.
const STORAGE: &str = "Storage";

/// True if elements of a class store packets, up to a capacity.
fn is_storage(class: &Class) -> bool {
    ["length", "capacity"].iter().all(|name| class.each_handler().any(|handler| handler.name == *name))
}

/// True if a text matches a shell pattern: `*`, `?`, `[abc]`, `[^abc]`, and a backslash ahead of a literal
/// byte.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // The offset in the pattern after the last star, and the offset in the text up to which this star takes
    // bytes. If the current attempt fails, the star takes one more byte.
    let (mut p, mut t) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            again = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = one(pattern, p, text[t]) {
            p = next;
            t += 1;
        } else if let Some((star, taken)) = again {
            again = Some((star, taken + 1));
            (p, t) = (star, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Matches one byte against the pattern at offset `p`. Returns the offset after the matched part of the
/// pattern, or `None` if the byte does not match.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let end = p + 1 + pattern[p + 1..].iter().position(|&b| b == b']')?;
            let (negated, set) = match pattern[p + 1..end] {
                [b'^', ref set @ ..] => (true, set),
                ref set => (false, set),
            };
            (set.contains(&byte) != negated).then_some(end + 1)
        }
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let matches = |pattern: &str, text: &str| glob(pattern.as_bytes(), text.as_bytes());
        assert!(matches("*", "") && matches("c*", "counter") && matches("*/q?", "a/b/q1"));
        assert!(matches("[ab]x", "bx") && !matches("[^ab]x", "bx") && matches("\\*", "*"));
        assert!(!matches("c", "counter") && !matches("*x", "counter") && !matches("[a", "a"));
        assert!(matches("*a*b*", "xxaxxbxx") && !matches("?", ""));
    }
}
