//! Seeds: the inputs that fuzzing starts from, made with the product's own builders, samples and examples.

use std::io::Write;

use capture::{LinkType, Writer, WriterOptions};
use element::Class;
use testkit::{classes, corpus};
use trace::generate::{Generated, Generator, Protocols, Specification};
use wire::checksum;

/// Returns the seeds of the target with this name; none if there is no such target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "capture" | "capture_round_trip" => captures(),
        "analysis" | "multiplying" => captures().into_iter().chain(traces()).collect(),
        "language" => bytes(LANGUAGE.iter().copied().chain(examples())),
        "configuration" => {
            bytes(LANGUAGE.iter().copied().chain(examples())).into_iter().chain(samples()).collect()
        }
        "arguments" => bytes(ARGUMENTS.iter().copied()).into_iter().chain(configs()).collect(),
        "argument_types" => bytes(VALUES.iter().copied()),
        "patterns" => patterns(),
        "filters" => filters(),
        "headers" => frames().iter().flat_map(|frame| [0, 14, 34].map(|at| from(frame, at))).collect(),
        "layers" => frames().into_iter().flat_map(|frame| [from(&frame, 14), frame]).collect(),
        "packets" | "slicing" => packets(),
        "program" => programs(),
        _ => Vec::new(),
    }
}

fn bytes<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Vec<u8>> {
    texts.map(|text| text.as_bytes().to_vec()).collect()
}

fn from(frame: &[u8], at: usize) -> Vec<u8> {
    frame.get(at..).unwrap_or_default().to_vec()
}

/// Returns frames of all kinds, of at most 1,000 bytes so that they are small enough for a corpus.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = corpus::frames();
    frames.retain(|frame| frame.len() <= 1_000);
    // IPv6 with three extension headers before UDP: hop-by-hop options, routing header, fragment header.
    let mut ipv6 = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 64];
    ipv6.extend([0x20; 32]);
    ipv6.extend([43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 7]);
    ipv6.extend([0x12, 0x34, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    frames.push(ipv6);
    frames.extend(carrying());
    // IPv4 in MPLS, and in a PPPoE session.
    for header in [&[0x88, 0x47, 0, 1, 0x01, 64][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0, 0x21]] {
        let mut frame = vec![2; 12];
        frame.extend_from_slice(header);
        frame.extend(corpus::ipv4(64, 17, &[], &[0x12, 0x34, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]));
        frames.push(frame);
    }
    frames
}

/// Returns a frame with an IPv4 packet whose checksum begins with ff. When the time to live is decremented,
/// the update of the checksum overflows and the carry has to be added.
fn carrying() -> Option<Vec<u8>> {
    (0..=u8::MAX).find_map(|id| {
        let mut packet = corpus::ipv4(64, 17, &[], &[0x12, 0x34, 0, 53, 0, 8, 0, 0]);
        packet[4] = id;
        packet[10..12].fill(0);
        checksum::fill_ipv4(&mut packet[..20]).ok()?;
        (packet[10] == 0xff).then(|| [&[2; 12][..], &[8, 0], &packet].concat())
    })
}

fn captures() -> Vec<Vec<u8>> {
    let frames = frames();
    let classic = |nanoseconds, link| {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, WriterOptions { nanoseconds, snap_length: 100, link });
        for (number, frame) in frames.iter().take(6).enumerate() {
            // A write to a vector cannot fail.
            let _ = writer.write(1_000_000_001 * number as i64, 100, [&frame[..]]);
        }
        let _ = writer.flush();
        drop(writer);
        file
    };
    let plain =
        [classic(false, LinkType::Ethernet), classic(true, LinkType::RawIp), pcapng(false), pcapng(true)];
    // A record that says that the packet was shorter on the wire than the bytes captured.
    let mut lying = plain[0].clone();
    lying[36..40].copy_from_slice(&1u32.to_le_bytes());
    let packed = plain.iter().flat_map(|file| [gzip(file), zstd(file)]).collect::<Vec<_>>();
    plain.into_iter().chain(packed).chain([lying, Vec::new()]).collect()
}

