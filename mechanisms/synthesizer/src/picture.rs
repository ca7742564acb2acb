//! The picture of a synthesis, as SVG. It shows the longest path of each region. On the left are the
//! elements with the fields that they read and write. On the right are the questions that the program asks
//! in their place, and its single operation.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::compose::{Region, Synthesis};
use crate::longest_path::{Asked, LongestPath, fate, leased, name_of_question, said};
use program::chain::Chain;
use program::question::{LeasedProperty, Question};
use program::{Next, Node, Program};

/// The width of the page in pixels. All lengths in this file are in pixels.
const WIDTH: usize = 1000;
const MARGIN: usize = 14;
/// The width of a column of elements, including the gap. A new column begins with each network function,
/// and after [`MOST_IN_COLUMN`] elements.
const COLUMN: usize = 212;
const COLUMNS: usize = 3;
const BOX: usize = 188;
const MOST_IN_COLUMN: usize = 14;
/// The horizontal position of the questions, to the right of all columns of elements.
const QUESTIONS: usize = MARGIN + COLUMNS * COLUMN + 14;
const QUESTION: usize = WIDTH - QUESTIONS - MARGIN;
const LINE: usize = 13;
const GAP: usize = 12;
/// The assumed width of a letter, by which lines are broken: SVG has no line breaks of its own.
const LETTER: usize = 6;

const READ: &str = "#00714f";
const WRITTEN: &str = "#b54a00";
const QUIET: &str = "#666666";
const BLACK: &str = "#000000";

/// The lines of text in a box, each with its colour.
type Lines = Vec<(String, &'static str)>;

/// Returns the picture of all regions, one below the other.
pub fn svg(chain: &Chain, synthesis: &Synthesis) -> String {
    let mut sheet = Sheet { body: String::new(), bottom: MARGIN };
    for region in &synthesis.regions {
        sheet.region(chain, region);
    }
    if synthesis.regions.is_empty() {
        sheet.heading(MARGIN, "Nothing can be composed.");
    }
    let height = sheet.bottom;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"10.5\">\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"{QUIET}\"/></marker></defs>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
        sheet.body
    )
}

struct Sheet {
    body: String,
    /// The vertical position at which the next region begins.
    bottom: usize,
}

impl Sheet {
    fn region(&mut self, chain: &Chain, region: &Region) {
        let program = &region.program;
        let Some(path) = LongestPath::new(chain, program) else { return };
        self.heading(
            MARGIN,
            &format!("After {}: {} elements", chain.nodes[region.from.0].name, path.steps.len()),
        );
        let asked = path.questions(program);
        let (questions, classes) = (asked.len(), program.classes.len());
        let plural = if questions == 1 { "" } else { "s" };
        self.heading(QUESTIONS, &format!("{questions} question{plural} of {classes} classes, one operation"));
        let top = self.bottom + 2 * LINE;
        let left = self.elements(chain, &path, top);
        let right = self.questions(chain, region, &path, &asked, top);
        self.bottom = left.max(right) + 2 * GAP;
    }

    /// Draws the elements of a path, the first at the vertical position `top`. Returns the vertical
    /// position of the lowest edge.
    fn elements(&mut self, chain: &Chain, path: &LongestPath<'_>, top: usize) -> usize {
        let (mut column, mut row, mut top, mut bottom) = (0, 0, top, top);
        let mut y = top;
        let mut scope_before = None;
        let mut above: Option<(usize, usize)> = None;
        for step in &path.steps {
            let node = &chain.nodes[step.node];
            let (scope, name) = node.name.rsplit_once('/').unwrap_or(("", &node.name));
            if scope_before.is_some_and(|before| before != scope) || row == MOST_IN_COLUMN {
                (column, row) = (column + 1, 0);
                if column == COLUMNS {
                    (column, top) = (0, bottom + 2 * GAP);
                }
                y = top;
            }
            let x = MARGIN + column * COLUMN;
            if scope_before != Some(scope) && !scope.is_empty() {
                self.text(x, y + 8, scope, QUIET, "");
                y += LINE + GAP - 4;
            }
            scope_before = Some(scope);
            // A generated name (`Class@number`) contains the class, so only the class is shown.
            let title = match name.split_once('@') {
                Some((class, _)) => class.to_string(),
                None => format!("{name} :: {}", node.class),
            };
            let writes: BTreeSet<&str> = step.writes.iter().map(String::as_str).collect();
            let mut lines = wrapped(&title, BLACK, BOX);
            for (what, fields, colour) in [
                ("reads ", step.reads.iter().map(String::as_str).collect(), READ),
                ("writes ", writes, WRITTEN),
            ] {
                if !fields.is_empty() {
                    let fields: Vec<&str> = fields.into_iter().collect();
                    lines.extend(wrapped(&format!("{what}{}", fields.join(", ")), colour, BOX));
                }
            }
            if let Some(above) = above {
                self.arrow(above, (x + BOX / 2, y));
            }
            let end = self.boxed((x, y), BOX, &lines, QUIET, 2);
            above = Some((x + BOX / 2, end));
            (y, row, bottom) = (end + GAP, row + 1, bottom.max(end));
        }
        bottom
    }

