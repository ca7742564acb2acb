//! `tidegate run --synthesize`: programs are composed again when handlers change the elements that they
//! replace.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the command in `folder`, and returns its output and its messages.
fn tidegate(folder: &Path, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stderr}");
    (stdout, stderr)
}

/// A region with a filter, counters and a routing table.
const REGION: &str = "
    f :: IPFilter(allow dst port 1, deny all) -> dec :: DecIPTTL -> a :: Counter
        -> t :: RadixIPLookup(10.0.0.0/24 0, 0.0.0.0/0 1);
    t[0] -> inside :: Counter -> mark :: SetIPDSCP(8) -> out :: Null; t[1] -> outside :: Counter -> SetIPDSCP(9) -> out;";

/// The instructions of a script that waits up to 4 s until programs are active.
fn until_active(number: usize) -> String {
    format!(
        "set n 0, label again{number}, wait 20ms, set n $(add $n 1),
         goto done{number} $(eq $(synthesized.active) true), goto again{number} $(lt $n 200), label done{number}"
    )
}

/// A configuration that sends packets with 20,000 packets per second through the region. A script makes each
/// change, waits until programs are active again, and prints how many packets then pass each counter.
fn live(changes: &[&str]) -> String {
    let step = |(number, change): (usize, &&str)| {
        let counts = "write inside.reset, write outside.reset, wait 50ms,
             print \"$(synthesized.active) $(inside.count) $(outside.count)\"";
        format!("{change}, {}, {counts}, ", until_active(number))
    };
    let steps: String = changes.iter().enumerate().map(step).collect();
    format!(
        "r :: RoundRobinSwitch; RatedSource(RATE 20000, LENGTH 60, LIMIT 400000, STOP true) -> r; {REGION}
         r[0] -> UDPIPEncap(10.0.9.1, 9, 10.0.0.2, 1) -> joined :: Null -> f;
         r[1] -> UDPIPEncap(10.0.9.1, 9, 10.1.0.2, 4) -> joined;
         out -> Discard; Script(wait 50ms, {steps} print $(synthesized.classes), stop)"
    )
}

/// Returns, for each line that the script has printed, whether each counter counted packets. Checks that
/// programs were active.
fn counted(output: &str) -> Vec<[bool; 2]> {
    let lines = output.lines().filter(|line| line.starts_with("true") || line.starts_with("false"));
    let counted = |line: &str| {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("true"), "{output}");
        let counts: Vec<bool> = words.map(|word| word != "0").collect();
        counts.try_into().unwrap()
    };
    lines.map(counted).collect()
}

#[test]
fn a_program_follows_its_elements() {
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        "write f.config allow dst port 4",
        "write t.add 10.1.0.0/24 0",
        "write f.config allow all",
        "write t.remove 10.1.0.0/24",
        "write f.config deny all",
    ];
    let expected = [[false, true], [true, false], [true, false], [true, true], [false, false]];
    for threads in ["1", "2"] {
        let config = live(&changes);
        let arguments = ["run", "--synthesize=all", "-q", "--threads", threads, "-e", &config];
        let (output, errors) = tidegate(folder.path(), &arguments);
        assert_eq!(counted(&output), expected, "{threads}: {output}{errors}");
        assert_eq!(errors, "", "{threads}");
        // Packets take the last program, which counts them.
        let classes = output.lines().filter_map(|line| line.strip_prefix('c')?.split(' ').nth(1));
        assert!(classes.map(|count| count.parse::<u64>().unwrap()).sum::<u64>() > 100, "{output}");
    }
}

/// Runs packets of a capture through elements with a script of changes, as elements and as programs, with one
/// and two workers. Checks that packets and counts are the same, and that all programs are active at the end.
fn compare(elements: &str, script: &str, programs: &[&str]) {
    let handlers = ["f.counts", "a.count", "inside.count", "outside.byte_count"];
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["generate", "-o", "in.pcap", "--flows", "50", "--packets", "20000", "--rate", "100000"];
    tidegate(folder.path(), &arguments);
    let config = format!(
        "define($OUT out); begin :: CheckIPHeader; end :: ToDump($OUT, ENCAP IP); {REGION} out -> end; {elements}
         FromDump(in.pcap, STOP true) -> Strip(14) -> begin; Script({script})"
    );
    let run = |threads: &str, name: &str, synthesize: &[&str]| {
        let out = format!("OUT={name}");
        let mut arguments = vec!["run", "--clock", "trace", "-q", "--threads", threads, "-e", &config, &out];
        arguments.extend(synthesize);
        handlers.iter().for_each(|handler| arguments.extend(["-H", handler]));
        let (output, errors) = tidegate(folder.path(), &arguments);
        assert_eq!(errors, "");
        (output, std::fs::read(folder.path().join(name)).unwrap())
    };
    for threads in ["1", "2"] {
        let (plain, packets) = run(threads, "plain", &[]);
        let mut more = vec!["--synthesize=all"];
        programs.iter().for_each(|active| more.extend(["-H", active]));
        let (with_programs, same_packets) = run(threads, "synthesized", &more);
        assert!(packets == same_packets, "{threads}: packets differ");
        let (of_programs, counts) = with_programs.split_at(with_programs.find(handlers[0]).unwrap());
        assert_eq!(counts, plain, "{threads}");
        assert!(of_programs.matches("true").count() == programs.len(), "{of_programs}");
    }
}

