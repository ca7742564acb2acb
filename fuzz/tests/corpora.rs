//! Runs all seeds, and all inputs that fuzzing has found, through their targets, as ordinary tests.

use std::fs;
use std::path::Path;

use fuzz::{TARGETS, seeds};

/// The maximum number of files in the corpus of a target, and the maximum size of a file in bytes.
const LIMITS: (usize, u64) = (50, 4096);

#[test]
fn every_seed_is_taken() {
    for &(name, target) in TARGETS {
        let seeds = seeds::of(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| target(seed));
    }
}

#[test]
fn every_found_input_is_taken() {
    for &(name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let files: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        assert!(!files.is_empty() && files.len() <= LIMITS.0, "{name}: {} files", files.len());
        for file in files {
            let bytes = fs::read(&file).expect("the file can be read");
            assert!(bytes.len() as u64 <= LIMITS.1, "{} is too long", file.display());
            println!("{}", file.display());
            target(&bytes);
        }
    }
}

#[test]
fn every_target_has_its_binary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let mut files: Vec<String> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").file_name().to_string_lossy().replace(".rs", ""))
        .collect();
    let mut names: Vec<&str> = TARGETS.iter().map(|&(name, _)| name).collect();
    names.sort_unstable();
    files.sort_unstable();
    assert_eq!(files, names);
}
