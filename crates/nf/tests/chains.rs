//! Tests of chains, each described in a text file: the configuration, input packets, and the expected
//! output.
//!
//! A file has sections that start with `--`:
//! - `config`: the configuration, where `SOURCE` pushes the packets and `SINK0`, `SINK1` ... record packets
//! - `packets`: one packet per line in hexadecimal; spaces are ignored, and `*N` repeats a byte N times
//! - `out`: the expected packets, as sink and bytes
//! - `messages`: the expected text of messages and output
//! - `counters`: the expected packets in, out, held and dropped, for each element
//!
//! `BLESS=1 cargo test` writes the expected sections with the actual results.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use element::Timestamp;
use testkit::Run;
use testkit::elements::{Input, collect, offer};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the sections of a file in order, each with its name.
fn sections(text: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("-- ") {
            sections.push((title.trim(), String::new()));
        } else if let Some((_, body)) = sections.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    sections
}

/// Parses hexadecimal text such as `0800 00*20`, where `*20` repeats the byte twenty times.
fn bytes(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in line.split_whitespace() {
        let (hex, times) = word.split_once('*').map_or((word, 1), |(hex, n)| (hex, n.parse().unwrap()));
        let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        let unit: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        (0..times).for_each(|_| bytes.extend_from_slice(&unit));
    }
    bytes
}

/// Formats bytes as hexadecimal, in groups of four bytes.
fn hex(bytes: &[u8]) -> String {
    let groups = bytes.chunks(4).map(|g| g.iter().map(|b| format!("{b:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join(" ")
}

fn actual(config: &str, packets: &str) -> [(&'static str, String); 3] {
    let inputs = packets.lines().filter(|line| !line.trim().is_empty()).enumerate().map(|(i, line)| Input {
        bytes: bytes(line),
        time: Timestamp::from_secs(i as i64 + 1),
        annotations: [0; 48],
        headers: [None; 3],
    });
    let number = offer(vec![inputs.collect()]);
    let mut text = config.replace("SOURCE", &format!("TestSource({number}, 0)"));
    for sink in 0..8 {
        text = text.replace(&format!("SINK{sink}"), &format!("TestSink({number}, {sink})"));
    }
    // A burst of one is the default in Click, so that all events have the same order as in Click.
    let outcome = Run { burst: None, ..Run::default() }.text(&text, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances());
    let out = collect(number).iter().map(|seen| format!("{}: {}\n", seen.sink, hex(&seen.bytes))).collect();
    let mut counters = String::new();
    for e in outcome.report.elements.iter().filter(|e| !e.class.starts_with("Test")) {
        let drops: String = e.drops.iter().map(|(reason, n)| format!(", {reason} {n}")).collect();
        let _ = writeln!(counters, "{}: in {}, out {}, held {}{drops}", e.name, e.packets_in, e.out, e.held);
    }
    [("out", out), ("messages", outcome.messages + &outcome.output), ("counters", counters)]
}

#[test]
fn chains_do_what_their_files_say() {
    let files = cases();
    assert!(files.len() >= 6, "the chain tests are missing");
    let mut failures = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let given = sections(&text);
        let section = |name: &str| given.iter().find(|(n, _)| *n == name).map_or("", |(_, body)| body);
        let actual = actual(section("config"), section("packets"));
        if std::env::var_os("BLESS").is_some() {
            let mut new = String::new();
            for (name, body) in given.iter().filter(|(n, _)| ["config", "packets"].contains(n)) {
                new += &format!("-- {name}\n{body}");
            }
            actual.iter().for_each(|(name, body)| new += &format!("-- {name}\n{body}"));
            std::fs::write(&file, new).unwrap();
            continue;
        }
        for (name, body) in &actual {
            if section(name) != body {
                failures.push(format!(
                    "{}: {name}\nexpected:\n{}\nis:\n{body}",
                    file.display(),
                    section(name)
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
