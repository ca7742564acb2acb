//! Tests of scripts in configurations that run on one worker: the text that scripts print, the errors that
//! they report, and the end of the run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use element::class::{ArgInfo, Notes};
use element::{Class, Cx, Effects, Element, OutputStream, Registry, Timestamp};
use engine::{ClockKind, End, Options, Plan, RunReport, Sink, Worker};
use proptest::prelude::*;

/// A sink that keeps the text that a run writes: to standard output, and as messages.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<(String, String)>>);

impl Sink for Captured {
    fn write(&mut self, stream: OutputStream, text: fmt::Arguments<'_>) {
        let mut texts = self.0.lock().unwrap();
        match stream {
            OutputStream::Output => texts.0 += &text.to_string(),
            OutputStream::Messages | OutputStream::Log(_) => texts.1 += &text.to_string(),
        }
    }
    fn flush(&mut self) {}
}

/// A worker with a configuration, the text that it writes, and the flag that interrupts it.
struct Started {
    worker: Worker,
    captured: Captured,
    interrupt: Arc<AtomicBool>,
}

impl Started {
    fn read(&mut self, handler: &str, param: &str) -> Result<String, String> {
        let (element, handler) = self.find(handler);
        self.worker.read(element, handler, param)
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let (element, handler) = self.find(handler);
        self.worker.write(element, handler, value)
    }

    fn find<'h>(&self, handler: &'h str) -> (Option<usize>, &'h str) {
        let (element, handler) = handler.split_once('.').unwrap();
        (self.worker.plan().graph.find(element), handler)
    }

    fn output(&self) -> String {
        self.captured.0.lock().unwrap().0.clone()
    }

    fn messages(&self) -> String {
        self.captured.0.lock().unwrap().1.clone()
    }

    fn initialized(mut self) -> Started {
        self.worker.initialize().unwrap();
        self
    }

    fn run(mut self) -> Done {
        let end = self.worker.run();
        self.worker.finish().unwrap();
        let report = self.worker.report();
        assert!(report.balances());
        Done { end, output: self.output(), messages: self.messages(), report }
    }
}

/// The result of a run: the reason for its end, the text that it wrote, and the report.
struct Done {
    end: End,
    output: String,
    messages: String,
    report: RunReport,
}

impl Done {
    fn of(&self, element: &str) -> &engine::ElementReport {
        self.report.elements.iter().find(|e| e.name == element).unwrap()
    }
}

const SIMULATED: ClockKind =
    ClockKind::Simulated { start: Timestamp(1_000_000_000_000), tick: Timestamp(1_000) };

fn load(text: &str, clock: ClockKind) -> Result<Started, Vec<String>> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if !diagnostics.is_empty() {
        return Err(diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect());
    }
    let registry = Registry::new().with(nf::CLASSES).with(&[&CAPTURE]);
    let texts = |problems: Vec<engine::Problem>| -> Vec<String> {
        problems.into_iter().map(|problem| problem.diagnostic.message).collect()
    };
    let plan = Plan::new(graph, &registry).map_err(texts)?;
    let configured = plan.configure(None).map_err(texts)?;
    let captured = Captured::default();
    let options = Options { clock, burst: 1, memory: 64 << 20, ..Options::default() };
    let interrupt = Arc::clone(&options.interrupt);
    let worker = Worker::new(Arc::new(plan), configured, Box::new(captured.clone()), options).unwrap();
    Ok(Started { worker, captured, interrupt })
}

fn start(text: &str) -> Started {
    load(text, SIMULATED).unwrap_or_else(|problems| panic!("{text}: {problems:?}")).initialized()
}

fn run(text: &str) -> Done {
    start(text).run()
}

/// Runs a script with these instructions and a final `stop`. Returns the text that it prints, and expects
/// no messages.
fn prints(instructions: &str) -> String {
    let done = run(&format!("c :: Counter; Idle -> c -> Discard; s :: Script({instructions}, stop)"));
    assert_eq!(done.messages, "", "{instructions}");
    done.output
}

