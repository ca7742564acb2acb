//! Replaces parameters by their values: `$name`, `${name}`, `${name[index]}` and `${name-default}` in
//! configuration strings (click(5), "Configuration parameters" and "Parameter definitions").

use std::collections::HashMap;
use std::rc::Rc;

use crate::args;
use crate::diagnostic::Diagnostic;
use crate::graph::{Origin, Parameters};
use crate::lexer::parameter_length;
use crate::program::{Define, FormalKind, Program, SlotKind, Template, TemplateId};
use crate::scan::{self, Kind};
use crate::source::{Sources, Span};

/// The largest number of definitions of which each uses the next; longer chains are reported as circles.
const MAX_DEPTH: usize = 100;

/// The largest length in bytes of a text after its parameters are replaced by their values. For a text that
/// is longer already, its own length is the limit.
const MAX_TEXT: usize = 16 << 20;

/// The values of the parameters that can be used inside one instance of a template (the file, or one
/// alternative of a compound element).
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) template: TemplateId,
    values: HashMap<String, Rc<str>>,
    /// The parameters of the scope in which the template is defined; `None` if the template is the file.
    parent: Option<Rc<Environment>>,
}

impl Environment {
    /// Makes the environment of an instance from its arguments and the definitions of its template.
    /// Definitions may use each other in any order; circles are errors.
    pub(crate) fn new(
        template: TemplateId,
        arguments: HashMap<String, Rc<str>>,
        defines: &[Define],
        parent: Option<Rc<Environment>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Environment {
        let mut definitions = Definitions {
            defines: defines.iter().map(|define| (define.name.as_str(), define)).collect(),
            values: arguments,
            active: Vec::new(),
            parent,
            diagnostics,
        };
        for define in defines {
            definitions.value(&define.name);
        }
        Environment { template, values: definitions.values, parent: definitions.parent }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Rc<str>> {
        match (self.values.get(name), &self.parent) {
            (Some(value), _) => Some(Rc::clone(value)),
            (None, Some(parent)) => parent.get(name),
            (None, None) => None,
        }
    }

    /// Returns the environment of the template `template`: this environment, or an environment around it;
    /// `None` if neither this environment nor any around it is of that template.
    pub(crate) fn of_template(self: &Rc<Self>, template: Option<TemplateId>) -> Option<Rc<Environment>> {
        let mut environment = Some(self);
        while let Some(found) = environment {
            if Some(found.template) == template {
                return Some(Rc::clone(found));
            }
            environment = found.parent.as_ref();
        }
        None
    }
}

struct Definitions<'a> {
    defines: HashMap<&'a str, &'a Define>,
    values: HashMap<String, Rc<str>>,
    /// The names of the definitions that are being evaluated, each used by the definition before it.
    active: Vec<&'a str>,
    parent: Option<Rc<Environment>>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Definitions<'_> {
    fn value(&mut self, name: &str) -> Option<Rc<str>> {
        if let Some(value) = self.values.get(name) {
            return Some(Rc::clone(value));
        }
        let outer = self.parent.as_ref().and_then(|parent| parent.get(name));
        let Some(&define) = self.defines.get(name) else { return outer };
        if outer.is_some() && self.active.contains(&name) {
            // A definition that uses its own name uses the parameter of the scope around it.
            return outer;
        }
        if self.active.len() >= MAX_DEPTH || self.active.contains(&name) {
            let error =
                Diagnostic::error(define.span, format!("parameter '${name}' defined in terms of itself"));
            error.with_hint("write its value here").add_to(self.diagnostics);
            return None;
        }
        self.active.push(&define.name);
        let value: Rc<str> = match substitute(&define.value, Span::default(), &mut |name| self.value(name)) {
            Ok(substituted) => substituted.text.into(),
            Err(TooLong) => {
                too_long(define.span).add_to(self.diagnostics);
                "".into()
            }
        };
        self.active.pop();
        self.values.insert(name.to_owned(), Rc::clone(&value));
        Some(value)
    }
}

/// The error that a text is too long after substitution ([`MAX_TEXT`]).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

pub(crate) fn too_long(span: Span) -> Diagnostic {
    Diagnostic::error(span, "configuration string too long after substitution")
        .with_hint("parameters that repeat each other grow without bound")
}

/// A text with its parameters replaced, and the places from which its parts were taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Substituted {
    pub(crate) text: String,
    pub(crate) origins: Vec<Origin>,
}

