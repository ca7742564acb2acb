//! Tests that the manual of each class is complete, that its examples can be configured, that no two classes
//! have the same name, that the port and processing codes of classes are valid, and that elements know each
//! handler that their class lists.

use std::collections::BTreeSet;

use element::manual::Page;
use tempfile::TempDir;
use testkit::{TestRun, classes, generic, registry, samples, worker};

#[test]
fn every_page_is_complete() {
    let known = registry().names().into_iter().collect::<BTreeSet<_>>();
    for class in classes() {
        let page = Page::parse(class.manual);
        let name = class.name;
        assert_eq!(page.title, name, "title of {name}");
        assert!(
            page.summary.ends_with('.') && page.summary.len() < 160,
            "{name}: summary '{}'",
            page.summary
        );
        assert!(page.section("Usage").is_some_and(|u| u.contains(name)), "{name}: usage");
        let pairs = [
            ("Arguments", class.args.iter().map(|a| a.name).collect::<BTreeSet<_>>()),
            ("Handlers", class.each_handler().map(|h| h.name).collect()),
        ];
        for (section, declared) in pairs {
            let items = page.items(section);
            let documented: BTreeSet<&str> = items.iter().map(|(n, _)| n.as_str()).collect();
            assert_eq!(documented, declared, "{name}: {section} documented and declared");
            assert!(items.iter().all(|(_, text)| text.len() > 4), "{name}: an empty item in {section}");
        }
        for other in page.section("See also").unwrap_or_default().split([',', '\n']) {
            let other = other.trim();
            assert!(
                other.is_empty() || known.contains(other),
                "{name}: see also {other}, which does not exist"
            );
        }
    }
}

#[test]
fn every_example_is_a_configuration() {
    let registry = registry();
    for class in classes() {
        let examples = Page::parse(class.manual).code("Example");
        assert!(!examples.is_empty(), "{} has no example", class.name);
        for example in examples {
            assert!(example.contains(class.name), "{}: its example does not show it", class.name);
            let mut sources = lang::Sources::new();
            let id = sources.add(class.name, example);
            let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
            assert!(diagnostics.is_empty(), "{}", diagnostics[0].render(&sources));
            let plan =
                engine::Plan::new(graph, &registry).unwrap_or_else(|p| panic!("{}", p[0].render(&sources)));
            if let Err(problems) = plan.configure(Some(32)) {
                panic!("{}", problems[0].render(&sources));
            }
        }
    }
}

#[test]
fn names_and_codes_are_sound() {
    let mut names = BTreeSet::new();
    for class in classes() {
        for name in class.aliases.iter().chain([&class.name]) {
            assert!(names.insert(*name), "two classes are called {name}");
        }
        assert!(element::ports::ranges(class.ports, 1).is_some(), "{}: ports {}", class.name, class.ports);
        for (output, port) in [(false, 0), (true, 0), (true, 1)] {
            let code = element::ports::processing(class.processing, output, port);
            assert!(code.is_some(), "{}: processing {}", class.name, class.processing);
        }
    }
}

/// Each class answers the handlers that it lists: none of them belongs to elements of another type, or is
/// unknown to the element.
#[test]
fn every_handler_has_an_answer() {
    let folder = TempDir::new().unwrap();
    generic::prepare(folder.path()).unwrap();
    let mut faults = Vec::new();
    for class in classes() {
        for sample in samples::all(&[class], folder.path()) {
            let mut worker = worker(&sample.text(0, 1, false), TestRun::default()).unwrap();
            let id = worker.plan().graph.find("e");
            for handler in class.each_handler() {
                let read = handler.access.read.then(|| worker.read(id, handler.name, "").map(drop));
                // No handler takes this value for a command that ends the test. The value names a file in a
                // folder that does not exist, so no handler makes a file.
                let write = handler.access.write.then(|| worker.write(id, handler.name, "nowhere/?"));
                for error in [read, write].into_iter().flatten().filter_map(Result::err) {
                    let unknown = ["is not a read handler", "is not a write handler", "another type"];
                    if unknown.iter().any(|words| error.contains(words)) {
                        faults.push(format!("{sample}: {}: {error}", handler.name));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
