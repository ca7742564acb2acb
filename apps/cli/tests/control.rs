//! The control socket of a running program.

mod clients;

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clients::{ask, connect, data, line};
use lab::RunningProgram;

/// Starts a driver that runs until it is stopped, and connects to it.
fn start(folder: &std::path::Path, config: &str) -> (Child, BufReader<UnixStream>) {
    start_with(folder, &["-h", "c.count", "-e", config])
}

fn start_with(folder: &std::path::Path, args: &[&str]) -> (Child, BufReader<UnixStream>) {
    let path = folder.join("control");
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-u", &path.display().to_string()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, connect(&path))
}

#[test]
fn a_client_reads_writes_and_stops_a_running_driver() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut stream) =
        start(folder.path(), "s :: InfiniteSource(ACTIVE false, LIMIT 7) -> c :: Counter -> Discard");
    assert_eq!(ask(&mut stream, "READ c.count\r\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut stream), "0");
    assert_eq!(ask(&mut stream, "READ list\n"), "200 Read handler 'list' OK");
    assert_eq!(data(&mut stream), "4\ns\nc\nDiscard@3\nclick_driver@@ControlSocket\n");
    assert_eq!(ask(&mut stream, "WRITE s.active true\n"), "200 Write handler 's.active' OK");
    let count = (0..1000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        ask(&mut stream, "READ c.count\n");
        data(&mut stream) == "7"
    });
    assert!(count.is_some());
    assert_eq!(ask(&mut stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
    assert!(!folder.path().join("control").exists());
}

/// Returns the messages of a driver that does not start to run.
fn complaint(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("click").args(args).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_drivers_own_sockets_stand_in_no_line() {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let expected = "click: While initializing 'click_driver@@ControlSocket :: ControlSocket':\n\
                    \x20 bind: Address already in use\nRouter could not be initialized!\n";
    assert_eq!(complaint(&["-p", &port, "-e", "Idle -> Discard"]), expected);
    assert!(complaint(&["--socket", "77", "-e", ""]).contains("  SOCKET 77: Bad file descriptor\n"));
}

/// The line on standard error names the address and the port: the given port, which was free a moment ago,
/// or the next free port.
#[test]
fn a_port_is_one_of_the_loopback_address_unless_told_otherwise() {
    for (address, host) in [("", "127.0.0.1"), ("127.0.0.2:", "127.0.0.2"), ("0.0.0.0:", "0.0.0.0")] {
        let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let mut driver = RunningProgram::new(Command::new(env!("CARGO_BIN_EXE_tidegate")).args([
            "click",
            "-p",
            &format!("{address}{free}+"),
            "-e",
            "Idle -> Discard",
        ]))
        .unwrap();
        let said = driver.wait_for("listening").unwrap();
        let port = said.strip_prefix(&format!("click: listening for control connections on {host}:"));
        let port: u16 = port.expect(&said).parse().unwrap();
        let reaches = |host: &str| std::net::TcpStream::connect((host, port)).is_ok();
        let expected = [host != "127.0.0.2", host != "127.0.0.1"];
        assert_eq!([reaches("127.0.0.1"), reaches("127.0.0.2")], expected, "{host}");
        let mut stream = std::net::TcpStream::connect((host, port)).unwrap();
        stream.write_all(b"WRITE stop\n").unwrap();
        driver.end();
    }
    for wrong in ["x:7777", "127.0.0.1:", "::1:7777", "127.0.0.1:0"] {
        let expected = format!("click: '-p' expects a TCP port number or IPADDRESS:PORT, not '{wrong}'\n");
        assert!(complaint(&["-p", wrong, "-e", ""]).starts_with(&expected), "{wrong}");
    }
}

/// A killed program leaves the file of its socket, which a later program replaces. A socket in use is not
/// replaced.
#[test]
fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let config = "Idle -> c :: Counter -> Discard";
    let (mut killed, _) = start(folder.path(), config);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let path = folder.path().join("control");
    assert!(path.exists());
    let driver = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-u", &path.display().to_string(), "-e", config])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The file of the killed program's socket refuses connections until the new socket listens.
    let mut stream = connect(&path);
    let path = path.display().to_string();
    let expected = format!(
        "click: While initializing 'click_driver@@ControlSocket :: ControlSocket':\n\
         \x20 bind: Address already in use: another process or element listens on {path}\n\
         Router could not be initialized!\n"
    );
    assert_eq!(complaint(&["-u", &path, "-e", config]), expected);
    assert_eq!(ask(&mut stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    assert!(driver.wait_with_output().unwrap().status.success());
}

#[test]
fn a_run_whose_socket_never_opens_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let _taken = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let config = format!("ControlSocket(UNIX, {}, RETRIES 1); Idle -> Discard", path.display());
    for command in ["run", "click"] {
        let args = [command, "-e", &config];
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        let messages = String::from_utf8(output.stderr).unwrap();
        let reason =
            format!("bind: Address already in use: another process or element listens on {}", path.display());
        assert!(messages.contains(&format!("ControlSocket: {reason} (1 try left)\n")), "{messages}");
        assert!(messages.contains(&format!("{reason}\n")), "{messages}");
    }
    assert!(path.exists(), "the file is the other one's");
}

/// A client can write files only below the folder that the argument FILES of ControlSocket names, even if an
/// element writes them in a handler call that the client has stored in it.
#[test]
fn clients_write_files_below_a_folder() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("files");
    std::fs::create_dir(&folder).unwrap();
    let [secret, own] = ["secret", "own"].map(|name| outer.path().join(name).display().to_string());
    let config = format!(
        "s :: InfiniteSource(LIMIT 3, ACTIVE false) -> c :: Counter -> ac :: AggregateCounter -> Discard;
         e :: InfiniteSource(LIMIT 1, ACTIVE false) -> d :: Counter -> Discard;
         all :: HandlerAggregate(ac); script :: Script(TYPE PASSIVE, write ac.write_text_file {own});
         ControlSocket(UNIX, {}, FILES {})",
        outer.path().join("second").display(),
        folder.display()
    );
    let (child, mut none) = start(outer.path(), &config);
    let mut some = connect(&outer.path().join("second"));
    let say = |stream: &mut BufReader<UnixStream>, command: &str| {
        let mut reply = ask(stream, &format!("{command}\n"));
        while reply.as_bytes().get(3) == Some(&b'-') {
            reply = line(stream);
        }
        reply
    };
    let nowhere = "a client may have no files written \
                   (the argument FILES of the ControlSocket names a folder for them)";
    for handler in ["write_text_file", "write_ascii_file", "write_file", "write_ip_file", "write_pdf_file"] {
        let reply = say(&mut none, &format!("WRITE ac.{handler} {secret}"));
        assert_eq!(reply, format!("520 {secret}: {nowhere}"));
        let reply = say(&mut some, &format!("WRITE ac.{handler} {secret}"));
        assert!(reply.contains("a client may have files written below "), "{reply}");
        assert_eq!(say(&mut some, &format!("WRITE ac.{handler} {handler}")).get(..3), Some("200"));
        assert!(folder.join(handler).is_file());
    }
    for stream in [&mut none, &mut some] {
        assert_eq!(say(stream, &format!("WRITE all.write write_text_file {secret}")).get(..3), Some("520"));
        let later = format!("WRITE c.count_call 1 ac.write_text_file {secret}");
        assert_eq!(say(stream, &later), "200 Write handler 'c.count_call' OK");
        let later = format!("WRITE ac.count_call 2 write_text_file {secret}");
        assert_eq!(say(stream, &later), "200 Write handler 'ac.count_call' OK");
        for command in ["WRITE c.reset", "WRITE s.reset", "WRITE s.active true"] {
            assert_eq!(say(stream, command).get(..3), Some("200"), "{command}");
        }
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            say(stream, "READ c.count");
            data(stream) == "3"
        }));
    }
    let config = format!("WRITE e.config LIMIT 1, END_CALL ac.write_text_file {secret}");
    assert_eq!(say(&mut none, &config), "200 Write handler 'e.config' OK");
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        say(&mut none, "READ d.count");
        data(&mut none) == "1"
    }));
    assert_eq!(say(&mut none, "WRITE script.run"), "200 Write handler 'script.run' OK");
    assert!(std::path::Path::new(&own).is_file(), "the script is the configuration's");
    assert_eq!(say(&mut none, "WRITE stop"), "200 Write handler 'stop' OK");
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    for element in ["c", "e"] {
        assert!(messages.contains(&format!("{element}: write_text_file: {secret}: {nowhere}")), "{messages}");
    }
    assert!(!std::path::Path::new(&secret).exists());
}

