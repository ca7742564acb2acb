//! Tests of clients that replace a running configuration by another one, over control sockets.

mod clients;

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clients::{ask, connect, data, line};

/// A driver with a TCP control socket and a Unix control socket, and a connection to each.
struct Driver {
    child: Child,
    unix: BufReader<UnixStream>,
    tcp: BufReader<TcpStream>,
    port: u16,
}

/// Starts a driver whose configuration has a ControlSocket element of the name `tcp`.
fn start(folder: &Path, args: &[&str], config: &str) -> Driver {
    let path = folder.join("control");
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-u", &path.display().to_string(), "-e", config])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut unix = connect(&path);
    let port = read(&mut unix, "tcp.port").parse().unwrap();
    let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut tcp = BufReader::new(tcp);
    assert_eq!(line(&mut tcp), "Click::ControlSocket/1.3");
    Driver { child, unix, tcp, port }
}

impl Driver {
    /// Stops the run, which has to succeed, and returns its messages.
    fn stop(mut self) -> String {
        assert_eq!(reply(&mut self.unix, "WRITE stop"), "200 Write handler 'stop' OK");
        let output = self.child.wait_with_output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{messages}");
        messages
    }
}

/// Sends a command, and returns all lines of the reply.
fn reply(stream: &mut BufReader<impl Read + Write>, command: &str) -> String {
    let mut lines = ask(stream, &format!("{command}\n"));
    while lines.lines().last().is_some_and(|last| last.as_bytes().get(3) == Some(&b'-')) {
        lines = format!("{lines}\n{}", line(stream));
    }
    lines
}

fn read(stream: &mut BufReader<impl Read + Write>, handler: &str) -> String {
    assert_eq!(reply(stream, &format!("READ {handler}")), format!("200 Read handler '{handler}' OK"));
    data(stream)
}

/// Waits until a graph runs that has an element of this name.
fn wait_for(stream: &mut BufReader<impl Read + Write>, element: &str) {
    let is_there = |stream: &mut _| read(stream, "list").lines().any(|name| name == element);
    assert!(
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            is_there(stream)
        }),
        "no {element}"
    );
}

const TCP: &str = "tcp :: ControlSocket(TCP, 0, LOCALHOST true);";

