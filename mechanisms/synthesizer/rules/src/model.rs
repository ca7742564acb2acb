//! A rule set: rules in order, the first of which that matches a packet decides about it.

use std::fmt;

use crate::fields::FieldValues;
use crate::product::FieldSets;

/// The errors with which packets are rejected, as iptables names them.
pub const REJECTS: [&str; 8] = [
    "icmp-net-unreachable",
    "icmp-host-unreachable",
    "icmp-proto-unreachable",
    "icmp-port-unreachable",
    "icmp-net-prohibited",
    "icmp-host-prohibited",
    "icmp-admin-prohibited",
    "tcp-reset",
];

/// The fate of a packet, as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleAction {
    /// The packet passes.
    Accept,
    /// The packet is dropped without an answer.
    Drop,
    /// The packet is dropped, and its sender gets an error, which the text names.
    Reject(String),
    /// The packet goes to this output of a classifier.
    Output(usize),
    /// Another fate, which the text names. A rule without an action of its own, such as in ClassBench's
    /// format, is named by its own text, so that equal rules have equal actions.
    Other(String),
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleAction::Accept => f.write_str("accept"),
            RuleAction::Drop => f.write_str("drop"),
            RuleAction::Reject(with) if with.is_empty() => f.write_str("reject"),
            RuleAction::Reject(with) => write!(f, "reject with {with}"),
            RuleAction::Output(number) => write!(f, "output {number}"),
            RuleAction::Other(text) => f.write_str(text),
        }
    }
}

/// The place where a rule was written: a file, and a line of it or the name of the rule in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulePlace {
    /// The name of the file.
    pub file: String,
    /// The number of the line, counted from 1; `None` if the format has no lines, such as JSON.
    pub line: Option<usize>,
    /// The rule's name within the file if there are no lines, such as `inet filter input handle 5`.
    pub name: String,
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None if self.name.is_empty() => f.write_str(&self.file),
            None => write!(f, "{}: {}", self.file, self.name),
        }
    }
}

/// A rule: packets, and their fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// The packets that the rule matches; a union of products. Empty if no packet matches.
    pub products: Vec<FieldSets>,
    /// The fate of these packets.
    pub action: RuleAction,
    /// The place where the rule was written.
    pub place: RulePlace,
    /// The number of the written rule. Rules with the same number were written as one, which is used in
    /// several ways: in a chain that several rules call, or with a map from values to actions.
    pub origin: usize,
    /// The text of the rule; empty if it has to be derived from the rule.
    pub text: String,
}

impl FilterRule {
    /// True if a packet matches the rule.
    pub fn has(&self, packet: &FieldValues) -> bool {
        self.products.iter().any(|product| product.has(packet))
    }

    /// True if all packets match the rule.
    pub fn is_for_all(&self) -> bool {
        self.products.contains(&FieldSets::ALL)
    }

    /// True if two rules match the same products and have the same action, whatever their places.
    pub fn is_same_as(&self, other: &FilterRule) -> bool {
        self.action == other.action && self.products == other.products
    }
}

/// A list of rules, and the fate of packets that match none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// The name of the rule set in messages: its file, and the part of the file if it has several.
    pub name: String,
    /// The rules in order.
    pub rules: Vec<FilterRule>,
    /// The fate of packets that match no rule.
    pub default: RuleAction,
    /// Remarks about the input for the user, such as parts that concern no IPv4 packets.
    pub notes: Vec<String>,
    /// The hook at which the kernel calls the chain that was read, such as `input`; `None` if it was no such
    /// chain.
    pub hook: Option<String>,
}

impl RuleSet {
    /// Returns the index of the rule that decides about a packet; `None` if no rule matches.
    pub fn decider(&self, packet: &FieldValues) -> Option<usize> {
        self.rules.iter().position(|rule| rule.has(packet))
    }

    /// Returns the action for packets that the rule with this index decides about, or the default for `None`.
    pub fn action(&self, rule: Option<usize>) -> &RuleAction {
        rule.and_then(|rule| self.rules.get(rule)).map_or(&self.default, |rule| &rule.action)
    }
}