#[test]
fn a_connection_may_be_there_before_the_driver() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "--socket", "0", "-e", "Idle -> c :: Counter -> Discard"])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = BufReader::new(ours);
    assert_eq!(line(&mut stream), "Click::ControlSocket/1.3");
    assert_eq!(ask(&mut stream, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut stream), "0");
    assert_eq!(ask(&mut stream, "QUIT\n"), "200 Goodbye!");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the connection is closed");
    // The driver continues to run when a client has quit.
    let mut child = child;
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn another_configuration_takes_the_place_of_a_running_one() {
    let folder = tempfile::tempdir().unwrap();
    let text = "s :: InfiniteSource(LIMIT 7) -> c :: Counter -> Discard";
    let (child, mut stream) = start_with(folder.path(), &["--allow-config", "-h", "c.count", "-e", text]);
    let path = folder.path().join("control");
    let counted = |stream: &mut BufReader<UnixStream>, n: &str| {
        (0..1000).any(|_| {
            ask(stream, "READ c.count\n");
            let same = data(stream) == n;
            std::thread::sleep(Duration::from_millis(if same { 0 } else { 5 }));
            same
        })
    };
    assert!(counted(&mut stream, "7"));
    let swap = |stream: &mut BufReader<UnixStream>, text: &str| {
        ask(stream, &format!("WRITEDATA hotconfig {}\n{text}", text.len()))
    };
    assert_eq!(swap(&mut stream, "Idle -> Strip(x) -> Discard"), "520-Write handler 'hotconfig' error:");
    assert_eq!(line(&mut stream), "520-config:1: While configuring 'Strip@2 :: Strip':");
    assert_eq!(line(&mut stream), "520-  LENGTH: invalid number");
    assert_eq!(line(&mut stream), "520 Router could not be initialized!");
    assert_eq!(swap(&mut stream, "FromDump(/nonesuch) -> Discard"), "520-Write handler 'hotconfig' error:");
    assert_eq!(line(&mut stream), "520-config:1: While initializing 'FromDump@1 :: FromDump':");
    assert_eq!(line(&mut stream), "520-  /nonesuch: No such file or directory");
    assert_eq!(line(&mut stream), "520 Router could not be initialized!");
    assert_eq!(swap(&mut stream, ""), "520-Write handler 'hotconfig' error:");
    let empty = line(&mut stream);
    assert!(empty.starts_with("520 config: the configuration has no elements; "), "{empty}");
    assert!(counted(&mut stream, "7"), "the old one goes on");
    // The elements of the new graph continue with the state of the old elements: the counter continues to
    // count, and the client's connection stays open.
    let text = "s :: InfiniteSource(LIMIT 9) -> c :: Counter -> n :: Null -> Discard";
    assert_eq!(swap(&mut stream, text), "200 Write handler 'hotconfig' OK");
    assert!(counted(&mut stream, "9"), "two more of the same source, which has sent seven");
    assert_eq!(ask(&mut stream, "READ list\n"), "200 Read handler 'list' OK");
    assert_eq!(data(&mut stream), "5\ns\nc\nn\nDiscard@4\nclick_driver@@ControlSocket\n");
    let mut second = connect(&path);
    assert_eq!(ask(&mut second, "WRITE stop\n"), "200 Write handler 'stop' OK");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "9\n");
    assert!(!path.exists());
}

