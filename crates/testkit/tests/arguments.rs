//! Which argument an error is about, over every registered element.

use element::class::ArgKind;
use element::{Args, Class, Sample, Setup};

/// What no class takes for a pattern, a route, an address or the name of an element.
const WRONG: &str = "?wrong? ^1/^2 ^3";

/// The numbers of the arguments that errors are about, one for each error.
fn errors(class: &'static Class, shape: (usize, usize), given: &[String]) -> Vec<Option<usize>> {
    let mut setup = Setup::default();
    setup.elements.push(("e".to_string(), class));
    let mut args = Args::new(&mut setup, class, 0, shape, true, given.to_vec());
    let made = (class.build)(&mut args);
    let (errors, warnings) = args.into_reports();
    let told = if made.is_ok() { warnings } else { errors };
    told.into_iter().map(|complaint| complaint.argument).collect()
}

/// Classes whose arguments are no list of things of one kind: `Error` takes any text, and the lines of a program are read
/// as one text.
const OTHERS: [&str; 2] = ["Error", "Synthesized"];

/// Among right arguments of which there may be any number, the one that is wrong is told.
#[test]
fn the_wrong_argument_is_told() {
    let is_list =
        |class: &&Class| class.args.iter().any(|a| a.kind == ArgKind::Rest) && !OTHERS.contains(&class.name);
    let mut silent = Vec::new();
    for class in tidegate_testkit::classes().filter(is_list) {
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
