//! What is known of an element class before any element of it exists, and the registry of classes.

use std::collections::BTreeMap;
use std::fmt;

use crate::Element;
use crate::args::{Args, Invalid};

/// An element class. Each element's file has one as a constant.
pub struct Class {
    /// The name in configurations.
    pub name: &'static str,
    /// Other names for the same class.
    pub aliases: &'static [&'static str],
    /// Click's port count code: `1/1`, `1/1-2`, `0-1/=`, `-/-` (see [`crate::ports`]).
    pub ports: &'static str,
    /// Click's processing code: `a`, `h`, `l` for agnostic, push and pull, inputs before the slash: `a/ah`.
    pub processing: &'static str,
    /// Click's flow code: which inputs packets go from to which outputs (see [`crate::ports::flows`]).
    pub flow: &'static str,
    /// Every argument, in the order in which positional ones are read.
    pub args: &'static [ArgInfo],
    /// Every handler beside those that all elements have.
    pub handlers: &'static [HandlerInfo],
    /// Traits that the engine needs to know.
    pub notes: Notes,
    /// When elements of this class are configured.
    pub phase: Phase,
    /// Whether a running element can get other arguments, by its handler `config`: a new element then goes on with the
    /// state of the old one ([`Element::take_state`]), and must not need more than that.
    pub reconfigures: bool,
    /// The doc block of the element's file: the manual (see [`mod@crate::manual`]).
    pub manual: &'static str,
    /// Configurations that the generic tests run, each one valid with the smallest number of ports, or
    /// `config -> inputs/outputs` where it needs more.
    pub samples: &'static [&'static str],
    /// Makes an element from its arguments.
    pub build: fn(&mut Args<'_>) -> Result<Box<dyn Element>, Invalid>,
}

impl Class {
    /// Defaults for the fields that most classes leave alone.
    pub const DEFAULT: Class = Class {
        name: "",
        aliases: &[],
        ports: "1/1",
        processing: "a",
        flow: "x",
        args: &[],
        handlers: &[],
        notes: Notes::NONE,
        phase: Phase::Ordinary,
        reconfigures: false,
        manual: "",
        samples: &[""],
        build: |_| Err(Invalid),
    };

    /// The description of an argument.
    pub fn arg(&self, name: &str) -> Option<&'static ArgInfo> {
        self.args.iter().find(|a| a.name == name)
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Traits of a class that the engine needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Says downstream whether it has packets (Click's empty notifier).
    pub signals_packets: bool,
    /// Says upstream whether it has room (Click's full notifier).
    pub signals_room: bool,
    /// Is asked when the driver is about to stop.
    pub manages_driver: bool,
    /// Makes time pass under the trace clock (see [`Element::next_time`]).
    pub follows_captures: bool,
    /// Each worker's copy has a queue of its own to the outside (see [`crate::Cx::worker`]). Sources and sinks that
    /// have not do their work on one worker only.
    pub has_queues: bool,
    /// Its interface spreads packets over queues by a key of its own, which others may know.
    pub has_own_key: bool,
    /// Its packets come whether there is time for them or not: those that a busy worker cannot take are dropped, not
    /// waited for.
    pub is_live: bool,
    /// Writes to something outside of which there is one, a file or a socket, beside passing packets on.
    pub is_outside: bool,
    /// Its arguments are a script, which may call handlers of other elements.
    pub runs_script: bool,
    /// Whether it has a task ([`Element::run`]).
    pub task: Task,
}

/// When elements of a class have a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// Where output 0 is a push output: a source that is not pulled from.
    WherePushing,
    /// Where input 0 is a pull input: a sink that is not pushed to.
    WherePulling,
}

impl Notes {
    /// None of them.
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

/// When elements of a class are configured: classes that give information to others come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Names, threads and other information.
    Information,
    /// Publishes a service that others take by name.
    Service,
    /// Everything else.
    Ordinary,
}

