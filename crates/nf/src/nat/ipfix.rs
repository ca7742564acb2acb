//! Messages of the IP Flow Information Export protocol (IPFIX, RFC 7011) about the sessions of translators
//! (RFC 8158).
//!
//! Each message has a header, and a set of records; some messages also have the template that describes the
//! records. All numbers are in network byte order.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use element::Timestamp;

use super::session_event::SessionEvent;

/// The port of collectors (RFC 7011, section 10.3.4).
const PORT: u16 = 4739;

/// The version number in the header of a message.
const VERSION: u16 = 10;
/// The length of the header of a message, in bytes.
const HEADER: usize = 16;
/// The length of the header of a set of templates or records, in bytes.
const SET_HEADER: usize = 4;
/// The number of the set that has templates.
const TEMPLATES: u16 = 2;
/// The number of the template for sessions without destinations. The number of the template with
/// destinations is greater by one. Numbers below 256 are reserved.
const TEMPLATE: u16 = 256;
/// The longest message, in bytes: the limit for collectors to which the path MTU is not known (RFC 7011,
/// section 10.3.3).
const LONGEST: usize = 512;
/// The time after which the template is sent again, because a collector may have missed it or have started
/// later.
const TEMPLATE_INTERVAL: Timestamp = Timestamp::from_secs(60);

/// The values of natEvent (RFC 8158, section 5.2): a session was created, or deleted.
const CREATED: u8 = 4;
const DELETED: u8 = 5;

/// The number and the length in bytes of the information elements of a record, in their order:
/// observationTimeMilliseconds, natEvent, protocolIdentifier, sourceIPv4Address,
/// postNATSourceIPv4Address, sourceTransportPort and postNAPTSourceTransportPort.
const SOURCE_FIELDS: [(u16, u16); 7] = [(323, 8), (230, 1), (4, 1), (8, 4), (225, 4), (7, 2), (227, 2)];
/// The information elements that follow in records with destinations: destinationIPv4Address,
/// postNATDestinationIPv4Address, destinationTransportPort and postNAPTDestinationTransportPort.
const DESTINATION_FIELDS: [(u16, u16); 4] = [(12, 4), (226, 4), (11, 2), (228, 2)];

/// Returns the address and port of a collector, from `ADDRESS` or `ADDRESS:PORT`; an IPv6 address with a port
/// is in brackets. Returns `None` for other texts.
pub(super) fn collector(text: &str) -> Option<SocketAddr> {
    let with_port = |text: &str| text.parse::<SocketAddr>().ok();
    let alone = |text: &str| {
        let v4 = text.parse::<Ipv4Addr>().map(|address| SocketAddr::from((address, PORT)));
        v4.or_else(|_| text.parse::<Ipv6Addr>().map(|address| SocketAddr::from((address, PORT)))).ok()
    };
    with_port(text).or_else(|| alone(text)).filter(|address| address.port() != 0)
}

/// A message to which records are added until it is sent.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    /// The time of the latest record.
    time: Timestamp,
    records: u32,
}

/// Makes messages: has the numbers that one message takes over from the message before.
#[derive(Debug)]
pub(super) struct Messages {
    domain: u32,
    has_destinations: bool,
    /// The number of records in all messages before the current one.
    sequence: u32,
    /// The time at which the template was sent last.
    templated: Option<Timestamp>,
    message: Option<Message>,
}

impl Messages {
    /// Returns a maker of messages for this observation domain, whose records have destinations if
    /// `has_destinations` is true.
    pub(super) fn new(domain: u32, has_destinations: bool) -> Messages {
        Messages { domain, has_destinations, sequence: 0, templated: None, message: None }
    }

