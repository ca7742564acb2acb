//! Compares `tidegate click` with Click's and FastClick's own drivers: the expected texts are what these
//! print.

use std::process::{Command, Output};

fn click(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("click").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the values of handlers of a configuration that does not run.
fn values<const N: usize>(args: &[&str], config: &str, handlers: [&str; N]) -> [String; N] {
    handlers.map(|handler| {
        let output = click(&[args, &["-q", "-e", config, "-h", handler]].concat());
        assert!(output.status.success(), "{config}, {handler}: {output:?}");
        text(&output.stdout).trim_end().to_string()
    })
}

/// The texts of the handlers `config` that classes compute from their settings. The last value is the text
/// after these writes.
#[test]
fn config_is_the_text_of_the_class() {
    let cases = [
        ("Idle -> x :: RatedSplitter(RATE 100) -> Discard", "100", "write x.rate 7", "7"),
        (
            "Idle -> x :: BandwidthRatedSplitter(RATE 400) -> Discard",
            "3.2kbps",
            "write x.rate 1MBps",
            "8Mbps",
        ),
        ("Idle -> Queue -> x :: RatedUnqueue(RATE 100) -> Discard", "100", "write x.rate 7", "7"),
        (
            "Idle -> Queue -> x :: BandwidthRatedUnqueue(1MBps) -> Discard",
            "8Mbps",
            "write x.rate 400",
            "3.2kbps",
        ),
        ("Idle -> Queue -> x :: Shaper(RATE 100) -> Discard", "100", "write x.rate 7", "7"),
        (
            "Idle -> Queue -> x :: BandwidthShaper(100kBps) -> Discard",
            "800kbps",
            "write x.rate 1Mbps",
            "1Mbps",
        ),
        ("Idle -> x :: VLANEncap(0x6007) -> Discard", "VLAN_ID 7, VLAN_PCP 3", "", ""),
        ("Idle -> x :: VLANEncap(ANNO, NATIVE_VLAN 5) -> Discard", "ANNO, NATIVE_VLAN 5", "", ""),
        ("Idle -> x :: SetVLANAnno(7, 3) -> Discard", "VLAN_ID 7, VLAN_PCP 3", "", ""),
        (
            "Idle -> x :: RandomSample(DROP 0.25) -> Discard",
            "SAMPLE 0.75, ACTIVE true",
            "write x.active false",
            "SAMPLE 0.75, ACTIVE false",
        ),
        ("Idle -> x :: Switch -> Discard; x [1] -> Discard", "0", "write x.switch 1", "1"),
        ("Idle -> x :: InputSwitch -> Discard; Idle -> [1] x", "0", "write x.switch -1", "-1"),
        ("Idle -> Queue -> x :: PullSwitch -> Discard", "0", "write x.switch 9", "-1"),
        ("Idle -> Queue -> x :: StrideSched(3) -> Discard", "3", "write x.tickets0 5", "5"),
        (
            "Idle -> x :: RED(10, 20, 0.1) -> q :: Queue -> Discard",
            "10, 20, 0.1, QUEUES q, STABILITY 4",
            "write x.max_p 0.5",
            "10, 20, 0.5, QUEUES q, STABILITY 4",
        ),
        (
            "Idle -> x :: RED(1, 2, 0.1, GENTLE false, QUEUES q) -> Discard; Idle -> q :: Queue -> Discard",
            "1, 2, 0.1, QUEUES q, STABILITY 4, GENTLE false",
            "",
            "",
        ),
    ];
    for (config, expected, write, then) in cases {
        let class = config.split("x :: ").nth(1).unwrap().split('(').next().unwrap();
        let class = class.split(' ').next().unwrap();
        let [own, flat] = values(&[], config, ["x.config", "flatconfig"]);
        assert_eq!(own, expected, "{config}");
        assert!(flat.contains(&format!("x :: {class}({expected});")), "{flat}");
        if !write.is_empty() {
            let script = format!("{config}; Script({write}, print x.config, stop)");
            let output = click(&["--simtime", "-e", &script]);
            assert_eq!(text(&output.stdout), format!("{then}\n"), "{script}: {output:?}");
        }
    }
}

/// Arguments that these texts leave out in Click, so that they configure another element there.
#[test]
fn config_leaves_no_argument_out() {
    let config = "Idle -> Queue -> u :: RatedUnqueue(5000, BURST_SIZE 3, ACTIVE false) -> Discard;
        Idle -> s :: BandwidthRatedSplitter(1kBps, BURST_BYTES 10) -> Discard;
        Idle -> v :: VLANEncap(0x1007, NATIVE_VLAN -1, ETHERTYPE 0x88a8) -> Discard;
        Idle -> e :: EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 7) -> Discard";
    let expected = [
        "5000, BURST_SIZE 3, ACTIVE false",
        "8kbps, BURST_BYTES 10",
        "VLAN_TCI 4103, NATIVE_VLAN -1, ETHERTYPE 0x88a8",
        "2048, 01-01-01-01-01-01, 02-02-02-02-02-02, VLAN_ID 7, VLAN_PCP 0",
    ];
    assert_eq!(values(&[], config, ["u.config", "s.config", "v.config", "e.config"]), expected);
}