/// Replaces the parameters in `text` by their values, which `lookup` returns. `span` is the place of the
/// text. A parameter that has neither a value nor a default stays as it is, because scripts have variables
/// of their own. So do parameters in single quotes and comments. Inside double quotes, the quotes of a value
/// are escaped. Line directives are removed, because they are for the text from which `text` was taken.
pub(crate) fn substitute(
    text: &str,
    span: Span,
    lookup: &mut dyn FnMut(&str) -> Option<Rc<str>>,
) -> Result<Substituted, TooLong> {
    substitute_inside(text, span, lookup, 0)
}

/// The largest number of references inside of each other whose parameters are replaced, as in Click.
const DEEPEST: usize = 10;

/// Does the work of [`substitute`] for a text inside of `depth` references.
fn substitute_inside(
    text: &str,
    span: Span,
    lookup: &mut dyn FnMut(&str) -> Option<Rc<str>>,
    depth: usize,
) -> Result<Substituted, TooLong> {
    let mut substitution =
        Substitution { text, span, copied: 0, out: Substituted::default(), is_over: false, lookup, depth };
    for piece in scan::pieces(text) {
        match piece.kind {
            Kind::Plain if text.as_bytes().get(piece.start) != Some(&b'$') => {}
            Kind::Plain | Kind::Data => substitution.run(piece.start, piece.end, false)?,
            Kind::Double => substitution.run(piece.start, piece.end, true)?,
            Kind::Single | Kind::Comment => {}
            Kind::Directive => substitution.leave_out(piece.start, piece.end)?,
        }
    }
    substitution.copy_to(text.len())?;
    Ok(substitution.out)
}

struct Substitution<'a> {
    text: &'a str,
    span: Span,
    /// The offset in `text` up to which it has been copied or replaced.
    copied: usize,
    out: Substituted,
    /// True after a `${` or `$(` that is not closed: the rest of the text has no references.
    is_over: bool,
    lookup: &'a mut dyn FnMut(&str) -> Option<Rc<str>>,
    /// The number of references around the text.
    depth: usize,
}

impl<'a> Substitution<'a> {
    /// Replaces the parameters whose references start between the offsets `at` and `end`. `quoted` is true
    /// inside double quotes.
    fn run(&mut self, mut at: usize, end: usize, quoted: bool) -> Result<(), TooLong> {
        let text: &'a str = self.text;
        // The default of a reference that starts ahead of `at` can extend beyond `at`. Such bytes have been
        // replaced already.
        at = at.max(self.copied);
        while at < end && !self.is_over {
            match text.as_bytes().get(at) {
                Some(b'\\') if quoted => at += 2,
                Some(b'$') => match reference_end(text, at) {
                    Some(end) => {
                        self.replace(at, end, quoted)?;
                        at = end;
                    }
                    // As in Click, nothing after a `${` or `$(` that is not closed is a reference.
                    None if matches!(text.as_bytes().get(at + 1), Some(b'{' | b'(')) => self.is_over = true,
                    None => at += 1,
                },
                _ => at += 1,
            }
        }
        Ok(())
    }