/// Runs a script with these instructions and a final `stop`. Returns its messages.
fn complains(instructions: &str) -> String {
    run(&format!("c :: Counter; Idle -> c -> Discard; s :: Script({instructions}, stop)")).messages
}

/// A source that makes packets at the times that its arguments give, as a capture does.
static CAPTURE: Class = Class {
    name: "TestCapture",
    ports: "0/1",
    processing: "h/h",
    args: &[ArgInfo::rest("TIME", "seconds")],
    notes: Notes { follows_captures: true, ..Notes::TASK },
    build: |args| {
        let times = args.rest().iter().filter_map(|(_, text)| element::args::parse_seconds(text)).collect();
        args.finish()?;
        Ok(Box::new(TestCapture { times }))
    },
    ..Class::DEFAULT
};

struct TestCapture {
    times: std::collections::VecDeque<Timestamp>,
}

impl Element for TestCapture {
    fn effects(&self) -> Effects {
        Effects::source("captured packet")
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }
    fn next_time(&self) -> Option<Timestamp> {
        self.times.front().copied()
    }
    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let made = self.times.pop_front().and_then(|_| cx.packet(b"captured"));
        if let Some(packet) = made {
            let batch = cx.batch_of(packet);
            cx.emit(0, batch);
            cx.schedule();
            return true;
        }
        false
    }
}

#[test]
fn text_is_printed_as_the_manual_says() {
    let cases = [
        ("print c.count", "0\n"),
        ("print \"c.count\"", "c.count\n"),
        ("print '\"c.count\"'", "\"c.count\"\n"),
        ("set x c.count, print $x", "c.count\n"),
        ("set x c.count, print $($x)", "0\n"),
        ("set x $(c.count), print $x", "0\n"),
        ("set x \"$(c.count)\", print $x", "\"0\"\n"),
        ("setq x \"$(c.count)\", print $x", "0\n"),
        ("print", "\n"),
        ("printn \"a\", printn $(c.count), print \"b\"", "a0b\n"),
        ("print \"a\\n\"", "a\n"),
        ("print '$x' \"$y\" $z", "$x $y $z\n"),
        ("print > - \"a\"", "a\n"),
        ("save c.count, append c.count -, save c.count", "0\n0\n0\n"),
        ("print name", "s\n"),
        ("print .driver", ".driver\n"),
        ("print driver", "userlevel\n"),
        ("print c.config", "\n"),
    ];
    for (instructions, expected) in cases {
        assert_eq!(prints(instructions), expected, "{instructions}");
    }
}

#[test]
fn functions_need_no_element_name() {
    let loops = "set x 0, label begin_loop, print $x, set x $(add $x 1), goto begin_loop $(lt $x 5)";
    assert_eq!(prints(loops), "0\n1\n2\n3\n4\n");
    assert_eq!(prints("print $(s.mul 2 $(add 1 2))"), "6\n");
    assert_eq!(prints("print $(sprintf \"%05x|%-4s|\" 127 $(c.count))"), "0007f|0   |\n");
    assert_eq!(prints("print $(readable c.count s.add add cat list)"), "true\n");
    assert_eq!(
        prints("print $(readable c.nope)$(writable c.reset step)$(writable c.count)"),
        "falsetruefalse\n"
    );
    assert_eq!(prints("print add 1 2"), "3\n");
    assert_eq!(prints("print $(now)"), "1000.000002\n");
    assert_eq!(prints("set a 3, print $(get a)$(if $(gt $a 2) big small)"), "3big\n");
}

#[test]
fn variables() {
    assert_eq!(prints("write c.reset, print $?"), "0\n");
    assert_eq!(prints("print \"$#,$args,$1,$0,$write\""), "0,,,,false\n");
    assert_eq!(prints("set v \"a b\" c, print $(shift v), print $v"), "\"a b\"\nc\n");
    assert_eq!(prints("print $x, set x 2, init x 1, print $x"), "1\n2\n");
    assert_eq!(prints("init a 1, init b ${a}2, print $b"), "12\n");
    assert_eq!(prints("print $$"), format!("{}\n", std::process::id()));
    assert_eq!(prints("write set v a b, print $v"), "a b\n");
}

