//! Tests of language features and diagnostics by example: `cases/X.click` is parsed, and the flat
//! configuration and the diagnostics are compared with `cases/X.txt`. `BLESS=1 cargo test` writes the
//! expected files.
//!
//! Comments in a case set options: `// define NAME=VALUE`, `// classes A B C`, `// circles allowed`.
//! Libraries are read from `cases/library`.

use std::fs;
use std::path::{Path, PathBuf};

use lang::{LibraryText, Options, Sources, flatten, parse};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn run(name: &str, text: &str) -> String {
    let option = |key: &str| text.lines().find_map(|line| line.strip_prefix(&format!("// {key} ")));
    let defines: Vec<(String, String)> = option("define")
        .into_iter()
        .filter_map(|define| define.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let classes: Option<Vec<&str>> = option("classes").map(|classes| classes.split_whitespace().collect());
    let library = |name: &str, _: &str| match fs::read_to_string(folder().join("library").join(name)) {
        Ok(text) => Ok(LibraryText { name: name.to_owned(), file: name.to_owned(), text }),
        Err(_) => Err("not in the folder 'library'".to_owned()),
    };
    let mut sources = Sources::new();
    let id = sources.add(name, text);
    let options = Options {
        defines: &defines,
        library: Some(&library),
        file: Some(name),
        allows_circles: option("circles") == Some("allowed"),
        classes: classes.as_deref(),
        ..Options::default()
    };
    let (graph, diagnostics) = parse(&mut sources, id, &options);
    let flat = flatten(&graph);

    let mut again = Sources::new();
    let id = again.add("flat", flat.clone());
    let (second, _) = parse(&mut again, id, &Options::default());
    assert_eq!(flatten(&second), flat, "{name}: the flat configuration gives itself again");

    diagnostics.iter().fold(flat, |out, diagnostic| out + "\n" + &diagnostic.render(&sources))
}

#[test]
fn cases() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "click") {
            continue;
        }
        count += 1;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = run(&name, &fs::read_to_string(&path).unwrap());
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            failed.push(format!("--- {name}\n{found}"));
        }
    }
    assert!(count > 20, "only {count} cases found");
    let expected = fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.path());
    let expected = expected.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    assert_eq!(expected.count(), count, "each expected file belongs to a case");
    assert!(failed.is_empty(), "{}\nBLESS=1 writes these results", failed.join("\n"));
}
