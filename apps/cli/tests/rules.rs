//! `tidegate rules`: findings, differences, answers and translations of rule sets.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the files of one test.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Files(folder)
    }

    fn run(&self, args: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_tidegate");
        Command::new(program).arg("rules").args(args).current_dir(self.0.path()).output().unwrap()
    }

    /// Runs a command that has to end with this exit status. Returns standard output.
    fn text(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, status: i32, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.text(status, args)).unwrap()
    }

    fn error(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

const RULES: &str = "\
allow src net 10.0.0.0/8
deny src net 10.1.0.0/16
allow src net 10.2.0.0/16
deny tcp && udp
allow dst host 192.0.2.2
allow dst host 192.0.2.3
deny udp && dst port 53
allow udp && src net 198.51.100.0/24
deny all
";

#[test]
fn findings_have_places_and_sentences() {
    let files = Files::new(&[("fw", RULES)]);
    let text = files.text(1, &["lint", "fw"]);
    for line in [
        "fw:2: shadowed: 'deny src net 10.1.0.0/16' never decides: fw:1 matches all its packets, with the action accept",
        "fw:3: redundant: 'allow src net 10.2.0.0/16' never decides: fw:1 matches all its packets, with the same action",
        "fw:4: never: 'deny tcp && udp' matches no packet",
        "fw:7: correlates: 'deny udp && dst port 53' has packets in common with fw:1, fw:5 and fw:6, which have another action",
        "fw:5: mergeable: 'allow dst host 192.0.2.2' and fw:6 can be one rule: accept ip from any to 192.0.2.2/31",
        "fw: 9 rules: 1 never, 1 shadowed, 1 redundant, 2 correlates, 1 mergeable",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let json = files.json(1, &["lint", "fw", "--json", "--only", "shadowed"]);
    let finding = &json["findings"][0];
    assert_eq!((&finding["rule"]["line"], &finding["others"][0]["line"]), (&2.into(), &1.into()));
    assert_eq!(json["findings"].as_array().unwrap().len(), 1);
}

#[test]
fn exceptions_are_notes_and_good_rules_have_no_findings() {
    let files =
        Files::new(&[("fw", "deny src host 10.0.0.1\nallow src net 10.0.0.0/8\n"), ("good", "allow tcp\n")]);
    let text = files.text(0, &["lint", "fw"]);
    assert!(
        text.contains("fw:2: generalises: 'allow src net 10.0.0.0/8' has an exception to it: fw:1"),
        "{text}"
    );
    assert_eq!(files.text(0, &["lint", "good"]), "good: 1 rule: nothing found\n");
}

/// The rules of an element are found without its name, with the lines of the configuration or of a file.
#[test]
fn rules_of_configurations_are_read() {
    let click = "Idle -> f :: IPFilter(\n    allow src net 10.0.0.0/8,\n    deny src host 10.0.0.1,\n    file more)\n    -> Discard;\n";
    let two = "Idle -> f :: IPFilter(allow tcp, deny all) -> c :: IPClassifier(udp, -) -> Discard; c[1] -> Discard;";
    let files = Files::new(&[("a.click", click), ("more", "allow tcp\n\ndeny tcp\n"), ("two.click", two)]);
    let text = files.text(1, &["lint", "a.click"]);
    assert!(
        text.contains("a.click:3: shadowed: 'deny src host 10.0.0.1' never decides: a.click:2"),
        "{text}"
    );
    assert!(text.contains("more:3: shadowed: 'deny tcp' never decides: "), "{text}");
    assert!(text.contains("more:1"), "{text}");
    let error = files.error(&["lint", "two.click"]);
    assert!(error.contains("write --element with one of: f, c"), "{error}");
    assert!(
        files.text(0, &["ask", "two.click", "--element", "c", "udp"]).contains("output 0"),
        "outputs are actions"
    );
}

#[test]
fn differences_are_regions() {
    let changed = RULES.replace("dst port 53", "dst port > 50");
    let files = Files::new(&[("a", RULES), ("b", &changed), ("c", &RULES.replace("deny tcp && udp\n", ""))]);
    let text = files.text(1, &["diff", "a", "b"]);
    assert!(
        text.starts_with(
            "a has accept, b has drop:\n  udp from 198.51.100.0/24 to any but 192.0.2.2/31 port "
        ),
        "{text}"
    );
    assert!(text.contains("a:8 - b:7"), "{text}");
    assert_eq!(text.lines().count(), 3, "one region: {text}");
    assert_eq!(files.text(0, &["diff", "a", "c"]), "a and c treat all packets alike\n");
    let json = files.json(1, &["diff", "a", "b", "--json"]);
    assert_eq!(json["differences"][0]["a"]["rules"][0]["line"], 8);
}

#[test]
fn rule_sets_of_different_formats_are_compared() {
    let iptables =
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let nftables = r#"{"nftables": [
        {"chain": {"family": "ip", "table": "t", "name": "c", "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
        {"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 4, "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}},
                       "right": {"prefix": {"addr": "10.0.0.0", "len": 8}}}},
            {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}},
            {"accept": null}]}}]}"#;
    let files = Files::new(&[
        ("fw.save", iptables),
        ("fw.json", nftables),
        ("fw", "allow src net 10.0.0.0/8 && dst tcp port 22\n"),
        ("other", "allow src net 10.0.0.0/8 && dst tcp port 23\n"),
    ]);
    assert!(
        files
            .text(0, &["diff", "--without-fragments", "fw.save", "fw.json"])
            .contains("treat all packets alike")
    );
    assert!(
        files.text(0, &["diff", "--without-fragments", "fw", "fw.json"]).contains("treat all packets alike")
    );
    // In nftables, later fragments have ports, too.
    assert!(files.text(1, &["diff", "fw", "fw.json"]).contains("fragment later\n"));
    let text = files.text(1, &["diff", "fw.json", "other"]);
    assert!(text.contains("fw.json: ip t c handle 4 - other (no rule matches)"), "{text}");
}