#[test]
fn own_handlers_answer_others() {
    let mut started = start(
        "f :: Script(TYPE PASSIVE, export v 5, goto neg $(lt $1 0), return \"$0 $write $# $args\", \
         label neg, error negative $1)",
    );
    assert_eq!(started.read("f.run", "1 b"), Ok("\"run false 2 1 b\"".into()));
    assert_eq!(started.read("f.run", "-1"), Err("negative -1".into()));
    assert_eq!(started.write("f.run", "-1"), Err("negative -1".into()));
    assert_eq!(started.read("f.v", ""), Ok("5".into()));
    assert_eq!(started.read("f.v", "1"), Err("read handler 'f.v' does not take parameters".into()));
    started.write("f.set", "v 6 7").unwrap();
    assert_eq!(started.read("f.get", "v"), Ok("6 7".into()));
    assert_eq!(started.read("f.shift", "v"), Ok("6".into()));
    assert_eq!(started.read("f.v", ""), Ok("7".into()));
    assert_eq!(started.read("f.get", ""), Err("no variable".into()));
    assert_eq!(started.read("f.get", "v w"), Err("too many arguments".into()));
    assert_eq!(started.read("f.get", "w"), Err("undefined variable 'w'".into()));
    assert_eq!(started.read("f.add", "1 2"), Ok("3".into()));
    assert_eq!(started.read("f.add", "x"), Err("expected list of numbers".into()));
    assert_eq!(started.read("f.cat", "/etc/passwd"), Err("no 'f.cat' read handler".into()));
    assert_eq!(started.write("f.goto", "x"), Err("jump to nonexistent label".into()));
    assert_eq!(started.write("f.step", "x"), Err("syntax error".into()));
}

#[test]
fn every_handler_is_answered() {
    let mut started = start("s :: Script(TYPE PASSIVE, return passive)");
    for handler in nf::script::CLASS.each_handler() {
        if handler.access.read {
            let answer = started.read(&format!("s.{}", handler.name), "");
            assert_ne!(
                answer.as_deref(),
                Ok(if handler.name == "run" { "" } else { "passive" }),
                "{}",
                handler.name
            );
        }
    }
}

#[test]
fn proxies_answer_to_any_name() {
    let mut started = start(
        "s :: Script(TYPE PROXY, goto nota $(ne $0 a), returnq \"you called 'a' $write $args\", label nota, \
         goto end $(eq $0 quiet), error bad handler)",
    );
    assert_eq!(started.read("s.a", "1"), Ok("you called 'a' false 1".into()));
    assert_eq!(started.write("s.a", ""), Ok(()));
    assert_eq!(started.read("s.quiet", ""), Ok(String::new()));
    assert_eq!(started.read("s.cat", "/etc/passwd"), Err("bad handler".into()));
    assert_eq!(started.read("s.class", ""), Ok("Script".into()));
    assert_eq!(started.read("s.add", "1 1"), Ok("2".into()));
}

#[test]
fn scripts_call_each_other_and_themselves() {
    let text = "f :: Script(TYPE PASSIVE, goto more $(gt $1 1), return 1, \
                label more, return $(mul $1 $(run $(sub $1 1)))); \
                Script(print f.run 5, print $(f.run 10), stop)";
    let done = run(text);
    assert_eq!((done.output.as_str(), done.messages.as_str()), ("120\n3628800\n", ""));
}

