//! Tests of translators against requirements of RFC 4787, RFC 5382 and RFC 5508. The name of each test gives
//! the requirements that the test is about. The table in `docs/nat.md` lists all requirements with their
//! tests, of which some are in other files.

use super::*;

/// Sends packets through a translator of this class. Returns the number of packets that pass.
fn through(class: &str, packets: &[(i64, Vec<u8>)]) -> usize {
    run(&gateway(class, &format!("{NAPT}, REAP_INTERVAL 1")), 2, packets, &[]).1.len()
}

#[test]
fn rfc4787_req_2_flows_of_a_host_share_an_address() {
    // There are two outer addresses. All flows of a host have to get the same one.
    let config =
        "m :: SourceIPHashMapper(50 3, 192.0.2.1 1024-65535 - - 0 1 1, 192.0.2.2 1024-65535 - - 0 1 2);
        in -> rw :: IPRewriter(m);";
    let flow = |n: u8| udp(end([10, 0, 0, n % 20], 5000 + u16::from(n)), end([2, 0, 0, n], 53));
    let packets: Vec<_> = (0..100).map(|n| (i64::from(n), flow(n))).collect();
    let (_, seen) = run(config, 2, &packets, &[]);
    let outer = |n: usize| seen[n].bytes[12..16].to_vec();
    assert!((20..100).all(|n| outer(n) == outer(n % 20)));
    assert!((0..20).any(|n| outer(n) == OUTER) && (0..20).any(|n| outer(n) == [192, 0, 2, 2]));
}

#[test]
fn rfc4787_req_4_the_parity_of_a_free_port_is_kept() {
    let packets: Vec<_> = (0..20).map(|n| (n, udp(end(INSIDE, 5000 + n as u16), end(REMOTE, 53)))).collect();
    let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &packets, &[]);
    assert!(seen.iter().zip(5000..).all(|(seen, port)| ends(&seen.bytes).0.port() == port));
}

#[test]
fn rfc4787_req_5_udp_mappings_hold_for_five_minutes() {
    let there = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let back = udp(end(REMOTE, 53), end(OUTER, 5000));
    assert_eq!(through("IPRewriter", &[(0, there.clone()), (299_000, back.clone())]), 2);
    assert_eq!(through("IPRewriter", &[(0, there), (302_000, back)]), 1);
}

#[test]
fn rfc4787_req_6_packets_from_inside_refresh_a_mapping() {
    let there = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let back = udp(end(REMOTE, 53), end(OUTER, 5000));
    assert_eq!(through("IPRewriter", &[(0, there.clone()), (250_000, there), (500_000, back)]), 3);
}

#[test]
fn rfc4787_req_10_payloads_are_left_alone() {
    let there = Builder::udp(end(INSIDE, 5060), end(REMOTE, 5060)).build(b"Contact: 10.0.0.1:5060").unwrap();
    let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &[(0, there.clone())], &[]);
    assert_eq!(seen[0].bytes[28..], there[28..]);
}

