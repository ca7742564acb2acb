//! Checks that no two public types of the workspace without `fuzz` have the same name, except for the names
//! in `ROLES`.

mod repository;

use std::collections::BTreeMap;

use repository::{files, read};

/// Names that several types may have, each with the meaning that these types share.
const ROLES: &[(&str, &str)] = &[
    ("Conditions", "the crate jit has the type with and without machine code"),
    ("Error", "the error of a module's functions"),
    ("Header", "the header of a protocol, as in `tcp::Header`"),
    ("Opt", "an option in a header of a protocol, as in `tcp::Opt`"),
    ("Options", "the options of a module's main function, or the iterator over the options of a header"),
    ("Packet", "a packet; `ipv4::Packet` and `ipv6::Packet` are views of its bytes"),
    ("Writes", "the crate jit has the type with and without machine code"),
];

/// Returns the name of the type that a line of code defines with `pub`; `None` if it defines none.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type" | "union");
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    is_type.then_some(&rest[..end])
}

#[test]
fn no_name_stands_for_two_public_types() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files() {
        let is_code = file.ends_with(".rs") && file.contains("/src/") && !file.starts_with("fuzz/");
        if !is_code {
            continue;
        }
        let text = read(&file);
        for line in text.lines() {
            if let Some(name) = defined(line) {
                places.entry(name.to_string()).or_default().push(file.clone());
            }
        }
    }
    assert!(places.len() > 300, "types were found");
    let several = places
        .iter()
        .filter(|(name, places)| places.len() > 1 && !ROLES.iter().any(|(role, _)| role == name));
    let told: Vec<String> = several.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert!(told.is_empty(), "public types with the same name; rename all but one:\n{}", told.join("\n"));
    for (role, _) in ROLES {
        assert!(places.get(*role).is_some_and(|places| places.len() > 1), "{role} has one type: remove it");
    }
}

#[test]
fn definitions_are_recognised() {
    assert_eq!(defined("pub struct Packet<'p> {"), Some("Packet"));
    assert_eq!(defined("    pub enum Kind {"), Some("Kind"));
    assert_eq!(defined("pub unsafe trait Plain: Copy {}"), Some("Plain"));
    assert_eq!(defined("pub type Facts = Vec<u8>;"), Some("Facts"));
    assert_eq!(defined("pub fn packet() {"), None);
    assert_eq!(defined("pub(crate) struct Packet;"), None);
}
