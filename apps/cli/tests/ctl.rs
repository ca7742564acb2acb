//! `tidegate ctl`: the running instances by name, what a client does with one, and the lock of an instance.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lab::Net;

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

const CONFIG: &str =
    "RatedSource(LENGTH 64, RATE 2000) -> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 2000) -> c :: Counter
    -> f :: IPFilter(deny udp, allow all) -> Discard;";

/// A user's folder for sockets, in which instances run.
struct Place {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("edge.click", CONFIG), ("other.click", "Idle -> Discard; Script(wait 1h)")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Place { folder, children: Vec::new() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TIDEGATE);
        command.args(args).current_dir(self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env_remove("STATE_DIRECTORY").stdin(Stdio::null());
        command
    }

    fn tidegate(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Returns the output of a command that succeeds.
    fn output(&self, args: &[&str]) -> String {
        let output = self.tidegate(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the messages of a command that fails.
    fn error(&self, args: &[&str]) -> String {
        let output = self.tidegate(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts a run, waits until it answers by its name, and returns its process number.
    fn start(&mut self, name: &str, args: &[&str]) -> u32 {
        let args = [&["run", "--quiet", "--memory", "256M"], args].concat();
        let child = self.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        self.children.push(child);
        let answers = |_| {
            std::thread::sleep(Duration::from_millis(10));
            self.tidegate(&["ctl", name, "read", "version"]).status.success()
        };
        assert!((0..2000).any(answers), "{args:?}");
        pid
    }

    fn kill(&mut self, pid: u32) {
        let child = self.children.iter_mut().find(|child| child.id() == pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the lines that `tidegate ctl` prints about instances in this folder.
    fn listed(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let text = self.output(&["ctl"]);
        text.lines().filter(|line| line.contains(&folder)).map(String::from).collect()
    }
}

#[test]
fn an_instance_is_controlled_by_its_name() {
    let mut place = Place::new();
    assert!(place.listed().is_empty());
    assert!(place.error(&["ctl", "edge", "report"]).contains("no instance of this name runs"));
    let pid = place.start("edge", &["--name", "edge", "edge.click"]);
    let listed = place.listed();
    let path = place.at("edge.click").canonicalize().unwrap().display().to_string();
    let words: Vec<&str> = listed[0].split_whitespace().collect();
    assert_eq!((listed.len(), &words[..3]), (1, &["edge", &*pid.to_string(), &*path][..]));
    assert!(place.error(&["ctl", "edge"]).contains("say what to do"));

    assert_eq!(place.output(&["ctl", "edge", "read", "c.class"]), "Counter\n");
    assert_eq!(place.output(&["ctl", "edge", "write", "c.count_call", "1000000", "c.reset"]), "");
    assert_eq!(place.output(&["ctl", "edge", "read", "c.count_call"]), "1000000\n");
    assert!(place.error(&["ctl", "edge", "read", "c.nothing"]).contains("No handler named 'c.nothing'"));
    assert!(place.error(&["ctl", "edge", "write", "c.count", "1"]).contains("read-only"));
    let report: serde_json::Value = serde_json::from_str(&place.output(&["ctl", "edge", "report"])).unwrap();
    assert_eq!(report["elements"][0]["class"], "RatedSource");
    let of_filter =
        |text: String| text.lines().any(|line| line.starts_with("f ") && line.contains("IPFilter"));
    assert!((0..1000).any(|_| of_filter(place.output(&["ctl", "edge", "drops"]))), "no drops");
    assert!(place.output(&["ctl", "edge", "top", "--once", "--interval", "100ms"]).contains("RatedSource"));
    assert!(place.output(&["top", "edge", "--once", "--interval", "100ms"]).contains("RatedSource"));

    assert_eq!(place.output(&["ctl", "edge", "trace", "2"]), "");
    let traced = (0..1000).any(|_| place.output(&["ctl", "edge", "trace"]).contains("packet 2"));
    assert!(traced);
    // Files of clients go to the folder in which the run was started.
    assert_eq!(place.output(&["ctl", "edge", "capture", "c[0]", "c.pcapng", "3"]), "");
    let ended = (0..1000).any(|_| place.output(&["ctl", "edge", "capture"]).contains("ended: "));
    assert!(ended && place.at("c.pcapng").is_file());
    assert!(place.error(&["ctl", "edge", "capture", "c", "/tmp/x", "3"]).contains("written below"));

    fs::write(place.at("edge.click"), format!("{CONFIG} more :: Idle -> Discard")).unwrap();
    assert!(place.output(&["ctl", "edge", "reload"]).contains("stood still"));
    assert_eq!(place.output(&["ctl", "edge", "read", "more.class"]), "Idle\n");
    assert!(place.output(&["reload", "edge"]).contains("stood still"));
    let socket = place.at("tidegate/edge").display().to_string();
    assert_eq!(place.output(&["ctl", &socket, "read", "more.class"]), "Idle\n");
    assert_eq!(place.output(&["ctl", "edge", "write", "stop"]), "");
    assert!(place.children[0].wait().unwrap().success());
    assert!(place.listed().is_empty());
    assert_eq!(fs::read_dir(place.at("tidegate")).unwrap().count(), 0, "socket and lock are removed");
}

#[test]
fn an_instance_runs_once() {
    let mut place = Place::new();
    let pid = place.start("edge", &["--name", "edge", "edge.click"]);
    let path = place.at("edge.click").canonicalize().unwrap().display().to_string();
    let error = place.error(&["run", "--name", "edge", "edge.click"]);
    let expected =
        format!("{path} runs already, in process {pid}: `tidegate reload edge` has it read the file again");
    assert!(error.starts_with(&expected) && error.contains(&format!("`kill {pid}` ends it")), "{error}");
    let error = place.error(&["run", "--name", "edge", "other.click"]);
    assert!(error.contains(&format!("--name edge: process {pid} runs {path} there")), "{error}");
    place.start("second", &["--name", "second", "edge.click"]);
    assert_eq!(place.listed().len(), 2);

    // What a killed instance leaves does no harm.
    place.kill(pid);
    assert!(place.at("tidegate/edge.lock").is_file() && place.at("tidegate/edge").exists());
    assert_eq!(place.listed().len(), 1);
    assert!(place.error(&["ctl", "edge", "report"]).contains("no instance of this name runs"));
    let again = place.start("edge", &["--name", "edge", "edge.click"]);
    assert!(again != pid && place.listed().len() == 2);

    let socket = place.at("control").display().to_string();
    let third = place.start(&socket, &["--control", &socket, "edge.click"]);
    let error = place.error(&["run", "--control", &socket, "edge.click"]);
    assert!(
        error.contains(&format!("runs already, in process {third}: `tidegate reload {socket}`"))
            && error.contains("another --control gives this run a place of its own"),
        "{error}"
    );
}

/// A dry run says what is wrong with the options, too.
#[test]
fn options_are_checked_before_anything_is_opened() {
    let place = Place::new();
    for (options, message) in [
        (["--name", "a/b"].as_slice(), "--name a/b: a name has letters"),
        (&["--name", ".x"], "a name has letters"),
        (&["--name", ""], "a name has letters"),
        (&["--control-group", "no-such-group"], "there is no group 'no-such-group'"),
        (&["--user", "no-such-user"], "there is no user 'no-such-user'"),
        (&["--user", "root:no-such-group"], "there is no group 'no-such-group'"),
        (&["--http", "0", "--http-write", "no-such-file"], "no-such-file"),
    ] {
        for dry in [true, false] {
            let options = options.iter().copied().chain(dry.then_some("--dry-run"));
            let arguments: Vec<&str> = ["run"].into_iter().chain(options).chain(["edge.click"]).collect();
            let output = place.tidegate(&arguments);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && error.contains(message), "{arguments:?}: {error}");
        }
    }
    assert_eq!(place.listed().len(), 0);
}

/// A client waits for an answer of an instance that does not go on and is then killed.
#[test]
fn a_client_of_a_killed_instance_ends() {
    let mut place = Place::new();
    let pid = place.start("edge", &["--name", "edge", "edge.click"]);
    assert!(Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
    let client = place.command(&["ctl", "edge", "report"]).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    place.kill(pid);
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("edge: "), "{text}");
}

/// A run with interfaces has a control socket and the name of its file without being asked. Another run
/// without interfaces has none.
#[test]
fn a_live_run_has_the_name_of_its_file() {
    let Some(mut net) = Net::or_skip() else { return };
    let mut place = Place::new();
    let space = net.space("alone").unwrap();
    let other = net.space("other").unwrap();
    net.cable([(&space, "eth0", ""), (&other, "eth0", "")]).unwrap();
    for (folder, text) in [
        ("a", "FromDevice(eth0, SHARED true) -> Discard"),
        ("b", "FromDevice(eth0, SHARED true) -> c :: Counter -> Discard"),
    ] {
        fs::create_dir(place.at(folder)).unwrap();
        fs::write(place.at(folder).join("live.click"), format!("{text}; Script(print \"ready\")")).unwrap();
    }
    let variable = format!("XDG_RUNTIME_DIR={}", place.folder.path().display());
    let run = |file: &Path| {
        let file = file.display().to_string();
        space.start("env", &[&variable, TIDEGATE, "run", "--memory", "256M", &file]).unwrap()
    };
    let (first, second) = (place.at("a/live.click"), place.at("b/live.click"));
    let running = run(&first);
    assert_eq!(place.output(&["ctl", "live", "read", "Discard@2.class"]), "Discard\n");
    let told = place.error(&["run", &first.display().to_string()]);
    assert!(told.contains("runs already, in process"), "{told}");
    // Another file of the same name has no socket.
    let same_name = run(&second);
    let (good, [_, messages]) = same_name.stop();
    assert!(good && messages.contains("no control socket: process "), "{messages}");
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
    let args = ["run", "-e", "Idle -> Discard; Script(stop)"];
    let output = place.command(&args).output().unwrap();
    assert!(output.status.success());
    assert_eq!(fs::read_dir(place.at("tidegate")).unwrap().count(), 0);
    place.children.clear();
}

/// Runs the commands of docs/control.md on an instance that has the elements which they name.
#[test]
fn the_commands_of_the_document_work() {
    let mut place = Place::new();
    fs::write(place.at("gateway.click"), CONFIG.replace("c ::", "to_out ::")).unwrap();
    place.start("gateway", &["--name", "gateway", "gateway.click"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control.md");
    let document = fs::read_to_string(path).unwrap();
    let commands = document.lines().filter_map(|line| line.strip_prefix("tidegate ctl"));
    let mut count = 0;
    for command in commands {
        let command = command.split(" #").next().unwrap();
        place.output(&[&["ctl"], &command.split_whitespace().collect::<Vec<_>>()[..]].concat());
        count += 1;
    }
    assert!(count > 8, "{count}");
}
