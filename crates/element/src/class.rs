//! The description of an element class, which exists before any element of it, and the registry of classes.

use std::collections::BTreeMap;
use std::fmt;

use crate::args::{Args, Invalid};
use crate::{Cx, Element};

/// An element class. The file of each element has a class as a constant.
pub struct Class {
    /// The name in configurations.
    pub name: &'static str,
    /// Aliases of the class.
    pub aliases: &'static [&'static str],
    /// Click's port count code: `1/1`, `1/1-2`, `0-1/=`, `-/-` (see [`crate::ports`]).
    pub ports: &'static str,
    /// Click's processing code: `a`, `h`, `l` for agnostic, push and pull, inputs before the slash: `a/ah`.
    pub processing: &'static str,
    /// Click's flow code: from which inputs packets go to which outputs (see [`crate::ports::flows`]).
    pub flow: &'static str,
    /// Every argument, in the order in which positional arguments are read.
    pub args: &'static [ArgInfo],
    /// The handlers that elements answer by [`Element::read`] and [`Element::write`].
    pub handlers: &'static [HandlerInfo],
    /// Further handlers, with the functions that answer them (see [`crate::handlers`]).
    pub table: &'static dyn Table,
    /// The properties that the engine needs to know.
    pub notes: Notes,
    /// The phase in which elements of this class are configured.
    pub phase: Phase,
    /// True if a running element can get other arguments by its handler `config`. A new element then
    /// continues with the state of the old element ([`Element::take_state`]), and must need nothing else
    /// from it.
    pub reconfigures: bool,
    /// The doc block of the element's file: the manual (see [`mod@crate::manual`]).
    pub manual: &'static str,
    /// Configurations that the generic tests run. Each is valid with the smallest number of ports, or is
    /// written as `config -> inputs/outputs` if it needs more.
    pub samples: &'static [&'static str],
    /// Makes an element from its arguments.
    pub build: fn(&mut Args<'_>) -> Result<Box<dyn Element>, Invalid>,
}

impl Class {
    /// Defaults for the fields that most classes leave unchanged.
    pub const DEFAULT: Class = Class {
        name: "",
        aliases: &[],
        ports: "1/1",
        processing: "a",
        flow: "x",
        args: &[],
        handlers: &[],
        table: &(),
        notes: Notes::NONE,
        phase: Phase::Ordinary,
        reconfigures: false,
        manual: "",
        samples: &[""],
        build: |_| Err(Invalid),
    };

    /// Returns the description of an argument.
    pub fn arg(&self, name: &str) -> Option<&'static ArgInfo> {
        self.args.iter().find(|a| a.name == name)
    }

    /// True if an element with these numbers of inputs and outputs neither forwards packets nor acts on other
    /// elements before the run, such as a script or a socket.
    pub fn is_bystander(&self, ports: (usize, usize)) -> bool {
        ports == (0, 0) && self.phase == Phase::Ordinary
    }
}

/// The table of a class, without the type of its elements.
pub trait Table: Sync {
    /// Returns the description of a handler by its index.
    fn info(&self, index: usize) -> Option<&HandlerInfo>;

    /// Answers the read handler `name`; `None` if the table has no such handler.
    fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Option<Result<String, String>>;

    /// Executes the write handler `name`; `None` if the table has no such handler.
    fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>>;
}

/// The empty table.
impl Table for () {
    fn info(&self, _index: usize) -> Option<&HandlerInfo> {
        None
    }

    fn read(&self, _: &mut dyn Element, _: &mut Cx<'_>, _: &str, _: &str) -> Option<Result<String, String>> {
        None
    }

