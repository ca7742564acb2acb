//! The texts of a configuration, spans in them, and the translation of a span into file, line and column.

use std::sync::Arc;

/// The id of a text in a [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceId(usize);

/// A range of bytes in one text: the place of an element, an argument or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The text that contains the range.
    pub source: SourceId,
    /// The offset of the first byte in the text.
    pub start: usize,
    /// The offset after the last byte, so that an empty span has equal offsets.
    pub end: usize,
}

impl Span {
    /// Returns the span from the start of `self` to the end of `other`, for example from the first to the
    /// last token of a statement. Spans in different texts cannot be joined; then `self` is returned.
    pub fn to(self, other: Span) -> Span {
        if self.source == other.source { Span { end: other.end.max(self.start), ..self } } else { self }
    }
}

/// The place at which a span starts, as messages show it: file, line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file that the last line directive ahead of the place named, otherwise the name of the text.
    pub file: String,
    /// The number of the line, from 1; line directives change it.
    pub line: usize,
    /// The column in characters, from 1. A tab counts as one character.
    pub column: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A line directive (`# 12 "file"` or `#line 12 "file"`, click(5)), as the C preprocessor writes it. The line
/// that follows has this number in this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The offset of the line after the directive, from which on it applies.
    pub(crate) start: usize,
    pub(crate) line: usize,
    /// The file name; `None` if the directive changes only the line number.
    pub(crate) file: Option<String>,
}

/// The texts of one configuration: the main text, further texts, and the libraries that they require.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: Arc<str>,
    /// The offset of the first byte of each line.
    lines: Vec<usize>,
    directives: Vec<Directive>,
    /// The place that requires the text, if it is a library.
    required_at: Option<Span>,
}

impl Sources {
    /// Makes a collection without texts.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a text, and returns its id. `name` is the file name in messages.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.texts.push(Source { name: name.into(), text, lines, directives: Vec::new(), required_at: None });
        SourceId(self.texts.len() - 1)
    }

    /// Adds the text of a library, which is required at `place`, and returns its id.
    pub(crate) fn add_library(&mut self, name: String, text: String, place: Span) -> SourceId {
        let id = self.add(name, text);
        if let Some(source) = self.texts.last_mut() {
            source.required_at = Some(place);
        }
        id
    }

    /// Returns a key by which spans can be sorted in the order in which the texts are read: the text of a
    /// library is read where it is required.
    pub fn reading_order(&self, span: Span) -> Vec<Span> {
        let mut places = vec![span];
        let place = |span: Span| self.texts.get(span.source.0).and_then(|source| source.required_at);
        while let Some(outer) = places.last().and_then(|&span| place(span)) {
            places.push(outer);
        }
        places.reverse();
        places
    }

    /// Returns the ids of all texts, in the order in which they were added.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> {
        (0..self.texts.len()).map(SourceId)
    }

    /// Returns the name with which a text was added; empty for an id that is not of this collection.
    pub fn name(&self, id: SourceId) -> &str {
        self.texts.get(id.0).map_or("", |source| &source.name)
    }

    /// Returns a whole text; empty for an id that is not of this collection.
    pub fn text(&self, id: SourceId) -> &str {
        self.texts.get(id.0).map_or("", |source| &source.text)
    }

    /// Returns the text of a span; empty if the span is not inside its text.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.source).get(span.start..span.end).unwrap_or("")
    }

    /// Returns file, line and column at which a span starts. Line directives have an effect only after
    /// [`parse`](crate::parse()) has read the text.
    pub fn locate(&self, span: Span) -> Location {
        let Some(source) = self.texts.get(span.source.0) else {
            return Location { file: String::new(), line: 1, column: 1 };
        };
        let index = source.line_index(span.start);
        let start = source.line_start(index);
        let column = source.text.get(start..span.start).map_or(1, |before| before.chars().count() + 1);
        let passed = source.directives.partition_point(|directive| directive.start <= start);
        let passed = source.directives.get(..passed).unwrap_or_default();
        let line = passed.last().map_or(index + 1, |directive| {
            directive.line.saturating_add(index - source.line_index(directive.start))
        });
        let file = passed.iter().rev().find_map(|directive| directive.file.as_ref());
        // An empty name stands for the text itself.
        let file = file.filter(|file| !file.is_empty());
        Location { file: file.unwrap_or(&source.name).clone(), line, column }
    }

    /// Returns the whole line in which a span starts, without the newline.
    pub fn line_text(&self, span: Span) -> &str {
        let Some(source) = self.texts.get(span.source.0) else { return "" };
        let start = source.line_start(source.line_index(span.start));
        let rest = source.text.get(start..).unwrap_or("");
        rest.lines().next().unwrap_or("")
    }

    /// Returns a text by a pointer of its own, so that it can be read while other texts are added.
    pub(crate) fn shared_text(&self, id: SourceId) -> Arc<str> {
        self.texts.get(id.0).map_or_else(|| Arc::from(""), |source| Arc::clone(&source.text))
    }

    /// Sets the line directives of a text, which must be in the order of their offsets.
    pub(crate) fn set_directives(&mut self, id: SourceId, directives: Vec<Directive>) {
        if let Some(source) = self.texts.get_mut(id.0) {
            source.directives = directives;
        }
    }
}

