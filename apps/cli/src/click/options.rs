//! The command line of Click's driver: short options that combine (`-qh c.count`), long options that may be
//! shortened (`--hand`) and negated (`--no-warnings`), and Click's messages about mistakes.

use std::net::Ipv4Addr;

/// The type of value that an option takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Text,
    /// An integer, or no value. The value is always attached to the option (`-a3`), never the next word.
    OptionalInteger,
    /// A real number, or no value. The value is always attached to the option, never the next word.
    OptionalReal,
    Integer,
    Unsigned,
    Port,
}

/// The declaration of one option of the driver.
pub(super) struct Spec {
    /// The long name. For a second name of an option ([`same_as`](Self::same_as)), [`Item::Option`] has the
    /// first name.
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    /// The first name of the option, if `long` is a second name.
    pub(super) same_as: Option<&'static str>,
    pub(super) takes: Takes,
    pub(super) negatable: bool,
}

const fn spec(long: &'static str, short: Option<char>, takes: Takes) -> Spec {
    Spec { long, short, same_as: None, takes, negatable: false }
}

/// The options of the user-level drivers of Click and FastClick, and further options of Tidegate.
pub(super) const OPTIONS: &[Spec] = &[
    Spec { negatable: true, ..spec("affinity", Some('a'), Takes::OptionalInteger) },
    Spec { negatable: true, ..spec("allow-reconfigure", Some('R'), Takes::Nothing) },
    spec("allow-config", None, Takes::Nothing),
    spec("clickpath", Some('C'), Takes::Text),
    spec("config-dir", None, Takes::Text),
    Spec { negatable: true, same_as: Some("affinity"), ..spec("cpu", None, Takes::OptionalInteger) },
    spec("exit-handler", Some('x'), Takes::Text),
    spec("expression", Some('e'), Takes::Text),
    spec("file", Some('f'), Takes::Text),
    spec("handler", Some('h'), Takes::Text),
    spec("help", None, Takes::Nothing),
    spec("memory", None, Takes::Text),
    spec("output", Some('o'), Takes::Text),
    spec("port", Some('p'), Takes::Port),
    spec("quit", Some('q'), Takes::Nothing),
    spec("simtick", None, Takes::Unsigned),
    spec("simtime", None, Takes::OptionalReal),
    Spec { same_as: Some("simtime"), ..spec("simulation-time", None, Takes::OptionalReal) },
    spec("socket", None, Takes::Integer),
    spec("threads", Some('j'), Takes::Integer),
    spec("time", Some('t'), Takes::Nothing),
    spec("unix-socket", Some('u'), Takes::Text),
    spec("version", Some('v'), Takes::Nothing),
    Spec { negatable: true, ..spec("warnings", None, Takes::Nothing) },
    // The table of Click's driver has the option `-w` without a long name, too.
    spec("", Some('w'), Takes::Nothing),
];

/// An item of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An option by its first long name (empty for `w`), true if it was negated, and its value.
    Option { name: &'static str, negated: bool, value: Option<String> },
    /// The arguments for DPDK, which stand between `--dpdk` and `--`.
    Dpdk(Vec<String>),
    /// A word that is no option: the configuration, or a value for a parameter.
    Word(String),
}

/// Splits `IPADDRESS:PORT` or `PORT` into address and port. The address is by default the loopback address.
pub(super) fn host_and_port(text: &str) -> (&str, &str) {
    text.rsplit_once(':').unwrap_or(("127.0.0.1", text))
}

/// Splits the whole command line into options and words.
///
/// # Errors
/// If there is a mistake: the items ahead of it, and lines for the user, without the program's name.
pub(super) fn read(args: Vec<String>) -> Result<Vec<Item>, (Vec<Item>, Vec<String>)> {
    let mut items = Vec::new();
    let mut words = args.into_iter();
    while let Some(word) = words.next() {
        let result = match word.strip_prefix("--") {
            Some("dpdk") => {
                items.push(Item::Dpdk(words.by_ref().take_while(|word| word != "--").collect()));
                continue;
            }
            Some("") => {
                items.extend(words.by_ref().map(Item::Word));
                continue;
            }
            Some(long) => read_long(long, &mut words).map(|item| items.push(item)),
            None => match word.strip_prefix('-') {
                None | Some("") => {
                    items.push(Item::Word(word));
                    continue;
                }
                Some(shorts) => read_shorts(shorts, &mut words, &mut items),
            },
        };
        if let Err(lines) = result {
            return Err((items, lines));
        }
    }
    Ok(items)
}