    fn write(&self, _: &mut dyn Element, _: &mut Cx<'_>, _: &str, _: &str) -> Option<Result<(), String>> {
        None
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The properties of a class that the engine needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// True if it signals downstream that it has packets (Click's empty notifier).
    pub signals_packets: bool,
    /// True if it signals upstream that it has room (Click's full notifier).
    pub signals_room: bool,
    /// True if it is asked when the driver is about to stop.
    pub manages_driver: bool,
    /// True if it advances the time under the trace clock (see [`Element::next_time`]).
    pub follows_captures: bool,
    /// True if each worker's copy has its own queue to the outside (see [`crate::Cx::worker`]). Sources and
    /// sinks without such queues work at one worker only.
    pub has_queues: bool,
    /// True if its interface spreads packets over queues by its own key, which may be public.
    pub has_own_key: bool,
    /// True if its packets come whether or not there is time for them: packets that a busy worker cannot
    /// take are dropped and do not wait.
    pub is_live: bool,
    /// True if it writes to an outside object that exists only once, such as a file or a socket, in
    /// addition to passing packets on.
    pub is_outside: bool,
    /// True if the arguments are a script, which may call handlers of other elements.
    pub runs_script: bool,
    /// The condition under which an element has a task ([`Element::run`]).
    pub task: Task,
}

/// The condition under which elements of a class have a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// Only with a push output 0: a source that is not pulled from.
    WherePushing,
    /// Only with a pull input 0: a sink that is not pushed to.
    WherePulling,
}

impl Notes {
    /// No property.
    pub const NONE: Notes = Notes {
        signals_packets: false,
        signals_room: false,
        manages_driver: false,
        follows_captures: false,
        has_queues: false,
        has_own_key: false,
        is_live: false,
        is_outside: false,
        runs_script: false,
        task: Task::Never,
    };

    /// Only a task.
    pub const TASK: Notes = Notes { task: Task::Always, ..Notes::NONE };
}

/// The phase in which elements of a class are configured. Classes that give information to others are
/// configured first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Names, threads and other information.
    Information,
    /// A service that other elements take by name.
    Service,
    /// Everything else.
    Ordinary,
}

/// The way in which an argument is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// By position or by name; mandatory.
    Required,
    /// By position or by name.
    Positional,
    /// Only by name.
    Keyword,
    /// Any number of positional arguments, taken together.
    Rest,
}

/// The value of an argument that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// There is no value.
    None,
    /// This text, which is parsed like a text that the user writes.
    Text(&'static str),
    /// The burst of the run ([`Setup::burst`](crate::Setup::burst)). If the run sets no burst, as under
    /// `tidegate click`, this text, which is Click's default.
    Burst(&'static str),
    /// A value that the element computes, in words for the manual.
    Computed(&'static str),
}

impl DefaultValue {
    /// Returns the default as a user would write it, if it is the same in all runs and configurations.
    pub const fn text(self) -> Option<&'static str> {
        if let DefaultValue::Text(text) = self { Some(text) } else { None }
    }
}

/// An argument of a class. The manual has its meaning under the same name.
#[derive(Clone, Copy, Debug)]
pub struct ArgInfo {
    /// The keyword.
    pub name: &'static str,
    /// The way in which it is given.
    pub kind: ArgKind,
    /// The type, for the manual.
    pub ty: &'static str,
    /// The value if it is not given.
    pub default: DefaultValue,
}

impl ArgInfo {
    /// An argument that is mandatory, by position or by name.
    pub const fn required(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Required, ty, "")
    }

    /// An argument that may be given by position or by name. The default is what a user would write; it is
    /// empty if there is none.
    pub const fn positional(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Positional, ty, default)
    }

    /// An argument that may be given by name, with a default as in [`positional`](Self::positional).
    pub const fn keyword(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Keyword, ty, default)
    }

    /// All remaining positional arguments.
    pub const fn rest(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo::new(name, ArgKind::Rest, ty, "")
    }

    const fn new(name: &'static str, kind: ArgKind, ty: &'static str, default: &'static str) -> ArgInfo {
        let default = if default.is_empty() { DefaultValue::None } else { DefaultValue::Text(default) };
        ArgInfo { name, kind, ty, default }
    }

    /// Returns the argument with the burst of the run as its default, and Click's default for runs that set
    /// no burst.
    #[must_use]
    pub const fn burst_of_run(self, clicks: &'static str) -> ArgInfo {
        ArgInfo { default: DefaultValue::Burst(clicks), ..self }
    }

    /// Returns the argument with a default that the element computes, in words for the manual.
    #[must_use]
    pub const fn computed(self, words: &'static str) -> ArgInfo {
        ArgInfo { default: DefaultValue::Computed(words), ..self }
    }
}

