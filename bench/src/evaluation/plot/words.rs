//! The text in a picture, and the description of a picture.

use super::{Panel, PointOrigin};

/// The subject of a picture, for its title and description.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The paper and the number of the figure.
    pub title: &'s str,
    /// The measured quantity.
    pub about: &'s str,
}

/// Returns the text below the panels, which explains points, bars and grey lines, as far as the panels have
/// them.
pub(super) fn caption(panels: &[Panel]) -> String {
    let all = || panels.iter().flat_map(|panel| &panel.series);
    let has = |kind: PointOrigin| all().any(|series| series.kind == kind && !series.points.is_empty());
    let mut parts: Vec<&str> = Vec::new();
    if all().any(|series| series.points.iter().any(|point| point.quartiles.is_some())) {
        parts.push("points: medians, bars: quartiles");
    } else if has(PointOrigin::Measured) {
        parts.push("points: one value each, without quartiles");
    }
    if has(PointOrigin::Paper) {
        parts.push("grey marks and dashes: values of a paper");
    }
    if has(PointOrigin::Guide) {
        parts.push("grey, dotted: computed");
    }
    if has(PointOrigin::Floor) {
        parts.push("grey, thin: the floor, which is reading packets and nothing else");
    }
    let text = parts.join("; ");
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// Returns a description of the picture in sentences, for screen readers.
pub(super) fn description(subject: &Subject<'_>, panels: &[Panel], warning: Option<&str>) -> String {
    let mut sentences: Vec<String> = warning.map(String::from).into_iter().collect();
    sentences.push(format!("{}.", subject.about));
    for panel in panels {
        let better = panel.y.better.map_or_else(String::new, |better| format!(", {}", better.words()));
        let names: Vec<&str> = panel.series.iter().map(|series| series.name.as_str()).collect();
        let (y, x) = (panel.y.described(), panel.x.described());
        let of = if names.is_empty() { String::new() } else { format!(": {}", names.join("; ")) };
        let over = if x.is_empty() { String::new() } else { format!(" over {x}") };
        sentences.push(format!("{}: {y}{better}{over}{of}.", panel.title));
    }
    sentences.push(caption(panels));
    sentences.join(" ").trim().into()
}

/// Escapes text for XML: characters of markup are replaced by entities, control characters by spaces.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML does not allow control characters.
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Splits text into lines of at most `most` letters, between words. A longer word is a line of its own.
pub(super) fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}
