//! Mistakes on the command line and in configurations: each is said at once, with its place and what to do.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tidegate(args: &[&str]) -> Output {
    // Examples name their files as seen from there.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(root).args(args).stdin(Stdio::null()).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Expects an exit status and a text that standard error is, apart from blanks at ends of lines.
#[track_caller]
fn expect(args: &[&str], status: i32, text: &str) {
    let output = tidegate(args);
    let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!((output.status.code(), lines(&err(&output))), (Some(status), lines(text)), "{args:?}");
}

/// A text is in a message; blanks at ends of lines do not count.
#[track_caller]
fn says(args: &[&str], status: i32, parts: &[&str]) -> String {
    let output = tidegate(args);
    let text = err(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    for part in parts {
        assert!(text.contains(part), "{args:?}: {part} is not in:\n{text}");
    }
    text
}

#[test]
fn parameters_without_a_value_are_told() {
    for command in ["check", "run"] {
        let what = "FILENAME: the parameter $IN has no value; write define($IN VALUE), or give IN=VALUE on the command line";
        says(&[command, "-e", "FromDump($IN) -> Discard"], 1, &[what]);
        says(
            &[command, "-e", "FromDump(x) -> Strip($N) -> ToDump(${OUT})"],
            1,
            &["LENGTH: the parameter $N", "$OUT"],
        );
    }
    says(
        &["check", "-e", "Idle -> Print($LABEL) -> Discard"],
        0,
        &["Warning", "$LABEL has no value; it is taken as"],
    );
    for text in [
        "Idle -> Print('$x') -> Discard",
        "Script(set x 5, print $x)",
        "define($N 14); Idle -> Strip($N) -> Discard",
    ] {
        assert_eq!(err(&tidegate(&["run", "-q", "-e", text])), "", "{text}");
    }
}

/// Only the argument that is wrong is underlined, and all that is wrong is said at once.
#[test]
fn each_wrong_argument_is_underlined_by_itself() {
    expect(
        &[
            "check",
            "-e",
            "FromDump(x) -> EtherEncap(0x0800, 1:2:3, 4:5:6:7:8:9) -> BandwidthShaper(1Mbs) -> Discard",
        ],
        1,
        include_str!("mistakes/arguments.txt"),
    );
    expect(
        &[
            "check",
            "-e",
            "FromDump(x) -> c :: Classifier(12/0800, 12x0806);\nc[0] -> Discard; c[1] -> Tee(2) -> f :: IPFilter(alow tcp, \
            allow src net 10.0.0.0/33, deny all) -> Discard; c[2] -> Discard",
        ],
        1,
        include_str!("mistakes/patterns.txt"),
    );
    // Where a compound element hands the argument on, its parameter.
    says(
        &[
            "check",
            "-e",
            "elementclass C { $n | input -> Strip(LENGTH $n) -> output } Idle -> C(many) -> Discard",
        ],
        1,
        &["'C@2/Strip@1 :: Strip': LENGTH: 'many' is not a whole number", "config:1:38"],
    );
}
