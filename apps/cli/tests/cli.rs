//! The command line as scripts use it: output, messages and exit statuses.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tidegate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// Writes a capture of `n` frames of 60 bytes, alternately of the Ethernet types IPv4 and ARP.
fn capture(path: &Path, n: usize) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for i in 0..n {
        let mut frame = [i as u8; 60];
        (frame[12], frame[13]) = if i % 2 == 0 { (8, 0) } else { (8, 6) };
        writer.write(i as i64 * 1_000_000, 60, [&frame[..]]).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn a_run_prints_handlers_and_a_table_and_accounts_for_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    let (input, json) = (folder.path().join("in.pcap"), folder.path().join("report.json"));
    capture(&input, 10);
    let text = format!(
        "FromDump({}, STOP true) -> c :: Classifier(12/0800); c -> n :: Counter -> Discard",
        input.display()
    );
    let json_name = json.display().to_string();
    for clock in ["real", "trace"] {
        let output = tidegate(&["run", "-e", &text, "--clock", clock, "-H", "n.count", "--json", &json_name]);
        assert_eq!((status(&output), out(&output).as_str()), (0, "5\n"), "{}", err(&output));
        let table = err(&output);
        assert!(table.contains("no match 5") && table.contains("discard 5"), "{table}");
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["totals"]["in"], 10);
        assert_eq!(report["totals"]["dropped"], 10);
        assert_eq!(report["elements"][1]["drops"]["no match"], 5);
        for element in report["elements"].as_array().unwrap() {
            let drops: u64 = element["drops"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum();
            let sum = element["out"].as_u64().unwrap() + element["held"].as_u64().unwrap() + drops;
            assert_eq!(element["in"].as_u64(), Some(sum), "{element}");
        }
    }
    let several = tidegate(&["run", "-q", "-e", &text, "-H", "n.count", "-H", "n.class"]);
    assert_eq!(out(&several), "n.count:\n5\n\nn.class:\nCounter\n\n");
    assert_eq!(err(&several), "");
}

#[test]
fn parameters_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let (input, file) = (folder.path().join("in.pcap"), folder.path().join("test.click"));
    capture(&input, 4);
    std::fs::write(&file, "define($N 1); FromDump($IN, STOP true) -> Strip($N) -> n :: Counter -> Discard")
        .unwrap();
    let (file, define) = (file.display().to_string(), format!("IN={}", input.display()));
    let output = tidegate(&["run", "-q", &file, &define, "N=10", "-H", "n.byte_count"]);
    assert_eq!((status(&output), out(&output).as_str()), (0, "200\n"), "{}", err(&output));
}

#[test]
fn exit_statuses() {
    assert_eq!(status(&tidegate(&["run", "-q", "-e", "Idle -> Discard"])), 0);
    assert_eq!(status(&tidegate(&["run", "-e", "Idle -> Dsicard"])), 1);
    assert_eq!(status(&tidegate(&["run", "/does/not/exist.click"])), 1);
    assert_eq!(status(&tidegate(&["run", "-e", "FromDump(/does/not/exist.pcap) -> Discard"])), 1);
    assert_eq!(status(&tidegate(&["run", "-q", "-e", "Idle -> Discard", "-H", "x.y"])), 1);
    assert_eq!(status(&tidegate(&["run"])), 2);
    assert_eq!(status(&tidegate(&["nonsense"])), 2);
    assert_eq!(status(&tidegate(&["bench", "nonsense"])), 2);
    assert_eq!(status(&tidegate(&["check", "-e", "Idle -> Discard"])), 0);
    assert_eq!(status(&tidegate(&["check", "-e", "Idle -> Strip -> Discard"])), 1);
    assert_eq!(status(&tidegate(&["elements", "Stirp"])), 1);
}