/// More clients connect than the driver has file descriptors for. The clients wait, and the driver does not
/// try to accept them in a busy loop. Each connection takes two descriptors: with one of the two tested
/// limits, the first of them is not available, with the other limit the second.
#[test]
fn without_files_clients_wait() {
    clients_wait(24);
}

#[test]
fn without_half_of_its_files_a_client_waits() {
    clients_wait(25);
}

const REFUSED: &str = "ControlSocket :: ControlSocket: accept: Too many open files";

fn clients_wait(files: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let command = format!(
        "ulimit -n {files}; exec {} click -u {} -e 'Idle -> c :: Counter -> Discard'",
        env!("CARGO_BIN_EXE_tidegate"),
        path.display()
    );
    let mut driver = RunningProgram::new(Command::new("sh").args(["-c", &command])).unwrap();
    let _first = connect(&path);
    let clients: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    driver.wait_for(REFUSED).unwrap();
    drop(clients);
    // When the other clients have gone, the driver accepts clients again.
    let mut last = connect(&path);
    assert_eq!(ask(&mut last, "WRITE stop\n"), "200 Write handler 'stop' OK");
    let (_, [_, messages]) = driver.end();
    // The driver has tried to accept a connection about once per second, not in a busy loop.
    let failures = messages.matches(REFUSED).count();
    assert!((1..=100).contains(&failures), "{messages}");
}

