//! The two passes over captures that run the analyses.
//!
//! The first pass ([`Analyzer`]) runs most analyses at once. The second pass ([`SecondPass`]) runs the
//! analyses that can start only if all flows are known, because they select large flows or busy addresses.

use capture::Record;
use flow::TableError;
use wire::{FiveTuple, ip_protocol};

use crate::analysis::batches::{Acks, Batches, CAP};
use crate::analysis::clock::Clock;
use crate::analysis::concurrency::Concurrency;
use crate::analysis::distances::Distances;
use crate::analysis::locality::Locality;
use crate::analysis::reordering::SequenceTracker;
use crate::analysis::slicing::Slicing;
use crate::analysis::switches::Switches;
use crate::analysis::top::Top;
use crate::analysis::totals::{Amount, Totals};
use crate::analysis::{Accumulator, LARGE};
use crate::filter::Selection;
use crate::flows::FlowNumbers;
use crate::histogram::ratio;
use crate::packet::{Dissected, Member, TracePacket};
use crate::report::TraceReport;

/// The selection of packets to analyze, and the optional results.
#[derive(Default)]
pub struct Options {
    /// The packets to analyze; all by default.
    pub selection: Selection,
    /// The number of addresses to report in detail: the addresses with the most TCP flows. 0 leaves out this
    /// analysis.
    pub top_addresses: u16,
}

/// The number of packets that are collected before they are processed, so that the memory accesses for
/// their flows overlap.
const TOGETHER: usize = 32;

/// The first pass, which runs most analyses at once. Its [`finish`](Self::finish) returns the second pass.
pub struct Analyzer {
    options: Options,
    clock: Clock,
    flows: FlowNumbers,
    /// Selected packets that are not processed yet. `tuples` holds the five-tuples of the packets that have
    /// a flow, in the same order.
    waiting: Vec<TracePacket>,
    tuples: Vec<FiveTuple>,
    numbers: Vec<u32>,
    totals: Totals,
    locality: Locality,
    switches: Switches,
    batches: Batches,
    uncapped: Batches,
    acks: Acks,
    distances: Distances,
    concurrency: Concurrency,
    order: SequenceTracker,
    slicing: Slicing,
}

impl Analyzer {
    /// Starts an analysis without packets.
    ///
    /// # Errors
    /// If the system has no memory for the table of flows.
    pub fn new(options: Options) -> Result<Analyzer, TableError> {
        Ok(Analyzer {
            options,
            clock: Clock::default(),
            flows: FlowNumbers::new()?,
            waiting: Vec::with_capacity(TOGETHER),
            tuples: Vec::with_capacity(TOGETHER),
            numbers: Vec::with_capacity(TOGETHER),
            totals: Totals::default(),
            locality: Locality::default(),
            switches: Switches::default(),
            batches: Batches::new(CAP),
            uncapped: Batches::new(u32::MAX),
            acks: Acks::default(),
            distances: Distances::default(),
            concurrency: Concurrency::default(),
            order: SequenceTracker::default(),
            slicing: Slicing::default(),
        })
    }

    /// Starts another capture, whose packets follow. Captures form one trace.
    pub fn begin(&mut self) {
        self.clock.begin();
    }

    /// Restarts the analyses of batches (also of ACKs), of distances between packets of a flow, and of
    /// concurrent flows, at a packet that begins a capture with an earlier time. Otherwise they would compare
    /// times of different captures.
    #[cold]
    fn restart(&mut self) {
        self.batches.restart();
        self.uncapped.restart();
        self.acks.restart();
        self.distances.restart();
        self.concurrency.restart();
    }

    /// Adds the next packet of the capture to the analysis, if it is selected. The packet waits until
    /// `TOGETHER` packets can be processed together, or until a restart or the end.
    ///
    /// # Errors
    /// If the system has no memory for more flows.
    #[inline]
    pub fn observe(&mut self, record: &Record<'_>) -> Result<(), TableError> {
        let dissected = Dissected::locate(record);
        if !self.options.selection.selects(&dissected) {
            return Ok(());
        }
        if self.clock.goes_back(dissected.time) {
            self.settle()?;
            self.restart();
        }
        // The numbers of flows are looked up for all waiting packets together; until then, each packet has
        // the flow number 0.
        let tuple = dissected.tuple();
        self.waiting.push(dissected.packet(tuple.map(|_| dissected.member(0, 0))));
        self.tuples.extend(tuple);
        if self.waiting.len() >= TOGETHER { self.settle() } else { Ok(()) }
    }

    /// Looks up the flows of all waiting packets, prefetches their state, and passes the packets to the
    /// analyses.
    fn settle(&mut self) -> Result<(), TableError> {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.flows.number_all(&self.tuples, &mut self.numbers)?;
        for &number in &self.numbers {
            self.flows.prefetch(number);
        }
        let members = waiting.iter_mut().filter_map(|packet| packet.flow.as_mut());
        for (member, &number) in members.zip(&self.numbers) {
            (member.number, member.ordinal) = (number, self.flows.ordinal(number));
            self.prefetch(member);
        }
        for packet in &waiting {
            self.look_at(packet);
        }
        waiting.clear();
        self.waiting = waiting;
        self.tuples.clear();
        Ok(())
    }

