//! The manual of an element class: the doc block at the top of the element's file, and its parser.
//!
//! The block consists of the `//!` lines at the top of the file, so that the manual is close to the code and
//! rustdoc shows it too. It has a title `# Name`, a summary paragraph, and sections: `## Usage`, `##
//! Arguments`, `## Handlers` (lists with one item per name), `## Example` (a code block that parses), and
//! `## See also`.

/// The length in bytes of the doc block at the start of the text of a source file.
pub const fn block_length(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut end = 0;
    while end + 2 < bytes.len() && bytes[end] == b'/' && bytes[end + 1] == b'/' && bytes[end + 2] == b'!' {
        while end < bytes.len() && bytes[end] != b'\n' {
            end += 1;
        }
        end += 1;
    }
    end
}

/// The doc block of a source file, for [`crate::Class::manual`]. Only the block becomes part of the program,
/// not the whole file.
#[macro_export]
macro_rules! manual {
    ($file:literal) => {{
        const SOURCE: &str = include_str!($file);
        const LENGTH: usize = $crate::manual::block_length(SOURCE);
        static BLOCK: [u8; LENGTH] = {
            let mut block = [0; LENGTH];
            let mut i = 0;
            while i < LENGTH {
                block[i] = SOURCE.as_bytes()[i];
                i += 1;
            }
            block
        };
        match std::str::from_utf8(&BLOCK) {
            Ok(text) => text,
            Err(_) => "",
        }
    }};
}

/// A manual page, split into title, summary, description and sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The title: the name of the class.
    pub title: String,
    /// The summary: the first paragraph of the manual page, on one line.
    pub summary: String,
    /// The paragraphs of the manual page between the summary and the first section.
    pub description: String,
    /// The titles and texts of the sections of the manual page, in order. The texts keep the markers of code
    /// blocks.
    pub sections: Vec<(String, String)>,
}

impl Page {
    /// Parses a doc block. Lines may begin with `//!`.
    pub fn parse(block: &str) -> Page {
        let mut page = Page::default();
        let mut in_code = false;
        for line in block.lines() {
            let line = line.strip_prefix("//!").unwrap_or(line);
            let line = line.strip_prefix(' ').unwrap_or(line);
            in_code ^= line.starts_with("```");
            if !in_code && let Some(title) = line.strip_prefix("# ") {
                page.title = title.trim().to_string();
            } else if !in_code && let Some(title) = line.strip_prefix("## ") {
                page.sections.push((title.trim().to_string(), String::new()));
            } else if let Some((_, text)) = page.sections.last_mut() {
                text.push_str(line);
                text.push('\n');
            } else if page.summary_is_open() && !line.is_empty() {
                page.summary.push_str(line);
                page.summary.push(' ');
            } else {
                page.description.push_str(line);
                page.description.push('\n');
            }
        }
        page.summary = page.summary.trim().to_string();
        page.description = page.description.trim().to_string();
        for (_, text) in &mut page.sections {
            *text = text.trim_matches('\n').to_string();
        }
        page
    }

    fn summary_is_open(&self) -> bool {
        self.description.trim().is_empty() && (self.summary.is_empty() || self.description.is_empty())
    }

    /// Returns the text of the first section with this title; `None` if there is none.
    pub fn section(&self, title: &str) -> Option<&str> {
        self.sections.iter().find(|(t, _)| t == title).map(|(_, text)| text.as_str())
    }

    /// Returns the items of the section `title`, which is a list: for each name in back quotes before the
    /// colon, the name and the text after the colon. An item with several names gives several entries with
    /// the same text.
    pub fn items(&self, title: &str) -> Vec<(String, String)> {
        let mut items: Vec<(String, String)> = Vec::new();
        // The index of the first name of the current item: names of one item have the same text.
        let mut first = 0;
        for line in self.section(title).unwrap_or_default().lines() {
            if let Some(item) = line.strip_prefix("- ") {
                let (names, text) = item.split_once(": ").unwrap_or((item, ""));
                first = items.len();
                for name in names.split(", ") {
                    items.push((name.trim().trim_matches('`').to_string(), text.trim().to_string()));
                }
            } else if !line.trim().is_empty() {
                for (_, text) in items.iter_mut().skip(first) {
                    text.push(' ');
                    text.push_str(line.trim());
                }
            }
        }
        items
    }

    /// Returns the texts of the code blocks in the section `title`.
    pub fn code(&self, title: &str) -> Vec<String> {
        let text = self.section(title).unwrap_or_default();
        text.split("```")
            .skip(1)
            .step_by(2)
            .map(|b| b.split_once('\n').map_or("", |(_, c)| c).to_string())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! # Strip\n//! Removes bytes\n//! from the front.\n//!\n//! More.\n//!\n\
        //! ## Arguments\n//! - `LENGTH`: how many,\n//!   in bytes.\n//! - `A`, `B`: both,\n//!   or one.\n\
        //!\n//! ## Example\n//! ```click\n//! # not a title\n//! Idle -> Strip(14) -> Discard\n//! ```\n\n\
        use std;\n//! not this\n";

    #[test]
    fn a_block_is_taken_apart() {
        let page = Page::parse(&SOURCE[..block_length(SOURCE)]);
        assert_eq!((page.title.as_str(), page.summary.as_str()), ("Strip", "Removes bytes from the front."));
        assert_eq!(page.description, "More.");
        let items = page.items("Arguments");
        assert_eq!(items[0], ("LENGTH".into(), "how many, in bytes.".into()));
        assert_eq!(items[1], ("A".into(), "both, or one.".into()));
        assert_eq!(items[2], ("B".into(), "both, or one.".into()));
        assert_eq!(page.code("Example"), ["# not a title\nIdle -> Strip(14) -> Discard\n"]);
    }
}
