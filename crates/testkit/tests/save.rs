//! Compares what a restart keeps of each class with the declaration of the class.

use testkit::reload::Exceptions;
use testkit::save::differences;

/// Parts of the state of classes that are empty in all samples, with the reason.
const UNSHOWN: Exceptions =
    &[("ICMPPingRewriter", "mappings", "the corpus has no ping whose headers are marked")];

/// Handlers whose values differ with several workers, with the reason.
const COUNTING: Exceptions = &[
    ("*", "patterns", "each worker shows the number of its own mappings"),
    ("*", "pattern0", "each worker shows the number of its own mappings"),
    ("FlowCounter", "top", "each worker shows its own largest flows"),
];

#[test]
fn a_restart_keeps_what_is_declared() {
    let classes: Vec<_> = testkit::classes().collect();
    let found = differences(&classes, UNSHOWN, COUNTING).unwrap();
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}