    /// Adds a record to the current message. Returns the message that is now complete, if there is one; it
    /// does not have this record.
    pub(super) fn add(&mut self, event: &SessionEvent) -> Option<Vec<u8>> {
        let length = self.fields().map(|(_, length)| usize::from(length)).sum::<usize>();
        let is_full = self.message.as_ref().is_some_and(|message| message.bytes.len() + length > LONGEST);
        let complete = if is_full { self.complete() } else { None };
        if self.message.is_none() {
            self.message = Some(self.begin(event.time));
        }
        let has_destinations = self.has_destinations;
        if let Some(message) = &mut self.message {
            message.add(event, has_destinations);
        }
        complete
    }

    /// Ends and returns the current message; `None` if it would have no record.
    pub(super) fn complete(&mut self) -> Option<Vec<u8>> {
        let Message { mut bytes, time, records } = self.message.take()?;
        let start = bytes.len() - records as usize * self.record_length() - SET_HEADER;
        let (whole, set) = (bytes.len() as u16, (bytes.len() - start) as u16);
        bytes[start + 2..start + SET_HEADER].copy_from_slice(&set.to_be_bytes());
        let header = [
            &VERSION.to_be_bytes()[..],
            &whole.to_be_bytes(),
            &(time.parts().0 as u32).to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &self.domain.to_be_bytes(),
        ];
        bytes[..HEADER].copy_from_slice(&header.concat());
        self.sequence = self.sequence.wrapping_add(records);
        Some(bytes)
    }

    /// Returns a message with the template, if it is time for it, and with a set of no records.
    fn begin(&mut self, time: Timestamp) -> Message {
        let mut bytes = Vec::with_capacity(LONGEST);
        bytes.resize(HEADER, 0);
        if self.templated.is_none_or(|last| time.0.saturating_sub(last.0) >= TEMPLATE_INTERVAL.0) {
            self.templated = Some(time);
            let count = self.fields().count() as u16;
            let words = [TEMPLATES, (SET_HEADER as u16) + 4 + 4 * count, self.template(), count];
            let fields = self.fields().flat_map(|(number, length)| [number, length]);
            bytes.extend(words.into_iter().chain(fields).flat_map(u16::to_be_bytes));
        }
        bytes.extend(self.template().to_be_bytes());
        bytes.extend([0, 0]);
        Message { bytes, time, records: 0 }
    }

    fn template(&self) -> u16 {
        TEMPLATE + u16::from(self.has_destinations)
    }

    fn fields(&self) -> impl Iterator<Item = (u16, u16)> {
        let more: &[_] = if self.has_destinations { &DESTINATION_FIELDS } else { &[] };
        SOURCE_FIELDS.iter().chain(more).copied()
    }

    fn record_length(&self) -> usize {
        self.fields().map(|(_, length)| usize::from(length)).sum()
    }
}

impl Message {
    fn add(&mut self, event: &SessionEvent, has_destinations: bool) {
        let &SessionEvent { time, is_new, protocol, from, to } = event;
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(&time.0.div_euclid(1_000_000).to_be_bytes());
        bytes.extend_from_slice(&[if is_new { CREATED } else { DELETED }, protocol]);
        let mut add = |addresses: [u32; 2], ports: [u16; 2]| {
            addresses.iter().for_each(|address| bytes.extend_from_slice(&address.to_be_bytes()));
            ports.iter().for_each(|port| bytes.extend_from_slice(&port.to_be_bytes()));
        };
        add([from.source, to.source], [from.source_port, to.source_port]);
        if has_destinations {
            add([from.destination, to.destination], [from.destination_port, to.destination_port]);
        }
        self.time = self.time.max(time);
        self.records += 1;
    }
}

/// The way to a collector.
#[derive(Debug)]
pub(super) struct Exporter {
    socket: UdpSocket,
    collector: SocketAddr,
    messages: Messages,
    /// The numbers of messages that were sent, and that could not be sent.
    pub(super) sent: u64,
    pub(super) unsent: u64,
}

impl Exporter {
    /// Opens a socket for messages to a collector. There need not be a route to it yet.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn new(collector: SocketAddr, messages: Messages) -> io::Result<Exporter> {
        let any: SocketAddr = match collector {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        Ok(Exporter { socket, collector, messages, sent: 0, unsent: 0 })
    }