#[test]
fn each_packet_is_processed_as_the_elements_would() {
    let script = "wait 20ms, write f.config allow all, wait 30ms, write t.add 128.0.0.0/1 0, wait 20ms,
        write f.config allow udp, wait 25ms, write t.remove 128.0.0.0/1, wait 20ms,
        write f.config allow tcp || udp, wait 20ms, write dec.active false";
    compare("begin -> f;", script, &["synthesized.active"]);
}

#[test]
fn an_element_that_changes_while_no_packet_comes_to_it_is_followed() {
    // While the filter denies everything, its program replaces none of the elements downstream.
    let script = "wait 20ms, write f.config allow all, wait 20ms, write f.config deny all, wait 30ms,
        write mark.config 16, wait 5ms, write dec.active false, wait 20ms, write f.config allow all, wait 30ms,
        write f.config deny all, wait 20ms, write mark.config 24, write t.add 128.0.0.0/1 0, wait 20ms,
        write f.config allow all";
    compare("begin -> f;", script, &["synthesized.active"]);
}

#[test]
fn all_programs_with_an_element_follow_it() {
    let script = "wait 20ms, write f.config allow all, wait 30ms, write mark.config 16, wait 30ms,
        write t.add 128.0.0.0/1 0, wait 20ms, write dec.active false, wait 20ms, write dec.active true";
    let elements = "begin -> r :: RoundRobinSwitch;
        r[0] -> Paint(1) -> SetIPECN(1) -> f; r[1] -> Paint(2) -> SetIPECN(2) -> f;";
    compare(elements, script, &["synthesized.active", "synthesized@1.active"]);
}

#[test]
fn a_file_of_rules_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "deny dst port 1\nallow all\n").unwrap();
    let region = REGION.replace("allow dst port 1, deny all", "file rules");
    let config = format!(
        "{region} RatedSource(RATE 20000, LENGTH 60, LIMIT 400000, STOP true)
         -> UDPIPEncap(10.0.9.1, 9, 10.0.0.2, 1) -> f; out -> Discard;
         Script(wait 50ms, print >rules \"allow all\", write mark.config 16, {},
             print \"$(synthesized.active) $(a.count)\", stop)",
        until_active(0)
    );
    let (output, errors) = tidegate(folder.path(), &["run", "--synthesize=all", "-q", "-e", &config]);
    assert_eq!((output.as_str(), errors.as_str()), ("true 0\n", ""));
}

#[test]
fn a_flood_of_changes_ends_with_the_last_program() {
    let folder = tempfile::tempdir().unwrap();
    let flood = "set n 0, label more, wait 1ms, set n $(add $n 1), write f.config allow dst port $(mod $n 5),
        goto more $(lt $n 301)";
    let (output, errors) = tidegate(folder.path(), &["run", "--synthesize=all", "-q", "-e", &live(&[flood])]);
    assert_eq!((counted(&output), errors.as_str()), (vec![[true, false]], ""), "{output}");
}

#[test]
fn a_program_gets_outputs_that_its_packets_did_not_take_before() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "RatedSource(RATE 20000, LENGTH 60, LIMIT 100000, STOP true) -> UDPIPEncap(10.0.9.1, 9, 10.0.0.2, 1)
         -> DecIPTTL -> SetIPDSCP(8) -> Paint(1) -> t :: RadixIPLookup(0.0.0.0/0 0, 224.0.0.0/4 2);
         t[0] -> Queue -> Unqueue -> c0 :: Counter -> Discard; t[1] -> Queue -> Unqueue -> c1 :: Counter -> Discard;
         t[2] -> Discard;
         Script(wait 50ms, write t.add 10.0.0.0/8 1, {}, write c0.reset, write c1.reset, wait 50ms,
             print \"$(synthesized.active) $(c0.count) $(gt $(c1.count) 0)\", stop)",
        until_active(0)
    );
    let (output, errors) = tidegate(folder.path(), &["run", "--synthesize=all", "-q", "-e", &config]);
    assert_eq!((output.as_str(), errors.as_str()), ("true 0 true\n", ""));
}

#[test]
fn users_cannot_change_programs() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "{REGION} RatedSource(LENGTH 60, LIMIT 10, STOP true) -> UDPIPEncap(10.0.9.1, 9, 10.0.0.2, 1) -> f;
         out -> Discard; Script(set h synthesized.config, write $h LAYOUT ANY 0 - -, print $(synthesized.active))"
    );
    let (output, errors) = tidegate(folder.path(), &["run", "--synthesize=all", "-q", "-e", &config]);
    assert_eq!(output, "true\n");
    assert!(errors.contains("no 'synthesized.config' write handler"), "{errors}");
}
