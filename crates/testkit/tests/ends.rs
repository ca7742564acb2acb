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

#[test]
fn tasks_run_as_often_as_their_tickets_say() {
    let text = "a :: InfiniteSource(BURST 1) -> ca :: Counter(COUNT_CALL 300 stop) -> Discard;
        b :: InfiniteSource(BURST 1) -> cb :: Counter -> Discard; ScheduleInfo(b 2)";
    let handlers = ["a.tickets", "b.tickets", "ca.count", "cb.count"];
    let outcome = Run { burst: None, ..Run::default() }.text(text, &handlers).unwrap();
    let values: Vec<String> = outcome.values.into_iter().map(Result::unwrap).collect();
    assert_eq!(values[..3], ["1024", "2048", "300"]);
    let b: i32 = values[3].parse().unwrap();
    assert!((598..=602).contains(&b), "{b}");

    // And when they change on the way: from then on three to one.
    let text = "a :: InfiniteSource(BURST 1) -> ca :: Counter(COUNT_CALL 100 x.run) -> Discard;
        b :: InfiniteSource(BURST 1) -> cb :: Counter -> Discard;
        x :: Script(TYPE PASSIVE, write a.tickets 3072, write ca.reset, write cb.reset,
            write ca.count_call 300 stop)";
    let outcome = Run { burst: None, ..Run::default() }.text(text, &["a.tickets", "cb.count"]).unwrap();
    let b: i32 = outcome.values[1].as_ref().unwrap().parse().unwrap();
    assert_eq!(outcome.values[0], Ok("3072".into()));
    assert!((99..=101).contains(&b), "{b}: {}", outcome.messages);
}

#[test]
fn only_elements_with_a_task_speak_of_one() {
    let text = "s :: InfiniteSource(LIMIT 1) -> c :: Counter -> d :: Discard;
        q :: Idle -> pulling :: Discard; ScheduleInfo(s 100)";
    let handlers =
        ["s.scheduled", "s.home_thread", "s.tickets", "pulling.tickets", "d.tickets", "c.scheduled"];
    let outcome = Run::default().text(text, &handlers).unwrap();
    let values: Vec<Option<String>> = outcome.values.into_iter().map(Result::ok).collect();
    let some = |text: &str| Some(text.to_string());
    assert_eq!(values[..3], [some("false"), some("0"), some("32768")]);
    assert_eq!(values[4..], [None, None]);
}
