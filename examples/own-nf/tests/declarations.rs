//! The classes of this crate do what they declare.

#[test]
fn classes_do_what_they_declare() {
    testkit::generic::check(own_nf::CLASSES).unwrap_or_else(|failures| panic!("{failures}"));
}
