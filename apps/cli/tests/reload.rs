//! `tidegate reload` and the signal HUP: a running instance reads its file again, on several workers.

mod clients;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use clients::{ask, connect, data};

/// A run with a control socket, and with a configuration file that a test changes.
struct Run {
    child: Child,
    folder: tempfile::TempDir,
    client: BufReader<UnixStream>,
}

impl Drop for Run {
    /// Ends the run of a test that has failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text of a configuration with the element `between` between its source and its address
/// translator.
fn config(between: &str) -> String {
    format!(
        "RatedSource(LENGTH 64, RATE 20000) -> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 2000) -> {between}
            -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> c :: Counter -> Discard"
    )
}

fn file(run: &Run) -> PathBuf {
    run.folder.path().join("router.click")
}

fn start(args: &[&str]) -> Run {
    start_with(tempfile::tempdir().unwrap(), &config("Null"), args)
}

/// Starts a run of a configuration whose file is in `folder`.
fn start_with(folder: tempfile::TempDir, text: &str, args: &[&str]) -> Run {
    let (path, socket) = (folder.path().join("router.click"), folder.path().join("control"));
    fs::write(&path, text).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "--control", &socket.display().to_string(), &path.display().to_string()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let client = connect(&socket);
    Run { child, folder, client }
}

impl Run {
    fn read(&mut self, handler: &str) -> String {
        assert_eq!(
            ask(&mut self.client, &format!("READ {handler}\n")),
            format!("200 Read handler '{handler}' OK")
        );
        data(&mut self.client)
    }

    /// Returns the outside port of the only mapping of the address translator.
    fn outside(&mut self) -> String {
        let table = self.read("nat.udp_table");
        let end = table.split("192.0.2.1, ").nth(1).and_then(|rest| rest.split([',', ')']).next());
        assert!(end.is_some() && self.read("nat.nmappings") == "1", "{table}");
        end.unwrap_or_default().to_string()
    }

    fn reload(&self, args: &[&str]) -> Output {
        let socket = self.folder.path().join("control");
        Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("reload").arg(socket).args(args).output().unwrap()
    }

