//! Tests that hostile configurations give an error or are parsed in linear time, and do not overflow the
//! stack of a test thread.

use std::fmt::Write;

use lang::{Graph, LibraryText, Options, Sources, parse};

fn run(text: &str) -> (Graph, Vec<String>) {
    let mut sources = Sources::new();
    let id = sources.add("t", text);
    let (graph, diagnostics) = parse(&mut sources, id, &Options::default());
    (graph, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
}

fn assert_error(text: &str, part: &str) {
    let (_, errors) = run(text);
    assert!(errors.iter().any(|error| error.contains(part)), "no '{part}' in {errors:?}");
}

/// Returns a configuration with `count` classes, each of which uses the class before it `times` times. So
/// the last class has `times` to the power of `count` elements.
fn tower(count: usize, times: usize) -> String {
    let mut text = "elementclass C0 { -> X -> }\n".to_owned();
    for level in 1..=count {
        let inner = vec![format!("C{}", level - 1); times].join(" -> ");
        writeln!(text, "elementclass C{level} {{ -> {inner} -> }}").unwrap();
    }
    writeln!(text, "Idle -> C{count} -> Discard;").unwrap();
    text
}

#[test]
fn nesting_is_bounded() {
    for open in ["{", "(", "-> (", "x :: {", "elementclass A {", "{ -> (", "=> { $a | "] {
        assert_error(&open.repeat(50_000), "levels deep");
    }
    assert_error(&tower(5_000, 1), "compound elements nested more than 100 levels deep");
    assert_eq!(run(&tower(90, 1)).1, [""; 0]);
}

#[test]
fn libraries_are_included_once_and_to_a_depth() {
    let library = |name: &str, _: &str| {
        let text = match name {
            "shared" => "once :: X".to_owned(),
            _ => format!("require(library shared); require(library x{name})"),
        };
        Ok(LibraryText { name: name.to_owned(), file: name.to_owned(), text })
    };
    let mut sources = Sources::new();
    let id = sources.add("t", "require(library a)");
    let options = Options { library: Some(&library), ..Options::default() };
    let (_, diagnostics) = parse(&mut sources, id, &options);
    assert_eq!(diagnostics.len(), 1);
    assert!(diagnostics[0].message.contains("libraries nested"));
}

/// Checks that at most about 1,000 errors are reported for texts with many thousand.
#[test]
fn the_number_of_errors_is_bounded() {
    let redeclared = "a :: X;\n".repeat(5_000);
    let compound =
        format!("elementclass C {{ $x | input -> output }}\n{}", "Idle -> C -> Discard;\n".repeat(5_000));
    for text in ["->".repeat(2_001_500), redeclared, compound, "Idle -> [70000] X;\n".repeat(5_000)] {
        let (_, errors) = run(&text);
        assert!((1_000..1_100).contains(&errors.len()), "{}: {:?}", errors.len(), errors.first());
    }
}

/// Checks that parsing ends after 1,000 errors: the graph is empty, although the text declares elements.
#[test]
fn many_errors_end_the_work() {
    for text in
        ["->".repeat(100_000), "a :: X; ".repeat(5_000), "X -> Y; ".repeat(100_000) + &"|; ".repeat(5_000)]
    {
        let (graph, errors) = run(&text);
        assert!(errors.len() > 1_000);
        assert_eq!(graph, Graph::default());
    }
}

#[test]
fn the_number_of_elements_is_bounded() {
    assert_error(&tower(40, 2), "configuration too large");
    let nothing = tower(40, 2).replace("X", "").replace("->  ->", "->");
    assert_error(&nothing, "configuration too large");
}

#[test]
fn the_number_of_connections_is_bounded() {
    assert_error(&"A [0-65535] -> B;".repeat(1_000), "too many connections");
    let product = "a :: A; b :: B; a [0-9999] -> { -> } -> [0-9999] b;".to_owned();
    assert_error(&product, "too many connections");
    let wide = "elementclass W { A [0-65535] -> B }".to_owned() + &"W;".repeat(100);
    assert_error(&wide, "too many connections");
}

#[test]
fn the_size_of_text_is_bounded() {
    let mut text = "define($v0 xxxxxxxx".to_owned();
    for level in 1..60 {
        write!(text, ", $v{level} $v{0}$v{0}", level - 1).unwrap();
    }
    assert_error(&format!("{text}) X($v59);"), "too long");
    let long =
        format!("elementclass L {{ $a | X($a$a$a$a) }} {}", format!("L({});", "y".repeat(1_000)).repeat(500));
    assert_eq!(run(&long).1, [""; 0]);
}

#[test]
fn time_is_linear_in_hostile_texts() {
    // Repeated 60,000 times, each of these parts would take minutes in a scanner whose time is quadratic.
    for part in
        ["a(;", "a('", "${x-", "/*", "\\<0", "x :: A(${y-", "a,", "[0", "a::", "$", "undeclared_name;", "a->"]
    {
        run(&part.repeat(60_000));
    }
    run(&format!("A({})", "${x-".repeat(100_000)));
    run(&format!("A({})", "\\<0".repeat(100_000)));
    let mut extended = "elementclass A { $a | }".to_owned();
    for _ in 0..2_000 {
        extended += "elementclass A { ... || $a, $b | }";
    }
    run(&(extended + "A(1);"));
    let row = "Idle ".to_owned() + &"-> { -> } ".repeat(50_000) + "-> Discard";
    assert_eq!(run(&row).0.connections.len(), 1);
}
