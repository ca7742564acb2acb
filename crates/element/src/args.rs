//! Typed reading of an element's arguments, with Click's rules and error texts.
//!
//! The text `NAME value` is a keyword argument if the class has an argument of that name. Of several values
//! the last counts, except for arguments that may be given any number of times. The other texts are
//! positional arguments, which are taken in the order in which the element reads its arguments. A text of the
//! form `NAME value` with an unknown name is an error, unless a mandatory argument or the list of the
//! remaining arguments takes it. Errors are collected, so that the user sees all of them at once. The element
//! is made only if all arguments are right.

mod address;
mod annotation;
mod bandwidth;
mod filter;
mod micros;
mod port;
mod real;
mod seconds;
#[cfg(test)]
mod tests;

use std::fmt;

use lang::args::split_spaces;
pub use lang::args::unquote;
use lang::{Severity, nearest};

pub use address::{Ipv4Prefix, Ipv6Prefix};
pub use annotation::{AnnotationOffset, AnyAnnotation};
pub use bandwidth::Bandwidth;
pub use filter::{PlaceNames, filter_condition};
pub use micros::Micros;
pub use port::{IpPort, TcpPort, UdpPort};
pub use real::Real;
pub use seconds::{parse_seconds, read_seconds};

use crate::ElementId;
use crate::class::{ArgKind, Class, DefaultValue};
use crate::services;
use crate::setup::{Setup, scope_of};

/// The error for invalid arguments. It has no text: the texts are in the [`Args`] that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// A complaint: an error or a warning about the arguments of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The text for the user, which says what is wrong and what was expected.
    pub text: String,
    /// Click's text, if Click has another text for the complaint: one line for each of Click's messages, and
    /// empty if Click has no message.
    pub clicks_words: Option<String>,
    /// The index of the argument that the complaint is about, among all arguments of the element. `None` if
    /// it is about several or none, or if the argument is not known.
    pub argument: Option<usize>,
    /// True if Click's text has the word `warning` already.
    is_marked: bool,
    /// True if nothing is wrong: the text is a message for the user.
    is_note: bool,
}

impl Complaint {
    /// Makes a complaint for which Click has the text `clicks_words`.
    pub fn new(text: impl Into<String>, clicks_words: impl Into<String>) -> Complaint {
        Complaint { clicks_words: Some(clicks_words.into()), ..Complaint::from(text.into()) }
    }

    /// Makes the complaint that the text of the argument `name` is not a value of the type `T`. `reason`
    /// says what is wrong and what was expected.
    pub fn wrong_value<T: ArgType>(name: &str, text: &str, reason: &str) -> Complaint {
        let clicks_words = T::clicks_words(text).map(|words| format!("{name}: {words}"));
        Complaint { clicks_words, ..format!("{name}: {reason}").into() }
    }

    /// Puts `prefix` before the text, and `clicks_prefix` before each line of Click's text (of the text, if
    /// Click has the same).
    #[must_use]
    pub fn behind(self, prefix: &str, clicks_prefix: &str) -> Complaint {
        let lines = self.clicks_words.as_ref().unwrap_or(&self.text).lines();
        let lines: Vec<String> = lines.map(|line| format!("{clicks_prefix}{line}")).collect();
        let (text, clicks_words) = (format!("{prefix}{}", self.text), lines.join("\n"));
        Complaint { clicks_words: Some(clicks_words).filter(|words| *words != text), text, ..self }
    }

    /// Returns the complaint with `warning: ` at the start of each line of Click's text, unless the word is
    /// there already. [`Args::warn`] does this for every warning. Needed for warnings that get a prefix,
    /// because Click has the word after the prefix.
    #[must_use]
    pub fn as_warning(self) -> Complaint {
        let words = self.clicks_words.as_ref().unwrap_or(&self.text);
        if words.is_empty() || self.is_marked {
            return self;
        }
        let lines: Vec<String> = words.lines().map(|line| format!("warning: {line}")).collect();
        Complaint { clicks_words: Some(lines.join("\n")), is_marked: true, ..self }
    }

    /// Returns the severity of a complaint that does not keep the graph from running.
    pub fn severity(&self) -> Severity {
        if self.is_note { Severity::Note } else { Severity::Warning }
    }

