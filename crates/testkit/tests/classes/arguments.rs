//! Tests that an error about one item in a list of arguments names the item that is wrong, for all classes
//! with such lists except the two in `OTHERS`.

use element::class::ArgKind;
use element::{Args, Class, Sample, Setup};

/// A text that no class accepts as a pattern, a route, an address or the name of an element.
const WRONG: &str = "?wrong? ^1/^2 ^3";

/// Makes an element with the arguments `given`. Returns, for each error (or warning, if there is no error),
/// the index of the argument that it is about.
fn errors(class: &'static Class, shape: (usize, usize), given: &[String]) -> Vec<Option<usize>> {
    let mut setup = Setup::default();
    setup.elements.push(("e".to_string(), class));
    let mut args = Args::new(&mut setup, class, 0, shape, true, given.to_vec());
    let made = (class.build)(&mut args);
    let (errors, warnings) = args.into_reports();
    let told = if made.is_ok() { warnings } else { errors };
    told.into_iter().map(|complaint| complaint.argument).collect()
}

/// Classes that take any number of arguments, but cannot be tested here: `Error` accepts any text, and the
/// lines of a program are parsed as one text.
const OTHERS: [&str; 2] = ["Error", "Synthesized"];

/// A wrong item is inserted before the last argument, or replaces it. An error has to name the index of the
/// wrong item.
#[test]
fn the_wrong_argument_is_told() {
    let is_list =
        |class: &&Class| class.args.iter().any(|a| a.kind == ArgKind::Rest) && !OTHERS.contains(&class.name);
    let mut silent = Vec::new();
    for class in testkit::classes().filter(is_list) {
        let is_told = |sample: &Sample| {
            let given: Vec<_> = lang::args::split(&sample.config).into_iter().map(|arg| arg.text).collect();
            let (mut more, mut other) = (given.clone(), given.clone());
            let last = given.len().saturating_sub(1);
            more.insert(last, WRONG.to_string());
            other.truncate(last);
            other.push(WRONG.to_string());
            [more, other].iter().any(|given| errors(class, sample.shape, given).contains(&Some(last)))
        };
        if !Sample::all(class).iter().any(is_told) {
            silent.push(class.name);
        }
    }
    assert_eq!(silent, [""; 0], "their errors name no argument");
}