/// Returns two captures of generated flows, IPv4 and IPv6. In the second, packets are in reverse order, and
/// some come twice.
fn traces() -> Vec<Vec<u8>> {
    let Ok(sizes) = "60:2,90".parse() else { return Vec::new() };
    let specification = Specification {
        flows: 4,
        packets: 30,
        slf: 1.5,
        zipf: 1.0,
        sizes,
        rate: 1e6,
        protocol: Protocols::Mix,
        ipv6: 0.5,
        answers: true,
        seed: 1,
    };
    let Ok(generator) = Generator::new(specification) else { return Vec::new() };
    let packets: Vec<_> = generator.collect();
    let file = |packets: &mut dyn Iterator<Item = &Generated>| {
        let mut file = Vec::new();
        let mut writer =
            Writer::new(&mut file, WriterOptions { nanoseconds: true, ..WriterOptions::default() });
        for packet in packets {
            let _ = writer.write(packet.time, packet.frame.len() as u32, [&packet.frame[..]]);
        }
        let _ = writer.flush();
        drop(writer);
        file
    };
    vec![file(&mut packets.iter()), file(&mut packets.iter().rev().chain(packets.iter().step_by(3)))]
}

/// Returns a pcapng file with two interfaces of different time resolution, packets in each kind of block,
/// and a block of an unknown kind.
fn pcapng(big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = word(12 + body.len() as u32);
        file.extend([&word(kind)[..], &length, body, &length].concat());
    };
    let version = [half(1), half(0)].concat();
    block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat());
    for (link, resolution) in [(1, 6), (101, 9)] {
        let option = [&half(9)[..], &half(1), &[resolution, 0, 0, 0], &[0; 4]].concat();
        block(1, &[&half(link)[..], &[0; 2], &word(0), &option].concat());
    }
    let data = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0];
    for interface in 0..2 {
        let header = [interface, 5, 1_000, 12, 60].map(word).concat();
        block(6, &[&header[..], &data].concat());
    }
    block(3, &[&word(12)[..], &data].concat());
    block(2, &[&half(1)[..], &half(0), &[5, 1_000, 12, 60].map(word).concat(), &data].concat());
    block(0x0bad, b"unknown!");
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Texts in the Click language that together use many constructs of the language.
const LANGUAGE: &[&str] = &[
    "a :: A(1, \"x\"); b :: B; a [1] -> [0] b -> C -> D(// c\n);",
    "elementclass E { $a, K $k, __REST__ $r | input -> F($a) -> output; input [1] -> G($k, $r) -> [1] output }\n\
     x :: E(1, K 2, 3, 4); I -> x -> J; I -> [1] x [1] -> J",
    "elementclass E { -> A -> || $x | => B($x), C => ... } elementclass F { -> E -> } E; F; E(1)",
    "define($a 1, $b ${a}2); require(package p, library l); provide(q); a :: { $p | -> X($p) -> }(3) => [0-1] L",
    "s :: S => ( -> A -> ; [1] -> B -> [1] ) => [0, 1] t :: T; s [2] -> { input -> output } -> T",
    "a, b :: A; # 7 \"other.click\"\n a -> b /* comment */ -> c :: C(\\<00ff>, 'q$x', \"$y\")",
    "Idle -> q :: Queue(10) -> u :: Unqueue -> Discard; q [1] -> Discard; Script(wait 1, print q.length, loop)",
    "FromDump(x.pcap, STOP true) -> t :: Tee(2); t[0] -> ToDump(y.pcap); t[1] -> Discard;",
    "AddressInfo(host 10.0.0.1/8 1:2:3:4:5:6 ::1/64) Idle -> EtherEncap(0x0800, host, host:eth) -> Discard",
];

const ARGUMENTS: &[&str] = &[
    "a, b c, 'd, e', \"f \\\" g\", \\<00 ff>, /* h */ i // j\n, k,",
    "KEY value, (x, y), [z], $v, \\n\\t\\x41\\101, ''\"\"",
];

