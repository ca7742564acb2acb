//! Common parts of elements with one argument per port, and of the handlers `pattern0`, `pattern1` ...,
//! with which classifiers show and replace their patterns.

use element::Args;
use element::class::Access;

/// Reports an error unless `given` arguments are as many as `ports`. `what` names the arguments, such as
/// "pattern", and `side` the ports, "input" or "output". Returns true if the numbers agree.
pub(crate) fn check_count(
    args: &mut Args<'_>,
    (given, what): (usize, &str),
    (ports, side): (usize, &str),
) -> bool {
    if given == ports {
        return true;
    }
    let clicks_words = format!("need {ports} arguments, one per {side} port");
    let plural = if given == 1 { "" } else { "s" };
    let ports = match ports {
        0 => format!("no {side} is connected"),
        1 => format!("for {side} 0"),
        n => format!("for {side}s 0 to {}", n - 1),
    };
    let others = if what == "pattern" { ", '-' for all others" } else { "" };
    let separator = if ports.starts_with("no") { ", but" } else { "" };
    args.error_as(
        format!("{given} {what}{plural}{separator} {ports}: give one for each{others}"),
        clicks_words,
    );
    false
}

/// Returns the names and access rights of the handlers `pattern0` to `pattern{count - 1}`, which can be
/// read and written.
pub(crate) fn handlers(count: usize) -> Vec<(String, Access)> {
    (0..count).map(|number| (format!("pattern{number}"), Access::READ_WRITE)).collect()
}

/// Returns the number in a handler's name.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix("pattern")?.parse().ok()
}

/// Returns the pattern of a handler.
pub(crate) fn read(patterns: &[String], name: &str) -> Result<String, String> {
    let pattern = number(name).and_then(|number| patterns.get(number));
    pattern.cloned().ok_or_else(|| format!("no handler '{name}'"))
}

/// Returns the patterns with the pattern of a handler replaced by `value`.
pub(crate) fn replaced(patterns: &[String], name: &str, value: &str) -> Result<Vec<String>, String> {
    let mut patterns = patterns.to_vec();
    let place = number(name).and_then(|number| patterns.get_mut(number));
    *place.ok_or_else(|| format!("no handler '{name}'"))? = value.trim().to_string();
    Ok(patterns)
}
