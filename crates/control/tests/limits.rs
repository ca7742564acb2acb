//! The limits of clients, with short times: silence, slow requests, answers that are never read, and a full
//! house.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use control::{About, HttpLimits, HttpServer, Running};
use element::Registry;
use engine::{Inspector, Options, Plan, Stamp, StandardStreams, Workers};
use lang::Sources;

/// A run of a small graph with a server.
struct Site {
    address: std::net::SocketAddr,
    running: Option<Running>,
    ends: Arc<AtomicBool>,
    workers: Option<JoinHandle<()>>,
}

const SHORT: HttpLimits = HttpLimits {
    connections: 4,
    silence: Duration::from_millis(300),
    request: Duration::from_secs(5),
    reload: Duration::from_secs(5),
    head: 8192,
    body: 1024,
};

impl Site {
    /// Runs a graph of `elements` counters.
    fn new(limits: HttpLimits, elements: usize) -> Site {
        let server = HttpServer::bind(&"0".parse().unwrap(), &[], None, limits).unwrap();
        let (address, ends) = (server.address(), Arc::new(AtomicBool::new(false)));
        let inspector = Inspector::new(1);
        let (asked, interrupt) = (inspector.clone(), Arc::clone(&ends));
        let workers = thread::spawn(move || {
            let counters: String = (0..elements).map(|number| format!("-> c{number} :: Counter ")).collect();
            let text = format!("TimedSource(INTERVAL 0.01) {counters} -> Discard;");
            let mut sources = Sources::new();
            let source = sources.add("test", &*text);
            let (graph, errors) = lang::parse(&mut sources, source, &lang::Options::default());
            assert!(errors.is_empty(), "{errors:?}");
            let registry = Registry::new().with(nf::CLASSES);
            let plan = Arc::new(Plan::new(graph, &registry).unwrap_or_else(|_| panic!("the graph is wrong")));
            let copies =
                plan.configure_all(Some(32), 1, None).unwrap_or_else(|_| panic!("the graph is wrong"));
            let options =
                Options { interrupt, inspector: Some(asked), memory: 64 << 20, ..Options::default() };
            let streams = Box::new(StandardStreams::new(Stamp::None));
            let mut workers = Workers::new(&plan, copies, streams, options).unwrap();
            workers.initialize().unwrap_or_else(|_| panic!("the graph does not start"));
            workers.run();
        });
        let about = About {
            version: String::new(),
            commit: String::new(),
            configuration: String::new(),
            manual: |_| String::new(),
        };
        let running = server.start(inspector, about, SystemTime::now()).unwrap();
        Site { address, running: Some(running), ends, workers: Some(workers) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Asks for a path on a new connection, and returns the whole answer.
    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.running = None;
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.workers.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

/// Waits until the server closes a connection, and returns what it has sent before.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it was not closed: {error}"),
    }
    bytes
}

#[test]
fn a_silent_connection_is_closed() {
    let site = Site::new(SHORT, 1);
    assert!(until_closed(&mut site.connect()).is_empty());
    // A connection that has been answered is closed, too, if nothing more comes.
    let mut stream = site.connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(until_closed(&mut stream).starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_request_that_comes_byte_by_byte_is_given_up() {
    let site = Site::new(SHORT, 1);
    let mut stream = site.connect();
    let mut writer = stream.try_clone().unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let writing = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) && writer.write_all(b"G").is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(until_closed(&mut stream).is_empty());
    ends.store(true, Ordering::Relaxed);
    writing.join().unwrap();
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    // The answers are larger than what the sockets of both sides can hold.
    let site = Site::new(SHORT, 300);
    let mut stream = site.connect();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // At some time the server reads no more requests, because its answers are not read. Then it closes the
    // connection, so that writing fails.
    let error = (0..100_000_000).find_map(|_| stream.write_all(request).err()).unwrap();
    assert!([ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind()), "{error}");
    assert!(site.get("/metrics").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_new_client_takes_the_place_of_the_most_silent_one() {
    let site = Site::new(HttpLimits { silence: Duration::from_secs(3600), ..SHORT }, 1);
    let mut silent: Vec<TcpStream> = (0..SHORT.connections).map(|_| site.connect()).collect();
    assert!(site.get("/metrics").starts_with("HTTP/1.1 200"));
    assert!(until_closed(&mut silent[0]).is_empty());
    // The others are still served.
    let last = silent.last_mut().unwrap();
    last.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert!(until_closed(last).starts_with(b"HTTP/1.1 200"));
}

#[test]
fn nothing_is_answered_after_the_run() {
    let mut site = Site::new(SHORT, 1);
    assert!(site.get("/metrics").starts_with("HTTP/1.1 200"));
    site.running = None;
    let refused = (0..1000).find(|_| {
        thread::sleep(Duration::from_millis(10));
        TcpStream::connect(site.address).is_err()
    });
    assert!(refused.is_some(), "the server still listens");
}
