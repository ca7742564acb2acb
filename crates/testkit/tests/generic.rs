//! Runs the generic tests on every class of the product, and on classes with wrong declarations.

use element::Class;
use testkit::generic::{self, CHECKS};

/// Runs the check with this name on all classes of the product, and panics with its failures.
fn check(name: &str) {
    let example: [&'static Class; 1] = [&testkit::example::CLASS];
    let classes: Vec<_> = testkit::classes().chain(example).collect();
    let check = CHECKS.iter().find(|check| check.name == name).unwrap();
    generic::run(check, &classes, &[]).unwrap_or_else(|failures| panic!("{failures}"));
}

#[test]
fn every_packet_is_accounted_for() {
    check("every packet is accounted for");
}

#[test]
fn the_same_input_gives_the_same_output() {
    check("the same input gives the same output");
}

#[test]
fn several_workers_do_what_one_does() {
    check("several workers do what one does");
}

#[test]
fn several_workers_with_packets_of_each_flow_do_what_one_does() {
    check("several workers with packets of each flow do what one does");
}

#[test]
fn runs_of_packets_are_processed_like_single_packets() {
    check("runs of packets are processed like single packets");
}

#[test]
fn order_is_kept_as_declared() {
    check("order is kept as declared");
}

#[test]
fn nothing_changes_that_is_not_declared_as_written() {
    check("nothing changes that is not declared as written");
}

#[test]
fn nothing_depends_on_what_is_not_declared_as_read() {
    check("nothing depends on what is not declared as read");
}

#[test]
fn packets_are_dropped_for_declared_reasons() {
    check("packets are dropped for declared reasons");
}

#[test]
fn handlers_change_the_outcome_only_if_that_is_declared() {
    check("handlers change the outcome only if that is declared");
}

#[test]
fn handler_calls_are_declared() {
    check("handler calls are declared");
}

#[test]
fn no_decision_is_declared_twice() {
    check("no decision is declared twice");
}

#[test]
fn elements_do_what_they_declare() {
    check("what happens to a packet is what is declared");
}

#[test]
fn each_check_has_its_test() {
    let source = include_str!("generic.rs");
    for check in CHECKS {
        assert!(source.contains(&format!("check(\"{}\");", check.name)), "{}", check.name);
    }
}

/// Runs all checks on classes with wrong declarations, as another crate would. The errors have to name
/// the classes.
#[test]
fn classes_that_lie_are_told_with_their_name() {
    let failures = generic::check(testkit::liars::CLASSES).unwrap_err();
    for said in [
        "nothing changes that is not declared as written",
        "UndeclaredWriter",
        "UndeclaredReader",
        "UndeclaredSorter",
        "runs of packets are processed like single packets",
        "RunMarker",
        "UndeclaredCaller",
    ] {
        assert!(failures.contains(said), "{said}: {failures}");
    }
}
