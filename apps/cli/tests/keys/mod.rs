//! Collects the keys of a JSON value and the keys in the tables of a document, to be compared.

use std::collections::BTreeSet;

use serde_json::Value;

/// Collects the paths of all keys in a JSON value. Keys that are numbers become `*`. If an object has a known
/// form, such as a distribution, the name of the form (`DISTRIBUTION`) replaces the path of the object in its
/// keys. The keys `removable` and `pure_...` keep the path, because not all objects of the form have them.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let below = |key: &str| match path {
        "" => key.to_string(),
        _ => format!("{path}.{key}"),
    };
    match value {
        Value::Object(entries) => {
            const SHAPES: [(&str, &str); 3] =
                [("bins", "DISTRIBUTION"), ("batches", "BATCH"), ("saved_switches", "ROW")];
            let shape = SHAPES.into_iter().find(|(key, _)| entries.contains_key(*key));
            let kind = shape.map(|(_, kind)| kind);
            if kind.is_some() {
                found.insert(path.to_string());
            }
            for (key, value) in entries {
                let own = key.starts_with("pure_") || key == "removable";
                match kind.filter(|_| !own) {
                    Some(kind) => keys(value, &format!("{kind}.{key}"), found),
                    None if key.parse::<u32>().is_ok() => keys(value, &below("*"), found),
                    None => keys(value, &below(key), found),
                }
            }
        }
        Value::Array(entries) => {
            let path = format!("{path}[]");
            if entries.first().is_none_or(|entry| !entry.is_object()) {
                found.insert(path.clone());
            }
            entries.iter().for_each(|entry| keys(entry, &path, found));
        }
        _ => _ = found.insert(path.to_string()),
    }
}

/// Returns two sets to be compared: the keys of a JSON value, and the keys in the tables of a document
/// between this heading and the next heading of level 2.
pub(crate) fn compare(value: &Value, document: &str, heading: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut found = BTreeSet::new();
    keys(value, "", &mut found);
    // A distribution without values has an empty array of bins, which gives this key and no keys of bins.
    found.remove("DISTRIBUTION.bins[]");
    let figures = document.split(heading).nth(1).and_then(|text| text.split("\n## ").next()).unwrap();
    let cell = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_string());
    (found, figures.lines().filter_map(cell).collect())
}
