//! When runs end.

use engine::End;
use tidegate_testkit::Run;

#[test]
fn under_the_trace_clock_long_work_comes_to_its_own_end() {
    let source = "InfiniteSource(LIMIT 100000) -> c :: Counter -> Discard";
    let outcome = Run::trace().text(source, &["c.count"]).unwrap();
    assert_eq!((outcome.end, outcome.values), (End::Idle, vec![Ok("100000".into())]));

    let replay = "InfiniteSource(LIMIT 100) -> r :: ReplayUnqueue(STOP 1000) -> Discard";
    let outcome = Run::trace().text(replay, &["r.count"]).unwrap();
    assert_eq!((outcome.end, outcome.values), (End::Stopped, vec![Ok("100000".into())]));
}
