//! Property tests of the parser for any text, and of flattening for any graph.

use lang::{Diagnostic, Graph, LibraryText, Options, PictureMarks, Sources, dot, flatten, parse};
use proptest::prelude::*;

fn parse_text(text: &str) -> (Graph, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::new();
    let id = sources.add("t", text);
    let library = |name: &str, _: &str| match name {
        "l" => Ok(LibraryText {
            name: "l".into(),
            file: "l".into(),
            text: "elementclass L { -> InL -> }".into(),
        }),
        _ => Err("there is only l".into()),
    };
    let options = Options { library: Some(&library), ..Options::default() };
    let (graph, diagnostics) = parse(&mut sources, id, &options);
    (graph, diagnostics, sources)
}

/// Checks that parsing any text gives a valid graph which can be written, and that each diagnostic has a
/// message and a place.
fn check_any(text: &str) -> Result<(), TestCaseError> {
    let (graph, diagnostics, sources) = parse_text(text);
    for connection in &graph.connections {
        prop_assert!(connection.from.0 < graph.elements.len() && connection.to.0 < graph.elements.len());
    }
    for element in &graph.elements {
        prop_assert!(!sources.slice(element.span).is_empty());
        sources.slice(element.config_place(0..element.config.len()));
    }
    for diagnostic in &diagnostics {
        prop_assert!(!diagnostic.message.is_empty());
        prop_assert!(sources.locate(diagnostic.span).line >= 1);
        diagnostic.render(&sources);
        sources.line_text(diagnostic.span);
    }
    dot(&graph, "t", &PictureMarks::default());
    let flat = flatten(&graph);
    if diagnostics.is_empty() {
        let (again, diagnostics, _) = parse_text(&flat);
        prop_assert_eq!(diagnostics, [], "{}", flat);
        prop_assert!(again.is_equivalent(&graph), "{}", flat);
    }
    Ok(())
}

/// Generates tokens of the language, which form statements much more often than random characters.
fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        "A",
        "B",
        "C",
        "L",
        "input",
        "output",
        "::",
        "->",
        "=>",
        "->",
        ";",
        ";",
        ",",
        "{",
        "}",
        "(",
        ")",
        "[0]",
        "[1]",
        "[0-2]",
        "[",
        "]",
        "|",
        "||",
        "...",
        "$x",
        "$y |",
        "K $z",
        "(1)",
        "($x, \"$y\")",
        "('a)",
        "(\"$x\")",
        "elementclass A",
        "elementclass",
        "define($x 1)",
        "define($y $x)",
        "require(library l)",
        "require(p)",
        "provide(q)",
        "\n",
        "# 1 \"f\"\n",
        "//",
        "/*",
        "*/",
        "é",
        "$",
        "\\<30>",
    ])
}

/// The definitions of the classes that [`configuration`] uses.
const CLASSES: &str = "define($v 1);
elementclass One { -> A($v) -> }
elementclass Either { $a | -> B($a, \"$a\", '$a') -> || -> C -> One -> || => D, E(${w-2}) => }
";

/// Generates a part of a chain that has one input and one output. Each `%` in it is later replaced by a
/// unique number.
fn part() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "n% :: A",
        "B(x, '$y' \"z\")",
        "One",
        "o% :: One",
        "Either",
        "Either(5)",
        "e% :: Either($v)",
        "(->)",
        "{ $p, K $k | -> P($p) -> Q($k) -> }(K 8, 7)",
        "Two => [0-1] Either [0, 1] => Join",
        "Two => G, h% :: H -> Join",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let chain = prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.join(" -> "));
        prop_oneof![
            chain.clone().prop_map(|chain| format!("{{ -> {chain} -> }}")),
            chain.clone().prop_map(|chain| format!("( -> {chain} -> )")),
            chain.clone().prop_map(|chain| format!("{{ $p | define($q $p$p) -> {chain} -> R($q) -> }}(3)")),
            (chain.clone(), chain.clone()).prop_map(|(x, y)| format!(
                "Two => [0,1] {{ -> {x} -> ; [1] -> {y} -> [1] output }} [0-1] => Join"
            )),
            (chain.clone(), chain).prop_map(|(x, y)| format!("Two => ( -> {x} -> ; [1] -> {y} -> ) -> Join")),
        ]
    })
}

/// Generates a valid configuration with compound elements and groups.
fn configuration() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::collection::vec(part(), 1..4), 1..4).prop_map(|chains| {
        let chains: Vec<String> =
            chains.iter().map(|parts| format!("Idle -> {} -> Discard;\n", parts.join(" -> "))).collect();
        let mut out = CLASSES.to_owned();
        for (number, part) in chains.concat().split('%').enumerate() {
            if number > 0 {
                out += &number.to_string();
            }
            out += part;
        }
        out
    })
}

/// Generates a valid flat configuration: elements with configuration strings, and connections between
/// random ports.
fn flat_text() -> impl Strategy<Value = String> {
    let config = prop::sample::select(vec![
        "",
        "(1)",
        "(a, b c)",
        "(\"x) y\", 'z)')",
        "((1), [2])",
        "(// c\n)",
        "(a /* ) */ b)",
        "($v, '$w')",
        "(\\<0a 0b>)",
    ]);
    let elements = prop::collection::vec((prop::sample::select(vec!["A", "B/C", "D@2"]), config), 1..12);
    let ports = (any::<prop::sample::Index>(), 0..4usize, any::<prop::sample::Index>(), 0..4usize);
    (elements, prop::collection::vec(ports, 0..20)).prop_map(|(elements, connections)| {
        let mut text = String::new();
        for (index, (class, config)) in elements.iter().enumerate() {
            text += &format!("e{index} :: {class}{config};\n");
        }
        for (from, output, to, input) in connections {
            let (from, to) = (from.index(elements.len()), to.index(elements.len()));
            text += &format!("e{from} [{output}] -> [{input}] e{to};\n");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn any_characters_do(text in "\\PC{0,80}") {
        check_any(&text)?;
    }

    #[test]
    fn any_tokens_do(tokens in prop::collection::vec(token(), 0..40)) {
        check_any(&tokens.join(" "))?;
        check_any(&tokens.concat())?;
    }

    #[test]
    fn compound_elements_flatten(text in configuration()) {
        let (graph, diagnostics, sources) = parse_text(&text);
        let errors: String = diagnostics.iter().map(|diagnostic| diagnostic.render(&sources)).collect();
        prop_assert_eq!(errors, "", "{}", text);
        prop_assert!(graph.connections.len() >= text.matches("Idle").count());
        check_any(&text)?;
    }

    #[test]
    fn cut_configurations_do(text in configuration(), at in any::<prop::sample::Index>()) {
        check_any(text.get(..at.index(text.len())).unwrap_or(&text))?;
    }

    #[test]
    fn flat_graphs_come_back(text in flat_text()) {
        let (graph, diagnostics, _) = parse_text(&text);
        prop_assert_eq!(&diagnostics, &[]);
        prop_assert_eq!(graph.elements.len(), text.matches("::").count());
        let (again, diagnostics, _) = parse_text(&flatten(&graph));
        prop_assert_eq!(&diagnostics, &[]);
        prop_assert!(again.is_equivalent(&graph));
    }
}