    /// Adds a record, and sends the message that is then complete.
    pub(super) fn add(&mut self, event: &SessionEvent) {
        let complete = self.messages.add(event);
        self.send(complete);
    }

    /// Sends the records that wait for further ones.
    pub(super) fn flush(&mut self) {
        let complete = self.messages.complete();
        self.send(complete);
    }

    fn send(&mut self, message: Option<Vec<u8>>) {
        let Some(message) = message else { return };
        let result = self.socket.send_to(&message, self.collector);
        *(if result.is_ok() { &mut self.sent } else { &mut self.unsent }) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::tuple::Tuple;

    fn event(number: u32, seconds: i64) -> SessionEvent {
        let tuple = |source: u32, source_port| Tuple {
            source,
            source_port,
            destination: 0xc633_6401,
            destination_port: 443,
        };
        SessionEvent {
            time: Timestamp::from_secs(seconds),
            is_new: number.is_multiple_of(2),
            protocol: 6,
            from: tuple(0x0a00_0000 | number, 1000),
            to: tuple(0xc000_0201, number as u16),
        }
    }

    #[test]
    fn a_collector_may_have_a_port() {
        let shown = |text| collector(text).map(|address| address.to_string());
        assert_eq!(shown("192.0.2.1").as_deref(), Some("192.0.2.1:4739"));
        assert_eq!(shown("192.0.2.1:99").as_deref(), Some("192.0.2.1:99"));
        assert_eq!(shown("2001:db8::1").as_deref(), Some("[2001:db8::1]:4739"));
        assert_eq!(shown("[2001:db8::1]:7").as_deref(), Some("[2001:db8::1]:7"));
        for text in ["", "collector", "192.0.2.1:0", "192.0.2.1:70000", "192.0.2.256"] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    /// An independent reader finds in the messages what was written, for both templates.
    #[test]
    fn another_reader_understands_the_messages() {
        for has_destinations in [false, true] {
            let mut messages = Messages::new(7, has_destinations);
            let (mut sent, mut templates) = (Vec::new(), 0);
            for number in 0..100 {
                // The second half is sent so much later that the template is sent again.
                sent.extend(messages.add(&event(number, 1000 + i64::from(number / 50) * 100)));
            }
            sent.extend(messages.complete());
            assert!(messages.complete().is_none());
            let mut parser = netflow_parser::NetflowParser::default();
            let mut records = Vec::new();
            for message in &sent {
                assert!(message.len() <= LONGEST);
                let parsed = parser.parse_bytes(message);
                assert!(parsed.error.is_none(), "{:?}", parsed.error);
                for packet in parsed.packets {
                    let netflow_parser::NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
                    assert_eq!(packet.header.observation_domain_id, 7);
                    assert_eq!(packet.header.sequence_number as usize, records.len());
                    let text = format!("{packet:?}");
                    templates += text.matches("field_count").count();
                    for set in packet.flowsets {
                        let netflow_parser::variable_versions::ipfix::FlowSetBody::Data(data) = set.body
                        else {
                            continue;
                        };
                        records.extend(data.fields.into_iter().map(|fields| format!("{fields:?}")));
                    }
                }
            }
            assert_eq!(records.len(), 100, "{has_destinations}");
            assert_eq!(templates, 2, "{has_destinations}");
            for (number, record) in records.iter().enumerate() {
                let wanted = [
                    format!("10.0.0.{number}"),
                    "192.0.2.1".into(),
                    if number % 2 == 0 { "Nat44SessionCreate" } else { "Nat44SessionDelete" }.into(),
                ];
                assert!(wanted.iter().all(|text| record.contains(text)), "{number}: {record}");
                assert_eq!(record.contains("198.51.100.1"), has_destinations, "{record}");
            }
        }
    }
}