#[test]
fn passive_scripts_are_stepped() {
    let mut started =
        start("s :: Script(TYPE PASSIVE, print \"a\", pause 2, print \"b\", pause, print \"c\", pause)");
    assert_eq!(started.output(), "");
    started.write("s.step", "").unwrap();
    assert_eq!(started.output(), "a\n");
    started.write("s.step", "").unwrap();
    assert_eq!(started.output(), "a\n");
    started.write("s.step", "").unwrap();
    assert_eq!(started.output(), "a\nb\n");
    started.write("s.goto", "begin").unwrap();
    started.write("s.step", "3").unwrap();
    assert_eq!(started.output(), "a\nb\na\nb\nc\n");
    started.write("s.step", "9").unwrap();
    assert_eq!(started.output(), "a\nb\na\nb\nc\n");
    assert_eq!(prints("write step 2, pause, print \"a\", wait 1h, print $(now)"), "a\n1000.000002\n");
}

#[test]
fn active_scripts_wait_for_their_time() {
    let done = run(
        "Script(print now, wait 10ms, print now, set t 5ms, wait $t, print now, wait_time 1s, print now, stop)",
    );
    let times: Vec<f64> = done.output.lines().map(|line| line.parse().unwrap()).collect();
    let waits: Vec<f64> = times.windows(2).map(|pair| ((pair[1] - pair[0]) * 1e3).round()).collect();
    assert_eq!((waits, done.end), (vec![10.0, 5.0, 1000.0], End::Stopped));
}

#[test]
fn driver_managers_decide_when_the_run_ends() {
    let source = "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;";
    let cases = [
        ("", ""),
        ("print \"first\"", "first\n"),
        ("print c.count, pause, print c.count, stop", "0\n3\n"),
        ("pause, print c.count, write c.reset, print c.count, stop, print \"never\"", "3\n0\n"),
        ("pause, print c.count, wait 1s, print \"later\"", "3\nlater\n"),
        ("pause, print \"x\", end", "x\n"),
        ("pause, print \"x\", exit", "x\n"),
        // The source's request to stop ends the wait of one hour. The second request to stop, for which the
        // script waits in `pause`, comes because there is no work left.
        ("wait 1h, print $(lt $(now) 1001), pause, print \"idle\"", "true\nidle\n"),
        ("pause 2, print \"two\"", "two\n"),
    ];
    for (instructions, expected) in cases {
        let done = run(&format!("{source} DriverManager({instructions})"));
        assert_eq!((done.output.as_str(), done.messages.as_str()), (expected, ""), "{instructions}");
        assert_eq!(done.of("c").packets_in, if instructions == "print \"first\"" { 0 } else { 3 });
        let done = run(&format!("{source} Script(TYPE DRIVER, {instructions})"));
        assert_eq!(done.output, expected, "{instructions}");
    }
}

#[test]
fn a_driver_manager_ends_a_run_after_a_time() {
    let done = run("c :: Counter; RatedSource(RATE 1000) -> c -> Discard; DriverManager(wait 1s)");
    assert_eq!(done.end, End::Stopped);
    assert!((990..=1010).contains(&done.of("c").packets_in), "{}", done.of("c").packets_in);
}

#[test]
fn prints_come_in_order() {
    // With bursts of one packet, the handler call that Counter makes at packet 2 (COUNT_CALL) is made before
    // packet 3 is counted.
    let done = run("InfiniteSource(LIMIT 4, STOP true) -> c :: Counter(COUNT_CALL 2 s.run two) -> Discard; \
         s :: Script(TYPE PASSIVE, print \"$args $(c.count)\"); \
         DriverManager(print \"start $(c.count)\", pause, print \"end $(c.count)\")");
    assert_eq!(done.output, "start 0\ntwo 2\nend 4\n");
}

#[test]
fn interrupted_driver_managers_come_to_their_end() {
    let started = start("DriverManager(pause, print \"a\", pause, print \"b\", wait 1h, print \"c\")");
    started.interrupt.store(true, Ordering::Relaxed);
    let done = started.run();
    assert_eq!((done.output.as_str(), done.end), ("a\nb\nc\n", End::Interrupted));
    let started = start("DriverManager(pause, loop)");
    started.interrupt.store(true, Ordering::Relaxed);
    assert_eq!(started.run().end, End::Interrupted);
}