#[test]
fn errors_say_where_what_and_what_to_do() {
    let text = "Idle -> Stripp(14) -> Discard;\nIdle -> Paint(300) -> Discrad;\n";
    let output = tidegate(&["check", "-e", text]);
    let message = err(&output);
    for part in ["config:1:9", "Stripp", "'Strip'", "config:2", "Discrad", "'Discard'"] {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
    let output = tidegate(&["check", "-e", "Idle -> Paint(300) -> Strip(x) -> Discard"]);
    let message = err(&output);
    for part in [
        "While configuring",
        "COLOR: 300 is too large; the most is 255",
        "LENGTH: 'x' is not a whole number",
        "tidegate elements Strip",
    ] {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
}

#[test]
fn a_damaged_capture_is_processed_up_to_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    capture(&input, 10);
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&input, &bytes[..bytes.len() - 30]).unwrap();
    let text = format!("FromDump({}, STOP true) -> ToDump({})", input.display(), output.display());
    let run = tidegate(&["run", "-e", &text]);
    assert_eq!(status(&run), 1);
    assert!(err(&run).contains("packet 10"), "{}", err(&run));
    let mut reader = capture::Reader::open(&output).unwrap();
    let mut n = 0;
    while reader.next().unwrap().is_some() {
        n += 1;
    }
    assert_eq!(n, 9);
}

/// Checks that a run ends although a damaged time stamp leaves a gap of 136 years between two packets: timers
/// run only for the first part of the gap, as long as `--max-gap`.
#[test]
fn time_jumps_over_long_gaps_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    let mut writer =
        capture::Writer::new(std::fs::File::create(&input).unwrap(), capture::WriterOptions::default());
    for seconds in [0, 50, i64::from(u32::MAX), i64::from(u32::MAX) + 2] {
        writer.write(seconds * 1_000_000_000, 60, [&[0; 60][..]]).unwrap();
    }
    writer.flush().unwrap();
    let text = format!(
        "in :: FromDump({}, STOP true) -> Discard; TimedSource(1) -> c :: Counter -> Discard;",
        input.display()
    );
    for (arguments, limit) in [(&[][..], 86_400), (&["--max-gap", "100s"][..], 100)] {
        let run =
            tidegate(&[&["run", "--clock", "trace", "-q", "-H", "c.count", "-e", &text], arguments].concat());
        let count: u64 = out(&run).trim().parse().unwrap();
        assert!((50 + limit..50 + limit + 10).contains(&count), "{count}");
        let told = format!(
            "in :: FromDump: the time stamp of the next packet, 4294967295.000000, is 49710.3 days later; timers ran \
             for the first {limit} s of that (--max-gap)\n"
        );
        assert_eq!(err(&run), told);
    }
}

/// A capture that is far larger than the memory for packets (`--memory`) can be read from a pipe, because
/// packets leave memory while further packets are read.
#[test]
fn a_capture_larger_than_memory_streams() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-q", "--memory", "64M", "-H", "n.count", "-e"])
        .arg("FromDump(-, STOP true) -> Queue(10) -> Unqueue -> n :: Counter -> Discard")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let packets = 300_000;
    let stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let mut writer = capture::Writer::new(stdin, capture::WriterOptions::default());
        let frame = [0x55; 1000];
        for i in 0..packets {
            writer.write(i, 1000, [&frame[..]]).unwrap();
        }
        writer.flush().unwrap();
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    // 300 MB have passed through 64 MiB of memory. The queue, which holds ten packets, may have dropped some
    // of them, so the counter downstream of it has counted only a part. The run would fail if a packet were
    // not accounted for.
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(out(&output).trim().parse::<i64>().unwrap() > 0);
}

#[test]
fn flatten_dot_and_elements() {
    let text = "elementclass A { input -> Strip(1) -> output } Idle -> a :: A -> Discard";
    let flat = out(&tidegate(&["flatten", "-e", text]));
    assert!(flat.contains("a/Strip@1 :: Strip(1)"), "{flat}");
    assert_eq!(out(&tidegate(&["flatten", "-e", &flat])), flat, "flattening twice changes nothing");
    assert!(out(&tidegate(&["dot", "-e", text])).starts_with("digraph"));
    let list = out(&tidegate(&["elements"]));
    assert!(list.lines().count() > 25 && list.contains("Strip "), "{list}");
    let page = out(&tidegate(&["elements", "DecIPTTL"]));
    for part in ["Usage", "MULTICAST (bool, default true)", "drops (read)", "Example", "1/1-2"] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }
}

