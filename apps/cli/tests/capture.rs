//! The handler `capture`: packets at a connection of a running graph, and dropped packets, in a pcapng file.

mod clients;

use std::fs;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use clients::{ask, connect, data, line};

/// Runs a configuration under the trace clock, from the root of the repository.
fn run(config: &str, more: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let args = ["run", "--clock", "trace", "-q", "-e", config];
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).args(more).current_dir(root).output().unwrap()
}

/// Returns the packets of a file: time and bytes.
fn packets(file: &Path) -> Vec<(i64, Vec<u8>)> {
    let mut reader = capture::Reader::open(file).unwrap();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        packets.push((record.time, record.data.to_vec()));
    }
    packets
}

/// Returns the number of packets in a file whose comment has this text.
fn comments(file: &Path, text: &str) -> usize {
    String::from_utf8_lossy(&fs::read(file).unwrap()).matches(text).count()
}

const GRAPH: &str = "FromDump(configs/data/quickstart.pcap)
    -> c :: Classifier(12/0800, -) -> q :: Queue -> u :: Unqueue -> s :: Strip(14) -> t :: Tee -> d :: Discard;
    c[1] -> e :: Discard; t[1] -> f :: IPFilter(allow udp) -> g :: Discard;";

/// Captures at a place with one or several workers, and expects the packets that `tidegate` writes by
/// ToDump at the same place.
#[test]
fn a_capture_has_the_packets_of_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (place, comment, dumped)) in [
        ("c[0]", "left by output 0 of c :: Classifier (worker 0)", "c -> dump"),
        ("c[1]", "left by output 1 of c :: Classifier (worker 0)", "c[1] -> dump"),
        ("[0]q", "came to input 0 of q :: Queue (worker 0)", "c -> dump"),
        ("q", "left by output 0 of q :: Queue (worker 0)", "c -> dump"),
        ("[0] u", "came to input 0 of u :: Unqueue (worker 0)", "c -> dump"),
        ("t [1]", "left by output 1 of t :: Tee (worker 0)", "c -> Strip(14) -> dump"),
    ]
    .into_iter()
    .enumerate()
    {
        let (file, other) = (folder.path().join(format!("{number}.pcapng")), folder.path().join("dump.pcap"));
        let capture = format!("write capture {place} {} 1000, print $(capture)", file.display());
        let output = run(&format!("{GRAPH} DriverManager({capture}, pause, print $(capture), stop)"), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let dump = format!(
            "FromDump(configs/data/quickstart.pcap) -> c :: Classifier(12/0800, -);
             dump :: ToDump({}, SNAPLEN 0); {dumped}; {}",
            other.display(),
            if dumped.starts_with("c[1]") { "c -> Discard" } else { "c[1] -> Discard" }
        );
        assert!(run(&dump, &[]).status.success());
        let (captured, expected) = (packets(&file), packets(&other));
        assert!(captured == expected && captured.len() > 5, "{place}: {}", captured.len());
        assert_eq!(comments(&file, comment), expected.len(), "{place}");
    }
}

#[test]
fn dropped_packets_have_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    for threads in ["1", "2"] {
        let file = folder.path().join(format!("drops{threads}.pcapng"));
        let capture = format!("write capture drops \"{}\" 20 tcp", file.display());
        let output = run(
            &format!("{GRAPH} DriverManager({capture}, pause, print $(capture), stop)"),
            &["--threads", threads],
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("capture of drops (tcp) into "), "{text}");
        assert_eq!(packets(&file).len(), 20);
        let (filtered, all) = ("dropped at f :: IPFilter: ", "dropped at d :: Discard: discard (worker ");
        assert!(comments(&file, filtered) > 0 && comments(&file, all) > 0, "{threads}");
        assert_eq!(comments(&file, filtered) + comments(&file, all), 20, "{threads}");
        assert!(packets(&file).iter().all(|(_, frame)| frame[9] == 6), "TCP without its link header");
    }
}

/// A program that replaces elements drops for them; packets do not pass these elements.
#[test]
fn wrong_orders_are_refused() {
    for (order, message) in [
        ("", "expected ELEMENT[OUTPUT], [INPUT]ELEMENT or drops, then FILE N [PATTERN]"),
        ("c x", "expected ELEMENT[OUTPUT]"),
        ("[0]c[0] x 1", "expected ELEMENT[OUTPUT]"),
        ("c x 0", "expected 1 to 1000000"),
        ("c x 1000001", "expected 1 to 1000000"),
        ("nobody x 1", "no element named 'nobody'"),
        ("c[2] x 1", "'c' has no output 2, but 2 outputs"),
        ("[1]c x 1", "'c' has no input 1, but 1 inputs"),
        ("d x 1", "'d' has no output 0, but 0 outputs; [0]d is its first input"),
        ("c x 1 src host", "host"),
        ("c /nowhere/x 1", "/nowhere/x: No such file or directory"),
    ] {
        let output = run(&format!("{GRAPH} DriverManager(write capture {order}, stop)"), &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(message), "{order}: {errors}");
    }
}

