//! Tests of the example routers against the requirements of RFCs, packet by packet. The configurations
//! `configs/router.click` and `configs/router6.click` are unchanged except for sources and sinks and, in some
//! tests, for arguments or elements that the test names. `docs/router.md` has the table of requirements.

mod captures;
mod ipv4;
mod ipv6;
mod net;
mod random;

/// The document `docs/router.md` names every test in `sources` whose name begins with `rfc`, and names no
/// such test that does not exist in `sources`.
#[test]
fn the_document_has_every_requirement() {
    let document = include_str!("../../../../docs/router.md");
    let sources = [
        include_str!("ipv4.rs"),
        include_str!("ipv6.rs"),
        include_str!("random.rs"),
        include_str!("../../../wire/src/neighbor.rs"),
    ];
    let tests: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("fn rfc").skip(1))
        .map(|rest| rest.split('(').next().unwrap_or_default())
        .collect();
    let named: Vec<&str> =
        document.split("`rfc").skip(1).map(|rest| rest.split('`').next().unwrap_or_default()).collect();
    let missing: Vec<_> = tests.iter().filter(|test| !named.contains(test)).collect();
    let wrong: Vec<_> = named.iter().filter(|name| !tests.contains(name)).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "not in the document: {missing:?}, no tests: {wrong:?}");
}
