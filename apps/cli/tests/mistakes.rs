//! Mistakes on the command line and in configurations: the messages and exit statuses that they give.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tidegate(args: &[&str]) -> Output {
    // The examples name files by paths relative to the root of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(root).args(args).stdin(Stdio::null()).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that a command ends with this exit status and exactly this text on standard error, apart from
/// blanks at ends of lines.
#[track_caller]
fn expect(args: &[&str], status: i32, text: &str) {
    let output = tidegate(args);
    let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!((output.status.code(), lines(&err(&output))), (Some(status), lines(text)), "{args:?}");
}

/// The commands whose help is checked: all but `click`.
const COMMANDS: [&str; 14] = [
    "run",
    "check",
    "elements",
    "flatten",
    "dot",
    "synthesize",
    "verify",
    "analyze",
    "advise",
    "generate",
    "multiply",
    "bench",
    "reload",
    "evaluate",
];

/// The message about a value for a parameter that the configuration of the test does not have.
const UNKNOWN: &str = "\
Error: no `define` has a parameter OTU; did you mean OUT?
   ╭─[ command line:1:9 ]
   │
 1 │ SOCK=s1 OTU=wan
   │         ─┬─
   │          ╰─── here
   │
   │ Help: there are: IN, OUT, SOCK
───╯
";

#[test]
fn values_for_unknown_parameters_are_refused_by_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gw.click");
    std::fs::write(&file, "define($IN in, $OUT out, $SOCK s); Idle -> Print($IN$OUT$SOCK) -> Discard")
        .unwrap();
    let file = file.to_str().unwrap();
    for command in [["run"].as_slice(), &["check"], &["flatten"], &["dot"], &["synthesize"]] {
        expect(&[command, &[file, "SOCK=s1", "OTU=wan"]].concat(), 1, UNKNOWN);
    }
    expect(&["verify", file, file, "SOCK=s1", "OTU=wan"], 2, UNKNOWN);
    // `click` only warns, and runs.
    let output = tidegate(&["click", "-q", file, "OTU=wan"]);
    let warning = "command line:1: warning: no `define` has a parameter OTU; did you mean OUT?\n";
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), warning));
}

#[test]
fn values_are_for_parameters_that_are_defined_or_mentioned() {
    let text = "elementclass Inner { $arg | define($INNER 1); Idle -> Print($INNER$arg$DEEP) -> Discard }
        define($TOP 1, $LIST ${OTHER-2}); Inner($GIVEN); Script(print $V '$QUOTED' /* $COMMENT */)";
    for name in ["TOP", "LIST", "OTHER", "GIVEN", "DEEP", "V"] {
        let output = tidegate(&["flatten", "-e", text, &format!("{name}=5")]);
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{name}");
    }
    for name in ["INNER", "arg", "QUOTED", "COMMENT"] {
        let output = tidegate(&["flatten", "-e", text, &format!("{name}=5")]);
        assert!(err(&output).contains(&format!("no `define` has a parameter {name}")), "{}", err(&output));
        assert!(err(&output).contains("Help: there are: TOP, LIST\n"), "{}", err(&output));
    }
    let output = tidegate(&["flatten", "-e", "Idle -> Discard", "A=1", "B=2"]);
    assert_eq!(
        err(&output).matches("the configuration defines no parameters").count(),
        2,
        "{}",
        err(&output)
    );
    let output = tidegate(&["flatten", "-e", "define($A 1); Idle -> Print($A) -> Discard", "A=1", "A=2"]);
    assert!(err(&output).contains("A is given twice") && output.status.code() == Some(1), "{}", err(&output));
}

/// A parameter that gets a value on the command line has to exist in only one of the two configurations of
/// `verify`.
#[test]
fn values_are_for_some_of_several_configurations() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_string()
    };
    let one = write("one.click", "define($A 14); FromDump(x) -> Strip($A) -> Discard");
    let other = write("other.click", "FromDump(x) -> Strip(14) -> Discard");
    for pair in [[&one, &other], [&other, &one]] {
        expect(&["verify", pair[0], pair[1], "A=14"], 0, "");
    }
    let output = tidegate(&["verify", &one, &other, "B=14"]);
    assert!(err(&output).contains("no `define` has a parameter B\n"), "{}", err(&output));
    assert!(err(&output).contains("the only one is A"), "{}", err(&output));
}