/// A run with two clients: the first may write files below a folder, the second none.
struct Live {
    child: Child,
    folder: tempfile::TempDir,
    clients: [BufReader<UnixStream>; 2],
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn live(threads: &str) -> Live {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(at("files")).unwrap();
    let config = format!(
        "RatedSource(LENGTH 64, RATE 2000) -> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 2000) -> c :: Counter
             -> f :: IPFilter(deny udp, allow all) -> Discard;
         ControlSocket(UNIX, {}, FILES {}); ControlSocket(UNIX, {})",
        at("some"),
        at("files"),
        at("none")
    );
    fs::write(at("x.click"), config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "--memory", "256M", "--threads", threads, &at("x.click")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let clients = ["some", "none"].map(|name| connect(&folder.path().join(name)));
    Live { child, folder, clients }
}

impl Live {
    /// Sends a command by one of the clients, and returns the last line of the reply.
    fn say(&mut self, client: usize, command: &str) -> String {
        let client = &mut self.clients[client];
        let mut reply = ask(client, &format!("{command}\n"));
        while reply.as_bytes().get(3) == Some(&b'-') {
            reply = line(client);
        }
        reply
    }

    /// Waits until the value of the handler `capture` has this text.
    fn wait_for(&mut self, text: &str) -> String {
        let mut value = String::new();
        let found = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            self.say(0, "READ capture");
            value = data(&mut self.clients[0]);
            value.contains(text)
        });
        assert!(found, "{value}");
        value
    }
}

#[test]
fn clients_capture_into_their_folder_until_they_stop_or_the_graph_changes() {
    for threads in ["1", "2"] {
        let mut live = live(threads);
        let folder = live.folder.path().to_path_buf();
        assert_eq!(live.say(0, "READ capture"), "200 Read handler 'capture' OK");
        assert_eq!(data(&mut live.clients[0]), "no packets have been captured\n");
        // Clients of a socket without FILES may have no files written, others only below the folder.
        let outside = folder.join("outside").display().to_string();
        assert!(live.say(1, &format!("WRITE capture c {outside} 5")).contains("may have no files written"));
        assert!(
            live.say(0, &format!("WRITE capture c {outside} 5")).contains("may have files written below")
        );
        assert!(live.say(0, "WRITE capture c ../outside 5").contains("may have files written below"));
        assert!(!folder.join("outside").exists());

        assert_eq!(live.say(0, "WRITE capture c few.pcapng 5"), "200 Write handler 'capture' OK");
        let text = live.wait_for("ended: it has its packets");
        assert!(text.starts_with("capture of c[0] into few.pcapng: 5 of 5 packets written\n"), "{text}");
        assert_eq!(packets(&folder.join("files/few.pcapng")).len(), 5);

        assert_eq!(live.say(0, "WRITE capture drops many 1000000 udp"), "200 Write handler 'capture' OK");
        let refused = live.say(0, "WRITE capture c other 5");
        assert!(refused.contains("a capture into 'many' is under way; write `stop` first"), "{refused}");
        assert!(!folder.join("files/other").exists());
        live.wait_for("under way");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(live.say(0, "WRITE capture stop"), "200 Write handler 'capture' OK");
        live.wait_for("ended: it was stopped");
        let many = folder.join("files/many");
        assert!(!packets(&many).is_empty());
        assert_eq!(packets(&many).len(), comments(&many, "dropped at f :: IPFilter: "));

        assert_eq!(live.say(0, "WRITE capture [0]f cut 1000000"), "200 Write handler 'capture' OK");
        assert_eq!(live.say(0, "WRITE reload"), "200 Write handler 'reload' OK");
        live.wait_for("ended: another configuration has replaced the graph");
        packets(&folder.join("files/cut"));
        assert_eq!(live.say(0, "WRITE capture [0]f again 3"), "200 Write handler 'capture' OK");
        live.wait_for("3 of 3 packets written\nended");

        // The file of a capture that is under way at the end of the run is complete.
        assert_eq!(live.say(0, "WRITE capture c last 1000000"), "200 Write handler 'capture' OK");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(live.say(0, "WRITE stop"), "200 Write handler 'stop' OK");
        assert!(live.child.wait().unwrap().success());
        assert!(!packets(&folder.join("files/last")).is_empty());
    }
}