    /// Waits until the graph has an element of this class.
    fn wait_for(&mut self, class: &str) {
        let is_there = |run: &mut Run| run.read("flatconfig").contains(&format!(":: {class}"));
        let comes = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            is_there(self)
        });
        assert!(comes, "no {class}");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Reads the messages of the run up to the line with this text, and returns the line.
    fn message_with(&mut self, wanted: &str) -> String {
        let messages = self.child.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            messages.read_exact(&mut byte).unwrap();
            match byte {
                [b'\n'] if text(&line).contains(wanted) => return text(&line),
                [b'\n'] => line.clear(),
                [other] => line.push(other),
            }
        }
    }

    /// Interrupts the run, which has to succeed, and returns its messages.
    fn end(mut self) -> String {
        self.signal("INT");
        let mut messages = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert!(self.child.wait().unwrap().success(), "{messages}");
        messages
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_reads_its_file_again_and_keeps_its_state() {
    for threads in ["1", "2"] {
        let mut run = start(&["--threads", threads]);
        run.wait_for("Null");
        while run.read("c.count").parse::<u64>().unwrap() < 1000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (count, mapping) = (run.read("c.count").parse::<u64>().unwrap(), run.outside());
        // `tidegate reload` installs the changed file, which has a new element.
        fs::write(file(&run), config("CheckLength(1500)")).unwrap();
        let output = run.reload(&[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        run.wait_for("CheckLength");
        assert!(run.read("c.count").parse::<u64>().unwrap() >= count);
        assert_eq!(run.outside(), mapping);
        // A configuration file with an error changes nothing.
        fs::write(file(&run), config("CheckLength(long)")).unwrap();
        let output = run.reload(&[]);
        assert_eq!(output.status.code(), Some(1));
        let errors = text(&output.stderr);
        assert!(errors.contains("router.click:1:") && errors.contains("'long'"), "{errors}");
        run.wait_for("CheckLength");
        // The signal HUP installs the file after another change.
        fs::write(file(&run), config("Strip(0)")).unwrap();
        run.signal("HUP");
        run.wait_for("Strip");
        assert_eq!(run.outside(), mapping);
        // The text of another file is not accepted, because the run was started without `--allow-config`.
        let other = run.folder.path().join("other.click");
        fs::write(&other, config("Null")).unwrap();
        let output = run.reload(&[&other.display().to_string()]);
        assert!(text(&output.stderr).contains("--allow-config"), "{}", text(&output.stderr));
        let messages = run.end();
        assert!(messages.contains("the configuration has been replaced"), "{messages}");
    }
}

#[test]
fn files_and_texts_are_installed_where_the_run_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("next.click"), config("Strip(0)")).unwrap();
    let mut run = start(&["--config-dir", &folder.path().display().to_string(), "--allow-config"]);
    let output = run.reload(&["--name", "next.click"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    run.wait_for("Strip");
    let other = folder.path().join("other");
    fs::write(&other, config("CheckLength(1500)")).unwrap();
    assert!(run.reload(&[&other.display().to_string()]).status.success());
    run.wait_for("CheckLength");
    assert!(!run.reload(&["--name", "none"]).status.success());
    run.end();
}

#[test]
fn sockets_go_on_with_their_connections() {
    for threads in ["1", "2"] {
        let mut run = start(&["--threads", threads]);
        let [stream, datagrams] = ["stream", "datagrams"].map(|name| run.folder.path().join(name));
        let sockets = |between: &str, snap_length: usize| {
            format!(
                "s :: Socket(UNIX, {}) -> {between} -> bytes :: Counter -> Discard;
                 d :: Socket(UNIX_DGRAM, {}, SNAPLEN {snap_length}) -> {between} -> all :: Counter -> Discard",
                stream.display(),
                datagrams.display()
            )
        };
        fs::write(file(&run), sockets("Null", 2048)).unwrap();
        assert!(run.reload(&[]).status.success());
        run.wait_for("Socket");
        let mut client = UnixStream::connect(&stream).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        for (number, between) in ["Strip(0)", "Null", "CheckLength(3000)", "Null"].into_iter().enumerate() {
            client.write_all(&[7; 100]).unwrap();
            sender.send_to(&[7; 50], &datagrams).unwrap();
            fs::write(file(&run), sockets(between, 2048)).unwrap();
            let output = run.reload(&[]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            for (counter, count) in [("bytes.byte_count", 100), ("all.byte_count", 50)] {
                let is_there = |run: &mut Run| run.read(counter) == (count * (number + 1)).to_string();
                let comes = (0..1000).any(|_| {
                    std::thread::sleep(Duration::from_millis(5));
                    is_there(&mut run)
                });
                assert!(comes, "{counter}: {}", run.read(counter));
            }
        }
        // With another SNAPLEN, the Socket element needs a new socket at an address that is still in use by
        // the running configuration. So the reload fails.
        fs::write(file(&run), sockets("Null", 1024)).unwrap();
        let output = run.reload(&[]);
        assert!(text(&output.stderr).contains("bind"), "{}", text(&output.stderr));
        client.write_all(&[7; 100]).unwrap();
        fs::write(file(&run), "Idle -> Discard").unwrap();
        assert!(run.reload(&[]).status.success());
        // The new configuration has no Socket element, so the client's connection is closed, and the sockets'
        // files are removed.
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
        let are_gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            !stream.exists() && !datagrams.exists()
        });
        assert!(are_gone);
        run.end();
    }
}

#[test]
fn a_reload_in_the_middle_of_another_one_is_refused() {
    let mut run = start(&["--threads", "2"]);
    // There are 20,000 rules, so that further requests arrive while the rules of the first request are
    // compiled.
    let rules: Vec<String> =
        (0..20_000).map(|n| format!("deny src host 10.{}.{}.1 && dst port {n}", n / 250, n % 250)).collect();
    fs::write(file(&run), config(&format!("IPFilter({}, allow all)", rules.join(", ")))).unwrap();
    let socket = run.folder.path().join("control");
    let reload = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("reload").arg(&socket).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all = [(); 4].map(|()| reload());
    let outputs = all.map(|child| child.wait_with_output().unwrap());
    let (installed, refused): (Vec<_>, Vec<_>) =
        outputs.into_iter().partition(|output| output.status.success());
    assert!(!installed.is_empty() && !refused.is_empty(), "{} {}", installed.len(), refused.len());
    for output in refused {
        let said = text(&output.stderr);
        assert!(said.contains("another configuration is being installed already"), "{said}");
    }
    run.wait_for("IPFilter");
    run.end();
}

/// If a reload changes the number of copies of an element (one per worker), the counts of the old copies are
/// not added up in the new ones. A message says that the state has ended.
#[test]
fn state_that_ends_is_said() {
    let mut run = start(&["--threads", "2"]);
    run.wait_for("Counter");
    for more in ["; StaticThreadSched(c 1)", ""] {
        fs::write(file(&run), config("Null") + more).unwrap();
        assert!(run.reload(&[]).status.success());
    }
    let messages = run.end();
    assert_eq!(messages.matches("into 'c :: Counter'").count(), 2, "{messages}");
    assert_eq!(messages.matches("the state has ended").count(), 2, "{messages}");
}

/// A configuration is accepted although it writes to a full disk. The error is reported, and packets still
/// pass.
#[test]
fn a_full_disk_does_not_stop_a_reload() {
    for threads in ["1", "2"] {
        let mut run = start(&["--threads", threads]);
        let counted = |run: &mut Run| run.read("c.count").trim().parse::<u64>().unwrap();
        let passes = |run: &mut Run, count: u64| {
            assert!((0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                counted(run) > count
            }));
        };
        passes(&mut run, 0);
        let before = run.outside();
        fs::write(file(&run), config("ToDump(/dev/full)")).unwrap();
        let output = run.reload(&[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).matches("stood still for").count().to_string(), threads);
        run.wait_for("ToDump");
        let first = counted(&mut run);
        passes(&mut run, first + 1000);
        fs::write(file(&run), config("Null")).unwrap();
        assert!(run.reload(&[]).status.success());
        assert_eq!(run.outside(), before);
        let messages = run.end();
        assert!(messages.contains("/dev/full") && !messages.contains("panicked"), "{messages}");
    }
}

/// A client sends two requests to reload at once. The first worker reads the second request after answering
/// the first, but before it runs the new graph. So the result of the second request comes to a control socket
/// that has another element number in the new graph.
#[test]
fn requests_that_follow_each_other_at_once_are_answered() {
    for threads in ["1", "2"] {
        let mut run = start(&["--threads", threads]);
        for number in 0..20 {
            fs::write(file(&run), config(["Null -> Null -> Null", "Strip(0)"][number % 2])).unwrap();
            run.client.get_mut().write_all(b"WRITE reload\nWRITE reload\n").unwrap();
            for _ in 0..2 {
                let mut answer = String::new();
                run.client.read_line(&mut answer).unwrap();
                assert_eq!(answer.trim_end(), "200 Write handler 'reload' OK");
            }
        }
        run.end();
    }
}

/// Under the trace clock, the workers take turns on one thread. A script replaces the configuration, and the
/// written capture is the same as without reloads.
#[test]
fn a_script_reloads_under_the_trace_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let graph = |out: &str, between: &str| {
        let (input, out) = (path("in"), path(out));
        format!(
            "s :: FromDump({input}, STOP true) -> MarkIPHeader(14) {between} -> q :: Queue
                -> u :: RatedUnqueue(500) -> d :: ToDump({out})"
        )
    };
    let run = |name: &str, threads: &str| {
        let folder = folder.path().display().to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["run", "--clock", "trace", "--config-dir", &folder, "--threads", threads, &path(name)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let source = "FastUDPSource(1000, 200, 60, 2:0:0:0:0:1, 10.0.0.1, 1, 2:0:0:0:0:2, 10.0.0.2, 2, true, 5)";
    fs::write(path("make.click"), format!("{source} -> ToDump({})", path("in"))).unwrap();
    run("make.click", "1");
    for threads in ["1", "2", "3"] {
        fs::write(path("plain.click"), graph("plain", "")).unwrap();
        run("plain.click", threads);
        let script = |next: &str| format!("; Script(wait 20ms, write hotconfig {next}, print \"next\")");
        fs::write(path("a.click"), graph("out", "") + &script("b.click")).unwrap();
        fs::write(path("b.click"), graph("out", "-> Null") + &script("c.click")).unwrap();
        fs::write(path("c.click"), graph("out", "-> Null -> Null")).unwrap();
        run("a.click", threads);
        let [plain, out] = ["plain", "out"].map(|name| fs::read(path(name)).unwrap());
        assert!(plain.len() > 8_000 && plain == out, "{threads} workers: {} {}", plain.len(), out.len());
    }
}

/// Packets of 1000 flows are spread over workers packet by packet, and leave in the order of their arrival,
/// although the configuration is replaced again and again.
#[test]
fn spread_packets_stay_in_order() {
    const PACKETS: u32 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let record = |number: u32| -> Vec<u8> {
        let from = SocketAddr::from(([10, 0, 0, 1], 1000 + (number % 1000) as u16));
        let to = SocketAddr::from(([10, 0, 0, 2], 2000));
        let addresses = [2, 4].map(|byte| wire::ethernet::MacAddr([byte; 6]));
        let builder = wire::build::Builder::udp(from, to).ethernet(addresses[0], addresses[1]);
        let frame = builder.build(&number.to_be_bytes()).unwrap();
        let header = [1, 0, frame.len() as u32, frame.len() as u32].map(u32::to_ne_bytes).concat();
        [header, frame].concat()
    };
    let head = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_ne_bytes).concat();
    let whole: Vec<u8> = head.into_iter().chain((0..PACKETS).flat_map(record)).collect();
    fs::write(path("in"), whole).unwrap();
    for (name, next) in [("a.click", "b.click"), ("b.click", "a.click")] {
        let (input, out) = (path("in"), path("out"));
        let graph = format!(
            "s :: FromDump({input}, STOP true) -> p :: Strip(14) -> k :: CheckIPHeader
                -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> c :: Counter
                -> d :: ToDump({out}, ENCAP IP); Script(wait 1ms, write hotconfig {next})"
        );
        fs::write(path(name), graph).unwrap();
    }
    for threads in ["2", "3"] {
        let steering = ["--steering", "spray", "--order", "keep", "--threads", threads];
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["run", "--config-dir", &path("")])
            .args(steering)
            .arg(path("a.click"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = fs::read(path("out")).unwrap();
        let length = 16 + 20 + 8 + 4;
        let numbers = out[24..].chunks(length).map(|record| record[length - 4..].try_into().unwrap());
        let numbers: Vec<u32> = numbers.map(u32::from_be_bytes).collect();
        assert_eq!(numbers.len(), PACKETS as usize, "{threads} workers");
        assert!(numbers.is_sorted(), "{threads} workers");
    }
}

#[test]
fn a_socket_without_a_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = |socket: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("reload").arg(socket).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let path = folder.path().join("none");
    assert!(nothing(&path).contains("none: No such file or directory"), "{}", nothing(&path));
}

/// An empty file may be one that an editor is just writing, so it replaces no configuration.
#[test]
fn an_empty_configuration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.click"), "").unwrap();
    let mut run = start(&["--config-dir", &folder.path().display().to_string(), "--allow-config"]);
    let other = run.folder.path().join("other");
    for empty in ["", "\n  \n", "// A comment.\n"] {
        fs::write(file(&run), empty).unwrap();
        fs::write(&other, empty).unwrap();
        let other = other.display().to_string();
        for args in [&[][..], &["--name", "empty.click"], &[&other]] {
            let output = run.reload(args);
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            let said = text(&output.stderr);
            let name = ["router.click", "empty.click", "config"].iter().any(|name| said.contains(name));
            assert!(name && said.contains("the configuration has no elements; if a program"), "{said}");
        }
        run.signal("HUP");
        let said = run.message_with("SIGHUP");
        assert!(
            said.contains("stays as it is") && said.contains("router.click: the configuration has no"),
            "{said}"
        );
    }
    run.wait_for("Null");
    fs::write(file(&run), config("Strip(0)")).unwrap();
    assert!(run.reload(&[]).status.success());
    run.wait_for("Strip");
    run.end();
}