/// The manual page of each element names the default of BURST (packets per call) that the element has without
/// this argument, under `tidegate run` and under `tidegate click`.
#[test]
fn manuals_have_the_burst_of_the_run() {
    let bursts = [
        ("Unqueue", 1),
        ("InfiniteSource", 1),
        ("Discard", 1),
        ("ToDump", 1),
        ("ToDevice", 1),
        ("KernelTun", 1),
        ("ReplayUnqueue", 64),
    ];
    for (name, clicks) in bursts {
        let page = out(&tidegate(&["elements", name]));
        let default =
            format!("default 32 under `tidegate run`, or its `--burst`; {clicks} under `tidegate click`)");
        assert!(page.contains(&default), "{default} is not in:\n{page}");
    }
    let text = "InfiniteSource(LIMIT 1, STOP true) -> Queue -> u :: Unqueue -> Discard";
    let burst = |words: &[&str]| out(&tidegate(&[words, &["-e", text]].concat()));
    assert_eq!(burst(&["run", "-H", "u.burst"]), "32\n");
    assert_eq!(burst(&["run", "--burst", "7", "-H", "u.burst"]), "7\n");
    assert_eq!(burst(&["click", "-h", "u.burst"]), "1\n");
}

#[test]
fn clicks_own_options() {
    let click = |args: &[&str]| tidegate(&[&["click"], args].concat());
    let text = "s :: InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard";
    let output = click(&["-e", text, "-h", "c.count"]);
    assert_eq!((status(&output), out(&output).as_str(), err(&output).as_str()), (0, "3\n", ""));
    let output = click(&["-e", text, "-h", "*.count"]);
    assert_eq!(out(&output), "s.count:\n3\n\nc.count:\n3\n\nDiscard@3.count:\n3\n\n");
    assert_eq!(status(&click(&["-e", text, "-x", "c.count"])), 3);
    let output = click(&["-q", "-e", "Idle -> Strip(x) -> Discard"]);
    assert_eq!(status(&output), 1);
    assert_eq!(
        err(&output),
        "config:1: While configuring 'Strip@2 :: Strip':\n  LENGTH: invalid number\n\
         Router could not be initialized!\n"
    );
    let output = click(&["-e", "Idle -> Discard", "-e", "Idle -> Discard"]);
    assert!(err(&output).starts_with("router configuration specified twice\n"));
    // No configuration file is read before the whole command line has been read.
    let output = click(&["-f", "nofile", "other"]);
    assert!(err(&output).starts_with("router configuration specified twice\nUsage: click "));
    assert!(out(&click(&["nofile", "--help"])).contains("Usage: click "));
    assert!(err(&click(&["nofile", "--nosuch"])).starts_with("click: unrecognized option '--nosuch'\nUsage"));
    assert_eq!(err(&click(&["-f", "nofile"])), "nofile: No such file or directory\n");
    assert_eq!(err(&click(&["-f", ""])), "warning: <stdin>: configuration has no elements, exiting\n");
    let output = click(&[
        "--simtime",
        "-e",
        "TimedSource(10, LIMIT 2, STOP true) -> Print(x, 0, TIMESTAMP true) -> Discard",
    ]);
    assert_eq!(err(&output).lines().count(), 2, "ten seconds pass at once: {}", err(&output));
    let text_of_threads = "StaticThreadSched(s 1); s :: InfiniteSource(LIMIT 3, STOP true) -> Discard";
    let threads = |args: &[&str]| out(&click(&[args, &["-e", text_of_threads, "-h", "nthreads"]].concat()));
    assert_eq!([threads(&["-j", "3"]), threads(&[]), threads(&["-j3", "--simtime"])], ["3\n", "1\n", "1\n"]);
    assert_eq!(out(&click(&["-j2", "-e", text_of_threads, "-h", "s.home_thread"])), "1\n");
    assert!(err(&click(&["-j", "65", "-e", text])).starts_with("--threads 65: at most 64 threads\nUsage: "));
    let output =
        click(&["-e", "s :: InfiniteSource(ACTIVE false, DATA ab) -> Discard", "-q", "-h", "s.data"]);
    assert_eq!(out(&output), "ab", "no line end is added to bytes");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-h", "c.count", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert_eq!(out(&child.wait_with_output().unwrap()), "3\n", "a configuration from standard input");
}

