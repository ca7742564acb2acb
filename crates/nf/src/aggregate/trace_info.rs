//! The XML file that AggregateIPFlows writes about flows that have ended.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;

use element::Timestamp;

use crate::printers::reason;

/// What is said of a flow.
pub(super) struct Record {
    pub(super) aggregate: u32,
    /// Who sent its first packet, and to whom.
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
    /// Where its first packet stands in its capture.
    pub(super) position: Option<u64>,
    /// Packets in each direction.
    pub(super) packets: [u64; 2],
}

/// A file of flows.
pub(super) struct TraceInfo {
    path: String,
    file: BufWriter<Box<dyn Write + Send>>,
    fault: Option<io::Error>,
}

impl TraceInfo {
    /// Creates the file; `source` is the capture that packets come from.
    pub(super) fn create(path: &str, source: Option<&str>) -> Result<TraceInfo, String> {
        let file: Box<dyn Write + Send> = match path {
            "-" => Box::new(io::stdout()),
            path => Box::new(File::create(path).map_err(|error| format!("{path}: {}", reason(&error)))?),
        };
        let mut info = TraceInfo { path: path.to_string(), file: BufWriter::new(file), fault: None };
        let source = source.map_or(String::new(), |source| format!(" file='{source}'"));
        let head = format!("<?xml version='1.0' standalone='yes'?>\n<trace{source}>\n");
        let written = info.file.write_all(head.as_bytes());
        info.note(written);
        Ok(info)
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }

    pub(super) fn write(&mut self, flow: &Record) {
        let written = write_flow(&mut self.file, flow);
        self.note(written);
    }

    /// Ends the file.
    pub(super) fn close(mut self) -> Result<(), String> {
        if self.path != "-" {
            let written = self.file.write_all(b"</trace>\n");
            self.note(written);
        }
        let flushed = self.file.flush();
        self.note(flushed);
        self.fault.map_or(Ok(()), |error| Err(format!("{}: {}", self.path, reason(&error))))
    }
}

fn write_flow(file: &mut impl Write, flow: &Record) -> io::Result<()> {
    let (from, to) = flow.ends;
    let (begin, duration) = (flow.begin, flow.end - flow.begin);
    write!(file, "<flow aggregate='{}' src='{}' sport='{}'", flow.aggregate, from.ip(), from.port())?;
    write!(file, " dst='{}' dport='{}' begin='{begin}' duration='{duration}'", to.ip(), to.port())?;
    if let Some(position) = flow.position {
        write!(file, " filepos='{position}'")?;
    }
    let [there, back] = flow.packets;
    write!(file, ">\n  <stream dir='0' packets='{there}' /><stream dir='1' packets='{back}' />\n</flow>\n")
}