#[test]
fn stop_of_other_scripts_is_a_request() {
    let done = run("Script(print \"s\", stop); DriverManager(pause, print \"d\")");
    assert_eq!(done.output, "s\nd\n");
    let done = run("Script(write stop, print \"s\"); DriverManager(pause, print \"d\")");
    assert_eq!(done.output, "s\nd\n");
}

#[test]
fn captures_start_the_clock_of_scripts() {
    let text = "TestCapture(100s, 101s, 102s, 103s) -> c :: Counter -> Discard; \
                Script(print now, wait 1.5s, print \"$(now) $(c.count)\"); \
                DriverManager(wait 2.5s, print \"$(now) $(c.count)\")";
    let done = load(text, ClockKind::Trace).unwrap().initialized().run();
    assert_eq!(done.output, "100.000000\n101.500000 2\n102.500000 3\n");
    assert_eq!(done.end, End::Stopped);
}

#[test]
fn driver_managers_may_wait_after_the_end_of_a_capture() {
    let text = "TestCapture(100s, 101s) -> Discard; TimedSource(0.3s) -> c :: Counter -> Discard; \
                DriverManager(pause, print \"$(now) $(c.count)\", wait 1s, print \"$(now) $(c.count)\")";
    let done = load(text, ClockKind::Trace).unwrap().initialized().run();
    assert_eq!(done.output, "101.000000 3\n102.000000 6\n");
    // Events that repeat themselves, such as the waits of a script in a loop, do not keep a run from
    // ending.
    let text = "TestCapture(100s, 101s) -> Discard; Script(label a, print now, wait 0.4s, goto a)";
    let done = load(text, ClockKind::Trace).unwrap().initialized().run();
    assert_eq!((done.output.as_str(), done.end), ("100.000000\n100.400000\n100.800000\n", End::Idle));
}

#[test]
fn packet_scripts_choose_outputs() {
    let done = run(
        "InfiniteSource(LIMIT 6, STOP true) -> s :: Script(set n $(add $(get n) 1), goto drop $(eq $n 3), \
         goto far $(eq $n 4), goto odd $(mod $n 2), end, label odd, return 1, label drop, exit, \
         label far, return 7, init n 0); s [0] -> zero :: Discard; s [1] -> one :: Discard",
    );
    assert_eq!(done.messages, "");
    assert_eq!((done.of("zero").packets_in, done.of("one").packets_in), (2, 2));
    let drops: Vec<_> = done.of("s").drops.iter().map(|(reason, n)| (*reason, *n)).collect();
    assert_eq!(drops, [("discard", 1), ("no output", 1)]);
}

#[test]
fn packet_scripts_know_the_input_and_may_be_pulled() {
    let done =
        run("InfiniteSource(LIMIT 2) -> s :: Script(return $input); InfiniteSource(LIMIT 3) -> [1] s; \
         s [0] -> zero :: Discard; s [1] -> one :: Discard");
    assert_eq!((done.of("zero").packets_in, done.of("one").packets_in), (2, 3));
    let done = run(
        "InfiniteSource(LIMIT 4) -> Queue -> s :: Script(set n $(add $n 1), return $(mod $n 2), init n 0) \
         -> Unqueue -> zero :: Discard; s [1] -> one :: Discard",
    );
    assert_eq!((done.of("zero").packets_in, done.of("one").packets_in), (2, 2));
    // `pause` ends the script that runs for a packet, without a return value. So the packet has no output and
    // is dropped.
    let done = run("InfiniteSource(LIMIT 2) -> s :: Script(pause, return 0) -> zero :: Discard");
    assert_eq!((done.of("zero").packets_in, done.of("s").dropped()), (0, 2));
}