#[test]
fn rfc4787_req_11_who_comes_too_late_for_a_port_is_translated_like_others() {
    // 50 hosts want the same port. The first gets it, each of the others another port of the range, and all
    // get their replies.
    let there: Vec<_> = (0..50).map(|n| (n, udp(end([10, 0, 0, n as u8], 5000), end(REMOTE, 53)))).collect();
    let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &there, &[]);
    let ports: std::collections::BTreeSet<u16> = seen.iter().map(|s| ends(&s.bytes).0.port()).collect();
    assert!(ends(&seen[0].bytes).0.port() == 5000 && ports.len() == 50 && ports.first() >= Some(&1024));
    let back = seen.iter().zip(100..).map(|(seen, at)| (at, answer(&seen.bytes)));
    let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &[there.clone(), back.collect()].concat(), &[]);
    for (seen, (_, there)) in seen[50..].iter().zip(&there) {
        assert_eq!(seen.bytes, answer(there));
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn rfc5382_req_2_both_ends_may_open_a_connection_at_once() {
    let (inside, remote) = (end(INSIDE, 5000), end(REMOTE, 80));
    let outer = end(OUTER, 5000);
    let packets = [
        (0, tcp(inside, remote, SYN, b"")),
        (1, tcp(remote, outer, SYN, b"")),
        (2, tcp(inside, remote, SYN | ACK, b"")),
        (3, tcp(remote, outer, SYN | ACK, b"")),
    ];
    assert_eq!(through("IPRewriter", &packets), 4);
    assert_eq!(through("TCPRewriter", &packets), 4);
}

#[test]
fn rfc5382_req_4_nobody_answers_an_unsolicited_syn() {
    let (inside, remote, outer) = (end(INSIDE, 5000), end(REMOTE, 80), end(OUTER, 5000));
    let open = tcp(inside, remote, SYN, b"");
    // SYNs that belong to no connection of the host: from another host, from another port, and to another
    // outer port.
    let others = [(end([2, 0, 0, 3], 80), outer), (end(REMOTE, 81), outer), (remote, end(OUTER, 5001))];
    let syns = others.into_iter().map(|(from, to)| (1, tcp(from, to, SYN, b"")));
    let packets: Vec<_> = std::iter::once((0, open)).chain(syns).collect();
    let (outcome, seen) = run(&gateway("IPRewriter", NAPT), 2, &packets, &["rw.size"]);
    assert_eq!((seen.len(), value(&outcome, 0)), (1, "1"));
}

#[test]
fn rfc5382_req_5_data_in_one_direction_needs_a_longer_time_out_than_clicks() {
    let (inside, remote, outer) = (end(INSIDE, 5000), end(REMOTE, 80), end(OUTER, 5000));
    let packets = |late: i64| {
        [
            (0, tcp(inside, remote, SYN, b"")),
            (1, tcp(remote, outer, SYN | ACK, b"")),
            (2, tcp(inside, remote, ACK, b"")),
            (3, tcp(inside, remote, ACK, b"request")),
            (4, tcp(remote, outer, ACK, b"")),
            (late, tcp(remote, outer, ACK, b"reply")),
        ]
    };
    let come = |more: &str, late: i64| {
        let config = gateway("IPRewriter", &format!("{NAPT}, REAP_INTERVAL 1{more}"));
        run(&config, 2, &packets(late), &[]).1.len()
    };
    assert_eq!([come("", 299_000), come("", 1_200_000)], [6, 5]);
    let longer = ", TCP_NODATA_TIMEOUT 7440";
    assert_eq!([come(longer, 7_440_000), come(longer, 7_442_000)], [6, 5]);
}

#[test]
fn rfc5382_req_5_connections_hold_for_two_hours_and_a_half_open_one_for_four_minutes() {
    let (inside, remote, outer) = (end(INSIDE, 5000), end(REMOTE, 80), end(OUTER, 5000));
    let late = |milliseconds: i64| (milliseconds, tcp(remote, outer, ACK, b""));
    let open = vec![
        (0, tcp(inside, remote, SYN, b"")),
        (1, tcp(remote, outer, SYN | ACK, b"")),
        (2, tcp(inside, remote, ACK, b"request")),
        (3, tcp(remote, outer, ACK, b"reply")),
    ];
    let with = |more: Vec<(i64, Vec<u8>)>| through("IPRewriter", &[open.clone(), more].concat()) - open.len();
    assert_eq!(with(vec![late(23 * 3_600_000)]), 1, "two hours and four minutes are asked for");
    assert_eq!(with(vec![late(25 * 3_600_000)]), 0);
    let half = |at| through("IPRewriter", &[open[0].clone(), late(at)]) - 1;
    assert_eq!([half(241_000), half(302_000)], [1, 0]);
    let closed = |at| {
        with(vec![
            (4, tcp(inside, remote, FIN | ACK, b"")),
            (5, tcp(remote, outer, FIN | ACK, b"")),
            late(at),
        ])
    };
    assert_eq!([closed(239_000), closed(243_000)], [3, 2]);
    let reset = |at| with(vec![(4, tcp(inside, remote, RST, b"")), late(at)]);
    assert_eq!([reset(239_000), reset(243_000)], [2, 1]);
    // A SYN from the inside host reopens a closed connection with the same ports. The connection is then half
    // open, whatever packets the closed connection had, and its mapping lives as long as that of a half-open
    // connection.
    let again = |at| {
        with(vec![
            (4, tcp(inside, remote, FIN | ACK, b"")),
            (5, tcp(remote, outer, FIN | ACK, b"")),
            (6, tcp(inside, remote, SYN, b"")),
            late(at),
        ])
    };
    assert_eq!([again(241_000), again(302_000)], [4, 3]);
}

#[test]
fn rfc5382_req_9_errors_about_tcp_are_translated() {
    let segment = tcp(end(INSIDE, 5000), end(REMOTE, 80), SYN, b"hello");
    let outside = &with_errors(&[(0, segment.clone())])[0].bytes;
    for quoted in [28, 40, 45] {
        let seen = with_errors(&[(0, segment.clone()), (1, error([7; 4], outside, quoted))]);
        assert_eq!(seen[1].bytes, error([7; 4], &segment, quoted), "{quoted} bytes quoted");
    }
}

#[test]
fn rfc4787_req_12_and_rfc5382_req_10_an_error_ends_no_mapping() {
    for packet in [udp(end(INSIDE, 1), end(REMOTE, 80)), tcp(end(INSIDE, 1), end(REMOTE, 80), SYN, b"")] {
        let outside = with_errors(&[(0, packet.clone())])[0].bytes.clone();
        let mut reply = answer(&outside);
        refill(&mut reply);
        let seen = with_errors(&[(0, packet.clone()), (1, error([7; 4], &outside, 28)), (2, reply)]);
        assert_eq!(seen.len(), 3);
        assert_eq!(ends(&seen[2].bytes), (end(REMOTE, 80), end(INSIDE, 1)));
    }
}

#[test]
fn rfc5508_req_1_pings_are_told_apart_and_hold_for_more_than_a_minute() {
    let pings: Vec<_> = (0..3).map(|n| (n, echo([10, 0, 0, n as u8 + 1], REMOTE, 8, 5))).collect();
    let outside = with_errors(&pings);
    let identifiers: Vec<u16> =
        outside.iter().map(|s| u16::from_be_bytes([s.bytes[24], s.bytes[25]])).collect();
    assert_eq!(identifiers, [700, 701, 702]);
    let with_replies = |at: i64| {
        let replies = outside.iter().zip(at..).map(|(seen, at)| {
            let mut reply = answer(&seen.bytes);
            refill(&mut reply);
            (at, reply)
        });
        with_errors(&pings.iter().cloned().chain(replies).collect::<Vec<_>>())
    };
    assert_eq!(with_replies(302_000).len(), 3, "over");
    let seen = with_replies(298_000);
    for (n, seen) in seen[3..].iter().enumerate() {
        let mut expected = answer(&pings[n].1);
        refill(&mut expected);
        assert_eq!(seen.bytes, expected);
    }
    assert_eq!(seen.len(), 6);
    // A reply without a request finds no mapping, and is dropped.
    let stray = answer(&echo(OUTER, REMOTE, 8, 4));
    assert_eq!(with_errors(&[(0, stray)]).len(), 0);
}

#[test]
fn rfc5508_req_4_errors_from_outside_are_translated_with_what_they_quote() {
    // UDP, echo requests, and the other queries: time stamps, information, address masks.
    let queries = [8, 13, 15, 17].map(|kind| echo(INSIDE, REMOTE, kind, 9));
    for packet in [udp(end(INSIDE, 5000), end(REMOTE, 53))].into_iter().chain(queries) {
        let outside = with_errors(&[(0, packet.clone())])[0].bytes.clone();
        let seen = with_errors(&[(0, packet.clone()), (1, error([7; 4], &outside, usize::MAX))]);
        let mut expected = error([7; 4], &packet, usize::MAX);
        refill(&mut expected);
        assert_eq!(seen[1].bytes, expected);
        // Without a mapping for the quoted packet, the ICMP error is not forwarded.
        assert_eq!(with_errors(&[(0, error([7; 4], &outside, usize::MAX))]).len(), 0);
    }
}

#[test]
fn rfc5508_req_5_errors_from_inside_are_translated_with_what_they_quote() {
    let packet = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let outside = with_errors(&[(0, packet.clone())])[0].bytes.clone();
    let mut reply = answer(&outside);
    refill(&mut reply);
    let inside = with_errors(&[(0, packet.clone()), (1, reply.clone())])[1].bytes.clone();
    let seen = with_errors(&[(0, packet), (1, reply.clone()), (2, error(INSIDE, &inside, usize::MAX))]);
    // The packet that the error quotes has the translator's outer address as its destination again, as before
    // its translation. The source address of the error's own IP header is left to the next translator
    // downstream.
    assert_eq!(seen[2].bytes[28..], reply[..]);
    assert!(is_sound(&seen[2].bytes));
}

#[test]
fn rfc5508_req_5_errors_from_inside_about_pings_find_no_mapping() {
    let ping = echo(INSIDE, REMOTE, 8, 5);
    let outside = with_errors(&[(0, ping.clone())])[0].bytes.clone();
    let mut reply = answer(&outside);
    refill(&mut reply);
    let inside = with_errors(&[(0, ping.clone()), (1, reply.clone())])[1].bytes.clone();
    let seen = with_errors(&[(0, ping), (1, reply), (2, error([10, 0, 0, 9], &inside, usize::MAX))]);
    assert_eq!(seen.len(), 2);
}
