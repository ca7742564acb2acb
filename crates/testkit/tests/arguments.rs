//! Tests that an error names the right argument, for every registered element.

use element::class::ArgKind;
use element::{Args, Class, Sample, Setup};

/// A text that no class accepts as a pattern, a route, an address or the name of an element.
const WRONG: &str = "?wrong? ^1/^2 ^3";

/// Returns the index of the argument in question for each error.
fn errors(class: &'static Class, shape: (usize, usize), given: &[String]) -> Vec<Option<usize>> {
    let mut setup = Setup::default();
    setup.elements.push(("e".to_string(), class));
    let mut args = Args::new(&mut setup, class, 0, shape, true, given.to_vec());
    let made = (class.build)(&mut args);
    let (errors, warnings) = args.into_reports();
    let told = if made.is_ok() { warnings } else { errors };
    told.into_iter().map(|complaint| complaint.argument).collect()
}

/// Classes whose arguments are not a list of items of one kind: `Error` accepts any text, and the lines of
/// a program are parsed as one text.
const OTHERS: [&str; 2] = ["Error", "Synthesized"];

/// An error names the wrong argument among any number of right arguments.
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
