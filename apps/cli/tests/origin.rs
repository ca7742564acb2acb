//! Results contain their origin: program, arguments, seed, machine, load, inputs.

mod keys;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

fn tidegate(args: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).current_dir(root).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks the record `origin` in the JSON output of a command: arguments, version, machine and input files.
/// Returns the record, and the names of the input files.
fn origin(text: &str, args: &[&str]) -> (Value, Vec<String>) {
    let written: Value = serde_json::from_str(text).unwrap();
    let origin = written["origin"].clone();
    let arguments: Vec<&str> =
        origin["arguments"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(arguments, args);
    assert_eq!(origin["program"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        origin["machine"]["cores"].as_u64().unwrap() > 0 && origin["load"]["average"].is_number(),
        "{origin}"
    );
    let inputs = origin["inputs"].as_array().cloned().unwrap_or_default();
    for input in &inputs {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let bytes = std::fs::read(root.join(input["file"].as_str().unwrap())).unwrap();
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (input["sha256"].as_str(), input["bytes"].as_u64()),
            (Some(&*hash), Some(bytes.len() as u64))
        );
    }
    let files = inputs.iter().map(|input| input["file"].as_str().unwrap().to_string()).collect();
    (origin, files)
}

const CAPTURE: &str = "configs/data/quickstart.pcap";

#[test]
fn runs_name_their_seed_configuration_and_captures() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let report = report.to_str().unwrap();
    let args = ["run", "configs/quickstart.click", "-q", "--clock", "trace", "--seed", "9", "--json", report];
    tidegate(&args);
    let (origin, files) = origin(&std::fs::read_to_string(report).unwrap(), &args);
    assert_eq!((origin["seed"].as_u64(), files), (Some(9), vec![args[1].to_string(), CAPTURE.into()]));
    // Each key is documented.
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let document = std::fs::read_to_string(document).unwrap();
    let origin = serde_json::json!({ "origin": origin });
    let (mut found, documented) = keys::compare(&origin, &document, "## Where results come from");
    // `governor` (of the processor's frequency) is not known on each machine, so it is added before the keys
    // are compared with the document.
    found.insert("origin.machine.governor".into());
    assert_eq!(found, documented);
}

#[test]
fn runs_name_the_rules_that_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.txt");
    std::fs::write(&rules, "allow udp\ndeny all\n").unwrap();
    let rules = rules.to_str().unwrap();
    let config = format!(
        "FromDump({CAPTURE}, STOP true) -> Strip(14) -> CheckIPHeader -> IPFilter(file {rules}) -> Discard"
    );
    let args = ["run", "-q", "--threads", "2", "--json", "-", "-e", &config];
    let (_, files) = origin(&tidegate(&args), &args);
    assert!(files.ends_with(&[rules.to_string(), CAPTURE.to_string()]), "{files:?}");
}

#[test]
fn analyses_name_their_captures() {
    let args = ["analyze", CAPTURE, "--json"];
    let (from, files) = origin(&tidegate(&args), &args);
    assert_eq!((from.get("seed"), files), (None, vec![CAPTURE.to_string()]));
    let args = ["advise", CAPTURE, "--json"];
    assert_eq!(origin(&tidegate(&args), &args).1, [CAPTURE]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    tidegate(&["analyze", CAPTURE, "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    let hash = from["inputs"][0]["sha256"].as_str().unwrap();
    let commit = from["program"]["commit"].as_str().unwrap();
    assert!(page.contains(hash) && page.contains(&format!("(commit {commit}")), "{page}");
}

#[test]
fn benchmarks_name_program_and_machine() {
    let args = ["bench", "lang-10k", "--small", "--json", "-"];
    let text = tidegate(&args);
    let (_, files) = origin(&text, &args);
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((written["rows"][0]["name"].as_str(), files.len()), (Some("lang-10k"), 0));
}

#[test]
fn the_version_names_the_commit_and_features() {
    let said = tidegate(&["--version"]);
    let expected = format!("tidegate {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    for (feature, is_there) in
        [("dpdk", cfg!(feature = "dpdk")), ("machine-code", cfg!(feature = "machine-code"))]
    {
        assert_eq!(said.contains(feature), is_there, "{said}");
    }
    assert_eq!(
        tidegate(&["run", "--version"]).split_once(' ').map(|(_, rest)| rest.contains("commit")),
        Some(true)
    );
}
