//! Tests that configurations which others have written parse without an error, and that their flat form
//! parses to the same graph.
//!
//! The configurations are read from `$TIDEGATE_DATA`, or `../shared/data` next to the workspace. For a folder
//! that is absent, the test prints a message.

use std::path::{Path, PathBuf};

use lang::{Options, Severity, Sources, flatten, parse};

fn data() -> PathBuf {
    match std::env::var_os("TIDEGATE_DATA") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    }
}

fn click_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            click_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "click") {
            found.push(path);
        }
    }
}

/// Checks that a file parses and flattens. `usage` is appended to the text, for files that only define a
/// class.
fn check(path: &Path, usage: &str) {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let mut sources = Sources::new();
    let id = sources.add(path.display().to_string(), text);
    let usage = [sources.add("usage", usage)];
    let options = Options { expressions: &usage, ..Options::default() };
    let (graph, diagnostics) = parse(&mut sources, id, &options);
    let errors: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{}", errors.iter().map(|error| error.render(&sources)).collect::<String>());
    assert!(graph.elements.len() > 3 && graph.connections.len() > 2, "{}", path.display());
    let flat = flatten(&graph);
    let id = sources.add("flat", flat.clone());
    let (again, diagnostics) = parse(&mut sources, id, &Options::default());
    assert_eq!(diagnostics, [], "{}", path.display());
    assert!(again.is_equivalent(&graph), "{}", path.display());
    assert_eq!(flatten(&again), flat);
}

#[test]
fn found_configurations_parse_and_flatten() {
    let router = "Idle -> Router -> Discard";
    for (folder, least, usage) in [("rules/snf", 50, ""), ("routes/reframer", 4, router)] {
        let folder = data().join(folder);
        if !folder.is_dir() {
            println!("skipped: {} is absent", folder.display());
            continue;
        }
        let mut files = Vec::new();
        click_files(&folder, &mut files);
        assert!(files.len() >= least, "{} has {} configurations", folder.display(), files.len());
        files.iter().for_each(|file| check(file, usage));
    }
}
