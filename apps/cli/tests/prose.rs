//! Checks comments against the rule for words in CONTRIBUTING.md. The number of violations of each kind in a
//! crate may only fall. The kinds are: openings of doc comments without a subject, words with an unclear
//! meaning, and lines that are wider than the code.
//!
//! `prose.txt` has the allowed numbers. `BLESS=1` writes lower numbers into it. String literals, which users
//! read as messages, must not have such words at all.

mod repository;

use std::collections::BTreeMap;
use std::fmt::Write;

use repository::{files, read, root};

/// The first words of a doc comment that has no subject.
const OPENINGS: &[&str] = &[
    "What", "Whether", "Who", "Whom", "Whose", "Where", "How", "Which", "When", "Why", "Those", "That",
    "They", "It", "Its", "One", "Ones", "The same", "Nobody", "Somebody",
];

/// Words that hide a term of the field or a noun, in any comment.
const WORDS: &[&str] = &[
    "so many",
    "anew",
    "afresh",
    "in vain",
    "by then",
    "becomes of",
    "become of",
    "whoever",
    "nobody",
    "somebody",
    "gives way",
    "give way",
    "how manieth",
    "for it to say",
    "of chance",
];

/// Further words that are wrong in any text for users: "after", "upstream" or "downstream" says which
/// order is meant, and "reported" or "parked" says what happens.
const MESSAGE_WORDS: &[&str] = &[
    "behind",
    "in front",
    "beside",
    "told",
    "left aside",
    "leaves aside",
    "leave aside",
    "puts back",
    "put back",
    "makes of it",
];

/// String literals that may have these words: the file, a part of the literal, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("mechanisms/synthesizer/program/src/text.rs", "behind", "a keyword of programs"),
    ("mechanisms/synthesizer/runtime/src/synthesized.rs", "PASSING nobody", "an element's name in a sample"),
    ("bench/src/evaluation/figures/snf/offload.rs", "--behind-switch", "the name of an option"),
];

/// The counts of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    openings: usize,
    words: usize,
    wide: usize,
}

/// Returns the marker of a line of a comment, which is `//`, `///` or `//!`, and the text after it.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker))?;
    Some((marker, line[marker.len()..].trim()))
}

/// True if a text begins with one of these words.
fn begins_with(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        text.strip_prefix(word)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// Returns the number of these words in a text.
fn words_in(text: &str, words: &[&str]) -> usize {
    let text = text.to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let count = |word: &&str| {
        let whole = |&(at, _): &(usize, &str)| {
            !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
        };
        text.match_indices(*word).filter(whole).count()
    };
    words.iter().map(count).sum()
}

/// Returns, for each line of a file that breaks the rule, its number and its counts of violations: openings,
/// unclear words, and lines wider than `width` columns.
fn findings(text: &str, width: usize) -> Vec<(usize, Counts)> {
    let mut found = Vec::new();
    // The marker of the comment that the previous line belongs to (empty if none), and true if the comment's
    // first sentence has not come yet.
    let mut block = ("", false);
    for (number, line) in (1..).zip(text.lines()) {
        let Some((marker, text)) = comment(line) else {
            block = ("", false);
            continue;
        };
        let begins = if block.0 == marker { block.1 } else { marker != "//" };
        let is_sentence = !text.is_empty() && !text.starts_with('#');
        block = (marker, begins && !is_sentence);
        let counts = Counts {
            openings: usize::from(begins && is_sentence && begins_with(text, OPENINGS)),
            words: words_in(text, WORDS),
            wide: usize::from(line.chars().count() > width),
        };
        if counts != Counts::default() {
            found.push((number, counts));
        }
    }
    found
}

/// Returns the line and the value of each string literal of a source text. Line breaks in a value are blanks.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = &text[..text.len() - rest.len()];
        let line = || 1 + before.matches('\n').count();
        let after_r = rest.strip_prefix('r').unwrap_or_default();
        let hashes = after_r.len() - after_r.trim_start_matches('#').len();
        let is_raw = after_r[hashes..].starts_with('"')
            && !before.trim_end_matches('b').ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if is_raw {
            let (value, after) = after_r[hashes + 1..]
                .split_once(&format!("\"{}", "#".repeat(hashes)))
                .expect("a raw string literal that ends");
            found.push((line(), value.replace('\n', " ")));
            rest = after;
        } else if first == '"' {
            let (value, after) = quoted(&rest[1..]);
            found.push((line(), value));
            rest = after;
        } else if first == '\'' && rest[1..].starts_with('\\') {
            // The escaped character may be a quote.
            let end = 3 + rest[3..].find('\'').expect("a character literal that ends");
            rest = &rest[end + 1..];
        } else if rest.starts_with("'\"'") {
            rest = &rest[3..];
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// Returns the value of a string literal, from the text after its opening quote, and the text after it.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let at = rest.find(['"', '\\']).expect("a string literal that ends");
        value += &rest[..at].replace('\n', " ");
        if rest[at..].starts_with('"') {
            return (value, &rest[at + 1..]);
        }
        rest = &rest[at + 1..];
        match rest.chars().next() {
            Some('\n') => rest = rest.trim_start(),
            Some(escaped) => {
                value.push(if matches!(escaped, '"' | '\\') { escaped } else { ' ' });
                rest = &rest[escaped.len_utf8()..];
            }
            None => {}
        }
    }
}

