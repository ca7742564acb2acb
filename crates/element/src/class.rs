//! The description of an element class, which exists before any element of it, and the registry of all
//! classes.

use std::collections::BTreeMap;
use std::fmt;

use crate::args::{Args, Invalid};
use crate::{Cx, Element, Metric, StatePart};

/// The description of an element class: its ports, arguments and handlers, and the function that makes its
/// elements. The file of each element has a `Class` as a static.
pub struct Class {
    /// The name of the class in configurations, such as `Queue`.
    pub name: &'static str,
    /// The aliases of the class: further names that configurations may use.
    pub aliases: &'static [&'static str],
    /// Click's port count code: the numbers of inputs and outputs that the class allows, such as `1/1-2` or
    /// `-/=` (see [`crate::ports`]).
    pub ports: &'static str,
    /// Click's processing code, inputs before the slash, such as `a/ah`. The letters are `a` for agnostic,
    /// `h` for push and `l` for pull (see [`crate::ports`]).
    pub processing: &'static str,
    /// Click's flow code: from which inputs packets go to which outputs (see [`crate::ports::flows`]).
    pub flow: &'static str,
    /// The arguments of the class, in the order in which positional arguments are read.
    pub args: &'static [ArgInfo],
    /// The handlers, with the functions that answer them (see [`crate::handlers`]).
    pub table: &'static dyn HandlerTable,
    /// The properties of the class that the engine acts on.
    pub notes: Notes,
    /// The phase of configuration in which elements of this class are made.
    pub phase: ConfigurePhase,
    /// True if a running element can get other arguments by its handler `config`. A new element then
    /// continues with the state of the old element ([`Element::take_state`]), and must need nothing else
    /// from it.
    pub reconfigures: bool,
    /// The parts of an element's state, and what a reload does with them (see [`crate::reload`]). Empty for
    /// a class whose elements keep nothing between packets.
    pub state: &'static [StatePart],
    /// The version of the form in which elements write the parts of their state that survive a restart
    /// ([`Element::save_state`]). It changes whenever the form does. `None` if no part survives.
    pub saved_form: Option<u16>,
    /// The manual: the doc block at the top of the element's file (see [`mod@crate::manual`]).
    pub manual: &'static str,
    /// Configurations for the generic tests over all classes. Each is valid for an element with the smallest
    /// number of ports, or has the form `CONFIG -> INPUTS/OUTPUTS` ([`crate::Sample`]).
    pub samples: &'static [&'static str],
    /// Makes an element from its arguments. It fails if the arguments are invalid; the texts of the errors
    /// are in the [`Args`].
    pub build: fn(&mut Args<'_>) -> Result<Box<dyn Element>, Invalid>,
}

impl Class {
    /// The class whose fields are the defaults for other classes. Other classes are written as `Class { ...,
    /// ..Class::DEFAULT }`, or take their fields from another class that is written so.
    pub const DEFAULT: Class = Class {
        name: "",
        aliases: &[],
        ports: "1/1",
        processing: "a",
        flow: "x",
        args: &[],
        table: &(),
        notes: Notes::NONE,
        phase: ConfigurePhase::Ordinary,
        reconfigures: false,
        state: &[],
        saved_form: None,
        manual: "",
        samples: &[""],
        build: |_| Err(Invalid),
    };

