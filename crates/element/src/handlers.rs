//! Tables of handlers: each class lists its handlers together with the functions that answer them.
//!
//! The table of a class is a constant in the element's file. Each entry has the name of a handler and typed
//! functions of the element, so that no name can be declared without an answer:
//!
//! ```
//! use element::Handler;
//! # struct Counter { count: u64, active: bool }
//! const HANDLERS: &[Handler<Counter>] = &[
//!     Handler::count("count", |e| e.count),
//!     Handler::act("reset", |e| e.count = 0),
//!     Handler::flag("active", |e| &mut e.active, "expected boolean"),
//! ];
//! ```
//!
//! The class refers to the table (`table: &HANDLERS`), or to a list of tables if it has some of its handlers
//! in common with other classes (`table: &[OWN, COMMON]`). The engine looks a handler up by its name at each
//! call of the handler.
//!
//! Some entries describe handlers that depend on an element's arguments: a handler that not every element
//! has ([`Handler::only_if`]), one handler per port or pattern ([`Handler::numbered`]), or handlers whose
//! names the arguments contain ([`Handler::named`], [`Handler::any`]).

use std::any::Any;
use std::slice;

use crate::args::parse_bool;
use crate::class::{ANY_HANDLER, Access, HandlerInfo, HandlerTable, Merge};
use crate::{Class, Cx, Element, Metric};

/// A handler of elements of the type `E`: its description, and the functions that answer reads and writes.
/// If the handlers depend on the element's arguments, one entry may describe several of them.
pub struct Handler<E> {
    info: HandlerInfo,
    names: Names<E>,
    read: Read<E>,
    write: Write<E>,
}

/// The names of the handlers that an entry describes.
enum Names<E> {
    /// The name of the entry.
    One,
    /// The name of the entry, if the function returns true for the element.
    OnlyIf(fn(&E) -> bool),
    /// The name of the entry followed by a number: each number less than the number that the function
    /// returns.
    Numbered(fn(&E) -> usize),
    /// The names that the function returns.
    Listed(fn(&E) -> Vec<String>),
    /// All names, if the function returns true for the element.
    Any(fn(&E) -> bool),
}

/// The way in which a handler answers reads.
enum Read<E> {
    Nothing,
    Count(fn(&E) -> u64),
    Get(fn(&E) -> String),
    Answer(Answer<E>),
    /// Computes the answer from the parameter alone.
    Function(fn(&str) -> Result<String, String>),
    Flag(fn(&mut E) -> &mut bool),
    Nth(Nth<E>),
    Any(AnyAnswer<E>),
}