    /// Replaces the reference between the offsets `start` and `end`. Parameters inside its braces or
    /// parentheses are replaced first, so that a parameter can be an index. A reference without value and
    /// default remains, with the parameters inside it replaced.
    fn replace(&mut self, start: usize, end: usize, quoted: bool) -> Result<(), TooLong> {
        let text: &'a str = self.text;
        let whole = text.get(start + 1..end).unwrap_or("");
        let within = |whole: &'a str| whole.get(1..whole.len() - 1).unwrap_or("");
        let (inside, [open, close]) = match whole.as_bytes().first() {
            Some(b'{') => (within(whole), ["{", "}"]),
            Some(b'(') => (within(whole), ["(", ")"]),
            _ => (whole, ["", ""]),
        };
        let has_inner = inside.contains('$');
        let inner = match has_inner && self.depth < DEEPEST {
            true => substitute_inside(inside, Span::default(), self.lookup, self.depth + 1)?.text,
            false => inside.to_owned(),
        };
        let value = match open {
            // In a script, parentheses are also for handlers. So they are for a parameter only if they have
            // its name and nothing else.
            "(" if inner.is_empty() || parameter_length(inner.as_bytes()) < inner.len() => None,
            "(" => (self.lookup)(&inner),
            _ => evaluate(&inner, self.lookup),
        };
        let value: Rc<str> = match value {
            Some(value) if quoted => args::escape(value.as_bytes()).into(),
            Some(value) => value,
            None if has_inner => ["$", open, &inner, close].concat().into(),
            None => return Ok(()),
        };
        self.copy_to(start)?;
        self.push(&value, start, end, false)?;
        self.copied = end;
        Ok(())
    }

    /// Copies the text up to the offset `start`, and leaves out what comes then up to the offset `end`.
    fn leave_out(&mut self, start: usize, end: usize) -> Result<(), TooLong> {
        // The default of a reference can extend beyond `start`, and has been replaced already.
        if start >= self.copied {
            self.copy_to(start)?;
            self.copied = end;
        }
        Ok(())
    }

    fn copy_to(&mut self, end: usize) -> Result<(), TooLong> {
        let start = self.copied;
        self.copied = end;
        self.push(self.text.get(start..end).unwrap_or(""), start, end, true)
    }

    fn push(&mut self, part: &str, start: usize, end: usize, verbatim: bool) -> Result<(), TooLong> {
        if part.is_empty() {
            return Ok(());
        }
        if self.out.text.len() + part.len() > MAX_TEXT.max(self.text.len()) {
            return Err(TooLong);
        }
        let span = Span { start: self.span.start + start, end: self.span.start + end, ..self.span };
        self.out.origins.push(Origin { at: self.out.text.len(), span, verbatim });
        self.out.text.push_str(part);
        Ok(())
    }
}

/// Returns the offset after the reference, `$name`, `${...}` or `$(...)`, whose dollar sign is at offset
/// `at`; `None` if the dollar sign starts no reference. Braces end at the first closing brace, parentheses at
/// the closing one of the pair.
fn reference_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at + 1..)?;
    let length = match rest.as_bytes().first()? {
        b'{' => rest.find('}')? + 1,
        b'(' => closed(rest)?,
        _ => Some(parameter_length(rest.as_bytes())).filter(|&length| length > 0)?,
    };
    Some(at + 1 + length)
}