#[test]
fn garbage_and_rude_clients_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut stream) = start(folder.path(), "Idle -> c :: Counter -> Discard");
    let path = folder.path().join("control");
    for n in 0..100u32 {
        let mut rude = UnixStream::connect(&path).unwrap();
        let garbage: Vec<u8> =
            (0..2_000u32).map(|i| (i.wrapping_mul(2_654_435_761 + n) >> 13) as u8).collect();
        // An error is ignored: the server may have closed the connection, because this client sends garbage
        // and never reads.
        let _ = rude.write_all(&garbage);
        let _ = rude.write_all(b"READDATA c.count 1000000\nshort");
    }
    assert_eq!(ask(&mut stream, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut stream), "0");
    assert_eq!(ask(&mut stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    assert!(child.wait().unwrap().success());
}

/// Starts a driver with a second control socket, `second`, that has further arguments, and connects to both.
fn start_second(
    folder: &std::path::Path,
    arguments: &str,
) -> (Child, BufReader<UnixStream>, BufReader<UnixStream>) {
    let second = folder.join("second");
    let config = format!(
        "Idle -> c :: Counter -> Discard; s :: Script(TYPE PASSIVE, write c.reset, return 7);
         h :: HandlerAggregate(s);
         ControlSocket(UNIX, {}, {arguments})",
        second.display()
    );
    // With several workers, the graph has the handler `worker`.
    let (child, first) = start_with(folder, &["-j", "2", "-h", "c.count", "-e", &config]);
    (child, first, connect(&second))
}

/// True if the server closes the connection within the time that a read waits.
fn is_closed(stream: &mut BufReader<UnixStream>) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        // The server has closed the connection before it had read all input.
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn end(mut child: Child, stream: &mut BufReader<UnixStream>) {
    assert_eq!(ask(stream, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(stream), "0");
    assert_eq!(ask(stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_unix_socket_belongs_to_its_owner_and_a_group() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    // The group of the folder, by its name.
    let gid = std::fs::metadata(folder.path()).unwrap().gid();
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let is_own = |line: &&str| line.split(':').nth(2) == Some(&gid.to_string());
    let name = groups.lines().find(is_own).and_then(|line| line.split(':').next()).unwrap();
    let (child, mut first, _second) = start_second(folder.path(), &format!("GROUP {name}"));
    let file = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap();
    assert_eq!(file("control").permissions().mode() & 0o777, 0o600);
    assert_eq!((file("second").permissions().mode() & 0o777, file("second").gid()), (0o660, gid));
    end(child, &mut first);
    let config = "ControlSocket(UNIX, /tmp/never, GROUP no-such-group); Idle -> Discard";
    assert!(complaint(&["-e", config]).contains("GROUP: there is no group 'no-such-group'"));
    let config = "ControlSocket(TCP, 0, LOCALHOST true, GROUP x); Idle -> Discard";
    assert!(complaint(&["-e", config]).contains("GROUP is for Unix sockets"));
}

#[test]
fn a_client_that_may_only_read_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut first, mut second) = start_second(folder.path(), "READONLY true");
    assert_eq!(ask(&mut second, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut second), "0");
    assert_eq!(ask(&mut second, "READ s.class\n"), "200 Read handler 's.class' OK");
    assert_eq!(data(&mut second), "Script");
    for (command, handler) in [
        ("WRITE c.reset", "c.reset"),
        ("WRITE stop", "stop"),
        ("READ s.run", "s.run"),
        ("READ h.add run", "h.add"),
        ("READ worker 0 s.run", "worker"),
        ("READ worker 0 h.add", "worker"),
    ] {
        assert_eq!(
            ask(&mut second, &format!("{command}\n")),
            format!("530 Permission denied for '{handler}'")
        );
    }
    assert_eq!(ask(&mut second, "READ worker 0 c.count\n"), "200 Read handler 'worker' OK");
    assert_eq!(data(&mut second), "0");
    assert_eq!(ask(&mut first, "READ s.run\n"), "200 Read handler 's.run' OK");
    assert_eq!(data(&mut first), "7");
    end(child, &mut first);
}

#[test]
fn a_port_that_other_machines_reach_is_reported() {
    let reports = |arguments: &str| {
        let config = format!("ControlSocket({arguments}); Idle -> Discard; Script(stop)");
        let output =
            Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["run", "-e", &config]).output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains("every machine that reaches port ")
    };
    assert!(reports("TCP, 0") && reports("TCP, 0.0.0.0:0"));
    assert!(
        !reports("TCP, 0, LOCALHOST true")
            && !reports("TCP, 0, READONLY true")
            && !reports("TCP, 127.0.0.1:0")
    );
}

/// Text of a client in the name of a file that a script writes: the client may write below its folder only.
#[test]
fn a_script_does_not_write_files_that_clients_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(at("files")).unwrap();
    let config = format!(
        "Idle -> c :: Counter -> ac :: AggregateCounter -> Discard;
         s :: Script(TYPE PASSIVE, write ac.write_text_file $1);
         t :: Script(TYPE PASSIVE, set x none, write ac.write_text_file $x);
         own :: Script(set name {}, write ac.write_text_file $(name)); 
         ControlSocket(UNIX, {}, FILES {})",
        at("own"),
        at("second"),
        at("files")
    )
    .replace("$(name)", "$name");
    let (child, mut none) = start(folder.path(), &config);
    let mut some = connect(&folder.path().join("second"));
    for command in ["WRITE s.run", "READ s.run", "WRITE t.set x"] {
        ask(&mut none, &format!("{command} {}\n", at("secret")));
        none = connect(&folder.path().join("control"));
    }
    ask(&mut some, &format!("WRITE s.run {}\n", at("secret")));
    some = connect(&folder.path().join("second"));
    assert_eq!(ask(&mut some, "WRITE s.run below\n"), "200 Write handler 's.run' OK");
    assert!(!folder.path().join("secret").exists());
    assert!(folder.path().join("files/below").is_file());
    assert!(folder.path().join("own").is_file(), "the configuration's own scripts write files");
    end(child, &mut some);
}

