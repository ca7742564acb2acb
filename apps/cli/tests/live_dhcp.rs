//! DHCPRelay between a real client and a real server on another network. Skipped with a message if network
//! namespaces cannot be created, or dnsmasq or udhcpc is not installed.

mod line;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use line::{Line, run, value};

fn has(program: &str) -> bool {
    Command::new(program).arg("--help").output().is_ok()
}

/// The relay: clients are at the interface `left`, the server at `right`. The relay answers ARP queries for
/// its addresses at both sides.
const RELAY: &str = "
    AddressInfo(clients 10.88.0.1, servers 10.77.0.3);
    relay :: DHCPRelay(clients, 10.77.0.2, CIRCUIT_ID lan1);
    FromDevice(left, PROMISC true) -> l :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> [0] relay;
    l[1] -> Discard;
    to_left :: Queue -> ToDevice(left);
    relay[1] -> EtherEncap(0x0800, 2:0:0:0:0:9, ff:ff:ff:ff:ff:ff) -> to_left;
    FromDevice(right, PROMISC true) -> r :: Classifier(12/0800, 12/0806 20/0001, 12/0806 20/0002, -);
    to_right :: Queue -> ToDevice(right);
    arp :: ARPQuerier(servers, 2:0:0:0:0:9) -> to_right;
    r[0] -> Strip(14) -> CheckIPHeader -> [1] relay;
    r[1] -> ARPResponder(clients 2:0:0:0:0:9, servers 2:0:0:0:0:9) -> to_right;
    r[2] -> [1] arp; r[3] -> Discard;
    relay[0] -> [0] arp";

#[test]
fn a_client_gets_its_address_from_a_server_on_another_network() {
    let Some(line) = Line::new() else { return };
    if !has("dnsmasq") || !has("udhcpc") {
        return println!("skipped: dnsmasq or udhcpc is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    line.left.ip("addr flush dev eth0").unwrap();
    line.right.ip("route add 10.88.0.0/24 dev eth0").unwrap();
    // Only clients of the circuit `lan1` get an address of this range, so the server has understood the
    // option of the agent.
    let leases = format!("--dhcp-leasefile={}", file("leases"));
    let pid = format!("--pid-file={}", file("pid"));
    let server = [
        "--keep-in-foreground",
        "--no-resolv",
        "--no-hosts",
        "--conf-file=/dev/null",
        "--port=0",
        "--user=root",
        "--interface=eth0",
        "--dhcp-authoritative",
        "--dhcp-circuitid=set:lan,lan1",
        "--dhcp-range=tag:lan,10.88.0.50,10.88.0.59,255.255.255.0,1h",
        "--dhcp-option=tag:lan,option:router,10.88.0.1",
        "--log-facility=-",
        &leases,
        &pid,
    ];
    let mut server = line.right.spawn("dnsmasq", &server).unwrap();
    server.wait_until_said("DHCP, IP range 10.88.0.50").unwrap();
    let handlers = ["relay.requests", "relay.replies", "relay.refused"];
    let options: Vec<&str> = handlers.iter().flat_map(|handler| ["-H", handler]).collect();
    let running = run(&line.between, RELAY, &options);
    // The client hands its address to a script by the environment.
    let (script, result) = (file("script"), file("address"));
    std::fs::write(&script, format!("#!/bin/sh\n[ \"$1\" != bound ] || echo $ip $router >{result}\n"))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let client = ["-i", "eth0", "-f", "-q", "-n", "-t", "5", "-T", "2", "-s", &script];
    let said = line.left.command("udhcpc").args(client).output().unwrap();
    sleep(Duration::from_millis(100));
    let (good, [output, messages]) = running.stop();
    let (_, of_server) = server.stop();
    let address = std::fs::read_to_string(&result).unwrap_or_default();
    let what = format!("{said:?} {output} {messages} {of_server:?}");
    assert!(
        good && address.starts_with("10.88.0.5") && address.trim().ends_with("10.88.0.1"),
        "{address} {what}"
    );
    // Discovery and request, each with its answer, came through the relay.
    let counts = handlers.map(|handler| value(&output, handler));
    assert!(counts[0] >= 2 && counts[1] >= 2 && counts[2] == 0, "{counts:?} {what}");
}