    /// Returns the complaint with an empty text of Click, for arguments that Click accepts: `tidegate click`
    /// then prints nothing.
    #[must_use]
    pub fn without_clicks_words(self) -> Complaint {
        Complaint { clicks_words: Some(String::new()), ..self }
    }
}

impl From<String> for Complaint {
    fn from(text: String) -> Complaint {
        Complaint { text, clicks_words: None, argument: None, is_marked: false, is_note: false }
    }
}

/// Returns the text for the user, without Click's text and argument, as handlers need it.
impl From<Complaint> for String {
    fn from(complaint: Complaint) -> String {
        complaint.text
    }
}

impl From<&str> for Complaint {
    fn from(text: &str) -> Complaint {
        text.to_string().into()
    }
}

/// The reader of the arguments of one element while the element is configured. It also gives the element
/// access to the state that elements share.
pub struct Args<'a> {
    /// The state that elements share while the graph is built.
    pub setup: &'a mut Setup,
    class: &'static Class,
    id: ElementId,
    shape: (usize, usize),
    /// True if output 0 is a push output in the graph, declared as push or agnostic. Also true if the element
    /// has no output.
    pushes: bool,
    given: Vec<Given>,
    /// The names of the arguments that were read by [`take`](Self::take) and had been given, and the index of
    /// each among all arguments.
    read: Vec<(&'static str, usize)>,
    /// The index of the argument that is being read by a closure; complaints are about it.
    reading: Option<usize>,
    errors: Vec<Complaint>,
    warnings: Vec<Complaint>,
}

struct Given {
    text: String,
    used: bool,
}

impl Given {
    /// Returns the name and the value of a text of the form `NAME value`; `None` for texts of other forms.
    /// The name need not be an argument of the class.
    fn keyword(&self) -> Option<(&str, &str)> {
        let text = self.text.trim_start();
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "_:.?!".contains(c)))?;
        let (name, rest) = text.split_at(end);
        let value = rest.trim();
        let first = name.chars().next()?;
        let named = (first.is_ascii_alphabetic() || first == '_') && rest.starts_with(char::is_whitespace);
        (named && !value.is_empty()).then_some((name, value))
    }
}

