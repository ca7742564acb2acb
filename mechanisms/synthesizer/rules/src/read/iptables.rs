//! The output of `iptables-save`: the chains of the table `filter`.

use classify::IntervalSet;

use super::RuleError;
use super::chains::{ChainRule, ChainStep, RuleChains, flatten};
use crate::fields::{PacketField, STATES};
use crate::model::{REJECTS, RuleAction, RulePlace, RuleSet};
use crate::phrase::{TCP_FLAGS, first_fragments, protocol_number};
use crate::product::{FieldSets, meet};
use crate::question;

/// The chains that the kernel calls, in which packets have a fate without a rule (the policy).
const BUILT_IN: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];

/// Targets that do not decide about packets, and change nothing that rules here test.
const PASSING: [&str; 6] = ["LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TRACE"];

/// Reads a chain of the table `filter`, with the chains that it calls. `chain` is not needed if only one of
/// INPUT, FORWARD and OUTPUT has rules.
///
/// # Errors
/// If rules are wrong, or have no exact meaning here.
pub fn read(file: &str, text: &str, chain: Option<&str>) -> Result<RuleSet, Vec<RuleError>> {
    let place = |line| RulePlace { file: file.into(), line: Some(line), name: String::new() };
    let mut chains = RuleChains::new();
    let mut policies: Vec<(String, String)> = Vec::new();
    let mut errors = Vec::new();
    let mut table = String::new();
    let mut other_tables: Vec<String> = Vec::new();
    let mut origin = 0;
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        let mut error = |text: String| errors.push(RuleError { place: place(number), text });
        if let Some(name) = line.strip_prefix('*') {
            table = name.to_string();
            continue;
        }
        if line.is_empty() || line.starts_with('#') || line == "COMMIT" {
            continue;
        }
        if table != "filter" {
            if line.contains("-A ") && !other_tables.contains(&table) {
                other_tables.push(table.clone());
            }
            continue;
        }
        if let Some(declared) = line.strip_prefix(':') {
            let mut words = declared.split_whitespace();
            let name = words.next().unwrap_or_default().to_string();
            chains.entry(name.clone()).or_default();
            policies.push((name, words.next().unwrap_or("-").to_string()));
            continue;
        }
        // Counters precede the rule if the file was written with them.
        let rule = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, rest)) => rest.trim(),
            None => line,
        };
        let words = match words(rule) {
            Ok(words) => words,
            Err(text) => {
                error(text);
                continue;
            }
        };
        let [add, name, options @ ..] = &words[..] else {
            error(format!("'{line}' is no line of iptables-save"));
            continue;
        };
        if !["-A", "--append"].contains(&add.as_str()) {
            error(format!("'{add}' is no line of iptables-save; rules begin with -A"));
            continue;
        }
        match Options::parse(options) {
            Ok((products, Some(step))) => {
                let rule = ChainRule { products, step, place: place(number), origin, text: rule.into() };
                chains.entry(name.clone()).or_default().push(rule);
            }
            // Without a target, or with one that does not decide, a rule only counts or logs packets.
            Ok((_, None)) => {}
            Err(text) => error(text),
        }
        origin += 1;
    }
    let start = match start_of(&chains, chain) {
        Ok(start) => start,
        Err(text) => {
            let place = RulePlace { file: file.into(), ..RulePlace::default() };
            errors.push(RuleError { place, text });
            String::new()
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy =
        policies.iter().find(|(name, _)| *name == start).map_or("ACCEPT", |(_, policy)| policy.as_str());
    let is_built_in = BUILT_IN.contains(&start.as_str());
    let policy = match policy {
        // What a chain of the user does not decide about returns to the chain that calls it.
        _ if !is_built_in => RuleAction::Other("return".into()),
        "DROP" => RuleAction::Drop,
        _ => RuleAction::Accept,
    };
    let mut set = flatten(&chains, &start, policy, format!("{file} {start}"))?;
    set.hook = is_built_in.then(|| start.to_ascii_lowercase());
    set.notes.extend(
        other_tables.iter().map(|table| format!("{file}: the table {table} is not read, only filter is")),
    );
    Ok(set)
}

/// Returns the chain to read: the given one, or the only one with rules that the kernel calls.
fn start_of(chains: &RuleChains, chain: Option<&str>) -> Result<String, String> {
    if let Some(name) = chain {
        return match chains.contains_key(name) {
            true => Ok(name.into()),
            false => {
                Err(format!("there is no chain {name} in the table filter; there are: {}", names(chains)))
            }
        };
    }
    let used = BUILT_IN.into_iter().filter(|name| chains.get(*name).is_some_and(|rules| !rules.is_empty()));
    match used.collect::<Vec<_>>()[..] {
        [only] => Ok(only.into()),
        [] => Err("no chain of the table filter has rules; write --chain NAME".into()),
        ref several => {
            Err(format!("several chains have rules; write --chain with one of {}", several.join(", ")))
        }
    }
}

fn names(chains: &RuleChains) -> String {
    chains.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Divides a line into words, as a shell does: text in double quotes is one word.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' if is_quoted => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() && !is_quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    if is_quoted {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

/// The options of one rule while they are read.
struct Options<'w> {
    words: &'w [String],
    at: usize,
    products: Vec<FieldSets>,
    protocol: Option<IntervalSet>,
    /// True if an option tests fields after the IP header.
    reads_transport: bool,
    target: Option<(String, bool)>,
    reject: String,
}

impl Options<'_> {
    /// Reads the options of a rule. Returns the packets that match, and the effect; `None` if it has none.
    fn parse(words: &[String]) -> Result<(Vec<FieldSets>, Option<ChainStep>), String> {
        let mut options = Options {
            words,
            at: 0,
            products: vec![FieldSets::ALL],
            protocol: None,
            reads_transport: false,
            target: None,
            reject: "icmp-port-unreachable".into(),
        };
        while options.at < words.len() {
            options.option()?;
        }
        if options.reads_transport {
            options.restrict(PacketField::Fragment, &first_fragments(), false)?;
        }
        let step = match options.target.take() {
            None => None,
            Some((name, true)) => Some(ChainStep::Goto(name)),
            Some((name, false)) => match name.as_str() {
                "ACCEPT" => Some(ChainStep::Decide(RuleAction::Accept)),
                "DROP" => Some(ChainStep::Decide(RuleAction::Drop)),
                "REJECT" => Some(ChainStep::Decide(RuleAction::Reject(options.reject.clone()))),
                "QUEUE" | "NFQUEUE" => Some(ChainStep::Decide(RuleAction::Other("queue".into()))),
                "RETURN" => Some(ChainStep::Return),
                name if PASSING.contains(&name) => None,
                name => Some(ChainStep::Jump(name.into())),
            },
        };
        Ok((options.products, step))
    }

    fn next(&mut self) -> Result<String, String> {
        let word = self.words.get(self.at).cloned().ok_or("the rule ends where a value is expected")?;
        self.at += 1;
        Ok(word)
    }

    fn is_negated(&mut self) -> bool {
        let is_negated = self.words.get(self.at).is_some_and(|word| word == "!");
        self.at += usize::from(is_negated);
        is_negated
    }

    fn restrict(&mut self, field: PacketField, set: &IntervalSet, is_negated: bool) -> Result<(), String> {
        let set = if is_negated { field.complement(set) } else { set.intersection(&field.all()) };
        let products: Vec<FieldSets> = FieldSets::of(field, set).into_iter().collect();
        self.products = meet(&self.products, &products).map_err(|many| many.to_string())?;
        Ok(())
    }

    fn option(&mut self) -> Result<(), String> {
        let before = self.is_negated();
        let name = self.next()?;
        let is_negated = before || self.is_negated();
        match name.as_str() {
            "-s" | "--source" | "--src" => self.addresses(PacketField::Source, is_negated),
            "-d" | "--destination" | "--dst" => self.addresses(PacketField::Destination, is_negated),
            "--src-range" => self.addresses(PacketField::Source, is_negated),
            "--dst-range" => self.addresses(PacketField::Destination, is_negated),
            "-p" | "--protocol" => self.protocol(is_negated),
            "-i" | "--in-interface" => self.interface(PacketField::InInterface, is_negated),
            "-o" | "--out-interface" => self.interface(PacketField::OutInterface, is_negated),
            "-f" | "--fragment" => {
                let later = PacketField::Fragment.complement(&first_fragments());
                self.restrict(PacketField::Fragment, &later, is_negated)
            }
            "-m" | "--match" => self.extension(),
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.ports(&[PacketField::SourcePort], is_negated)
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.ports(&[PacketField::DestinationPort], is_negated)
            }
            "--ports" => self.ports(&[PacketField::SourcePort, PacketField::DestinationPort], is_negated),
            "--tcp-flags" => {
                let (mask, value) = (self.next()?, self.next()?);
                self.tcp_flags(&mask, &value, is_negated)
            }
            "--syn" => self.tcp_flags("FIN,SYN,RST,ACK", "SYN", is_negated),
            "--icmp-type" => self.icmp(is_negated),
            "--ctstate" | "--state" => self.states(is_negated),
            "--ttl-eq" => self.number(PacketField::TimeToLive, is_negated, |n| (n, n)),
            "--ttl-lt" => {
                self.number(PacketField::TimeToLive, is_negated, |n| if n == 0 { (1, 0) } else { (0, n - 1) })
            }
            "--ttl-gt" => self.number(PacketField::TimeToLive, is_negated, |n| (n + 1, 255)),
            "--length" => {
                let word = self.next()?;
                let set =
                    ranges(&word, 0xffff).ok_or_else(|| format!("'{word}' is not a range of lengths"))?;
                self.restrict(PacketField::TotalLength, &set, is_negated)
            }
            "--dscp" => self.number(PacketField::TypeOfService, is_negated, |n| (n << 2, n << 2 | 3)),
            "--comment" | "--log-prefix" | "--log-level" | "--nflog-prefix" | "--nflog-group"
            | "--nflog-threshold" | "--nflog-size" | "--queue-num" | "--set-xmark" | "--set-mark" => {
                self.next().map(drop)
            }
            "--log-tcp-sequence" | "--log-tcp-options" | "--log-ip-options" | "--log-uid"
            | "--queue-bypass" => Ok(()),
            "--reject-with" => {
                let name = self.next()?;
                if !REJECTS.contains(&name.as_str()) {
                    return Err(format!(
                        "'{name}' is not an error of REJECT; there are: {}",
                        REJECTS.join(", ")
                    ));
                }
                self.reject = name;
                Ok(())
            }
            "-c" | "--set-counters" => {
                self.at += 2;
                Ok(())
            }
            "-j" | "--jump" | "-g" | "--goto" => {
                let target = self.next()?;
                self.target = Some((target, name.starts_with("-g") || name == "--goto"));
                Ok(())
            }
            name => Err(format!(
                "the option '{name}' has no meaning for `tidegate rules`; remove the rule, or replace the option"
            )),
        }
    }

    fn extension(&mut self) -> Result<(), String> {
        let name = self.next()?;
        match name.as_str() {
            // These do not match later fragments, with or without options.
            "tcp" | "udp" | "udplite" | "sctp" | "dccp" | "icmp" | "multiport" => {
                self.reads_transport = true;
                Ok(())
            }
            "comment" | "conntrack" | "state" | "iprange" | "ttl" | "length" | "dscp" => Ok(()),
            "limit" | "hashlimit" | "recent" | "connlimit" | "statistic" | "time" | "quota" | "connbytes" => {
                Err(format!(
                    "the match '{name}' depends on time or on earlier packets; remove the rule to analyse the others"
                ))
            }
            name => Err(format!(
                "the match '{name}' has no meaning for `tidegate rules`; remove the rule to analyse the others"
            )),
        }
    }

    fn addresses(&mut self, field: PacketField, is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        let all = word.split(',').map(question::address).collect::<Option<IntervalSet>>();
        let set = all.ok_or_else(|| format!("'{word}' is not an IPv4 address or prefix"))?;
        self.restrict(field, &set, is_negated)
    }

    fn protocol(&mut self, is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        if word == "all" || word == "0" {
            return Ok(());
        }
        let number = protocol_number(&word).or_else(|| word.parse().ok());
        let number: u8 = number.ok_or_else(|| format!("'{word}' is not a protocol; write its number"))?;
        let set = IntervalSet::one(number.into(), number.into());
        self.protocol = Some(set.clone()).filter(|_| !is_negated);
        self.restrict(PacketField::Protocol, &set, is_negated)
    }

    fn interface(&mut self, field: PacketField, is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        // In iptables, a plus at the end stands for any rest of the name.
        let range = match word.strip_suffix('+') {
            Some(prefix) => crate::fields::name_range(prefix, true),
            None => crate::fields::name_range(&word, false),
        };
        let range = range.ok_or_else(|| format!("'{word}' is not the name of an interface"))?;
        self.restrict(field, &IntervalSet::one(range.0, range.1), is_negated)
    }

    /// Restricts ports: one of the fields has to have a port of the list.
    fn ports(&mut self, fields: &[PacketField], is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        let parts = word.split(',').map(|part| ranges(part, 0xffff));
        let sets =
            parts.collect::<Option<Vec<_>>>().ok_or_else(|| format!("'{word}' is not a list of ports"))?;
        let set = sets.iter().fold(IntervalSet::empty(), |all, set| all.union(set));
        if self.protocol.is_none() {
            return Err(format!("ports '{word}' need a protocol; write -p before"));
        }
        self.reads_transport = true;
        match fields {
            [field] => self.restrict(*field, &set, is_negated),
            // Of several fields, one has to fit; with a negation, none may.
            fields if is_negated => fields.iter().try_for_each(|field| self.restrict(*field, &set, true)),
            fields => {
                let any: Vec<FieldSets> =
                    fields.iter().filter_map(|field| FieldSets::of(*field, set.clone())).collect();
                self.products = meet(&self.products, &any).map_err(|many| many.to_string())?;
                Ok(())
            }
        }
    }

    fn tcp_flags(&mut self, mask: &str, value: &str, is_negated: bool) -> Result<(), String> {
        let flags = |names: &str| match names {
            "ALL" => Ok(0x3f),
            "NONE" => Ok(0),
            names => names.split(',').try_fold(0u128, |flags, name| {
                let bit = TCP_FLAGS.iter().position(|flag| flag.eq_ignore_ascii_case(name));
                bit.map(|bit| flags | 1 << bit).ok_or_else(|| format!("'{name}' is not a TCP flag"))
            }),
        };
        let (mask, value) = (flags(mask)?, flags(value)?);
        let set = (0..=255u128).filter(|byte| byte & mask == value).map(|byte| (byte, byte)).collect();
        self.reads_transport = true;
        self.restrict(PacketField::TcpFlags, &set, is_negated)
    }

    fn icmp(&mut self, is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        self.reads_transport = true;
        let all = PacketField::SourcePort.all();
        if word == "any" {
            return self.restrict(PacketField::SourcePort, &all, is_negated);
        }
        let error = || format!("'{word}' is not an ICMP type; write its number, as iptables-save does");
        let (kind, code) = match word.split_once('/') {
            Some((kind, code)) => (kind.to_string(), Some(code.parse::<u8>().map_err(|_| error())?)),
            None => (word.clone(), None),
        };
        let number = match kind.as_str() {
            "echo-request" | "ping" => Some(8),
            "echo-reply" | "pong" => Some(0),
            "destination-unreachable" => Some(3),
            "time-exceeded" => Some(11),
            "parameter-problem" => Some(12),
            kind => kind.parse::<u8>().ok().or_else(|| wire::icmp_names::kind(kind)),
        };
        let kind = u128::from(number.ok_or_else(error)?) << 8;
        // For the kernel, this number stands for all types.
        if kind == 255 << 8 {
            return self.restrict(PacketField::SourcePort, &all, is_negated);
        }
        let set = match code {
            Some(code) => IntervalSet::one(kind | u128::from(code), kind | u128::from(code)),
            None => IntervalSet::one(kind, kind | 255),
        };
        self.restrict(PacketField::SourcePort, &set, is_negated)
    }

    fn states(&mut self, is_negated: bool) -> Result<(), String> {
        let word = self.next()?;
        let state = |name: &str| {
            question::state(name).ok_or_else(|| {
                format!("the connection state '{name}' is not known here; there are: {}", STATES.join(", "))
            })
        };
        let set = word.split(',').map(state).collect::<Result<IntervalSet, _>>()?;
        self.restrict(PacketField::ConnectionState, &set, is_negated)
    }

    fn number(
        &mut self,
        field: PacketField,
        is_negated: bool,
        range: impl Fn(u128) -> (u128, u128),
    ) -> Result<(), String> {
        let word = self.next()?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => word.parse::<u8>().ok(),
        };
        let (low, high) = range(number.ok_or_else(|| format!("'{word}' is not a number below 256"))?.into());
        self.restrict(field, &IntervalSet::one(low, high), is_negated)
    }
}

