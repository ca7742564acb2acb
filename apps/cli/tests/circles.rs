//! Checks that no modules of a crate import each other in a circle, so that each module can be read, tested
//! and replaced without the modules that use it.
//!
//! Modules are compared with their siblings: `a/x` and `b/y` count as `a` and `b`. A parent and its
//! children count as one. Tests inside of files are left out.

mod repository;

use std::collections::{BTreeMap, BTreeSet};

use repository::{files, manifests, read};

/// A module, as its path from the root of its crate.
type Module = Vec<String>;

/// Circles of modules that are allowed: the folder of the crate, the modules that import each other, and the
/// reason.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    (
        "crates/device",
        &["dpdk/away", "dpdk/ports"],
        "a queue of a port that was removed becomes the record of the removal, which opens queues again",
    ),
    (
        "crates/device",
        &["xdp/port", "xdp/receiver"],
        "a port opens its receivers, and the last receiver closes it",
    ),
    (
        "crates/engine",
        &["generation", "handlers", "host", "reload", "team", "worker"],
        "a worker answers handlers of other workers, its elements call handlers, and a reload exchanges all that it \
         has: see team.rs and reload/mod.rs",
    ),
];

/// Returns the text of a file without comments and without the module of tests at its end.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the paths in a text that begin with `crate` or `super`. A group in braces gives one path for
/// each item.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            let continues = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            if !continues {
                take_apart("", &code[at..], &mut found);
            }
        }
    }
    found
}

/// Adds the paths at the start of a text to `found`, each with a prefix. Returns the rest of the text.
fn take_apart<'c>(prefix: &str, text: &'c str, found: &mut Vec<String>) -> &'c str {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c: char| !is_path(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    let mut rest = &text[end..];
    if !path.ends_with("::") || !rest.starts_with('{') {
        found.push(path);
        return rest;
    }
    loop {
        rest = take_apart(&path, rest[1..].trim_start(), found);
        // Skips the new name of an import that is renamed (`as x`).
        rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
        if !rest.starts_with(',') {
            return rest.get(1..).unwrap_or_default();
        }
    }
}

/// Returns the module that a path in the module `from` refers to: the longest part of the path that is a
/// module.
fn resolve(from: &Module, path: &str, modules: &BTreeMap<Module, String>) -> Module {
    let mut parts = path.split("::").peekable();
    let mut at: Module = match parts.next() {
        Some("crate") => Module::new(),
        _ => from[..from.len().saturating_sub(1)].to_vec(),
    };
    while parts.next_if(|part| *part == "super").is_some() {
        at.pop();
    }
    for part in parts {
        at.push(part.to_string());
        if !modules.contains_key(&at) {
            at.pop();
            break;
        }
    }
    at
}

/// Returns the imports between siblings: for each module, the modules that it uses.
fn arrows(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (from, code) in modules {
        for path in paths(code) {
            let to = resolve(from, &path, modules);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                arrows.entry(from[..=common].to_vec()).or_default().insert(to[..=common].to_vec());
            }
        }
    }
    arrows
}

/// Returns all modules that a module uses, directly or through other modules.
fn reached(from: &Module, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut work = vec![from];
    while let Some(module) = work.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                work.push(next);
            }
        }
    }
    reached
}

/// Returns the import cycles (circles) of a crate, each as the names of the modules that import each other.
fn circles(modules: &BTreeMap<Module, String>) -> BTreeSet<Vec<String>> {
    let arrows = arrows(modules);
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        arrows.keys().map(|module| (module, reached(module, &arrows))).collect();
    let circle = |module: &Module| -> Option<Vec<String>> {
        let reached = all.get(module).filter(|reached| reached.contains(module))?;
        let back = |other: &&Module| all.get(other).is_some_and(|from_other| from_other.contains(module));
        Some(reached.iter().filter(back).map(|module| module.join("/")).collect())
    };
    arrows.keys().filter_map(circle).collect()
}

/// Returns the modules of the crate in a folder, with their code.
fn modules(folder: &str, all: &[String]) -> BTreeMap<Module, String> {
    let sources = all.iter().filter_map(|file| {
        let path = file.strip_prefix(&format!("{folder}/src/"))?.strip_suffix(".rs")?;
        let mut module: Module = path.split('/').map(String::from).collect();
        module.pop_if(|last| last == "mod" || last == "lib");
        let is_code = path != "main" && !module.iter().any(|part| part == "tests");
        is_code.then(|| (module, code(&read(file))))
    });
    sources.collect()
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let all = files();
    let mut failures = Vec::new();
    let mut allowed: BTreeSet<(&str, Vec<String>)> = CIRCLES
        .iter()
        .map(|(folder, names, _)| (*folder, names.iter().map(|n| n.to_string()).collect()))
        .collect();
    let mut count = 0;
    let manifests = manifests();
    for manifest in &manifests {
        let modules = modules(&manifest.folder, &all);
        count += modules.len();
        for circle in circles(&modules) {
            if !allowed.remove(&(manifest.folder.as_str(), circle.clone())) {
                failures.push(format!("{}: {}", manifest.folder, circle.join(", ")));
            }
        }
    }
    failures.extend(allowed.iter().map(|(folder, names)| format!("{folder}: no circle any more: {names:?}")));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 500, "only {count} modules were found");
}

#[test]
fn circles_are_found() {
    let modules = |texts: &[(&str, &str)]| -> BTreeMap<Module, String> {
        texts.iter().map(|(name, text)| (name.split('/').map(String::from).collect(), code(text))).collect()
    };
    let of = |texts: &[(&str, &str)]| -> Vec<String> {
        circles(&modules(texts)).into_iter().map(|circle| circle.join(" ")).collect()
    };
    assert_eq!(of(&[("a", "use crate::{b::{C, D as E}, x};"), ("b", "use super::a::F;")]), ["a b"]);
    assert_eq!(
        of(&[("a/x", "use crate::b::y::Z;"), ("a", ""), ("b", "use crate::a;"), ("b/y", "")]),
        ["a b"]
    );
    let three = [("a", "crate::b::f()"), ("b", "crate::c::f()"), ("c", "super::a::f()")];
    assert_eq!(of(&three), ["a b c"]);
    let none = [
        ("a", "use crate::b::C; // crate::c::D"),
        ("b", "use crate::d::E;"),
        ("c", "use crate::a;"),
        ("d", "#[cfg(test)]\nmod tests { use crate::a; }"),
    ];
    assert_eq!(of(&none), [""; 0]);
    assert_eq!(of(&[("a", "use super::b;"), ("b", "use super::a::x;"), ("a/x", "")]), ["a b"]);
}