/// A reload shows a warning only if it is new: a warning that was shown at the start of the run is not shown
/// again.
#[test]
fn a_reload_shows_only_new_warnings() {
    let (route, rule) = ("RadixIPLookup(10.0.0.0/8 0, 10.0.0.0/8 0)", "IPFilter(allow all, deny udp)");
    let (twice, never) = ("1 route ignored", "rule 1 never decides");
    let named = |elements: &[&str]| {
        let named: Vec<String> =
            elements.iter().map(|element| format!("{} :: {element}", &element[..2])).collect();
        config(&named.join(" -> "))
    };
    let mut run = start_with(tempfile::tempdir().unwrap(), &named(&[route]), &[]);
    run.message_with(twice);
    let reload = |run: &mut Run, text: &str| {
        fs::write(file(run), text).unwrap();
        run.reload(&[])
    };
    let both = format!("// A comment.\n{}", named(&[route, rule]));
    for text in [&both, &both, &named(&[route]), &both] {
        let output = reload(&mut run, text);
        assert!(output.status.success(), "{output:?}");
    }
    // A configuration that is refused does not replace the known warnings.
    let refused = named(&[route]).replace("Discard", "ToDump(/nonesuch/file)");
    assert!(!reload(&mut run, &refused).status.success());
    assert!(reload(&mut run, &both).status.success());
    // After a reload with an error, only the error is shown, without the warnings that are already known.
    let output = reload(&mut run, &both.replace("c :: Counter", "c :: Strip(long)"));
    let errors = text(&output.stderr);
    assert!(errors.contains("'long'") || errors.contains("invalid number"), "{errors}");
    assert!(!errors.contains(never), "{errors}");
    let messages = run.end();
    assert!(!messages.contains(twice), "{messages}");
    assert_eq!(messages.matches(never).count(), 2, "{messages}");
}

