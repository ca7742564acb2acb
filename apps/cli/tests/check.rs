//! `tidegate check`: its messages about configurations, with their positions, and its report.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::found;

fn check(args: &[&str]) -> Output {
    // The example configurations name files by paths relative to the root of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_tidegate")).current_dir(root).arg("check").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks a configuration with this text, from a file with the name `chain.click`.
fn check_text(config: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.click");
    std::fs::write(&file, config).unwrap();
    check(&[&[file.to_str().unwrap()], args].concat())
}

const CHAIN: &str = "FromDump(in.pcap) -> Strip(14) -> CheckIPHeader
    -> f :: IPFilter(deny src net 10.1.0.0/16,
        allow tcp dst port 80,
        allow src 10.1.2.3 && tcp,
        allow tcp dst port 80 && src net 192.168.0.0/24,
        deny all)
    -> out :: ToDump(out.pcap);\n";

#[test]
fn a_rule_that_never_decides_is_shown_with_the_one_that_does() {
    let output = check_text(CHAIN, &[]);
    assert!(output.status.success(), "{output:?}");
    let warnings = text(&output.stderr);
    for told in [
        "'f': line 4 never decides: line 2 takes its packets, with another fate",
        "'f': line 5 never decides: line 3 takes its packets, with the same fate",
        "chain.click:4:9",
        "line 2 comes first",
    ] {
        assert!(warnings.contains(told), "{told} in\n{warnings}");
    }
}

#[test]
fn all_says_each_on_a_line() {
    let rules: Vec<String> = (0..20).map(|n| format!("allow src 10.0.0.{n}")).collect();
    let config = format!(
        "FromDump(in.pcap) -> MarkIPHeader(14) -> f :: IPFilter(allow ip tos >= 0,\n{}) -> ToDump(out.pcap);",
        rules.join(",\n")
    );
    let warnings = text(&check_text(&config, &[]).stderr);
    assert!(warnings.contains("15 more elements and rules never do anything; --all shows"), "{warnings}");
    let warnings = text(&check_text(&config, &["--all"]).stderr);
    assert!(warnings.contains("chain.click:21:1: warning: 'f': line 21 never decides"), "{warnings}");
    assert!(warnings.contains("chain.click:1:"), "{warnings}");
}

#[test]
fn where_packets_end_is_said_with_examples() {
    let report = text(&check_text(CHAIN, &[]).stdout);
    for line in [
        "Packets from FromDump@1\n",
        "  leave by  out                                such as TCP 10.0.0.1:1234 > 10.0.0.2:80, 60 bytes\n",
        "  end in    CheckIPHeader@3 (too short)        such as a short frame",
        "            CheckIPHeader@3 (bad IP header)    such as UDP 10.0.0.1:1234 > 10.0.0.2:80, IP length 0, 60",
        "            CheckIPHeader@3 (bad IP checksum)  such as UDP 10.0.0.1:1234 > 10.0.0.2:80, wrong IP checksum",
        "            f (denied)                         such as UDP 10.0.0.1:1234 > 10.0.0.2:80, 60 bytes\n",
        "  synthesizer  everything can be composed\n                 Strip@2, CheckIPHeader@3, f\n",
        "  slicer       shallow: nothing needs the payload\n",
    ] {
        assert!(report.contains(line), "{line:?} in\n{report}");
    }
}

/// Runs of example packets come to an end, although some elements have timers that set themselves again
/// without end.
#[test]
fn examples_end_although_timers_go_on() {
    for (config, fate) in [
        ("FromDump(in.pcap) -> Queue -> t :: TimedSink(1);", "t (discard)           such as"),
        ("InfiniteSource(LIMIT 10) -> Queue -> TimedUnqueue(0.1, 1) -> t :: Discard;", "t (discard)"),
        ("RatedSource(RATE 1) -> q :: Queue -> TimedUnqueue(0.1, 1) -> q;", "Packets from"),
    ] {
        let output = check_text(config, &[]);
        assert!(output.status.success(), "{config}: {output:?}");
        let told = text(&output.stdout);
        assert!(told.contains(fate), "{config}:\n{told}");
    }
}

#[test]
fn without_time_examples_are_not_run() {
    let told = text(&check_text(CHAIN, &["--seconds", "1"]).stdout);
    assert!(told.contains("such as") && !told.contains("--seconds"), "{told}");
    let told = text(&check_text(CHAIN, &["--seconds", "0"]).stdout);
    assert!(!told.contains("such as") && told.contains("--seconds gives more time"), "{told}");
}

/// Returns the text of a configuration whose element `f` has this number of outputs.
fn with_outputs(outputs: usize) -> String {
    let ways = (0..outputs).map(|output| format!("f[{output}] -> Counter -> Discard;"));
    format!("FromDump(x) -> f :: RoundRobinSwitch; {}", ways.collect::<String>())
}

#[test]
fn large_configurations_run_few_examples() {
    let told = text(&check_text(&with_outputs(20), &["--seconds", "300"]).stdout);
    assert!(!told.contains("were run"), "{told}");
    let told = text(&check_text(&with_outputs(1000), &["--seconds", "300"]).stdout);
    // Each run of an example packet sets up all 2,002 elements. After 200,000 elements have been set up, no
    // further example is run.
    assert!(
        told.contains("  100 of these 1000 examples were run: each run sets up all 2002 elements.\n"),
        "{told}"
    );
    assert_eq!(told.matches("(discard)").count(), 1000, "{told}");
}

#[test]
fn the_first_errors_are_shown_and_all_are_counted() {
    let many: String = (0..30).map(|n| format!("a{n} :: Nowhere{n};\n")).collect();
    for (config, shown, told) in [
        (many, 20, "30 errors, of which the first 20 are shown"),
        ("->".repeat(100_000), 20, "more than 1000 errors, of which the first 20 are shown"),
        ("a :: Nowhere; b :: Elsewhere;".to_string(), 2, "2 errors"),
    ] {
        let output = check_text(&config, &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let errors = text(&output.stderr);
        assert!(errors.trim_end().ends_with(&format!("chain.click: {told}")), "{errors}");
        assert_eq!(errors.to_lowercase().matches("error: ").count(), shown, "{errors}");
        assert!(errors.len() < 100_000, "a line of the text is not shown if nobody can read it");
    }
}

#[test]
fn what_is_in_the_way_of_a_mechanism_is_named() {
    let report = text(
        &check_text(
            "FromDump(x) -> MarkIPHeader(14) -> q :: Queue -> Unqueue -> s :: RandomSample(0.5)
                -> sum :: SetTCPChecksum -> IPClassifier(tcp) -> ToDump(y);",
            &[],
        )
        .stdout,
    );
    for line in [
        "               in the way\n                 q: queue\n                 s: depends on chance\n",
        "  slicer       not shallow\n                 sum: reads the payload\n",
    ] {
        assert!(report.contains(line), "{line:?} in\n{report}");
    }
}

/// Unknown classes are reported as errors, and `check` still explains what the other elements do with
/// packets.
#[test]
fn unknown_classes_are_errors_and_the_rest_is_explained() {
    let output = check_text(&CHAIN.replace("-> out", "-> Mystery(1) -> out"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unknown element class 'Mystery'"), "{output:?}");
    let report = text(&output.stdout);
    assert!(report.contains("with errors") && report.contains("  come to  Mystery@"), "{report}");
}

#[test]
fn other_errors_are_said_beside_unknown_classes() {
    let output = check_text("FromDump(x) -> Mystery(3) -> Strip(many) -> Discard;", &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("unknown element class 'Mystery'")
            && errors.contains("LENGTH: 'many' is not a whole number"),
        "{errors}"
    );
    assert_eq!(errors.matches("Error:").count(), 2, "{errors}");
}

#[test]
fn other_errors_are_all_that_is_said() {
    let output = check_text("FromDump(x) -> Strip(many) -> Discard;", &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    let errors = text(&output.stderr);
    assert_eq!(errors.matches("Error:").count(), 1, "{errors}");
}

/// Returns a message about a configuration whose report is incomplete, or that has errors other than unknown
/// classes. A report is complete if it says where packets of an entry end, and describes each mechanism.
fn is_explained(file: &Path) -> Option<String> {
    // The time limit is long because the machine may be busy and routers have many paths.
    let output = check(&[file.to_str().unwrap(), "--seconds", "300"]);
    let report = text(&output.stdout);
    let needed = [
        "\nPackets from ",
        "\n  synthesizer  ",
        "\n  slicer  ",
        "\n  sprayer  ",
        "\n  order  ",
        "\n  workers  ",
    ];
    let missing = needed.into_iter().find(|part| !report.contains(part));
    let ends = ["leave by", "end in", "come to"].iter().any(|verb| report.contains(&format!("\n  {verb}")));
    let unknown_only = text(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("Error:"))
        .all(|line| line.starts_with("Error: unknown element class"));
    let good = missing.is_none() && ends && unknown_only;
    (!good).then(|| format!("{}: {missing:?}\n{report}\n{}", file.display(), text(&output.stderr)))
}

/// Configurations with errors that Click reports, too, each with these errors.
const WRONG: &[(&str, &[&str])] = &[
    (
        "load_balancer_2if.click",
        &["output port out of range in load_balancer/lb :: RoundRobinIPMapper pattern 0"],
    ),
    (
        "load_balancer_3if.click",
        &["output port out of range in load_balancer/lb :: RoundRobinIPMapper pattern 0"],
    ),
    ("flat_lb_3if.click", &["'lb :: RoundRobinIPMapper': syntax error"; 2]),
];

/// Returns a message unless the check fails with one error for each text of `errors`, in this order, which
/// contains the text. Errors about unknown classes do not count.
fn is_refused(file: &Path, errors: &[&str]) -> Option<String> {
    let output = check(&[file.to_str().unwrap()]);
    let said = text(&output.stderr);
    let mut lines: Vec<&str> = said.lines().filter(|line| line.starts_with("Error:")).collect();
    lines.retain(|line| !line.contains("unknown element class"));
    let good = output.status.code() == Some(1)
        && lines.len() == errors.len()
        && lines.iter().zip(errors).all(|(line, error)| line.contains(error));
    (!good).then(|| format!("{}: {output:?}", file.display()))
}

fn judge(file: &Path) -> Option<String> {
    match WRONG.iter().find(|(name, _)| file.ends_with(name)) {
        Some((_, errors)) => is_refused(file, errors),
        None => is_explained(file),
    }
}

fn all_are_explained(folder: &Path) -> usize {
    let mut files = found::files(folder);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "click"));
    // Each check is a separate process.
    let failures: Vec<String> = std::thread::scope(|scope| {
        let half = files.len().div_ceil(2).max(1);
        let explained = |files: &[PathBuf]| files.iter().filter_map(|file| judge(file)).collect();
        let workers: Vec<_> = files
            .chunks(half)
            .map(|files| scope.spawn(move || -> Vec<String> { explained(files) }))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    files.len()
}

#[test]
fn every_example_is_explained() {
    let count = all_are_explained(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs"));
    assert!(count >= 13, "{count}");
}

/// The chains of the SNF paper are explained, see [`is_explained`]; some of them have classes that do not
/// exist here.
#[test]
fn chains_of_the_snf_paper_are_explained() {
    let Some(folder) = found::path("rules/snf") else { return };
    assert!(all_are_explained(&folder) > 60);
}

/// `check` runs its example packets. An example is marked `perhaps` if one packet alone does not have the
/// described fate, because the element needs several packets.
#[test]
fn examples_that_show_nothing_are_perhaps_one() {
    let output = check_text("FromDump(x) -> q :: Queue(2) -> Unqueue -> d :: Discard;\n", &[]);
    let said = text(&output.stdout);
    assert!(said.contains("d (discard)     such as"), "{said}");
    assert!(said.contains("q (queue full)  perhaps"), "{said}");
}

#[test]
fn what_hides_packets_is_refused_for_sliced_ones() {
    let config = |encap: &str| format!("FromDump(in.pcap) -> Strip(14) -> {encap} -> ToDump(out.pcap);\n");
    for (encap, told) in [
        ("e :: IPEncap(50, 10.0.0.1, 10.0.0.2)", "'e' cannot work on sliced packets: hides packets in ESP"),
        ("e :: IPEncap(51, 10.0.0.1, 10.0.0.2)", "'e' cannot work on sliced packets: protects packets by AH"),
        ("e :: IP6Encap(50, fd00::1, fd00::2)", "'e' cannot work on sliced packets: hides packets in ESP"),
        (
            "e :: EtherEncap(0x88e5, 2:0:0:0:0:1, 2:0:0:0:0:2)",
            "'e' cannot work on sliced packets: protects packets by MACsec",
        ),
    ] {
        assert!(check_text(&config(encap), &[]).status.success(), "{encap}");
        let output = check_text(&config(encap), &["--sliced"]);
        assert!(!output.status.success() && text(&output.stderr).contains(told), "{encap}: {output:?}");
    }
    // It is not known what happens to sliced packets downstream of ToDump, so there is a warning but no
    // error.
    let config = "FromDump(in.pcap) -> out :: ToDump(out.pcap);\n";
    let output = check_text(config, &["--sliced"]);
    assert!(output.status.success(), "{output:?}");
    let told = "sliced packets leave by 'out': if they are encrypted or compressed downstream (ESP), their payloads \
                cannot be joined again";
    assert!(text(&output.stderr).contains(told), "{output:?}");
    assert!(!text(&check_text(config, &[]).stderr).contains("sliced"));
}

#[test]
fn fragments_that_several_workers_part_from_their_flow_are_told() {
    let with = |front: &str| {
        format!("FromDump(in.pcap) -> CheckIPHeader(14) {front} -> nat :: IPRewriter(keep 0 0) -> Discard;")
    };
    for (config, warns) in [
        (with(""), true),
        (with("-> IPReassembler"), false),
        ("FromDump(in.pcap) -> CheckIPHeader(14) -> FlowCounter -> Discard;".into(), false),
        (
            "TimedSource(1) -> UDPIPEncap(1.1.1.1, 1, 2.2.2.2, 2) -> IPRewriter(keep 0 0) -> Discard;".into(),
            false,
        ),
    ] {
        let told = text(&check_text(&config, &[]).stdout);
        assert_eq!(told.contains("put an IPReassembler upstream"), warns, "{config}: {told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let mut writer =
        capture::Writer::new(std::fs::File::create(&capture).unwrap(), capture::WriterOptions::default());
    writer.flush().unwrap();
    let config = with("").replace("in.pcap", capture.to_str().unwrap());
    for (threads, warns) in [("1", false), ("2", true)] {
        let run = ["run", "--threads", threads, "-e", &config];
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(run).output().unwrap();
        let told = text(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert_eq!(told.contains("put an IPReassembler upstream"), warns, "{threads} threads: {told}");
    }
}

#[test]
fn files_of_the_configuration_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let written = ["dump.pcap", "summary", "trace", "flows.csv", "print", "script"].map(at);
    let [dump, summary, trace, flows, print, script] = &written;
    let ways = [
        format!("ToDump({dump}, ENCAP IP)"),
        format!("ToIPSummaryDump(FILENAME {summary})"),
        format!("AggregateIPFlows(TRACEINFO {trace})"),
        format!("FlowCounter(FILE {flows})"),
        format!("IPPrint(x, OUTFILE {print})"),
    ];
    written.iter().for_each(|file| std::fs::write(file, "precious").unwrap());
    for way in &ways {
        let chain = format!("FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> {way} -> Discard;");
        for more in ["", &format!("Script(print > {script} \"x\");")] {
            let output = check_text(&format!("{chain} {more}"), &[]);
            assert!(text(&output.stdout).contains("such as UDP"), "{way}: {output:?}");
            for file in &written {
                assert_eq!(std::fs::read_to_string(file).unwrap(), "precious", "{file}, {way}, {more}");
            }
        }
    }
}
