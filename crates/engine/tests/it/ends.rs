//! Tests of the end of runs, at which packets that are still held leave, and of tasks: their order and their
//! handlers.

use std::sync::{Arc, Weak};

use element::{Batch, Class, Cx, Effects, Element, Handler, Timestamp};
use engine::End;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};

#[test]
fn under_the_trace_clock_long_work_comes_to_its_own_end() {
    let source = "InfiniteSource(LIMIT 100000) -> c :: Counter -> Discard";
    let outcome = TestRun::trace().text(source, &["c.count"]).unwrap();
    assert_eq!((outcome.end, outcome.values), (End::Idle, vec![Ok("100000".into())]));

    let replay = "InfiniteSource(LIMIT 100) -> r :: ReplayUnqueue(STOP 1000) -> Discard";
    let outcome = TestRun::trace().text(replay, &["r.count"]).unwrap();
    assert_eq!((outcome.end, outcome.values), (End::Stopped, vec![Ok("100000".into())]));
}

#[test]
fn tasks_run_as_often_as_their_tickets_say() {
    let text = "a :: InfiniteSource(BURST 1) -> ca :: Counter(COUNT_CALL 300 stop) -> Discard;
        b :: InfiniteSource(BURST 1) -> cb :: Counter -> Discard; ScheduleInfo(b 2)";
    let handlers = ["a.tickets", "b.tickets", "ca.count", "cb.count"];
    let outcome = TestRun { burst: None, ..TestRun::default() }.text(text, &handlers).unwrap();
    let values: Vec<String> = outcome.values.into_iter().map(Result::unwrap).collect();
    assert_eq!(values[..3], ["1024", "2048", "300"]);
    let b: i32 = values[3].parse().unwrap();
    assert!((598..=602).contains(&b), "{b}");

    // After 100 packets of `a`, `a` has three times the tickets of `b`.
    let text = "a :: InfiniteSource(BURST 1) -> ca :: Counter(COUNT_CALL 100 x.run) -> Discard;
        b :: InfiniteSource(BURST 1) -> cb :: Counter -> Discard;
        x :: Script(TYPE PASSIVE, write a.tickets 3072, write ca.reset, write cb.reset,
            write ca.count_call 300 stop)";
    let outcome =
        TestRun { burst: None, ..TestRun::default() }.text(text, &["a.tickets", "cb.count"]).unwrap();
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
    let outcome = TestRun::default().text(text, &handlers).unwrap();
    let values: Vec<Option<String>> = outcome.values.into_iter().map(Result::ok).collect();
    let some = |text: &str| Some(text.to_string());
    assert_eq!(values[..3], [some("false"), some("0"), some("32768")]);
    assert_eq!(values[4..], [None, None]);
}

/// Runs a configuration in which each `HOLD` is an element that holds packets until the end. Returns the
/// number of packets that arrive at the sink at the end, of those that are still held, and of those dropped
/// because they went in a loop.
fn left_at_the_end(run: TestRun, holders: &str) -> (usize, u64, u64) {
    let input = |number| TestPacket {
        bytes: vec![number; 60],
        time: Timestamp(1),
        annotations: [0; 48],
        headers: [None; 3],
    };
    let exchange = offer(vec![(1..=3).map(input).collect()]);
    let text = format!(
        "{}; Script(wait 1ms, stop)",
        holders
            .replace("HOLD", "Batcher(10s, 200)")
            .replace("SOURCE", &format!("TestSource({exchange}, 0)"))
            .replace("SINK", &format!("TestSink({exchange}, 0)"))
    );
    let report = run.text(&text, &[]).unwrap_or_else(|e| panic!("{holders}: {e}")).report;
    assert!(report.balances(), "{holders}: {report:?}");
    let held = report.elements.iter().map(|element| element.held).sum();
    let circled = report.totals.drops.get("loop").copied().unwrap_or_default();
    (collect(exchange).len(), held, circled)
}

#[test]
fn what_is_sent_at_the_end_arrives() {
    for run in [TestRun::default(), TestRun::trace()] {
        for holders in [
            "first :: HOLD; second :: HOLD; SOURCE -> first -> second -> SINK",
            "second :: HOLD; first :: HOLD; SOURCE -> first -> second -> SINK",
            "c :: HOLD; a :: HOLD; b :: HOLD; SOURCE -> a -> b -> c -> SINK",
            // Packets go round the cycle once before they leave, so no order of ending the elements is
            // right for all.
            "b :: HOLD; a :: HOLD; SOURCE -> a -> b -> s :: CheckPaint(1); s [1] -> Paint(1) -> a; s [0] -> SINK",
        ] {
            assert_eq!(left_at_the_end(run, holders), (3, 0, 0), "{holders}");
        }
        // In this graph packets can never leave the cycle, so they are dropped.
        assert_eq!(left_at_the_end(run, "a :: HOLD; SOURCE -> a -> a; Idle -> SINK"), (0, 0, 3));
    }
}

/// The class `TestGiver`: gives a value away with its first packet. The handler `released` tells if the value
/// has been dropped.
static GIVER: Class = Class {
    name: "TestGiver",
    table: &OF_GIVER,
    build: |args| {
        args.finish()?;
        Ok(Box::new(Giver { value: Some(Arc::default()), given: Weak::new() }))
    },
    ..Class::DEFAULT
};

static GIVERS: &[&Class] = &[&GIVER];

struct Giver {
    value: Option<Arc<()>>,
    given: Weak<()>,
}

impl Element for Giver {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, cx: &mut Cx<'_>, _batch: &mut Batch) {
        if let Some(value) = self.value.take() {
            self.given = Arc::downgrade(&value);
            cx.dispose(value);
        }
    }
}

const OF_GIVER: &[Handler<Giver>] =
    &[Handler::get("released", |e| (e.value.is_none() && e.given.strong_count() == 0).to_string())];

/// Only a reload would otherwise make a worker release what elements give away. No reload comes here, so an
/// idle worker releases the memory.
#[test]
fn what_elements_give_away_is_released_by_an_idle_worker() {
    let text = "InfiniteSource(LIMIT 1) -> g :: TestGiver -> Discard;
        Script(set n 0, label again, wait 1ms, set n $(add $n 1), goto done $(g.released),
            goto again $(lt $n 5000), label done, print $(g.released), stop)";
    let outcome = TestRun::real().with(GIVERS).text(text, &[]).unwrap();
    assert_eq!(outcome.output, "true\n");
}