impl<'a> Args<'a> {
    /// Makes the reader for arguments that the parser of the language has already split at commas. `shape` is
    /// the numbers of inputs and outputs of the element. `pushes` is true if output 0 is a push output in the
    /// graph, declared as push or agnostic, or if the element has no output.
    pub fn new(
        setup: &'a mut Setup,
        class: &'static Class,
        id: ElementId,
        shape: (usize, usize),
        pushes: bool,
        given: Vec<String>,
    ) -> Args<'a> {
        let given = given.into_iter().map(|text| Given { text, used: false }).collect();
        let (read, reading, errors, warnings) = Default::default();
        Args { setup, class, id, shape, pushes, given, read, reading, errors, warnings }
    }

    /// Returns the number of the element in its graph.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Returns the name of the element in the configuration.
    pub fn name(&self) -> String {
        self.setup.elements.get(self.id).map(|e| e.0.clone()).unwrap_or_default()
    }

    /// Returns the number of inputs that the element has in its graph.
    pub fn inputs(&self) -> usize {
        self.shape.0
    }

    /// Returns the number of outputs that the element has in its graph.
    pub fn outputs(&self) -> usize {
        self.shape.1
    }

    /// True if output 0 is a push output in the graph, declared as push or agnostic. Also true if the element
    /// has no output.
    pub fn pushes(&self) -> bool {
        self.pushes
    }

    /// Reports an error in the arguments. Inside a closure that reads an argument
    /// ([`each_of`](Self::each_of)), the error is about that argument. Otherwise, if the text begins with
    /// `NAME: `, the error is about the argument of that name, if it was given and read.
    pub fn error(&mut self, complaint: impl Into<Complaint>) {
        let complaint = self.placed(complaint.into());
        self.errors.push(complaint);
    }

    /// Reports an error in the arguments for which Click has the text `clicks_words`.
    pub fn error_as(&mut self, text: impl Into<String>, clicks_words: impl Into<String>) {
        self.error(Complaint::new(text, clicks_words));
    }

    /// Reports that the value of the argument `name` is larger than `most`, the largest value that the
    /// element accepts.
    pub fn too_large(&mut self, name: &str, most: impl fmt::Display) {
        let clicks_words = format!("{name}: out of range, bound {most}");
        self.error_as(format!("{name}: too large; the most is {most}"), clicks_words);
    }

    /// Reports an error in the argument with the index `argument` among all arguments.
    pub fn error_in(&mut self, argument: usize, complaint: impl Into<Complaint>) {
        self.errors.push(Complaint { argument: Some(argument), ..complaint.into() });
    }

    /// Reports a problem that the user should know about but that does not keep the graph from running. The
    /// warning is about the argument that a closure is reading ([`each_of`](Self::each_of)). Otherwise, if
    /// the text begins with `NAME: `, it is about the argument of that name, if it was given and read.
    pub fn warn(&mut self, complaint: impl Into<Complaint>) {
        let complaint = self.placed(complaint.into());
        self.warnings.push(complaint.as_warning());
    }

    /// Shows a message to the user, although nothing is wrong. It is about the whole element.
    pub fn note(&mut self, text: impl Into<String>) {
        self.warnings.push(Complaint { is_note: true, ..Complaint::from(text.into()) });
    }

    /// Reports a problem like [`warn`](Self::warn), about the argument with the index `argument` among all
    /// arguments.
    pub fn warn_in(&mut self, argument: usize, complaint: impl Into<Complaint>) {
        let complaint = Complaint { argument: Some(argument), ..complaint.into() };
        self.warnings.push(complaint.as_warning());
    }

    /// Adds to a complaint without an index the index of the argument that it is about: the argument that
    /// is being read by a closure, or the argument that its text names.
    fn placed(&self, complaint: Complaint) -> Complaint {
        let name = complaint.text.split_once(": ").map(|(name, _)| name);
        let read = self.read.iter().rev().find(|(read, _)| Some(*read) == name);
        let argument = complaint.argument.or(self.reading).or(read.map(|&(_, argument)| argument));
        Complaint { argument, ..complaint }
    }

    /// Returns the value of the argument `name`; `None` if it was not given or is invalid, which is then
    /// reported. It is for arguments for which the class declares no default, or a default that the element
    /// computes. All others are read by [`value`](Self::value).
    pub fn get<T: ArgType>(&mut self, name: &'static str) -> Option<T> {
        if self.default_text(name).is_some() {
            self.error(format!("{name}: {} does not use the default that it declares{BUG}", self.class.name));
        }
        self.given(name)
    }

    /// Returns the value of the argument `name` or, if it is not given, the default that the class declares.
    /// If the value is invalid, this is reported and the result is of no importance:
    /// [`finish`](Self::finish) fails, so that it is never used.
    pub fn value<T: ArgType + Default>(&mut self, name: &'static str) -> T {
        // The default is parsed in any case, so that a wrong default is also found if a value is given.
        let default = self.default_of(name);
        self.given(name).or(default).unwrap_or_default()
    }

    /// True if the argument `name` was given. Only arguments that have been read already are known, without
    /// those that [`rest`](Self::rest) or [`each_of`](Self::each_of) reads. An empty positional argument does
    /// not count as given.
    pub fn was_given(&self, name: &str) -> bool {
        self.read.iter().any(|&(read, _)| read == name)
    }

    /// Returns the default that the class declares for the argument `name`. Reports an error in the class
    /// and returns `None` if it declares none or an invalid one.
    pub fn default_of<T: ArgType>(&mut self, name: &'static str) -> Option<T> {
        let Some(text) = self.default_text(name) else {
            self.error(format!("{name}: {} declares no default{BUG}", self.class.name));
            return None;
        };
        let value = T::parse(&text, &self.place());
        let wrong = |reason| format!("{name}: wrong default of {}: {reason}{BUG}", self.class.name);
        value.map_err(wrong).map_err(|text| self.error(text)).ok()
    }

    /// Returns the text of the default of the argument `name`. `None` if the class declares no default, or
    /// one that the element computes.
    fn default_text(&self, name: &str) -> Option<String> {
        match self.class.arg(name)?.default {
            DefaultValue::Text(text) => Some(text.to_string()),
            DefaultValue::Burst(clicks) => {
                Some(self.setup.burst.map_or_else(|| clicks.to_string(), |burst| burst.to_string()))
            }
            DefaultValue::None | DefaultValue::Computed(_) => None,
        }
    }

    /// Returns the value of the argument `name`; `None` if it was not given or is invalid, which is then
    /// reported.
    fn given<T: ArgType>(&mut self, name: &'static str) -> Option<T> {
        let text = self.take(name)?;
        let place = Scope { setup: self.setup, id: self.id };
        let value = T::parse(&text, &place);
        // Click leaves a parameter without a value in the text, such as `$NAME`. Only arguments whose type is
        // a plain text accept such a text as their value.
        let unknown = lang::args::parameter(&text);
        match (value, unknown) {
            (Ok(value), None) => return Some(value),
            (Ok(value), Some(unknown)) if !self.names_outside(name) => {
                if text.trim_start_matches(['$', '{', '(']).trim_end_matches(['}', ')']) == unknown {
                    let reason = without_value(unknown);
                    let text = format!("{name}: {reason}; it is taken as it stands");
                    self.warn(Complaint::from(text).without_clicks_words());
                }
                return Some(value);
            }
            (value, Some(unknown)) => {
                let reason = format!(
                    "{}; write define(${unknown} VALUE), or give {unknown}=VALUE on the command line",
                    without_value(unknown)
                );
                match value {
                    // Click has no message at this point: it accepts the text as a name, and may fail only
                    // later, when it opens the file of that name.
                    Ok(_) => self.error(format!("{name}: {reason}")),
                    Err(_) => self.error(Complaint::wrong_value::<T>(name, &text, &reason)),
                }
            }
            (Err(reason), None) => self.error(Complaint::wrong_value::<T>(name, &text, &reason)),
        }
        None
    }

    /// True if an argument names something outside of the configuration, such as a file or an interface.
    /// Names of files and interfaces are unlikely to contain a dollar sign, so that a parameter without a
    /// value is an error there.
    fn names_outside(&self, name: &str) -> bool {
        self.class.arg(name).is_some_and(|info| info.ty.contains("file") || info.ty.contains("interface"))
    }

    /// Returns the value of the argument `name`, which must be given. If it is missing or invalid, this is
    /// reported and the result is of no importance: [`finish`](Self::finish) fails, so that it is never
    /// used.
    pub fn required<T: ArgType + Default>(&mut self, name: &'static str) -> T {
        self.required_or(name, T::default())
    }

    /// Returns the value of a mandatory argument like [`required`](Self::required), for types that have no
    /// `Default`. `unused` is the result after an error.
    pub fn required_or<T: ArgType>(&mut self, name: &'static str, unused: T) -> T {
        let before = self.errors.len();
        self.get(name).unwrap_or_else(|| {
            if self.errors.len() == before {
                self.error(format!("{name}: required argument missing"));
            }
            unused
        })
    }

    /// Returns the texts of all positional arguments that are left, each with its index among all arguments.
    /// The other positional arguments of the class must have been read before.
    pub fn rest(&mut self) -> Vec<(usize, String)> {
        debug_assert!(self.class.args.iter().any(|a| a.kind == ArgKind::Rest));
        let class = self.class;
        let is_keyword = |given: &Given| given.keyword().is_some_and(|(name, _)| class.arg(name).is_some());
        let rest = self.given.iter_mut().enumerate().filter(|(_, g)| !g.used && !is_keyword(g));
        rest.map(|(number, given)| {
            given.used = true;
            (number, given.text.trim().to_string())
        })
        .collect()
    }

    /// Calls `read` for each of the positional arguments that are left ([`rest`](Self::rest)), with the
    /// index of the argument among them, from 0, and its text. Complaints that `read` reports are about that
    /// argument.
    pub fn each_of_rest(&mut self, mut read: impl FnMut(&mut Self, usize, &str)) {
        for (place, (argument, text)) in self.rest().into_iter().enumerate() {
            self.about(argument, |args| read(args, place, &text));
        }
    }

    /// Calls `read` for each value of an argument that may be given any number of times, by name or by
    /// position, in order. Complaints that `read` reports are about the argument that has the value. The
    /// other positional arguments of the class must have been read before.
    pub fn each_of(&mut self, name: &'static str, mut read: impl FnMut(&mut Self, &str)) {
        for (argument, text) in self.every(name) {
            self.about(argument, |args| read(args, &text));
        }
    }

    /// Calls `read`, and lets all complaints that it reports be about the argument with the index
    /// `argument`.
    fn about(&mut self, argument: usize, read: impl FnOnce(&mut Self)) {
        self.reading = Some(argument);
        read(self);
        self.reading = None;
    }

    /// Returns the values of an argument that may be given any number of times, each with its index among
    /// all arguments.
    fn every(&mut self, name: &'static str) -> Vec<(usize, String)> {
        let class = self.class;
        let mut values = Vec::new();
        for (number, given) in self.given.iter_mut().enumerate().filter(|(_, given)| !given.used) {
            let value = match given.keyword() {
                Some((keyword, value)) if keyword == name => value.to_string(),
                Some((keyword, _)) if class.arg(keyword).is_some() => continue,
                _ => given.text.trim().to_string(),
            };
            given.used = true;
            values.push((number, value));
        }
        values
    }

    /// Returns the text of the argument `name`, and marks it as read. It is the last text that names the
    /// argument. If none does, it is the next positional argument, for an argument of the kind `Required` or
    /// `Positional`. `None` if the argument was not given, or if the next positional argument is empty; the
    /// empty argument is then read.
    fn take(&mut self, name: &'static str) -> Option<String> {
        let Some(info) = self.class.arg(name) else {
            debug_assert!(false, "{} reads an argument {name} that its class does not list", self.class.name);
            return None;
        };
        let mut found = None;
        for (number, given) in self.given.iter_mut().enumerate() {
            if !given.used
                && let Some((keyword, value)) = given.keyword()
                && keyword == name
            {
                found = Some(value.to_string());
                given.used = true;
                self.read.push((name, number));
            }
        }
        if found.is_some() || info.kind == ArgKind::Keyword || info.kind == ArgKind::Rest {
            return found;
        }
        let class = self.class;
        let (number, place) = self.given.iter_mut().enumerate().find(|(_, g)| {
            let keyword = g.keyword().map(|(name, _)| class.arg(name).is_some());
            // A mandatory argument also takes a text of the form `NAME value` if the class has no argument
            // of that name.
            !g.used && (keyword.is_none() || (info.kind == ArgKind::Required && keyword == Some(false)))
        })?;
        place.used = true;
        if place.text.trim().is_empty() {
            return None;
        }
        self.read.push((name, number));
        Some(place.text.trim().to_string())
    }

    /// Reports the arguments that are left as unknown or too many. Call it after all arguments were read and
    /// before the element is made.
    ///
    /// # Errors
    /// If any error was reported so far; the element must then not be made.
    pub fn finish(&mut self) -> Result<(), Invalid> {
        let mut too_many = None;
        for (number, given) in self.given.iter_mut().enumerate() {
            if std::mem::replace(&mut given.used, true) {
                continue;
            }
            match given.keyword() {
                Some((name, _)) => {
                    let close = nearest(name, self.class.args.iter().map(|a| a.name));
                    let hint = close.map(|c| format!(" (did you mean {c}?)")).unwrap_or_default();
                    let text = format!("{name}: unknown argument{hint}");
                    let complaint = Complaint::new(text, format!("{name}: unknown argument"));
                    self.errors.push(Complaint { argument: Some(number), ..complaint });
                }
                None if given.text.trim().is_empty() => {}
                None => too_many = too_many.or(Some(number)),
            }
        }
        if let Some(first) = too_many {
            self.error_in(first, "too many arguments");
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Invalid) }
    }

    /// Returns the errors and the warnings that were reported.
    pub fn into_reports(self) -> (Vec<Complaint>, Vec<Complaint>) {
        (self.errors, self.warnings)
    }

    /// Returns the place of this element in the configuration, by which names in its arguments are resolved.
    pub fn place(&self) -> Scope<'_> {
        Scope { setup: self.setup, id: self.id }
    }
}

