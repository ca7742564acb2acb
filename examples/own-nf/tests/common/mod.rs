//! Helpers for the tests of the firewall and of the translator: runs with different workers, and packets of
//! connections.
#![allow(dead_code)] // each test uses its own part

use std::sync::Arc;

use element::Timestamp;
use element::steering::Spreading;
use sprayer::{Policy, SpreadSettings};
use testkit::elements::TestPacket;
use testkit::{RunResults, TestRun};
use wire::build::Builder;

/// A function that makes the rule by which packets of a flow are spread over workers.
type Way = fn() -> Arc<dyn Spreading>;

/// The ways in which packets are assigned to workers: by flow, spread packet by packet, spread by flowlets,
/// and spread packet by packet with their order kept.
pub(crate) const WAYS: [Option<Way>; 4] = [
    None,
    Some(|| SpreadSettings::default().spreading()),
    Some(|| {
        SpreadSettings { policy: Policy::Flowlets(Timestamp(500_000)), ..SpreadSettings::default() }
            .spreading()
    }),
    Some(|| SpreadSettings { keeps_order: true, ..SpreadSettings::default() }.spreading()),
];

/// Returns runs on one, two and four workers, with each of [`WAYS`], on the trace clock and on the real
/// clock.
pub(crate) fn runs() -> impl Iterator<Item = TestRun> {
    [TestRun::trace(), TestRun::real()].into_iter().flat_map(|clock| {
        [1, 2, 4].into_iter().flat_map(move |workers| {
            WAYS.map(|spreading| TestRun { spreading, ..clock.on(workers).with(own_nf::CLASSES) })
        })
    })
}

/// Runs a configuration to its end, and checks that every packet is accounted for and that there were no
/// errors.
pub(crate) fn run(how: TestRun, text: &str, handlers: &[&str]) -> RunResults {
    let outcome = how.text(text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    assert_eq!(outcome.errors, Vec::<String>::new());
    outcome
}

/// Returns the address and port of the client of a connection, by the connection's number.
pub(crate) fn client(connection: u32) -> ([u8; 4], u16) {
    ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection as u16)
}

/// The address and port of the server of all connections.
pub(crate) const SERVER: ([u8; 4], u16) = ([198, 51, 100, 7], 80);

/// Makes a segment from the client of a connection to the server. Its payload has the numbers of the
/// connection and of the segment.
pub(crate) fn segment(connection: u32, number: u32, flags: u8, time: Timestamp) -> TestPacket {
    between((client(connection), SERVER), connection, number, flags, time)
}

/// Makes a segment from the server to the client of a connection, as [`segment`] does for the other
/// direction.
pub(crate) fn answer(connection: u32, number: u32, flags: u8, time: Timestamp) -> TestPacket {
    between((SERVER, client(connection)), connection, number, flags, time)
}

type End = ([u8; 4], u16);

fn between((from, to): (End, End), connection: u32, number: u32, flags: u8, time: Timestamp) -> TestPacket {
    let payload = [connection.to_be_bytes(), number.to_be_bytes()].concat();
    let bytes = Builder::tcp(from.into(), to.into(), flags).build(&payload).unwrap();
    TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), Some(0), Some(20)] }
}

/// Returns the numbers of the connection and of the segment in a segment's payload.
pub(crate) fn told(bytes: &[u8]) -> (u32, u32) {
    let number = |back: usize| {
        let at = bytes.len() - back;
        u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
    };
    (number(8), number(4))
}

/// Writes a capture of packets without link headers, and returns its file. Under the trace clock, the time
/// stamps are the time of the run.
pub(crate) fn capture(packets: &[TestPacket]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    for input in packets {
        writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
    file
}
