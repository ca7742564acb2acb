//! The HTTP server of a running program: metrics, JSON, writing with a token, and clients that misbehave.

mod http_client;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use http_client::{Run, start};
use lab::RunningProgram;
use serde_json::Value;

/// A source, a queue that overflows, and an element in a compound.
const CONFIG: &str = "elementclass Part { input -> inner :: Counter -> output };\n\
    s :: RatedSource(RATE 2000, LIMIT -1, LENGTH 100)\n  -> part :: Part -> q :: Queue(3) -> Idle;\n\
    ready :: TimedSource(INTERVAL 0.01) -> c :: Counter -> Discard;\n";

const TOKEN: &str = "0123456789abcdef-XYZ";

/// Writes a file of a configuration, and returns its path.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Writes a file with the token, with these permissions.
fn token_file(folder: &Path, mode: u32) -> String {
    let path = file(folder, "token", TOKEN);
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

/// Returns the path of a program of a Debian package, or `None` with a message.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed (Debian package prometheus)");
    }
    found
}

#[test]
fn metrics_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let run = start(&[&file(folder.path(), "a.click", CONFIG)]);
    let drops = r#"tidegate_element_drops_total{element="q",class="Queue",reason="queue full"}"#;
    run.wait_for(|run| run.metric(drops).filter(|&drops| drops > 10.0));
    let before = run.get("/api/report").json();
    let text = run.get("/metrics");
    let after = run.get("/api/report").json();
    assert_eq!(text.status, 200, "{text:?}");
    assert!(text.head.contains("text/plain; version=0.0.4"), "{}", text.head);
    let sample = |start: &str| {
        let line = text.body.lines().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{start} is missing in\n{}", text.body));
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let element = |report: &Value, name: &str| {
        let all = report["elements"].as_array().unwrap();
        all.iter().find(|element| element["name"] == name).unwrap().clone()
    };
    // Counters of the text lie between those of two reports, taken before and after it.
    for (start, name, key) in [
        (r#"tidegate_element_packets_total{element="part/inner",class="Counter"}"#, "part/inner", "in"),
        (r#"tidegate_element_sent_packets_total{element="part/inner",class="Counter"}"#, "part/inner", "out"),
        (r#"tidegate_element_made_packets_total{element="s",class="RatedSource"}"#, "s", "made"),
    ] {
        let [least, most] = [&before, &after].map(|report| element(report, name)[key].as_f64().unwrap());
        assert!(least > 0.0 && (least..=most).contains(&sample(start)), "{start}: {least} to {most}");
    }
    assert_eq!(sample(r#"tidegate_element_held_packets{element="q",class="Queue"}"#), 3.0);
    assert_eq!(sample(r#"tidegate_element_queue_capacity_packets{element="q",class="Queue"}"#), 3.0);
    let bytes = sample(r#"tidegate_element_bytes_total{element="part/inner",class="Counter"}"#);
    let packets = sample(r#"tidegate_element_packets_total{element="part/inner",class="Counter"}"#);
    assert_eq!(bytes, packets * 100.0);
    assert_eq!(sample("tidegate_workers "), 1.0);
    assert!(sample("process_resident_memory_bytes") > 1e6 && sample("process_cpu_seconds_total") > 0.0);
    assert!(sample(r#"tidegate_worker_busy_seconds_total{worker="0"}"#) > 0.0);
    let open = run.ask("GET", "/metrics", &[("Accept", "application/openmetrics-text;version=1.0.0")], "");
    assert!(open.head.contains("application/openmetrics-text; version=1.0.0"), "{}", open.head);
    assert!(open.body.ends_with("# EOF\n") && open.body.contains("# TYPE tidegate_packets counter\n"));
}

#[test]
fn the_graph_and_its_handlers_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.click", CONFIG);
    let run = start(&[&path]);
    let graph = run.get("/api/graph").json();
    let names: Vec<&str> =
        graph["elements"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let q = &graph["elements"][at("q")];
    assert_eq!((q["file"].as_str(), q["line"].as_u64()), (Some(&*path), Some(3)));
    assert_eq!((q["config"].as_str(), q["inputs"][0].as_str()), (Some("3"), Some("push")));
    let (from, to) = (at("part/inner") as u64, at("q") as u64);
    let links = graph["connections"].as_array().unwrap();
    assert!(links.iter().any(|link| link["from"] == from && link["to"] == to), "{graph}");

    let page = run.get("/api/elements/part%2Finner").json();
    assert_eq!(page["class"], "Counter");
    let handlers = page["handlers"].as_array().unwrap();
    let reset = handlers.iter().find(|handler| handler["name"] == "reset").unwrap();
    assert_eq!((&reset["read"], &reset["write"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(run.get("/api/elements/q/handlers/capacity").json()["value"], "3");
    assert_eq!(run.get("/api/handlers/nthreads").json()["value"], "1");
    assert!(run.get("/api/classes/Queue").json()["manual"].as_str().unwrap().contains("CAPACITY"));
    assert!(run.get("/api/handlers").json().as_array().unwrap().len() > 10);
    assert!(run.get("/").body.contains("<!doctype html>"));
    for path in
        ["/api/elements/none", "/api/elements/q/handlers/none", "/none", "/api/classes/None", "/api//", "//"]
    {
        let answer = run.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(run.get("/api/elements/%ff").status, 400);
    let answer = run.ask("DELETE", "/metrics", &[], "");
    assert!(answer.status == 405 && answer.head.to_lowercase().contains("allow: get, head"), "{answer:?}");
    let head = run.ask("HEAD", "/metrics", &[], "");
    assert!(head.status == 200 && head.body.is_empty());
}

#[test]
fn only_clients_with_the_token_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.click", CONFIG);
    let token = token_file(folder.path(), 0o600);
    let run = start(&["--http-write", &token, &path]);
    let capacity = "/api/elements/q/handlers/capacity";
    let right = bearer();
    for wrong in ["Bearer 0123456789abcdef-XYz", "Bearer ", "Bearer", "", TOKEN, &format!("Basic {TOKEN}")] {
        let answer = run.ask("POST", capacity, &[("Authorization", wrong)], "5");
        assert_eq!(answer.status, 401, "{wrong}");
        assert!(answer.head.to_lowercase().contains("www-authenticate: bearer"));
    }
    assert_eq!(run.ask("POST", capacity, &[], "5").status, 401);
    assert_eq!(run.get(capacity).json()["value"], "3");
    let headers = [("Authorization", &*right)];
    assert_eq!(run.ask("POST", capacity, &headers, "5").status, 200);
    assert_eq!(run.get(capacity).json()["value"], "5");
    let answer = run.ask("POST", capacity, &headers, "many");
    assert!(
        answer.status == 400 && answer.json()["error"].as_str().unwrap().contains("CAPACITY"),
        "{answer:?}"
    );
    // The token does not help a page of another origin.
    let headers = [("Authorization", &*right), ("Origin", "http://evil.example")];
    assert_eq!(run.ask("POST", capacity, &headers, "9").status, 403);
    let headers = [("Authorization", &*right), ("Host", "evil.example")];
    assert_eq!(run.ask("POST", capacity, &headers, "9").status, 421);
    // A client may not install the text of a configuration, because it could name any file.
    let headers = [("Authorization", &*right)];
    let answer = run.ask("POST", "/api/handlers/hotconfig", &headers, "FromDump(/etc/passwd) -> Discard");
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(run.get(capacity).json()["value"], "5");
    let long = "x".repeat(300 << 10);
    assert_eq!(run.ask("POST", capacity, &headers, &long).status, 413);

    let run = start(&[&path]);
    let answer = run.ask("POST", capacity, &headers, "5");
    assert!(answer.status == 403 && answer.body.contains("--http-write"), "{answer:?}");
}

#[test]
fn reading_does_not_run_scripts_without_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG} script :: Script(TYPE PASSIVE, write q.capacity $1);");
    let path = file(folder.path(), "a.click", &config);
    let token = token_file(folder.path(), 0o600);
    let run = start(&["--http-write", &token, &path]);
    let read = "/api/elements/script/handlers/run?7";
    assert_eq!(run.get(read).status, 401);
    assert_eq!(run.get("/api/elements/script/handlers/run").status, 401);
    assert_eq!(run.get("/api/handlers/worker?0%20script.run").status, 401);
    assert_eq!(run.get("/api/elements/q/handlers/capacity").json()["value"], "3");
    assert_eq!(run.ask("GET", read, &[("Authorization", &bearer())], "").status, 200);
    assert_eq!(run.get("/api/elements/q/handlers/capacity").json()["value"], "7");
    assert_eq!(run.get("/api/elements/script/handlers/class").json()["value"], "Script");
}

#[test]
fn pages_of_other_sites_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = start(&["--http-name", "gw.example.org", &file(folder.path(), "a.click", CONFIG)]);
    for path in ["/", "/metrics", "/api/report", "/api/graph", "/none"] {
        let rebound = [("Host", "evil.example:9464")];
        assert_eq!(run.ask("GET", path, &rebound, "").status, 421, "{path}");
        let target = format!("http://evil.example{path}");
        assert_eq!(run.ask("GET", &target, &[], "").status, 421, "{path}");
        let other = [("Origin", "http://evil.example")];
        assert_eq!(run.ask("GET", path, &other, "").status, 403, "{path}");
        let other = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
        assert_eq!(run.ask("GET", path, &other, "").status, 403, "{path}");
    }
    assert_eq!(run.ask("GET", "/metrics", &[("Host", "gw.example.org:1")], "").status, 200);
    let answer = run.get("/metrics");
    assert!(!answer.head.to_lowercase().contains("access-control"), "{}", answer.head);
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.click", CONFIG);
    let fails = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.arg("run").args(args).arg(&path).stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = fails(&["--http", "0", "--http-write", &token_file(folder.path(), 0o644)]);
    assert!(error.contains("other users have access") && error.contains("chmod 600"), "{error}");
    assert!(fails(&["--http-write", "x"]).contains("--http <ADDR>"));
    assert!(fails(&["--http", "nowhere"]).contains("HOST:PORT"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let holder = std::net::TcpListener::bind(taken).unwrap();
    let error = fails(&["--http", &taken.to_string()]);
    assert!(error.contains(&format!("--http {taken}: ")) && error.contains("in use"), "{error}");
    drop(holder);
}

#[test]
fn counters_do_not_go_back_in_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.click", CONFIG);
    let token = token_file(folder.path(), 0o600);
    for threads in ["1", "2"] {
        fs::write(&path, CONFIG).unwrap();
        let run = start(&["--threads", threads, "--http-write", &token, &path]);
        let inner = r#"tidegate_element_packets_total{element="part/inner","#;
        let bytes = r#"tidegate_element_bytes_total{element="part/inner","#;
        let starts = [
            "tidegate_packets_total ",
            inner,
            bytes,
            r#"tidegate_dropped_packets_total{reason="queue full"}"#,
            r#"tidegate_worker_busy_seconds_total{worker="0"}"#,
        ];
        run.wait_for(|run| run.metric(starts[3]).filter(|&drops| drops > 10.0));
        let mut last = starts.map(|_| 0.0);
        // Between the reloads, the element `c` vanishes and comes back; the sums keep what it has counted.
        for number in 1..=4 {
            let text = if number % 2 == 1 { CONFIG.replace("c :: Counter -> ", "") } else { CONFIG.into() };
            fs::write(&path, text).unwrap();
            let answer = run.ask("POST", "/api/handlers/reload", &[("Authorization", &bearer())], "");
            assert_eq!(answer.status, 200, "{answer:?}");
            run.wait_for(|run| {
                run.metric("tidegate_reloads_total").filter(|&reloads| reloads == f64::from(number))
            });
            for _ in 0..5 {
                let text = run.get("/metrics").body;
                for (start, last) in starts.iter().zip(&mut last) {
                    let line = text.lines().find(|line| line.starts_with(start));
                    let value: f64 = line
                        .unwrap_or_else(|| panic!("{start}: {text}"))
                        .rsplit_once(' ')
                        .unwrap()
                        .1
                        .parse()
                        .unwrap();
                    assert!(
                        value >= *last && value > 0.0,
                        "{threads} threads: {start} went from {last} to {value}"
                    );
                    *last = value;
                }
            }
        }
        // A wrong configuration is refused, and the run goes on.
        fs::write(&path, "x :: Nothing;").unwrap();
        let answer = run.ask("POST", "/api/handlers/reload", &[("Authorization", &bearer())], "");
        assert!(answer.status == 400 && answer.body.contains("Nothing"), "{answer:?}");
        assert_eq!(run.metric("tidegate_reloads_total"), Some(4.0));
    }
}

#[test]
fn several_workers_are_summed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = start(&["--threads", "3", &file(folder.path(), "a.click", CONFIG)]);
    run.wait_for(|run| run.metric("tidegate_packets_total ").filter(|&packets| packets > 100.0));
    let text = run.get("/metrics").body;
    let sum: f64 = (0..3)
        .map(|worker| {
            let start = format!("tidegate_worker_packets_total{{worker=\"{worker}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("{start} is missing: {text}")).parse::<f64>().unwrap()
        })
        .sum();
    let all = text.lines().find_map(|line| line.strip_prefix("tidegate_packets_total ")).unwrap();
    assert_eq!(all.parse::<f64>().unwrap(), sum);
    assert_eq!(run.get("/api/workers").json().as_array().unwrap().len(), 3);
}

/// A scraper that must get an answer, whatever other clients do.
fn scrapes(run: &Run) {
    let answer = run.get("/metrics");
    assert!(answer.status == 200 && answer.body.contains("tidegate_packets_total"), "{answer:?}");
}

#[test]
fn clients_that_send_garbage_are_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let run = start(&[&file(folder.path(), "a.click", CONFIG)]);
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..100 {
        let mut stream = run.connect();
        let mut bytes: Vec<u8> = (0..random.usize(1..2000)).map(|_| random.u8(..)).collect();
        if number % 3 == 0 {
            bytes.splice(0..0, *b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = answer_bytes(&mut stream);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    // Headers and targets that are too long.
    let long = "x".repeat(100_000);
    for head in [format!("GET /{long} HTTP/1.1\r\n\r\n"), format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n")] {
        let mut stream = run.connect();
        let _ = stream.write_all(head.as_bytes());
        let answer = answer_bytes(&mut stream);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    scrapes(&run);
}

fn answer_bytes(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn a_thousand_clients_do_not_keep_a_scraper_out() {
    let folder = tempfile::tempdir().unwrap();
    let run = start(&[&file(folder.path(), "a.click", CONFIG)]);
    // Clients that send nothing, half a request, or a request of which they never read the answer.
    let texts = ["", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"];
    let mut clients = Vec::new();
    for number in 0..1000 {
        let mut stream = run.connect();
        let _ = stream.write_all(texts[number % texts.len()].as_bytes());
        clients.push(stream);
        // The server has closed the first of them; this process may have too few files for all.
        if clients.len() > 600 {
            clients.remove(0);
        }
        if number % 100 == 0 {
            scrapes(&run);
        }
    }
    scrapes(&run);
    // The server has closed all but 64 of the connections.
    let files = run.metric("process_open_fds").unwrap();
    assert!(files < 100.0, "{files}");
    let packets = run.metric("tidegate_packets_total ").unwrap();
    run.wait_for(|run| run.metric("tidegate_packets_total ").filter(|&more| more > packets));
    drop(clients);
    scrapes(&run);
}

#[test]
fn the_end_of_the_run_ends_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.click", CONFIG);
    let run = start(&[&path]);
    let (mut silent, mut asking) = (run.connect(), run.connect());
    asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // A killed program leaves nothing that keeps the next one from starting at the same port.
    run.program.signal("KILL");
    assert!(answer_bytes(&mut silent).is_empty());
    let again = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args([
            "run",
            "--http",
            &run.address.to_string(),
            "-e",
            "TimedSource(INTERVAL 0.05, LIMIT 5, STOP true) -> Discard",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(again.status.success(), "{again:?}");
}

#[test]
fn promtool_finds_nothing_to_change() {
    let Some(promtool) = program("promtool") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = start(&["--threads", "2", &file(folder.path(), "a.click", CONFIG)]);
    run.wait_for(|run| run.metric("tidegate_dropped_packets_total").filter(|&drops| drops > 10.0));
    let text = run.get("/metrics").body;
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}\n{text}"
    );
}

#[test]
fn a_prometheus_scrapes() {
    let Some(prometheus) = program("prometheus") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = start(&[&file(folder.path(), "a.click", CONFIG)]);
    let config = format!(
        "global:\n  scrape_interval: 100ms\n  scrape_timeout: 100ms\nscrape_configs:\n- job_name: tidegate\n  \
         static_configs:\n  - targets: ['{}']\n",
        run.address
    );
    let config = file(folder.path(), "prometheus.yml", &config);
    let data = folder.path().join("data");
    let mut command = Command::new(prometheus);
    command
        .arg(format!("--config.file={config}"))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg("--web.listen-address=127.0.0.1:0")
        .stdin(Stdio::null());
    let mut server = RunningProgram::new(&mut command).unwrap();
    let line = server.wait_for("Listening on").unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let database = Run { program: server, address };
    let value = |query: &str| {
        // Until it has started, Prometheus answers with an error.
        let answer = database.get(&format!("/api/v1/query?query={query}"));
        let answer = (answer.status == 200).then(|| answer.json())?;
        let value = answer["data"]["result"][0]["value"][1].as_str()?.to_string();
        value.parse::<f64>().ok()
    };
    database.wait_for(|_| value("up").filter(|&up| up == 1.0));
    // The counter grows from scrape to scrape, and is what the program itself says.
    let first = run.wait_for(|_| value("tidegate_packets_total").filter(|&packets| packets > 0.0));
    let later = run.wait_for(|_| value("tidegate_packets_total").filter(|&packets| packets > first));
    assert!(later <= run.metric("tidegate_packets_total ").unwrap());
    run.wait_for(|_| value("sum(rate(tidegate_element_drops_total[5s]))").filter(|&rate| rate > 0.0));
    let rules = value("count(%7B__name__=~%22tidegate_.*%22%7D)").unwrap();
    assert!(rules > 30.0, "{rules}");
}

#[test]
fn the_table_in_the_document_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->");
    let (before, rest) = text.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let tables = control::families::tables(testkit::registry().iter());
    let expected = format!("{before}{start}\n{tables}\n{end}{after}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(text == expected || std::env::var_os("BLESS").is_some(), "run this test with BLESS=1");
}

/// Returns the names of metrics of this program that a text mentions.
fn metrics_in(text: &str) -> std::collections::BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_")).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let document = read("docs/metrics.md");
    let known = metrics_in(&document);
    for path in ["packaging/prometheus/tidegate.rules.yml", "packaging/grafana/tidegate.json"] {
        let text = read(path);
        let used = metrics_in(&text);
        assert!(used.len() > 5, "{path}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{path} uses {unknown:?}");
    }
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana/tidegate.json")).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
    let Some(promtool) = program("promtool") else { return };
    let rules = root.join("packaging/prometheus/tidegate.rules.yml");
    let output = Command::new(promtool).args(["check", "rules"]).arg(rules).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Opens a page, waits until it has asked for several reports, and returns what it shows then, as HTML, and
/// the messages of the browser. `None` without Chromium.
fn shown(address: &str, folder: &Path) -> Option<(String, String)> {
    let mut browser = Command::new("chromium");
    // Root needs `--no-sandbox`. The time of the page runs until it has waited for five seconds.
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .args(["--enable-logging=stderr", "--window-size=1200,900"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .arg(address);
    match browser.output() {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some((text(&output.stdout), text(&output.stderr)))
        }
        Err(error) => {
            eprintln!("skipped: chromium: {error}");
            None
        }
    }
}

#[test]
fn the_page_shows_the_graph_with_live_rates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("<b>&gw.click");
    std::fs::write(&path, CONFIG).unwrap();
    let run = start(&[&path.display().to_string()]);
    let drops = "tidegate_dropped_packets_total";
    run.wait_for(|run| run.metric(drops).filter(|&drops| drops > 10.0));
    // A rate on an arrow is a number above 0, so the page has taken two reports. The page's time runs faster
    // than that of the program, which on a busy machine may send no packet between two reports; then the page
    // is opened again.
    let has_rate = |html: &str| {
        let rates = html.split(r#"class="rate""#).skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1));
        rates.into_iter().any(|rate| !["", "0"].contains(&rate))
    };
    let mut page = None;
    for _ in 0..5 {
        page = shown(&format!("http://{}/", run.address), folder.path());
        if page.as_ref().is_none_or(|(html, _)| has_rate(html)) {
            break;
        }
    }
    let Some((html, messages)) = page else { return };
    assert!(has_rate(&html), "{html}");
    let errors: Vec<&str> = messages.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for text in ["part/inner", "RatedSource", "queue full", "holds 3", ">live<"] {
        assert!(html.contains(text), "{text} is missing: {messages}\n{html}");
    }
    // The name of the file is shown as text, not taken as HTML.
    assert!(html.contains("&lt;b&gt;&amp;gw.click") && !html.contains("<b>&"), "{html}");
}