fn read_long(text: &str, words: &mut impl Iterator<Item = String>) -> Result<Item, Vec<String>> {
    let (mut name, attached) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (text, None),
    };
    let mut negated = false;
    let full = name;
    if find_long(name, false).is_empty() {
        while let Some(rest) = name.strip_prefix("no-") {
            (name, negated) = (rest, !negated);
        }
    }
    let found = find_long(name, negated);
    let spec = match found.as_slice() {
        [] => return Err(vec![format!("unrecognized option '--{text}'")]),
        [spec] => *spec,
        several => return Err(ambiguous(full, negated, several)),
    };
    let shown = format!("--{}{}", if negated { "no-" } else { "" }, spec.long);
    if negated || spec.takes == Takes::Nothing {
        return match attached {
            Some(_) => Err(vec![format!("'{shown}' can't take an argument")]),
            None => Ok(item(spec, negated, None)),
        };
    }
    let value = match (attached, is_optional(spec.takes)) {
        (Some(value), _) => value,
        (None, true) => return Ok(item(spec, false, None)),
        (None, false) => words.next().ok_or_else(|| vec![format!("'{shown}' requires an argument")])?,
    };
    check(spec.takes, &value, &shown)?;
    Ok(item(spec, false, Some(value)))
}

fn read_shorts(
    shorts: &str,
    words: &mut impl Iterator<Item = String>,
    items: &mut Vec<Item>,
) -> Result<(), Vec<String>> {
    let mut rest = shorts;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let shown = format!("-{letter}");
        let spec = OPTIONS.iter().find(|spec| spec.short == Some(letter));
        let spec = spec.ok_or_else(|| vec![format!("unrecognized option '{shown}'")])?;
        if spec.takes == Takes::Nothing {
            items.push(item(spec, false, None));
            continue;
        }
        let attached = rest.strip_prefix('=').unwrap_or(rest).to_string();
        if is_optional(spec.takes) {
            // The text that is attached to an option with an optional number is this number, or else further
            // short options.
            let value = check(spec.takes, &attached, &shown).is_ok().then_some(attached);
            let done = value.is_some();
            items.push(item(spec, false, value));
            if done {
                return Ok(());
            }
            continue;
        }
        let value = match attached.is_empty() {
            false => attached,
            true => words.next().ok_or_else(|| vec![format!("'{shown}' requires an argument")])?,
        };
        check(spec.takes, &value, &shown)?;
        items.push(item(spec, false, Some(value)));
        return Ok(());
    }
    Ok(())
}

fn item(spec: &Spec, negated: bool, value: Option<String>) -> Item {
    Item::Option { name: spec.same_as.unwrap_or(spec.long), negated, value }
}

fn is_optional(takes: Takes) -> bool {
    matches!(takes, Takes::OptionalInteger | Takes::OptionalReal)
}

/// Returns the options that a long name may mean: the option with exactly this name, or else the options
/// that start with it, each once. Dashes inside the name may be left out.
fn find_long(name: &str, negated: bool) -> Vec<&'static Spec> {
    let allowed = |spec: &&&Spec| !spec.long.is_empty() && (!negated || spec.negatable);
    if let Some(exact) = OPTIONS.iter().filter(|spec| allowed(&spec)).find(|spec| spec.long == name) {
        return vec![exact];
    }
    let plain = |text: &str| text.replace('-', "");
    let starts = |spec: &&&Spec| {
        !name.is_empty() && (spec.long.starts_with(name) || plain(spec.long).starts_with(name))
    };
    let mut found: Vec<&Spec> = OPTIONS.iter().filter(|spec| allowed(&spec) && starts(&spec)).collect();
    // An option with two names that both start with this text is found twice, but is not ambiguous.
    found.dedup_by_key(|spec| spec.same_as.unwrap_or(spec.long));
    found
}

fn ambiguous(name: &str, negated: bool, found: &[&Spec]) -> Vec<String> {
    const SHOWN: usize = 4;
    let no = if negated { "no-" } else { "" };
    let names: Vec<String> = found.iter().take(SHOWN).map(|spec| format!("'--{no}{}'", spec.long)).collect();
    let possibilities = match names.as_slice() {
        _ if found.len() > SHOWN => format!("{}, and others", names.join(", ")),
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
        [] => String::new(),
    };
    vec![format!("option '--{name}' is ambiguous"), format!("(Possibilities are {possibilities}.)")]
}