/// The way in which a handler executes writes.
enum Write<E> {
    Nothing,
    Act(fn(&mut E)),
    Set(Set<E>),
    /// Parses a truth value and stores it in the field that the function returns. The text is the error for
    /// other values.
    Flag(fn(&mut E) -> &mut bool, &'static str),
    SetNth(SetNth<E>),
    Any(AnySet<E>),
}

/// A function that answers a read handler. Its arguments are the element, the context and the parameter of
/// the read. An error is a text for the user.
pub type Answer<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<String, String>;
/// A function that executes a write handler. Its arguments are the element, the context and the value that
/// is written. An error is a text for the user.
pub type Set<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<(), String>;
/// A function that returns the value of a read handler among several handlers. The last argument is the
/// number of the handler.
pub type Nth<E> = fn(&E, &Cx<'_>, usize) -> String;
/// A function that executes a write handler among several handlers. Its last arguments are the number of the
/// handler and the value that is written. An error is a text for the user.
pub type SetNth<E> = fn(&mut E, &mut Cx<'_>, usize, &str) -> Result<(), String>;
/// A function that answers read handlers of any name. Its last arguments are the name of the handler and the
/// parameter of the read. An error is a text for the user.
pub type AnyAnswer<E> = fn(&mut E, &mut Cx<'_>, &str, &str) -> Result<String, String>;
/// A function that executes write handlers of any name. Its last arguments are the name of the handler and
/// the value that is written. An error is a text for the user.
pub type AnySet<E> = fn(&mut E, &mut Cx<'_>, &str, &str) -> Result<(), String>;

impl<E> Handler<E> {
    const fn reads(info: HandlerInfo, read: Read<E>) -> Handler<E> {
        Handler { info, names: Names::One, read, write: Write::Nothing }
    }

    const fn writes(name: &'static str, write: Write<E>) -> Handler<E> {
        Handler { write, ..Handler::reads(HandlerInfo::write(name), Read::Nothing) }
    }

    /// A read handler whose value `get` returns. The value of one worker's copy of the element is shown
    /// ([`Merge::First`]).
    pub const fn get(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Get(get))
    }

    /// A read handler for a count, which `count` returns. The counts of several workers are added.
    pub const fn count(name: &'static str, count: fn(&E) -> u64) -> Handler<E> {
        Handler::reads(HandlerInfo::count(name), Read::Count(count))
    }

    /// A read handler for a list, whose lines `get` returns. The lines of several workers become one list.
    pub const fn list(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::list(name), Read::Get(get))
    }

    /// A handler for reads and writes: `get` returns its value, and `set` executes writes.
    pub const fn data(name: &'static str, get: fn(&E) -> String, set: Set<E>) -> Handler<E> {
        Handler { write: Write::Set(set), ..Handler::reads(HandlerInfo::both(name), Read::Get(get)) }
    }

    /// A handler like [`data`](Self::data) whose value is the argument `argument` of the element: after a
    /// write, the handler `config` shows the written text as this argument.
    pub const fn argument(
        name: &'static str,
        argument: &'static str,
        get: fn(&E) -> String,
        set: Set<E>,
    ) -> Handler<E> {
        let data = Handler::data(name, get, set);
        Handler { info: HandlerInfo { argument: Some(argument), ..data.info }, ..data }
    }

    /// A read handler whose value `answer` returns. Unlike in [`get`](Self::get), the function may use the
    /// context, change the element, and fail.
    pub const fn read(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Answer(answer))
    }

    /// A read handler with a parameter, which `answer` gets.
    pub const fn read_param(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read_param(name), Read::Answer(answer))
    }

    /// A write handler that `set` executes with the value that is written.
    pub const fn set(name: &'static str, set: Set<E>) -> Handler<E> {
        Handler::writes(name, Write::Set(set))
    }

    /// A write handler that calls `act`, whatever the value that is written.
    pub const fn act(name: &'static str, act: fn(&mut E)) -> Handler<E> {
        Handler::writes(name, Write::Act(act))
    }

    /// A handler that reads and writes the truth value to which `flag` refers. A write of another value
    /// fails with the text `error`.
    pub const fn flag(name: &'static str, flag: fn(&mut E) -> &mut bool, error: &'static str) -> Handler<E> {
        let reads = Handler::reads(HandlerInfo::both(name), Read::Flag(flag));
        Handler { write: Write::Flag(flag, error), ..reads }
    }

    /// A read handler with a parameter, whose answer `function` computes from the parameter alone.
    pub const fn function(name: &'static str, function: fn(&str) -> Result<String, String>) -> Handler<E> {
        Handler::reads(HandlerInfo::read_param(name), Read::Function(function))
    }

    /// The handlers `name0`, `name1` and so on, for reads and writes. `count` returns the number of these
    /// handlers, `get` the value of one of them; `set` executes writes to one of them.
    pub const fn numbered(
        name: &'static str,
        count: fn(&E) -> usize,
        get: Nth<E>,
        set: SetNth<E>,
    ) -> Handler<E> {
        let (info, names) = (HandlerInfo::both(name), Names::Numbered(count));
        Handler { info, names, read: Read::Nth(get), write: Write::SetNth(set) }
    }

    /// The read handlers whose names `names` returns. `get` returns the value of one of them; its last
    /// argument is the index of the name among the names.
    pub const fn named(names: fn(&E) -> Vec<String>, get: Nth<E>) -> Handler<E> {
        Handler { names: Names::Listed(names), ..Handler::reads(HandlerInfo::read(""), Read::Nth(get)) }
    }

    /// The handlers of all names, for elements for which `exists` returns true. They can be read, with a
    /// parameter, and written. Entries before this entry, and handlers that all elements have, take
    /// precedence.
    pub const fn any(exists: fn(&E) -> bool, answer: AnyAnswer<E>, set: AnySet<E>) -> Handler<E> {
        let info = HandlerInfo { access: Access::READ_PARAM_WRITE, ..HandlerInfo::read(ANY_HANDLER) };
        Handler { info, names: Names::Any(exists), read: Read::Any(answer), write: Write::Any(set) }
    }

    /// Returns a read handler as a handler for reads and writes: `set` executes writes.
    #[must_use]
    pub const fn and_set(self, set: Set<E>) -> Handler<E> {
        let access = Access { write: true, ..self.info.access };
        Handler { info: HandlerInfo { access, ..self.info }, write: Write::Set(set), ..self }
    }

    /// Returns the handler as a handler of only those elements for which `exists` returns true, according to
    /// their arguments.
    #[must_use]
    pub const fn only_if(self, exists: fn(&E) -> bool) -> Handler<E> {
        Handler { names: Names::OnlyIf(exists), ..self }
    }

    /// Returns the handler as one whose value is bytes rather than a text ([`HandlerInfo::is_raw`]).
    #[must_use]
    pub const fn raw(self) -> Handler<E> {
        Handler { info: HandlerInfo { is_raw: true, ..self.info }, ..self }
    }

    /// Returns the handler as a metric for monitoring systems. Its value is one number, also after the values
    /// of several workers are merged.
    #[must_use]
    pub const fn metric(self, metric: Metric) -> Handler<E> {
        Handler { info: HandlerInfo { metric: Some(metric), ..self.info }, ..self }
    }

    /// Returns the handler with the rule that the values of several workers are added
    /// ([`Merge::Sum`]).
    #[must_use]
    pub const fn summed(self) -> Handler<E> {
        Handler { info: self.info.summed(), ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables whose columns of
    /// numbers are added ([`Merge::Columns`]).
    #[must_use]
    pub const fn tabled(self) -> Handler<E> {
        Handler { info: self.info.tabled(), ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables of named rows, in
    /// which the other columns of numbers are added ([`Merge::Rows`]).
    #[must_use]
    pub const fn rows(self) -> Handler<E> {
        Handler { info: self.info.rows(), ..self }
    }

    /// Returns the handler with the rule that the numbers in brackets at the ends of lines are added
    /// ([`Merge::Bracketed`]).
    #[must_use]
    pub const fn bracketed(self) -> Handler<E> {
        Handler { info: self.info.bracketed(), ..self }
    }

    /// Returns the handler with the rule that the lines of several workers become one list
    /// ([`Merge::Lines`]).
    #[must_use]
    pub const fn listed(self) -> Handler<E> {
        Handler { info: self.info.listed(), ..self }
    }

    /// Returns the handler with the rule that the least value of several workers is shown
    /// ([`Merge::Least`]).
    #[must_use]
    pub const fn least(self) -> Handler<E> {
        Handler { info: self.info.least(), ..self }
    }

    /// Returns the handler with the rule that the largest value of several workers is shown
    /// ([`Merge::Most`]).
    #[must_use]
    pub const fn most(self) -> Handler<E> {
        Handler { info: self.info.most(), ..self }
    }
}

impl<E: Element> Handler<E> {
    /// Returns the number of the handler `name` among the handlers that this entry describes for the
    /// element; `None` if there is no such handler.
    fn number(&self, element: &E, name: &str) -> Option<usize> {
        let only = |exists: bool| exists.then_some(0);
        match self.names {
            Names::One => only(name == self.info.name),
            Names::OnlyIf(exists) => only(name == self.info.name && exists(element)),
            Names::Numbered(count) => {
                let digits = name.strip_prefix(self.info.name)?;
                digits.parse().ok().filter(|n: &usize| *n < count(element) && n.to_string() == digits)
            }
            Names::Listed(names) => names(element).iter().position(|known| known == name),
            Names::Any(exists) => only(exists(element)),
        }
    }

    /// Returns the names of the handlers that depend on the element's arguments; none if this entry
    /// describes a handler of all elements.
    fn own_names(&self, element: &E) -> Vec<String> {
        match self.names {
            Names::One => Vec::new(),
            Names::OnlyIf(exists) | Names::Any(exists) => {
                exists(element).then(|| self.info.name.to_string()).into_iter().collect()
            }
            Names::Numbered(count) => (0..count(element)).map(|n| format!("{}{n}", self.info.name)).collect(),
            Names::Listed(names) => names(element),
        }
    }
}

/// A table of handlers, or several tables in their order.
trait Tables: Sync {
    type Of: Element;

    fn tables(&self) -> &[&'static [Handler<Self::Of>]];

    fn entries<'t>(&'t self) -> impl Iterator<Item = &'static Handler<Self::Of>> + use<'t, Self> {
        self.tables().iter().flat_map(|table| table.iter())
    }
}

impl<E: Element> Tables for &'static [Handler<E>] {
    type Of = E;

    fn tables(&self) -> &[&'static [Handler<E>]] {
        slice::from_ref(self)
    }
}

impl<E: Element, const N: usize> Tables for [&'static [Handler<E>]; N] {
    type Of = E;

    fn tables(&self) -> &[&'static [Handler<E>]] {
        self
    }
}

impl<T: Tables> HandlerTable for T {
    fn info(&self, index: usize) -> Option<&HandlerInfo> {
        let of_all = self.entries().filter(|handler| matches!(handler.names, Names::One));
        of_all.map(|handler| &handler.info).nth(index)
    }

    fn metric(&self, index: usize) -> Option<&HandlerInfo> {
        let metrics = self.entries().filter(|handler| handler.info.metric.is_some());
        metrics.map(|handler| &handler.info).nth(index)
    }

    fn has(&self, element: &dyn Element, name: &str) -> bool {
        let any: &dyn Any = element;
        let Some(element) = any.downcast_ref::<T::Of>() else { return false };
        self.entries().any(|handler| handler.number(element, name).is_some())
    }

    fn own(&self, element: &dyn Element) -> Vec<(String, Access)> {
        let any: &dyn Any = element;
        let Some(element) = any.downcast_ref::<T::Of>() else { return Vec::new() };
        let named = |handler: &'static Handler<T::Of>| {
            handler.own_names(element).into_iter().map(|name| (name, handler.info.access))
        };
        self.entries().flat_map(named).collect()
    }

    fn merging(&self, element: &dyn Element, name: &str) -> Option<Merge> {
        let any: &dyn Any = element;
        let element = any.downcast_ref::<T::Of>()?;
        let mut read = self.entries().filter(|handler| handler.info.access.read);
        read.find(|handler| handler.number(element, name).is_some()).map(|handler| handler.info.merge)
    }

    fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, String> {
        let element: &mut T::Of = of_type(element, name)?;
        let found = self.entries().filter(|handler| handler.info.access.read);
        let found = found.filter_map(|handler| Some((handler, handler.number(element, name)?))).next();
        match found.map(|(handler, number)| (&handler.read, number)) {
            Some((Read::Count(count), _)) => Ok(count(element).to_string()),
            Some((Read::Get(get), _)) => Ok(get(element)),
            Some((Read::Answer(answer), _)) => answer(element, cx, param),
            Some((Read::Function(function), _)) => function(param),
            Some((Read::Flag(flag), _)) => Ok(flag(element).to_string()),
            Some((Read::Nth(get), number)) => Ok(get(element, cx, number)),
            Some((Read::Any(answer), _)) => answer(element, cx, name, param),
            Some((Read::Nothing, _)) | None => Err(format!("'{name}' is not a read handler")),
        }
    }

    fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        let element: &mut T::Of = of_type(element, name)?;
        let found = self.entries().filter(|handler| handler.info.access.write);
        let found = found.filter_map(|handler| Some((handler, handler.number(element, name)?))).next();
        match found.map(|(handler, number)| (&handler.write, number)) {
            Some((Write::Act(act), _)) => act(element),
            Some((Write::Set(set), _)) => set(element, cx, value)?,
            Some((Write::Flag(flag, error), _)) => *flag(element) = parse_bool(value).ok_or(*error)?,
            Some((Write::SetNth(set), number)) => set(element, cx, number, value)?,
            Some((Write::Any(set), _)) => set(element, cx, name, value)?,
            Some((Write::Nothing, _)) | None => return Err(format!("'{name}' is not a write handler")),
        }
        Ok(())
    }
}

/// The empty table.
impl HandlerTable for () {
    fn info(&self, _index: usize) -> Option<&HandlerInfo> {
        None
    }

    fn metric(&self, _index: usize) -> Option<&HandlerInfo> {
        None
    }

    fn has(&self, _: &dyn Element, _: &str) -> bool {
        false
    }

    fn own(&self, _: &dyn Element) -> Vec<(String, Access)> {
        Vec::new()
    }

    fn merging(&self, _: &dyn Element, _: &str) -> Option<Merge> {
        None
    }

    fn read(&self, _: &mut dyn Element, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, String> {
        Err(format!("'{name}' is not a read handler"))
    }

    fn write(&self, _: &mut dyn Element, _: &mut Cx<'_>, name: &str, _: &str) -> Result<(), String> {
        Err(format!("'{name}' is not a write handler"))
    }
}

/// Returns the element as a value of its type. It fails only if a class has a table for another type than
/// the type of its elements; a test that reads the handlers of all classes would find this.
fn of_type<'e, E: Element>(element: &'e mut dyn Element, name: &str) -> Result<&'e mut E, String> {
    let any: &mut dyn Any = element;
    any.downcast_mut().ok_or_else(|| format!("'{name}' is a handler of another type of elements"))
}

impl Class {
    /// Returns the description of each handler that all elements of the class have, without the handlers
    /// that the elements of all classes have.
    pub fn each_handler(&self) -> impl Iterator<Item = HandlerInfo> + Clone + use<> {
        let table = self.table;
        (0..).map_while(move |index| table.info(index).copied())
    }

