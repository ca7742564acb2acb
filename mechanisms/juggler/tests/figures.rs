//! Tests of the flow table: the examples of the Juggler paper (figures 6, 7 and 8), evictions and time-outs.

use element::Timestamp;
use juggler::flows::{EvictionList, FlowPhase, Flows, FlushReason, Limits, Taken};
use juggler::key;
use juggler::queue::Piece;
use packet::Pool;
use testkit::timed::{frame, tcp, udp};
use wire::tcp::flags::ACK;

const INSEQ: Timestamp = Timestamp(50_000);
const OFO: Timestamp = Timestamp(100_000);
/// The number of data bytes in a segment; the Juggler paper numbers segments instead of bytes.
const SIZE: u32 = 100;

/// A flow table for segments that are named by number, as in the Juggler paper, with a clock that the test
/// sets.
struct Table {
    pool: Pool,
    flows: Flows,
    now: Timestamp,
}

impl Table {
    fn new(flows: usize) -> Table {
        let limits = Limits { flows, in_sequence: INSEQ, out_of_order: OFO, slots: 1000, merges: true };
        Table {
            pool: Pool::new(64 << 20).unwrap(),
            flows: Flows::new(limits).unwrap(),
            now: Timestamp::from_secs(1),
        }
    }

    /// Passes segment `number` of a flow to the table; returns the index of its flow.
    fn take(&mut self, flow: u16, number: u32) -> u32 {
        self.take_long(flow, number, 1)
    }

    /// Passes segment `number` of a flow to the table, with as much data as `segments` segments have; returns
    /// the index of its flow.
    fn take_long(&mut self, flow: u16, number: u32, segments: u32) -> u32 {
        let data = vec![7; (segments * SIZE) as usize];
        let bytes = frame(tcp(flow, ACK, number * SIZE, 1).id(number as u16), &data);
        let packet = self.pool.packet(&bytes).unwrap();
        let (segment, key) = key::locate(&packet).unwrap();
        let data = segment.verify(packet.chunks());
        let hash = u32::from(flow);
        let found = self.flows.find(&key, hash, None);
        let index =
            found.or_else(|| self.flows.open(&key, hash, segment.sequence, true, true, self.now)).unwrap();
        let at_once = self.flows.take(
            index,
            Piece { packet, segment: &segment, data, merges: true, may_repeat_id: false, mark: 0 },
            self.now,
        );
        assert!(matches!(at_once, Taken::Held), "it is to be merged");
        index
    }

    /// Passes a datagram to the table; returns the index of its flow, `None` if it finds no room.
    fn take_datagram(&mut self, flow: u16) -> Option<u32> {
        let packet = self.pool.packet(&udp(flow, 0)).unwrap();
        let (segment, key) = key::locate(&packet).unwrap();
        let hash = u32::from(flow) << 16;
        let found = self.flows.find(&key, hash, None);
        let index = found.or_else(|| self.flows.open(&key, hash, 0, false, true, self.now));
        let data = segment.verify(packet.chunks());
        match index {
            Some(index) => {
                let piece =
                    Piece { packet, segment: &segment, data, merges: true, may_repeat_id: false, mark: 0 };
                self.flows.take_unordered(index, piece, self.now);
            }
            None => self.pool.free(packet),
        }
        index
    }

    /// Advances time, and flushes segments that are due.
    fn wait(&mut self, time: Timestamp) {
        self.now = self.now + time;
        self.flows.finish(self.now);
    }

    /// Returns the packets that have left since the last call: the first and the last segment of each, and
    /// the reason.
    fn left(&mut self) -> Vec<(u32, u32, FlushReason)> {
        let runs = self.flows.released.drain(..);
        let pool = &mut self.pool;
        runs.map(|(run, reason)| {
            let numbers = (run.start / SIZE, (run.end / SIZE).saturating_sub(1), reason);
            pool.free(run.chain.into_packet());
            numbers
        })
        .collect()
    }

    /// Returns the phase of a flow, the number of its next segment, and the number of its first missing
    /// segment (valid in loss recovery).
    fn state(&self, index: u32) -> (FlowPhase, u32, u32) {
        let (phase, next, lost) = self.flows.state(index);
        (phase, next / SIZE, lost / SIZE)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.flows.clear(FlushReason::Drain);
        self.left();
    }
}

