//! The repository as tests see it: its files and its manifests.
#![allow(dead_code)] // each test uses its own part

use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

/// Returns the root folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every file of the repository, by its path from the root: the files that version control knows or
/// would add; without version control, all files outside of folders named `target` or `.git`.
pub(crate) fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut files: Vec<String> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(&root(), "", &mut found);
            found
        }
    };
    files.retain(|file| root().join(file).is_file());
    assert!(files.iter().any(|file| file == "Cargo.toml"), "the repository was not found");
    files
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if name != "target" && name != ".git" {
                walk(&entry.path(), &format!("{path}/"), found);
            }
        } else {
            found.push(path);
        }
    }
}

/// Returns the text of a file of the repository, or an empty text if it is not UTF-8.
pub(crate) fn read(file: &str) -> String {
    let bytes = std::fs::read(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    String::from_utf8(bytes).unwrap_or_default()
}

/// The use of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A dependency of the crate itself, or of its build script.
    Build,
    /// A dependency of tests, examples and benchmarks only.
    Test,
}

/// A crate in the repository.
pub(crate) struct Manifest {
    /// The path from the root.
    pub(crate) folder: String,
    /// The package's full name.
    pub(crate) package: String,
    /// The last part of the crate's folder, by which other crates import it.
    pub(crate) short: String,
    /// True if the crate inherits the workspace's lints, or denies unsafe code itself, as an example that
    /// can be copied does.
    pub(crate) lints: bool,
    /// The full names of the packages that it uses directly.
    pub(crate) dependencies: Vec<(String, Kind)>,
}

/// Returns the manifest at the root.
pub(crate) fn workspace() -> Table {
    read("Cargo.toml").parse().unwrap()
}

/// Returns the external dependencies of the workspace: name and version requirement.
pub(crate) fn external() -> Vec<(String, String)> {
    let workspace = workspace();
    let table = workspace["workspace"]["dependencies"].as_table().unwrap();
    let version = |value: &Value| match value {
        Value::String(version) => Some(version.clone()),
        other => other.get("version").and_then(Value::as_str).map(String::from),
    };
    table.iter().filter_map(|(name, value)| Some((name.clone(), version(value)?))).collect()
}

/// Returns the manifests of all folders below the root that have one.
pub(crate) fn manifests() -> Vec<Manifest> {
    let workspace = workspace();
    let shared = workspace["workspace"]["dependencies"].as_table().unwrap();
    let files = files();
    let members = files.iter().filter_map(|file| file.strip_suffix("/Cargo.toml"));
    let manifests: Vec<Manifest> = members.map(|folder| manifest(folder, shared)).collect();
    assert!(manifests.len() > 10, "the manifests were not found");
    manifests
}

fn manifest(folder: &str, shared: &Table) -> Manifest {
    let table: Table = read(&format!("{folder}/Cargo.toml")).parse().unwrap();
    let mut dependencies = Vec::new();
    collect(&table, folder, shared, &mut dependencies);
    for target in table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values) {
        collect(target.as_table().unwrap(), folder, shared, &mut dependencies);
    }
    let lints = table.get("lints");
    let inherits = lints.and_then(|lints| lints.get("workspace")) == Some(&Value::Boolean(true));
    let denies = lints.and_then(|lints| lints.get("rust")?.get("unsafe_code")?.as_str()) == Some("deny");
    Manifest {
        folder: folder.into(),
        package: table["package"]["name"].as_str().unwrap().into(),
        short: folder.rsplit('/').next().unwrap_or_default().into(),
        lints: inherits || (is_example(folder) && denies),
        dependencies,
    }
}

/// True for a folder whose manifest inherits nothing from the workspace, so that it can be copied.
fn is_example(folder: &str) -> bool {
    folder.starts_with("examples/")
}

/// True if a dependency of an example is the same as in the workspace: the same version requirement, or the
/// same package at the same path.
fn is_the_same(own: &Value, shared: &Value) -> bool {
    let path = |value: &Value| value.get("path").and_then(Value::as_str).map(String::from);
    let is_there = path(own) == path(shared).map(|path| format!("../../{path}"));
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(String::from);
    is_there && text(own, "package") == text(shared, "package") && own.as_str() == shared.as_str()
}

fn collect(table: &Table, folder: &str, shared: &Table, into: &mut Vec<(String, Kind)>) {
    let sections = [
        ("dependencies", Kind::Build),
        ("build-dependencies", Kind::Build),
        ("dev-dependencies", Kind::Test),
    ];
    for (section, kind) in sections {
        for (name, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
            let is_shared = match is_example(folder) {
                true => shared.get(name).is_some_and(|shared| is_the_same(value, shared)),
                false => value.get("workspace") == Some(&Value::Boolean(true)),
            };
            assert!(is_shared, "{folder}: {name} has to take its version from the workspace");
            let package = shared.get(name).and_then(|shared| shared.get("package")).and_then(Value::as_str);
            into.push((package.unwrap_or(name).into(), kind));
        }
    }
}
