//! Checks the dependencies between crates (the map of ARCHITECTURE.md), the places of `unsafe`, and that
//! engine and mechanisms name no element.

mod repository;

use std::collections::{BTreeMap, BTreeSet};

use repository::{Kind, Manifest, files, manifests, read};

/// The crates that each crate may use. Other crates in `crates/` are an error; other crates in `mechanisms/`
/// may use [`MECHANISM`]. Crates in other folders are applications and may use all crates except the testkit,
/// which only `fuzz` may use.
///
/// The crates of the synthesizer know each other only through programs: the verifier knows neither the
/// compiler that makes programs nor the runtime that executes them, so a proof relies on neither.
const ARROWS: &[(&str, &[&str])] = &[
    ("packet", &[]),
    ("wire", &[]),
    ("lang", &[]),
    ("capture", &["wire"]),
    ("classify", &["packet", "wire"]),
    ("flow", &["packet", "wire"]),
    ("element", &["packet", "wire", "classify", "flow", "lang"]),
    ("nf", &["packet", "wire", "classify", "flow", "lang", "element"]),
    ("device", &["packet", "wire", "capture", "flow", "element"]),
    ("engine", &["packet", "lang", "element"]),
    ("control", &["element", "engine", "lang"]),
    ("trace", &["packet", "wire", "flow", "capture", "classify"]),
    ("lab", &["wire"]),
    (
        "testkit",
        &[
            "packet",
            "wire",
            "capture",
            "lang",
            "element",
            "engine",
            "nf",
            "device",
            "reframer",
            "juggler",
            "slicer",
            "synthesizer",
            "program",
            "runtime",
            "verify",
            "trace",
        ],
    ),
    ("program", &["packet", "classify", "element", "lang"]),
    ("jit", &["element", "program"]),
    ("runtime", &["packet", "wire", "classify", "flow", "element", "program", "jit"]),
    ("verify", &["packet", "wire", "classify", "element", "lang", "program"]),
    ("synthesizer", &["packet", "wire", "classify", "element", "lang", "program"]),
    ("rules", &["wire", "classify", "element", "program", "verify", "synthesizer"]),
];

/// The crates that every mechanism may use.
const MECHANISM: &[&str] = &["packet", "wire", "classify", "flow", "element"];

/// The further crates that the tests of any crate may use.
const TESTS: &[&str] = &["testkit", "engine", "nf", "device", "capture", "lang", "wire"];

/// The crates that may allow the lint `unsafe_code`, which the workspace denies. `jit` needs it to call the
/// machine code that it has made.
const UNSAFE: &[&str] = &["packet", "flow", "device", "classify", "engine", "jit"];

/// True if a folder is the folder of a mechanism itself, not of a crate within a mechanism.
fn is_mechanism(folder: &str) -> bool {
    folder.strip_prefix("mechanisms/").is_some_and(|name| !name.contains('/'))
}

/// Returns the reason why `from` must not use `to`, if there is one.
fn forbidden(from: &Manifest, to: &str, kind: Kind, mechanisms: &BTreeSet<&str>) -> Option<String> {
    if is_mechanism(&from.folder) && mechanisms.contains(to) {
        return Some("mechanisms never import each other".into());
    }
    if kind == Kind::Test && TESTS.contains(&to) {
        return None;
    }
    // Tests of the synthesizer may also use the runtime, the verifier and the crate `flow`, because they run
    // and prove the programs that it has made.
    if kind == Kind::Test
        && from.folder == "mechanisms/synthesizer"
        && ["runtime", "verify", "flow"].contains(&to)
    {
        return None;
    }
    // A test of the Reframer compares made traffic with its paper.
    if kind == Kind::Test && from.folder == "mechanisms/reframer" && to == "trace" {
        return None;
    }
    let application = !from.folder.starts_with("crates/") && !from.folder.starts_with("mechanisms/");
    if to == "testkit" {
        return (from.folder != "fuzz").then(|| "the testkit is for tests only".into());
    }
    let allowed = match ARROWS.iter().find(|(name, _)| *name == from.short) {
        Some((_, allowed)) => allowed.contains(&to),
        None if application => true,
        None if from.folder.starts_with("mechanisms/") => MECHANISM.contains(&to),
        None => return Some(format!("{} is a new crate: give it a place in the list of arrows", from.short)),
    };
    (!allowed).then(|| "not in the list of arrows".into())
}

