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

/// The elements of a region that a program replaces: a filter, counters and a routing table.
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

/// Returns a configuration that sends 20,000 packets per second through [`REGION`]. A script makes each
/// change, waits until programs are active again, and prints how many packets the counters `inside` and
/// `outside` then count.
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

/// Returns, for each line that the script has printed after a change, if the counters `inside` and `outside`
/// counted any packets. Checks that the program was active.
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
        // Packets have gone through the program of the last change, which counts them by class.
        let classes = output.lines().filter_map(|line| line.strip_prefix('c')?.split(' ').nth(1));
        assert!(classes.map(|count| count.parse::<u64>().unwrap()).sum::<u64>() > 100, "{output}");
    }
}

/// Runs the packets of a capture through `elements` and [`REGION`], while a script changes elements: without
/// and with programs in place of elements, with one and two workers. Checks that the written packets and the
/// counts are the same, and that all programs are active at the end.
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

/// Returns the packets of a capture in pcap format, sorted.
fn sorted_packets(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    let (mut packets, mut rest) = (Vec::new(), &bytes[24..]);
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        packets.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    packets.sort_unstable();
    packets
}

/// A counter can be told at run time to call a handler at a certain packet, which may be in the middle of a
/// batch. So the program is not used, and each element of the region processes the batch itself.
#[test]
fn handler_calls_within_a_batch_find_the_packets_where_the_elements_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["generate", "-o", "in.pcap", "--flows", "50", "--packets", "20000", "--rate", "100000"];
    tidegate(folder.path(), &[&arguments[..], &["--protocol", "mix"]].concat());
    for (call, programs) in [("count_call", "false"), ("byte_count_call", "false"), ("reset", "true")] {
        let config = format!(
            "FromDump(in.pcap, STOP true) -> Queue(1000) -> TimedUnqueue(0.0005, 64) -> Strip(14) -> CheckIPHeader
                 -> DecIPTTL -> c :: IPClassifier(udp, -); c[0] -> a :: Counter -> Paint(1) -> o :: ToDump($OUT, ENCAP IP);
             c[1] -> m :: SetIPECN(1) -> b :: Counter -> o;
             Script(wait 20ms, write a.{call} 3001 m.config 2, wait 40ms, print $(b.count))"
        );
        let run = |out: &str, more: &[&str]| {
            let given = format!("OUT={out}");
            let arguments = [&["run", "--clock", "trace", "-q", "-e", &config, &given], more].concat();
            let (output, _) = tidegate(folder.path(), &arguments);
            (output, sorted_packets(&folder.path().join(out)))
        };
        let (plain, packets) = run("plain", &[]);
        let (counts, same) = run("synthesized", &["--synthesize=all", "-H", "synthesized.active"]);
        assert!(packets == same && packets.len() > 10_000, "{call}: packets differ");
        assert!(counts.starts_with(&plain) && counts.contains(programs), "{call}: {plain} {counts}");
    }
}

/// A program that replaces fewer elements because a handler changed one of them replaces them again after the
/// change is undone.
#[test]
fn a_program_grows_again() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["generate", "-o", "in.pcap", "--flows", "50", "--packets", "20000", "--rate", "100000"];
    tidegate(folder.path(), &arguments);
    let size = |change: &str, undo: &str| {
        let config = format!(
            "FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> f :: IPFilter(allow all)
                 -> Counter -> dec :: DecIPTTL -> SetIPDSCP(8) -> SetIPECN(1) -> Paint(2) -> Discard;
             Script(wait 30ms, write {change}, wait 60ms, write {undo}, wait 60ms)"
        );
        let arguments = ["run", "--clock", "trace", "--synthesize=all", "-q", "-e", &config];
        let handlers = ["-H", "synthesized.active", "-H", "synthesized.config"];
        let (output, _) = tidegate(folder.path(), &[&arguments[..], &handlers].concat());
        assert!(output.contains("true"), "{output}");
        let passing = output.split("PASSING ").nth(1).unwrap().split(',').next().unwrap();
        passing.split_whitespace().count()
    };
    let whole = size("f.config allow udp", "f.config allow all");
    assert_eq!(size("f.config deny all", "f.config allow all"), whole);
    assert_eq!(size("dec.active false", "dec.active true"), whole);
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
    // While the filter denies all packets, no packet reaches the elements downstream of it, so the program
    // does not replace them.
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