/// Tries several ways in which a client's text could reach the handler `hotconfig`: directly, by scripts, or
/// by calls that elements store. Only a client of a Unix socket may send a text, and only with
/// `--allow-config`.
#[test]
fn texts_are_taken_from_clients_of_unix_sockets_only_and_only_where_that_is_said() {
    let outer = tempfile::tempdir().unwrap();
    let configs = outer.path().join("configs");
    fs::create_dir(&configs).unwrap();
    let configs = configs.display().to_string();
    let text = format!("{TCP} Idle -> sent :: Counter -> Discard");
    let config = format!(
        "{TCP} s :: InfiniteSource(LIMIT 1, ACTIVE false) -> c :: Counter -> Discard;
         pass :: Script(TYPE PASSIVE, write hotconfig $args);
         unquoted :: Script(TYPE PASSIVE, writeq hotconfig \"$args\");
         kept :: Script(TYPE PASSIVE, wait 1, write hotconfig $x);
         other :: Script(TYPE PASSIVE, write hotconfig $(kept.get x));
         proxy :: Script(TYPE PROXY, write $0 $args);
         byProxy :: ControlSocket(UNIX, {}, PROXY proxy);
         fixed :: Script(TYPE PASSIVE, writeq hotconfig \"{TCP} Idle -> fixed :: Counter -> Discard\")",
        outer.path().join("proxy").display()
    );
    let ways: [(&[&str], bool); 4] = [
        (&["-R"], false),
        (&["--config-dir", &configs], false),
        (&["--allow-config"], true),
        (&["--config-dir", &configs, "--allow-config"], true),
    ];
    for (args, allowed) in ways {
        let mut driver = start(outer.path(), args, &config);
        let refused = |reply: &str| {
            let told = reply.starts_with("520-") && reply.contains("is not accepted here");
            assert!(
                told && reply.contains("--config-dir") != args.contains(&"--config-dir"),
                "{args:?}: {reply}"
            );
        };
        let write = format!("WRITE hotconfig {text}");
        let reply_of_tcp = reply(&mut driver.tcp, &write);
        refused(&reply_of_tcp);
        assert!(!reply_of_tcp.contains("--allow-config"), "{reply_of_tcp}");
        // WRITEDATA has the length of the value in bytes; the value follows after the line.
        driver
            .tcp
            .get_mut()
            .write_all(format!("WRITEDATA hotconfig {}\n{text}", text.len()).as_bytes())
            .unwrap();
        refused(&format!("{}\n{}", line(&mut driver.tcp), line(&mut driver.tcp)));

        let mut http = BufReader::new(TcpStream::connect(("127.0.0.1", driver.port)).unwrap());
        assert_eq!(line(&mut http), "Click::ControlSocket/1.3");
        let request = format!("POST /hotconfig HTTP/1.1\r\nHost: localhost\r\n\r\n{write}\r\n");
        assert_eq!(ask(&mut http, &request), "521 This is no HTTP server");

        // These commands make scripts or elements write the client's text. The scripts report that it is
        // refused, while the commands themselves succeed.
        let mut by_proxy = connect(&outer.path().join("proxy"));
        for command in [
            format!("WRITE pass.run {text}"),
            format!("WRITE unquoted.run {text}"),
            format!("READ pass.run {text}"),
            "WRITE kept.run".to_string(),
            format!("WRITE kept.set x {text}"),
            "WRITE kept.step".to_string(),
            "WRITE other.run".to_string(),
            format!("WRITE c.count_call 1 hotconfig {text}"),
            "WRITE s.active true".to_string(),
        ] {
            let said = reply(&mut driver.tcp, &command);
            assert!(said.starts_with("200"), "{command}: {said}");
            if command.starts_with("READ") {
                assert_eq!(data(&mut driver.tcp), "");
            }
        }
        assert!(reply(&mut by_proxy, &write).starts_with("200"));
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            read(&mut driver.tcp, "c.count") == "1"
        }));
        assert!(!read(&mut driver.tcp, "list").contains("sent"));

        let name = match allowed {
            // A script may write a text that the configuration itself contains, whatever client calls the
            // script.
            false => {
                assert!(reply(&mut driver.tcp, "WRITE fixed.run").starts_with("200"));
                refused(&reply(&mut driver.unix, &write));
                "fixed"
            }
            true => {
                assert_eq!(reply(&mut driver.unix, &write), "200 Write handler 'hotconfig' OK");
                "sent"
            }
        };
        wait_for(&mut driver.unix, name);
        let messages = driver.stop();
        // Seven refusals were reported: of the scripts, and of the call that the counter stored with
        // `count_call`.
        assert_eq!(messages.matches("is not accepted here").count(), 7, "{args:?}: {messages}");
    }
    // Without -R, --config-dir and --allow-config, there is no handler `hotconfig`.
    let mut driver = start(outer.path(), &[], &config);
    assert_eq!(reply(&mut driver.unix, "WRITE hotconfig x"), "511 No handler named 'hotconfig'");
    driver.stop();
}

#[test]
fn files_below_the_folder_are_taken_by_name_from_anybody() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name).display().to_string();
    fs::create_dir_all(path("configs/deep")).unwrap();
    let library = "elementclass Mine { input -> mine :: Counter -> output }";
    let later = "Idle -> Strip(14) -> Discard;\nFromDump(/nonesuch) -> Discard;\n";
    let owns_file = format!(
        "{TCP} InfiniteSource(LIMIT 1) -> Counter(COUNT_CALL 1 ac.write_text_file {}) -> ac :: AggregateCounter
            -> second :: Discard;",
        path("counts")
    );
    for (name, text) in [
        (
            "configs/first.click",
            &*format!("require(library deep/mine.click); {TCP} Idle -> m :: Mine -> Discard;"),
        ),
        ("configs/deep/mine.click", library),
        ("configs/wrong.click", "Idle -> Discard;\nIdle -> Strip(x) -> Discard;\n"),
        ("configs/later.click", later),
        ("configs/second", &owns_file),
        ("secret.click", "Idle -> secret :: Discard"),
    ] {
        fs::write(path(name), text).unwrap();
    }
    std::os::unix::fs::symlink(path("secret.click"), path("configs/link.click")).unwrap();
    let configs = path("configs");
    let config = format!("{TCP} Idle -> old :: Counter -> Discard");
    let mut driver = start(outer.path(), &["--config-dir", &configs], &config);
    for name in ["../secret.click", &path("secret.click"), "link.click", "deep/../../secret.click"] {
        let said = reply(&mut driver.tcp, &format!("WRITE hotconfig {name}"));
        assert!(said.contains("a client may have files read below "), "{name}: {said}");
    }
    for (name, told) in [
        ("none.click", format!("{configs}/none.click: No such file or directory")),
        ("deep", format!("{configs}/deep: only ordinary files are read")),
        ("wrong.click", format!("{configs}/wrong.click:2:15: error: While configuring 'Strip@4 :: Strip': ")),
        (
            "later.click",
            format!("{configs}/later.click:2:1: error: While initializing 'FromDump@4 :: FromDump': "),
        ),
    ] {
        let said = reply(&mut driver.tcp, &format!("WRITE hotconfig {name}"));
        assert!(said.starts_with("520") && said.contains(&told), "{name}: {said}");
    }
    assert!(read(&mut driver.tcp, "list").contains("old"));
    for (name, element) in [("first.click", "m/mine"), ("./second", "second")] {
        assert_eq!(
            reply(&mut driver.tcp, &format!("WRITE hotconfig {name}")),
            "200 Write handler 'hotconfig' OK"
        );
        wait_for(&mut driver.tcp, element);
        assert_eq!(read(&mut driver.tcp, "config"), fs::read_to_string(format!("{configs}/{name}")).unwrap());
    }
    // The elements of the new configuration may write files, whatever client has asked for the configuration.
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        Path::new(&path("counts")).is_file()
    }));
    assert_eq!(driver.stop(), "");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "--config-dir", "/nonesuch", "-e", "Idle -> Discard"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "--config-dir /nonesuch: No such file or directory\n"
    );
}