const VALUES: &[&str] = &[
    "true",
    "no",
    "-17",
    "0x1f",
    "0b101",
    "017",
    "1_000_000",
    "340282366920938463463374607431768211456",
    "-1.5e3",
    "1.5ms",
    "3 min",
    "10Mbps",
    "1.5 GBps",
    "10.0.0.1",
    "10.1/16",
    "10.0.0.0/255.0.0.0",
    "host",
    "host:ip",
    "host:net",
    "fe80::1",
    "1:2:3:4:5:6",
    "aa-bb-cc-dd-ee-ff",
    "\"a b\"",
    "\\<00 ff>",
    "PAINT",
    "DST_IP",
    "20",
    "element",
    "FIRST_TIMESTAMP",
];

fn patterns() -> Vec<Vec<u8>> {
    let lists = [
        "12/0800, 12/0806 20/0001, 12/86dd, -",
        "0/00 !1/01 2/ff%0f, 0/0? 3/1?2?, !0/01%7f, 1/0102030405",
        // The pattern `0/01` can be reached both after a match of the first test and after a mismatch.
        "0/01 4/02, 8/03, 0/01, -",
        "5/00%00, 0/ffffffff%f0f0f0f0 !4/00, -, 0/01",
    ];
    let frames = [&[0; 24][..], &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0], &[1, 2, 3, 4, 5]];
    lists.iter().flat_map(|list| frames.map(|frame| [list.as_bytes(), &[0], frame].concat())).collect()
}

fn filters() -> Vec<Vec<u8>> {
    let lists = [
        "src net 10.0.0.0/8 && tcp port 80 or 443, udp and not dst port < 1024, ip frag, -",
        "ip vers 4 and ip hl > 5, ip tos & 3 == 1, ip dscp 46, ip ect, ce, ip id != 7, ip ttl <= 64, ip len 40",
        "tcp opt syn, syn ack, tcp win 512, icmp type echo, tcp[13] & 2 != 0, transp[0:2] 53, ip[12:4] 0x0a000001",
        "src and dst host 10.0.0.1 ? tcp : udp ? true : false, (host != 10.0.0.2) or (net 10.0.0.0 mask 255.0.0.0)",
        "ip6 src host 2001:db8::1, ip6 tcp port 80, ip6 net fe80::/10, ip6[7] 64, ether host 2:0:0:0:0:1",
        "src or dst ether host & ff:ff:0:0:0:0 2:0:0:0:0:2, ip proto != tcpudp, !(unfrag), port & 1 > 0, !!www",
        "tcp or, port, ip[3:2] 5, (, not, a ? b, host > 1.2.3.4, port & 0 1, ip ttl 256, src dst 5, 1 ? 2",
    ];
    let frames = frames().into_iter().filter(|frame| (34..80).contains(&frame.len())).step_by(4);
    let frames: Vec<Vec<u8>> = frames.map(|frame| [vec![0, 14], frame].concat()).collect();
    lists.iter().flat_map(|list| frames.iter().map(|frame| [list.as_bytes(), frame].concat())).collect()
}

/// Returns inputs for [`packets`](fn@crate::packets): each frame alone, all small frames together, and two
/// special inputs.
fn packets() -> Vec<Vec<u8>> {
    let one = |frame: &Vec<u8>| [&(frame.len() as u16).to_le_bytes()[..], frame].concat();
    let frames = frames();
    let mut seeds: Vec<Vec<u8>> = frames.iter().map(|frame| [vec![3], one(frame)].concat()).collect();
    let short = frames.iter().filter(|frame| frame.len() < 64);
    seeds.push(std::iter::once(vec![7]).chain(short.map(one)).collect::<Vec<_>>().concat());
    // A burst of more packets than the queue of the chain holds.
    seeds.push([vec![63], one(&frames[0]).repeat(12)].concat());
    // A packet of many slots, whose length exceeds the rest of the input.
    seeds.push([vec![0, 0xff, 0xff], frames[0].clone()].concat());
    seeds
}