/// After a change, a program that still does the same as its elements is replaced, too, because the next
/// program may replace more elements. The flows that it has leased go back to the translator, and the next
/// program leases them again.
#[test]
fn a_program_that_is_still_right_gives_its_leases_back() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["generate", "-o", "in.pcap", "--flows", "50", "--packets", "20000", "--rate", "100000"];
    tidegate(folder.path(), &[&arguments[..], &["--protocol", "mix"]].concat());
    let config = "FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> dec :: DecIPTTL
            -> c :: IPClassifier(udp, -);
        c[0] -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> a :: Counter -> SetIPECN(1)
            -> o :: ToDump($OUT, ENCAP IP);
        c[1] -> f :: IPFilter(allow all) -> mark :: SetIPDSCP(8) -> b :: Counter -> o;
        Script(wait 20ms, write f.config deny all, wait 60ms, $FIRST, write mark.config 16, wait 60ms, $SECOND)";
    let handlers =
        ["nat.nmappings", "nat.udp_table", "a.count", "a.byte_count", "b.count", "f.counts", "nat.counts"];
    let run = |out: &str, shown: [&str; 2], synthesize: &[&str]| {
        let values = [format!("OUT={out}"), format!("FIRST={}", shown[0]), format!("SECOND={}", shown[1])];
        let mut arguments = vec!["run", "--clock", "trace", "-q", "-e", config];
        arguments.extend(values.iter().map(String::as_str));
        arguments.extend(synthesize);
        handlers.iter().for_each(|handler| arguments.extend(["-H", handler]));
        let (output, errors) = tidegate(folder.path(), &arguments);
        assert_eq!(errors, "");
        (output, std::fs::read(folder.path().join(out)).unwrap())
    };
    let flows = "print \"flows $(synthesized.active) $(synthesized.flows)\"";
    let (plain, packets) = run("plain", ["wait 0", "wait 0"], &[]);
    let (synthesized, same) = run("synthesized", [flows, flows], &["--synthesize=all"]);
    assert!(packets == same, "packets differ");
    let (leased, values) = synthesized.split_at(synthesized.find(handlers[0]).unwrap());
    assert_eq!(values, plain);
    let leased: Vec<u32> =
        leased.lines().map(|line| line.strip_prefix("flows true ").unwrap().parse().unwrap()).collect();
    assert!(leased[0] > 10 && leased[0] == leased[1], "{leased:?}");
}

/// The thread that composes programs runs with a lower priority, so that it leaves the processors to the
/// workers.
#[test]
fn programs_are_composed_with_a_lower_priority() {
    let folder = tempfile::tempdir().unwrap();
    // Many rules, so that compositions take long enough to be seen.
    let rules: Vec<String> =
        (0..500).map(|n| format!("deny src host 10.9.{}.{}", n / 250, n % 250)).collect();
    let region = REGION.replace("allow dst port 1, deny all", &format!("{}, allow all", rules.join(", ")));
    let script = "label again, write mark.config 16, wait 20ms, write mark.config 24, wait 20ms, goto again";
    let config = format!(
        "{region} out -> Discard; Script({script});
         RatedSource(RATE 1000, LENGTH 60) -> UDPIPEncap(10.0.9.1, 9, 10.0.0.2, 1) -> f"
    );
    std::fs::write(folder.path().join("config"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "--synthesize=all", "-q", "config"]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let own = niceness(Path::new(&format!("/proc/{}", child.id()))).unwrap();
    let threads = format!("/proc/{}/task", child.id());
    let wanted = (own + 5).min(19);
    let is_nicer = || {
        let threads = std::fs::read_dir(&threads).into_iter().flatten().flatten();
        let mut composing = threads.filter(|thread| {
            std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "recompose\n")
        });
        composing.any(|thread| niceness(&thread.path()) == Some(wanted))
    };
    let mut ended = None;
    let is_seen = (0..30_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        ended = child.try_wait().unwrap();
        is_nicer() || ended.is_some()
    }) && ended.is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_seen, "{ended:?}");
}

/// Returns the niceness of a process or a thread with this folder in `/proc`; `None` if it has ended.
fn niceness(folder: &Path) -> Option<i32> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // Field 2, in parentheses, is the name. The niceness is field 19 (proc_pid_stat(5)).
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}