#[test]
fn errors_have_clicks_form() {
    let cases = [
        (
            "a :: Idle;\n\na :: Idle",
            "3: redeclaration of element 'a'\n1: element 'a' previously declared here\n",
        ),
        (
            "elementclass X { a :: Idle }\nx/a :: Idle;\nx :: X",
            "1: redeclaration of element 'x/a'\n2: 'x/a' previously declared here\n",
        ),
        (
            "elementclass X { $a, K $b |\n Idle } X(1);\n",
            "3: no match for 'X[1 argument, 0 inputs, 0 outputs]'\n1: candidates are:\n1:   X(<arg>, K)[0 inputs, 0 outputs]\n",
        ),
        (
            "Foo; a -> b;\na",
            "1: undeclared element 'Foo'\n1: undeclared element 'a'\n1: undeclared element 'b'\n",
        ),
        ("a :: Idle;\na [0-] => [] a", "2: at most one expandable port allowed per connection\n"),
        ("Idle -> (Null)\n -> Discard", "1: '@2' has no input 0\n1: '@2' has no output 0\n"),
        ("a :: Idle(\n# 20 \"b.h\"\n) -> Foo", "b.h:20: undeclared element 'Foo'\n"),
        ("x :: { input [1] -> Discard };\nIdle -> [1] x", "1: '<anonymous>' input 0 missing\n"),
        (
            "Idle -> Null;\nNull -> Discard",
            "2: 'Null@3 :: Null' input 0 unused\n1: 'Null@2 :: Null' output 0 unused\n@",
        ),
        (
            "a :: Idle -> Discard;\na -> Discard -> Idle; a -> Idle",
            "2: 'Discard@3 :: Discard' has no output 0\n@",
        ),
        (
            "a :: Idle -> Discard; a -> Discard; a -> Discard",
            "1: illegal reuse of 'a :: Idle' push output 0\n1: illegal reuse of 'a :: Idle' push output 0\n@",
        ),
        (
            "Idle -> Queue -> Queue -> Discard",
            "'Queue@2 :: Queue' pull output 0 connected to 'Queue@3 :: Queue' push input 0\n@",
        ),
        (
            "Idle -> Queue -> Null -> Queue",
            "agnostic 'Null@3 :: Null' in mixed context: pull input 0, push output 0\n@",
        ),
        (
            "Idle -> Strip(1,\n2, FOO 3) -> Discard",
            "1: While configuring 'Strip@2 :: Strip':\n  FOO: unknown argument\n  too many arguments\n@",
        ),
        (
            "Idle -> IPFilter(allow ip ttl > 255) -> Discard",
            "1: While configuring 'IPFilter@2 :: IPFilter':\n  pattern 0: warning: relation '> 255' is always false (range 0-255)\n",
        ),
        (
            "Idle -> IPRewriter(pattern 1.2.3.4 x - - 0 0) -> Discard",
            "1: While configuring 'IPRewriter@2 :: IPRewriter':\n  input spec 0: bad source port\n@",
        ),
        ("a :: Idle [", "1: syntax error: expected port number\n"),
        (
            "PollDevice(eth0) -> ToHostSniffers",
            "1: element class 'PollDevice' does not exist here: in Click or FastClick, it works only in the kernel module of Click\n\
             1: element class 'ToHostSniffers' does not exist here: in Click or FastClick, it works only in the kernel module of Click\n",
        ),
        (
            "Idle ~tcp> Discard",
            "1: element class 'TCPIn' does not exist here: in Click or FastClick, it follows TCP connections in a context of \
             MiddleClick, so that elements downstream may change the length of their data\n",
        ),
        ("a :: ", "1: missing element type in declaration\n1: unknown element class 'a'\n"),
        ("Idle(", "1: expected ')'\n"),
        ("x :: {", "1: expected '}'\n"),
        ("define(x)", "1: bad 'define' declaration: not a variable\n"),
    ];
    for (text, expected) in cases {
        let numbered = |line: &str| line.starts_with(|c: char| c.is_ascii_digit());
        let place = |line: &str| format!("{}{line}\n", if numbered(line) { "config:" } else { "" });
        let expected: String = expected.lines().map(place).collect();
        let expected = expected.replace("@\n", "Router could not be initialized!\n");
        let output = tidegate(&["click", "-q", "-e", text]);
        assert_eq!(err(&output), expected, "{text}");
    }
}