    /// Returns the name of the class and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns the description of the argument `name`; `None` if the class has no such argument.
    pub fn arg(&self, name: &str) -> Option<&'static ArgInfo> {
        self.args.iter().find(|a| a.name == name)
    }

    /// Returns the arguments `config` of an element with the text `value` for the argument `name`. The text
    /// takes the place of the argument's old text. If the argument was not given, it is added at the end with
    /// its keyword.
    pub fn with_argument(&self, config: &str, name: &str, value: &str) -> String {
        let keyword = |text: &str| {
            let (word, _) = text.split_once(char::is_whitespace)?;
            self.arg(word).map(|info| info.name)
        };
        let mut texts: Vec<String> =
            lang::args::split(config).into_iter().map(|arg| arg.text.trim().to_owned()).collect();
        let by_place = |info: &&ArgInfo| matches!(info.kind, ArgKind::Required | ArgKind::Positional);
        let place = self.args.iter().filter(by_place).position(|info| info.name == name);
        let named = texts.iter().rposition(|text| keyword(text) == Some(name));
        let mut placed = (0..texts.len()).filter(|&index| keyword(&texts[index]).is_none());
        match (named, place.and_then(|place| placed.nth(place))) {
            (Some(index), _) => texts[index] = format!("{name} {value}"),
            (None, Some(index)) => texts[index] = value.to_owned(),
            (None, None) => texts.push(format!("{name} {value}")),
        }
        texts.join(", ")
    }

    /// True if an element with these numbers of inputs and outputs is a bystander, such as a script or a
    /// socket for clients. A bystander has no ports, and gives no information or service to other elements.
    /// So it has no influence on packets before the run.
    pub fn is_bystander(&self, ports: (usize, usize)) -> bool {
        ports == (0, 0) && self.phase == ConfigurePhase::Ordinary
    }
}

/// The table of the handlers of a class, without the type of the class's elements.
pub trait HandlerTable: Sync {
    /// Returns the description of a handler that all elements of the class have, by its index.
    fn info(&self, index: usize) -> Option<&HandlerInfo>;

    /// Returns the names and access of the handlers that depend on the element's arguments
    /// ([`Class::own_handlers`]).
    fn own(&self, element: &dyn Element) -> Vec<(String, Access)>;

    /// Returns the rule that merges the values of the handler `name` of an element ([`Class::merging`]).
    fn merging(&self, element: &dyn Element, name: &str) -> Option<Merge>;

    /// Returns the description of a handler that is a metric, by its index among such handlers; also of
    /// handlers that only some elements of the class have.
    fn metric(&self, index: usize) -> Option<&HandlerInfo>;

    /// True if the element has the handler `name`.
    fn has(&self, element: &dyn Element, name: &str) -> bool;

    /// Answers the read handler `name` ([`Class::read`]).
    ///
    /// # Errors
    /// If the table has no such handler, or the handler reports an error.
    fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, String>;

    /// Executes the write handler `name` ([`Class::write`]).
    ///
    /// # Errors
    /// If the table has no such handler, or the handler reports an error.
    fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), String>;
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The properties of a class that the engine, the synthesizer and the command line act on. In these comments
/// "the element" is an element of the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// True if the element signals to elements downstream that it has packets to pull (Click's empty
    /// notifier).
    pub signals_packets: bool,
    /// True if the element signals to elements upstream that it has room (Click's full notifier).
    pub signals_room: bool,
    /// True if the engine asks the element before it stops the driver ([`Element::stop_requested`]).
    pub manages_driver: bool,
    /// True if the element is a source that advances the time under the trace clock (see
    /// [`Element::next_time`]).
    pub follows_captures: bool,
    /// True if each worker's copy of the element has its own queue of an interface (see
    /// [`crate::Cx::worker`]). Sources and sinks without such queues work at one worker only.
    pub has_queues: bool,
    /// True if the element's interface spreads packets over its queues by a key of its own, which may be
    /// public: an attacker could then choose flows that all come in by one queue.
    pub has_own_key: bool,
    /// True if packets come to the element from outside whether or not it has time for them: packets that a
    /// busy worker cannot take are lost instead of waiting.
    pub is_live: bool,
    /// True if the element uses an outside object that exists only once, such as a file or a socket, also if
    /// it passes packets on. Such an element works at one worker only.
    pub is_outside: bool,
    /// True if the element is a source that works only at the workers at which other elements of its
    /// interface do, such as elements that send by its sockets.
    pub is_paired: bool,
    /// True if the element's arguments are a script, which may call handlers of other elements.
    pub runs_script: bool,
    /// True if reading a handler of the element reads the handler of another element that the reader names.
    pub reads_handlers: bool,
    /// The condition under which the element has a task ([`Element::run`]).
    pub task: Task,
}

