//! Common parts of elements with one argument per port, and of the handlers `pattern0`, `pattern1` ...,
//! with which classifiers show and replace their patterns.

use element::Args;

/// Reports an error unless `given`, the number of arguments, is equal to `ports`, the number of ports.
/// `what` names the arguments, such as "pattern", and `side` the ports, "input" or "output". Returns true
/// if the numbers agree.
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

/// Returns a copy of the patterns in which the pattern at index `number`, if there is one, is `value`, the
/// text that was written to a handler.
pub(crate) fn replaced(patterns: &[String], number: usize, value: &str) -> Vec<String> {
    let mut patterns = patterns.to_vec();
    if let Some(pattern) = patterns.get_mut(number) {
        *pattern = value.trim().to_string();
    }
    patterns
}
