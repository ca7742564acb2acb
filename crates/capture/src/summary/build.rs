//! Builds packets from the values of a summary's fields.

use wire::checksum::{self, PseudoHeader};

use super::{FlowDefaults, PacketInfo, SummaryField};

/// A packet made from a line or record of a summary: headers with the values of the summary's fields. Other
/// parts of the headers have default values, mostly zeros; lengths and, if requested, checksums are computed.
/// `bytes` may be shorter than the IP header says; `info.extra_length` is the number of missing bytes.
#[derive(Clone, Debug, Default)]
pub struct BuiltPacket {
    /// The bytes of the packet, from its Ethernet header or else its IP header on.
    pub bytes: Vec<u8>,
    /// The offset of the Ethernet header in `bytes`; `None` if the packet has none.
    pub mac: Option<usize>,
    /// The offset of the IP header in `bytes`; `None` if the packet has none. In a packet with an Ethernet
    /// header it is set even if the Ethernet type is not IPv4.
    pub network: Option<usize>,
    /// The values of the summary that are not part of the packet's bytes: times, counts, paint, aggregate.
    pub info: PacketInfo,
    /// The length in bytes that the packet shall have according to the summary, from the start of `bytes`;
    /// zero if no field gives a length.
    meant: usize,
    /// True if the summary has an Ethernet type other than IPv4, so that no IP header is made.
    not_ip: bool,
    protocol: u8,
    flow: Option<FlowDefaults>,
    has_ip_options: bool,
    has_tcp_options: bool,
    icmp_type: Option<u8>,
    has_icmp_code: bool,
}

/// The value of a field, to be written into a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'v> {
    Number(u64),
    Bytes(&'v [u8]),
}