/// Checks that a command ends with this exit status and that its standard error contains these texts. Returns
/// the standard error.
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

#[test]
fn handlers_that_do_not_exist_are_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let out_file = folder.path().join("out.pcap");
    let text = format!(
        "FromDump(configs/data/quickstart.pcap, STOP true) -> out :: Counter -> ToDump({})",
        out_file.display()
    );
    for (handler, expected) in [
        ("uot.count", "no element 'uot'; did you mean 'out.count'?\n"),
        ("out.cuont", "no 'out.cuont' handler; did you mean 'out.count'?\n"),
        ("out.reset", "'out.reset' is a write handler\n"),
        ("*x.count", "no element matching '*x'; the elements are FromDump@1, out, ToDump@3\n"),
        ("gw.click", "no element 'gw'; the elements are FromDump@1, out, ToDump@3\n"),
        (".count", "no element ''; the elements are FromDump@1, out, ToDump@3\n"),
        ("cuont", "no 'cuont' handler; -H prints a handler: write ELEMENT.HANDLER\n"),
    ] {
        expect(&["run", "-e", &text, "-H", handler], 1, expected);
        assert!(!out_file.exists(), "{handler}: it has run");
    }
    let near = "configs/qickstart.click: No such file or directory; did you mean configs/quickstart.click?\n";
    expect(&["run", "configs/qickstart.click"], 1, near);
    let second =
        "'b.click' is not NAME=VALUE, which gives a parameter a value; only one configuration can be given\n";
    expect(&["run", "configs/quickstart.click", "b.click"], 1, second);
    // `click` reads the handlers after the run, so it reports a wrong handler at the end.
    let text = "Idle -> out :: Counter -> Discard";
    for option in ["-h", "-x"] {
        let said = says(
            &["click", "-q", "-e", text, option, "out.cuont"],
            if option == "-x" { 255 } else { 1 },
            &[],
        );
        assert_eq!(said, "no 'out.cuont' handler; did you mean 'out.count'?\n");
    }
    // `-h` is the short help of every command but `click`, where Click's users print handlers with it.
    let clicks = ["run", "-e", text, "-h", "out.count"];
    expect(&clicks, 2, "-h shows the help; -H prints a handler: -H out.count\n");
    for command in COMMANDS {
        let [short, long] = ["-h", "--help"].map(|option| tidegate(&[command, option]));
        assert!(out(&short).contains(&format!("Usage: tidegate {command}")), "{}", err(&short));
        assert!(out(&long).len() >= out(&short).len(), "{command}");
        let longest = out(&short).lines().map(str::len).max();
        assert!(longest <= Some(120), "{command}: {longest:?} columns");
    }
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).display().to_string();
    let lost = name("none/x");
    let expected = format!("{lost}: there is no folder {}\n", name("none"));
    let config = "Idle -> Discard";
    for args in [
        ["run", "-e", config, "--json", &lost].as_slice(),
        &["flatten", "-e", config, "-o", &lost],
        &["dot", "-e", config, "-o", &lost],
        &["synthesize", "-e", config, "-o", &lost],
        &["analyze", "configs/data/quickstart.pcap", "--json", &lost],
        &["analyze", "configs/data/quickstart.pcap", "--html", &lost],
        &["advise", "configs/data/quickstart.pcap", "-o", &lost],
        &["multiply", "configs/data/quickstart.pcap", "--windows", "1", "--length", "1s", "-o", &lost],
        &["bench", "forward", "--json", &lost],
    ] {
        expect(args, 2, &expected);
    }
    let here = folder.path().display().to_string();
    expect(&["run", "-e", config, "--json", &here], 2, &format!("{here}: this is a folder; name a file\n"));
    // The check that the file of `--json` can be written creates no file, and keeps an existing one.
    let kept = name("kept.json");
    std::fs::write(&kept, "before").unwrap();
    says(&["run", "-e", "Idle -> Strip(x) -> Discard", "--json", &kept], 1, &["'x' is not a whole number"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "before");
    says(&["run", "-e", "Idle -> Strip(x) -> Discard", "--json", &name("new.json")], 1, &[]);
    assert!(!folder.path().join("new.json").exists());
}

