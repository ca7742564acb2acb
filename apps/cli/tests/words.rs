//! Messages about mistakes in arguments: Click's words under `click`, and more precise words in other
//! commands.

use std::process::Command;

/// Returns the messages of a command about a configuration.
fn said(command: &[&str], text: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args(command).args(["-e", text]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{command:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Mistakes, each in an element `E`, with the message of `check` and all messages of `click`.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("Idle -> E :: Strip(x) -> Discard", "LENGTH: 'x' is not a whole number", "LENGTH: invalid number"),
    ("Idle -> E :: Strip(1, 2) -> Discard", "too many arguments", "too many arguments"),
    (
        "Idle -> E :: Strip($N) -> Discard",
        "LENGTH: the parameter $N has no value; write define($N VALUE), or give N=VALUE on the command line",
        "LENGTH: invalid number",
    ),
    (
        "Idle -> E :: Paint(300) -> Discard",
        "COLOR: 300 is too large; the most is 255",
        "COLOR: out of range, bound 255",
    ),
    ("Idle -> E :: Paint(-1) -> Discard", "COLOR: -1 is too small; the least is 0", "COLOR: invalid number"),
    (
        "Idle -> Queue -> E :: BandwidthShaper(1Mbs) -> Unqueue -> Discard",
        "RATE: '1Mbs' is not a rate; write bytes per second, or a number and a unit, such as 1Mbps or 125kB/s",
        "RATE: parse error",
    ),
    (
        "Idle -> E :: EtherEncap(0x0800, 1:2:3, 4:5:6:7:8:9) -> Discard",
        "SRC: '1:2:3' is not an Ethernet address; write six pairs such as 02:00:00:00:00:01",
        "SRC: parse error",
    ),
    (
        "E :: TimedSource(soon) -> Discard",
        "INTERVAL: 'soon' is not a time; write seconds, or a number and a unit, such as 10ms",
        "INTERVAL: parse error",
    ),
    (
        "Idle -> Queue -> E :: CoDel(TARGET soon) -> Unqueue -> Discard",
        "TARGET: 'soon' is not a time; write seconds, or a number and a unit, such as 10ms",
        "TARGET: parse error",
    ),
    (
        "Idle -> E :: SetIPAddress(1.2.3) -> Discard",
        "IPADDR: '1.2.3' is not an IP address; write four numbers from 0 to 255, such as 10.0.0.1",
        "IPADDR: parse error",
    ),
    (
        "Idle -> E :: Socket(UDP, 1.2.3.4, 65536)",
        "PORT: 65536 is too large; the most is 65535",
        "PORT: overflow, range 0-65535",
    ),
    (
        "Idle -> E :: MarkIPHeader(300000) -> Discard",
        "OFFSET: too large; the most is 262144",
        "OFFSET: out of range, bound 262144",
    ),
    (
        "Idle -> E :: VLANEncap(VLAN_PCP 8) -> Discard",
        "VLAN_PCP: 8 is too large; the most is 7",
        "VLAN_PCP: out of range, bound 7",
    ),
    (
        "E :: QuitWatcher(nobody)",
        "'nobody' is not the name of an element",
        "'nobody' does not name an element",
    ),
    (
        "E :: HandlerAggregate(ELEMENT nobody)",
        "ELEMENT: 'nobody' is not the name of an element",
        "ELEMENT: 'nobody' does not name an element",
    ),
    (
        "E :: StaticThreadSched(nobody 1)",
        "'nobody' is not the name of an element",
        "'nobody' does not name an element",
    ),
    (
        "Idle -> E :: Tee(2) -> Discard",
        "N: 2 outputs are wanted, but only output 0 is connected",
        "1 outputs implies 1 arms",
    ),
    (
        "Idle -> E :: BandwidthMeter(1kBps, 2kBps) => ([0] -> Discard; [1] -> Discard)",
        "2 rates for 2 outputs: give one less than there are outputs",
        "need 1 arguments, one less than the number of output ports",
    ),
    (
        "Idle -> E :: IPRewriter(drop, UDP_TIMEOUT -1) -> Discard",
        "UDP_TIMEOUT: a time must not be negative",
        "UDP_TIMEOUT: invalid number",
    ),
    // Click checks first if the number of patterns is right. Its message is about the number, that of `check`
    // about the pattern.
    (
        "Idle -> E :: Classifier(12/0800, 12x0806) -> Discard",
        "pattern 1: expected '/'",
        "need 1 arguments, one per output port",
    ),
    (
        "Idle -> E :: IPClassifier(tcp, dst prot 80) -> Discard",
        "2 patterns for output 0: give one for each, '-' for all others",
        "need 1 arguments, one per output port",
    ),
    (
        "Idle -> E :: IPClassifier(dst prot 80) -> Discard",
        "pattern 0: 'prot' means nothing here; did you mean 'port'?",
        "pattern 0: partial directive\npattern 0: empty term near 'prot'\n\
         pattern 0: garbage after expression at 'prot'",
    ),
    (
        "Idle -> E :: IPClassifier(port 70000) -> Discard",
        "pattern 0: 'port': too large; the most is 65535",
        "pattern 0: 'port': out of range, bound 65535",
    ),
    (
        "Idle -> E :: IPFilter(alow tcp, drop all) -> Discard",
        "rule 0: 'alow' is no action; use allow, deny, drop or the number of an output. Did you mean allow?",
        "pattern 0: unknown slot ID 'alow'",
    ),
    (
        "Idle -> E :: IPFilter(allow tcp, , 3 udp) -> Discard",
        "rule 1 is empty; leave the comma out",
        "empty pattern 1\npattern 2: slot '3' out of range",
    ),
    (
        "Idle -> E :: IPFilter(file /does/not/exist) -> Discard",
        "rule 0: file /does/not/exist cannot be read: No such file or directory (os error 2)",
        "pattern 0: Could not open file /does/not/exist: No such file or directory (os error 2)",
    ),
    (
        "Idle -> E :: IPFilter(allow port) -> Discard",
        "rule 0: 'port': value missing",
        "pattern 0: 'port': value missing",
    ),
    // Click does not have this class, so the messages of both commands are Tidegate's own.
    (
        "Idle -> E :: Reframer(soon) -> Discard",
        "DELAY: 'soon' is not a time; write microseconds, or a number and a unit, such as 64us",
        "DELAY: 'soon' is not a time; write microseconds, or a number and a unit, such as 64us",
    ),
];

#[test]
fn mistakes_are_said_in_clicks_words_and_in_better_ones() {
    let line = |(number, (text, ..)): (usize, &(&str, _, _))| {
        text.replace(" E ::", &format!(" e{number} ::")).replace("E ::", &format!("e{number} ::")) + ";\n"
    };
    let lines: Vec<String> = MISTAKES.iter().enumerate().map(line).collect();
    // `check` shows only the first errors of a text, so the mistakes are checked in groups of 8.
    let checked: String = lines.chunks(8).map(|some| said(&["check"], &some.concat())).collect();
    let clicks = said(&["click"], &lines.concat());
    for (number, (text, better, words)) in MISTAKES.iter().enumerate() {
        let context = format!("While configuring 'e{number} :: ");
        let is_said = |line: &str| line.contains(&context) && line.ends_with(&format!("': {better}"));
        assert!(checked.lines().any(is_said), "{text}\n{checked}");
        let first = format!("config:{}: {context}", number + 1);
        let mut lines = clicks.lines().skip_while(|line| !line.starts_with(&first));
        assert!(lines.next().is_some(), "{text}\n{clicks}");
        let lines: Vec<&str> = lines.map_while(|line| line.strip_prefix("  ")).collect();
        assert_eq!(lines.join("\n"), *words, "{text}");
    }
}

/// Click takes the name of a parameter without a value, such as `$LABEL`, as text, without a message. So does
/// `click`.
#[test]
fn texts_with_dollar_signs_are_no_mistake() {
    let run = |command: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output =
            program.args([command, "-q", "-e", "Idle -> Print($LABEL) -> Discard"]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run("click"), (Some(0), String::new()));
    assert!(run("run").1.contains("LABEL: the parameter $LABEL has no value; it is taken as it stands"));
}

/// Messages of `click` name the line at which an element begins, wherever in its arguments the mistake is.
#[test]
fn click_names_the_line_of_the_element() {
    let text = "define($N\n x);\nIdle -> f :: IPFilter(allow tcp,\n  1 udp,\n  drop all)\n\
        -> s :: Strip(\n  $N) -> Discard";
    let expected = "\
config:3: While configuring 'f :: IPFilter':
  pattern 1: slot '1' out of range
config:6: While configuring 's :: Strip':
  LENGTH: invalid number
Router could not be initialized!
";
    assert_eq!(said(&["click"], text), expected);
    let checked = said(&["check"], text);
    assert!(checked.contains("[ config:4:3 ]") && checked.contains("[ config:7:3 ]"), "{checked}");
}