/// As under Click, warnings of the handler `config` have no name of an element before them, and only one word
/// `warning`.
#[test]
fn warnings_of_the_handler_config_have_clicks_form() {
    let text = "Idle -> f :: IPFilter(allow all) -> Discard; DriverManager(write f.config \"allow ip ttl > 255\", stop)";
    let output = tidegate(&["click", "-q", "-e", text]);
    assert_eq!(err(&output), "", "{}", out(&output));
    let output = tidegate(&["click", "-e", text]);
    let expected = "pattern 0: warning: relation '> 255' is always false (range 0-255)\n";
    assert_eq!((err(&output).as_str(), status(&output)), (expected, 0));
}

/// Natively, problems are shown in the order of their places, and not in the order in which Click finds them.
#[test]
fn problems_are_shown_in_the_order_of_their_places() {
    let text = "elementclass X { input -> Idle [1] -> output }\nx :: X; Idle -> x -> Foo\n[x] -> Discard";
    let output = tidegate(&["check", "-e", text]);
    let lines = err(&output);
    let places: Vec<&str> =
        lines.lines().filter_map(|line| line.split_once("╭─[ ")).map(|(_, place)| place).collect();
    let line_of = |place: &&str| place.split(':').nth(1).and_then(|line| line.parse::<u32>().ok());
    let numbers: Vec<u32> = places.iter().filter_map(line_of).collect();
    assert!(numbers.len() > 1 && numbers.is_sorted(), "{lines}");
}

#[test]
fn the_flat_configuration_has_clicks_form() {
    let text = "require(compact_config); define($l 1 2, $i 1); a :: Idle; i :: InfiniteSource(LIMIT ${l[$i]}, DATA \"${l[0]}\")
        -> ( -> Null -> ) -> Discard";
    let output = tidegate(&["click", "-q", "-o", "-", "-e", text]);
    assert_eq!(
        out(&output),
        "require(compact_config);\n\na :: Idle;\ni :: InfiniteSource(LIMIT 2, DATA \"1\");\nNull@6 :: Null;\n\
         Discard@7 :: Discard;\n\ni -> Null@6\n    -> Discard@7;\n"
    );
    assert_eq!(out(&tidegate(&["flatten", "-e", "a :: Idle"])), "a :: Idle;\n\n");
}