/// Programs as text, which together use many forms of the lines of a program.
pub(crate) const PROGRAMS: &[&str] = &[
    "LAYOUT ANY 0 14 34, OTHERWISE 1, PASSING a b, MACHINE_CODE now, USE always, START n0, \
     n0 length 53:c0 *:n1, n1 ipsum14 0:c1 *:n2, n2 0<=14+1*16/2-4*14/1&0xf 0:c2 *:n3, \
     n3 anno16/1 3:n4 *:c1, n4 14/16 9:c0 *:n5, n5 type 0:n6 *:c2, n6 list0 0:c1 *:n7, n7 step0.0/4 0:c0 *:c3, \
     l0 of 0 0 at 14 34 end 14+1*16/2, r 0 0 &2 n9/1=6 t2/2!=80-81, r 1 1 ? yes ! |1 m12/2&ff0f=8 no, \
     s0 of 1.0.0 behind - at 14; mark - 14 34; out 0, \
     c0 at 14; end 14+1*16/2; mark - 14 -; type 3; from 1; frame; stamp; put 0 000102; add 22 22/1 -1; \
     sum 14 22; out 1; via 0.0.1@14 1.0.0@-4e, \
     c1 at -4; put -4 01020304; mask 15 15 0f 10; sum 14 all; put anno3 0708; copy anno8 26/4; out 0, \
     c2 at 0; copy 26 30/4; add 36 36/2 9; sum 14 26 28; tcp 34 26 28 36; out 0; via 0.0.0@0, \
     c3 at 0; copy 26 step0.0/4; udp 34 26 28; drop denied; via 0.0.1@0",
    "LAYOUT ?- 0 20, PASSING a, START c0, c0 at -14; mark -14 0 =; put -14 000102030405060708090a0b0800; \
     add 8 8/1 -1; add 4 4/8 77; sum 0 8; out 1; via 0.0.0@0",
];

/// The numbers that are put in place of each number of a program.
const EXTREMES: &[&str] = &[
    "0",
    "-1",
    "255",
    "65536",
    "-65536",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
];

/// Returns inputs for [`program`](fn@crate::program): programs, and each program with one number replaced by
/// each of the [`EXTREMES`].
fn programs() -> Vec<Vec<u8>> {
    let frame = frames().into_iter().find(|frame| frame.len() > 60).unwrap_or_default();
    let changed = PROGRAMS.iter().flat_map(|text| {
        numbers(text).into_iter().flat_map(move |(start, end)| {
            EXTREMES.iter().map(move |number| [&text[..start], number, &text[end..]].concat())
        })
    });
    let texts = PROGRAMS.iter().map(|text| text.to_string()).chain(changed);
    texts.map(|text| [text.as_bytes(), &[0], &frame].concat()).collect()
}

/// Returns the start and the end of each decimal number in a text, its sign included.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    for (place, _) in text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match numbers.last_mut().filter(|(_, end)| *end == place) {
            Some((_, end)) => *end = place + 1,
            None => {
                let is_negative = [" -", "@-"].iter().any(|sign| text[..place].ends_with(sign));
                numbers.push((place - usize::from(is_negative), place + 1));
            }
        }
    }
    numbers
}

/// Returns the example configurations in the manual pages of all classes.
fn examples() -> impl Iterator<Item = &'static str> {
    let blocks = |class: &'static Class| class.manual.split("```").skip(1).step_by(2);
    classes().flat_map(blocks)
}

/// Returns the sample arguments of all classes.
fn configs() -> Vec<Vec<u8>> {
    bytes(classes().flat_map(|class| class.samples.iter().copied()))
}

/// Returns configurations with one element between Idle and Discard, for each class and each of its
/// samples.
fn samples() -> Vec<Vec<u8>> {
    let sample = |class: &Class, text: &str| {
        let config = text.rsplit_once("-> ").map_or(text, |(config, _)| config);
        format!("Idle -> {}({config}) -> Discard", class.name).into_bytes()
    };
    classes().flat_map(|class| class.samples.iter().map(move |text| sample(class, text))).collect()
}
