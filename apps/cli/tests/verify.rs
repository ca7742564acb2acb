//! `tidegate verify`: verdicts and exit statuses.

use std::process::{Command, Output};

const CHAIN: &str = "in :: FromDump(in.pcap) -> Strip(14) -> CheckIPHeader
    -> f :: IPFilter(deny src net 10.1.0.0/16, allow tcp dst port 80, deny all)
    -> DecIPTTL -> out :: ToDump(out.pcap);\n";

fn verify(a: &str, b: &str) -> Output {
    verify_with(&[], a, b)
}

fn verify_with(options: &[&str], a: &str, b: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a.click", a), ("b.click", b)].map(|(name, text)| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    });
    let program = env!("CARGO_BIN_EXE_tidegate");
    Command::new(program).arg("verify").args(options).args(files).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn equal_chains_are_equivalent() {
    let output = verify(CHAIN, &CHAIN.replace("deny all", "deny src 10.1.2.3, deny all"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("are equivalent"));
}

#[test]
fn a_difference_is_a_packet_run_through_both() {
    let output = verify(CHAIN, &CHAIN.replace("port 80", "port 81"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = text(&output);
    assert!(
        text.contains("are different") && text.contains("dropped by f") && text.contains("to 'out'"),
        "{text}"
    );
}

/// Dropped packets count as equal whatever the reason for the drop, unless `--reasons` is given.
#[test]
fn reasons_of_drops_are_compared_when_asked() {
    let denied =
        "FromDump(x) -> Strip(14) -> CheckIPHeader -> IPFilter(deny tcp, allow all) -> out :: ToDump(y);";
    let discarded = "FromDump(x) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(tcp, -);
        c[0] -> Discard; c[1] -> out :: ToDump(y);";
    assert_eq!(verify(denied, discarded).status.code(), Some(0));
    let output = verify_with(&["--reasons"], denied, discarded);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = text(&output);
    assert!(text.contains("drops for the reason") && text.contains(": denied"), "{text}");
    assert_eq!(verify_with(&["--reasons"], denied, denied).status.code(), Some(0));
}

/// An exit (such as a ToDump) of the first configuration corresponds to an exit of the second configuration
/// with the same class and arguments, if one of the two exits has no name.
#[test]
fn names_of_exits_may_be_missing() {
    let output = verify(CHAIN, &CHAIN.replace("-> out ::", "->"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = verify(CHAIN, &CHAIN.replace("-> out ::", "->").replace("port 80", "port 81"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // A difference that a run of the example packet does not show is reported as undecided (status 3), not as
    // a difference.
    let output = verify(CHAIN, &CHAIN.replace("-> out ::", "-> SetTimestamp(5) ->"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// A comparison that takes too long is undecided, and the message says at which element it ended.
#[test]
fn time_has_an_end() {
    let swapped = "FromDump(x) -> CheckIPHeader(14) -> mirror :: IPMirror -> check :: CheckIPHeader(14) -> out :: ToDump(y);";
    let plain = "FromDump(x) -> CheckIPHeader(14) -> out :: ToDump(y);";
    let output = verify_with(&["--seconds", "0"], swapped, plain);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains("it takes too long here"), "{output:?}");
}

#[test]
fn what_is_not_known_is_undecided_and_named() {
    let unknown = |key: u8| CHAIN.replace("-> DecIPTTL", &format!("-> Mystery({key}) -> DecIPTTL"));
    let output = verify(&unknown(1), &unknown(2));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains("Mystery"), "{output:?}");
    assert_eq!(verify(&unknown(1), &unknown(1)).status.code(), Some(0));
}

#[test]
fn errors_have_a_status_of_their_own() {
    let output = verify(CHAIN, "a :: Counter(");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Scripts that call handlers are part of the comparison: their texts must be the same, apart from comments
/// and blanks.
#[test]
fn scripts_that_turn_switches_are_not_left_out() {
    let chain = |script: &str| {
        format!("FromDump(x) -> s :: Switch(0); s[0] -> out :: ToDump(y); s[1] -> Discard;\n{script}\n")
    };
    let still = chain("");
    let turned = chain("Script(write s.switch 1);");
    let other = chain("// Another one.\nScript(write  s.switch 1);");
    let status = |a: &str, b: &str| verify(a, b).status.code();
    assert_eq!(status(&still, &still), Some(0));
    assert_eq!(status(&still, &turned), Some(3));
    assert_eq!(status(&turned, &other), Some(0));
}