#[test]
fn figure_6_what_went_before_is_not_waited_for() {
    let mut table = Table::new(8);
    let flow = table.take(1, 3);
    table.take(1, 5);
    assert_eq!(table.state(flow), (FlowPhase::BuildUp, 3, 0));
    table.take(1, 2);
    assert_eq!(table.state(flow), (FlowPhase::BuildUp, 2, 0), "the guess goes back");
    table.wait(Timestamp(0));
    assert!(table.left().is_empty());
    table.wait(INSEQ);
    assert_eq!(table.left(), [(2, 3, FlushReason::InSequenceTimeout)]);
    assert_eq!(table.state(flow), (FlowPhase::ActiveMerging, 4, 0));
    // A segment before the next expected segment passes at once. The expected sequence number does not
    // decrease any more, because the flow has left the phase `BuildUp`.
    table.take(1, 1);
    assert_eq!(table.left(), [(1, 1, FlushReason::Before)]);
    assert_eq!(table.state(flow), (FlowPhase::ActiveMerging, 4, 0));
    table.take(1, 4);
    table.wait(INSEQ);
    assert_eq!(table.left(), [(4, 5, FlushReason::InSequenceTimeout)]);
    assert_eq!(table.state(flow), (FlowPhase::PostMerging, 6, 0));
    assert_eq!(table.flows.length(EvictionList::Inactive), 1);
}

#[test]
fn figure_7_a_flow_recovers_when_its_first_hole_is_filled() {
    let mut table = Table::new(8);
    let flow = table.take(1, 0);
    table.wait(INSEQ);
    assert_eq!(table.left(), [(0, 0, FlushReason::InSequenceTimeout)]);
    for number in [2, 3, 5] {
        table.take(1, number);
    }
    table.wait(OFO);
    assert_eq!(
        table.left(),
        [(2, 3, FlushReason::OutOfOrderTimeout), (5, 5, FlushReason::OutOfOrderTimeout)]
    );
    assert_eq!(table.state(flow), (FlowPhase::LossRecovery, 6, 1));
    assert_eq!(
        (table.flows.length(EvictionList::LossRecovery), table.flows.length(EvictionList::Active)),
        (1, 0)
    );
    table.take(1, 7);
    table.take(1, 6);
    table.take(1, 1);
    assert_eq!(table.left(), [(1, 1, FlushReason::Before)]);
    // Segment 4 is still missing, but loss recovery ends with the first missing segment.
    assert_eq!(table.state(flow).0, FlowPhase::ActiveMerging);
    assert_eq!(
        (table.flows.length(EvictionList::LossRecovery), table.flows.length(EvictionList::Active)),
        (0, 1)
    );
    table.wait(INSEQ);
    assert_eq!(table.left(), [(6, 7, FlushReason::InSequenceTimeout)]);
}

#[test]
fn figure_8_a_flow_that_had_to_go_with_a_hole_waits_in_vain() {
    let mut table = Table::new(1);
    table.take(1, 0);
    table.wait(INSEQ);
    table.left();
    table.take(1, 2);
    table.take(1, 3);
    // Another flow evicts the only entry.
    table.take(2, 50);
    assert_eq!(table.left(), [(2, 3, FlushReason::Evicted)]);
    assert_eq!(table.flows.counts.evictions[EvictionList::Gap as usize], 1);
    table.wait(INSEQ);
    table.left();
    table.take(1, 4);
    let flow = table.take(1, 1);
    assert_eq!(table.flows.counts.evictions[EvictionList::Inactive as usize], 1);
    assert_eq!(table.state(flow), (FlowPhase::BuildUp, 1, 0));
    table.wait(INSEQ);
    assert_eq!(table.left(), [(1, 1, FlushReason::InSequenceTimeout)]);
    table.wait(OFO);
    assert_eq!(table.left(), [(4, 4, FlushReason::OutOfOrderTimeout)]);
    assert_eq!(table.state(flow), (FlowPhase::LossRecovery, 5, 2));
}