impl BuiltPacket {
    /// Resets the packet, so that the next packet of the summary can be built in it. That packet gets this IP
    /// protocol and flow, unless its fields give others. The allocated memory of `bytes` is used again.
    pub(super) fn start(&mut self, protocol: u8, flow: Option<FlowDefaults>) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = BuiltPacket { bytes, protocol, flow, ..BuiltPacket::default() };
    }

    /// Returns the offset of the transport header in `bytes`, which the IP header length gives; `None` if
    /// there is no IP header.
    pub fn transport(&self) -> Option<usize> {
        let at = self.network?;
        Some(at + 4 * usize::from(self.bytes.get(at)? & 15))
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: u64) {
        self.put(at, &(value as u16).to_be_bytes());
    }

    fn put32(&mut self, at: usize, value: u64) {
        self.put(at, &(value as u32).to_be_bytes());
    }

    fn get16(&self, at: usize) -> usize {
        self.bytes.get(at..at + 2).map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]))
    }

    /// Inserts `count` zero bytes at offset `at`. Such bytes are valid IP and TCP options: a zero byte ends
    /// the list of options.
    fn insert(&mut self, at: usize, count: usize) {
        let at = at.min(self.bytes.len());
        self.bytes.splice(at..at, std::iter::repeat_n(0, count));
    }

    /// Adds an IP header if there is none yet, and returns its offset; `None` if the packet is not IP.
    fn make_ip(&mut self) -> Option<usize> {
        if self.not_ip {
            return None;
        }
        let at = *self.network.get_or_insert(self.bytes.len());
        if self.bytes.len() < at + 20 {
            self.bytes.resize(at + 20, 0);
            (self.bytes[at], self.bytes[at + 8], self.bytes[at + 9]) = (0x45, 100, self.protocol);
            if let Some(flow) = self.flow {
                self.put32(at + 12, flow.source.into());
                self.put32(at + 16, flow.destination.into());
            }
        }
        Some(at)
    }

    fn is_first(&self, ip: usize) -> bool {
        self.get16(ip + 6) & 0x1fff == 0
    }

    /// Adds a transport header if there is none yet, cut short if the summary gives the packet a smaller
    /// length; fragments other than the first get no transport header. Returns its offset. `None` if the
    /// packet is not IP, or if its protocol is neither 0 nor one of `protocols`. An empty list allows any
    /// protocol.
    fn make_transport(&mut self, protocols: &[u8]) -> Option<usize> {
        let ip = self.make_ip()?;
        let at = self.transport()?;
        let protocol = self.bytes[ip + 9];
        if !(protocols.is_empty() || protocol == 0 || protocols.contains(&protocol)) {
            return None;
        }
        let mut length = match protocol {
            6 => 20,
            17 | 136 | 1 => 8,
            33 => 12,
            _ => 0,
        };
        if !self.is_first(ip) {
            length = 0;
        }
        if self.meant > 0 && self.meant < at + length {
            length = self.meant.saturating_sub(at);
        }
        if self.bytes.len() < at + length {
            // Ports are written even if only a part of them fits into the packet; the bytes beyond the
            // packet's length are cut off after the ports have been written.
            self.bytes.resize(at + length.max(4), 0);
            if protocol == 6 && length >= 13 {
                self.bytes[at + 12] = 0x50;
            }
            if let Some(flow) = self.flow.filter(|_| protocol != 1) {
                self.put16(at, flow.ports[0].into());
                self.put16(at + 2, flow.ports[1].into());
            }
            self.bytes.truncate(at + length);
        }
        Some(at)
    }

    /// Writes the value of a field into the packet, and adds the headers that contain this field. Values of
    /// fields that packets of this protocol do not have are ignored.
    pub(super) fn set(&mut self, field: SummaryField, input: Input<'_>) {
        match input {
            Input::Number(number) => self.set_number(field, number),
            Input::Bytes(bytes) => self.set_bytes(field, bytes),
        }
    }

    fn set_number(&mut self, field: SummaryField, number: u64) {
        let info = &mut self.info;
        let billion = 1_000_000_000;
        match field {
            SummaryField::Timestamp | SummaryField::NanoTimestamp => info.time = number as i64,
            SummaryField::FirstTimestamp | SummaryField::FirstNanoTimestamp => {
                info.first_time = number as i64
            }
            SummaryField::Seconds => {
                info.time = number.min(u32::MAX.into()) as i64 * billion + info.time.rem_euclid(billion);
            }
            SummaryField::Microseconds => {
                info.time += number.min(999_999) as i64 * 1_000 - info.time.rem_euclid(billion);
            }
            SummaryField::AllMicroseconds => info.time = (number as i64).saturating_mul(1_000),
            SummaryField::Count => info.extra_packets = number.saturating_sub(1).min(u32::MAX.into()) as u32,
            SummaryField::Link | SummaryField::Paint | SummaryField::Direction => info.paint = number as u8,
            SummaryField::Aggregate => info.aggregate = number as u32,
            SummaryField::WireLength => self.meant = number.min(1 << 24) as usize,
            SummaryField::EtherType => {
                let at = self.make_ether();
                self.put16(at + 12, number);
                self.not_ip = number != 0x0800;
            }
            _ => self.set_header(field, number),
        }
    }

    fn make_ether(&mut self) -> usize {
        if let Some(at) = self.mac {
            return at;
        }
        // Fields of the link layer are set first, so that no other header exists yet.
        self.bytes.resize(14, 0);
        self.put16(12, 0x0800);
        (self.mac, self.network) = (Some(0), Some(14));
        0
    }

    fn set_header(&mut self, field: SummaryField, number: u64) {
        let transport = match field {
            SummaryField::SourcePort | SummaryField::DestinationPort => &[6, 17, 33, 136][..],
            SummaryField::TcpSequence
            | SummaryField::TcpAcknowledgment
            | SummaryField::TcpOffset
            | SummaryField::TcpFlags
            | SummaryField::TcpWindow
            | SummaryField::TcpUrgent => &[6],
            SummaryField::UdpLength => &[17, 136],
            SummaryField::IcmpType
            | SummaryField::IcmpTypeName
            | SummaryField::IcmpCode
            | SummaryField::IcmpCodeName
            | SummaryField::IcmpFlowId
            | SummaryField::IcmpSequence
            | SummaryField::IcmpNextMtu => &[1],
            SummaryField::PayloadLength => {
                let at = self.payload();
                return self.account(at, number.min(1 << 24) as usize);
            }
            SummaryField::IpCaptureLength => return,
            _ => return self.set_ip(field, number),
        };
        let Some(at) = self.make_transport(transport) else { return };
        match field {
            SummaryField::SourcePort => self.put16(at, number),
            SummaryField::DestinationPort => self.put16(at + 2, number),
            SummaryField::TcpSequence => self.put32(at + 4, number),
            SummaryField::TcpAcknowledgment => self.put32(at + 8, number),
            SummaryField::TcpFlags => {
                let offset = self.bytes.get(at + 12).map_or(0x50, |b| b & 0xf0);
                self.put(at + 12, &[offset | (number >> 8) as u8 & 15, number as u8]);
            }
            SummaryField::TcpOffset => {
                let length = (number as usize).div_ceil(4).min(15) * 4;
                let before = self.bytes.get(at + 12).map_or(0, |b| 4 * usize::from(b >> 4));
                if length > before {
                    self.insert(at + before, length - before);
                }
                let low = self.bytes.get(at + 12).map_or(0, |b| b & 15);
                self.put(at + 12, &[(length as u8) << 2 | low]);
            }
            SummaryField::TcpWindow => self.put16(at + 14, number),
            SummaryField::TcpUrgent => self.put16(at + 18, number),
            SummaryField::UdpLength => self.put16(at + 4, number),
            SummaryField::IcmpType | SummaryField::IcmpTypeName => {
                self.put(at, &[number as u8]);
                self.icmp_type = Some(number as u8);
                let length = if matches!(number, 13 | 14) { 20 } else { 8 };
                self.bytes.resize(self.bytes.len().max(at + length), 0);
            }
            SummaryField::IcmpCode | SummaryField::IcmpCodeName => {
                self.put(at + 1, &[number as u8]);
                self.has_icmp_code = true;
            }
            SummaryField::IcmpFlowId | SummaryField::IcmpSequence => {
                let sequenced = |kind| matches!(kind, 0 | 8 | 13 | 14 | 15 | 16);
                if self.icmp_type.is_none_or(sequenced) {
                    self.put16(at + if field == SummaryField::IcmpFlowId { 4 } else { 6 }, number);
                }
            }
            _ => {
                let code = self.has_icmp_code.then(|| self.bytes[at + 1]);
                if self.icmp_type.is_none_or(|kind| kind == 3) && code.is_none_or(|code| code == 4) {
                    self.put16(at + 6, number);
                }
            }
        }
    }

    /// Returns the type of the ICMP message, if a field of the summary has set it.
    pub(super) fn icmp_type(&self) -> Option<u8> {
        self.icmp_type
    }

    fn set_ip(&mut self, field: SummaryField, number: u64) {
        let Some(at) = self.make_ip() else { return };
        let tos = self.bytes[at + 1];
        match field {
            SummaryField::IpSource => self.put32(at + 12, number),
            SummaryField::IpDestination => self.put32(at + 16, number),
            SummaryField::IpTos => self.bytes[at + 1] = number as u8,
            SummaryField::IpDscp => self.bytes[at + 1] = tos & 3 | (number << 2) as u8,
            SummaryField::IpEcn => self.bytes[at + 1] = tos & 0xfc | number as u8 & 3,
            SummaryField::IpTtl => self.bytes[at + 8] = number as u8,
            SummaryField::IpId => self.put16(at + 4, number),
            SummaryField::IpChecksum => self.put16(at + 10, number),
            SummaryField::IpProtocol => self.bytes[at + 9] = number as u8,
            SummaryField::IpFragment | SummaryField::IpFragmentOffset => self.put16(at + 6, number),
            SummaryField::IpLength => self.meant = at + number.min(1 << 24) as usize,
            SummaryField::IpHeaderLength => {
                self.has_ip_options = true;
                let length = (number as usize).div_ceil(4).clamp(5, 15) * 4;
                let before = 4 * usize::from(self.bytes[at] & 15);
                if length > before {
                    self.insert(at + before, length - before);
                }
                self.bytes[at] = 0x40 | (length / 4) as u8;
            }
            _ => {}
        }
    }

    fn set_bytes(&mut self, field: SummaryField, bytes: &[u8]) {
        match field {
            SummaryField::EtherSource | SummaryField::EtherDestination => {
                let at = self.make_ether();
                self.put(at + if field == SummaryField::EtherSource { 6 } else { 0 }, bytes);
            }
            SummaryField::IpOptions => {
                let Some(at) = self.make_ip() else { return };
                self.has_ip_options = true;
                if let Some(length) = self.put_options(at, bytes) {
                    self.bytes[at] = 0x40 | (length / 4);
                }
            }
            SummaryField::TcpOptions | SummaryField::TcpOtherOptions | SummaryField::TcpSack => {
                let Some(at) = self.make_transport(&[6]) else { return };
                self.has_tcp_options = true;
                if let Some(length) = self.put_options(at, bytes) {
                    self.bytes[at + 12] = length << 2 | self.bytes[at + 12] & 15;
                }
            }
            SummaryField::Payload if !bytes.is_empty() => {
                let before = self.payload();
                self.account(before, bytes.len());
                // `account` may have inserted options ahead of the payload, so its offset is computed again.
                let at = self.payload();
                self.put(at, bytes);
            }
            _ => {}
        }
    }

    /// Writes options after the first 20 bytes of the header at `at`. Returns the length of the whole
    /// header, a multiple of 4; `None` if `options` is empty. Options beyond 40 bytes are cut off.
    fn put_options(&mut self, at: usize, options: &[u8]) -> Option<u8> {
        let options = &options[..options.len().min(40)];
        if options.is_empty() {
            return None;
        }
        let length = (20 + options.len()).div_ceil(4) * 4;
        self.bytes.resize(self.bytes.len().max(at + length), 0);
        self.bytes[at + 20..at + length].fill(0);
        self.put(at + 20, options);
        Some(length as u8)
    }

    /// Adds the headers that the packet still lacks, and returns the offset of the payload. If the packet is
    /// not IP, the offset is 0: all its bytes are payload, the Ethernet header included, as when a summary of
    /// a packet is written.
    fn payload(&mut self) -> usize {
        let Some(ip) = self.make_ip() else { return 0 };
        self.make_transport(&[]);
        let at = self.transport().unwrap_or(self.bytes.len());
        at + match self.bytes[ip + 9] {
            6 if self.is_first(ip) => match self.bytes.get(at + 12).map_or(0, |b| 4 * usize::from(b >> 4)) {
                length @ 20.. => length,
                _ => 20,
            },
            17 | 136 if self.is_first(ip) => 8,
            _ => 0,
        }
    }

    /// Sets the length of the packet so that `payload` bytes follow at offset `at`, unless the summary gave a
    /// length. If the length in the summary is larger than `at + payload`, the missing bytes must be options:
    /// zeros (empty options) are inserted into the TCP and IP headers, unless these headers already have
    /// options.
    fn account(&mut self, at: usize, payload: usize) {
        let Some(ip) = self.network.filter(|_| !self.not_ip && self.meant > 0) else {
            self.meant = at + payload;
            return;
        };
        let mut missing = self.meant.saturating_sub(at + payload);
        let Some(transport) = self.transport() else { return };
        let plain_tcp = self.bytes.get(transport + 12).is_some_and(|b| b >> 4 == 5);
        if self.is_first(ip) && self.bytes[ip + 9] == 6 && !self.has_tcp_options && plain_tcp {
            let more = (missing & !3).min(40);
            self.insert(transport + 20, more);
            self.bytes[transport + 12] += (more as u8 / 4) << 4;
            missing -= more;
        }
        if !self.has_ip_options && self.bytes[ip] & 15 == 5 {
            let more = (missing & !3).min(40);
            self.insert(ip + 20, more);
            self.bytes[ip] += more as u8 / 4;
        }
    }

    /// Fills in the IP length field, and the UDP length field if it is zero. If `checksums` is true, also
    /// extends the packet to its whole length and writes its checksums; in fragments, it writes only the
    /// checksum of the IP header. Sets `extra_length` to the number of bytes by which `bytes` is shorter than
    /// the packet.
    pub(super) fn finish(&mut self, checksums: bool) {
        if self.flow.is_some() {
            self.make_ip();
        }
        if let Some(ip) = self.network.filter(|&at| !self.not_ip && self.bytes.len() >= at + 20) {
            self.make_transport(&[]);
            let length = match self.meant.checked_sub(ip) {
                Some(length @ 1..) => length,
                _ => self.bytes.len() - ip,
            };
            let length = length.min(0xffff);
            self.put16(ip + 2, length as u64);
            self.settle_udp(ip, length);
            if checksums {
                self.bytes.resize(self.bytes.len().max(ip + length), 0);
                self.fill_checksums(ip);
            }
        }
        let short = self.meant.saturating_sub(self.bytes.len());
        self.info.extra_length = short as u32;
    }

    fn settle_udp(&mut self, ip: usize, length: usize) {
        let Some(at) = self.transport().filter(|_| self.bytes[ip + 9] == 17 && self.is_first(ip)) else {
            return;
        };
        if self.bytes.len() >= at + 6 && self.get16(at + 4) == 0 {
            self.put16(at + 4, (ip + length).saturating_sub(at) as u64);
        }
    }

    /// Sets the IP and UDP length fields so that the whole packet, link header included, has `length` bytes.
    /// A caller uses this if a line or record represents several packets of different lengths.
    pub fn set_length(&mut self, length: u32) {
        let Some(ip) = self.network.filter(|&at| !self.not_ip && self.bytes.len() >= at + 20) else { return };
        let length = (length as usize).saturating_sub(ip).min(0xffff);
        self.put16(ip + 2, length as u64);
        if let Some(at) =
            self.transport().filter(|&at| self.bytes[ip + 9] == 17 && self.bytes.len() >= at + 6)
        {
            self.put16(at + 4, (ip + length).saturating_sub(at) as u64);
        }
    }

    fn fill_checksums(&mut self, ip: usize) {
        let Some(at) = self.transport().filter(|&at| at <= self.bytes.len()) else { return };
        let (protocol, fragment) = (self.bytes[ip + 9], self.get16(ip + 6) & 0x3fff != 0);
        let address = |at: usize, bytes: &[u8]| {
            bytes.get(at..at + 4).map_or(0, |b| b.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
        };
        let pseudo = PseudoHeader::V4 {
            source: address(ip + 12, &self.bytes).into(),
            destination: address(ip + 16, &self.bytes).into(),
        };
        // The functions fail if a header is truncated or the UDP length is wrong; the checksum is then left
        // as it is.
        let _ = checksum::fill_ipv4(&mut self.bytes[ip..at]);
        if fragment {
            return;
        }
        let segment = &mut self.bytes[at..];
        let _ = match protocol {
            6 => checksum::fill_tcp(&pseudo, segment),
            17 => checksum::fill_udp(&pseudo, segment),
            1 => checksum::fill_icmp(segment),
            _ => Ok(()),
        };
    }
}