fn check(takes: Takes, value: &str, shown: &str) -> Result<(), Vec<String>> {
    let integer = element::args::parse_integer(value);
    let (fits, what) = match takes {
        Takes::Integer | Takes::OptionalInteger => (integer.is_ok(), "an integer"),
        Takes::Unsigned => (integer.is_ok_and(|n| n >= 0), "a nonnegative integer"),
        Takes::OptionalReal => (element::args::parse_seconds(value).is_some(), "a real number"),
        Takes::Port => {
            let (host, port) = host_and_port(value);
            let port = element::services::tcp_port(port.strip_suffix('+').unwrap_or(port));
            let fits = host.parse::<Ipv4Addr>().is_ok() && port.is_some_and(|n| n > 0);
            (fits, "a TCP port number or IPADDRESS:PORT")
        }
        Takes::Nothing | Takes::Text => (true, ""),
    };
    if fits { Ok(()) } else { Err(vec![format!("'{shown}' expects {what}, not '{value}'")]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let items = match read(line.split(' ').map(String::from).collect()) {
            Ok(items) => items,
            Err((_, lines)) => return lines.join(" "),
        };
        let texts = items.into_iter().map(|item| match item {
            Item::Word(word) => format!("<{word}>"),
            Item::Dpdk(words) => format!("dpdk={}", words.join(",")),
            Item::Option { name, negated, value } => {
                let no = if negated { "no-" } else { "" };
                format!("{no}{name}{}", value.map(|value| format!("={value}")).unwrap_or_default())
            }
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn short_options_combine() {
        assert_eq!(shown("-qhc.count x.click"), "quit handler=c.count <x.click>");
        assert_eq!(shown("-qth c.count -"), "quit time handler=c.count <->");
        assert_eq!(shown("-h=c.count -e -q"), "handler=c.count expression=-q");
        assert_eq!(shown("-a3 -aq -a"), "affinity=3 affinity quit affinity");
        assert_eq!(shown("-q -- -q --x"), "quit <-q> <--x>");
        assert_eq!(shown("--dpdk -l 0 --vdev=a -- -q x"), "dpdk=-l,0,--vdev=a quit <x>");
        assert_eq!(shown("-q --dpdk"), "quit dpdk=");
    }

    #[test]
    fn long_options_may_be_shortened_and_negated() {
        assert_eq!(shown("--hand c --file=x --fil y"), "handler=c file=x file=y");
        assert_eq!(shown("--no-warnings --warn --no-no-warnings"), "no-warnings warnings warnings");
        assert_eq!(shown("--unixsocket a --simul=5 --simtime"), "unix-socket=a simtime=5 simtime");
        assert_eq!(shown("--cpu --no-cpu --affinity=2"), "affinity no-affinity affinity=2");
    }

    #[test]
    fn what_is_wrong_is_said_as_click_says_it() {
        assert_eq!(shown("-qZ"), "unrecognized option '-Z'");
        assert_eq!(shown("--foo=1"), "unrecognized option '--foo=1'");
        assert_eq!(shown("--no-quit"), "unrecognized option '--no-quit'");
        assert_eq!(shown("--fil"), "'--file' requires an argument");
        assert_eq!(shown("-q -f"), "'-f' requires an argument");
        assert_eq!(shown("--qui=1"), "'--quit' can't take an argument");
        assert_eq!(shown("-j x"), "'-j' expects an integer, not 'x'");
        assert_eq!(shown("--simtick=-1"), "'--simtick' expects a nonnegative integer, not '-1'");
        assert_eq!(shown("-p ssh -p 80+"), "port=ssh port=80+");
        assert_eq!(shown("-p nonesuch"), "'-p' expects a TCP port number or IPADDRESS:PORT, not 'nonesuch'");
        assert_eq!(shown("-p 0"), "'-p' expects a TCP port number or IPADDRESS:PORT, not '0'");
        assert_eq!(shown("--t"), "option '--t' is ambiguous (Possibilities are '--threads' and '--time'.)");
        assert_eq!(
            shown("--e"),
            "option '--e' is ambiguous (Possibilities are '--exit-handler' and '--expression'.)"
        );
    }
}
