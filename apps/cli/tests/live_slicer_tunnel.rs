//! Slicing around a network function that is a kernel that puts packets into its own VXLAN tunnel, with the
//! kernel's TCP and UDP at both ends. The network downstream of the tunnel does not carry the joined frames,
//! because with their payloads they are longer than its MTU. Skipped with a message if network namespaces or
//! VXLAN are missing.

mod detour;
mod line;

use std::net::{Ipv4Addr, SocketAddr};

use detour::{Detour, set};
use lab::{RunningProgram, exchange_datagrams, transfer};
use line::{MEGABYTE, run, value};

/// The server's address inside the tunnel.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
/// The length of a file in bytes, and a number of segments slightly below the minimum that it needs.
const LENGTH: usize = 10 * MEGABYTE;
const SEGMENTS: u64 = LENGTH as u64 / 1460 * 9 / 10;
/// The handlers of PayloadTable whose counts the host prints at its end.
const COUNTS: [&str; 10] = [
    "bytes_in",
    "sliced",
    "spliced",
    "tunnelled",
    "long",
    "missing",
    "hidden",
    "no_token",
    "changed",
    "late",
];

/// Makes a network in which the function's kernel sends packets through a VXLAN tunnel to the server's
/// kernel. The server accepts packets out of the tunnel that are as long as in the client's network. `device`
/// is further arguments for the function's end of the tunnel.
fn tunnel(device: &str) -> Option<Detour> {
    let detour = Detour::new(["10.1.0.1/24", "10.9.0.2/24"], ["10.1.0.254/24", "10.9.0.1/24"])?;
    let Detour { client, function, server, .. } = &detour;
    set(function, "ipv4/ip_forward", "1");
    for (space, below, [own, other], inner, device) in [
        (function, "nf1", ["10.9.0.1", "10.9.0.2"], "10.2.0.254/24", device),
        (server, "eth0", ["10.9.0.2", "10.9.0.1"], "10.2.0.1/24", ""),
    ] {
        let add = format!(
            "link add vx0 type vxlan id 7 local {own} remote {other} dstport 4789 dev {below} {device}"
        );
        if let Err(error) = space.ip(&add) {
            println!("skipped: no VXLAN here: {error}");
            return None;
        }
        if !device.starts_with("df") {
            // Without a given MTU, the kernel would derive the MTU of the tunnel from the network below it.
            space.ip("link set vx0 mtu 1500").unwrap();
        }
        space.ip(&format!("addr add {inner} dev vx0")).unwrap();
        space.ip("link set vx0 up").unwrap();
    }
    client.ip("route add default via 10.1.0.254").unwrap();
    server.ip("route add default via 10.2.0.254").unwrap();
    // The network downstream of the tunnel has a smaller MTU.
    server.ip("link set eth0 mtu 1400").unwrap();
    detour.host.ip("link set server mtu 1400").unwrap();
    Some(detour)
}

/// Starts the host. It slices packets on their way to the function, which puts them into the tunnel, and
/// joins tunnelled packets with their payloads downstream of the function. Packets from the server's side
/// have to be whole, because the function takes packets out of the tunnel.
fn host(detour: &Detour, slicing: &str) -> RunningProgram {
    let config = format!(
        "t :: PayloadTable(ENTRIES 4096);
         to_client :: Queue(10000) -> ToDevice(client);
         to_server :: Queue(10000) -> ToDevice(server);
         FromDevice(client, PROMISC true) -> Slice(t{slicing}) -> Queue(10000) -> ToDevice(nf0);
         FromDevice(nf0, PROMISC true) -> to_client;
         FromDevice(server, PROMISC true) -> Queue(10000) -> ToDevice(nf1);
         FromDevice(nf1, PROMISC true) -> s :: Splice(t, MTU 1400) -> to_server;
         s [1] -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(1400) -> parts :: Counter
             -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> to_server;
         f [1] -> refused :: Counter -> Discard;
         s [2] -> Strip(14) -> CheckIPHeader -> ICMPError(10.1.0.254, unreachable, needfrag, PMTU 1350) -> told :: Counter
             -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> to_client"
    );
    let mut handlers: Vec<String> = COUNTS.iter().map(|name| format!("t.{name}")).collect();
    handlers.extend(["parts.count", "refused.count", "told.count"].map(String::from));
    let options: Vec<&str> = handlers.iter().flat_map(|handler| ["-H", handler]).collect();
    run(&detour.host, &config, &options)
}

/// Sends a file and some datagrams from the client to the server, and returns the host's counters at the end.
fn send(detour: &Detour, slicing: &str) -> String {
    let host = host(detour, slicing);
    transfer(&detour.client, &detour.server, (SERVER, 7000).into(), LENGTH, || ()).unwrap();
    let address = SocketAddr::from((SERVER, 7001));
    let lengths = [1, 100, 600, 1000, 1300];
    assert_eq!(exchange_datagrams(&detour.client, &detour.server, address, &lengths), lengths.len());
    let (good, [counts, messages]) = host.stop();
    assert!(good, "{messages}");
    for name in ["hidden", "no_token", "changed"] {
        assert_eq!(value(&counts, &format!("t.{name}")), 0, "{name}: {counts}");
    }
    assert_eq!(value(&counts, "refused.count"), 0, "{counts}");
    counts
}

/// Checks that the file went through the tunnel without its payloads and got them back afterwards.
fn check_tunnelled(counts: &str) {
    let [came, sliced, spliced, tunnelled] =
        ["bytes_in", "sliced", "spliced", "tunnelled"].map(|name| value(counts, &format!("t.{name}")));
    // The file is sent in large segments, of at most 64 KiB.
    let least = LENGTH as u64;
    assert!(came >= least && tunnelled >= least / 65_536, "{counts}");
    assert!(spliced == tunnelled && sliced >= spliced, "{counts}");
}

#[test]
fn the_kernels_tunnel_in_fragments() {
    for device in ["", "udpcsum"] {
        let Some(detour) = tunnel(device) else { return };
        let counts = send(&detour, "");
        check_tunnelled(&counts);
        // Each segment leaves as two fragments; a short segment may leave as one.
        assert!(value(&counts, "parts.count") > SEGMENTS, "{counts}");
        assert_eq!(value(&counts, "told.count"), 0, "{counts}");
    }
}

#[test]
fn the_kernels_tunnel_that_must_not_be_fragmented() {
    let Some(detour) = tunnel("df set") else { return };
    let counts = send(&detour, "");
    check_tunnelled(&counts);
    assert!(value(&counts, "told.count") > 0, "{counts}");
    assert_eq!(value(&counts, "parts.count"), 0, "{counts}");
}

/// The function's kernel knows how long a packet may be for its tunnel, and reports longer packets to their
/// senders.
#[test]
fn the_kernels_tunnel_whose_length_it_knows() {
    let Some(detour) = tunnel("df set") else { return };
    detour.function.ip("link set vx0 mtu 1350").unwrap();
    let counts = send(&detour, ", LONGEST 1350");
    check_tunnelled(&counts);
    assert!(value(&counts, "t.long") > 0, "{counts}");
    assert_eq!(["parts", "told"].map(|name| value(&counts, &format!("{name}.count"))), [0, 0], "{counts}");
}