/// Reads a number or a range `low:high`, whose ends can be left out.
fn ranges(word: &str, top: u128) -> Option<IntervalSet> {
    let number = |word: &str, empty: u128| match word {
        "" => Some(empty),
        word => word.parse::<u16>().map(u128::from).ok(),
    };
    let (low, high) = match word.split_once(':') {
        Some((low, high)) => (number(low, 0)?, number(high, top)?),
        None if word.is_empty() => return None,
        None => (number(word, 0)?, number(word, 0)?),
    };
    (low <= high).then(|| IntervalSet::one(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrase::whole_phrase;

    fn table(rules: &str) -> String {
        format!(
            "# Generated by iptables-save\n*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
             :web - [0:0]\n{rules}COMMIT\n"
        )
    }

    /// Returns the actions and packets of the rules of INPUT.
    fn rules(text: &str) -> Vec<String> {
        let set = read("fw", &table(text), Some("INPUT")).unwrap_or_else(|errors| panic!("{errors:?}"));
        let phrase =
            |products: &[FieldSets]| products.iter().map(whole_phrase).collect::<Vec<_>>().join(" or ");
        set.rules.iter().map(|rule| format!("{} {}", rule.action, phrase(&rule.products))).collect()
    }

    #[test]
    fn options_become_products() {
        for (option, expected) in [
            ("-s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j ACCEPT", "accept tcp from 10.0.0.0/8 to any port 22"),
            ("! -s 10.0.0.0/8 -i lo -j DROP", "drop ip from any but 10.0.0.0/8 to any in lo"),
            (
                "-p udp -m multiport --dports 53,123,1000:2000 -j ACCEPT",
                "accept udp from any to any port {53, 123, 1000-2000}",
            ),
            (
                "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m comment --comment \"new ones\" -j DROP",
                "drop tcp from any to any flags syn/fin,syn,rst,ack",
            ),
            ("-p icmp -m icmp --icmp-type 8 -j ACCEPT", "accept icmp from any to any icmp type echo"),
            (
                "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
                "accept ip from any to any state {established, related}",
            ),
            ("-f -j DROP", "drop ip from any to any fragment later"),
            (
                "-o ppp+ -p tcp -j REJECT --reject-with tcp-reset",
                "reject with tcp-reset tcp from any to any out ppp*",
            ),
            (
                "-p tcp -m multiport --ports 80 -j ACCEPT",
                "accept tcp from any port 80 to any or tcp from any to any port 80",
            ),
            ("-p tcp -m tcp -j ACCEPT", "accept tcp from any to any fragment first"),
            ("-p icmp -m icmp --icmp-type 255 -j ACCEPT", "accept icmp from any to any fragment first"),
            ("-p icmp -m icmp --icmp-type any -j ACCEPT", "accept icmp from any to any fragment first"),
            ("-m iprange --src-range 10.0.0.5-10.0.0.9 -j DROP", "drop ip from 10.0.0.5-10.0.0.9 to any"),
        ] {
            assert_eq!(rules(&format!("-A INPUT {option}\n")), [expected], "{option}");
        }
    }

    #[test]
    fn chains_are_called() {
        let text = "-A INPUT -p tcp -j web\n-A INPUT -j LOG --log-prefix \"drop: \"\n\
                    -A web -s 10.0.0.1/32 -j RETURN\n[5:300] -A web -p tcp -m tcp --dport 80 -j ACCEPT\n";
        assert_eq!(rules(text), ["accept tcp from any but 10.0.0.1 to any port 80"]);
        let set = read("fw", &table(text), None).unwrap();
        assert_eq!((&set.default, set.rules[0].place.line), (&RuleAction::Drop, Some(10)));
        assert_eq!(set.hook.as_deref(), Some("input"));
        // A chain of the user has no policy: other packets go back to the chain that calls it.
        let web = read("fw", &table(text), Some("web")).unwrap();
        assert_eq!((web.default, web.hook), (RuleAction::Other("return".into()), None));
    }

    #[test]
    fn what_has_no_exact_meaning_is_refused() {
        for (option, message) in [
            ("-m limit --limit 3/min -j ACCEPT", "the match 'limit' depends on time"),
            ("-m owner --uid-owner 0 -j ACCEPT", "the match 'owner' has no meaning"),
            ("-p tcp --dport ssh -j ACCEPT", "'ssh' is not a list of ports"),
            ("--dport 22 -j ACCEPT", "need a protocol"),
            ("-m conntrack --ctstate DNAT -j ACCEPT", "the connection state 'DNAT'"),
            ("-j REJECT --reject-with icmp-nothing", "'icmp-nothing' is not an error of REJECT"),
            ("-j missing", "there is no chain missing"),
        ] {
            let errors = read("fw", &table(&format!("-A INPUT {option}\n")), Some("INPUT")).unwrap_err();
            assert!(errors[0].text.contains(message), "{option}: {errors:?}");
            assert_eq!(errors[0].place.line, Some(7));
        }
        let both = table("-A INPUT -j DROP\n-A OUTPUT -j DROP\n");
        assert!(read("fw", &both, None).unwrap_err()[0].text.contains("one of INPUT, OUTPUT"));
        assert!(read("fw", &both, Some("input")).unwrap_err()[0].text.contains("there are: FORWARD, INPUT"));
    }
}