#[test]
fn a_line_without_end_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut first, mut second) = start_second(folder.path(), "READONLY false");
    // An error is the end of the connection.
    let _ = second.get_mut().write_all(&vec![b'x'; 4 << 20]);
    assert!(is_closed(&mut second));
    end(child, &mut first);
}

/// A client that has begun a command or does not take its replies is disconnected, a silent one is not.
#[test]
fn clients_that_do_not_go_on_are_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut first, mut silent) = start_second(folder.path(), "TIMEOUT 0.2");
    let path = folder.path().join("second");
    for begun in ["READ c.cou", "WRITEDATA c.reset 100\nabc", "WRITEUNTIL c.reset end\na\nb\n"] {
        let mut client = connect(&path);
        client.get_mut().write_all(begun.as_bytes()).unwrap();
        assert!(is_closed(&mut client), "{begun}");
    }
    // This client reads nothing, and asks for more than the system keeps for it.
    let rude = connect(&path);
    rude.get_ref().set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut asked = rude.get_ref();
    let refused = (0..100_000).any(|_| asked.write_all(b"READ classes\nREAD config\n").is_err());
    assert!(refused, "the connection has ended");
    assert_eq!(ask(&mut silent, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut silent), "0");
    end(child, &mut first);
}

#[test]
fn a_thousand_clients_and_their_data_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut first, _second) = start_second(folder.path(), "READONLY false");
    let path = folder.path().join("second");
    // At most 300 clients are connected at a time, because the test may have few files. They say nothing.
    let mut clients = std::collections::VecDeque::new();
    for _ in 0..1000 {
        clients.push_back(connect(&path));
        if clients.len() > 300 {
            clients.pop_front();
        }
    }
    assert!(is_closed(&mut clients.pop_front().unwrap()), "the oldest of 300 silent clients is gone");
    let last = clients.back_mut().unwrap();
    assert_eq!(ask(last, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(last), "0");
    drop(clients);
    // Six clients with 15 MiB each, which never end.
    let mut large: Vec<_> = (0..6).map(|_| connect(&path)).collect();
    let block = vec![b'x'; 1 << 20];
    let mut refused = 0;
    for client in &mut large {
        client.get_mut().write_all(b"WRITEDATA c.reset 16777216\n").unwrap();
        refused += usize::from((0..15).any(|_| client.get_mut().write_all(&block).is_err()));
    }
    assert!((1..=3).contains(&refused), "{refused}");
    end(child, &mut first);
}