#[test]
fn questions_are_answered_by_the_deciding_rules() {
    let files = Files::new(&[("fw", RULES)]);
    assert_eq!(
        files.text(0, &["ask", "fw", "tcp from 10.1.2.3 to any port 22"]),
        "fw:1: accept  'allow src net 10.0.0.0/8'\n"
    );
    let text = files.text(0, &["ask", "fw", "udp", "to", "192.0.2.0/30", "port", "53"]);
    let expected = "\
fw:1: accept  'allow src net 10.0.0.0/8'
    udp from 10.0.0.0/8 to 192.0.2.0/30 port 53
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("fw:7: drop  'deny udp && dst port 53'\n"), "{text}");
    let json = files.json(0, &["ask", "fw", "--json", "icmp"]);
    assert_eq!(json["answers"][0]["action"], "accept");
    assert!(files.error(&["ask", "fw", "tcp to nowhere"]).contains("'nowhere' is not an address"));
}

#[test]
fn rules_are_written_in_other_formats() {
    let classbench = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n@10.0.0.0/9 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n";
    let files = Files::new(&[("fw", RULES), ("set", classbench)]);
    let merged = files.text(0, &["convert", "fw", "--to", "ipfilter", "--merge"]);
    assert!(merged.lines().count() < RULES.lines().count(), "{merged}");
    std::fs::write(files.0.path().join("merged"), &merged).unwrap();
    assert!(files.text(0, &["diff", "fw", "merged"]).contains("treat all packets alike"));
    let nftables = files.text(0, &["convert", "set", "--to", "nftables", "--merge"]);
    assert!(
        nftables.contains(
            "ip frag-off & 0x1fff == 0 tcp dport 80 ip saddr 10.0.0.0/8 counter accept comment \"set:1\""
        ),
        "{nftables}"
    );
    assert!(!nftables.contains("set:2"), "{nftables}");
    assert!(
        files
            .text(0, &["convert", "fw", "--to", "openflow"])
            .contains("priority=65535,ip,nw_src=10.0.0.0/8,actions=normal")
    );
    assert!(files.text(0, &["convert", "fw", "--to", "p4"]).contains("\"table_entries\""));
    files.text(0, &["convert", "fw", "--to", "nftables", "-o", "out.nft"]);
    assert!(Path::new(&PathBuf::from(files.0.path()).join("out.nft")).exists());
}

#[test]
fn errors_say_where_and_what() {
    let iptables = "*filter\n:INPUT DROP [0:0]\n-A INPUT -m limit --limit 3/min -j ACCEPT\n-A INPUT -m owner --uid-owner 0 -j DROP\nCOMMIT\n";
    let files = Files::new(&[
        ("fw.save", iptables),
        ("bad", "allow tcp\nallwo udp\n"),
        ("none.click", "Idle -> Discard;"),
    ]);
    let error = files.error(&["lint", "fw.save"]);
    assert!(error.contains("fw.save:3: the match 'limit' depends on time"), "{error}");
    assert!(error.contains("fw.save:4: the match 'owner'"), "all errors are shown: {error}");
    assert!(files.error(&["lint", "bad"]).contains("bad:2: 'allwo' is no action"));
    assert!(files.error(&["lint", "none.click"]).contains("no element has rules"));
    assert!(files.error(&["lint", "missing"]).contains("missing: "));
    assert!(files.error(&["lint", "bad", "--only", "wrong"]).contains("there is no kind 'wrong'"));
}

#[test]
fn a_rule_that_one_call_of_its_chain_needs_is_no_finding() {
    let text = "*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n-A INPUT -s 10.0.0.0/24 -j DROP\n\
                -A INPUT -s 10.0.0.0/24 -j web\n-A INPUT -s 10.1.0.0/24 -j web\n\
                -A web -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let files = Files::new(&[("fw", text)]);
    let lint = files.text(0, &["lint", "fw", "--only", "redundant,shadowed,mergeable"]);
    assert_eq!(lint, "fw INPUT: 3 rules: nothing found\n");
    files.text(0, &["lint", "fw"]);
    // In the list that is written, each use is a rule of its own.
    let written = files.text(0, &["convert", "fw", "--to", "nftables", "--merge"]);
    assert!(written.contains("hook input priority 0; policy drop;"), "{written}");
    assert_eq!(written.matches("tcp dport 22").count(), 1, "{written}");
}

#[test]
fn options_for_other_formats_are_errors() {
    let table =
        "*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n-A INPUT -j web\n-A web -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n";
    let files = Files::new(&[("list", "allow all\n"), ("table", table)]);
    assert!(
        files.error(&["lint", "list", "--chain", "INPUT"]).contains("--chain selects a chain of nftables")
    );
    assert!(files.error(&["lint", "table", "--element", "a"]).contains("--element selects an element"));
    // One of two files has chains.
    files.text(1, &["diff", "list", "table", "--chain", "INPUT"]);
    assert!(
        files
            .error(&["convert", "table", "--to", "nftables", "--chain", "web"])
            .contains("no action 'return'")
    );
    assert!(files.text(0, &["lint", "list"]).contains("list: 1 rule: "));
}