#[test]
fn files_are_emptied_or_made_longer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let name = path.display();
    assert_eq!(prints(&format!("print >{name} \"a\", print >> {name} c.count, append c.count {name}")), "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n0\n0\n");
    assert_eq!(prints(&format!("save c.count {name}, print $(cat {name})")), "0\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n");
    let missing = directory.path().join("no/out");
    assert_eq!(
        complains(&format!("print >{} \"a\"", missing.display())),
        format!("While executing 's :: Script':\n  {}: No such file or directory\n", missing.display())
    );
}

#[test]
fn errors_are_told_in_clicks_words() {
    let cases = [
        ("print x.y", "  no element named 'x'\n"),
        ("print c.", "  syntax error\n"),
        ("print $(c.nope)", "  no 'c.nope' read handler\n"),
        ("print nope", "  no 'nope' read handler\n"),
        ("write c.count 1", "  no 'c.count' write handler\n"),
        ("write add 1", "  no 's.add' write handler\n"),
        (
            "print c.count 1",
            "  While calling 'c.count 1':\n    read handler 'c.count' does not take parameters\n",
        ),
        ("print $(add 1 x)", "  expected list of numbers\n"),
        ("write goto nowhere", "  While calling 's.goto nowhere':\n    jump to nonexistent label\n"),
        ("goto end $(c.count)x", "  bad condition '0x'\n"),
        ("wait soon", "  syntax error at 'wait'\n"),
        ("error it broke", "  it broke\n"),
        ("print x.y, print x.y", "  no element named 'x'\n  no element named 'x'\n"),
    ];
    for (instructions, expected) in cases {
        assert_eq!(
            complains(instructions),
            format!("While executing 's :: Script':\n{expected}"),
            "{instructions}"
        );
    }
    assert_eq!(complains("error"), "");
    assert_eq!(
        complains("read c.count, read .driver, read s.class"),
        "c.count:\n0\ndriver:\nuserlevel\ns.class:\nScript\n"
    );
    let done = run("Script(write x.y, print $?, stop)");
    assert_eq!(done.output, "0\n");
    let done = run("f :: Script(TYPE PASSIVE, error no); Script(write f.run, print $?, stop)");
    assert_eq!(done.output, "-22\n");
    assert!(done.messages.ends_with("  While calling 'f.run':\n    no\n"), "{}", done.messages);
    // A reference without a value, such as `$(nope)`, is printed as it is written, and after such an error
    // `print` adds no line end.
    assert_eq!(run("Script(print $(nope), stop)").output, "$(nope)");
    // The value of a reference whose handler reports an error is empty.
    assert_eq!(run("Script(print <$(add x)>, stop)").output, "<>");
}

#[test]
fn endless_scripts_are_ended() {
    let gave_up = "s :: Script: too many jumps, giving up\n";
    assert_eq!(complains("label a, goto a"), gave_up);
    assert_eq!(complains("loop"), gave_up);
    assert_eq!(prints("init n 0, set n $(add $n 1), goto begin $(lt $n 1000), print $n"), "1000\n");
    assert_eq!(complains("init n 0, set n $(add $n 1), goto begin $(lt $n 1001)"), gave_up);
    let messages = complains("set x $(run), goto begin");
    assert!(messages.contains("calls nested too deeply"), "{messages}");
    let messages = complains(&format!("set x {}1{}", "$(add ".repeat(500), ")".repeat(500)));
    assert!(messages.contains("calls nested too deeply"), "{messages}");
    let messages = complains("set x $x$x$x$x 0123456789, goto begin $(gt $(length $x) 0)");
    assert!(messages.contains("text longer than"), "{messages}");
    // Two scripts that run each other: the first script is busy when the second script calls it.
    let done = run("a :: Script(print b.run, stop); b :: Script(TYPE PASSIVE, return $(a.run))");
    assert!(done.messages.contains("'a' is busy"), "{}", done.messages);
}

