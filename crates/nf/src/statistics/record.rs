//! The record of a flow's counts for FlowCounter, and the formats in which it is written.

use std::cmp::Reverse;
use std::fmt;
use std::net::SocketAddr;

use element::Timestamp;
use flow::FlowId;
use wire::FiveTuple;

/// The counts of a flow, which its packets change, in one cache line. If both directions of a connection are
/// one flow, the first of two numbers is for the direction of the first packet, and the second is for
/// replies. Otherwise the second number is zero.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Record {
    /// The flow's id in the table; `None` if the flow has ended, or has not begun.
    pub(super) id: Option<FlowId>,
    /// The time of the engine's clock when the flow's last packet came.
    pub(super) seen: Timestamp,
    /// The latest time stamp of the flow's packets.
    pub(super) last: Timestamp,
    pub(super) packets: [u64; 2],
    pub(super) bytes: [u64; 2],
    /// True if the first packet went in the direction opposite to the table's key, so that the key has the
    /// direction of the replies.
    pub(super) turned: bool,
}

const _: () = assert!(size_of::<Record>() == 64);

/// The data of a flow that hardly any packet changes but its first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The number of flows that began before this flow, by which flows are listed in order.
    pub(super) number: u64,
    /// The earliest time stamp of the flow's packets.
    pub(super) first: Timestamp,
}

impl Start {
    /// The start of no flow, for indices that no flow uses.
    pub(super) const NONE: Start = Start { number: 0, first: Timestamp::MAX };
}

impl Record {
    /// A record without packets, for indices that no flow uses.
    pub(super) const NONE: Record = Record {
        id: None,
        seen: Timestamp::ZERO,
        last: Timestamp(i64::MIN),
        packets: [0; 2],
        bytes: [0; 2],
        turned: false,
    };

    /// Counts packets that have this many bytes together. `turned` is true if the packets go in the direction
    /// opposite to the key of the flow in the flow table. `last` is the latest of the packets' time stamps.
    #[inline]
    pub(super) fn add(&mut self, (packets, bytes): (u64, u64), turned: bool, last: Timestamp) {
        let direction = usize::from(turned != self.turned);
        self.packets[direction] += packets;
        self.bytes[direction] += bytes;
        self.last = self.last.max(last);
    }

    /// True if a packet with this time stamp may be earlier than all packets that were counted, so that the
    /// flow's [`Start`] may change.
    #[inline]
    pub(super) fn may_be_first(&self, time: Timestamp) -> bool {
        time < self.last || self.packets == [0; 2]
    }
}

/// The data of one flow.
pub(super) type Flow<'a> = (&'a Record, &'a Start);

/// The count by which flows are compared in size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Packets,
    Bytes,
}

/// The choice of flows that the reader of a handler has made by the parameter: all flows, or the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The number of flows, the largest first, and the count by which they are compared; `None` for all
    /// flows, in the order in which they began.
    pub(super) largest: Option<(usize, By)>,
}

impl Wanted {
    /// Parses the parameter `[K [packets|bytes]]` of a handler. Without K, the number is `default`; without
    /// a unit, flows are compared by bytes.
    ///
    /// # Errors
    /// If the text has another form; the error names the expected form.
    pub(super) fn parse(text: &str, default: Option<usize>) -> Result<Wanted, String> {
        const EXPECTED: &str = "expected '[K [packets|bytes]]'";
        let mut words = text.split_whitespace();
        let number = match words.next() {
            Some(number) => Some(number.parse().map_err(|_| EXPECTED)?),
            None => default,
        };
        let by = match words.next() {
            None | Some("bytes") => By::Bytes,
            Some("packets") => By::Packets,
            Some(_) => return Err(EXPECTED.into()),
        };
        match words.next() {
            Some(_) => Err(EXPECTED.into()),
            None => Ok(Wanted { largest: number.map(|number| (number, by)) }),
        }
    }

    /// Returns the wanted flows: the `largest` ones, the largest first, or all, in the order in which the
    /// flows began. Flows of equal size are also in this order.
    pub(super) fn choose<'a>(self, flows: impl Iterator<Item = Flow<'a>>) -> Vec<Flow<'a>> {
        let mut chosen: Vec<Flow<'_>> = flows.collect();
        match self.largest {
            None => chosen.sort_unstable_by_key(|(_, start)| start.number),
            Some((k, by)) => {
                let sum = |counts: [u64; 2]| counts[0].saturating_add(counts[1]);
                let size = |record: &Record| match by {
                    By::Packets => sum(record.packets),
                    By::Bytes => sum(record.bytes),
                };
                chosen.sort_unstable_by_key(|(record, start)| (Reverse(size(record)), start.number));
                chosen.truncate(k);
            }
        }
        chosen
    }
}

/// An output format for a list of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Csv,
    Json,
    /// Lines of text for people to read.
    Lines,
}

/// The form of a document with flows: its format, and true in `replies` if packets and bytes of replies are
/// written, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) layout: Layout,
    pub(super) replies: bool,
}