/// Returns the length of the pair of parentheses with which a text begins, with what they contain; `None` if
/// they are not closed.
fn closed(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut bytes = (1..).zip(text.bytes());
    let end = bytes.find(|&(_, byte)| {
        depth += match byte {
            b'(' => 1,
            b')' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map(|(length, _)| length)
}

/// Returns the value of a reference, of which `inside` is the text in its braces: `name`, `name[index]`, or
/// one of them with a default, `name-default`. An index, from 0, chooses one of the words of the value;
/// beyond the last word the value is empty. `None` if the parameter has no value and there is no default.
fn evaluate(inside: &str, lookup: &mut dyn FnMut(&str) -> Option<Rc<str>>) -> Option<Rc<str>> {
    let inside = inside.trim_start();
    let (name, rest) = inside.split_at(parameter_length(inside.as_bytes()));
    let mut rest = rest.trim_start();
    let mut index = None;
    if let Some((number, after)) = rest.strip_prefix('[').and_then(|text| text.split_once(']'))
        && let Some(number) = parse_index(number.trim_start())
    {
        (index, rest) = (number, after.trim_start());
    }
    match (lookup(name), index) {
        (Some(value), None) => Some(value),
        (Some(value), Some(index)) => {
            let word = args::split_spaces(&value).into_iter().nth(index);
            Some(word.map_or_else(|| "".into(), |word| word.text.into()))
        }
        (None, _) => rest.strip_prefix('-').map(Rc::from),
    }
}

/// Parses an index: decimal, hexadecimal with `0x`, or octal with `0`. The index is `None` for a negative
/// number, which chooses no word. Returns `None` if the text is no number.
fn parse_index(text: &str) -> Option<Option<usize>> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = usize::from_str_radix(digits, radix).ok().filter(|_| are_digits)?;
    Some(Some(number).filter(|_| !is_negative))
}

/// Returns the names of the parameters that occur in a text outside of single quotes and comments.
fn references(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    if text.contains('$') {
        let mut note = |name: &str| {
            names.push(name.to_owned());
            None
        };
        // `references` needs only the names, so an error about the length is ignored.
        let _ = substitute(text, Span::default(), &mut note);
    }
    names
}

/// Returns the parameters of a configuration whose values can be set from outside of it. `program` is the
/// configuration with all names looked up.
pub(crate) fn of_program(program: &Program, sources: &Sources) -> Parameters {
    let defined = program.templates.first().map(|file| file.defines.iter().map(|d| d.name.clone()).collect());
    let mut parameters = Parameters { defined: defined.unwrap_or_default(), ..Parameters::default() };
    for template in &program.templates {
        for slot in &template.slots {
            if let SlotKind::Element { config: Some(config), .. } = slot.kind {
                let names = references(sources.slice(config));
                let outer = |name: &String| is_from_outside(program, Some(template), name);
                parameters.mentioned.extend(names.into_iter().filter(outer));
            }
        }
        for define in &template.defines {
            let parent = template.parent.and_then(|parent| program.templates.get(parent));
            let outer = |name: &String| {
                // A definition that uses its own name uses the parameter of the scope around it.
                let scope = if *name == define.name { parent } else { Some(template) };
                is_from_outside(program, scope, name)
            };
            parameters.mentioned.extend(references(&define.value).into_iter().filter(outer));
        }
    }
    parameters
}

/// True if neither `template` nor a compound element around it defines the parameter `name`, so that its
/// value comes from the file or from outside.
fn is_from_outside<'p>(program: &'p Program, mut template: Option<&'p Template>, name: &str) -> bool {
    while let Some(here) = template {
        let Some(parent) = here.parent else { return true };
        let is_bound = here.formals.iter().any(|formal| formal.name == name)
            || here.defines.iter().any(|define| define.name == name);
        if is_bound {
            return false;
        }
        template = program.templates.get(parent);
    }
    false
}

/// The reason for which arguments do not fit the parameters of a compound element.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    TooFew,
    TooMany,
    /// No argument starts with this keyword.
    Missing(String),
}