/// The end of messages about a class that contradicts itself. Tests configure elements of all classes that
/// have samples, and so find such messages.
const BUG: &str = "; this is a bug in the class, please report it";

fn without_value(parameter: &str) -> String {
    format!("the parameter ${parameter} has no value")
}

/// The place of an element in the configuration: the compound elements around it. It determines which
/// declarations of names are visible in the element's arguments and handlers.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    setup: &'a Setup,
    id: ElementId,
}

impl<'a> Scope<'a> {
    /// Makes the place of the element with the number `id`, for handlers, which parse values while the graph
    /// runs.
    pub fn new(setup: &'a Setup, id: ElementId) -> Scope<'a> {
        Scope { setup, id }
    }

    fn scope(&self) -> &str {
        self.setup.elements.get(self.id).map_or("", |e| scope_of(&e.0))
    }

    /// Returns the number of elements in the graph.
    pub fn elements(&self) -> usize {
        self.setup.elements.len()
    }

    /// Returns the port of an IP protocol that `name` means, as the configuration declares it; `None`
    /// if it declares no such name.
    pub fn port(&self, name: &str, protocol: u8) -> Option<u16> {
        self.setup.names.port(self.scope(), name, protocol)
    }

    /// Returns the port of an IP protocol that `name` means: as the configuration declares it,
    /// otherwise a well-known port or a port in the machine's list of services. `None` if the name is
    /// unknown.
    pub fn known_port(&self, name: &str, protocol: u8) -> Option<u16> {
        self.port(name, protocol).or_else(|| services::port(name, protocol))
    }

    /// Returns the number of the element that `name` means at this place: the innermost element of that
    /// name. `None` if there is none.
    pub fn element(&self, name: &str) -> Option<ElementId> {
        self.setup.find(self.scope(), name)
    }
}

/// A type of values that an argument can have.
pub trait ArgType: Sized {
    /// Parses the text of an argument.
    ///
    /// # Errors
    /// The part of the message after `NAME: `: the text and what was expected.
    fn parse(text: &str, place: &Scope<'_>) -> Result<Self, String>;

    /// Returns Click's message for a text that is not a value of the type: the part after `NAME: `. `None`
    /// if it is the same as Tidegate's, or if Click has no arguments of the type.
    fn clicks_words(_text: &str) -> Option<String> {
        Some("parse error".into())
    }
}

/// Parses the text of the argument `name`, for elements that keep the text and parse it in handlers.
///
/// # Errors
/// If the text is not a value of the type.
pub fn read_value<T: ArgType>(name: &str, text: &str, place: &Scope<'_>) -> Result<T, Complaint> {
    T::parse(text, place).map_err(|reason| Complaint::wrong_value::<T>(name, text, &reason))
}

/// Returns the message that a text is not `what`, for example "a whole number".
pub fn not_a(text: &str, what: &str) -> String {
    format!("'{}' is not {what}", text.trim())
}

/// Returns the message that a number is smaller than `least` or larger than `most`. Negative numbers count
/// as too small.
pub fn out_of_range(text: &str, least: impl fmt::Display, most: impl fmt::Display) -> String {
    match text.trim().starts_with('-') {
        true => format!("{} is too small; the least is {least}", text.trim()),
        false => format!("{} is too large; the most is {most}", text.trim()),
    }
}

impl ArgType for bool {
    fn parse(text: &str, _: &Scope<'_>) -> Result<bool, String> {
        parse_bool(text).ok_or_else(|| format!("'{}' is neither true nor false", text.trim()))
    }
}

/// Parses a truth value: `true`/`false`, `yes`/`no`, `y`/`n`, `t`/`f`, `1`/`0`. `None` for other texts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "true" | "yes" | "y" | "t" => Some(true),
        "0" | "false" | "no" | "n" | "f" => Some(false),
        _ => None,
    }
}

