//! The functions of scripts that compute their answer from their parameter: arithmetic, comparison, logic
//! and words, and functions for files and processes.
//!
//! The parameter is a list of words separated by spaces; quotes keep a word together.

use std::cmp::Ordering;
use std::io::Read;

use element::args::parse_bool;
use lang::args::{quote, split_spaces, unquote};
use nix::sys::signal;
use nix::unistd::Pid;

use super::MOST_TEXT;
use super::errors::describe;
use super::number::{Number, parse_int};
use super::sprintf::sprintf;

type Answer = Result<String, String>;

/// A function: its name, and the code that computes the answer, or an error text, from the parameter.
type Function = (&'static str, fn(&str) -> Answer);

/// The functions that scripts, other elements and users may call, as handlers of a script.
pub(super) const PUBLIC: &[Function] = &[
    ("add", |text| fold(text, 0, |a, b| a.with(b, i64::wrapping_add, |a, b| a + b))),
    ("sub", |text| fold(text, 0, |a, b| a.with(b, i64::wrapping_sub, |a, b| a - b))),
    ("mul", |text| fold(text, 1, |a, b| a.with(b, i64::wrapping_mul, |a, b| a * b))),
    ("div", |text| Ok(Number::Real(quotient(text)?).to_string())),
    ("idiv", idiv),
    ("mod", remainder_of_integers),
    ("rem", remainder),
    ("min", |text| fold(text, 1, |a, b| a.with(b, i64::min, f64::min))),
    ("max", |text| fold(text, 1, |a, b| a.with(b, i64::max, f64::max))),
    ("avg", average),
    ("count", |text| Ok(numbers(text)?.len().to_string())),
    ("popcount", |text| Ok(numbers(text)?.into_iter().filter(|n| n.real() != 0.0).count().to_string())),
    ("gt_vec", greater_than_first),
    ("neg", |text| map(text, i64::wrapping_neg, |x| -x)),
    ("abs", |text| map(text, i64::wrapping_abs, f64::abs)),
    ("ceil", |text| map(text, |n| n, f64::ceil)),
    ("floor", |text| map(text, |n| n, f64::floor)),
    ("round", |text| map(text, |n| n, f64::round)),
    ("eq", |text| compare(text, |order| order == Some(Ordering::Equal))),
    ("ne", |text| compare(text, |order| order != Some(Ordering::Equal))),
    ("gt", |text| compare(text, |order| order == Some(Ordering::Greater))),
    ("ge", |text| compare(text, |order| order.is_some_and(Ordering::is_ge))),
    ("lt", |text| compare(text, |order| order == Some(Ordering::Less))),
    ("le", |text| compare(text, |order| order.is_some_and(Ordering::is_le))),
    ("not", |text| Ok((!boolean(text)?).to_string())),
    ("and", |text| Ok((!any_is(text, false)?).to_string())),
    ("or", |text| Ok(any_is(text, true)?.to_string())),
    ("nand", |text| Ok(any_is(text, false)?.to_string())),
    ("nor", |text| Ok((!any_is(text, true)?).to_string())),
    ("if", choose),
    ("in", is_in),
    ("first", |text| Ok(words(text).next().unwrap_or_default())),
    ("sprintf", sprintf),
    ("length", |text| Ok(text.len().to_string())),
    ("unquote", |text| Ok(unquote(text))),
    ("htons", |text| convert(text, |n| (n as u16).to_be().into())),
    ("ntohs", |text| convert(text, |n| u16::from_be(n as u16).into())),
    ("htonl", |text| convert(text, u32::to_be)),
    ("ntohl", |text| convert(text, u32::from_be)),
];

/// The functions that only the script's own text may call, because they access files and processes.
pub(super) const PRIVATE: &[Function] = &[
    ("cat", |text| Ok(String::from_utf8_lossy(&file(text)?).into_owned())),
    ("catq", |text| Ok(quote(file(text)?))),
    ("kill", kill),
];

/// Calls the function `name` in a list of functions with the parameter `text`. Returns its answer, or
/// `None` if the list has no function of that name.
pub(super) fn evaluate(functions: &[Function], name: &str, text: &str) -> Option<Answer> {
    functions.iter().find(|(known, _)| *known == name).map(|(_, function)| function(text))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    split_spaces(text).into_iter().map(|word| word.text)
}

fn numbers(text: &str) -> Result<Vec<Number>, String> {
    let all: Option<Vec<Number>> = words(text).map(|word| Number::parse(&word)).collect();
    all.ok_or_else(|| "expected list of numbers".into())
}

fn two(text: &str) -> Result<[String; 2], String> {
    let all: Vec<String> = words(text).collect();
    all.try_into().map_err(|_| "expected two numbers".into())
}

/// Combines the numbers in `text` from left to right; returns `empty` if there are none.
fn fold(text: &str, empty: i64, combine: impl Fn(Number, Number) -> Number) -> Answer {
    Ok(numbers(text)?.into_iter().reduce(combine).unwrap_or(Number::Int(empty)).to_string())
}

fn quotient(text: &str) -> Result<f64, String> {
    let reals = numbers(text)?.into_iter().map(Number::real);
    Ok(reals.reduce(|a, b| a / b).unwrap_or(1.0))
}

fn idiv(text: &str) -> Answer {
    let quotient = quotient(text)?;
    match quotient.is_finite() {
        true => Ok((quotient as i64).to_string()),
        false => Err("division by zero".into()),
    }
}

fn integer_remainder(a: i64, b: i64) -> Answer {
    match b {
        0 => Err("division by zero".into()),
        _ => Ok(a.wrapping_rem(b).to_string()),
    }
}

fn remainder_of_integers(text: &str) -> Answer {
    let [a, b] = two(text)?;
    let pair = parse_int(&a).zip(parse_int(&b));
    pair.map_or_else(|| Err("expected two numbers".into()), |(a, b)| integer_remainder(a, b))
}

fn remainder(text: &str) -> Answer {
    let [a, b] = two(text)?;
    match (Number::parse(&a), Number::parse(&b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => integer_remainder(a, b),
        (Some(a), Some(b)) => Ok(Number::Real(a.real() % b.real()).to_string()),
        _ => Err("expected two numbers".into()),
    }
}

fn average(text: &str) -> Answer {
    let all = numbers(text)?;
    let sum = all.iter().fold(0.0, |sum, n| sum + n.real());
    let mean = sum / all.len().max(1) as f64;
    let whole = all.iter().all(|n| matches!(n, Number::Int(_)));
    Ok(Number::Real(if whole { mean.round() } else { mean }).to_string())
}

fn greater_than_first(text: &str) -> Answer {
    let all = numbers(text)?;
    let Some((least, rest)) = all.split_first() else { return Err("expected list of numbers".into()) };
    let greater = rest.iter().filter(|n| n.compare(*least) == Some(Ordering::Greater));
    Ok(greater.count().to_string())
}

fn map(text: &str, int: impl Fn(i64) -> i64, real: impl Fn(f64) -> f64) -> Answer {
    match numbers(text).as_deref() {
        Ok([Number::Int(n)]) => Ok(int(*n).to_string()),
        Ok([Number::Real(x)]) => Ok(Number::Real(real(*x)).to_string()),
        _ => Err("expected one number".into()),
    }
}

/// Compares the two words of a parameter, as numbers if both are numbers, otherwise byte by byte. The
/// answer is `true` if `holds` accepts the order of the two words, otherwise `false`.
fn compare(text: &str, holds: impl Fn(Option<Ordering>) -> bool) -> Answer {
    let [a, b] = two(text)?;
    let order = match (Number::parse(&a), Number::parse(&b)) {
        (Some(a), Some(b)) => a.compare(b),
        _ => Some(unquote(&a).as_bytes().cmp(unquote(&b).as_bytes())),
    };
    Ok(holds(order).to_string())
}

fn boolean(word: &str) -> Result<bool, String> {
    parse_bool(word).ok_or_else(|| "syntax error".into())
}

/// Returns true if any word is the truth value `wanted`. Words after the first such word are not checked,
/// so they need not be truth values.
fn any_is(text: &str, wanted: bool) -> Result<bool, String> {
    for word in words(text) {
        if boolean(&word)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn choose(text: &str) -> Answer {
    let mut words = words(text);
    let condition = boolean(&words.next().unwrap_or_default())?;
    let (yes, no) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match words.next() {
        None => Ok(if condition { yes } else { no }),
        Some(_) => Err("syntax error".into()),
    }
}

fn is_in(text: &str) -> Answer {
    let mut words = words(text).map(|word| unquote(&word));
    let wanted = words.next();
    Ok(wanted.is_some_and(|wanted| words.any(|word| word == wanted)).to_string())
}

/// Converts the byte order of an integer with `swap`. An integer that does not fit into 32 bits is an error.
/// The functions for 16 bits take the lower 16 bits of a larger integer, as in Click.
fn convert(text: &str, swap: impl Fn(u32) -> u32) -> Answer {
    let value = parse_int(text).and_then(|n| u32::try_from(n).ok());
    value.map(|n| swap(n).to_string()).ok_or_else(|| "syntax error".into())
}

fn file(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let name = unquote(text.trim());
    if name.is_empty() {
        return Err("bad FILE".into());
    }
    let open = std::fs::File::open(&name);
    let read = open.and_then(|file| file.take(MOST_TEXT as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length <= MOST_TEXT => Ok(bytes),
        Ok(_) => Err(format!("file longer than {MOST_TEXT} bytes")),
        Err(error) => Err(format!("{name}: {}", describe(&error))),
    }
}

fn kill(text: &str) -> Answer {
    let mut words = words(text);
    let number = words.next().and_then(|word| super::program::signal_number(&word)).ok_or("bad SIGNO")?;
    // Signal 0 sends nothing and only checks that the process exists.
    let signal = signal::Signal::try_from(number).ok();
    let processes: Option<Vec<i32>> =
        words.map(|word| parse_int(&word).and_then(|pid| i32::try_from(pid).ok())).collect();
    for pid in processes.filter(|all| !all.is_empty()).ok_or("bad PID")? {
        if let Err(reason) = signal::kill(Pid::from_raw(pid), signal) {
            return Err(format!("kill({pid}, {number}): {}", reason.desc()));
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(text: &str) -> Answer {
        let (name, parameter) = text.split_once(' ').unwrap_or((text, ""));
        evaluate(PUBLIC, name, parameter).or_else(|| evaluate(PRIVATE, name, parameter)).unwrap()
    }

    #[test]
    fn results() {
        let cases: &[(&str, &str)] = &[
            ("add 10 5 2", "17"),
            ("add", "0"),
            ("add 0x10 010 0b11", "27"),
            ("add 1 0.5 1", "2.5"),
            ("sub 10 5 2", "3"),
            ("sub 7", "7"),
            ("sub", "0"),
            ("mul", "1"),
            ("mul 3 4", "12"),
            ("mul 3 0.5", "1.5"),
            ("div 10 4", "2.5"),
            ("div 10 5", "2"),
            ("div 1 0", "inf"),
            ("div", "1"),
            ("idiv 10 4", "2"),
            ("idiv -7 2", "-3"),
            ("idiv", "1"),
            ("mod 7 3", "1"),
            ("mod -7 3", "-1"),
            ("mod -9223372036854775808 -1", "0"),
            ("rem 7.5 2", "1.5"),
            ("rem 7 3", "1"),
            ("min 5 10 2", "2"),
            ("max 5 10 2", "10"),
            ("max 1 2.5", "2.5"),
            ("min", "1"),
            ("avg 5 10 2", "6"),
            ("avg 1 2.5", "1.75"),
            ("avg", "0"),
            ("count 5 0 2", "3"),
            ("popcount 5 0 2", "2"),
            ("gt_vec 5 0 2 7", "1"),
            ("neg 5", "-5"),
            ("neg 1.5", "-1.5"),
            ("abs -3", "3"),
            ("abs -9223372036854775808", "-9223372036854775808"),
            ("ceil 1.2", "2"),
            ("ceil 3", "3"),
            ("floor -1.2", "-2"),
            ("floor 3", "3"),
            ("round -2.5", "-3"),
            ("round 2.4", "2"),
            ("eq 10 0xA", "true"),
            ("eq 10x 10x", "true"),
            ("eq 1 1.0", "true"),
            ("eq \"a b\" 'a b'", "true"),
            ("ne 1 2", "true"),
            ("le 9 8", "false"),
            ("lt 9 10", "true"),
            ("lt 9x 10x", "false"),
            ("gt 2.5 2", "true"),
            ("ge 2 2", "true"),
            ("not true", "false"),
            ("and", "true"),
            ("and true 1 yes", "true"),
            ("and false junk", "false"),
            ("or", "false"),
            ("or true junk", "true"),
            ("nand", "false"),
            ("nand true true", "false"),
            ("nand true false", "true"),
            ("nor", "true"),
            ("nor false true", "false"),
            ("if true x y", "x"),
            ("if false x y", "y"),
            ("if false x", ""),
            ("if true", ""),
            ("if true \"a b\" y", "\"a b\""),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("in foo \"foo\"", "true"),
            ("in", "false"),
            ("first \"a b\" c", "\"a b\""),
            ("first", ""),
            ("sprintf %03d 7", "007"),
            ("length abcdef", "6"),
            ("length", "0"),
            ("unquote \"a b\"", "a b"),
            ("htons 1", "256"),
            ("htons 70000", "28689"),
            ("ntohs 256", "1"),
            ("htonl 1", "16777216"),
            ("ntohl 16777216", "1"),
        ];
        for (text, expected) in cases {
            assert_eq!(call(text).as_deref(), Ok(*expected), "{text}");
        }
        let tested = |name: &str| cases.iter().any(|(text, _)| text.split(' ').next() == Some(name));
        assert!(PUBLIC.iter().all(|(name, _)| tested(name)));
    }

    #[test]
    fn mistakes() {
        let cases: &[(&str, &str)] = &[
            ("add 1 x", "expected list of numbers"),
            ("gt_vec", "expected list of numbers"),
            ("idiv 1 0", "division by zero"),
            ("mod 1 0", "division by zero"),
            ("rem 1 0", "division by zero"),
            ("mod 1.5 1", "expected two numbers"),
            ("mod 1", "expected two numbers"),
            ("eq 1", "expected two numbers"),
            ("eq 1 2 3", "expected two numbers"),
            ("neg", "expected one number"),
            ("abs 1 2", "expected one number"),
            ("ceil x", "expected one number"),
            ("not 5", "syntax error"),
            ("and true junk", "syntax error"),
            ("if x 1 2", "syntax error"),
            ("if true 1 2 3", "syntax error"),
            ("htons 4294967296", "syntax error"),
            ("htons -1", "syntax error"),
            ("htonl -1", "syntax error"),
            ("cat /does/not/exist", "/does/not/exist: No such file or directory"),
            ("cat", "bad FILE"),
            ("kill FOO 1", "bad SIGNO"),
            ("kill", "bad SIGNO"),
            ("kill 0", "bad PID"),
            ("kill 0 x", "bad PID"),
        ];
        for (text, expected) in cases {
            assert_eq!(call(text), Err(expected.to_string()), "{text}");
        }
    }

    #[test]
    fn files_and_processes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "a \"b\"\n").unwrap();
        assert_eq!(call(&format!("cat {}", path.display())).unwrap(), "a \"b\"\n");
        assert_eq!(call(&format!("catq \"{}\"", path.display())).unwrap(), "\"a \\\"b\\\"\\n\"");
        assert_eq!(call(&format!("kill 0 {}", std::process::id())).unwrap(), "");
        assert_eq!(call("kill 0 2147483647").unwrap_err(), "kill(2147483647, 0): No such process");
    }

    proptest! {
        #[test]
        fn no_parameter_panics(text in "[-+.0-9xeE \"'a\u{e9}]{0,30}") {
            for (_, function) in PUBLIC {
                let _ = function(&text);
            }
        }

        #[test]
        fn integers_add_up(numbers in proptest::collection::vec(any::<i32>(), 0..20)) {
            let words: Vec<String> = numbers.iter().map(i32::to_string).collect();
            let sum: i64 = numbers.iter().map(|&n| i64::from(n)).sum();
            prop_assert_eq!(call(&format!("add {}", words.join(" "))), Ok(sum.to_string()));
        }
    }
}
