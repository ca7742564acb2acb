//! The record of a flow's counts for FlowCounter, and the formats in which it is written.

use std::cmp::Reverse;
use std::fmt;
use std::net::SocketAddr;

use element::Timestamp;
use flow::FlowId;
use wire::FiveTuple;

/// The counts of a flow. If both directions of a connection are one flow, the first of two numbers is for the
/// direction of the first packet, and the second is for replies. Otherwise the second number is zero.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The flow's id in the table; `None` if the flow has ended, or has not begun.
    pub(super) id: Option<FlowId>,
    /// The number of flows that began before this flow, by which flows are listed in order.
    pub(super) number: u64,
    /// True if the first packet went in the direction opposite to the table's key, so that the key has the
    /// direction of the replies.
    pub(super) turned: bool,
    /// The earliest time stamp of the flow's packets.
    pub(super) first: Timestamp,
    /// The latest time stamp of the flow's packets.
    pub(super) last: Timestamp,
    pub(super) packets: [u64; 2],
    pub(super) bytes: [u64; 2],
}

impl Record {
    /// A record without packets, for indices that no flow uses.
    pub(super) const NONE: Record = Record {
        id: None,
        number: 0,
        turned: false,
        first: Timestamp::MAX,
        last: Timestamp(i64::MIN),
        packets: [0; 2],
        bytes: [0; 2],
    };

    /// Counts packets that have this many bytes together. `turned` is true if the packets go in the direction
    /// opposite to the key of the flow in the flow table. `first` and `last` are the earliest and the latest
    /// of the packets' time stamps.
    #[inline]
    pub(super) fn add(
        &mut self,
        (packets, bytes): (u64, u64),
        turned: bool,
        (first, last): (Timestamp, Timestamp),
    ) {
        let direction = usize::from(turned != self.turned);
        self.packets[direction] += packets;
        self.bytes[direction] += bytes;
        self.first = self.first.min(first);
        self.last = self.last.max(last);
    }
}

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

    /// Returns the records of the wanted flows: the `largest` ones, the largest first, or all, in the order
    /// in which the flows began. Records of equal size are also in this order.
    pub(super) fn choose<'a>(self, records: impl Iterator<Item = &'a Record>) -> Vec<&'a Record> {
        let mut chosen: Vec<&Record> = records.collect();
        match self.largest {
            None => chosen.sort_unstable_by_key(|record| record.number),
            Some((k, by)) => {
                let sum = |counts: [u64; 2]| counts[0].saturating_add(counts[1]);
                let size = |record: &Record| match by {
                    By::Packets => sum(record.packets),
                    By::Bytes => sum(record.bytes),
                };
                chosen.sort_unstable_by_key(|record| (Reverse(size(record)), record.number));
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
    pub(super) record: &'a Record,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { form, tuple, record } = self;
        let tuple = if record.turned { tuple.reversed() } else { *tuple };
        let (source, destination) = (tuple.source(), tuple.destination());
        let (source_port, destination_port) = (tuple.source_port(), tuple.destination_port());
        let Record { first, last, packets: [packets, back], bytes: [bytes, bytes_back], .. } = record;
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

    fn record(number: u64, packets: u64, bytes: u64) -> Record {
        Record { number, packets: [packets, 0], bytes: [bytes, 0], ..Record::NONE }
    }

    #[test]
    fn the_largest_come_first_and_ties_keep_their_order() {
        let records = [record(0, 5, 10), record(1, 1, 99), record(2, 9, 10), record(3, 0, 98)];
        let numbers = |text: &str| -> Vec<u64> {
            let wanted = Wanted::parse(text, None).unwrap();
            wanted.choose(records.iter().rev()).iter().map(|record| record.number).collect()
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
            first: Timestamp(1_500_000_000),
            last: Timestamp(2_000_000_001),
            packets: [3, 1],
            bytes: [300, 40],
            ..Record::NONE
        };
        let row = |layout, replies| {
            let form = Form { layout, replies };
            Row { form, tuple, record: &record }.to_string()
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