    /// Returns the descriptions of the class's handlers that are metrics, also of those that only some
    /// elements of the class have.
    pub fn each_metric(&self) -> impl Iterator<Item = HandlerInfo> + Clone + use<> {
        let table = self.table;
        (0..).map_while(move |index| table.metric(index).copied())
    }

    /// True if an element of this class has the handler `name` by the class's table.
    pub fn has_handler(&self, element: &dyn Element, name: &str) -> bool {
        self.table.has(element, name)
    }

    /// Returns the names of the handlers that an element of this class has because of its arguments, and how
    /// they can be used. [`ANY_HANDLER`] as a name matches all names that are not handlers otherwise.
    pub fn own_handlers(&self, element: &dyn Element) -> Vec<(String, Access)> {
        self.table.own(element)
    }

    /// Returns the rule that merges the values that several workers' copies of an element have for the read
    /// handler `name`; `None` if there is no such handler.
    pub fn merging(&self, element: &dyn Element, name: &str) -> Option<Merge> {
        self.table.merging(element, name)
    }

    /// Returns the value of the read handler `name` of an element of this class. `param` is the parameter of
    /// the call; it is empty for most handlers.
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be read.
    pub fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, String> {
        self.table.read(element, cx, name, param)
    }

    /// Executes the write handler `name` of an element of this class with `value`.
    ///
    /// # Errors
    /// A text for the user that says what is wrong.
    pub fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        self.table.write(element, cx, name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;

    struct Sample {
        patterns: usize,
        exported: Vec<String>,
        is_proxy: bool,
    }

    impl Element for Sample {
        fn effects(&self) -> Effects {
            Effects::pass()
        }
    }

    const COMMON: &[Handler<Sample>] = &[
        Handler::count("count", |e| e.patterns as u64),
        Handler::<Sample>::count("exported", |e| e.exported.len() as u64).only_if(|e| !e.exported.is_empty()),
        Handler::numbered("pattern", |e| e.patterns, |_, _, n| n.to_string(), |_, _, _, _| Ok(())),
    ];
    const FURTHER: &[Handler<Sample>] = &[
        Handler::named(|e| e.exported.clone(), |e, _, n| e.exported[n].clone()),
        Handler::any(|e| e.is_proxy, |_, _, name, _| Ok(name.into()), |_, _, _, _| Ok(())),
    ];
    static CLASS: Class = Class { table: &[COMMON, FURTHER], ..Class::DEFAULT };

    /// Returns the index of the entry that answers a handler, and the number of the handler in this entry.
    fn find(element: &Sample, name: &str) -> Option<(usize, usize)> {
        let entries = COMMON.iter().chain(FURTHER).enumerate();
        entries.filter_map(|(entry, handler)| Some((entry, handler.number(element, name)?))).next()
    }

    #[test]
    fn handlers_depend_on_arguments() {
        let plain = Sample { patterns: 0, exported: Vec::new(), is_proxy: false };
        let names: Vec<_> = CLASS.each_handler().map(|handler| handler.name).collect();
        assert_eq!((names, CLASS.own_handlers(&plain)), (vec!["count"], Vec::new()));
        for name in ["exported", "pattern0", "pattern", "x", "", ANY_HANDLER] {
            assert_eq!(find(&plain, name), None, "{name}");
        }
        let full = Sample { patterns: 11, exported: vec!["x".into(), "y".into()], is_proxy: false };
        let own = CLASS.own_handlers(&full);
        let names: Vec<_> = own.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (names[0], names[1], names[11], names[12..].concat()),
            ("exported", "pattern0", "pattern10", "xy".into())
        );
        assert_eq!((own[0].1, own[1].1, own[12].1), (Access::READ, Access::READ_WRITE, Access::READ));
        let found = ["count", "exported", "pattern10", "y"].map(|name| find(&full, name));
        assert_eq!(found, [(0, 0), (1, 0), (2, 10), (3, 1)].map(Some));
    }

    #[test]
    fn only_plain_numbers_below_the_count_are_handlers() {
        let element = Sample { patterns: 2, exported: Vec::new(), is_proxy: false };
        for name in ["pattern2", "pattern00", "pattern+1", "pattern-1", "pattern 1", "pattern1 ", "pattern1x"]
        {
            assert_eq!(find(&element, name), None, "{name}");
        }
        assert_eq!(find(&element, "pattern99999999999999999999"), None);
    }

    #[test]
    fn an_entry_for_all_names_comes_last() {
        let element = Sample { patterns: 1, exported: vec!["x".into()], is_proxy: true };
        let found = ["count", "pattern0", "pattern1", "x", "anything"].map(|name| find(&element, name));
        assert_eq!(found, [(0, 0), (2, 0), (4, 0), (3, 0), (4, 0)].map(Some));
        let last = CLASS.own_handlers(&element).pop();
        assert_eq!(last, Some((ANY_HANDLER.to_string(), Access::READ_PARAM_WRITE)));
    }
}