    #[inline]
    fn prefetch(&self, flow: &Member) {
        self.totals.prefetch(flow);
        self.switches.prefetch(flow);
        self.batches.prefetch(flow);
        self.uncapped.prefetch(flow);
        self.acks.prefetch(flow);
        self.distances.prefetch(flow);
        self.order.prefetch(flow);
        if flow.is_tcp() {
            self.concurrency.prefetch(flow.ordinal);
        }
    }

    #[inline]
    fn look_at(&mut self, packet: &TracePacket) {
        self.totals.observe(packet);
        self.locality.observe(packet);
        self.switches.observe(packet);
        self.batches.observe(packet);
        self.uncapped.observe(packet);
        self.acks.observe(packet);
        self.distances.observe(packet);
        self.order.observe(packet);
        self.slicing.observe(packet);
        self.concurrency.start(packet.time);
        if let Some(flow) = packet.flow.filter(|flow| flow.is_tcp()) {
            self.concurrency.take(flow.ordinal, packet.time);
        }
    }

    /// Returns the report of the first pass, and the second pass, which has to observe the same packets
    /// again if [`SecondPass::is_needed`] is true.
    ///
    /// # Errors
    /// If the system has no memory for more flows.
    pub fn finish(mut self) -> Result<(TraceReport, SecondPass), TableError> {
        self.settle()?;
        let (flows, totals) = (self.flows, self.totals);
        let tcp = (0..flows.len() as u32).filter(|&number| flows.is_tcp(number)).count() as u64;
        let measured = self.distances.finish();
        let reordering = self.order.finish();
        let seconds = totals.seconds();
        let mut report = TraceReport {
            packets: totals.all.packets,
            bytes: totals.all.bytes,
            flows: flows.len() as u64,
            tcp_flows: tcp,
            duration_s: seconds,
            packets_per_s: ratio(totals.all.packets as f64, seconds),
            bits_per_s: ratio(totals.all.bytes as f64 * 8.0, seconds),
            slf: self.locality.finish(),
            mean_packet_bytes: ratio(totals.all.bytes as f64, totals.all.packets as f64),
            kinds: totals.kinds,
            cut_packets: totals.cut,
            packets_behind: self.clock.behind,
            flow_sizes: totals.flow_sizes(&flows, false),
            tcp_flow_sizes: totals.flow_sizes(&flows, true),
            switches: self.switches.finish(),
            batch: self.batches.finish(),
            batch_uncapped: self.uncapped.finish(),
            ack_coalescing: self.acks.finish(),
            spatial_distance: measured.spatial,
            temporal_distance_ns: measured.temporal,
            concurrent_flows_150us: self.concurrency.finish(),
            tcp_reordered_ratio: reordering.ratio(),
            tcp_reordering: reordering,
            sliceable: self.slicing.finish(),
            ..TraceReport::default()
        };
        let large: Vec<bool> = totals
            .flows
            .iter()
            .enumerate()
            .map(|(number, amount)| amount.bytes > LARGE && flows.is_tcp(number as u32))
            .collect();
        report.large_tcp_flows = large.iter().filter(|large| **large).count() as u64;
        let top = (self.options.top_addresses > 0).then(|| Top::choose(&flows, self.options.top_addresses));
        let sizes = totals.flows.clone();
        report.packet_bytes = totals.finish();
        let selection = self.options.selection;
        let (clock, concurrency) = (Clock::default(), Concurrency::default());
        Ok((report, SecondPass { selection, clock, flows, sizes, large, concurrency, top }))
    }
}

/// The second pass over the same packets. It counts concurrent large TCP flows and the batches of the
/// busiest addresses. Both selections are known only after the first pass.
pub struct SecondPass {
    selection: Selection,
    clock: Clock,
    flows: FlowNumbers,
    sizes: Vec<Amount>,
    /// A table by flow number: true for a TCP flow of more than [`LARGE`] bytes.
    large: Vec<bool>,
    concurrency: Concurrency,
    top: Option<Top>,
}

impl SecondPass {
    /// True if the pass has something to measure: if there are large flows, or addresses to report.
    pub fn is_needed(&self) -> bool {
        self.top.is_some() || self.large.contains(&true)
    }

    /// Starts another capture, whose packets follow.
    pub fn begin(&mut self) {
        self.clock.begin();
    }

    /// Adds the next packet, if it is selected and belongs to a TCP flow. The captures must be passed in
    /// the same order as in the first pass.
    #[inline]
    pub fn observe(&mut self, record: &Record<'_>) {
        let dissected = Dissected::locate(record);
        if !self.selection.selects(&dissected) {
            return;
        }
        if self.clock.goes_back(dissected.time) {
            self.concurrency.restart();
            self.top.iter_mut().for_each(Top::restart);
        }
        self.concurrency.start(dissected.time);
        if dissected.layers.protocol != Some(ip_protocol::TCP) {
            return;
        }
        let number = dissected.tuple().and_then(|tuple| self.flows.find(&tuple));
        let Some(number) = number else { return };
        let flow = dissected.member(number, self.flows.ordinal(number));
        let packet = dissected.packet(Some(flow));
        if self.large.get(flow.number as usize) == Some(&true) {
            self.concurrency.take(flow.ordinal, packet.time);
        }
        if let Some(top) = &mut self.top {
            top.observe(&packet);
        }
    }

    /// Adds the results of the second pass to the report of the first.
    pub fn finish(self, report: &mut TraceReport) {
        report.concurrent_large_flows_150us = self.concurrency.finish();
        if let Some(top) = self.top {
            report.top_ips = top.finish(&self.sizes);
        }
    }
}