#[test]
fn an_offloaded_mechanism_has_a_worker_for_itself() {
    let text =
        "InfiniteSource(LIMIT 3000, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> EtherEncap(0x0800,
        2:0:0:0:0:1, 2:0:0:0:0:2) -> first :: Counter -> r :: Reframer -> second :: Counter -> Discard";
    let run = |options: &[&str]| tidegate(&[&["run", "--clock", "trace", "-e", text], options].concat());
    let read = ["-H", "first.count"];
    for named in ["Reframer", "r", "r,Reframer"] {
        let output = run(&[&["--threads", "2", "--offload", named], &read[..]].concat());
        assert_eq!((status(&output), out(&output).as_str()), (0, "3000\n"), "{}", err(&output));
        let table = err(&output);
        let taken = |row| table.lines().find(|line| line.starts_with(row)).unwrap().to_string();
        assert!(taken("worker 0").contains("took 3000 over, handed 0 over"), "{table}");
        assert!(taken("worker 1").contains("took 0 over, handed 3000 over"), "{table}");
    }
    // The table of the parked payloads, which has no ports, serves all workers.
    let slicer = ["run", "configs/slicer.click", "--clock", "trace", "-H", "payloads.sliced"];
    let [one, two] = [&[][..], &["--threads", "2", "--offload", "Slice"]].map(|options| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.current_dir(root).args([&slicer[..], options].concat()).output().unwrap();
        assert_eq!(status(&output), 0, "{}", err(&output));
        out(&output)
    });
    assert!(
        one == two && one.lines().any(|line| line.parse().is_ok_and(|sliced: u64| sliced > 0)),
        "{one} {two}"
    );
    for (options, said) in [
        (&["--offload", "", "--threads", "2"][..], "--offload takes names of elements or classes"),
        (&["--offload", "Reframer"], "--offload takes a worker of its own: give --threads 2 or more"),
        (
            &["--offload", "Reframer", "--threads", "2", "--steering", "spray"],
            "--offload is for --steering rss; `spray`, `flowlet` and `auto` use all workers",
        ),
        (
            &["--offload", "Juggler", "--threads", "2"],
            "--offload Juggler: the configuration has no element and no class of this name",
        ),
    ] {
        let output = run(options);
        assert!(status(&output) != 0 && err(&output).contains(said), "{}", err(&output));
    }
}

#[test]
fn packets_of_a_flow_come_to_all_workers() {
    // The source sends one connection. Either worker may own the connection.
    let chain = "FastTCPFlows(RATE 0, LIMIT 3000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
        DSTIP 10.0.0.2, FLOWS 1, FLOWSIZE 3000) -> Strip(14) -> CheckIPHeader -> c :: Counter -> ELEMENT -> Discard";
    let run = |element: &str, options: &[&str]| {
        let text = chain.replace("ELEMENT", element);
        let most = [&["run", "--threads", "2", "--clock", "trace", "-H", "c.count", "-e", &text], options];
        tidegate(&most.concat())
    };
    for options in
        [&["--steering", "spray"][..], &["--steering", "spray", "--order", "keep"], &["--steering", "rss"]]
    {
        let output = run("Null", options);
        assert_eq!((status(&output), out(&output).as_str()), (0, "3000\n"), "{}", err(&output));
        let table = err(&output);
        let rows = table.lines().filter(|line| line.starts_with("worker ")).map(|line| {
            let dropped = line.split_whitespace().nth(5).unwrap();
            dropped.parse::<u64>().unwrap()
        });
        let rows: Vec<_> = rows.collect();
        let is_even = rows.iter().all(|n| (1400..1600).contains(n));
        assert!(rows.len() == 2 && is_even == options.contains(&"spray"), "{table}");
    }
    // The message names the element that needs every packet of a flow.
    let refused = run("a :: Reframer", &["--steering", "spray"]);
    assert_eq!((status(&refused), out(&refused).as_str()), (1, ""));
    assert!(
        err(&refused).contains("a :: Reframer: its state 'flows' needs every packet of a flow"),
        "{}",
        err(&refused)
    );
    assert_eq!(status(&run("a :: Reframer", &["--steering", "auto"])), 0);
    assert_eq!(status(&run("IPReassembler", &["--steering", "flowlet", "--flowlet-gap", "1ms"])), 0);
    assert_eq!(status(&run("Null", &["--steering", "flowlet", "--flowlet-gap", "soon"])), 2);
    // An option that belongs to another value of `--steering` is an error.
    for options in
        [&["--order", "keep"][..], &["--spray-udp", "443"], &["--steering", "auto", "--flowlet-gap", "1ms"]]
    {
        let output = run("Null", options);
        assert_eq!(status(&output), 2);
        assert!(err(&output).contains(" is for --steering "), "{}", err(&output));
    }
    assert_eq!(status(&run("Null", &["--steering", "spray", "--spray-udp", "4789,5000-5999"])), 0);
}