#[test]
fn inactive_flows_give_way_first_and_those_in_recovery_last() {
    let mut table = Table::new(3);
    // Set up: flow 1 in loss recovery, flow 2 inactive, flow 3 active. Flow 1 is the oldest, but flow 2
    // must be evicted first.
    table.take(1, 0);
    table.wait(INSEQ);
    table.take(1, 2);
    table.wait(OFO);
    table.take(2, 0);
    table.wait(INSEQ);
    table.take(3, 0);
    let lengths = |table: &Table| EvictionList::ALL.map(|list| table.flows.length(list));
    assert_eq!(lengths(&table), [0, 1, 1, 0, 1]);
    table.take(4, 0);
    assert_eq!(lengths(&table), [0, 0, 2, 0, 1]);
    // Of the active flows 3 and 4, the one that has been active longer is evicted.
    table.left();
    table.take(5, 0);
    assert_eq!(table.left(), [(0, 0, FlushReason::Evicted)]);
    table.take(6, 0);
    assert_eq!((lengths(&table), table.flows.counts.evictions), ([0, 0, 2, 0, 1], [0, 1, 2, 0, 0]));
    // If the table has only a flow in loss recovery, that flow is evicted.
    let mut table = Table::new(1);
    table.take(1, 0);
    table.wait(INSEQ);
    table.take(1, 2);
    table.wait(OFO);
    table.take(2, 0);
    assert_eq!(table.flows.counts.evictions, [0, 0, 0, 0, 1]);
}

#[test]
fn flows_without_a_gap_give_way_before_those_with_one() {
    let mut table = Table::new(3);
    // Flow 1 has been active longest, but waits after a gap, so it must outlive the others.
    let flow = table.take(1, 0);
    table.wait(INSEQ);
    table.left();
    table.take(1, 2);
    for other in 2..100 {
        table.take(other, 0);
    }
    assert_eq!(table.flows.counts.evictions, [0, 0, 96, 0, 0]);
    assert!(table.left().iter().all(|left| *left == (0, 0, FlushReason::Evicted)));
    table.take(1, 1);
    table.wait(INSEQ);
    assert!(table.left().contains(&(1, 2, FlushReason::InSequenceTimeout)));
    assert_eq!(table.state(flow), (FlowPhase::PostMerging, 3, 0));
    // If all flows have a gap, one of them is evicted.
    let mut table = Table::new(2);
    for flow in [1, 2] {
        table.take(flow, 0);
        table.take(flow, 2);
    }
    table.take(3, 0);
    assert_eq!(table.flows.counts.evictions, [0, 0, 0, 1, 0]);
}

#[test]
fn datagrams_make_no_flow_give_way_of_which_segments_wait() {
    let mut table = Table::new(3);
    table.take(1, 0);
    table.take(2, 0);
    table.wait(INSEQ);
    table.take(2, 1);
    // There is one free entry, which each of three flows of datagrams takes over from the one before. No
    // TCP flow is evicted.
    assert_eq!([1, 2, 3].map(|flow| table.take_datagram(flow).is_some()), [true; 3]);
    assert_eq!(table.flows.counts.evictions, [2, 0, 0, 0, 0]);
    table.take(3, 0);
    assert_eq!(table.flows.counts.evictions, [3, 0, 0, 0, 0]);
    assert!(table.take_datagram(4).is_some());
    assert_eq!(table.flows.counts.evictions, [3, 1, 0, 0, 0], "nothing waits of the first one");
    table.take(4, 0);
    assert!(table.take_datagram(5).is_none(), "it passes");
    assert_eq!(table.flows.counts.evictions, [4, 1, 0, 0, 0]);
    // A TCP flow that has been silent for a second is evicted before flows of datagrams.
    let mut table = Table::new(2);
    table.take(1, 0);
    table.wait(INSEQ);
    table.wait(Timestamp::from_secs(1));
    table.take_datagram(1);
    table.take_datagram(2);
    assert_eq!(table.flows.counts.evictions, [0, 1, 0, 0, 0]);
}