#[test]
fn handlers_that_scripts_call_in_vain_are_told() {
    let counter = "src :: InfiniteSource(LIMIT 1, STOP true) -> c :: Counter -> Discard; ";
    // A wrong handler call is an error if the script reaches it in any case.
    for (script, expected) in [
        ("Script(print \"$(nosuch.count)\")", "no element named 'nosuch'"),
        ("Script(write c.rset)", "no 'c.rset' write handler"),
        ("Script(init x $(c.cuont))", "no 'c.cuont' read handler"),
        ("Script(print c.reset)", "no 'c.reset' read handler"),
    ] {
        let text = format!("{counter}{script}");
        for command in ["check", "run"] {
            let text = says(&[command, "-e", &text], 1, &[expected, "Script@"]);
            assert!(text.contains("Error") && !text.contains("packets in"), "{text}");
        }
    }
    says(&["check", "-e", &format!("{counter}Script(write c.rset)")], 1, &["Help: did you mean 'reset'?"]);
    // A wrong handler call is only a warning if the script may not reach it.
    for script in [
        "Script(wait 1s, print \"$(nosuch.count)\")",
        "Script(TYPE PASSIVE, print nosuch.count)",
        "Script(goto end $(eq 1 1), write nosuch.reset)",
        "c2 :: Counter(COUNT_CALL 5 nosuch.run); Idle -> c2 -> Discard",
    ] {
        let text = format!("{counter}{script}");
        let said = says(&["check", "-e", &text], 0, &["Warning", "no element named 'nosuch'"]);
        assert!(!said.contains("Error"), "{said}");
    }
    // No call in these two scripts is an error or a warning: the handlers belong to the scripts, to the
    // counter or to the graph, or are not known before the run.
    let good = "Script(set e c, print $($e.count), print \"$(add 1 $(c.count))\", export v 3, print \"$(s.v)\", \
        print $(cat /dev/null), goto end $(readable nosuch.count), write stop); s :: Script(TYPE PASSIVE, export v 4)";
    assert_eq!(err(&tidegate(&["run", "-q", "-e", &format!("{counter}{good}")])), "");
}

/// A script begins before the first packet of a short capture.
#[test]
fn scripts_begin_before_the_first_packet() {
    let text = "FromDump(configs/data/quickstart.pcap, STOP true) -> c :: Counter -> Discard; Script(print \"hello $(c.count)\")";
    for clock in ["real", "trace"] {
        let output = tidegate(&["run", "-q", "--clock", clock, "-e", text]);
        assert_eq!((out(&output).as_str(), err(&output).as_str()), ("hello 0\n", ""), "{clock}");
    }
}