/// The condition under which an element of a class has a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// No element has a task.
    #[default]
    Never,
    /// Every element has a task.
    Always,
    /// An element has a task if its output 0 is a push output: it is a source that pushes. If it is pulled
    /// from, it needs no task.
    WherePushing,
    /// An element has a task if its input 0 is a pull input: it is a sink that pulls. If packets are pushed
    /// to it, it needs no task.
    WherePulling,
}

impl Notes {
    /// The notes of a class with none of the properties.
    pub const NONE: Notes = Notes {
        signals_packets: false,
        signals_room: false,
        manages_driver: false,
        follows_captures: false,
        has_queues: false,
        has_own_key: false,
        is_live: false,
        is_outside: false,
        is_paired: false,
        runs_script: false,
        reads_handlers: false,
        task: Task::Never,
    };

    /// The notes of a class whose only property is that its elements have a task.
    pub const TASK: Notes = Notes { task: Task::Always, ..Notes::NONE };
}

/// The phase in which elements of a class are configured. Elements of an earlier phase are configured first,
/// so that elements of later phases can use what they have declared or published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurePhase {
    /// Elements that declare names, threads and other information.
    Information,
    /// Elements that publish a service which other elements use by the element's name.
    Service,
    /// All other elements.
    Ordinary,
}

/// The way in which an argument is given: by position, by name, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// By position or by name. The argument is mandatory.
    Required,
    /// By position or by name. The argument is optional.
    Positional,
    /// Only by name. The argument is optional.
    Keyword,
    /// By position, in any number: all positional arguments that are left. Some elements also accept each of
    /// them by name.
    Rest,
}

/// The value that an argument has if it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// No default: an argument that is not given has no value.
    None,
    /// The value of this text, which is parsed like a text that the user writes.
    Text(&'static str),
    /// The burst of the run ([`Setup::burst`](crate::Setup::burst)). If the run sets no burst, as under
    /// `tidegate click`, the value is this text, which is Click's default.
    Burst(&'static str),
    /// A value that the element computes. The text describes the value for the manual.
    Computed(&'static str),
}

impl DefaultValue {
    /// Returns the default as a user would write it. `None` if there is no default, if it is the burst of the
    /// run, or if the element computes it.
    pub const fn text(self) -> Option<&'static str> {
        if let DefaultValue::Text(text) = self { Some(text) } else { None }
    }
}

/// The description of an argument of a class. The manual explains the argument under the same name.
#[derive(Clone, Copy, Debug)]
pub struct ArgInfo {
    /// The name of the argument, which is its keyword.
    pub name: &'static str,
    /// The way in which the argument is given.
    pub kind: ArgKind,
    /// The type of the argument's value, in words for the manual, such as "string".
    pub ty: &'static str,
    /// The value that the argument has if it is not given.
    pub default: DefaultValue,
}

impl ArgInfo {
    /// Describes a mandatory argument that is given by position or by name.
    pub const fn required(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Required, ty, "")
    }

    /// Describes an optional argument that is given by position or by name. `default` is the default as a
    /// user would write it; it is empty if there is none.
    pub const fn positional(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Positional, ty, default)
    }

    /// Describes an optional argument that is given by name only. `default` is the default as a user would
    /// write it; it is empty if there is none.
    pub const fn keyword(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Keyword, ty, default)
    }

    /// Describes an argument that takes all positional arguments which are left.
    pub const fn rest(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Rest, ty, "")
    }

    const fn new(name: &'static str, kind: ArgKind, ty: &'static str, default: &'static str) -> ArgInfo {
        let default = if default.is_empty() { DefaultValue::None } else { DefaultValue::Text(default) };
        ArgInfo { name, kind, ty, default }
    }

    /// Returns the argument with the burst of the run as its default. `clicks` is the default for runs that
    /// set no burst: Click's own.
    #[must_use]
    pub const fn burst_of_run(self, clicks: &'static str) -> ArgInfo {
        ArgInfo { default: DefaultValue::Burst(clicks), ..self }
    }

    /// Returns the argument with a default that the element computes. `words` describes the default for the
    /// manual.
    #[must_use]
    pub const fn computed(self, words: &'static str) -> ArgInfo {
        ArgInfo { default: DefaultValue::Computed(words), ..self }
    }
}