#[test]
fn reordering_is_measured_across_evictions() {
    let mut table = Table::new(1);
    for (number, other) in [(0, 2), (2, 3), (1, 4), (3, 5), (1, 6)] {
        table.take(1, number);
        table.take(other, 7);
    }
    assert_eq!(table.flows.counts.reordered, [2, 2]);
    assert_eq!(table.flows.counts.evictions, [0, 0, 9, 0, 0]);
    // A connection with sequence numbers far away is a different connection, and so is a connection a
    // second later: no reordering is counted.
    table.take(1, 20_000_000);
    table.take(2, 8);
    table.wait(Timestamp::from_secs(1));
    table.take(1, 19_999_999);
    table.take(2, 9);
    assert_eq!(table.flows.counts.reordered, [2, 2]);
    // Clearing the table also removes the sequence numbers that are saved for evicted flows.
    table.take(1, 10);
    table.take(2, 10);
    table.flows.clear(FlushReason::Drain);
    table.take(1, 9);
    assert_eq!(table.flows.counts.reordered, [2, 2]);
}

#[test]
fn a_connection_opened_out_of_sight_is_learnt_again() {
    let mut table = Table::new(4);
    let flow = table.take(1, 1_000_000);
    table.wait(INSEQ);
    table.left();
    // The sequence numbers of the next connection are far lower. A run of 200 segments is no retransmission,
    // and the flow learns the next sequence number again.
    for number in 0..200 {
        table.take(1, number);
    }
    table.wait(INSEQ);
    table.wait(INSEQ);
    assert_eq!(table.state(flow), (FlowPhase::PostMerging, 200, 0));
    // One large segment has as many slots as interfaces take, the other has the remaining segments.
    let merged = table.left().into_iter().filter(|(first, last, _)| first < last).count();
    assert_eq!(merged, 2);
}

#[test]
fn segments_that_are_sent_again_do_not_start_a_flow_anew() {
    let mut table = Table::new(4);
    let flow = table.take(1, 0);
    (1..200).for_each(|number| _ = table.take(1, number));
    table.wait(INSEQ);
    table.wait(INSEQ);
    table.left();
    // The sender retransmits many segments, more than once; each passes.
    for number in (50..190).chain(0..180) {
        table.take(1, number);
        assert_eq!(table.left(), [(number, number, FlushReason::Before)]);
    }
    assert_eq!(table.state(flow), (FlowPhase::PostMerging, 200, 0));
    // After the retransmissions, a new segment waits only to be merged: nothing is missing.
    table.take(1, 200);
    table.wait(INSEQ);
    assert_eq!(table.left(), [(200, 200, FlushReason::InSequenceTimeout)]);
}

#[test]
fn time_counts_from_the_first_segment_that_waits() {
    let mut table = Table::new(4);
    table.take(1, 0);
    table.wait(INSEQ);
    assert_eq!(table.left(), [(0, 0, FlushReason::InSequenceTimeout)]);
    // After a pause, INSEQ counts from the first segment that waits, not from the last flush.
    table.wait(Timestamp(10 * INSEQ.0));
    for number in 1..5 {
        table.take(1, number);
        table.wait(Timestamp(INSEQ.0 / 5));
        assert_eq!(table.left(), []);
    }
    table.wait(Timestamp(INSEQ.0 / 5 - 1));
    assert_eq!(table.left(), []);
    assert_eq!(table.flows.next_due(), Some(table.now + Timestamp(1)));
    table.wait(Timestamp(1));
    assert_eq!(table.left(), [(1, 4, FlushReason::InSequenceTimeout)]);
}

#[test]
fn what_has_gone_as_parts_of_others_waits_for_nothing() {
    let mut table = Table::new(4);
    table.take(1, 0);
    table.wait(INSEQ);
    table.left();
    // Segments 2 and 3 wait after a gap, each twice, with a segment that covers both. When the gap closes,
    // all must leave.
    for number in [2, 2, 3, 3] {
        table.take(1, number);
    }
    table.take_long(1, 2, 2);
    table.take(1, 1);
    let left: Vec<_> = table.left().into_iter().map(|(first, last, _)| (first, last)).collect();
    assert_eq!(table.flows.held(), 0, "{left:?}");
    assert_eq!(left, [(1, 2), (2, 3), (2, 3), (3, 3)]);
}
