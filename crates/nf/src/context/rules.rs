//! The rules of CTXDispatcher: patterns, each with an output.

use std::net::Ipv4Addr;

/// A rule: packets that match the pattern, in the form of Classifier, go to the output.
#[derive(Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) pattern: String,
    pub(super) to: To,
    /// True if an offset has the prefix `ip+`, which has no effect.
    pub(super) counts_from_ip: bool,
}

/// The output that a rule names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum To {
    /// The rule names no output: it gets the output after the output of the rules before it.
    Next,
    Output(usize),
    Drop,
}

/// The pattern that matches all packets.
pub(super) const ALL: &str = "-";

impl Rule {
    /// Parses a rule: clauses, or `-` for all packets, and an output, `drop` or nothing.
    ///
    /// # Errors
    /// If the text is not a rule.
    pub(super) fn parse(text: &str) -> Result<Rule, String> {
        let spaced = text.to_lowercase().replace("&&", " ");
        let mut words = spaced.split_whitespace().peekable();
        let (mut clauses, mut to, mut is_any, mut counts_from_ip) = (Vec::new(), None, false, false);
        while let Some(word) = words.next() {
            if to.is_some() {
                return Err(format!("'{word}' follows the output of the rule"));
            }
            match word {
                ALL if clauses.is_empty() && !is_any => is_any = true,
                "drop" => to = Some(To::Drop),
                // In FastClick, packets of such a rule go to output 0.
                "keep" => to = Some(To::Output(0)),
                _ if word.bytes().all(|byte| byte.is_ascii_digit()) => {
                    to = Some(To::Output(word.parse().map_err(|_| format!("output {word} does not exist"))?));
                }
                _ => {
                    let known = without_hints(word);
                    let mut next = || words.next().map(without_hints).unwrap_or_default();
                    clauses.extend(match known {
                        // Every value of these fields matches: FastClick has a flow for each.
                        "agg" | "thread" => None,
                        "ip" => Some(protocol(next(), next())?),
                        "src" => Some(end([12, 20], next(), next())?),
                        "dst" => Some(end([16, 22], next(), next())?),
                        _ => {
                            let clause = known.strip_prefix("ip+");
                            counts_from_ip |= clause.is_some();
                            bytes(clause.unwrap_or(known))?
                        }
                    });
                    is_any = true;
                }
            }
        }
        if !is_any {
            return Err("a rule needs a pattern, such as 12/0800 or -".into());
        }
        let pattern = if clauses.is_empty() { ALL.to_string() } else { clauses.join(" ") };
        Ok(Rule { pattern, to: to.unwrap_or(To::Next), counts_from_ip })
    }
}

/// Returns a clause without the suffixes that say how FastClick stores flows: `!`, `:ARRAY`, `:HASH-N`.
fn without_hints(word: &str) -> &str {
    let word = word.strip_suffix('!').unwrap_or(word);
    match word.rsplit_once(':') {
        Some((clause, hint)) if hint == "array" || hint.starts_with("hash-") => clause,
        _ => word,
    }
}

/// Returns the clause for `ip proto NAME`.
fn protocol(word: &str, name: &str) -> Result<String, String> {
    let number = match name {
        "tcp" => Some(wire::ip_protocol::TCP),
        "udp" => Some(wire::ip_protocol::UDP),
        "icmp" => Some(wire::ip_protocol::ICMP),
        _ => name.parse().ok().filter(|&number| number > 0),
    };
    match number.filter(|_| word == "proto") {
        Some(number) => Ok(format!("9/{number:02x}")),
        None => Err(format!(
            "'ip {word} {name}' is not valid; expected 'ip proto' and tcp, udp, icmp or a number from 1 to 255"
        )),
    }
}

/// Returns the clause for the words after `src` or `dst`: `host ADDRESS` or `port NUMBER`. The offsets are of
/// the address and of the port.
fn end([address_at, port_at]: [usize; 2], word: &str, value: &str) -> Result<String, String> {
    let error = || format!("'{word} {value}' is not valid; expected host ADDRESS or port NUMBER");
    match word {
        "host" => {
            let address: Ipv4Addr = value.parse().map_err(|_| error())?;
            Ok(format!("{address_at}/{:08x}", address.to_bits()))
        }
        "port" => {
            let port: u16 = value.parse().map_err(|_| error())?;
            Ok(format!("{port_at}/{port:04x}"))
        }
        _ => Err(error()),
    }
}

/// Returns the clause for `OFFSET/VALUE` or `OFFSET/VALUE/MASK`; `None` if the value is zero under the mask,
/// because such a clause matches every packet.
fn bytes(clause: &str) -> Result<Option<String>, String> {
    let error = || format!("'{clause}' is not valid; expected OFFSET/VALUE or OFFSET/VALUE/MASK");
    let (offset, rest) = clause.split_once('/').ok_or_else(error)?;
    let (value, mask) = rest.split_once('/').map_or((rest, None), |(value, mask)| (value, Some(mask)));
    let value = if value == "-" { "" } else { value };
    let offset: u32 = offset.parse().map_err(|_| error())?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex(value) || !mask.is_none_or(|mask| is_hex(mask) && !mask.is_empty()) {
        return Err(error());
    }
    let ones;
    let mask = match mask {
        Some(mask) => mask,
        None => {
            ones = "f".repeat(value.len());
            &ones
        }
    };
    let digits = value.len().max(mask.len()).next_multiple_of(2);
    let pad = |text: &str| "0".repeat(digits - text.len()) + text;
    let (value, mask) = (pad(value), pad(mask));
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0);
    let is_zero = value.bytes().zip(mask.bytes()).all(|(value, mask)| digit(value) & digit(mask) == 0);
    Ok((!is_zero).then(|| format!("{offset}/{value}%{mask}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pattern: &str, to: To) {
        let counts_from_ip = text.contains("ip+");
        assert_eq!(Rule::parse(text), Ok(Rule { pattern: pattern.into(), to, counts_from_ip }), "{text}");
    }

    #[test]
    fn rules_become_patterns_of_classifier() {
        check("12/0800", "12/0800%ffff", To::Next);
        check("12/800/f00", "12/0800%0f00", To::Next);
        assert!(Rule::parse(&format!("0/{}", "ab".repeat(40_000))).is_ok());
        check("12/0806 20/0001 3", "12/0806%ffff 20/0001%ffff", To::Output(3));
        check("ip+9/06", "9/06%ff", To::Next);
        check("- drop", "-", To::Drop);
        check("9/06! 12/0/ffffffff:HASH-3 22/0/ffff:ARRAY", "9/06%ff", To::Next);
        check("9/06 && DST port 80", "9/06%ff 22/0050", To::Next);
        check("ip proto udp 0", "9/11", To::Output(0));
        check("src host 10.0.0.1", "12/0a000001", To::Next);
        check("9/6", "9/06%0f", To::Next);
        check("6/20/f0", "6/20%f0", To::Next);
        check("agg keep", "-", To::Output(0));
    }

    #[test]
    fn other_texts_are_errors() {
        for text in
            ["", "foo", "0", "12", "12/x", "x/12", "12/08/", "ip", "ip tos 3", "src net 1.0.0.0/8", "- 0 1"]
        {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
    }
}
