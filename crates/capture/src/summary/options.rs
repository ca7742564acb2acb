//! IP and TCP options as text, written and parsed: `mss1400;wscale10;sackok`, `rr{10.0.0.1}+5`.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// The TCP options that a field of a summary shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    All,
    /// All options except time stamps (field `tcp_ntopt`).
    Others,
    Sack,
}

impl Chosen {
    fn has(self, kind: u8) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Others => kind != 8,
            Chosen::Sack => matches!(kind, 4 | 5),
        }
    }
}

/// Returns an iterator over the kind and the data of each option. It skips padding, and ends at the
/// end-of-list option. If an option is malformed, a last `None` follows.
fn each(mut options: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    std::iter::from_fn(move || {
        loop {
            match *options {
                [] | [0, ..] => return None,
                [1, ..] => options = &options[1..],
                [kind, length, ..] if (2..=options.len()).contains(&usize::from(length)) => {
                    let (one, rest) = options.split_at(length.into());
                    options = rest;
                    return Some(Some((kind, &one[2..])));
                }
                _ => {
                    options = &[];
                    return Some(None);
                }
            }
        }
    })
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// Writes options to `out`, separated by semicolons. `one` writes an option, or nothing if the field does not
/// show it, and returns false if the option is malformed. If any option is malformed, only `?` is written; if
/// no option is shown, `.` is written.
fn join(out: &mut String, options: &[u8], mut one: impl FnMut(&mut String, u8, &[u8]) -> bool) {
    let start = out.len();
    for option in each(options) {
        let before = out.len();
        if before > start {
            out.push(';');
        }
        let separated = out.len();
        if !option.is_some_and(|(kind, data)| one(out, kind, data)) {
            out.truncate(start);
            return out.push('?');
        }
        if out.len() == separated {
            out.truncate(before);
        }
    }
    if out.len() == start {
        out.push('.');
    }
}

/// Writes an option without a name of its own as kind and data bytes: `99=0:5:10`.
fn plain(out: &mut String, kind: u8, data: &[u8]) {
    // Errors can be ignored: writing to a string cannot fail.
    let _ = write!(out, "{kind}");
    for (i, byte) in data.iter().enumerate() {
        let _ = write!(out, "{}{byte}", if i == 0 { '=' } else { ':' });
    }
}

/// Writes the TCP options that `chosen` selects as text.
pub(super) fn describe_tcp(out: &mut String, options: &[u8], chosen: Chosen) {
    join(out, options, |out, kind, data| {
        let sound = match kind {
            2 => data.len() == 2,
            3 => data.len() == 1,
            4 => data.is_empty(),
            5 => data.len().is_multiple_of(8),
            8 => data.len() == 8,
            _ => true,
        };
        if !sound || !chosen.has(kind) {
            return sound;
        }
        let _ = match kind {
            2 => write!(out, "mss{}", number(data)),
            3 => write!(out, "wscale{}", data[0]),
            4 => write!(out, "sackok"),
            5 => data.chunks(8).enumerate().try_for_each(|(i, block)| {
                let separator = if i > 0 { ";" } else { "" };
                write!(out, "{separator}sack{}-{}", number(&block[..4]), number(&block[4..]))
            }),
            8 => write!(out, "ts{}:{}", number(&data[..4]), number(&data[4..])),
            _ => {
                plain(out, kind, data);
                Ok(())
            }
        };
        true
    });
}

/// Writes IP options as text, separated by semicolons.
pub(super) fn describe_ip(out: &mut String, options: &[u8]) {
    join(out, options, |out, kind, data| match kind {
        7 | 131 | 137 => describe_route(out, kind, data),
        68 => describe_time(out, data),
        _ => {
            plain(out, kind, data);
            true
        }
    });
}

/// Writes a route option as text; returns false if it is malformed. Record route shows the addresses before
/// the pointer, and the number of addresses for which there is room after it. Source routes show all
/// addresses, with `^` at the pointer.
fn describe_route(out: &mut String, kind: u8, data: &[u8]) -> bool {
    let Some((&pointer, route)) = data.split_first().filter(|(pointer, _)| **pointer >= 4) else {
        return false;
    };
    let at = usize::from(pointer) - 4;
    out.push_str(match kind {
        7 => "rr{",
        131 => "lsrr{",
        _ => "ssrr{",
    });
    let mut end = 0;
    for (i, address) in route.chunks_exact(4).enumerate() {
        if 4 * i == at && kind == 7 {
            break;
        }
        let separator = if 4 * i == at && kind != 7 {
            "^"
        } else if i > 0 {
            ","
        } else {
            ""
        };
        let _ = write!(out, "{separator}{}", Ipv4Addr::from_bits(number(address)));
        end = 4 * i + 4;
    }
    if end == at && end == route.len() && kind != 7 {
        out.push('^');
    }
    out.push('}');
    if kind == 7 && end == at && end + 4 <= route.len() {
        let _ = write!(out, "+{}", (route.len() - end) / 4);
    }
    true
}

fn describe_time(out: &mut String, data: &[u8]) -> bool {
    let [pointer, flags, entries @ ..] = data else { return false };
    if *pointer < 5 {
        return false;
    }
    let (at, flag) = (usize::from(*pointer) - 5, flags & 15);
    let addressed = (1..=3).contains(&flag);
    let size = if addressed { 8 } else { 4 };
    let _ = match flag {
        0 => write!(out, "ts{{"),
        1 => write!(out, "ts.ip{{"),
        3 => write!(out, "ts.preip{{"),
        _ => write!(out, "ts.{flag}{{"),
    };
    let mut end = 0;
    for (i, entry) in entries.chunks_exact(size).enumerate() {
        if size * i == at && flag != 3 {
            break;
        }
        let separator = if size * i == at {
            "^"
        } else if i > 0 {
            ","
        } else {
            ""
        };
        out.push_str(separator);
        if addressed {
            let _ = write!(out, "{}", Ipv4Addr::from_bits(number(&entry[..4])));
        }
        if flag != 3 || size * i < at {
            let time = number(&entry[size - 4..]);
            let equals = if addressed { "=" } else { "" };
            let odd = if time >> 31 == 1 { "!" } else { "" };
            let _ = write!(out, "{equals}{odd}{}", time & 0x7fff_ffff);
        }
        end = size * (i + 1);
    }
    if end == at && end == entries.len() && flag == 3 {
        out.push('^');
    }
    out.push('}');
    if end == at && end + size <= entries.len() {
        let _ = write!(out, "+{}", (entries.len() - end) / size);
    }
    if flags >> 4 > 0 {
        let _ = write!(out, "++{}", flags >> 4);
    }
    true
}

/// Parses TCP options from text, and appends their bytes to `out`. Returns false if the text is malformed,
/// has a named option that `chosen` does not select, or gives more than 40 bytes. With [`Chosen::Sack`], also
/// if it has an option without a name, such as `99=0`.
pub(super) fn parse_tcp(out: &mut Vec<u8>, text: &str, chosen: Chosen) -> bool {
    let mut words = text.split([';', ',']).peekable();
    while let Some(word) = words.next() {
        let pair = |text: &str, by: char| -> Option<[u32; 2]> {
            let (first, second) = text.split_once(by)?;
            Some([first.parse().ok()?, second.parse().ok()?])
        };
        let sack = |word: &str| -> Option<[u32; 2]> {
            let blocks = word.strip_prefix("sack")?;
            pair(blocks, '-').or_else(|| pair(blocks, ':'))
        };
        if matches!(word, "eol" | "nop") {
            out.push(u8::from(word == "nop"));
        } else if word == "sackok" && chosen.has(4) {
            out.extend([4, 2]);
        } else if let Some(size) = word.strip_prefix("mss").and_then(|n| n.parse::<u16>().ok())
            && chosen.has(2)
        {
            out.extend([2, 4]);
            out.extend(size.to_be_bytes());
        } else if let Some(scale) = word.strip_prefix("wscale").and_then(|n| n.parse::<u8>().ok())
            && chosen.has(3)
        {
            out.extend([3, 3, scale]);
        } else if let Some(times) = word.strip_prefix("ts").and_then(|times| pair(times, ':'))
            && chosen.has(8)
        {
            // A time stamp option that comes first is preceded by two bytes of padding, which align it as
            // in RFC 7323 (appendix A).
            if out.is_empty() {
                out.extend([1, 1]);
            }
            out.extend([8, 10]);
            out.extend(times.iter().flat_map(|n| n.to_be_bytes()));
        } else if let Some(first) = sack(word)
            && chosen.has(5)
        {
            let start = out.len();
            out.extend([5, 0]);
            out.extend(first.iter().flat_map(|n| n.to_be_bytes()));
            // Consecutive words `sackBEGIN-END` become the blocks of one SACK option.
            while let Some(block) = words.peek().and_then(|word| sack(word)) {
                words.next();
                out.extend(block.iter().flat_map(|n| n.to_be_bytes()));
            }
            let Ok(length) = u8::try_from(out.len() - start) else { return false };
            out[start + 1] = length;
        } else if !(chosen != Chosen::Sack && parse_plain(out, word)) {
            return false;
        }
    }
    fits(out)
}

/// Parses an option such as `99=0:5:10` (kind and data bytes), and appends it to `out`. Returns false if it
/// is malformed.
fn parse_plain(out: &mut Vec<u8>, word: &str) -> bool {
    let (kind, data) = word.split_once('=').map_or((word, None), |(kind, data)| (kind, Some(data)));
    let Ok(kind) = kind.parse() else { return false };
    let start = out.len();
    out.push(kind);
    let Some(data) = data else { return true };
    out.push(0);
    for byte in data.split(':') {
        let Ok(byte) = byte.parse() else { return false };
        out.push(byte);
    }
    let Ok(length) = u8::try_from(out.len() - start) else { return false };
    out[start + 1] = length;
    true
}

/// True if the options fit into a header, which has room for 40 bytes. Padding at the start is removed if the
/// options do not fit with it.
fn fits(out: &mut Vec<u8>) -> bool {
    while out.len() > 40 && out[0] == 1 {
        out.remove(0);
    }
    out.len() <= 40
}

/// Parses IP options from text, and appends their bytes to `out`. Returns false if the text is malformed,
/// gives more than 40 bytes, or contains time stamps in the form `ts{...}`, which cannot be parsed.
pub(super) fn parse_ip(out: &mut Vec<u8>, text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        // A comma or semicolon ends an option, but a comma in braces separates addresses of a route.
        let inside = rest.find('{').and_then(|open| rest[open..].find('}').map(|close| open + close));
        let from = inside.filter(|_| rest.find([';', ',']) > rest.find('{')).unwrap_or(0);
        let end = rest[from..].find([';', ',']).map_or(rest.len(), |end| from + end);
        let word = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        let route = [("rr{", 7), ("lsrr{", 131), ("ssrr{", 137)];
        let found = route.iter().find_map(|(name, kind)| Some((word.strip_prefix(name)?, *kind)));
        let good = match (word, found) {
            ("eol" | "nop", _) => {
                out.push(u8::from(word == "nop"));
                true
            }
            (_, Some((route, kind))) => parse_route(out, kind, route),
            _ => parse_plain(out, word),
        };
        if !good {
            return false;
        }
    }
    fits(out)
}