/// Assigns arguments to the parameters of a compound element. Returns the values of parameters by name, and
/// the mismatch if arguments and parameters do not fit. Even then, it returns the values of all parameters
/// that have one.
pub(crate) fn bind(template: &Template, args: &[String]) -> (HashMap<String, Rc<str>>, Option<Mismatch>) {
    let mut values: HashMap<String, Rc<str>> = HashMap::new();
    let mut others = Vec::new();
    for arg in args {
        let (word, rest) = arg.split_at(arg.find(|c: char| c.is_ascii_whitespace()).unwrap_or(arg.len()));
        let is_keyword = |formal: &&crate::program::Formal| matches!(&formal.kind, FormalKind::Keyword(keyword) if keyword == word);
        match template.formals.iter().find(is_keyword) {
            Some(formal) => {
                values.insert(formal.name.clone(), rest.trim().into());
            }
            None => others.push(arg.as_str()),
        }
    }
    let mut others = others.into_iter();
    let mut mismatch = None;
    for formal in &template.formals {
        match &formal.kind {
            FormalKind::Positional => match others.next() {
                Some(arg) => {
                    values.insert(formal.name.clone(), arg.into());
                }
                None => mismatch = Some(Mismatch::TooFew),
            },
            FormalKind::Keyword(keyword) => {
                if !values.contains_key(&formal.name) && mismatch.is_none() {
                    mismatch = Some(Mismatch::Missing(keyword.clone()));
                }
            }
            FormalKind::Rest => {
                values.insert(formal.name.clone(), args::join(others.by_ref()).into());
            }
        }
    }
    if others.next().is_some() {
        mismatch.get_or_insert(Mismatch::TooMany);
    }
    (values, mismatch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Formal;
    use proptest::prelude::*;

    fn run(text: &str) -> String {
        let mut lookup = |name: &str| match name {
            "a" => Some(Rc::from("1")),
            "q" => Some(Rc::from("\"x y\"")),
            "w" => Some(Rc::from("one \"t wo\" three")),
            _ => None,
        };
        substitute(text, Span::default(), &mut lookup).map_or("too long".to_owned(), |out| out.text)
    }

    #[test]
    fn references() {
        assert_eq!(run("$a ${a}b $ab ${b-2} ${a-2} $ $[a] ${ ${a $(a)"), "1 1b $ab 2 1 $ $[a] ${ ${a $(a)");
        assert_eq!(run("'$a' \"$a\" /* $a */ \\<$a> // $a\n$a"), "'$a' \"1\" /* $a */ \\<1> // $a\n1");
        assert_eq!(run("${b-'}'} $a"), "''} 1", "a default ends at the first brace");
        assert_eq!(run("${b-} $a"), " 1");
        assert_eq!(run("${b-$a} ${b-${c-d}} ${b$a}"), "1 ${c-d} ${b1}", "what is inside is replaced first");
    }

    #[test]
    fn parentheses_are_for_a_name_alone() {
        assert_eq!(
            run("$(a) \"x$(a)_\" '$(a)' $(b) $( a ) $(a-2) $(w[0])"),
            "1 \"x1_\" '$(a)' $(b) $( a ) $(a-2) $(w[0])"
        );
        assert_eq!(run("$(add $(a) ${a} $a) $($n) $((a)) ${b-$(a)}"), "$(add 1 1 1) $($n) $((a)) 1");
        assert_eq!(run("$(q) \"$(q)\""), r#""x y" "\"x y\"""#);
        assert_eq!(run("$a $(b $a $(a)"), "1 $(b $a $(a)", "nothing is replaced after what is not closed");
        let nested = |depth: usize| ["$(".repeat(depth), "$a".into(), ")".repeat(depth)].concat();
        assert_eq!(run(&nested(10)), nested(10).replace("$a", "1"));
        assert_eq!(run(&nested(100_000)), nested(100_000));
    }

    #[test]
    fn indexes_choose_words() {
        assert_eq!(run("${w[0]} ${w[$a]} ${ w [ 2] } ${w[3]}."), "one \"t wo\" three .");
        assert_eq!(run("\"${w[0]}\" ${w[0]-x} ${b[0]-x} ${b[0]}"), "\"one\" one x ${b[0]}");
        assert_eq!(run("${a[-1]} ${a[x]} ${a[]} ${a[0x0]} ${a[00]}"), "1 1 1 1 1");
    }

    #[test]
    fn values_keep_their_quotes_inside_quotes() {
        assert_eq!(run("$q \"$q\" \"\\$q\""), r#""x y" "\"x y\"" "\$q""#);
    }

    #[test]
    fn origins_point_at_text_and_reference() {
        let span = Span { start: 100, end: 106, ..Span::default() };
        let out = substitute("x $a y", span, &mut |_| Some("value".into())).unwrap_or_default();
        let origins: Vec<_> =
            out.origins.iter().map(|o| (o.at, o.span.start, o.span.end, o.verbatim)).collect();
        assert_eq!(out.text, "x value y");
        assert_eq!(origins, [(0, 100, 102, true), (2, 102, 104, false), (7, 104, 106, true)]);
    }

    fn define(name: &str, value: &str) -> Define {
        Define { name: name.into(), value: value.into(), span: Span::default() }
    }

    #[test]
    fn definitions_name_each_other_in_any_order() {
        let defines = [define("a", "$b$c"), define("b", "1"), define("c", "${b}2"), define("x", "$x/x")];
        let mut errors = Vec::new();
        let outer =
            Environment::new(0, HashMap::from([("x".to_owned(), "out".into())]), &[], None, &mut errors);
        let inner = Environment::new(1, HashMap::new(), &defines, Some(Rc::new(outer)), &mut errors);
        assert_eq!(inner.get("a").as_deref(), Some("112"));
        assert_eq!(inner.get("x").as_deref(), Some("out/x"), "its own name means the outer parameter");
        assert_eq!(errors, []);
    }

    #[test]
    fn circles_and_explosions_are_errors() {
        let mut errors = Vec::new();
        let circle = [define("a", "$b"), define("b", "$a")];
        Environment::new(0, HashMap::new(), &circle, None, &mut errors);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].message, "parameter '$a' defined in terms of itself");
        let double = |n: usize| define(&format!("v{n}"), &format!("$v{}$v{}", n + 1, n + 1));
        let mut bomb: Vec<_> = (0..60).map(double).collect();
        bomb.push(define("v60", "x"));
        errors.clear();
        Environment::new(0, HashMap::new(), &bomb, None, &mut errors);
        assert!(errors.iter().any(|error| error.message.contains("too long")));
        let chain: Vec<_> = (0..5000).map(|n| define(&format!("v{n}"), &format!("$v{}", n + 1))).collect();
        Environment::new(0, HashMap::new(), &chain, None, &mut errors);
    }

    fn template() -> Template {
        let formal = |name: &str, kind| Formal { name: name.into(), kind };
        let formals = vec![
            formal("a", FormalKind::Positional),
            formal("size", FormalKind::Keyword("SIZE".into())),
            formal("rest", FormalKind::Rest),
        ];
        Template { formals, ..Template::default() }
    }

    fn bound(args: &[&str]) -> (Vec<(String, String)>, Option<Mismatch>) {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        let (values, mismatch) = bind(&template(), &args);
        let mut values: Vec<_> = values.into_iter().map(|(name, value)| (name, value.to_string())).collect();
        values.sort();
        (values, mismatch)
    }

    #[test]
    fn arguments_are_bound_by_position_keyword_and_rest() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let all = pairs(&[("a", "1"), ("rest", "2, MODE fast"), ("size", "64")]);
        assert_eq!(bound(&["1", "2", "SIZE 64", "MODE fast"]), (all, None));
        assert_eq!(bound(&["SIZE 64"]).1, Some(Mismatch::TooFew));
        assert_eq!(bound(&["1"]).1, Some(Mismatch::Missing("SIZE".into())));
        let mut short = template();
        short.formals.pop();
        let args: Vec<String> = ["1", "2", "SIZE 64"].map(str::to_owned).into();
        assert_eq!(bind(&short, &args).1, Some(Mismatch::TooMany));
    }

    proptest! {
        #[test]
        fn any_text_substitutes(text in "[a-z$\\{}\"'/*<>\\\\ é-]*") {
            run(&text);
        }
    }
}
