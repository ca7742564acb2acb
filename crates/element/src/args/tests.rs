//! Tests of argument parsing, and of the messages about wrong arguments.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::Timestamp;
use wire::ethernet::MacAddr;

use super::*;
use crate::class::ArgInfo;
use proptest::prelude::*;

const CLASS: Class = Class {
    name: "Test",
    args: &[
        ArgInfo::required("LENGTH", "int"),
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    ..Class::DEFAULT
};
static TEST: Class = CLASS;

type Read = Result<(u32, Option<String>, bool), Vec<String>>;

fn read(texts: &[&str]) -> Read {
    let mut setup = Setup::default();
    let given = texts.iter().map(|t| t.to_string()).collect();
    let mut args = Args::new(&mut setup, &TEST, 0, (1, 1), true, given);
    let values = (args.required("LENGTH"), args.get("LABEL"), args.value("ACTIVE"));
    match args.finish() {
        Ok(()) => Ok(values),
        Err(Invalid) => Err(args.into_reports().0.into_iter().map(|error| error.text).collect()),
    }
}

#[test]
fn positions_and_keywords() {
    assert_eq!(read(&["14"]), Ok((14, None, true)));
    assert_eq!(read(&["ACTIVE false", "0x10", "\"a b\""]), Ok((16, Some("a b".into()), false)));
    assert_eq!(read(&["LABEL x", "LENGTH 3", "LENGTH 4"]), Ok((4, Some("x".into()), true)));
}

/// An empty text counts as a positional argument, but gives it no value, so that the argument has its
/// default, as in Click.
#[test]
fn empty_positional_arguments_keep_their_place() {
    static PLACES: Class = Class {
        name: "Test",
        args: &[
            ArgInfo::positional("FIRST", "unsigned", "1"),
            ArgInfo::positional("SECOND", "unsigned", "2"),
            ArgInfo::keyword("NAMED", "unsigned", "3"),
            ArgInfo::rest("REST", "unsigned"),
        ],
        ..Class::DEFAULT
    };
    let read = |given: &[&str]| {
        let mut setup = Setup::default();
        let given = given.iter().map(|text| text.to_string()).collect();
        let mut args = Args::new(&mut setup, &PLACES, 0, (1, 1), true, given);
        let values: [u32; 3] = ["FIRST", "SECOND", "NAMED"].map(|name| args.value(name));
        let rest: Vec<String> = args.rest().into_iter().map(|(_, text)| text).collect();
        let were_given = ["FIRST", "SECOND"].map(|name| args.was_given(name));
        args.finish().map(|()| (values, were_given, rest))
    };
    let rest = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    assert_eq!(read(&["", "7"]), Ok(([1, 7, 3], [false, true], rest(&[]))));
    assert_eq!(read(&["", "", "7"]), Ok(([1, 2, 3], [false; 2], rest(&["7"]))));
    assert_eq!(read(&["NAMED 9", " ", "7", "8"]), Ok(([1, 7, 9], [false, true], rest(&["8"]))));
    assert_eq!(read(&["SECOND 7", "", "8"]), Ok(([1, 7, 3], [false, true], rest(&["8"]))));
    assert_eq!(read(&[""]), Ok(([1, 2, 3], [false; 2], rest(&[]))));
}

#[test]
fn arguments_that_are_given_several_times() {
    static SEVERAL: Class = Class {
        name: "Test",
        args: &[ArgInfo::rest("DST", "address"), ArgInfo::keyword("ACTIVE", "bool", "true")],
        ..Class::DEFAULT
    };
    let mut setup = Setup::default();
    let given = ["DST 1.2.3.4", "ACTIVE false", "5.6.7.8", "DST x", ""].map(String::from).to_vec();
    let mut args = Args::new(&mut setup, &SEVERAL, 0, (1, 1), true, given);
    assert!(!args.value::<bool>("ACTIVE"));
    let mut values = Vec::new();
    args.each_of("DST", |args, text| {
        values.push(text.to_string());
        if text == "x" {
            args.error("not an address");
        }
    });
    assert_eq!(values, ["1.2.3.4", "5.6.7.8", "x", ""]);
    args.error("too few");
    assert!(args.finish().is_err());
    let places = args.into_reports().0.into_iter().map(|complaint| complaint.argument);
    assert_eq!(places.collect::<Vec<_>>(), [Some(3), None]);
}

/// Reads arguments of a class whose declared defaults contradict its code or the types of the arguments.
/// Each contradiction must be reported as a bug of the class, and `finish` must fail.
#[test]
fn defaults_are_parsed_and_contradictions_are_reported() {
    static DEFAULTS: Class = Class {
        name: "Test",
        args: &[
            ArgInfo::keyword("GOOD", "unsigned", "0x10"),
            ArgInfo::keyword("BURST", "unsigned", "").burst_of_run("1"),
            ArgInfo::keyword("WRONG", "unsigned", "many"),
            ArgInfo::keyword("NONE", "unsigned", ""),
            ArgInfo::keyword("COMPUTED", "unsigned", "").computed("GOOD"),
        ],
        ..Class::DEFAULT
    };
    let bug = |text: &str| format!("{text}; this is a bug in the class, please report it");
    for (burst, expected) in [(None, 1), (Some(32), 32)] {
        let mut setup = Setup::new(burst);
        let mut args = Args::new(&mut setup, &DEFAULTS, 0, (1, 1), true, vec!["GOOD 3".into()]);
        assert_eq!((args.value::<u32>("GOOD"), args.value::<u32>("BURST")), (3, expected));
        assert_eq!((args.get::<u32>("NONE"), args.get::<u32>("COMPUTED")), (None, None));
        assert_eq!(["GOOD", "BURST", "NONE"].map(|name| args.was_given(name)), [true, false, false]);
        assert_eq!(args.finish(), Ok(()));
    }
    let mut setup = Setup::default();
    let mut args = Args::new(&mut setup, &DEFAULTS, 0, (1, 1), true, vec!["WRONG 3".into()]);
    assert_eq!((args.value::<u32>("WRONG"), args.value::<u32>("NONE")), (3, 0));
    assert_eq!((args.value::<u32>("COMPUTED"), args.get::<u32>("GOOD")), (0, None));
    assert_eq!(args.finish(), Err(Invalid));
    let errors: Vec<String> = args.into_reports().0.into_iter().map(|error| error.text).collect();
    let expected = [
        "WRONG: wrong default of Test: 'many' is not a whole number",
        "NONE: Test declares no default",
        "COMPUTED: Test declares no default",
        "GOOD: Test does not use the default that it declares",
    ];
    assert_eq!(errors, expected.map(bug));
}

#[test]
fn all_errors_at_once() {
    let errors = read(&["x", "a b", "ACTIVE maybe", "LABLE y", "extra", "more"]).unwrap_err();
    assert_eq!(
        errors,
        [
            "LENGTH: 'x' is not a whole number",
            "ACTIVE: 'maybe' is neither true nor false",
            "a: unknown argument",
            "LABLE: unknown argument (did you mean LABEL?)",
            "too many arguments"
        ]
    );
    assert_eq!(read(&[]).unwrap_err(), ["LENGTH: required argument missing"]);
    assert_eq!(read(&["", "x"]).unwrap_err(), ["LENGTH: required argument missing"]);
    assert_eq!(
        read(&["5000000000"]).unwrap_err(),
        ["LENGTH: 5000000000 is too large; the most is 4294967295"]
    );
}

/// Checks the messages about wrong values of each type. Each must contain the value and what is expected;
/// Click's texts are checked too.
#[test]
fn messages_have_the_value_and_what_is_expected() {
    fn message<T: ArgType>(text: &str) -> (String, Option<String>) {
        let mut setup = Setup::default();
        setup.elements.push(("queue".into(), &TEST));
        let complaint = read_value::<T>("A", text, &Scope::new(&setup, 0)).err().unwrap();
        let without_name = |text: String| text.strip_prefix("A: ").unwrap().to_string();
        (without_name(complaint.text), complaint.clicks_words.map(without_name))
    }
    for (message, expected, clicks_words) in [
        (message::<bool>("maybe"), "'maybe' is neither true nor false", "parse error"),
        (message::<u8>("300"), "300 is too large; the most is 255", "out of range, bound 255"),
        (message::<u8>("-1"), "-1 is too small; the least is 0", "invalid number"),
        (
            message::<i32>("-3000000000"),
            "-3000000000 is too small; the least is -2147483648",
            "out of range, bound -2147483648",
        ),
        (message::<u32>("1.5"), "'1.5' is not a whole number", "invalid number"),
        (message::<f64>("x"), "'x' is not a number", "invalid number"),
        (message::<String>("a b"), "'a b' is not one word; put it in quotes", "parse error"),
        (message::<Bytes>("a b"), "'a b' is not one word; put it in quotes", "parse error"),
        (
            message::<Timestamp>("1 parsec"),
            "'1 parsec' is not a time; write seconds, or a number and a unit, such as 10ms",
            "parse error",
        ),
        (
            message::<Micros>("soon"),
            "'soon' is not a time; write microseconds, or a number and a unit, such as 64us",
            "",
        ),
        (message::<Micros>("2000000s"), "'2000000s' is not a time from 0 to 1048576s", ""),
        (
            message::<Bandwidth>("1Mbs"),
            "'1Mbs' is not a rate; write bytes per second, or a number and a unit, such as 1Mbps or 125kB/s",
            "parse error",
        ),
        (
            message::<ElementRef>("quue"),
            "'quue' is not the name of an element; did you mean 'queue'?",
            "does not name an element",
        ),
        (message::<ElementRef>("other"), "'other' is not the name of an element", "does not name an element"),
        (
            message::<AnnotationOffset<4>>("45"),
            "'45' is not an annotation of 4 bytes; write its name, or its offset from 0 to 44",
            "parse error",
        ),
        (message::<TcpPort>("65536"), "65536 is too large; the most is 65535", "overflow, range 0-65535"),
        (
            message::<UdpPort>("nonesuch"),
            "'nonesuch' is not a port; write a number from 0 to 65535, or the name of a service",
            "parse error",
        ),
        (
            message::<Ipv4Addr>("300.1.1.1"),
            "'300.1.1.1' is not an IP address; write four numbers from 0 to 255, such as 10.0.0.1",
            "parse error",
        ),
        (
            message::<Ipv6Addr>("::x"),
            "'::x' is not an IPv6 address; write one such as 2001:db8::1",
            "parse error",
        ),
        (
            message::<MacAddr>("1:2:3"),
            "'1:2:3' is not an Ethernet address; write six pairs such as 02:00:00:00:00:01",
            "parse error",
        ),
        (
            message::<MacAddr>("nowhere:eth"),
            "'nowhere:eth' is not an Ethernet address; no interface 'nowhere' has one, and AddressInfo declares none for 'nowhere'",
            "parse error",
        ),
        (
            message::<Ipv4Prefix>("10.0.0.0/33"),
            "'10.0.0.0/33' is not a prefix: it has 0 to 32 bits",
            "parse error",
        ),
        (
            message::<Ipv4Prefix>("10.0.0.x/8"),
            "'10.0.0.x/8' is not a prefix; write one such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0",
            "parse error",
        ),
        (
            message::<Ipv6Prefix>("fe80::/129"),
            "'fe80::/129' is not a prefix: it has 0 to 128 bits",
            "parse error",
        ),
        (
            message::<Ipv6Prefix>("fe80:x/10"),
            "'fe80:x/10' is not a prefix; write one such as 2001:db8::/32",
            "parse error",
        ),
    ] {
        let clicks_words = Some(clicks_words.to_string()).filter(|words| !words.is_empty());
        assert_eq!(message, (expected.to_string(), clicks_words));
    }
}

/// Checks Click's texts in complaints that the argument reader and elements report: `None` where they are
/// the same as Tidegate's, empty where Click has no message.
#[test]
fn complaints_have_clicks_words_where_click_has_them() {
    let mut setup = Setup::default();
    let given = ["5000000000", "a", "ACTIVE $A"].map(String::from).to_vec();
    let mut args = Args::new(&mut setup, &TEST, 0, (1, 1), true, given);
    let _: (u32, Option<Ipv4Addr>, bool) = (args.required("LENGTH"), args.get("LABEL"), args.value("ACTIVE"));
    args.error("LABEL: too short");
    args.error_as("LABEL: too long", "bad LABEL");
    args.too_large("LENGTH", 7);
    args.error(Complaint::new("b", "c\nd").behind("1: ", "2: "));
    args.error(Complaint::from("b").behind("1: ", "1: "));
    args.error(Complaint::from("b").behind("1: ", "2: ").without_clicks_words());
    let clicks_words: Vec<Option<String>> =
        args.into_reports().0.into_iter().map(|error| error.clicks_words).collect();
    let expected = [
        Some("LENGTH: out of range, bound 4294967295"),
        Some("LABEL: parse error"),
        Some("ACTIVE: parse error"),
        None,
        Some("bad LABEL"),
        Some("LENGTH: out of range, bound 7"),
        Some("2: c\n2: d"),
        None,
        Some(""),
    ];
    assert_eq!(clicks_words, expected.map(|words| words.map(String::from)));
}

/// Checks the index of the argument in each complaint. It exists if the complaint is about a single
/// argument, so that only this argument is underlined.
#[test]
fn messages_know_their_argument() {
    let mut setup = Setup::default();
    let given = ["ACTIVE maybe", "x", "a", "extra", "LABLE y"].map(String::from).to_vec();
    let mut args = Args::new(&mut setup, &TEST, 0, (1, 1), true, given);
    let _: (u32, Option<String>, bool) = (args.required("LENGTH"), args.get("LABEL"), args.value("ACTIVE"));
    args.error("LABEL: too short");
    args.error("nothing fits");
    args.warn_in(2, "a word");
    let _ = args.finish();
    let (errors, warnings) = args.into_reports();
    let arguments: Vec<_> = errors.iter().map(|error| error.argument).collect();
    assert_eq!(arguments, [Some(1), Some(0), Some(2), None, Some(4), Some(3)]);
    assert_eq!(warnings[0].argument, Some(2));
}

/// Reads arguments with a parameter that has no value, such as `$IN`. Plain texts may contain it, with a
/// warning; names of files and other types must be errors.
#[test]
fn parameters_without_a_value() {
    static FILES: Class = Class {
        name: "Test",
        args: &[
            ArgInfo::required("FILE", "file"),
            ArgInfo::required("LABEL", "string"),
            ArgInfo::required("LENGTH", "int"),
        ],
        ..Class::DEFAULT
    };
    let complaints = |texts: [&str; 3]| {
        let mut setup = Setup::default();
        let given = texts.map(String::from).to_vec();
        let mut args = Args::new(&mut setup, &FILES, 0, (1, 1), true, given);
        let _: (String, String, u32) =
            (args.required("FILE"), args.required("LABEL"), args.required("LENGTH"));
        let _ = args.finish();
        let (errors, warnings) = args.into_reports();
        let texts = |all: Vec<Complaint>| all.into_iter().map(|one| one.text).collect::<Vec<_>>();
        (texts(errors), texts(warnings))
    };
    let what_to_do = "; write define($IN VALUE), or give IN=VALUE on the command line";
    let error = |name: &str| format!("{name}: the parameter $IN has no value{what_to_do}");
    let (errors, warnings) = complaints(["$IN", "${IN}", "$IN"]);
    assert_eq!(errors, [error("FILE"), error("LENGTH")]);
    assert_eq!(warnings, ["LABEL: the parameter $IN has no value; it is taken as it stands"]);
    assert_eq!(complaints(["in/$IN", "b", "1$IN"]).0, [error("FILE"), error("LENGTH")]);
    assert_eq!(complaints(["'$IN'", "at$5", "1"]), (vec![], vec![]));
}

#[test]
fn values() {
    let setup = Setup::default();
    let place = Scope::new(&setup, 0);
    assert_eq!(parse_integer("0x1f"), Ok(31));
    assert_eq!(parse_integer("010"), Ok(8));
    assert_eq!(parse_integer("08"), Err(BadInteger::Invalid));
    assert_eq!(parse_integer("1_000"), Ok(1000));
    assert_eq!(parse_integer("1__0"), Err(BadInteger::Invalid));
    assert_eq!(parse_seconds("1.5ms"), Some(Timestamp(1_500_000)));
    assert_eq!(parse_seconds("0.000000001"), Some(Timestamp(1)));
    assert_eq!(parse_seconds("1 min"), Some(Timestamp(60_000_000_000)));
    assert_eq!(parse_seconds("1 parsec"), None);
    // The product and the fraction each fit in 128 bits, but not their sum.
    assert_eq!(parse_seconds("170141183460469231731687303715.9"), None);
    assert_eq!(Bandwidth::parse("10Mbps", &place), Ok(Bandwidth(1_250_000)));
    assert_eq!(
        Bandwidth::parse("10k", &place),
        Err("'10k' is not a rate; write bytes per second, or a number and a unit, such as 1Mbps or 125kB/s"
            .into())
    );
    let prefix = Ipv4Prefix::parse("204.152/16", &place).unwrap();
    assert!(prefix.contains(Ipv4Addr::new(204, 152, 3, 4)));
    assert!(!prefix.contains(Ipv4Addr::new(204, 153, 3, 4)));
    assert!(Ipv4Prefix::parse("1.2.3.4/33", &place).is_err());
    assert_eq!(AnnotationOffset::<1>::parse("PAINT", &place), Ok(AnnotationOffset(16)));
    assert!(AnnotationOffset::<4>::parse("PAINT", &place).is_err());
    assert!(AnnotationOffset::<4>::parse("45", &place).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let setup = Setup::default();
        let place = Scope::new(&setup, 0);
        let _ = (bool::parse(&text, &place), u8::parse(&text, &place), i64::parse(&text, &place));
        let _ = (f64::parse(&text, &place), String::parse(&text, &place), Timestamp::parse(&text, &place));
        let _ = (Bandwidth::parse(&text, &place), Ipv4Prefix::parse(&text, &place));
        let _ = (Bytes::parse(&text, &place), AnnotationOffset::<2>::parse(&text, &place));
        let _ = (MacAddr::parse(&text, &place), Ipv6Addr::parse(&text, &place), read(&[&text, &text]));
    }

    #[test]
    fn integers_round_trip(value: i64) {
        prop_assert_eq!(parse_integer(&value.to_string()), Ok(value as i128));
        prop_assert_eq!(parse_integer(&format!("{:#x}", value.unsigned_abs())), Ok(value.unsigned_abs() as i128));
    }
}