#[test]
fn workers_that_get_no_thread_are_a_problem_with_a_name() {
    // No system has memory for a stack of this size, so no thread can be started.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let options = ["run", "--threads", "3", "-e", "InfiniteSource(LIMIT 5, STOP true) -> Discard"];
    let output = command.args(options).env("RUST_MIN_STACK", (1u64 << 50).to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no thread for worker 1 of 3: ") && said.contains("--threads"), "{said}");
}

#[test]
fn memory_is_that_of_all_workers() {
    let run = |memory: &str| {
        let options = ["run", "--threads", "4", "--memory", memory, "-e", "Idle -> Discard"];
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(options).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run("65M");
    assert!(status == Some(1) && said.contains("a packet pool of 68157440 bytes is too small"), "{said}");
    // The pool size that the message names is sufficient.
    let least = said.split("at least ").nth(1).and_then(|text| text.split(' ').next()).unwrap();
    let (status, said) = run(least);
    assert_eq!(status, Some(0), "{said}");
}

/// `tidegate` accepts the file of a chain (`.prop`), which names several configurations, in place of one
/// configuration. The named files are in the chain's folder, or in the current folder.
#[test]
fn chains_of_several_configurations_are_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("chains")).unwrap();
    write(
        "chains/two.prop",
        "[NF_MODULES]\nNF_1 = one.click\nNF_2 = two.click\n[NF_TOPO]\nTOPOLOGY = NF_1[b] -> [c]NF_2;\n\
         [ENTRY_POINTS]\nDOMAINS = [no-such-a]NF_1\n",
    );
    write("chains/one.click", "in :: FromDevice(no-such-a) -> Paint($COLOR) -> Queue -> ToDevice(b)");
    write("two.click", "FromDevice(c) -> PaintSwitch -> Queue -> out :: ToDevice(no-such-d)");
    let tidegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap()
    };
    let chain = ["chains/two.prop", "COLOR=7"];
    let flat = tidegate(&[&["flatten"], &chain[..]].concat());
    assert_eq!(
        out(&flat),
        "NF_1/in :: FromDevice(no-such-a);\nNF_1/Paint@2 :: Paint(7);\nNF_1/Cable@4 :: Cable(b, c);\n\
         NF_2/PaintSwitch@2 :: PaintSwitch;\nNF_2/Queue@3 :: Queue;\nNF_2/out :: ToDevice(no-such-d);\n\n\
         NF_1/in -> NF_1/Paint@2\n    -> NF_1/Cable@4\n    -> NF_2/PaintSwitch@2\n    -> NF_2/Queue@3\n    \
         -> NF_2/out;\n",
        "{}",
        err(&flat)
    );
    assert!(
        err(&flat).contains("chains/one.click:1:49") && err(&flat).contains("left out"),
        "{}",
        err(&flat)
    );
    assert!(out(&tidegate(&[&["dot"], &chain[..]].concat())).contains("NF_1/Cable@4"));
    assert_eq!(status(&tidegate(&[&["check"], &chain[..]].concat())), 0);
    write("flat.click", &out(&flat));
    let verified = tidegate(&["verify", "chains/two.prop", "flat.click", "COLOR=7"]);
    assert_eq!(status(&verified), 0, "{}{}", out(&verified), err(&verified));
    // Only `run` opens interfaces.
    let run = tidegate(&[&["run"], &chain[..]].concat());
    assert_eq!(status(&run), 1);
    assert!(err(&run).contains("no-such-a: SIOCGIFINDEX"), "{}", err(&run));
    std::fs::remove_file(folder.path().join("two.click")).unwrap();
    write("chains/one.click", "in :: FromDevice(no-such-a) -> Discard");
    let wrong = tidegate(&["check", "chains/two.prop"]);
    assert_eq!(status(&wrong), 1);
    for part in [
        "NF_2: two.click: No such file",
        "chains/two.prop:3:8",
        "NF_1 has no interface 'b'",
        "chains/two.prop:5:16",
        "it has no-such-a",
        "2 errors",
    ] {
        assert!(err(&wrong).contains(part), "{part} is not in:\n{}", err(&wrong));
    }
}
