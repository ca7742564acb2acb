//! The XML file TRACEINFO, which AggregateIPFlows writes about flows that have ended.

use std::net::SocketAddr;

use element::{Cx, Timestamp};

use crate::report_file::ReportFile;

/// The data of a flow that has ended.
pub(super) struct Record {
    pub(super) aggregate: u32,
    /// The source and the destination of the flow's first packet, with ports.
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
    /// The position of the flow's first packet in its capture; `None` if it is unknown.
    pub(super) position: Option<u64>,
    /// The number of the flow's packets in the direction of the first packet, and in the other direction.
    pub(super) packets: [u64; 2],
}

/// An open XML file with one element per flow.
pub(super) struct TraceInfo(ReportFile);

impl TraceInfo {
    /// Creates the file and writes its head; `source` is the name of the capture that packets come from, if
    /// it is known.
    pub(super) fn create(path: &str, source: Option<&str>) -> Result<TraceInfo, String> {
        let mut file = ReportFile::create(path)?;
        let source = source.map_or(String::new(), |source| format!(" file='{source}'"));
        writeln!(file, "<?xml version='1.0' standalone='yes'?>\n<trace{source}>");
        Ok(TraceInfo(file))
    }

    pub(super) fn write(&mut self, flow: &Record) {
        write_flow(&mut self.0, flow);
    }

    /// Starts a timer to write buffered text, as [`ReportFile::set_timer`] does.
    pub(super) fn set_timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        self.0.set_timer(cx, token);
    }

    /// Writes the buffered text, as [`ReportFile::write_out`] does.
    pub(super) fn write_out(&mut self) {
        self.0.write_out();
    }

    /// Writes the end of the document (not to standard output), and closes the file.
    ///
    /// # Errors
    /// If a write failed.
    pub(super) fn close(mut self) -> Result<(), String> {
        if !self.0.is_standard_output() {
            writeln!(self.0, "</trace>");
        }
        self.0.close()
    }
}

fn write_flow(file: &mut ReportFile, flow: &Record) {
    let (from, to) = flow.ends;
    let [begin, duration] = [flow.begin, flow.end - flow.begin].map(Timestamp::with_nanoseconds);
    write!(file, "<flow aggregate='{}' src='{}' sport='{}'", flow.aggregate, from.ip(), from.port());
    write!(file, " dst='{}' dport='{}' begin='{begin}' duration='{duration}'", to.ip(), to.port());
    if let Some(position) = flow.position {
        write!(file, " filepos='{position}'");
    }
    let [there, back] = flow.packets;
    writeln!(file, ">\n  <stream dir='0' packets='{there}' /><stream dir='1' packets='{back}' />\n</flow>");
}