/// True if the messages of a file are for users: sources of the program, without tests.
fn has_messages(file: &str) -> bool {
    let is_test = file.contains("/tests/") || file.ends_with("tests.rs") || file.starts_with("fuzz/");
    file.ends_with(".rs") && file.contains("src/") && !is_test && !file.starts_with("crates/testkit/")
}

/// Returns the literals of a file that have words with an unclear meaning, with their lines.
fn unclear(file: &str, text: &str) -> Vec<(usize, String)> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_allowed =
        |value: &str| EXCEPTIONS.iter().any(|(place, part, _)| *place == file && value.contains(part));
    let is_unclear = |value: &str| words_in(value, WORDS) + words_in(value, MESSAGE_WORDS) > 0;
    literals(text).into_iter().filter(|(_, value)| is_unclear(value) && !is_allowed(value)).collect()
}

/// Returns the crate of a file.
fn crate_of(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    match parts[0] {
        "crates" | "mechanisms" | "apps" | "examples" => parts[..2].join("/"),
        other => other.into(),
    }
}

fn listed(text: &str) -> BTreeMap<String, Counts> {
    let line = |line: &str| {
        let [name, openings, words, wide] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("prose.txt: '{line}' is not CRATE OPENINGS WORDS WIDE");
        };
        let number = |text: &str| text.parse().unwrap();
        (name.to_string(), Counts { openings: number(openings), words: number(words), wide: number(wide) })
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

#[test]
fn comments_get_no_worse() {
    let file = root().join("apps/cli/tests/prose.txt");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let listed = listed(&text);
    let rustfmt: toml::Table = read("rustfmt.toml").parse().unwrap();
    let width = rustfmt["max_width"].as_integer().unwrap() as usize;
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for file in files().iter().filter(|file| file.ends_with(".rs")) {
        let name = crate_of(file);
        let sum = found.entry(name.clone()).or_default();
        for (line, counts) in findings(&read(file), width) {
            sum.openings += counts.openings;
            sum.words += counts.words;
            sum.wide += counts.wide;
            writeln!(places.entry(name.clone()).or_default(), "{file}:{line}: {counts:?}").unwrap();
        }
    }
    let mut wrong = String::new();
    for (name, now) in &found {
        let then = listed.get(name).copied().unwrap_or_default();
        if now.openings > then.openings || now.words > then.words || now.wide > then.wide {
            let places = places.get(name).map_or("", String::as_str);
            writeln!(wrong, "{name}: {now:?}, but at most {then:?}; see CONTRIBUTING.md, Words\n{places}")
                .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let head =
        "# Crate, openings, words, wide lines: see prose.rs. Counts only fall; BLESS=1 writes lower ones.\n";
    let new = found.iter().fold(head.to_string(), |mut text, (name, counts)| {
        writeln!(text, "{name} {} {} {}", counts.openings, counts.words, counts.wide).unwrap();
        text
    });
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, new).unwrap();
    } else {
        assert_eq!(text, new, "counts have fallen: BLESS=1 cargo test -p tidegate --test prose");
    }
}

#[test]
fn what_is_wrong_with_comments_is_found() {
    let found = |text: &str| findings(text, 30).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    let text = "/// Whether it is so.\nfn a() {}\n/// Whetherever.\n//! # Title\n//!\n//! One of them.\n";
    assert_eq!(found(text), [1, 6]);
    // Comments inside functions may have any opening, but must not contain words with an unclear meaning.
    assert_eq!(found("// Where it is.\n// It is anew, and renewed.\n"), [2]);
    assert_eq!(
        found(
            "/// Returns a value.\n/// It is wide, and so wide that\nlet x = 1; // a line of code is not\n"
        ),
        [2]
    );
}

#[test]
fn messages_have_clear_words() {
    let mut wrong = String::new();
    let mut sources = 0;
    for file in files().iter().filter(|file| has_messages(file)) {
        sources += 1;
        for (line, value) in unclear(file, &read(file)) {
            writeln!(wrong, "{file}:{line}: {value:?}").unwrap();
        }
    }
    assert!(sources > 500, "only {sources} sources have been read");
    assert!(wrong.is_empty(), "see CONTRIBUTING.md, Words\n{wrong}");
}

#[test]
fn exceptions_are_needed() {
    for (file, part, reason) in EXCEPTIONS {
        let found = literals(&read(file)).into_iter().any(|(_, value)| value.contains(part));
        assert!(found, "{file} has no literal with '{part}' ({reason})");
    }
}

#[test]
fn literals_are_found() {
    let text = r###"
        // "a comment"
        let a = "one \"two\" \
            three\nfour";
        let b = ['"', '\'', '\\'];
        let c = r#"five "six""#; // "seven"
        fn d<'a>(_: &'a str) { for_r("eight"); }
    "###;
    let found: Vec<_> = literals(text).into_iter().map(|(line, value)| format!("{line} {value}")).collect();
    assert_eq!(found, ["3 one \"two\" three four", "6 five \"six\"", "7 eight"]);
    let unclear = |text: &str| unclear("a/src/b.rs", text).len();
    assert_eq!(unclear("let a = \"It stands\\nbehind it\";"), 1);
    assert_eq!(unclear("let a = \"{behind_gap} after it\";"), 0);
    assert_eq!(unclear("let a = 1;\n#[cfg(test)]\nmod tests { const B: &str = \"anew\"; }"), 0);
}