#[test]
fn every_arrow_is_allowed() {
    let manifests = manifests();
    let own: BTreeMap<&str, &str> =
        manifests.iter().map(|m| (m.package.as_str(), m.short.as_str())).collect();
    let mechanisms: BTreeSet<&str> =
        manifests.iter().filter(|m| is_mechanism(&m.folder)).map(|m| m.short.as_str()).collect();
    let mut failures = Vec::new();
    let mut arrows = 0;
    for manifest in &manifests {
        for (dependency, kind) in &manifest.dependencies {
            let Some(to) = own.get(dependency.as_str()) else { continue };
            arrows += 1;
            if let Some(reason) = forbidden(manifest, to, *kind, &mechanisms) {
                failures.push(format!("{} -> {to}: {reason}", manifest.short));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(arrows > 30, "only {arrows} arrows were found: are the manifests read rightly?");
}

#[test]
fn wrong_arrows_are_found() {
    let crate_in = |folder: &str| Manifest {
        folder: folder.into(),
        package: String::new(),
        short: folder.rsplit('/').next().unwrap_or_default().into(),
        lints: true,
        dependencies: Vec::new(),
    };
    let mechanisms = BTreeSet::from(["reframer", "slicer"]);
    let verdict = |from: &str, to: &str, kind| forbidden(&crate_in(from), to, kind, &mechanisms);
    for (from, to) in [
        ("crates/packet", "wire"),
        ("crates/engine", "nf"),
        ("crates/element", "engine"),
        ("crates/nf", "device"),
        ("crates/lang", "element"),
        ("crates/unknown", "packet"),
        ("mechanisms/reframer", "slicer"),
        ("mechanisms/reframer", "engine"),
        ("mechanisms/synthesizer", "verify"),
        ("mechanisms/synthesizer", "runtime"),
        ("mechanisms/synthesizer/verify", "synthesizer"),
        ("mechanisms/synthesizer/verify", "runtime"),
        ("mechanisms/synthesizer/verify", "jit"),
        ("mechanisms/synthesizer/runtime", "verify"),
        ("mechanisms/synthesizer/runtime", "synthesizer"),
        ("mechanisms/synthesizer/program", "runtime"),
        ("mechanisms/synthesizer/program", "verify"),
        ("apps/cli", "testkit"),
    ] {
        assert!(verdict(from, to, Kind::Build).is_some(), "{from} -> {to}");
    }
    assert!(verdict("mechanisms/reframer", "slicer", Kind::Test).is_some());
    assert!(verdict("mechanisms/reframer", "nf", Kind::Build).is_some());
    assert!(verdict("crates/nf", "engine", Kind::Build).is_some());
    assert!(verdict("crates/nf", "engine", Kind::Test).is_none());
    assert!(verdict("apps/cli", "engine", Kind::Build).is_none());
    assert!(verdict("mechanisms/synthesizer", "lang", Kind::Build).is_none());
    assert!(verdict("mechanisms/synthesizer/verify", "program", Kind::Build).is_none());
    assert!(verdict("mechanisms/synthesizer/verify", "runtime", Kind::Test).is_some());
    assert!(verdict("mechanisms/synthesizer/verify", "synthesizer", Kind::Test).is_some());
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    let mut failures = Vec::new();
    let manifests = manifests();
    for manifest in &manifests {
        // Without `lints.workspace = true`, the crate does not inherit the lint that denies `unsafe`.
        if !manifest.lints {
            failures.push(format!("{}/Cargo.toml has no `lints.workspace = true`", manifest.folder));
        }
    }
    // Matches each form of an attribute that lifts the lint.
    let is_permission = |line: &str| line.trim_start().starts_with('#') && line.contains("unsafe_code");
    let mut permissions = 0;
    for file in files().iter().filter(|file| file.ends_with(".rs")) {
        if !read(file).lines().any(is_permission) {
            continue;
        }
        permissions += 1;
        let owners = manifests.iter().filter(|m| file.starts_with(&format!("{}/", m.folder)));
        let owner = owners.max_by_key(|m| m.folder.len());
        if !owner.is_some_and(|m| UNSAFE.contains(&m.short.as_str())) {
            failures.push(format!("{file} allows unsafe code"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(permissions >= 3, "packet, flow and engine have unsafe code: are the files read rightly?");
}

/// The files of the synthesizer that may name element classes, because they write configurations: the back
/// ends for other engines and for switches, the code that joins the configurations of a chain, and the name
/// of the element that runs programs. Hints and errors contain names only as parts of longer texts.
const NAMING: &[&str] = &[
    "mechanisms/synthesizer/program/src/lib.rs",
    "mechanisms/synthesizer/src/standard/",
    "mechanisms/synthesizer/src/openflow/",
    "mechanisms/synthesizer/src/topology/join.rs",
];

/// Returns the class names, among `names`, that occur in the code outside of tests: as a whole string
/// literal, or in a string literal ahead of an opening parenthesis.
fn asked_for<'n>(code: &str, names: &[&'n str]) -> Vec<&'n str> {
    let tests = code.find("#[cfg(test)]\nmod ").unwrap_or(code.len());
    let lines = code[..tests].lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("name: ")
    });
    let code: String = lines.collect::<Vec<_>>().join("\n");
    let texts: BTreeSet<&str> = code.split('"').collect();
    let is_asked = |name: &&&str| texts.contains(**name) || texts.contains(format!("{name}(").as_str());
    names.iter().filter(is_asked).copied().collect()
}

#[test]
fn neither_the_engine_nor_a_mechanism_asks_for_an_element_by_name() {
    let code =
        "name: \"Queue\",\nif class == \"Tee\" || text.starts_with(\"Script(\") { \"put a Queue there\" }";
    assert_eq!(asked_for(code, &["Queue", "Tee", "Script"]), ["Tee", "Script"]);
    let names: Vec<&str> = testkit::classes().map(|class| class.name).collect();
    let has_none = |file: &&String| {
        let is_mechanism = file.starts_with("mechanisms/") && file.contains("/src/");
        (is_mechanism || file.starts_with("crates/engine/src/") || file.starts_with("crates/element/src/"))
            && file.ends_with(".rs")
            && !NAMING.iter().any(|folder| file.starts_with(folder))
    };
    let mut failures = Vec::new();
    for file in files().iter().filter(has_none) {
        let asked = asked_for(&read(file), &names);
        failures.extend(asked.into_iter().map(|name| format!("{file} asks for {name}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
