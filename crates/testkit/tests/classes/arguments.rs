//! Tests of the arguments of all classes: which mistakes are reported, and the arguments that elements show.

use element::class::ArgKind;
use element::{Args, Class, Complaint, Element, Sample, Setup};

/// A text that no class accepts as a pattern, a route, an address or the name of an element.
const WRONG: &str = "?wrong? ^1/^2 ^3";

/// Makes an element with the arguments `given`. Returns the errors, or the warnings if there is no error.
fn errors(class: &'static Class, shape: (usize, usize), given: &[String]) -> Vec<Complaint> {
    make(class, shape, given).1
}

/// Makes an element with the arguments `given`. Also returns the errors, or the warnings if there is no
/// error.
fn make(
    class: &'static Class,
    shape: (usize, usize),
    given: &[String],
) -> (Option<Box<dyn Element>>, Vec<Complaint>) {
    let mut setup = Setup::default();
    setup.elements.push(("e".to_string(), class));
    let mut args = Args::new(&mut setup, class, 0, shape, true, given.to_vec());
    let made = (class.build)(&mut args);
    let (errors, warnings) = args.into_reports();
    let told = if made.is_ok() { warnings } else { errors };
    (made.ok(), told)
}

/// Returns the texts of the arguments of a configuration.
fn split(config: &str) -> Vec<String> {
    lang::args::split(config).into_iter().map(|arg| arg.text).collect()
}

/// Classes that take any number of arguments, but cannot be tested here: the first five accept any text, and
/// the lines of a program are parsed as one text.
const OTHERS: [&str; 6] =
    ["ClickyInfo", "DevirtualizeInfo", "Error", "IPsecESPEncap", "Suppressor", "Synthesized"];

/// A wrong item is inserted before the last argument, or replaces it. An error has to name the index of the
/// wrong item.
#[test]
fn the_wrong_argument_is_told() {
    let is_list =
        |class: &&Class| class.args.iter().any(|a| a.kind == ArgKind::Rest) && !OTHERS.contains(&class.name);
    let mut silent = Vec::new();
    for class in testkit::classes().filter(is_list) {
        let is_told = |sample: &Sample| {
            let given = split(&sample.config);
            let (mut more, mut other) = (given.clone(), given.clone());
            let last = given.len().saturating_sub(1);
            more.insert(last, WRONG.to_string());
            other.truncate(last);
            other.push(WRONG.to_string());
            let names = |complaint: &Complaint| complaint.argument == Some(last);
            [more, other].iter().any(|given| errors(class, sample.shape, given).iter().any(names))
        };
        if !Sample::all(class).iter().any(is_told) {
            silent.push(class.name);
        }
    }
    assert_eq!(silent, [""; 0], "their errors name no argument");
}

/// Without arguments, the errors are that required arguments are missing. A check of the value that the
/// element uses in place of a missing argument would report another error about the same mistake.
#[test]
fn a_missing_argument_is_the_only_mistake() {
    let has_required = |class: &&Class| class.args.iter().any(|argument| argument.kind == ArgKind::Required);
    let mut further = Vec::new();
    for class in testkit::classes().filter(has_required) {
        let shape = Sample::all(class).first().map_or((1, 1), |sample| sample.shape);
        let told = errors(class, shape, &[]);
        assert!(!told.is_empty(), "{}: no error", class.name);
        let others = told.iter().filter(|complaint| !complaint.text.ends_with("required argument missing"));
        further.extend(others.map(|complaint| format!("{}: {}", class.name, complaint.text)));
    }
    assert_eq!(further, [""; 0]);
}

/// The arguments that an element shows ([`Element::configuration`]) make an element that shows the same, and
/// has the same effects.
#[test]
fn shown_arguments_make_an_equal_element() {
    let mut classes = std::collections::BTreeSet::new();
    for sample in testkit::classes().flat_map(Sample::all) {
        let (made, _) = make(sample.class, sample.shape, &split(&sample.config));
        let shown = made.as_ref().and_then(|element| element.configuration());
        let (Some(element), Some(shown)) = (made, shown) else { continue };
        let (again, errors) = make(sample.class, sample.shape, &split(&shown));
        let again = again.unwrap_or_else(|| panic!("{}({shown}): {errors:?}", sample.class.name));
        assert_eq!(again.configuration(), Some(shown));
        assert_eq!(again.effects(), element.effects(), "{}({})", sample.class.name, sample.config);
        classes.insert(sample.class.name);
    }
    assert!(classes.len() >= 17, "{classes:?}");
}
