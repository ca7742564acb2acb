//! A web server and its clients, connected by a simulated wide-area network (Reframer, section 5.4).
//!
//! wrk fetches a file of 1 MiB from nginx again and again, one fetch at a time over each connection. The
//! network delays the packets of each connection by a time of its own in each direction. Then they pass the
//! elements under test, and reach the server or the clients.

use std::io::{Error, Result};
use std::path::Path;
use std::time::Duration;

use lab::{Namespace, RunningProgram};

use super::{LEFT, Line, Program, RIGHT};

const PORT: u16 = 8080;
const FILE: &str = "file";
const MEGABYTE: usize = 1 << 20;

/// A testbed: a server, its clients, and the network between them.
pub(crate) struct Web {
    program: Program,
    folder: tempfile::TempDir,
}

/// The results of a measurement, as the clients see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The gigabits per second that the clients received, incomplete files included.
    pub(crate) gbps: f64,
    /// The median and the 99th percentile of the time to fetch a file in seconds; NaN if no fetch was
    /// completed.
    pub(crate) median: f64,
    pub(crate) p99: f64,
    /// The SLF of the packets towards the server: upstream of the elements under test, and downstream of
    /// them.
    pub(crate) slf: [f64; 2],
}

impl Web {
    pub(crate) fn new() -> Result<Web> {
        let folder = tempfile::tempdir()?;
        // The folder must be readable by the user that nginx's worker processes run as.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode)?;
        std::fs::write(folder.path().join(FILE), vec![b'x'; MEGABYTE])?;
        let place = folder.path().display();
        let config = format!(
            "worker_processes 1; error_log {place}/error.log; pid {place}/pid; daemon off;
             events {{ worker_connections 8192; }}
             http {{
                 access_log off; sendfile on; keepalive_requests 1000000;
                 client_body_temp_path {place}; proxy_temp_path {place}; fastcgi_temp_path {place};
                 uwsgi_temp_path {place}; scgi_temp_path {place};
                 server {{ listen {RIGHT}:{PORT} backlog=8192; root {place}; }}
             }}"
        );
        std::fs::write(folder.path().join("nginx.conf"), config)?;
        Ok(Web { program: Program::new()?, folder })
    }

    /// Fetches files over `connections` connections for `time`. Packets in both directions pass `elements`,
    /// a chain that ends with an arrow, or is empty.
    pub(crate) fn serve(&self, elements: &str, connections: usize, time: Duration) -> Result<Served> {
        let Line { left: clients, between, right: server, net: _net } = &Line::of_ordinary_frames()?;
        for space in [clients, server] {
            space.ethtool("-K eth0 gro on")?;
        }
        // The route sets the congestion control of nginx and wrk; otherwise they would use the default of
        // the machine.
        for (space, own) in [(clients, LEFT), (server, RIGHT)] {
            let route = format!("10.77.0.0/24 dev eth0 proto kernel scope link src {own}");
            space.ip(&format!("route change {route} congctl {}", lab::CONTROL))?;
        }
        let way = |from: &str, to: &str| {
            format!(
                "{} -> FlowDelay(10ms, 2ms) -> {from}_in :: Reframer(0us, BYPASS none, CAPACITY 100000)
                     -> {elements} {from}_out :: Reframer(0us, BYPASS none, CAPACITY 100000) -> Queue(20000) -> ToDevice({to});",
                self.program.receive(from)
            )
        };
        let config = format!("{}{}", way("left", "right"), way("right", "left"));
        let half = time.as_secs_f64() / 2.0;
        let script = format!("Script(wait {half}s, print \"slf $(left_in.slf_in) $(left_out.slf_in)\")");
        let mut running = self.program.run(between, &["--busy-poll"], &format!("{config} {script}"))?;
        let _server = self.nginx(server)?;
        let text = self.wrk(clients, connections, time)?;
        let line = running.wait_for("slf ")?;
        let slf: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let (Some(bytes), Some(median), Some(p99), &[came, left]) =
            (after(&text, "Transfer/sec:"), after(&text, "50%"), after(&text, "99%"), &slf[..])
        else {
            return Err(Error::other(format!("no figures: {text} {line}")));
        };
        let [median, p99] = [median, p99].map(|time| if time > 0.0 { time } else { f64::NAN });
        Ok(Served { gbps: bytes * 8.0 / 1e9, median, p99, slf: [came, left] })
    }

    fn nginx(&self, server: &Namespace) -> Result<RunningProgram> {
        let config = self.folder.path().join("nginx.conf");
        let running = server.spawn("nginx", &["-c", text(&config)?])?;
        // nginx prints nothing when it is ready, but then it writes its process id to a file.
        let pid = self.folder.path().join("pid");
        for _ in 0..100 {
            if pid.exists() {
                return Ok(running);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Error::other(std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()))
    }

    fn wrk(&self, clients: &Namespace, connections: usize, time: Duration) -> Result<String> {
        let seconds = format!("{}s", time.as_secs().max(1));
        let output = clients
            .command("wrk")
            .args([
                "-t",
                "1",
                "-c",
                &connections.to_string(),
                "-d",
                &seconds,
                "--timeout",
                "300s",
                "--latency",
            ])
            .arg(format!("http://{RIGHT}:{PORT}/{FILE}"))
            .output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Error::other("a path that is not text"))
}

/// Returns the value that follows `word` at the beginning of a line of wrk's report, converted by its unit: a
/// time to seconds, an amount of data to bytes.
fn after(text: &str, word: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(word))?;
    let value = line.split_whitespace().next()?;
    const KIB: f64 = 1024.0;
    let times = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let amounts = [("KB", KIB), ("MB", KIB * KIB), ("GB", KIB * KIB * KIB), ("B", 1.0)];
    let units = times.into_iter().chain(amounts);
    let with_unit =
        |(unit, factor): (&str, f64)| Some(value.strip_suffix(unit)?.parse::<f64>().ok()? * factor);
    value.parse().ok().or_else(|| units.into_iter().find_map(with_unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_understood() {
        let text = "  Latency Distribution\n     50%  120.50ms\n     99%    1.25s \nRequests/sec:    843.21\nTransfer/sec:      1.50MB\n";
        let told = ["50%", "99%", "Requests/sec:", "Transfer/sec:", "75%"].map(|word| after(text, word));
        assert_eq!(told, [Some(0.1205), Some(1.25), Some(843.21), Some(1_572_864.0), None]);
    }
}
