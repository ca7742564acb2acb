//! The test of RSS keys of ports, which the test that starts DPDK calls.

use testkit::TestRun;

use super::port;

/// Runs FromDPDKDevice on a port, with further arguments. Returns the value of the handler `rss_key`,
/// and the key that the port has after the run.
fn key_after(number: u16, how: TestRun, keyword: &str) -> (String, Vec<u8>) {
    let text = format!("in :: FromDPDKDevice({number}{keyword}) -> Discard; Script(wait 1ms, stop)");
    let outcome = how.with(crate::CLASSES).text(&text, &["in.rss_key"]).unwrap();
    let length = port::info(number).unwrap().key_length.unwrap();
    (outcome.values[0].clone().unwrap(), port::key(number, length).unwrap())
}

/// With several workers, a port gets a secret key. This function is a part of the test that starts
/// DPDK, because DPDK can be started only once in a process. `number` is a port that the rest of the
/// test does not use.
pub(in crate::dpdk) fn keys_are_secret(number: u16) {
    let own = port::key(number, 40).unwrap();
    // The port keeps its own RSS key with a single worker, under the trace clock, and with RSS_KEY own.
    for (how, keyword) in
        [(TestRun::real(), ""), (TestRun::trace().on(2), ""), (TestRun::real().on(2), ", RSS_KEY own")]
    {
        assert_eq!(key_after(number, how, keyword), ("own".into(), own.clone()), "{how:?}");
    }
    let (first, second) =
        (key_after(number, TestRun::real().on(2), ""), key_after(number, TestRun::real().on(2), ""));
    assert_eq!((&*first.0, &*second.0), ("secret", "secret"));
    assert!(first.1.len() == 40 && first.1 != own && first.1 != second.1, "{first:?} {second:?} {own:?}");
    // The driver accepts only keys that are as long as its own key of 40 bytes.
    assert!(port::set_key(number, &[1; 300]).is_err());
    port::set_key(number, &own).unwrap();
}