/// How an argument is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// By position or by name; must be there.
    Required,
    /// By position or by name.
    Positional,
    /// Only by name.
    Keyword,
    /// Any number of positional arguments, taken together.
    Rest,
}

/// One argument of a class. What it means is said in the manual under the same name.
#[derive(Clone, Copy, Debug)]
pub struct ArgInfo {
    /// The keyword.
    pub name: &'static str,
    /// How it is given.
    pub kind: ArgKind,
    /// The type, for the manual.
    pub ty: &'static str,
    /// The default as a user would write it; empty if there is none.
    pub default: &'static str,
}

impl ArgInfo {
    /// An argument that must be there, by position or by name.
    pub const fn required(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo { name, kind: ArgKind::Required, ty, default: "" }
    }

    /// An argument that may be given by position or by name.
    pub const fn positional(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo { name, kind: ArgKind::Positional, ty, default }
    }

    /// An argument that may be given by name.
    pub const fn keyword(name: &'static str, ty: &'static str, default: &'static str) -> ArgInfo {
        ArgInfo { name, kind: ArgKind::Keyword, ty, default }
    }

    /// All positional arguments that are left.
    pub const fn rest(name: &'static str, ty: &'static str) -> ArgInfo {
        ArgInfo { name, kind: ArgKind::Rest, ty, default: "" }
    }
}

/// Arguments of a class's own, and those that several classes have.
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

/// The name of a handler that stands for every name that nobody else answers to; the element then gets the name
/// that was asked for.
pub const ANY_HANDLER: &str = "*";

/// What can be done with a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It can be read.
    pub read: bool,
    /// Reading takes a parameter.
    pub param: bool,
    /// It can be written.
    pub write: bool,
    /// The value does not change while the graph runs (a dot in the list of handlers).
    pub calm: bool,
}

impl Access {
    const NOTHING: Access = Access { read: false, param: false, write: false, calm: false };
    /// Read only.
    pub const READ: Access = Access { read: true, ..Access::NOTHING };
    /// Read only, and never changing.
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

/// What the values that several workers' copies of an element give come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The first one's: they are the same, or one stands for all.
    #[default]
    First,
    /// Their sum, line by line where lines begin with the same words.
    Sum,
    /// The sum of each column of numbers, line by line where the other columns are the same.
    Columns,
    /// All lines, a heading that all have once; one array of all arrays.
    Lines,
}

/// One handler of a class. What it does is said in the manual under the same name.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// The name behind the dot.
    pub name: &'static str,
    /// What can be done with it.
    pub access: Access,
    /// What several workers' values come to.
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

    /// A read handler whose values at several workers are added up: a count.
    pub const fn count(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).summed()
    }

    /// A read handler whose values at several workers are lines of one list.
    pub const fn list(name: &'static str) -> HandlerInfo {
        HandlerInfo::read(name).listed()
    }

    /// The same handler, where values at several workers are added up.
    #[must_use]
    pub const fn summed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Sum, ..self }
    }

    /// The same handler, where values at several workers are tables of counts.
    #[must_use]
    pub const fn tabled(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Columns, ..self }
    }

    /// The same handler, where values at several workers are parts of one list.
    #[must_use]
    pub const fn listed(self) -> HandlerInfo {
        HandlerInfo { merge: Merge::Lines, ..self }
    }

    /// A write handler.
    pub const fn write(name: &'static str) -> HandlerInfo {
        HandlerInfo { name, access: Access::WRITE, merge: Merge::First }
    }

    /// A handler for both.
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
    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds classes; a later one of the same name replaces an earlier one.
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

    /// The class with this name or alias.
    pub fn get(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).or_else(|| self.aliases.get(name)).copied()
    }

    /// All classes, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.values().copied()
    }

    /// Every name and alias, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.classes.keys().chain(self.aliases.keys()).copied().collect();
        names.sort_unstable();
        names
    }
}