/// Packets flow after each replacement of the configuration, and every packet is counted: otherwise the run
/// would fail.
#[test]
fn packets_flow_while_configurations_change() {
    let folder = tempfile::tempdir().unwrap();
    let graph = |more: &str| {
        format!("{TCP} s :: InfiniteSource -> c :: Counter -> q :: Queue -> Unqueue {more} -> Discard;")
    };
    fs::write(folder.path().join("a"), graph("-> a :: Counter")).unwrap();
    fs::write(folder.path().join("b"), graph("-> b :: Counter -> Null")).unwrap();
    fs::write(folder.path().join("wrong"), graph("-> Nonesuch")).unwrap();
    let path = folder.path().display().to_string();
    let mut driver = start(folder.path(), &["--config-dir", &path], &graph(""));
    let mut before = 0;
    for turn in 0..20 {
        let name = ["a", "b"][turn % 2];
        assert!(reply(&mut driver.tcp, "WRITE hotconfig wrong").starts_with("520"));
        assert_eq!(
            reply(&mut driver.tcp, &format!("WRITE hotconfig {name}")),
            "200 Write handler 'hotconfig' OK"
        );
        wait_for(&mut driver.tcp, name);
        let count = (0..1000).map(|_| read(&mut driver.tcp, "c.count").parse::<u64>().unwrap());
        before = count.into_iter().find(|&count| count > before).expect("packets flow");
    }
    assert_eq!(driver.stop(), "");
}

/// The control socket and its clients move to the next graph without a message. If the next graph has
/// another address, a new socket is opened.
#[test]
fn a_control_socket_goes_over_with_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, other) = (free(), free());
    let graph = |port: u16, unix: &str, more: &str| {
        format!(
            "tcp :: ControlSocket(TCP, {port}, LOCALHOST true);
             u :: ControlSocket(UNIX, {path}/{unix}); Idle -> {more} :: Discard;"
        )
    };
    for (name, text) in [
        ("same", graph(port, "own", "same")),
        ("elsewhere", graph(other, "other", "elsewhere")),
        // The address of the Unix socket is in use by another program, so this configuration is refused.
        ("taken", graph(port, "taken.socket", "taken")),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let _taken = std::os::unix::net::UnixListener::bind(folder.path().join("taken.socket")).unwrap();
    let mut driver = start(folder.path(), &["--config-dir", &path], &graph(port, "own", "first"));
    let mut own = connect(&folder.path().join("own"));
    let said = reply(&mut own, "WRITE hotconfig taken");
    assert!(said.contains("Address already in use: another process or element listens on"), "{said}");
    for _ in 0..3 {
        assert!(reply(&mut own, "WRITE hotconfig same").starts_with("200"));
        wait_for(&mut own, "same");
        wait_for(&mut driver.tcp, "same");
    }
    connect(&folder.path().join("own"));
    assert!(reply(&mut driver.unix, "WRITE hotconfig elsewhere").starts_with("200"));
    wait_for(&mut driver.unix, "elsewhere");
    assert_eq!(read(&mut driver.unix, "tcp.port"), other.to_string());
    connect(&folder.path().join("other"));
    assert!(!folder.path().join("own").exists());
    let messages = driver.stop();
    assert!(!messages.contains("bind"), "{messages}");
    assert_eq!(messages.matches("another address: clients are not taken over").count(), 2, "{messages}");
}
