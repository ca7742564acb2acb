//! Tests that every element class of Click and FastClick at user level is either here or known by name, so
//! that a user of such a class reads what to use instead.
//!
//! `names.txt` has the names of these classes, a line each, as the two programs register them.

use element::Absent;
use testkit::registry;

#[test]
fn every_class_is_here_or_known_by_name() {
    let registry = registry();
    let names = include_str!("names.txt").lines();
    let unknown: Vec<_> =
        names.filter(|name| registry.get(name).is_none() && Absent::find(name).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn classes_that_are_here_are_not_said_to_be_absent() {
    let both: Vec<_> = registry().names().into_iter().filter(|name| Absent::find(name).is_some()).collect();
    assert!(both.is_empty(), "{both:?}");
}
