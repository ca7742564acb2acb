//! Generation of the captures for the example routers: traffic of hosts on both links. The test compares
//! them with the captures in `configs/data`; with `BLESS=1` it writes these.

use std::path::Path;

use wire::MacAddr;

use crate::net::*;

/// Makes the frames that arrive by the left and the right link: a conversation of 80 packets from each
/// side, and single packets of kinds that a router has to treat specially. `hosts` are on the left, on the
/// right, and a gateway on the right.
fn conversation(hosts: [Host; 3], ip6: bool) -> [Arrivals; 2] {
    let [left, right, far] = hosts;
    let address = |host: Host| if ip6 { host.ip6.into() } else { std::net::IpAddr::from(host.ip) };
    let (mut by_left, mut by_right) = (Arrivals::new(), Arrivals::new());
    for i in 0..80 {
        let time = 20_000 * i + 10_000;
        let size = [20, 200, 700, 1150][i as usize % 4];
        by_left.push((time, from(left, &udp(address(left), address(right), size))));
        by_right.push((time + 7_000, from(right, &udp(address(right), address(left), size))));
    }
    let (behind, nowhere): (std::net::IpAddr, std::net::IpAddr) = match ip6 {
        true => ("2001:db8:9::1".parse().unwrap(), "2001:db8:ffff::1".parse().unwrap()),
        false => ([10, 9, 1, 1].into(), [192, 0, 2, 1].into()),
    };
    let ping = if ip6 { 128 } else { 8 };
    let odd = [
        udp(address(left), behind, 300),
        udp(address(left), nowhere, 30),
        changed(address(left), address(right), 64, |builder| builder.ttl(1)),
        changed(address(left), address(right), 1400, |builder| builder.fragment(0x4000)),
        udp(address(left), address(right), 1400),
        icmp(address(left), address(ROUTER), ping, 0, b"how are you"),
        udp(address(left), address(ROUTER), 12),
        udp(address(left), address(NEAR), 50),
    ];
    for (i, packet) in odd.iter().enumerate() {
        by_left.push((100_000 * (i as i64 + 1) + 5_000, from(left, packet)));
    }
    // Hosts answer a query of the router a millisecond after it. All hosts answer at each of these times,
    // since the router may have queried any of them.
    for time in [11_000, 18_000, 106_000, 206_000, 806_000] {
        let answer = |host, router| match ip6 {
            true => (time, advertisement(host, router)),
            false => (time, arp_reply(host, router)),
        };
        by_left.extend([left, NEAR].map(|host| answer(host, ROUTER)));
        by_right.extend([right, far].map(|host| answer(host, ROUTER_RIGHT)));
    }
    if !ip6 {
        by_left.push((0, arp(1, MacAddr::BROADCAST, left, (ROUTER.ip, MacAddr([0; 6])))));
        let packet = with_options(&udp(left.ip, right.ip, 40), &[7, 7, 4, 0, 0, 0, 0]);
        by_left.push((905_000, from(left, &packet)));
        by_left.push((915_000, framed(MacAddr::BROADCAST, left.mac, &udp(left.ip, [10, 1, 0, 255], 40))));
    }
    by_left.sort_by_key(|&(time, _)| time);
    by_right.sort_by_key(|&(time, _)| time);
    [by_left, by_right]
}

#[test]
fn examples_have_these_captures() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/data");
    let folder = tempfile::tempdir().unwrap();
    for (name, ip6) in [("router", false), ("router6", true)] {
        for (side, arrivals) in ["left", "right"].into_iter().zip(conversation([LEFT, RIGHT, FAR], ip6)) {
            let file = format!("{name}-{side}.pcap");
            let (fresh, kept) = (folder.path().join(&file), data.join(&file));
            write_capture(&fresh, &arrivals);
            if std::env::var_os("BLESS").is_some() {
                std::fs::copy(&fresh, &kept).unwrap();
            }
            assert!(std::fs::read(&fresh).unwrap() == std::fs::read(&kept).unwrap(), "{file} is another one");
        }
        let [left, right] = conversation([LEFT, RIGHT, FAR], ip6);
        let routed = run(&format!("{name}.click"), &left, &right, &[]);
        // All packets of the conversation arrive. The left host also gets ICMP messages about its special
        // packets.
        assert!(routed.packets(1).len() >= 80 && routed.packets(0).len() >= 85, "{name}");
    }
}
