//! The classes of this crate do what they declare.

#[test]
fn classes_do_what_they_declare() {
    testkit::generic::check(own_nf::CLASSES).unwrap_or_else(|failures| panic!("{failures}"));
}

#[test]
fn a_reload_keeps_what_is_declared() {
    let unshown = &[("SprayedNAT", "flows", "no packet of the corpus opens a connection from inside")];
    let found = testkit::reload::differences(own_nf::CLASSES, own_nf::CLASSES, &[], unshown).unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