/// FastClick's handlers of all elements, with its values except for `mt_safe`, which is a property of classes
/// there, and for queues, to which packets are handed over here.
#[test]
fn every_element_knows_its_threads() {
    let config = "i1 :: InfiniteSource(ACTIVE false) -> c :: Counter -> q :: ThreadSafeQueue -> u :: Unqueue
            -> d :: Discard;
        i2 :: InfiniteSource(ACTIVE false) -> c; i3 :: InfiniteSource(ACTIVE false) -> c;
        StaticThreadSched(i1 1, i2 2, i3 3, u 3)";
    let of = |handler: &str| {
        let handlers = ["i1", "c", "q", "u", "d"].map(|name| format!("{name}.{handler}"));
        values(&["-j", "4"], config, handlers.each_ref().map(String::as_str))
    };
    assert_eq!(of("passing_threads"), ["1", "1-3", "3", "3", "3"]);
    assert_eq!(of("spawning_threads"), ["1", "", "", "3", ""]);
    assert_eq!(of("is_fullpush"), ["true", "true", "false", "false", "false"]);
    assert_eq!(of("mt_safe"), ["false", "true", "true", "true", "true"]);
    let one = "InfiniteSource(ACTIVE false) -> c :: Counter -> Discard; k :: Idle -> Discard";
    let threads = ["c.passing_threads", "c.spawning_threads", "c.home_thread", "k.passing_threads"];
    assert_eq!(values(&[], one, threads), ["0", "", "0", "0"]);
}

#[test]
fn the_graph_tells_all_classes() {
    let [classes, map] = values(&[], "Idle -> Discard", ["classes", "element_map"]);
    for class in ["IPRewriter", "FullNoteQueue", "Idle"] {
        assert!(classes.lines().any(|line| line == class), "{classes}");
        assert!(map.contains(&format!("<entry name=\"{class}\" ")), "{map}");
    }
    assert_eq!(map.matches("<entry ").count(), classes.lines().count());
    assert_eq!(values(&["--simtime"], "Idle -> Discard", ["timewarp"]), ["simulation"]);
    assert_eq!(values(&[], "Idle -> Discard", ["timewarp"]), ["1"]);
}

#[test]
fn messages_of_elements_have_their_context() {
    let cases = [
        ("Message(hello)", "config:1: While configuring 'Message@1 :: Message':\n  hello\n"),
        (
            "Idle -> Queue -> x :: Unqueue2 -> Discard",
            "config:1: While configuring 'x :: Unqueue2':\n  Unqueue2 is deprecated, you should probably use Unqueue\n",
        ),
        (
            "Idle -> x :: SetAnnoByte(PAINT, 3) -> Discard",
            "config:1: While configuring 'x :: SetAnnoByte':\n  \
             warning: SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead\n",
        ),
        (
            "Idle -> x :: BandwidthMeter(1000) -> Discard; x [1] -> Discard",
            "config:1: While configuring 'x :: BandwidthMeter':\n  \
             warning: no units for bandwidth argument 1, assuming Bps\n",
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(text(&click(&["-q", "-e", config]).stderr), expected);
    }
}

/// The lines of the context have the place of the mistake in the new configuration.
#[test]
fn errors_of_hotconfig_have_their_place() {
    let config = "Idle -> Discard; Script(TYPE ACTIVE, write hotconfig Idle -> Strip(x) -> Discard, stop)";
    let expected = "config:1: While executing 'Script@3 :: Script':
config:1:   While calling 'hotconfig Idle -> Strip(x) -> Discard':
config:1:     While configuring 'Strip@2 :: Strip':
      LENGTH: invalid number
    Router could not be initialized!
";
    assert_eq!(text(&click(&["-R", "-e", config]).stderr), expected);
}

#[test]
fn both_names_of_the_option_print_one_version() {
    let [long, short] = ["--version", "-v"].map(|option| text(&click(&[option]).stdout));
    assert_eq!(long, short);
    assert!(long.starts_with(&format!("click (Tidegate) {}", env!("CARGO_PKG_VERSION"))), "{long}");
}

/// A task that schedules itself again runs after the tasks that its packets wake. So a packet that wakes a
/// sleeping sink leaves the queue, even if the source then ends the run: Click counts 3 packets, too.
#[test]
fn the_last_packet_leaves_its_queue() {
    // Each fifteenth packet goes to the queue. The sink falls asleep between two of them.
    let others: String = (1..15).map(|output| format!("s[{output}] -> Discard;")).collect();
    let config = format!(
        "InfiniteSource(LIMIT 31, BURST 1, STOP true) -> s :: RoundRobinSwitch;
         s[0] -> Queue -> c :: Counter -> Discard; {others}"
    );
    let output = click(&["-e", &config, "-h", "c.count"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout).trim(), "3");
}