/// Joins the arguments of a class with arguments that several classes have.
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

/// The name of a handler that matches every name that no other handler has. The element then gets the name
/// that was asked for.
pub const ANY_HANDLER: &str = "*";

/// The ways in which a handler can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// True if the handler can be read.
    pub read: bool,
    /// True if reading takes a parameter.
    pub param: bool,
    /// True if the handler can be written.
    pub write: bool,
    /// True if the value does not change while the graph runs (shown by a dot in the list of handlers).
    pub calm: bool,
}

impl Access {
    const NOTHING: Access = Access { read: false, param: false, write: false, calm: false };
    /// Read only.
    pub const READ: Access = Access { read: true, ..Access::NOTHING };
    /// Read only, and constant.
    pub const CALM: Access = Access { calm: true, ..Access::READ };
    /// Read only, with a parameter.
    pub const READ_PARAM: Access = Access { param: true, ..Access::READ };
    /// Write only.
    pub const WRITE: Access = Access { write: true, ..Access::NOTHING };
    /// Read and write.
    pub const READ_WRITE: Access = Access { write: true, ..Access::READ };
    /// Read with a parameter, and write.
    pub const READ_PARAM_WRITE: Access = Access { param: true, ..Access::READ_WRITE };
}

/// The way in which the values of several workers' copies of an element are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The value of the first copy: all values are the same, or the first value applies to all.
    #[default]
    First,
    /// The sum, line by line for lines that begin with the same words.
    Sum,
    /// The sum of each column of numbers, line by line for lines whose other columns are the same.
    Columns,
    /// All lines, with a common heading only once; JSON arrays are joined into one array.
    Lines,
}

/// A handler of a class. The manual says what it does under the same name.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// The name after the dot.
    pub name: &'static str,
    /// The ways in which it can be used.
    pub access: Access,
    /// The way in which the values of several workers are combined.
    pub merge: Merge,
}

impl HandlerInfo {
    /// A read handler.
    pub const fn read(name: &'static str) -> HandlerInfo {
        HandlerInfo { name, access: Access::READ, merge: Merge::First }
    }

    /// A read handler with a parameter.
    pub const fn read_param(name: &'static str) -> HandlerInfo {
        HandlerInfo { name, access: Access::READ_PARAM, merge: Merge::First }
    }

    /// A read handler for a count. The values of several workers are added.
    pub const fn count(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).summed()
    }

    /// A read handler for a list. The values of several workers are joined as lines of one list.
    pub const fn list(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).listed()
    }

    /// Returns the handler with the rule that the values of several workers are added.
    #[must_use]
    pub const fn summed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Sum, ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables of counts, which are
    /// added.
    #[must_use]
    pub const fn tabled(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Columns, ..self }
    }

    /// Returns the handler with the rule that the values of several workers are parts of one list.
    #[must_use]
    pub const fn listed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Lines, ..self }
    }

    /// A write handler.
    pub const fn write(name: &'static str) -> HandlerInfo {
        HandlerInfo { name, access: Access::WRITE, merge: Merge::First }
    }

    /// A handler that can be read and written.
    pub const fn both(name: &'static str) -> HandlerInfo {
        HandlerInfo { name, access: Access::READ_WRITE, merge: Merge::First }
    }
}

/// All classes that configurations can use.
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

    /// Adds classes. A class replaces an earlier class of the same name.
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

    /// Returns the class with this name or alias.
    pub fn get(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).or_else(|| self.aliases.get(name)).copied()
    }

    /// Returns all classes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.values().copied()
    }

    /// Returns every name and alias, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.classes.keys().chain(self.aliases.keys()).copied().collect();
        names.sort_unstable();
        names
    }
}