fn parse_route(out: &mut Vec<u8>, kind: u8, text: &str) -> bool {
    let Some((inside, behind)) = text.split_once('}') else { return false };
    let start = out.len();
    out.extend([kind, 0, 0]);
    let mut pointer = None;
    let mut rest = inside;
    loop {
        if let Some(after) = rest.strip_prefix('^') {
            pointer = Some(out.len() - start + 1);
            rest = after;
        }
        if rest.is_empty() {
            break;
        }
        let end = rest.find([',', '^']).unwrap_or(rest.len());
        let Ok(address) = rest[..end].parse::<Ipv4Addr>() else { return false };
        out.extend(address.octets());
        rest = &rest[end..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    let pointer = pointer.unwrap_or(out.len() - start + 1);
    let more = match behind.strip_prefix('+').map(str::parse::<u8>) {
        None if behind.is_empty() => 0,
        Some(Ok(more)) if more < 64 => usize::from(more),
        _ => return false,
    };
    out.resize(out.len() + 4 * more, 0);
    let (Ok(length), Ok(pointer)) = (u8::try_from(out.len() - start), u8::try_from(pointer)) else {
        return false;
    };
    (out[start + 1], out[start + 2]) = (length, pointer);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_options_read_back() {
        for (text, bytes) in [
            ("mss1400;wscale10;sackok", &[2, 4, 5, 120, 3, 3, 10, 4, 2][..]),
            ("ts1:258", &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 1, 2]),
            ("sack95-98;sack7-8", &[5, 18, 0, 0, 0, 95, 0, 0, 0, 98, 0, 0, 0, 7, 0, 0, 0, 8]),
            ("99=0:5:10", &[99, 5, 0, 5, 10]),
        ] {
            let mut out = Vec::new();
            assert!(parse_tcp(&mut out, text, Chosen::All));
            assert_eq!(out, bytes);
            let mut again = String::new();
            describe_tcp(&mut again, bytes, Chosen::All);
            assert_eq!(again, text);
        }
        let describe = |bytes: &[u8], chosen| {
            let mut text = String::new();
            describe_tcp(&mut text, bytes, chosen);
            text
        };
        let both = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 4, 2, 2, 4, 0, 9];
        assert_eq!(describe(&both, Chosen::Others), "sackok;mss9");
        assert_eq!(describe(&both, Chosen::Sack), "sackok");
        assert_eq!(describe(&[1, 0, 99], Chosen::All), ".");
        assert_eq!(describe(&[2, 4, 1, 1, 2, 4, 1], Chosen::All), "?");
        assert_eq!(describe(&[3, 4, 1, 1], Chosen::All), "?");
    }

    #[test]
    fn ip_options_read_back() {
        for text in [
            "rr{10.0.0.1,20.0.0.2}+5",
            "ssrr{1.0.0.1,1.0.0.2^1.0.0.3}",
            "lsrr{^1.0.0.1}",
            "148=0:0",
            "rr{}+2",
        ] {
            let mut out = Vec::new();
            assert!(parse_ip(&mut out, text), "{text}");
            let mut again = String::new();
            describe_ip(&mut again, &out);
            assert_eq!(again, text);
        }
        let describe = |bytes: &[u8]| {
            let mut text = String::new();
            describe_ip(&mut text, bytes);
            text
        };
        // Options as in the examples of Click's manual, as bytes in the format of RFC 791.
        let mut times = vec![68, 24, 17, 0x30, 0, 0, 0, 1, 0, 0, 0x27, 0x10, 0x80, 0, 0, 45];
        times.resize(24, 0);
        assert_eq!(describe(&times), "ts{1,10000,!45}+2++3");
        let prespecified = [68, 20, 13, 3, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(describe(&prespecified), "ts.preip{1.0.0.1=1^1.0.0.2}");
        assert_eq!(describe(&[7, 3, 0]), "?");
    }
}
