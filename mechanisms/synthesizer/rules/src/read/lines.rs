//! Lists with one rule per line: rules of IPFilter, and ClassBench's format.

use classify::filter::action;

use super::RuleError;
use crate::model::{FilterRule, RuleAction, RulePlace, RuleSet};
use crate::phrase::whole_phrase;
use crate::question::filter;

/// Reads a list of rules of IPFilter: an action (`allow`, `deny`, `drop` or the number of an output) and a
/// pattern. Packets that match no rule are dropped. Empty lines, and lines that begin with `#` or `//`, are
/// left out.
///
/// # Errors
/// If rules are wrong, or test what rules here cannot test.
pub fn list(file: &str, text: &str) -> Result<RuleSet, Vec<RuleError>> {
    lines(file, text, |line| {
        let (word, pattern) = action(line);
        let action = match word {
            "allow" | "0" => RuleAction::Accept,
            "deny" | "drop" => RuleAction::Drop,
            number => match number.parse() {
                Ok(number) => RuleAction::Output(number),
                Err(_) => {
                    return Err(format!(
                        "'{word}' is no action; write allow, deny, drop or the number of an output"
                    ));
                }
            },
        };
        Ok((action, pattern.trim()))
    })
}

/// Reads a rule set in ClassBench's format. Its rules have no actions, so each rule is an action of its own,
/// with its packets as the name.
///
/// # Errors
/// If rules are wrong.
pub fn classbench(file: &str, text: &str) -> Result<RuleSet, Vec<RuleError>> {
    let mut set = lines(file, text, |line| match line.starts_with('@') {
        true => Ok((RuleAction::Accept, line)),
        false => Err("a rule of ClassBench begins with '@'".into()),
    })?;
    for rule in &mut set.rules {
        let phrases: Vec<String> = rule.products.iter().map(whole_phrase).collect();
        rule.action = RuleAction::Other(phrases.join(" or "));
    }
    set.default = RuleAction::Other("no rule".into());
    let with_flags = set.rules.iter().filter(|rule| has_flags(&rule.text)).count();
    if with_flags > 0 {
        let rules = if with_flags == 1 { "1 rule".into() } else { format!("{with_flags} rules") };
        set.notes.push(format!(
            "{file}: the flags in the last column of {rules} are not tested, as in Tidegate's classifiers"
        ));
    }
    Ok(set)
}

/// True if a rule of ClassBench has flags after its protocol, with a mask that is not zero.
fn has_flags(rule: &str) -> bool {
    let mut columns = rule.split_whitespace().filter(|word| word.contains("0x"));
    let mask = columns.nth(1).and_then(|flags| flags.split_once('/'));
    mask.is_some_and(|(_, mask)| u64::from_str_radix(mask.trim_start_matches("0x"), 16) != Ok(0))
}

fn lines<'t>(
    file: &str,
    text: &'t str,
    parts: impl Fn(&'t str) -> Result<(RuleAction, &'t str), String>,
) -> Result<RuleSet, Vec<RuleError>> {
    let mut rules = Vec::new();
    let mut errors = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
            continue;
        }
        let place = RulePlace { file: file.into(), line: Some(number), name: String::new() };
        match parts(line).and_then(|(action, pattern)| Ok((action, filter(pattern)?))) {
            Ok((action, products)) => {
                let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
                rules.push(FilterRule { products, action, place, origin: rules.len(), text });
            }
            Err(text) => errors.push(RuleError { place, text }),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(RuleSet { name: file.into(), rules, default: RuleAction::Drop, notes: Vec::new(), hook: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_actions() {
        let text = "# a comment\nallow dst net 10.0.0.0/8\n\n1 udp\ndrop all\n";
        let set = list("rules", text).unwrap();
        let read: Vec<_> = set.rules.iter().map(|rule| (rule.place.line, rule.action.clone())).collect();
        assert_eq!(
            read,
            [(Some(2), RuleAction::Accept), (Some(4), RuleAction::Output(1)), (Some(5), RuleAction::Drop),]
        );
        assert!(set.rules[2].is_for_all());
    }

    #[test]
    fn all_errors_are_reported_with_their_lines() {
        let errors = list("rules", "allow tcp\nallwo udp\nallow tcp prot 5\n").unwrap_err();
        let texts: Vec<String> = errors.iter().map(RuleError::to_string).collect();
        assert!(texts[0].starts_with("rules:2: 'allwo' is no action"), "{texts:?}");
        assert!(texts[1].starts_with("rules:3: "), "{texts:?}");
    }

    #[test]
    fn equal_rules_of_classbench_have_equal_actions() {
        let rule = |source: &str| format!("@{source} 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n");
        let set = classbench("set", &[rule("10.0.0.0/8"), rule("10.1.0.0/16"), rule("10.0.0.1/8")].concat())
            .unwrap();
        assert_eq!(set.rules[0].action, set.rules[2].action);
        assert_ne!(set.rules[0].action, set.rules[1].action);
        assert_eq!(set.rules[1].action.to_string(), "tcp from 10.1.0.0/16 to any port 80");
        assert!(set.notes.is_empty(), "{:?}", set.notes);
        let with = classbench("set", &rule("10.0.0.0/8").replace("0x0000/0x0000", "0x1000/0x1000")).unwrap();
        assert!(with.notes[0].contains("last column of 1 rule are not tested"), "{:?}", with.notes);
    }
}
