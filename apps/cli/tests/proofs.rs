//! The proofs of `synthesize` for the examples and for the chains of the SNF paper. Each configuration that
//! is not in `OPEN` or `UNREADABLE` is proven, unless nothing in it is synthesized.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::found;

/// Configurations that are known to be unproven: the end of the path, and the reason.
const OPEN: &[(&str, &str)] = &[];

/// The seconds after which the search for a proof of a configuration in [`OPEN`] ends.
const SECONDS: &str = "60";

/// Configurations with wrong arguments, for which there is nothing to prove.
const UNREADABLE: &[&str] =
    &["compound/load_balancer_2if.click", "compound/load_balancer_3if.click", "flat/flat_lb_3if.click"];

/// Configurations whose proofs take minutes in a build without optimization, so that an ignored test proves
/// them.
const SLOW: &[&str] = &[
    "configs/all.click",
    "configs/isp/isp.prop",
    "real-acl/real_acl_8550.nf1.click",
    "flat/flat_napt_3if.click",
    "compound/napt_3if.click",
    "tests/chains/acl_251.prop",
    "tests/chains/acl_713.prop",
    "tests/chains/acl_8550.prop",
    "tests/chains/router_10.prop",
    "tests/chains/motivating_example.prop",
    "motivating/motivating.prop",
    "tests/chains/napt_2.prop",
    "tests/chains/napt_3.prop",
    "tests/chains/napt_4.prop",
    "tests/chains/napt_5.prop",
    "tests/chains/napt_6.prop",
    "tests/chains/napt_7.prop",
    "tests/chains/napt_8.prop",
    "tests/chains/napt_dpdk_2.prop",
    "tests/chains/napt_dpdk_8.prop",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files to synthesize, each with the folder that the names in it are relative to.
fn files() -> Vec<(PathBuf, PathBuf)> {
    let is_chain = |file: &PathBuf| file.extension().is_some_and(|end| end == "click" || end == "prop");
    // A configuration that is a function of a chain is synthesized only as a part of the chain.
    let is_part = |file: &PathBuf| {
        let text = file.to_string_lossy();
        ["configs/isp/", "napt_chain/", "dpdk/", "acls.40Gbps"].iter().any(|part| text.contains(part))
            && !text.ends_with("isp.prop")
    };
    let mut all = found::files(&root().join("configs"));
    let mut folder = root();
    if let Some(found) = found::path("rules/snf") {
        all.extend(found::files(&found));
        all.extend(found::files(&root().join("mechanisms/synthesizer/tests/chains")));
        folder = found;
    }
    let of = |file: PathBuf| {
        let folder =
            if file.components().any(|part| part.as_os_str() == "chains") { &folder } else { &root() };
        (file, folder.clone())
    };
    all.into_iter().filter(is_chain).filter(|file| !is_part(file)).map(of).collect()
}

fn is_in(list: &[&str], file: &Path) -> bool {
    list.iter().any(|end| file.to_string_lossy().ends_with(end))
}

/// Synthesizes a file, with `seconds` seconds for proofs. The error is the reason why the result is not
/// proven to do the same.
fn proof(file: &Path, folder: &Path, seconds: &str) -> Result<(), String> {
    // Proofs of earlier runs are not used.
    let proofs = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("TIDEGATE_PROOFS", proofs.path());
    command.args(["synthesize", "--all"]).arg(file).args(["--seconds", seconds]).current_dir(folder);
    let output = command.output().unwrap();
    match String::from_utf8_lossy(&output.stdout).lines().last() {
        Some("Proven to do the same as the configuration.")
        | Some("Nothing is put in, so there is nothing to prove.") => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn all_are_as_listed(slow: bool) {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (file, folder) in files().iter().filter(|(file, _)| is_in(SLOW, file) == slow) {
        seen += 1;
        let expected = OPEN.iter().find(|(end, _)| is_in(&[end], file)).map(|(_, why)| *why);
        let proof = proof(file, folder, if expected.is_some() { SECONDS } else { "100000" });
        let is_right = match (&proof, expected) {
            (Err(said), _) if is_in(UNREADABLE, file) => said.contains("Error: While configuring"),
            (Err(said), Some(why)) => said.contains("not proven:") && said.contains(why),
            (proof, None) => proof.is_ok(),
            (Ok(()), Some(_)) => false,
        };
        if !is_right {
            wrong.push(format!("{}: {proof:?}", file.display()));
        }
    }
    assert!(wrong.is_empty() && seen > 2, "{wrong:#?}");
}

#[test]
fn chains_are_proven_or_it_is_known_why_not() {
    all_are_as_listed(false);
}

/// Proves large chains; to run it: `cargo test --release -p tidegate --test proofs -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn large_chains_are_proven_or_it_is_known_why_not() {
    all_are_as_listed(true);
}
