//! `tidegate run --synthesize`: programs are composed again when the arguments of an element change.

use std::process::{Command, Output, Stdio};

fn run(options: &[&str], config: &str) -> (String, String) {
    let Output { stdout, stderr, status } = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "--synthesize=all", "-q", "-e", config])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{stderr}");
    (stdout, stderr)
}

/// Packets of ports 1 and 2, a filter, and a script that changes the rules with `change`.
fn config(change: &str) -> String {
    format!(
        "r :: RoundRobinSwitch; RatedSource(RATE 20000, LENGTH 60) -> r;
         r[0] -> UDPIPEncap(10.0.0.1, 9, 10.0.0.2, 1) -> f :: IPFilter(allow dst port 1, deny all)
             -> t :: DecIPTTL -> a :: Counter -> c :: IPClassifier(dst port 1, -);
         r[1] -> UDPIPEncap(10.0.0.1, 9, 10.0.0.2, 2) -> f;
         c[0] -> one :: Counter -> Discard; c[1] -> two :: Counter -> Discard;
         Script(wait 100ms, print \"$(one.count) $(two.count)\", {change},
             set n 0, label again, wait 20ms, set n $(add $n 1),
             goto done $(eq $(synthesized.active) true), goto again $(lt $n 500),
             label done, set one $(one.count), set two $(two.count), set p $(synthesized.classes), wait 100ms,
             print \"$(sub $(one.count) $one) $(sub $(two.count) $two) $(synthesized.active)\", stop)"
    )
}

#[test]
fn a_program_follows_the_arguments_of_its_elements() {
    for threads in ["1", "2"] {
        let change = "write f.config allow dst port 2";
        let (output, errors) = run(&["--threads", threads, "-H", "synthesized.classes"], &config(change));
        let mut lines = output.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let before = lines.next().unwrap();
        assert!(before[0] != "0" && before[1] == "0", "{output}{errors}");
        let after = lines.next().unwrap();
        assert!(after[0] == "0" && after[1] != "0" && after[2] == "true", "{output}{errors}");
        // Packets pass the new program, which counts them.
        let counts =
            output.lines().filter_map(|line| line.strip_prefix('c')?.split(' ').nth(1)?.parse::<u64>().ok());
        assert!(counts.sum::<u64>() > 100, "{output}");
    }
}