/// Joins the arguments of one class with arguments that several classes have in common. `ALL` must be `OWN +
/// COMMON`; otherwise the function panics (in a constant, compilation fails).
pub const fn join<const OWN: usize, const COMMON: usize, const ALL: usize>(
    own: [ArgInfo; OWN],
    common: [ArgInfo; COMMON],
) -> [ArgInfo; ALL] {
    assert!(OWN + COMMON == ALL);
    let mut all = [ArgInfo::keyword("", "", ""); ALL];
    let mut n = 0;
    while n < ALL {
        all[n] = if n < OWN { own[n] } else { common[n - OWN] };
        n += 1;
    }
    all
}

/// The name under which an element declares a handler for all names that no other handler has. The element
/// gets the name that was asked for.
pub const ANY_HANDLER: &str = "*";

/// The ways in which a handler can be used: reading, with or without a parameter, and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// True if the handler can be read.
    pub read: bool,
    /// True if a read of the handler takes a parameter.
    pub param: bool,
    /// True if the handler can be written.
    pub write: bool,
    /// True if the value of the handler stays the same while the graph runs (shown by a dot in the list of
    /// handlers).
    pub calm: bool,
}

impl Access {
    const NOTHING: Access = Access { read: false, param: false, write: false, calm: false };
    /// The access of a handler that can only be read.
    pub const READ: Access = Access { read: true, ..Access::NOTHING };
    /// The access of a handler that can only be read and whose value stays the same.
    pub const CALM: Access = Access { calm: true, ..Access::READ };
    /// The access of a handler that can only be read, with a parameter.
    pub const READ_PARAM: Access = Access { param: true, ..Access::READ };
    /// The access of a handler that can only be written.
    pub const WRITE: Access = Access { write: true, ..Access::NOTHING };
    /// The access of a handler that can be read and written.
    pub const READ_WRITE: Access = Access { write: true, ..Access::READ };
    /// The access of a handler that can be read, with a parameter, and written.
    pub const READ_PARAM_WRITE: Access = Access { param: true, ..Access::READ_WRITE };
}

/// The rule that combines the values of a handler at several workers' copies of an element to one value for
/// the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The value of one copy is taken: of the copy at the worker that reads the handler or, if this worker
    /// has none, of the first copy. Either all copies have the same value, or this value applies to all.
    #[default]
    First,
    /// The numbers at the ends of lines that are otherwise equal are added; the number -1 stands for no
    /// count and is not added. Lines without a number are listed, equal ones once; a single word without a
    /// number is taken from the first copy.
    Sum,
    /// Lines are rows of a table, with a space or a tab between columns. Rows that have the same
    /// words become one row, in which each number is the sum of the numbers in its column.
    Columns,
    /// Like `Columns`, but the first word of a row is its name, even if it is a number.
    Rows,
    /// All copies have the same lines, except that a line may end with a number in brackets. These numbers
    /// are added line by line; a line without such a number counts as zero.
    Bracketed,
    /// The lines of all copies follow each other, with a common heading only once. JSON arrays become one
    /// array.
    Lines,
    /// The least of the numbers is taken; of truth values, true if all are true.
    Least,
    /// The largest of the numbers is taken; of truth values, true if any is true.
    Most,
}

/// The description of a handler of a class. The manual explains the handler under the same name.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// The name of the handler, without the element's name and the dot.
    pub name: &'static str,
    /// The ways in which the handler can be used.
    pub access: Access,
    /// The rule that combines the values of several workers.
    pub merge: Merge,
    /// The metric that the handler gives to a monitoring system; `None` for most handlers.
    pub metric: Option<Metric>,
    /// The argument whose value a write replaces, so that the handler `config` shows what was written. `None`
    /// for handlers that set something else, and for those for which Click shows the old arguments.
    pub argument: Option<&'static str>,
    /// True if the value is bytes rather than a text: no line end is added where values are printed.
    pub is_raw: bool,
}

