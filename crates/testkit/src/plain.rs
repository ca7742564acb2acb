//! IP packets without link headers, between endpoints that a test chooses, and captures of such packets.

use std::net::SocketAddr;
use std::path::Path;

use wire::LinkType;
use wire::build::Builder;

/// The time stamp, in milliseconds since the epoch, of packets whose time in [`write_capture`] is 0.
pub const START: i64 = 1_000_000;

/// Makes an endpoint from an IPv4 address and a port.
pub fn end(address: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::from((address, port))
}

/// Makes a UDP datagram with four bytes of payload, with IP header.
pub fn udp(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    Builder::udp(from, to).build(b"data").unwrap()
}

/// Makes a TCP segment with IP header. `flags` is the byte of TCP flags.
pub fn tcp(from: SocketAddr, to: SocketAddr, flags: u8, payload: &[u8]) -> Vec<u8> {
    Builder::tcp(from, to, flags).build(payload).unwrap()
}

/// Writes packets to a capture file. Their times are milliseconds after [`START`].
pub fn write_capture(file: &Path, packets: &[(i64, Vec<u8>)]) {
    let options = capture::WriterOptions { link: LinkType::RawIp, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(file).unwrap(), options);
    for (milliseconds, bytes) in packets {
        let time = (START + milliseconds) * 1_000_000;
        writer.write(time, bytes.len() as u32, [&bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
}
