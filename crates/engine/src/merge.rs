//! Merges the values that the workers' copies of an element return for one handler into a single value.

use std::cmp::Ordering;

use element::class::Merge;

/// Merges the values of several workers by the rule `how`. A single value is returned unchanged.
pub(crate) fn merge(values: &[String], how: Merge) -> String {
    match (values, how) {
        ([only], _) => only.clone(),
        (_, Merge::First) => values.first().cloned().unwrap_or_default(),
        (_, Merge::Lines) => list(values),
        (_, Merge::Sum) => sum(values),
        (_, Merge::Columns) => columns(values, false),
        (_, Merge::Rows) => columns(values, true),
        (_, Merge::Bracketed) => bracketed(values),
        (_, Merge::Least) => extreme(values, Ordering::Less),
        (_, Merge::Most) => extreme(values, Ordering::Greater),
    }
}

/// Returns the least (`Ordering::Less`) or the largest of several numbers or truth values. If any value is
/// something else, returns the first value.
fn extreme(values: &[String], wanted: Ordering) -> String {
    let first = values.first().cloned().unwrap_or_default();
    let size = |value: &str| match value.trim() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => Number::parse(text).map(Number::size),
    };
    let Some(sizes) = values.iter().map(|value| size(value)).collect::<Option<Vec<f64>>>() else {
        return first;
    };
    let better = |best: usize, other: usize| match sizes[other].total_cmp(&sizes[best]) == wanted {
        true => other,
        false => best,
    };
    (0..values.len()).reduce(better).map_or(first, |best| values[best].clone())
}

/// Concatenates several lists: JSON arrays element by element, other lists line by line. A first line that
/// all values have in common is a heading and is kept once.
fn list(values: &[String]) -> String {
    let inner = |value: &'_ String| {
        let inner = value.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(inner.trim().to_string())
    };
    if let Some(parts) = values.iter().map(inner).collect::<Option<Vec<_>>>() {
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            return values[0].clone();
        }
        return format!("[\n{}\n]\n", parts.join(",\n"));
    }
    let heading = values[0].split_inclusive('\n').next().unwrap_or_default();
    let has_heading = values.iter().all(|value| value.starts_with(heading));
    let rest = |value: &'_ String| value[if has_heading { heading.len() } else { 0 }..].to_string();
    let all: String = values.iter().map(rest).collect();
    if has_heading { heading.to_string() + &all } else { all }
}

/// Adds up the numbers at the ends of lines whose other words are equal. Lines without a number are listed,
/// equal ones once. A value of one word that is no number, such as a state, comes from the first copy.
fn sum(values: &[String]) -> String {
    let is_word = |value: &String| !value.contains([' ', '\t', '\n']) && Number::parse(value).is_none();
    if values.iter().any(|value| !value.is_empty() && is_word(value)) {
        return values[0].clone();
    }
    let mut lines: Vec<(&str, Option<Number>)> = Vec::new();
    for line in values.iter().flat_map(|value| value.lines()) {
        let start = line.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let number = Number::parse(&line[start..]);
        let words = if number.is_some() { &line[..start] } else { line };
        let known =
            lines.iter_mut().find(|(known, other)| *known == words && number.is_some() == other.is_some());
        match known {
            Some((_, sum)) => *sum = sum.zip(number).map(|(sum, number)| sum.plus_count(number)),
            None => lines.push((words, number)),
        }
    }
    let end = if values.iter().any(|value| value.ends_with('\n')) { "\n" } else { "" };
    let line = |(words, sum): &(&str, Option<Number>)| match sum {
        Some(sum) => format!("{words}{sum}"),
        None => words.to_string(),
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n") + end
}

/// Adds up all numbers in lines whose other words are equal, column by column. If `has_names` is true, the
/// first column is not a number.
fn columns(values: &[String], has_names: bool) -> String {
    let mut lines: Vec<Vec<Cell<'_>>> = Vec::new();
    for line in values.iter().flat_map(|value| value.lines()) {
        let words = line.split_inclusive([' ', '\t']).flat_map(|word| {
            let (word, end) = word.split_at(word.trim_end_matches([' ', '\t']).len());
            let cell = (!word.is_empty()).then(|| Number::parse(word).map_or(Cell::Word(word), Cell::Sum));
            cell.into_iter().chain((!end.is_empty()).then_some(Cell::Space(end)))
        });
        let mut cells: Vec<_> = words.collect();
        if has_names && let Some(first) = cells.first_mut() {
            *first = Cell::Word(line.split([' ', '\t']).next().unwrap_or_default());
        }
        let is_same = |known: &&mut Vec<Cell<'_>>| {
            known.len() == cells.len() && known.iter().zip(&cells).all(|(a, b)| a.is_same(b))
        };
        match lines.iter_mut().find(is_same) {
            Some(known) => known.iter_mut().zip(cells).for_each(|(sum, more)| sum.add(more)),
            None => lines.push(cells),
        }
    }
    let line = |cells: &Vec<Cell<'_>>| cells.iter().map(Cell::to_string).collect::<String>();
    let end = if values.iter().any(|value| value.ends_with('\n')) { "\n" } else { "" };
    lines.iter().map(line).collect::<Vec<_>>().join("\n") + end
}

/// Adds up the numbers in brackets at the ends of lines, line by line. The rest of each line is that of the
/// first value.
fn bracketed(values: &[String]) -> String {
    let parts = |line| {
        let numbered = |line: &'_ str| {
            let (text, number) = line.strip_suffix(']')?.rsplit_once(" [")?;
            Some((text.to_string(), number.parse::<u64>().ok()?))
        };
        numbered(line).unwrap_or_else(|| (line.to_string(), 0))
    };
    let mut lines: Vec<(String, u64)> = values[0].lines().map(parts).collect();
    for value in &values[1..] {
        for ((_, sum), line) in lines.iter_mut().zip(value.lines()) {
            *sum += parts(line).1;
        }
    }
    let shown =
        |(text, sum): &(String, u64)| if *sum == 0 { text.clone() } else { format!("{text} [{sum}]") };
    let end = if values[0].ends_with('\n') { "\n" } else { "" };
    lines.iter().map(shown).collect::<Vec<_>>().join("\n") + end
}