#[test]
fn deep_chains_of_scripts_fit_on_the_stack() {
    // Each script nests calls to the maximum, and calls the next script at the innermost level.
    let mut text = String::from("s0 :: Script(TYPE PASSIVE, return 0);");
    for i in 1..=70 {
        let (open, close) = ("$(add ".repeat(31), ")".repeat(31));
        text += &format!("s{i} :: Script(TYPE PASSIVE, return {open}$(s{}.run){close});", i - 1);
    }
    let mut started = start(&text);
    let _ = started.read("s70.run", "");
    assert!(started.messages().contains("handlers call each other without end"), "{}", started.messages());
}

#[test]
fn the_manual_is_complete() {
    for class in [&nf::script::CLASS, &nf::script::driver_manager::CLASS] {
        let page = element::manual::Page::parse(class.manual);
        let listed = |section: &str| -> Vec<String> {
            page.items(section)
                .into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(name, _)| name)
                .collect()
        };
        let mut handlers: Vec<&str> = class.each_handler().map(|handler| handler.name).collect();
        let mut in_manual = listed("Handlers");
        handlers.sort_unstable();
        in_manual.sort_unstable();
        assert_eq!(in_manual, handlers);
        assert_eq!(listed("Arguments"), ["INSTRUCTION", "TYPE"]);
        for example in page.code("Example") {
            assert_eq!(run(&example).messages, "");
        }
    }
}

#[test]
fn mistakes_in_the_configuration() {
    let problems = |text: &str| load(text, SIMULATED).err().unwrap_or_default();
    assert_eq!(
        problems("Script(foo, pause x, goto nowhere, TYPE PASSIVE)"),
        ["syntax error at 'foo'", "syntax error at 'pause'", "no such label 'nowhere'"]
    );
    assert_eq!(problems("Script(TYPE NONE)"), ["bad TYPE"]);
    assert_eq!(problems("Script(TYPE SIGNAL FOO)"), ["bad signal number"]);
    assert_eq!(problems("Script(TYPE PACKET)"), ["PACKET script must have inputs"]);
    assert_eq!(problems("Idle -> Script(TYPE ACTIVE) -> Discard"), ["ports allowed only on PACKET scripts"]);
    assert_eq!(problems("DriverManager; Script(TYPE DRIVER)"), ["router has more than one driver script"]);
    assert_eq!(problems("DriverManager; Script(TYPE SIGNAL INT 1); DriverManager(TYPE PASSIVE)"), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_script_panics_or_hangs(
        instructions in proptest::collection::vec(
            prop_oneof![
                "(set|setq|init|print|printn|read|readq|write|writeq|goto|return|error|wait|pause) [a$(){}s.crun0-9'\" ]{0,24}",
                "(label|goto|write goto|write step|write set|print get|print shift|print run) [ab12]?",
                "set [ab] \\$\\((add|sub|div|mod|sprintf|random|if|and|eq|in|first|length|now|readable|s.get) [$ab 0-9'\"%*d]{0,12}\\)",
                "(loop|end|exit|stop|pause|pause 2|wait 1s|label a|label b|goto a|goto b \\$a)",
            ],
            0..8,
        ),
    ) {
        let config = |texts: &[String]| {
            format!("c :: Counter; Idle -> c -> Discard; s :: DriverManager({}, label a, label b)", texts.join(", "))
        };
        // Invalid random instructions are removed from the script, and so are instructions that write files.
        let fits = |text: &String| !text.contains('>') && load(&config(std::slice::from_ref(text)), SIMULATED).is_ok();
        let kept: Vec<String> = instructions.into_iter().filter(fits).collect();
        let mut started = start(&config(&kept));
        for (handler, value) in [("s.step", ""), ("s.run", "1 2"), ("s.step", "3"), ("s.goto", "loop")] {
            let _ = started.write(handler, value);
        }
        // The script may wait for a write to its handler `step` that never comes; an interrupt ends its
        // waits.
        started.interrupt.store(true, Ordering::Relaxed);
        prop_assert_eq!(started.run().end, End::Interrupted);
    }
}
