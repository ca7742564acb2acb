//! Tests that the classes have the keywords and handlers of Click and FastClick, and that docs/classes.md
//! says what became of each class of the two programs. `BLESS=1` writes the document.
//!
//! `facts.txt` has a line for each class whose documentation in the two programs names keywords or handlers:
//! the class, the keywords in capitals, and the handlers, each with `/r`, `/w` or `/rw` if the documentation
//! says if it is read or written. Names that the programs themselves do not have are left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use element::{Absent, Class};
use testkit::registry;

/// The names that are missing here: the class, the keywords and handlers, and the reason.
const MISSING: &[(&str, &str, &str)] = &[
    (
        "FromDPDKDevice",
        "FLOW_ISOLATE FLOW_RULES_FILE rule_add rule_byte_count rule_packet_hits rules_aggr_stats rules_count \
            rules_del rules_flush rules_ids_global rules_ids_internal rules_isolate rules_list \
            rules_list_with_hits",
        "cards get no rules for flows; IPClassifier chooses packets",
    ),
    (
        "FromDPDKDevice",
        "VF_POOLS VF_VLAN nb_vf_pools vf_mac_addr",
        "virtual functions are set up before the program starts",
    ),
    ("FromDPDKDevice", "RX_INTR", "an idle port is polled at longer intervals, without interrupts"),
    ("ICMPPingSource", "MIRROR", "requests are sent at their interval only"),
    (
        "IPsecEncap",
        "dst src",
        "Click documents these handlers, but its element has none: the addresses are those of each packet",
    ),
    (
        "ReplayUnqueue",
        "TIMING_FNT",
        "expressions of the time are not evaluated; TIMING is a number of percent",
    ),
];

/// The handlers that all elements have.
const COMMON: [&str; 5] = ["class", "config", "handlers", "name", "ports"];

/// True if the class has the keyword or handler `word` of `facts.txt`.
fn has(class: &Class, word: &str) -> bool {
    let (name, access) = word.split_once('/').unwrap_or((word, ""));
    if name.starts_with(|c: char| c.is_ascii_uppercase()) {
        return class.args.iter().any(|arg| arg.name == name);
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let listed = class.each_handler().find(|handler| [name, base].contains(&handler.name));
    match listed {
        Some(handler) => {
            let may = |letter, allowed| !access.contains(letter) || allowed;
            // A handler that is read with a parameter, such as `shift`, counts as one to which it is written.
            may('r', handler.access.read) && may('w', handler.access.write || handler.access.param)
        }
        // Handlers that depend on the arguments of an element are not listed, but its manual describes them.
        None => COMMON.contains(&name) || is_described(class, name),
    }
}

/// True if a word between backticks in the manual of the class is `name`.
fn is_described(class: &Class, name: &str) -> bool {
    let code = class.manual.split('`').skip(1).step_by(2);
    code.flat_map(str::split_whitespace).any(|word| word == name)
}

/// Returns, for each class that is here and in `facts.txt`, the number of its keywords and handlers there,
/// and those that are missing here.
fn compared() -> BTreeMap<&'static str, (usize, Vec<&'static str>)> {
    let registry = registry();
    let compare = |line: &'static str| {
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        let class = registry.get(name)?;
        let words: Vec<_> = words.split(' ').collect();
        let missing = words.iter().copied().filter(|word| !has(class, word)).collect();
        Some((name, (words.len(), missing)))
    };
    include_str!("facts.txt").lines().filter_map(compare).collect()
}

/// Returns the reason why the keyword or handler `word` of a class is missing.
fn reason(class: &str, word: &str) -> Option<&'static str> {
    let name = word.split('/').next().unwrap_or_default();
    let found = MISSING.iter().find(|(of, names, _)| *of == class && names.split(' ').any(|n| n == name));
    found.map(|&(.., reason)| reason)
}

#[test]
fn keywords_and_handlers_are_those_of_click_and_fastclick() {
    let compared = compared();
    let mut all = 0;
    let (mut unexplained, mut missing) = (Vec::new(), Vec::new());
    for (&class, (count, words)) in &compared {
        all += count;
        for word in words {
            missing.push((class, word.split('/').next().unwrap_or_default()));
            if reason(class, word).is_none() {
                unexplained.push(format!("{class} {word}"));
            }
        }
    }
    assert!(unexplained.is_empty(), "missing without a reason:\n{}", unexplained.join("\n"));
    let told = MISSING.iter().flat_map(|&(class, names, _)| names.split(' ').map(move |name| (class, name)));
    let stale: Vec<_> = told.filter(|name| !missing.contains(name)).collect();
    assert!(stale.is_empty(), "not missing: {stale:?}");
    assert!(all > 1100 && missing.len() * 50 <= all, "{} of {all} are missing", missing.len());
}

#[test]
fn the_document_says_what_became_of_each_class() {
    let registry = registry();
    let compared = compared();
    let mut text = String::from(HEAD);
    for name in include_str!("names.txt").lines() {
        let (here, remark) = match (registry.get(name), Absent::find(name)) {
            (Some(class), _) => {
                let here = if class.name == name { "yes".to_string() } else { format!("as {}", class.name) };
                let words = compared.get(name).map(|(_, words)| &words[..]).unwrap_or_default();
                (here, remark(name, words))
            }
            (None, Some(group)) => ("no".to_string(), format!("{}; {}", group.purpose, group.advice)),
            (None, None) => panic!("{name} is neither here nor known"),
        };
        let _ = writeln!(text, "| {name} | {here} | {remark} |");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/classes.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let document = std::fs::read_to_string(path).unwrap_or_default();
    assert!(document == text, "docs/classes.md is not what the data give; write it with BLESS=1");
}

/// Returns the text about the missing keywords and handlers of a class: the names with their reasons.
fn remark(class: &str, words: &[&str]) -> String {
    let mut by_reason = BTreeMap::<_, Vec<_>>::new();
    for word in words {
        let name = word.split('/').next().unwrap_or_default();
        by_reason.entry(reason(class, word).unwrap_or_default()).or_default().push(format!("`{name}`"));
    }
    let told = by_reason.iter().map(|(reason, names)| format!("without {}: {reason}", names.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

/// The beginning of the document.
const HEAD: &str = "\
# Classes of Click and FastClick

This page lists every element class of Click and FastClick at user level. It is for users who look for a class of their
configuration. A class that is here has the arguments and handlers that the documentation of the two programs names,
except where the last column says otherwise; [compatibility.md](compatibility.md) describes differences in what elements
do. For a class that is not here, the last column says what it does there, and what to use instead. Tidegate reports the
same if a configuration has the class. A test writes this page from the classes and compares it with them.

| class | here | remarks |
| --- | --- | --- |
";