/// A part of a line: a word, a space, or the sum of a column.
enum Cell<'a> {
    Word(&'a str),
    /// A space or a tab between words.
    Space(&'a str),
    Sum(Number),
}

impl Cell<'_> {
    fn is_same(&self, other: &Cell<'_>) -> bool {
        match (self, other) {
            (Cell::Word(a), Cell::Word(b)) | (Cell::Space(a), Cell::Space(b)) => a == b,
            (Cell::Sum(_), Cell::Sum(_)) => true,
            _ => false,
        }
    }

    fn add(&mut self, other: Cell<'_>) {
        if let (Cell::Sum(sum), Cell::Sum(more)) = (self, other) {
            *sum = sum.plus(more);
        }
    }
}

impl std::fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Word(word) | Cell::Space(word) => f.write_str(word),
            Cell::Sum(sum) => sum.fmt(f),
        }
    }
}

/// A number in the text of a handler's value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i128),
    /// A decimal number, and the number of digits after its point.
    Decimal(f64, usize),
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        if let Ok(whole) = text.parse() {
            return Some(Number::Whole(whole));
        }
        let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        text.parse().ok().map(|decimal| Number::Decimal(decimal, digits))
    }

    fn size(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Decimal(decimal, _) => decimal,
        }
    }

    /// Adds two workers' counts, where -1 stands for no count: if either is -1, returns the other.
    fn plus_count(self, other: Number) -> Number {
        match (self, other) {
            (count, Number::Whole(-1)) | (Number::Whole(-1), count) => count,
            _ => self.plus(other),
        }
    }

    fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => Number::Whole(a + b),
            (Number::Whole(a), Number::Decimal(b, digits))
            | (Number::Decimal(b, digits), Number::Whole(a)) => Number::Decimal(a as f64 + b, digits),
            (Number::Decimal(a, digits), Number::Decimal(b, more)) => {
                Number::Decimal(a + b, digits.max(more))
            }
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Number::Whole(whole) => write!(f, "{whole}"),
            Number::Decimal(decimal, digits) => write!(f, "{decimal:.digits$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_workers_come_to_one() {
        let merged =
            |values: &[&str], how| merge(&values.iter().map(|v| v.to_string()).collect::<Vec<_>>(), how);
        assert_eq!(merged(&["5", "5"], Merge::Sum), "10");
        assert_eq!(merged(&["5", "5"], Merge::First), "5");
        assert_eq!(merged(&["0.50", "1.25"], Merge::Sum), "1.75");
        assert_eq!(merged(&["in 1\nout 2\n", "in 3\nout 4\n"], Merge::Sum), "in 4\nout 6\n");
        assert_eq!(merged(&["", "no route\t4\n"], Merge::Sum), "no route\t4\n");
        assert_eq!(merged(&["a 1\n", "b 2\n"], Merge::Lines), "a 1\nb 2\n");
        assert_eq!(merged(&["", "b 2\n"], Merge::Lines), "b 2\n");
        assert_eq!(
            merged(&["name,n\na,1\n", "name,n\n", "name,n\nb,2\n"], Merge::Lines),
            "name,n\na,1\nb,2\n"
        );
        assert_eq!(merged(&["[\n1\n]\n", "[]\n", "[2]\n"], Merge::Lines), "[\n1,\n2\n]\n");
        let tables = ["1.0.0.1 active 1 2\n1.0.0.2 gone 3 4\n", "1.0.0.1 active 5 6\n1.0.0.2 gone 7 8\n"];
        assert_eq!(merged(&tables, Merge::Columns), "1.0.0.1 active 6 8\n1.0.0.2 gone 10 12\n");
        assert_eq!(merged(&["1 2 3", "4 5 6"], Merge::Columns), "5 7 9");
        assert_eq!(merged(&["0 active 1\n1 active 2\n"; 2], Merge::Rows), "0 active 2\n1 active 4\n");
        assert_eq!(merged(&["idle", "busy"], Merge::Sum), "idle");
        assert_eq!(merged(&["-1", "-1"], Merge::Sum), "-1");
        assert_eq!(merged(&["-1", "4"], Merge::Sum), "4");
        let fragments = ["seen:  1\nkept:\n a (0,8)\n", "seen:  2\nkept:\n b (8,16)\n"];
        assert_eq!(merged(&fragments, Merge::Sum), "seen:  3\nkept:\n a (0,8)\n b (8,16)\n");
        assert_eq!(merged(&["[]\n", "[]\n"], Merge::Lines), "[]\n");
        assert_eq!(merged(&["1\ttoo short\n", "2\ttoo short\n"], Merge::Columns), "3\ttoo short\n");
        assert_eq!(merged(&["a [2]\nb\na\n", "a\nb\na [3]\n"], Merge::Bracketed), "a [2]\nb\na [3]\n");
        assert_eq!(merged(&["a [x]", "a [x]"], Merge::Bracketed), "a [x]");
        assert_eq!(merged(&["9", "10", "1.5"], Merge::Most), "10");
        assert_eq!(merged(&["9", "10", "1.5"], Merge::Least), "1.5");
        assert_eq!(merged(&["true", "false"], Merge::Least), "false");
        assert_eq!(merged(&["false", "true"], Merge::Most), "true");
        assert_eq!(merged(&["idle", "5"], Merge::Most), "idle");
    }
}
