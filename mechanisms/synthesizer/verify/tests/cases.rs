//! Tests of verdicts about pairs of chains, described in text files in `cases`.
//!
//! ```text
//! Changes of a small router.
//! -- chain: a filter upstream of a route look-up
//! FromDump(x) -> Strip(14) -> CheckIPHeader -> IPFilter(deny src net 10.1.0.0/16, allow all)
//!     -> r :: IPClassifier(dst net 10.0.0.0/8, -); r[0] -> out :: ToDump(y); r[1] -> Discard;
//! -- equivalent
//! -- equivalent: CheckIPHeader may look before Strip
//! - Strip(14) -> CheckIPHeader
//! + CheckIPHeader(14) -> Strip(14)
//! -- different
//! - 10.1.0.0/16
//! + 10.1.0.0/17
//! ```
//!
//! The text before the first section says what is tested. A section `chain` has a configuration. The
//! sections after it have a verdict about this chain and another one:
//! - `equivalent`: proven
//! - `different`: not equivalent, with a packet that shows the difference
//! - `not proven`: different, or undecided
//! - `undecided`
//!
//! A line that begins with `- ` has a part of the chain. The lines after it that begin with `+` have what
//! replaces this part in the other chain. A line such as `~ t[0] <> t[1]` exchanges two parts. Each part has
//! to be in the chain exactly once. Several changes are made one after the other. A section without such
//! lines has the other chain as a whole, and an empty section compares the chain with itself. A title may
//! follow after a colon.

use std::path::Path;

use testkit::cases::{Section, files, sections};
use testkit::chains::{compare, try_read};
use verify::equivalence::{Conclusion, Difference};

/// A mistake in a file or a wrong verdict: the number of the line, and what is wrong.
type Mistake = (usize, String);

/// Returns the chain that a section compares with `chain`.
fn other(chain: &str, section: &Section) -> Result<String, Mistake> {
    let lines = || section.body.lines().zip(section.line + 1..).filter(|(line, _)| !line.trim().is_empty());
    if lines().next().is_none() {
        return Ok(chain.to_string());
    }
    if lines().all(|(line, _)| !line.starts_with("- ") && !line.starts_with(['+', '~'])) {
        return Ok(section.body.clone());
    }
    let mut changed = chain.to_string();
    let is_there_once = |chain: &str, part: &str, number| match chain.matches(part).count() {
        1 => Ok(()),
        times => Err((number, format!("'{part}' is in the chain {times} times, not once"))),
    };
    let mut lines = lines().peekable();
    while let Some((line, number)) = lines.next() {
        if let Some((one, other)) = line.strip_prefix("~ ").and_then(|parts| parts.split_once(" <> ")) {
            is_there_once(&changed, one, number)?;
            is_there_once(&changed, other, number)?;
            changed = changed.replace(one, "\0").replace(other, one).replace('\0', other);
            continue;
        }
        let Some(from) = line.strip_prefix("- ").map(str::trim) else {
            return Err((number, "a line with '- ' and a part of the chain has to come first".into()));
        };
        let mut to = Vec::new();
        while let Some((line, _)) = lines.next_if(|(line, _)| line.starts_with('+')) {
            to.push(line[1..].trim());
        }
        if to.is_empty() {
            return Err((number, "a line with '+' has to follow".into()));
        }
        is_there_once(&changed, from, number)?;
        changed = changed.replace(from, &to.join("\n"));
    }
    Ok(changed)
}

/// Compares the pairs of chains of a file. Returns the number of pairs, and all mistakes.
fn check(text: &str) -> (usize, Vec<Mistake>) {
    let (mut pairs, mut mistakes) = (0, Vec::new());
    let mut chain = String::new();
    for section in sections(text).1 {
        if section.name == "chain" {
            chain = section.body;
            continue;
        }
        pairs += 1;
        mistakes.extend(verdict(&chain, &section).err());
    }
    (pairs, mistakes)
}

/// Compares one pair of chains.
fn verdict(chain: &str, section: &Section) -> Result<(), Mistake> {
    let is_as_expected: fn(&Conclusion) -> bool = match section.name {
        "equivalent" => |verdict| matches!(verdict, Conclusion::Equivalent),
        "different" => |verdict| matches!(verdict, Conclusion::Different(Difference::Packet { .. })),
        "not proven" => |verdict| !matches!(verdict, Conclusion::Equivalent),
        "undecided" => |verdict| matches!(verdict, Conclusion::Undecided { .. }),
        name => {
            let known = "use chain, equivalent, different, not proven, undecided";
            return Err((section.line, format!("no section is named '{name}'; {known}")));
        }
    };
    let other = other(chain, section)?;
    let read = |text: &str| {
        try_read(text).map_err(|errors| (section.line, format!("{errors}in the configuration\n{text}")))
    };
    let verdict = compare(&read(chain)?, &read(&other)?).verdict;
    if is_as_expected(&verdict) {
        return Ok(());
    }
    Err((section.line, format!("{} is expected, not {verdict:?}\n{chain}\n{other}", section.name)))
}

#[test]
fn verdicts_are_those_in_the_files() {
    let mut failures = Vec::new();
    for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"), "test") {
        let (pairs, mistakes) = check(&std::fs::read_to_string(&file).unwrap());
        assert!(pairs > 0, "{} has no pairs of chains", file.display());
        failures.extend(mistakes.iter().map(|(line, what)| format!("{}:{line}: {what}", file.display())));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn mistakes_in_files_are_told_with_their_line() {
    let chain = "Text.\n-- chain: a wire\nFromDump(x) -> Strip(2) -> out :: ToDump(y);\n";
    for (more, line, expected) in [
        ("-- equal\n", 4, "no section is named 'equal'; use chain, equivalent"),
        ("-- equivalent\n+ Strip(2)\n", 5, "a line with '- '"),
        ("-- equivalent\n- Strip(2)\n", 5, "a line with '+' has to follow"),
        ("-- equivalent\n- Strip(3)\n+ Null\n", 5, "'Strip(3)' is in the chain 0 times"),
        ("-- equivalent\n~ 2 <> )\n", 5, "')' is in the chain 3 times"),
        ("-- equivalent\n~ 2 > x\n", 5, "a line with '- '"),
        ("-- equivalent\n- )\n+ Null\n", 5, "')' is in the chain 3 times"),
        (
            "-- equivalent\n- Strip(2)\n+ Nonsense(2)\n",
            4,
            "test:1:16: error: unknown element class 'Nonsense'",
        ),
        ("-- equivalent\n- Strip(2)\n+ Strip(3)\n", 4, "equivalent is expected, not Different"),
        ("-- different\n\n-- undecided\n", 4, "different is expected, not Equivalent"),
        (
            "-- different\nFromDump(x) -> Strip(1) -> Strip(1) -> out :: ToDump(y);\n",
            4,
            "different is expected",
        ),
    ] {
        let (pairs, mistakes) = check(&format!("{chain}{more}"));
        assert_eq!(pairs, more.matches("--").count());
        assert!(mistakes[0].0 == line && mistakes[0].1.starts_with(expected), "{more}: {mistakes:?}");
    }
    let right = "-- equivalent\n- Strip(2)\n+ Strip(1)\n+ -> Strip(1)\n-- different\n~ (2) <> (x)\n- (x)\n+ (3)\n- (2)\n+ (x)\n";
    assert_eq!(check(&format!("{chain}{right}")), (2, Vec::new()));
}