#[test]
fn libraries_are_found_and_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |file: &str| folder.path().join(file);
    let write = |file: &str, text: &str| {
        std::fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        std::fs::write(path(file), text).unwrap();
        path(file).display().to_string()
    };
    write("libs/conf/one.click", "require(library two.click) elementclass One { -> Two -> }");
    write("libs/conf/two.click", "elementclass Two { -> Counter -> }");
    let main = write("main.click", "require(library one.click, library ./one.click); Idle -> One -> Discard");
    let libraries = path("libs").display().to_string();
    let run = |set: bool, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).env_remove("CLICKPATH").current_dir(folder.path());
        if set {
            command.env("CLICKPATH", format!("/does/not/exist:{libraries}"));
        }
        command.output().unwrap()
    };
    let output = run(true, &["flatten", &main]);
    assert_eq!((out(&output).matches(":: Counter").count(), err(&output).as_str()), (1, ""));
    let output = run(false, &["click", "-q", "-C", &libraries, &main, "-o", "-"]);
    assert_eq!((out(&output).matches(":: Counter").count(), err(&output).as_str()), (1, ""));
    let output = run(false, &["check", &main]);
    assert!(
        err(&output).contains(
            "Help: libraries are searched in the folder of the requiring file and in the current folder; CLICKPATH \
             can list further folders"
        ),
        "{}",
        err(&output)
    );
    // These libraries require each other in a cycle, under several names.
    let own = write("own.click", "require(library ./own.click); Idle -> Discard");
    let a = write("a.click", "require(library b.click); Idle -> Discard");
    write("b.click", "require(library libs/../c.click)");
    write("c.click", "require(library a.click)");
    for (file, circle) in [(&own, "own.click -> "), (&a, "a.click -> ")] {
        let output = run(false, &["check", file]);
        assert_eq!(output.status.code(), Some(1));
        let text = err(&output);
        assert!(
            text.contains("libraries require each other in a circle: ") && text.contains(circle),
            "{text}"
        );
    }
    let text = err(&run(false, &["check", &a]));
    assert!(text.contains("a.click -> b.click -> ") && text.contains("c.click -> "), "{text}");
    // Click reads each library once, so that `click` warns of a cycle of libraries. Only a cycle through the
    // configuration file itself is an error.
    write("ring.click", "require(library ./link.click) elementclass Ring { -> Counter -> }");
    write("link.click", "require(library ring.click)");
    let ring = write("main_ring.click", "require(library ring.click); Idle -> Ring -> Discard");
    let output = run(false, &["click", "-q", &ring, "-o", "-"]);
    assert_eq!((output.status.code(), out(&output).matches(":: Counter").count()), (Some(0), 1));
    let text = err(&output);
    let circle = "ring.click -> link.click -> ring.click";
    assert!(
        text.ends_with(&format!(
            "link.click:1: warning: libraries require each other in a circle: {circle}\n"
        )),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    for args in [["check", &ring].as_slice(), &["run", "-q", &ring], &["click", "-q", &a]] {
        let output = run(false, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(err(&output).contains("libraries require each other in a circle: "), "{}", err(&output));
    }
    // Pipes in the searched folders are skipped, because reading them might never end. The message says if
    // something of this name exists but is no file.
    make_pipe(&path("pipe.click"));
    let libs = path("libs").display().to_string();
    for (name, told) in [
        (
            "pipe.click",
            "pipe.click: this is a pipe, a socket or a device, which might never end; name a file",
        ),
        ("/dev/zero", "/dev/zero: this is a pipe, a socket or a device"),
        ("libs", "libs: this is a folder; name a file"),
        (&libs, "libs: this is a folder; name a file"),
        ("main.click/x", "libraries are searched in the folder of the requiring file"),
    ] {
        let output = run(false, &["check", "-e", &format!("require(library {name}); Idle -> Discard")]);
        let text = err(&output);
        assert!(text.contains(&format!("cannot find library '{name}'")) && text.contains(told), "{text}");
    }
    let chain = write("chain.prop", &format!("[NF_MODULES]\nNF_1 = {}\n", path("pipe.click").display()));
    let text = err(&run(false, &["check", &chain]));
    assert!(text.contains("this is a pipe, a socket or a device"), "{text}");
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_is_no_configuration_or_capture_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file.display().to_string()
    };
    let here = folder.path().display().to_string();
    let capture = "configs/data/quickstart.pcap";
    let gzip = write("x.gz", &[0x1f, 0x8b, 8, 0]);
    let expected = format!(
        "{capture}: this is a capture, not a configuration; write `tidegate analyze {capture}`, or \
         `tidegate run FILE IN={capture}` with a configuration that has a parameter IN\n"
    );
    for command in ["run", "check", "flatten", "dot", "synthesize"] {
        expect(&[command, capture], 1, &expected);
        expect(&[command, &here], 1, &format!("{here}: this is a folder; name a configuration\n"));
    }
    expect(&["verify", capture, capture], 2, &expected);
    let expected =
        format!("{gzip}: this is compressed with gzip, and so no configuration; if it is a capture, write");
    says(&["run", &gzip], 1, &[&expected]);
    for (magic, format, command) in [
        (&b"\xfd7zXZ\0"[..], "xz", "xz -d"),
        (b"BZh91AY", "bzip2", "bzip2 -d"),
        (b"\x04\x22\x4d\x18abc", "lz4", "lz4 -d"),
        (b"PK\x03\x04abc", "zip", "unzip"),
    ] {
        let file = write("packed", magic);
        let capture =
            format!("{file}: compressed with {format}, which is not read; unpack it first: {command} FILE");
        expect(&["analyze", &file], 1, &format!("{capture}\n"));
        says(&["run", "-e", &format!("FromDump({file}) -> Discard")], 1, &[&capture]);
        let text = format!(
            "{file}: this is compressed with {format}, and so no configuration; unpack it first: {command} {file}\n"
        );
        expect(&["check", &file], 1, &text);
    }
    expect(&["analyze", &here], 1, &format!("{here}: this is a folder; name a capture\n"));
    says(
        &["run", "-e", &format!("FromDump({here}) -> Discard")],
        1,
        &[&format!("{here}: this is a folder; name a capture")],
    );
}