impl HandlerInfo {
    /// Describes a read handler; the value of one worker's copy of the element is shown ([`Merge::First`]).
    pub const fn read(name: &'static str) -> HandlerInfo {
        HandlerInfo {
            name,
            access: Access::READ,
            merge: Merge::First,
            metric: None,
            argument: None,
            is_raw: false,
        }
    }

    /// Describes a read handler with a parameter; the value of one worker's copy of the element is shown
    /// ([`Merge::First`]).
    pub const fn read_param(name: &'static str) -> HandlerInfo {
        HandlerInfo {
            name,
            access: Access::READ_PARAM,
            merge: Merge::First,
            metric: None,
            argument: None,
            is_raw: false,
        }
    }

    /// Describes a read handler for a count; the values of several workers are added.
    pub const fn count(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).summed()
    }

    /// Describes a read handler for a list; the lines of several workers become one list.
    pub const fn list(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).listed()
    }

    /// Returns the handler with the rule that the values of several workers are added ([`Merge::Sum`]).
    #[must_use]
    pub const fn summed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Sum, ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables whose columns of
    /// numbers are added ([`Merge::Columns`]).
    #[must_use]
    pub const fn tabled(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Columns, ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables of named rows, in
    /// which the other columns of numbers are added ([`Merge::Rows`]).
    #[must_use]
    pub const fn rows(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Rows, ..self }
    }

    /// Returns the handler with the rule that the numbers in brackets at the ends of lines are added
    /// ([`Merge::Bracketed`]).
    #[must_use]
    pub const fn bracketed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Bracketed, ..self }
    }

    /// Returns the handler with the rule that the lines of several workers become one list
    /// ([`Merge::Lines`]).
    #[must_use]
    pub const fn listed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Lines, ..self }
    }

    /// Returns the handler with the rule that the least value of several workers is shown
    /// ([`Merge::Least`]).
    #[must_use]
    pub const fn least(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Least, ..self }
    }

    /// Returns the handler with the rule that the largest value of several workers is shown
    /// ([`Merge::Most`]).
    #[must_use]
    pub const fn most(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Most, ..self }
    }

    /// Describes a write handler.
    pub const fn write(name: &'static str) -> HandlerInfo {
        HandlerInfo {
            name,
            access: Access::WRITE,
            merge: Merge::First,
            metric: None,
            argument: None,
            is_raw: false,
        }
    }

    /// Describes a handler that can be read and written; the value of one worker's copy of the element is
    /// shown ([`Merge::First`]).
    pub const fn both(name: &'static str) -> HandlerInfo {
        HandlerInfo {
            name,
            access: Access::READ_WRITE,
            merge: Merge::First,
            metric: None,
            argument: None,
            is_raw: false,
        }
    }
}

/// The registry of all classes that configurations can use.
#[derive(Clone, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, &'static Class>,
    aliases: BTreeMap<&'static str, &'static Class>,
}

impl Registry {
    /// Makes an empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Returns the registry with these classes in addition. A class replaces an earlier class of the same
    /// name or alias.
    #[must_use]
    pub fn with(mut self, classes: &[&'static Class]) -> Registry {
        for class in classes {
            self.classes.insert(class.name, class);
            for alias in class.aliases {
                self.aliases.insert(alias, class);
            }
        }
        self
    }

    /// Returns the class with this name or alias; `None` if there is none. Names come before aliases.
    pub fn get(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).or_else(|| self.aliases.get(name)).copied()
    }

    /// Returns all classes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.values().copied()
    }

    /// Returns the names and aliases of all classes, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.classes.keys().chain(self.aliases.keys()).copied().collect();
        names.sort_unstable();
        names
    }
}