/// The new configuration has no heir for the old ToDump, and the run is stopped immediately after the reload.
/// The old element's file has all packets that it got before.
#[test]
fn a_file_without_an_heir_is_complete_if_the_run_stops_with_the_reload() {
    for (threads, script) in [("1", false), ("2", false), ("1", true), ("2", true)] {
        for _ in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            let dump = folder.path().join("old.pcap");
            let source =
                "s :: RatedSource(LENGTH 64, RATE 200000) -> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 2000)";
            let old = format!("{source} -> o :: ToDump({}, ENCAP IP)", dump.display());
            let with_script = "; Script(wait 100ms, write reload, write stop)";
            let old = if script { old + with_script } else { old };
            let args = ["--threads", threads, "-q", "-H", "s.count", "-H", "c.count"];
            // The handlers that are read at the end of the run (`-H`) must also exist at its start, so the
            // old configuration has a counter `c`, too.
            let mut run = start_with(folder, &(old + "; Idle -> c :: Counter -> Discard"), &args);
            fs::write(file(&run), format!("{source} -> c :: Counter -> Discard")).unwrap();
            if !script {
                while run.read("o.count") == "0" {
                    std::thread::sleep(Duration::from_millis(5));
                }
                run.client.get_mut().write_all(b"WRITE reload\nWRITE stop\n").unwrap();
            }
            let mut output = String::new();
            run.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
            let mut messages = String::new();
            run.child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
            assert!(run.child.wait().unwrap().success(), "{messages}");
            let numbers: Vec<u64> = output.lines().filter_map(|line| line.parse().ok()).collect();
            let [sent, counted] = numbers.try_into().unwrap_or_else(|_| panic!("{output}{messages}"));
            let written = fs::read(&dump).unwrap().len() - 24;
            let record = 16 + 20 + 8 + 64;
            assert_eq!(written % record, 0, "{threads} {script}");
            let written = (written / record) as u64;
            assert!(
                written > 0 && written + counted == sent,
                "{threads} {script}: {sent} {written} {counted}"
            );
        }
    }
}