#[test]
fn numbers_and_commands_that_are_wrong() {
    for (args, expected) in [
        (["generate", "-o", "-", "--flows", "abc"].as_slice(), "'--flows <N>': 'abc' is not a whole number"),
        (&["generate", "-o", "-", "--zipf", "-1"], "'--zipf <S>': it has to be 0 or more"),
        (&["advise", "x", "--max-delay", "0"], "'--max-delay <US>': the least is 16"),
        (&["run", "-e", "", "--threads", "65"], "'--threads <N>': the most is 64"),
        (&["run", "-e", "", "--memory", "-1"], "'--memory <SIZE>': give a number of bytes"),
        (&["run", "-e", "", "--spin", "-1"], "'--spin <TIME>': give a number and a unit"),
        (&["multiply", "x", "-o", "-", "--windows", "2", "--length", "-x"], "--length: '-x' is no time"),
        (&["bench", "soak", "--minutes", "-1"], "'--minutes <N>': give a number of minutes"),
        (&["bench", "soak", "--capacity", "0"], "'--capacity <N>': the least is 1"),
        (&["check", "-e", "", "--memory", "1K"], "'--memory <SIZE>': decision diagrams take 1M at least"),
        (&["verify", "a", "b", "--memory", "1K"], "'--memory <SIZE>': decision diagrams take 1M at least"),
        (
            &["synthesize", "-e", "", "--memory", "1K"],
            "'--memory <SIZE>': decision diagrams take 1M at least",
        ),
        (&["rnu", "x"], "there is no command 'rnu'; did you mean run? `tidegate --help` lists all of them"),
        (&["version"], "there is no command 'version'; did you mean --version?"),
        (&["nonsense"], "there is no command 'nonsense'; `tidegate --help`"),
    ] {
        says(args, 2, &[expected]);
    }
}

#[test]
fn options_without_effect_are_refused() {
    expect(
        &["evaluate", "snf-7", "--trace", "x.pcap"],
        2,
        "--trace has no effect here: it is for figures reframer-11 to reframer-18\n",
    );
    expect(
        &["bench", "forward", "--rules", "x"],
        2,
        "--rules has no effect here: it is for classify, firewall, synthesizer\n",
    );
    expect(&["bench", "forward", "--routes", "x"], 2, "--routes has no effect here: it is for lpm\n");
    for option in ["--minutes", "--capacity"] {
        let text = format!("{option} has no effect here: it is for soak\n");
        expect(&["bench", "forward", option, "1"], 2, &text);
    }
    says(&["bench", "soak", "--small", "--minutes", "1"], 2, &["cannot be used with"]);
    expect(
        &["bench", "lpm", "forward", "--asked", "/none/x", "--routes", "/none/y"],
        1,
        "lpm: /none/y: No such file or directory (os error 2)\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().display().to_string();
    expect(
        &["evaluate", "reframer-11", "--into", &into, "--trace", "nonexist.pcap"],
        1,
        "nonexist.pcap: No such file or directory\n",
    );
}

/// Only the wrong argument is underlined, and all mistakes are reported at once.
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
    // If a compound element passes an argument on to an element in it, the underlined text is the parameter
    // in its definition.
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

/// Command-line arguments that are not UTF-8 are accepted as names of files, and otherwise refused.
#[test]
fn arguments_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::process::CommandExt as _;

    let name = OsStr::from_bytes(b"no\xff");
    for words in [&["run"][..], &["analyze"], &["click", "-f"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).arg(name).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code == 1 || code == 2), "{words:?}: {output:?}");
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["run", "x.click"]).arg(name).output().unwrap();
    let text = "this is not UTF-8, and only names of files may be so: argument 3, \"no\\xFF\"\n";
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(2), text));
    let as_click = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg0("click").arg(name).output().unwrap();
    let said = String::from_utf8_lossy(&as_click.stderr);
    assert!(said.contains("is not UTF-8; rename it"), "{as_click:?}");
}