impl Form {
    /// Returns the text at the start of a document: the head line of CSV, the opening bracket of JSON, or
    /// nothing.
    pub(super) fn head(self) -> &'static str {
        match (self.layout, self.replies) {
            (Layout::Csv, false) => concat!(
                "source,source_port,destination,destination_port,protocol,",
                "packets,bytes,first,last\n"
            ),
            (Layout::Csv, true) => concat!(
                "source,source_port,destination,destination_port,protocol,",
                "packets,bytes,first,last,reply_packets,reply_bytes\n"
            ),
            (Layout::Json, _) => "[",
            (Layout::Lines, _) => "",
        }
    }

    /// Returns the text ahead of each flow; for JSON, it separates the flow from the text ahead of it.
    pub(super) fn before(self, is_first: bool) -> &'static str {
        match self.layout {
            Layout::Json if is_first => "\n",
            Layout::Json => ",\n",
            _ => "",
        }
    }

    /// Returns the text at the end of a document; `is_empty` is true if the document has no flow.
    pub(super) fn tail(self, is_empty: bool) -> &'static str {
        match self.layout {
            Layout::Json if is_empty => "]\n",
            Layout::Json => "\n]\n",
            _ => "",
        }
    }
}

/// A flow, and the form in which its `Display` writes it.
pub(super) struct Row<'a> {
    pub(super) form: Form,
    /// The five-tuple of the flow's key in the flow table. If the record is `turned`, the flow has the
    /// opposite direction, and the five-tuple is reversed when it is written.
    pub(super) tuple: FiveTuple,
    pub(super) flow: Flow<'a>,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { form, tuple, flow: (record, Start { first, .. }) } = self;
        let tuple = if record.turned { tuple.reversed() } else { *tuple };
        let (source, destination) = (tuple.source(), tuple.destination());
        let (source_port, destination_port) = (tuple.source_port(), tuple.destination_port());
        let Record { last, packets: [packets, back], bytes: [bytes, bytes_back], .. } = record;
        let protocol = tuple.protocol();
        match form.layout {
            Layout::Csv => {
                write!(f, "{source},{source_port},{destination},{destination_port},{protocol},")?;
                write!(f, "{packets},{bytes},{first},{last}")?;
                if form.replies {
                    write!(f, ",{back},{bytes_back}")?;
                }
                f.write_str("\n")
            }
            Layout::Json => {
                write!(f, "{{\"source\": \"{source}\", \"source_port\": {source_port}, ")?;
                write!(f, "\"destination\": \"{destination}\", \"destination_port\": {destination_port}, ")?;
                write!(f, "\"protocol\": {protocol}, \"packets\": {packets}, \"bytes\": {bytes}, ")?;
                write!(f, "\"first\": {first}, \"last\": {last}")?;
                if form.replies {
                    write!(f, ", \"reply_packets\": {back}, \"reply_bytes\": {bytes_back}")?;
                }
                f.write_str("}")
            }
            Layout::Lines => {
                let from = SocketAddr::new(source, source_port);
                let to = SocketAddr::new(destination, destination_port);
                write!(f, "{from} > {to} {protocol} {packets} {bytes}")?;
                if form.replies {
                    write!(f, " {back} {bytes_back}")?;
                }
                f.write_str("\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u64, packets: u64, bytes: u64) -> (Record, Start) {
        let record = Record { packets: [packets, 0], bytes: [bytes, 0], ..Record::NONE };
        (record, Start { number, ..Start::NONE })
    }

    #[test]
    fn the_largest_come_first_and_ties_keep_their_order() {
        let flows = [flow(0, 5, 10), flow(1, 1, 99), flow(2, 9, 10), flow(3, 0, 98)];
        let numbers = |text: &str| -> Vec<u64> {
            let wanted = Wanted::parse(text, None).unwrap();
            let flows = flows.iter().rev().map(|(record, start)| (record, start));
            wanted.choose(flows).iter().map(|(_, start)| start.number).collect()
        };
        assert_eq!(numbers(""), [0, 1, 2, 3]);
        assert_eq!(numbers("3"), [1, 3, 0]);
        assert_eq!(numbers("2 packets"), [2, 0]);
        assert_eq!(numbers("9 bytes"), [1, 3, 0, 2]);
        assert_eq!(numbers("0"), [0u64; 0]);
        for bad in ["x", "-1", "3 flows", "3 bytes more", "99999999999999999999999"] {
            assert!(Wanted::parse(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flow_in_each_form() {
        let tuple = FiveTuple::v4(([10, 0, 0, 1].into(), 7), ([10, 0, 0, 2].into(), 8), 17);
        let record = Record {
            turned: true,
            last: Timestamp(2_000_000_001),
            packets: [3, 1],
            bytes: [300, 40],
            ..Record::NONE
        };
        let start = Start { first: Timestamp(1_500_000_000), ..Start::NONE };
        let row = |layout, replies| {
            let form = Form { layout, replies };
            Row { form, tuple, flow: (&record, &start) }.to_string()
        };
        assert_eq!(row(Layout::Csv, false), "10.0.0.2,8,10.0.0.1,7,17,3,300,1.500000,2.000000001\n");
        assert_eq!(row(Layout::Csv, true), "10.0.0.2,8,10.0.0.1,7,17,3,300,1.500000,2.000000001,1,40\n");
        assert_eq!(row(Layout::Lines, true), "10.0.0.2:8 > 10.0.0.1:7 17 3 300 1 40\n");
        let json = "{\"source\": \"10.0.0.2\", \"source_port\": 8, \"destination\": \"10.0.0.1\", \
                    \"destination_port\": 7, \"protocol\": 17, \"packets\": 3, \"bytes\": 300, \
                    \"first\": 1.500000, \"last\": 2.000000001}";
        assert_eq!(row(Layout::Json, false), json);
    }
}