    /// Draws the questions on a path and the operation below each other, from the vertical position `top`
    /// on. Returns the vertical position of the lowest edge.
    fn questions(
        &mut self,
        chain: &Chain,
        region: &Region,
        path: &LongestPath<'_>,
        asked: &[Asked<'_>],
        top: usize,
    ) -> usize {
        let mut y = top;
        let at = QUESTIONS + 2 * GAP;
        for Asked { node, next } in asked {
            let question = said(&node.question, chain, &region.program, path.network);
            let field = match leased(&node.question, chain, &region.program, path.network) {
                Some((_, field)) => field,
                None => name_of_question(&node.question, path.network),
            };
            let (on, others) = answers(node, *next, &field.unwrap_or_default());
            let mut lines = wrapped(&format!("{question}?"), READ, QUESTION);
            let fates = fates(chain, region, &others);
            if !fates.is_empty() {
                lines.extend(wrapped(&format!("else {}", fates.join(", ")), QUIET, QUESTION));
            }
            let end = self.boxed((QUESTIONS, y), QUESTION, &lines, READ, 9);
            y = end + GAP + LINE;
            self.arrow((at, end), (at, y));
            self.text(at + GAP, end + LINE + 3, &on, BLACK, "");
        }
        let writes: Vec<String> = path.writes().into_iter().collect();
        let mut lines = match &writes[..] {
            [] => wrapped("writes nothing", WRITTEN, QUESTION),
            writes => wrapped(&format!("writes {}", writes.join(", ")), WRITTEN, QUESTION),
        };
        let fate = match fate(path.class, &region.outputs, chain) {
            Ok(element) => format!("to {element}"),
            Err(reason) => format!("dropped: {reason}"),
        };
        lines.extend(wrapped(&fate, BLACK, QUESTION));
        self.boxed((QUESTIONS, y), QUESTION, &lines, WRITTEN, 2)
    }

    fn heading(&mut self, x: usize, text: &str) {
        let y = self.bottom + LINE;
        self.text(x, y, text, BLACK, " font-weight=\"bold\" font-size=\"12\"");
    }

    fn text(&mut self, x: usize, y: usize, text: &str, colour: &str, more: &str) {
        let _ =
            writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\"{more}>{}</text>", escaped(text));
    }

    /// Draws a box around lines of text, with its upper left corner at a position and with corners of
    /// radius `round`. Returns the vertical position of its lower edge.
    fn boxed(
        &mut self,
        (x, y): (usize, usize),
        width: usize,
        lines: &Lines,
        colour: &str,
        round: usize,
    ) -> usize {
        let height = lines.len() * LINE + 6;
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\" fill=\"#ffffff\" stroke=\"{colour}\"/>"
        );
        for (number, (line, colour)) in lines.iter().enumerate() {
            self.text(x + 6, y + (number + 1) * LINE, line, colour, "");
        }
        y + height
    }

    /// Draws an arrow from the lower edge of a box to the upper edge of the next: straight down, or around
    /// to the top of another column.
    fn arrow(&mut self, (from, bottom): (usize, usize), (to, top): (usize, usize)) {
        let path = if top > bottom && from == to {
            format!("M{from} {bottom}V{top}")
        } else {
            let (between, below, over) = (to.saturating_sub(BOX / 2 + 12).max(4), bottom + 6, top - 6);
            format!("M{from} {bottom}V{below}H{between}V{over}H{to}V{top}")
        };
        let _ = writeln!(
            self.body,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{QUIET}\" marker-end=\"url(#tip)\"/>"
        );
    }
}

/// Returns the answers to a question that lead to the successor `on`, as text, and all other successors of
/// the question. `field` is the name of the question's field, or empty.
fn answers(node: &Node, on: Next, field: &str) -> (String, Vec<Next>) {
    /// The maximum number of ranges of answers that the text names.
    const MOST: usize = 2;
    let (mut ranges, mut others, mut low) = (Vec::new(), Vec::new(), 0);
    for &(last, next) in &node.parts {
        match next == on {
            true if low == last => ranges.push(answer(&node.question, low, field)),
            true => {
                let [low, last] = [low, last].map(|number| answer(&node.question, number, field));
                ranges.push(format!("{low} - {last}"));
            }
            false => others.push(next),
        }
        low = last.saturating_add(1);
    }
    if others.is_empty() {
        return ("any".into(), others);
    }
    if ranges.len() > MOST {
        ranges.truncate(MOST);
        ranges.push("...".into());
    }
    (ranges.join(", "), others)
}