/// A byte order mark is not part of a text, and files in another encoding are reported.
#[test]
fn texts_may_begin_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file.display().to_string()
    };
    let marked = |text: &str| ["\u{feff}", text].concat().into_bytes();
    write("mine.click", &marked("elementclass Mine { input -> Counter -> output }"));
    let main = write("main.click", &marked("require(library mine.click)\nIdle -> Mine -> Discard;"));
    let chain = write("chain.prop", &marked("[NF_MODULES]\nNF_1 = main.click\n"));
    for command in ["flatten", "run"] {
        assert_eq!(tidegate(&[command, &main]).status.code(), Some(0), "{command}");
    }
    assert!(!err(&tidegate(&["check", &chain])).contains("feff"));
    let wrong = write("wrong.click", &marked("Idle -> Strip(x) -> Discard;"));
    says(&["check", &wrong], 1, &["wrong.click:1:15 ]"]);
    let utf16 = write("utf16.click", b"\xff\xfeI\0d\0");
    expect(
        &["check", &utf16],
        1,
        &format!("{utf16}: this is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)\n"),
    );
}

#[test]
fn a_value_needs_the_name_of_its_parameter() {
    let text = "'=1' has no name before '='; write NAME=VALUE\n";
    let file = "configs/quickstart.click";
    for command in ["run", "check", "flatten", "dot", "synthesize"] {
        expect(&[command, file, "=1"], 1, text);
    }
    expect(&["verify", file, file, "=1"], 2, text);
}

/// A missing file gives the status 1 in each command except `verify`, where 1 is a result.
#[test]
fn what_is_not_there_gives_the_same_status_in_all_commands() {
    let none = "/nonesuch";
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().display().to_string();
    for (args, status) in [
        (["run", none].as_slice(), 1),
        (&["check", none], 1),
        (&["flatten", none], 1),
        (&["dot", none], 1),
        (&["synthesize", none], 1),
        (&["verify", none, none], 2),
        (&["analyze", none], 1),
        (&["advise", none], 1),
        (&["multiply", none, "-o", "-", "--windows", "2", "--length", "1"], 1),
        (&["bench", "lpm", "--routes", none], 1),
        (&["bench", "classify", "--rules", none], 1),
        (&["evaluate", "reframer-11", "--into", &into, "--trace", none], 1),
        (&["click", none], 1),
    ] {
        says(args, status, &["/nonesuch: No such file or directory"]);
    }
}

/// Colours are used on a terminal, which script(1) provides, unless `NO_COLOR` is set and not empty.
#[test]
fn no_color_is_heeded() {
    let folder = tempfile::tempdir().unwrap();
    let on_terminal = |set: Option<&str>| {
        let mut command = Command::new("script");
        let program = format!("{} check -e 'Idle -> Strip(x) -> Discard'", env!("CARGO_BIN_EXE_tidegate"));
        command.args(["-qec", &program, "/dev/null"]).current_dir(folder.path()).env_remove("NO_COLOR");
        if let Some(set) = set {
            command.env("NO_COLOR", set);
        }
        command.stdin(Stdio::null()).output().ok().map(|output| out(&output))
    };
    let Some(coloured) = on_terminal(None) else {
        eprintln!("skipped: there is no script(1)");
        return;
    };
    assert!(coloured.contains("\x1b[31mError"), "{coloured}");
    assert!(on_terminal(Some("")).is_some_and(|text| text.contains("\x1b[31mError")));
    assert!(on_terminal(Some("1")).is_some_and(|text| text.contains("Error") && !text.contains("\x1b[3")));
}

/// No other text is written to standard output if it is JSON.
#[test]
fn json_on_standard_output_stays_valid() {
    let text = "InfiniteSource(LIMIT 1) -> Print(seen) -> c :: Counter -> Discard; Script(print \"hello\")";
    let output = tidegate(&["run", "-e", text, "--json", "-", "-H", "c.count"]);
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str::<serde_json::Value>(&out(&output)).unwrap();
    assert!(err(&output).contains("hello\n") && err(&output).contains("\n1\n"), "{}", err(&output));
    for element in ["d :: ToDump(-)", "d :: ToIPSummaryDump(-)", "d :: FlowCounter(FILE -) -> Discard"] {
        let text = format!("Idle -> {element}");
        says(&["run", "-e", &text, "--json", "-"], 1, &["'-' and --json - both write to standard output"]);
    }
}
