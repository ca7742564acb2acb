//! The fields of summary dumps: names, widths in binary records, and the order in which packets are built
//! from them.

macro_rules! fields {
    ($($variant:ident $name:literal $width:literal $order:literal $(= $($synonym:literal)*)?,)*) => {
        /// A field of a summary: one value of a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names in dumps say it")]
        pub enum SummaryField { $($variant,)* }

        /// A row for each field, in the order of the enum: its name; its width in binary records in bytes
        /// (-1: a length byte and that number of bytes; -2: not allowed in binary records); a number that
        /// orders fields when packets are built; and its synonyms.
        const TABLE: &[(SummaryField, &str, i8, u8, &[&str])] =
            &[$((SummaryField::$variant, $name, $width, $order, &[$($($synonym,)*)?]),)*];
    };
}

// Each line has a field's variant, name, width, order and synonyms. Packets are built from the field with the
// lowest order to the highest: link layer, network, transport, payload. The fragment fields come first in the
// network layer, because later fragments have no transport header. Fields of equal order keep the order of
// the dump.
fields! {
    Timestamp "timestamp" 8 0 = "utimestamp" "ts",
    NanoTimestamp "ntimestamp" 8 0,
    Seconds "ts_sec" 4 0 = "sec",
    Microseconds "ts_usec" 4 0 = "usec",
    AllMicroseconds "ts_usec1" 8 0 = "usec1",
    FirstTimestamp "first_timestamp" 8 0 = "first_utimestamp" "first_ts",
    FirstNanoTimestamp "first_ntimestamp" 8 0,
    Count "count" 4 0 = "pkt_count" "packet_count",
    Link "link" 1 0,
    Paint "paint" 1 0,
    Direction "direction" 1 0,
    Aggregate "aggregate" 4 0 = "agg",
    WireLength "wire_len" 4 0 = "wire_length",
    Thread "thread" 4 0,
    EtherSource "eth_src" 6 10 = "ether_src",
    EtherDestination "eth_dst" 6 10 = "ether_dst",
    EtherType "eth_type" 2 10 = "ether_type",
    IpFragment "ip_frag" 1 18,
    IpFragmentOffset "ip_fragoff" 2 19,
    IpHeaderLength "ip_hl" 1 19,
    IpSource "ip_src" 4 20,
    IpDestination "ip_dst" 4 20,
    IpTos "ip_tos" 1 20,
    IpDscp "ip_dscp" 1 20,
    IpEcn "ip_ecn" 1 20,
    IpTtl "ip_ttl" 1 20,
    IpId "ip_id" 2 20,
    IpProtocol "ip_proto" 1 20 = "ip_p",
    IpOptions "ip_opt" -1 20,
    IpLength "ip_len" 4 21 = "length",
    IpChecksum "ip_sum" 2 22,
    SourcePort "sport" 2 30,
    DestinationPort "dport" 2 30,
    TcpSequence "tcp_seq" 4 30,
    TcpAcknowledgment "tcp_ack" 4 30,
    TcpOffset "tcp_off" 1 30,
    TcpFlags "tcp_flags" 1 30,
    TcpWindow "tcp_window" 2 30 = "tcp_win",
    TcpUrgent "tcp_urp" 2 30,
    TcpOptions "tcp_opt" -1 31,
    TcpOtherOptions "tcp_ntopt" -1 31,
    TcpSack "tcp_sack" -1 31,
    UdpLength "udp_len" 4 30,
    IcmpType "icmp_type" 1 30,
    IcmpTypeName "icmp_type_name" 1 30,
    IcmpCode "icmp_code" 1 31,
    IcmpCodeName "icmp_code_name" 1 31,
    IcmpFlowId "icmp_flowid" 2 32,
    IcmpSequence "icmp_seq" 2 32,
    IcmpNextMtu "icmp_nextmtu" 2 32,
    Payload "payload" -2 40,
    PayloadMd5 "payload_md5" 16 40,
    PayloadMd5Hex "payload_md5_hex" 16 40,
    PayloadLength "payload_len" 4 41 = "payload_length",
    IpCaptureLength "ip_capture_len" 4 42,
}

impl SummaryField {
    /// Returns the field with this name. Synonyms are accepted, too, also a space in place of an
    /// underscore, and names without their `ip_`. `None` for other names.
    pub fn named(name: &str) -> Option<SummaryField> {
        let own =
            |name: &str| TABLE.iter().find(|row| row.1 == name || row.4.contains(&name)).map(|row| row.0);
        own(name).or_else(|| match name.contains(' ') {
            true => SummaryField::named(&name.replacen(' ', "_", 1)),
            false if name.contains('_') => None,
            false => own(&format!("ip_{name}")),
        })
    }

    fn row(self) -> &'static (SummaryField, &'static str, i8, u8, &'static [&'static str]) {
        // The rows of the table have the order of the enum's variants.
        &TABLE[self as usize]
    }

    /// Returns the name of the field in summary dumps.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the field's width in binary records, in bytes; `Ok(None)` if the width varies: a length
    /// byte, and that number of bytes. `Err` if binary records cannot contain the field.
    #[allow(clippy::result_unit_err, reason = "there is nothing more to say")]
    pub fn width(self) -> Result<Option<usize>, ()> {
        match self.row().2 {
            -1 => Ok(None),
            width => usize::try_from(width).map(Some).map_err(|_| ()),
        }
    }

    /// True if the field may be in a dump that is read. False for the number of the thread, which is not a
    /// part of a packet, and for hashes, from which no packet can be made.
    pub fn can_be_read(self) -> bool {
        !matches!(self, SummaryField::Thread | SummaryField::PayloadMd5 | SummaryField::PayloadMd5Hex)
    }

    pub(super) fn order(self) -> u8 {
        self.row().3
    }
}

/// Parses a list of field names, separated by spaces. Names that contain spaces are in quotes. For each
/// name, in order, the result is the field, or the name itself as an error if there is no such field.
pub fn fields(text: &str) -> Vec<Result<SummaryField, String>> {
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (name, after) = match first {
            '"' | '\'' => rest[1..].split_once(first).unwrap_or((&rest[1..], "")),
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        names.push(SummaryField::named(name).ok_or_else(|| name.to_string()));
        rest = after.trim_start();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_synonyms() {
        for (row, index) in TABLE.iter().zip(0..) {
            assert_eq!((row.0 as usize, SummaryField::named(row.1)), (index, Some(row.0)));
        }
        for (name, field) in [
            ("src", SummaryField::IpSource),
            ("ip src", SummaryField::IpSource),
            ("proto", SummaryField::IpProtocol),
            ("len", SummaryField::IpLength),
            ("tcp seq", SummaryField::TcpSequence),
            ("ts", SummaryField::Timestamp),
            ("ether_dst", SummaryField::EtherDestination),
        ] {
            assert_eq!(SummaryField::named(name), Some(field));
        }
        let listed = fields(" src 'tcp seq'  \"ip dst\" foo");
        let expected = [
            Ok(SummaryField::IpSource),
            Ok(SummaryField::TcpSequence),
            Ok(SummaryField::IpDestination),
            Err("foo".into()),
        ];
        assert_eq!(listed, expected);
    }
}
