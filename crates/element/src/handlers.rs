//! The handlers of a class, as a table with the functions that answer them.
//!
//! A table is a constant beside the element. Each entry has the name of a handler and typed functions of the
//! element, so that no name can be declared without an answer:
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
//! The class refers to the table (`table: &HANDLERS`). The engine looks handlers up by name when they are
//! called; packets never pass through here.

use std::any::Any;

use crate::args::parse_bool;
use crate::class::{Access, HandlerInfo, Table};
use crate::{Class, Cx, Element};

/// A handler of elements of the type `E`.
pub struct Handler<E> {
    info: HandlerInfo,
    read: Read<E>,
    write: Write<E>,
}

/// The answer to reading.
enum Read<E> {
    Nothing,
    Count(fn(&E) -> u64),
    Get(fn(&E) -> String),
    Answer(Answer<E>),
    Flag(fn(&mut E) -> &mut bool),
}

/// The effect of writing.
enum Write<E> {
    Nothing,
    Act(fn(&mut E)),
    Set(Set<E>),
    /// A truth value, and the error if the text is none.
    Flag(fn(&mut E) -> &mut bool, &'static str),
}

/// A function that answers a read handler. Its arguments are the element, the engine and the parameter.
pub type Answer<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<String, String>;
/// A function that executes a write handler. Its arguments are the element, the engine and the value.
pub type Set<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<(), String>;

impl<E> Handler<E> {
    const fn reads(info: HandlerInfo, read: Read<E>) -> Handler<E> {
        Handler { info, read, write: Write::Nothing }
    }

    const fn writes(name: &'static str, write: Write<E>) -> Handler<E> {
        Handler { info: HandlerInfo::write(name), read: Read::Nothing, write }
    }

    /// A read handler with the value of `get`.
    pub const fn get(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Get(get))
    }

    /// A read handler for a count. The values of several workers are added.
    pub const fn count(name: &'static str, count: fn(&E) -> u64) -> Handler<E> {
        Handler::reads(HandlerInfo::count(name), Read::Count(count))
    }

    /// A read handler for a list. The values of several workers are joined as lines of one list.
    pub const fn list(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::list(name), Read::Get(get))
    }

    /// A handler that reads the value of `get`, and executes `set` when it is written.
    pub const fn data(name: &'static str, get: fn(&E) -> String, set: Set<E>) -> Handler<E> {
        Handler { info: HandlerInfo::both(name), read: Read::Get(get), write: Write::Set(set) }
    }

    /// A read handler whose answer needs the engine, changes the element or may fail.
    pub const fn read(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Answer(answer))
    }

    /// A read handler with a parameter.
    pub const fn read_param(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read_param(name), Read::Answer(answer))
    }

    /// A write handler.
    pub const fn set(name: &'static str, set: Set<E>) -> Handler<E> {
        Handler::writes(name, Write::Set(set))
    }

    /// A write handler that always does the same, whatever the value.
    pub const fn act(name: &'static str, act: fn(&mut E)) -> Handler<E> {
        Handler::writes(name, Write::Act(act))
    }

    /// A handler that reads and writes a truth value. `error` is the answer to other values.
    pub const fn flag(name: &'static str, flag: fn(&mut E) -> &mut bool, error: &'static str) -> Handler<E> {
        Handler { info: HandlerInfo::both(name), read: Read::Flag(flag), write: Write::Flag(flag, error) }
    }

    /// Returns the read handler as a handler that can be written, too.
    #[must_use]
    pub const fn and_set(self, set: Set<E>) -> Handler<E> {
        let access = Access { write: true, ..self.info.access };
        Handler { info: HandlerInfo { access, ..self.info }, read: self.read, write: Write::Set(set) }
    }

    /// Returns the handler with the rule that the values of several workers are added.
    #[must_use]
    pub const fn summed(self) -> Handler<E> {
        Handler { info: self.info.summed(), ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables of counts, which are
    /// added.
    #[must_use]
    pub const fn tabled(self) -> Handler<E> {
        Handler { info: self.info.tabled(), ..self }
    }

    /// Returns the handler with the rule that the values of several workers are parts of one list.
    #[must_use]
    pub const fn listed(self) -> Handler<E> {
        Handler { info: self.info.listed(), ..self }
    }
}

impl<E: Element> Table for &'static [Handler<E>] {
    fn info(&self, index: usize) -> Option<&HandlerInfo> {
        self.get(index).map(|handler| &handler.info)
    }

    fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Option<Result<String, String>> {
        let handler = self.iter().find(|handler| handler.info.name == name && handler.info.access.read)?;
        Some(of_type(element, name).and_then(|element| match handler.read {
            Read::Nothing => Err(format!("'{name}' is not a read handler")),
            Read::Count(count) => Ok(count(element).to_string()),
            Read::Get(get) => Ok(get(element)),
            Read::Answer(answer) => answer(element, cx, param),
            Read::Flag(flag) => Ok(flag(element).to_string()),
        }))
    }

    fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let handler = self.iter().find(|handler| handler.info.name == name && handler.info.access.write)?;
        Some(of_type(element, name).and_then(|element| {
            match handler.write {
                Write::Nothing => return Err(format!("'{name}' is not a write handler")),
                Write::Act(act) => act(element),
                Write::Set(set) => set(element, cx, value)?,
                Write::Flag(flag, error) => *flag(element) = parse_bool(value).ok_or(error)?,
            }
            Ok(())
        }))
    }
}

/// Returns the element by its type. A class makes elements of one type; a test reads the handlers of all
/// classes.
fn of_type<'e, E: Element>(element: &'e mut dyn Element, name: &str) -> Result<&'e mut E, String> {
    let any: &mut dyn Any = element;
    any.downcast_mut().ok_or_else(|| format!("'{name}' is a handler of another type of elements"))
}

impl Class {
    /// Returns the description of each handler, except for the handlers that all elements have.
    pub fn each_handler(&self) -> impl Iterator<Item = HandlerInfo> + Clone + use<> {
        let (handlers, table) = (self.handlers, self.table);
        handlers.iter().copied().chain((0..).map_while(move |index| table.info(index).copied()))
    }

    /// Answers the read handler `name` of an element of this class.
    ///
    /// # Errors
    /// A text for the user.
    pub fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, String> {
        self.table.read(element, cx, name, param).unwrap_or_else(|| element.read(cx, name, param))
    }

    /// Executes the write handler `name` of an element of this class.
    ///
    /// # Errors
    /// A text for the user; nothing was changed.
    pub fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        self.table.write(element, cx, name, value).unwrap_or_else(|| element.write(cx, name, value))
    }
}
