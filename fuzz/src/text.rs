//! Fuzz targets for text that users write: configurations, their arguments, and the languages inside these.

use std::fmt::{Debug, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use classify::filter::{self, HeaderSlices, Listing, Matcher};
use classify::pattern::PatternProgram;
use element::args::PlaceNames;
use element::args::{
    self, AnnotationOffset, ArgType, Bandwidth, Bytes, ElementRef, Ipv4Prefix, Raw, Scope, parse_integer,
};
use element::{Registry, Setup, Timestamp};
use engine::{Plan, Problem};
use lang::args::{join, quote, split, split_spaces, unquote, unquote_bytes};
use lang::{Diagnostic, Graph, Severity, Sources};
use wire::MacAddr;

/// Parses any text as a configuration. Checks that spans are valid and, if there are no errors, that the
/// flattened text parses to the same graph.
pub fn language(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (graph, diagnostics, sources) = parse(&text);
    for connection in &graph.connections {
        assert!(connection.from.0 < graph.elements.len() && connection.to.0 < graph.elements.len());
    }
    for element in &graph.elements {
        assert!(!sources.slice(element.span).is_empty());
        sources.slice(element.config_place(0..element.config.len()));
    }
    for diagnostic in &diagnostics {
        assert!(sources.locate(diagnostic.span).line >= 1);
        assert!(!diagnostic.render(&sources).is_empty());
        sources.line_text(diagnostic.span);
    }
    lang::dot(&graph, "fuzz", &lang::PictureMarks::default());
    let flat = lang::flatten(&graph);
    if diagnostics.is_empty() {
        let (again, diagnostics, _) = parse(&flat);
        assert_eq!(diagnostics, [], "{flat}");
        assert!(again.is_equivalent(&graph), "{flat}");
    }
}

fn parse(text: &str) -> (Graph, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::new();
    let id = sources.add("fuzz", text);
    let library = |name: &str, _: &str| match name {
        "l" => Ok(lang::LibraryText {
            name: "l".into(),
            file: "l".into(),
            text: "elementclass L { -> InL -> }".into(),
        }),
        _ => Err("there is only l".into()),
    };
    let options = lang::Options { library: Some(&library), ..lang::Options::default() };
    let (graph, diagnostics) = lang::parse(&mut sources, id, &options);
    (graph, diagnostics, sources)
}

/// Splits any text into arguments and words, and removes and adds quotes. Checks that the ranges of arguments
/// and words lie within the text, and that quoted text is unquoted to the same text.
pub fn arguments(data: &[u8]) {
    assert_eq!(unquote_bytes(&quote(data)), data);
    let text = String::from_utf8_lossy(data);
    let given = split(&text);
    let mut end = 0;
    for arg in given.iter().chain(&split_spaces(&text)) {
        assert!(text.get(arg.range.clone()).is_some());
        for word in split_spaces(&arg.text) {
            assert!(arg.text.get(word.range).is_some());
        }
        unquote(&arg.text);
    }
    for arg in &given {
        assert!(end <= arg.range.start, "arguments overlap");
        end = arg.range.end;
    }
    let quoted: Vec<String> = given.iter().map(|arg| quote(unquote_bytes(&arg.text))).collect();
    let again: Vec<String> = split(&join(&quoted)).into_iter().map(|arg| arg.text).collect();
    assert_eq!(again, quoted);
}

/// Parses any text as each type of argument. Checks that a parsed value of a type that can be printed, when
/// printed, parses to the same value.
pub fn argument_types(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let mut setup = Setup::new(None);
    let host = setup.names.entry("", "host");
    host.ip = Some(Ipv4Addr::LOCALHOST);
    host.ip6 = Some(Ipv6Addr::LOCALHOST);
    host.net = "127.0.0.1/8".parse().ok();
    host.net6 = "::1/64".parse().ok();
    host.mac = Some(MacAddr([2, 0, 0, 0, 0, 1]));
    setup.by_name.insert("element".into(), 0);
    let place = &Scope::new(&setup, 0);

    reads_back::<bool>(text, place);
    reads_back::<u8>(text, place);
    reads_back::<u16>(text, place);
    reads_back::<u32>(text, place);
    reads_back::<u64>(text, place);
    reads_back::<usize>(text, place);
    reads_back::<i32>(text, place);
    reads_back::<i64>(text, place);
    reads_back::<f64>(text, place);
    reads_back::<Ipv4Addr>(text, place);
    reads_back::<Ipv6Addr>(text, place);
    reads_back::<MacAddr>(text, place);
    if let Ok(value) = parse_integer(text) {
        assert_eq!(parse_integer(&value.to_string()), Ok(value));
    }
    if let Ok(prefix) = Ipv4Prefix::parse(text, place) {
        assert!(prefix.contains(prefix.address));
    }
    within::<1>(text, place);
    within::<2>(text, place);
    within::<4>(text, place);
    within::<8>(text, place);
    within::<16>(text, place);
    // For these types, parsing only has to return, with any result.
    let _ = String::parse(text, place);
    let _ = Raw::parse(text, place);
    let _ = Bytes::parse(text, place);
    let _ = Timestamp::parse(text, place);
    let _ = Bandwidth::parse(text, place);
    let _ = ElementRef::parse(text, place);
    args::parse_bool(text);
    args::parse_real(text);
    args::parse_seconds(text);
    let _ = text.parse::<IpAddr>();
}

fn reads_back<T: ArgType + Display + Debug + PartialEq>(text: &str, place: &Scope<'_>) {
    if let Ok(value) = T::parse(text, place) {
        assert_eq!(T::parse(&value.to_string(), place).as_ref(), Ok(&value));
    }
}

fn within<const SIZE: usize>(text: &str, place: &Scope<'_>) {
    if let Ok(AnnotationOffset(offset)) = AnnotationOffset::<SIZE>::parse(text, place) {
        assert!(offset + SIZE <= 48);
    }
}

/// Compiles byte patterns, separated by commas, and runs them on the bytes after the first zero byte of the
/// input. The result of the compiled list has to agree with the patterns compiled one by one, since these
/// leave nothing to optimize across patterns.
pub fn patterns(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (text, frame) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let text = String::from_utf8_lossy(text);
    let list: Vec<String> = split(&text).into_iter().map(|arg| arg.text).collect();
    let single: Result<Vec<PatternProgram>, _> =
        list.iter().map(|pattern| PatternProgram::compile(&[pattern])).collect();
    let (program, single) = match (PatternProgram::compile(&list), single) {
        (Ok(program), Ok(single)) => (program, single),
        (Err(errors), Err(_)) => return assert!(errors.iter().all(|(_, error)| !error.is_empty())),
        (program, _) => panic!("alone and together differ: {program:?}"),
    };
    let unmatched = program.unmatched();
    let look = |frame: &[u8]| {
        let found = program.matches(frame);
        assert_eq!(found, single.iter().position(|one| one.matches(frame).is_some()), "{program}");
        assert!(found.is_none_or(|pattern| !unmatched.contains(&pattern)));
        found
    };
    let found = look(frame);
    for length in 0..frame.len().min(program.safe_length() + 1) {
        look(&frame[..length]);
    }
    if let Some(seen) = frame.get(..program.safe_length()) {
        assert_eq!(look(seen), found, "bytes beyond the safe length count: {program}");
    }
}

/// Compiles filter expressions, separated by commas, and evaluates them on the bytes after the first zero
/// byte of the input. The first of these bytes is the length of the link layer, which follows; the rest is
/// an IP packet. Each expression, its declared condition and the compiled list have to agree, for the packet
/// cut to each length up to 128.
pub fn filters(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let setup = Setup::default();
    let names = PlaceNames(Scope::new(&setup, 0));
    let mut expressions = Vec::new();
    for arg in split(&text) {
        let (expression, issues) = filter::parse(&arg.text, &names);
        for issue in &issues {
            assert!(arg.text.get(issue.span.clone()).is_some() && !issue.text.is_empty());
        }
        if issues.iter().all(|issue| issue.is_warning) {
            expressions.push(expression);
        }
    }
    let conditions: Vec<_> = expressions.iter().map(filter::condition).collect();
    let matcher = Matcher::new(&conditions);
    let listing = Listing::new(conditions.iter().enumerate().map(|(i, condition)| (condition, Some(i))));
    assert!(!listing.to_string().is_empty());
    let Some((&link, packet)) = data.get(end + 1..).and_then(<[u8]>::split_first) else { return };
    let (mac, packet) = packet.split_at(packet.len().min(link.into()));
    for length in 0..=packet.len().min(128) {
        let network = &packet[..length];
        let behind = 4 * usize::from(network.first().map_or(0, |first| first & 15));
        let headers = HeaderSlices { mac, network, transport: network.get(behind..).unwrap_or_default() };
        let expected = expressions.iter().position(|e| e.holds(&|question| question.holds(&headers)));
        let tested = conditions.iter().position(|c| c.holds(&|test| test.holds(&headers)));
        assert_eq!((tested, matcher.first(&headers)), (expected, expected), "{listing}");
    }
}

/// The registry with all classes of the product and of tests.
static REGISTRY: LazyLock<Registry> = LazyLock::new(testkit::registry);

/// Makes a plan of any text and configures its elements, as `tidegate check` does. No captures or interfaces
/// are opened; only files of rules and of service names may be read.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut sources = Sources::new();
    let id = sources.add("fuzz", &*text);
    let names = REGISTRY.names();
    let options = lang::Options { classes: Some(&names), ..lang::Options::default() };
    let (graph, diagnostics) = lang::parse(&mut sources, id, &options);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return;
    }
    let show = |problems: &[Problem]| {
        for problem in problems {
            assert!(!problem.render(&sources).is_empty());
        }
    };
    let refused = |problems: Vec<Problem>| {
        assert!(!problems.is_empty(), "refused without a reason");
        show(&problems);
    };
    match Plan::new(graph, &REGISTRY) {
        Err(problems) => refused(problems),
        Ok(plan) => match plan.configure(Some(32)) {
            Err(problems) => refused(problems),
            Ok(configured) => {
                assert_eq!(configured.elements.len(), plan.len());
                assert_eq!(configured.effects.len(), plan.len());
                show(&configured.warnings);
            }
        },
    }
}
