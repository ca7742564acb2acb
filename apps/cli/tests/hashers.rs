//! Checks that tables whose keys come from packets use a hash function with a secret seed: no source file has
//! a hash function of its own, except for those in [`ALLOWED`], each with a reason.

mod repository;

use repository::{files, read};

/// Names of hash functions that are the same in each run.
const FIXED: [&str; 5] = ["DefaultHasher", "BuildHasherDefault", "FixedState", "FxHash", "KeyHasher::new("];
const ALLOWED: [(&str, &str); 10] = [
    ("crates/element/src/context/chance.rs", "the seed of the run"),
    ("crates/element/src/setup.rs", "a random seed for all workers"),
    ("crates/engine/src/wakeups/timers.rs", "elements and timers, not packets"),
    ("crates/nf/src/balance/maglev.rs", "balancers beside each other choose the same server"),
    ("crates/nf/src/five_tuple.rs", "gets the seed of the run"),
    ("crates/nf/src/ip/filter/mod.rs", "rules, not packets"),
    ("crates/nf/src/nat/store.rs", "gets the seed of the run"),
    ("mechanisms/juggler/src/lib.rs", "the seed that the user has chosen"),
    ("mechanisms/synthesizer/runtime/src/flow_cache/mod.rs", "gets the seed of the run"),
    ("mechanisms/synthesizer/program/src/chain.rs", "configurations, not packets"),
];
/// The ways in which a source file gets the secret seed of the run.
const SECRET: [&str; 4] = ["cx.key_hasher()", "cx.hash_seed()", "hasher_of(cx", "seed: u64)"];

/// Returns a message for each hash function in a source file, outside of its tests, that is not seeded with
/// a secret.
fn faults(file: &str, text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut faults = Vec::new();
    if !ALLOWED.iter().any(|(allowed, _)| *allowed == file) {
        faults
            .extend(FIXED.iter().filter(|word| text.contains(**word)).map(|word| format!("{file}: {word}")));
    }
    if text.contains("KeyHasher::default()") && !SECRET.iter().any(|word| text.contains(word)) {
        faults.push(format!("{file}: the hash function is never that of the run"));
    }
    faults
}

#[test]
fn tables_of_packets_have_secret_seeds() {
    let rooms =
        ["crates/nf/src/", "crates/device/src/", "crates/element/src/", "crates/engine/src/", "mechanisms/"];
    let is_source = |file: &&String| {
        let is_test = file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("/examples/");
        file.ends_with(".rs") && rooms.iter().any(|room| file.starts_with(room)) && !is_test
    };
    let files = files();
    let sources: Vec<(&String, String)> =
        files.iter().filter(is_source).map(|file| (file, read(file))).collect();
    assert!(sources.len() > 300, "only {} sources were found", sources.len());
    let found: Vec<String> = sources.iter().flat_map(|(file, text)| faults(file, text)).collect();
    assert!(found.is_empty(), "take the seed from the run (Cx::key_hasher):\n{}", found.join("\n"));
    for (file, why) in ALLOWED {
        let is_needed =
            |(name, text): &(&String, String)| *name == file && FIXED.iter().any(|word| text.contains(word));
        assert!(sources.iter().any(is_needed), "{file} needs no exception ({why})");
    }
}

#[test]
fn a_hasher_of_ones_own_is_found() {
    let elsewhere = "mechanisms/reframer/src/reframer.rs";
    assert_eq!(faults(elsewhere, "hasher: KeyHasher::new(SEED)").len(), 1);
    assert_eq!(faults(elsewhere, "sets: HashMap<Key, Set, BuildHasherDefault<DefaultHasher>>").len(), 2);
    assert_eq!(faults(elsewhere, "hasher: KeyHasher::default()").len(), 1);
    let seeded = "hasher: KeyHasher::default() ... self.hasher = cx.key_hasher();";
    assert!(faults(elsewhere, seeded).is_empty());
    assert!(faults(elsewhere, "#[cfg(test)] KeyHasher::new(7)").is_empty());
}