/// The reason for which a text was not accepted as an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadInteger {
    /// The text is not an integer.
    Invalid,
    /// The integer is too large or too small.
    OutOfRange,
}

/// Parses an integer as Click writes it: an optional sign, `0x` for hexadecimal, `0b` for binary, leading
/// `0` for octal, `_` between digits.
///
/// # Errors
/// If the text is not an integer, or if the integer does not fit into 128 bits.
pub fn parse_integer(text: &str) -> Result<i128, BadInteger> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let well_placed = digits.as_bytes().split(|&b| b == b'_').all(|part| !part.is_empty());
    if !well_placed || !digits.bytes().all(|b| b == b'_' || (b as char).is_digit(radix)) {
        return Err(BadInteger::Invalid);
    }
    let plain: String = digits.chars().filter(|&c| c != '_').collect();
    let value = i128::from_str_radix(&plain, radix).map_err(|_| BadInteger::OutOfRange)?;
    Ok(if negative { -value } else { value })
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl ArgType for $ty {
            fn parse(text: &str, _: &Scope<'_>) -> Result<$ty, String> {
                match parse_integer(text) {
                    Ok(value) => {
                        <$ty>::try_from(value).map_err(|_| out_of_range(text, <$ty>::MIN, <$ty>::MAX))
                    }
                    Err(BadInteger::OutOfRange) => Err(out_of_range(text, <$ty>::MIN, <$ty>::MAX)),
                    Err(BadInteger::Invalid) => Err(not_a(text, "a whole number")),
                }
            }

            fn clicks_words(text: &str) -> Option<String> {
                let is_low = match parse_integer(text) {
                    // Click accepts no minus sign for unsigned numbers: the text is then invalid, not out of
                    // range.
                    Ok(value) if <$ty>::MIN == 0 && value < 0 => return Some("invalid number".into()),
                    Ok(value) if <$ty>::try_from(value).is_ok() => return None,
                    Err(BadInteger::Invalid) => return Some("invalid number".into()),
                    Ok(value) => value < 0,
                    Err(BadInteger::OutOfRange) => text.trim().starts_with('-'),
                };
                Some(format!("out of range, bound {}", if is_low { <$ty>::MIN } else { <$ty>::MAX }))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i32, i64);

impl ArgType for f64 {
    fn parse(text: &str, _: &Scope<'_>) -> Result<f64, String> {
        parse_real(text).ok_or_else(|| not_a(text, "a number"))
    }

    fn clicks_words(_text: &str) -> Option<String> {
        Some("invalid number".into())
    }
}

/// Parses a finite decimal number with optional sign, fraction and exponent; each `_` is ignored. `None` for
/// other texts.
pub fn parse_real(text: &str) -> Option<f64> {
    let plain = text.trim().replace('_', "");
    let numeric = plain.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    plain.parse().ok().filter(|v: &f64| numeric && v.is_finite())
}

/// The value is one word, or a quoted string without its quotes.
impl ArgType for String {
    fn parse(text: &str, _: &Scope<'_>) -> Result<String, String> {
        match split_spaces(text).len() {
            1 => Ok(unquote(text)),
            _ => Err(not_a(text, "one word; put it in quotes")),
        }
    }
}

/// The text of an argument without any change, for elements that parse it themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub String);

impl ArgType for Raw {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Raw, String> {
        Ok(Raw(text.to_string()))
    }
}

/// The bytes of one word or of a quoted string; the escapes `\<hex>` give any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl ArgType for Bytes {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bytes, String> {
        match split_spaces(text).len() {
            1 => Ok(Bytes(lang::args::unquote_bytes(text))),
            _ => Err(not_a(text, "one word; put it in quotes")),
        }
    }
}

/// A reference to another element: its number. It is written as the element's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementRef(pub ElementId);

impl ArgType for ElementRef {
    fn parse(text: &str, place: &Scope<'_>) -> Result<ElementRef, String> {
        place.element(text.trim()).map(ElementRef).ok_or_else(|| {
            let names = place.setup.elements.iter().map(|(name, _)| name.as_str());
            let near = nearest(text.trim(), names).map(|near| format!("; did you mean '{near}'?"));
            not_a(text, "the name of an element") + &near.unwrap_or_default()
        })
    }

    fn clicks_words(_text: &str) -> Option<String> {
        Some("does not name an element".into())
    }
}