/// Returns an answer in the usual notation of its field, such as an address with dots.
fn answer(question: &Question, number: u128, field: &str) -> String {
    let length = match *question {
        Question::Bytes { length, .. }
        | Question::Leased { what: LeasedProperty::Bytes { length, .. }, .. } => Some(length),
        _ => None,
    };
    match (question, length) {
        (_, Some(length @ 1..=4)) if ["IP source", "IP destination"].contains(&field) => {
            let bytes = number.to_be_bytes();
            let parts: Vec<String> = bytes[16 - usize::from(length)..].iter().map(u8::to_string).collect();
            parts.join(".")
        }
        (_, Some(_)) if field.starts_with("IP version") => format!("{number:#04x}"),
        (Question::Leased { what: LeasedProperty::Output, .. }, _) => match number.checked_sub(1) {
            None => "nowhere yet".into(),
            Some(output) if output + 1 == u128::from(u16::MAX) => "any".into(),
            Some(output) => format!("output {output}"),
        },
        (Question::Length, _) if number == u128::from(u32::MAX) => "any".into(),
        _ => number.to_string(),
    }
}

/// Returns the places where packets may go from the nodes and classes in `nexts`: elements or drop reasons as
/// text, without duplicates.
fn fates(chain: &Chain, region: &Region, nexts: &[Next]) -> Vec<String> {
    let program: &Program = &region.program;
    let (mut open, mut seen, mut classes) = (nexts.to_vec(), BTreeSet::new(), BTreeSet::new());
    while let Some(next) = open.pop() {
        match next {
            Next::Class(class) => drop(classes.insert(class)),
            Next::Node(node) if seen.insert(node) => {
                let parts = program.nodes.get(node as usize).map(|node| &node.parts[..]).unwrap_or_default();
                open.extend(parts.iter().map(|(_, next)| *next));
            }
            Next::Node(_) => {}
        }
    }
    let mut fates = Vec::new();
    for class in classes.into_iter().filter_map(|class| program.classes.get(class as usize)) {
        let fate = match fate(class, &region.outputs, chain) {
            Ok(element) => format!("to {}", element.rsplit('/').next().unwrap_or_default()),
            Err(reason) => format!("dropped: {reason}"),
        };
        if !fates.contains(&fate) {
            fates.push(fate);
        }
    }
    fates
}

/// Breaks a text into lines of one colour that fit into a box of a width. A longer word is not broken.
fn wrapped(text: &str, colour: &'static str, width: usize) -> Lines {
    let most = (width - 12) / LETTER;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.into_iter().map(|line| (line, colour)).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_nothing_is_lost() {
        let text = "reads IP version, header length, a-word-that-is-longer-than-any-line-of-the-box";
        let lines = wrapped(text, BLACK, BOX);
        assert_eq!(lines.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>().join(" "), text);
        let most = (BOX - 12) / LETTER;
        assert!(lines.iter().all(|(line, _)| line.len() <= most || !line.contains(' ')), "{lines:?}");
        assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }

    #[test]
    fn answers_are_written_as_people_do() {
        let question = |offset, length| Question::Bytes { offset, length };
        let node = |question, ends: &[u128]| Node {
            question,
            parts: ends.iter().enumerate().map(|(part, &end)| (end, Next::Class(part as u32 % 2))).collect(),
        };
        let name = |node: &Node| name_of_question(&node.question, 14).unwrap_or_default();
        let shown = |node: &Node| answers(node, Next::Class(1), &name(node));
        let (on, others) = shown(&node(question(30, 4), &[0x0a00_0000, 0x0a00_00ff, u128::from(u32::MAX)]));
        assert_eq!((on.as_str(), others.len()), ("10.0.0.1 - 10.0.0.255", 2));
        // A question about the first three bytes of an address.
        assert_eq!(shown(&node(question(26, 3), &[0x0a_0000, 0x0a_0001, 0xff_ffff])).0, "10.0.1");
        assert_eq!(shown(&node(Question::Length, &[19, u128::from(u32::MAX)])).0, "20 - any");
        assert_eq!(shown(&node(question(22, 1), &[0, 1, 2, 3, 4, 255])).0, "1, 3, ...");
        let leased = |what| Question::Leased { step: 0, what };
        let bytes = node(leased(LeasedProperty::Bytes { offset: 4, length: 4 }), &[0x0a00_0000, 0x0a00_0001]);
        assert_eq!(answers(&bytes, Next::Class(1), "IP destination").0, "10.0.0.1");
        assert_eq!(shown(&node(leased(LeasedProperty::Output), &[0, 1, 65535])).0, "output 0");
        let whatever =
            Node { question: Question::Length, parts: vec![(u128::from(u32::MAX), Next::Class(1))] };
        assert_eq!(shown(&whatever).0, "any");
    }
}