impl Source {
    fn line_index(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    fn line_start(&self, index: usize) -> usize {
        self.lines.get(index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(source: SourceId, start: usize) -> Span {
        Span { source, start, end: start }
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        let mut sources = Sources::new();
        let id = sources.add("a.click", "ab\nüxy\n\nz");
        let place = |offset| sources.locate(at(id, offset)).to_string();
        assert_eq!(place(0), "a.click:1:1");
        assert_eq!(place(2), "a.click:1:3");
        assert_eq!(place(6), "a.click:2:3", "columns are characters, not bytes");
        assert_eq!(place(8), "a.click:3:1");
        assert_eq!(place(9), "a.click:4:1");
        assert_eq!(place(10), "a.click:4:2");
        assert_eq!(sources.line_text(at(id, 6)), "üxy");
        assert_eq!(sources.line_text(at(id, 10)), "z");
    }

    #[test]
    fn directives_rename_what_follows() {
        let mut sources = Sources::new();
        let id = sources.add("a", "x\n#line 7 \"b\"\ny\nz\n# 3\nw\n");
        sources.set_directives(
            id,
            vec![
                Directive { start: 14, line: 7, file: Some("b".into()) },
                Directive { start: 22, line: 3, file: None },
            ],
        );
        let place = |offset| sources.locate(at(id, offset)).to_string();
        assert_eq!(place(0), "a:1:1");
        assert_eq!(place(14), "b:7:1");
        assert_eq!(place(16), "b:8:1");
        assert_eq!(place(22), "b:3:1");
    }

    #[test]
    fn a_library_is_read_where_it_is_required() {
        let mut sources = Sources::new();
        let main = sources.add("main", "a; require(library x); b");
        let outer = sources.add_library("x".into(), "c; require(library y); d".into(), at(main, 3));
        let inner = sources.add_library("y".into(), "e".into(), at(outer, 3));
        let mut places = [at(outer, 23), at(main, 0), at(inner, 0), at(main, 23), at(outer, 0)];
        places.sort_by_cached_key(|&place| sources.reading_order(place));
        let in_order = [at(main, 0), at(outer, 0), at(inner, 0), at(outer, 23), at(main, 23)];
        assert_eq!(places, in_order);
    }

    #[test]
    fn foreign_spans_are_harmless() {
        let sources = Sources::new();
        let span = Span { source: SourceId(4), start: 7, end: 3 };
        assert_eq!(sources.slice(span), "");
        assert_eq!(sources.line_text(span), "");
        assert_eq!(sources.locate(span).line, 1);
    }
}
