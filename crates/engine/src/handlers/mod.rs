//! Finds, reads and writes handlers: an element's own handlers, handlers that every element has, and
//! handlers of the graph.

mod check;
mod element_map;
mod threads;
mod workers;

use std::fmt::Write;
use std::sync::Arc;

use element::args::{ArgType, Scope};
use element::class::{ANY_HANDLER, Access, Notes};
use element::ports::{self, Processing};
use element::{Class, Core, Element, ElementId, OutputStream, Rights};

use crate::control::Control;
use crate::graph_copy::GraphCopy;
use crate::host::WorkerHost;
use crate::options::RebuildRequest;
use crate::placement::{self, ElementWorkers};
use crate::plan::Plan;
use crate::reload::Reloads;
use crate::team::Team;
use crate::wakeups::MOST_TICKETS;
use threads::Threads;

/// The handlers that every element has: Click's, then FastClick's, in the order in which these register them,
/// then `counts` and `drops_by_reason`. A list of handlers shows them in the opposite order.
const STANDARD: &[(&str, Access)] = &[
    ("name", Access::CALM),
    ("class", Access::CALM),
    ("config", Access::CALM),
    ("ports", Access::CALM),
    ("handlers", Access::CALM),
    ("passing_threads", Access::READ),
    ("spawning_threads", Access::CALM),
    ("home_thread", Access::CALM),
    ("mt_safe", Access::CALM),
    ("is_fullpush", Access::CALM),
    ("counts", Access::READ),
    ("drops_by_reason", Access::READ),
];

/// The handlers that an element with a task has in addition to [`STANDARD`].
const OF_TASK: &[(&str, Access)] = &[("scheduled", Access::READ), ("tickets", Access::READ_WRITE)];

/// The graph's handler that reads a handler of an element at one worker. Its parameter is `N
/// ELEMENT.HANDLER`. It exists only with several workers.
pub(crate) const WORKER: &str = "worker";

/// The name of the graph's handler that replaces the whole graph by another configuration. `reload` is the
/// handler that does so by the file of the running configuration, read again. Both exist only if the run has
/// a function that makes graphs.
const HOTCONFIG: &str = "hotconfig";
const RELOAD: &str = "reload";

/// The graph's handler that says how long each worker stood still when it changed over to another graph. It
/// exists if the graph can be replaced.
const SILENCE: &str = "silence";

/// The name of the graph's handler for the report so far, as an object in JSON.
const REPORT: &str = "report";

/// The name of the graph's handler for the largest number of packets by which a packet was overtaken.
/// `displaced_most` is the handler for the limit of this number. Both exist if packets of flows are spread
/// without keeping order.
const DISPLACED: &str = "displaced";
const DISPLACED_MOST: &str = "displaced_most";

/// The graph's handler that traces packets: writing it orders packets, reading it returns what happened to
/// them. It exists if packets can be traced in this run.
pub(crate) const TRACE: &str = "trace";

/// The graph's handler that captures packets: writing it begins or ends a capture, reading it returns what is
/// under way. It exists if packets can be captured in this run.
pub(crate) const CAPTURE: &str = "capture";

/// The handlers of the graph, in the order in which a list shows them.
const GLOBAL: &[(&str, Access)] = &[
    ("version", Access::READ),
    ("driver", Access::READ),
    ("config", Access::READ),
    ("flatconfig", Access::READ),
    ("requirements", Access::READ),
    ("handlers", Access::READ),
    ("list", Access::READ),
    ("element_map", Access::READ),
    ("classes", Access::READ),
    ("nthreads", Access::READ),
    (REPORT, Access::READ),
    (WORKER, Access::READ_PARAM),
    (DISPLACED, Access::READ),
    (DISPLACED_MOST, Access::READ),
    ("stop", Access::WRITE),
    ("packages", Access::READ),
    (HOTCONFIG, Access::WRITE),
    (RELOAD, Access::WRITE),
    (SILENCE, Access::READ),
    ("timewarp", Access::READ),
    (TRACE, Access::READ_WRITE),
    (CAPTURE, Access::READ_WRITE),
];

/// Returns the handlers that every element has, as elements of this class have them: `config` can be
/// written only if the class allows it.
fn standard(class: &Class) -> impl DoubleEndedIterator<Item = (&'static str, Access)> + use<> {
    let reconfigures = class.reconfigures;
    STANDARD.iter().map(move |&(name, access)| match name {
        "config" => (name, Access { write: reconfigures, ..access }),
        _ => (name, access),
    })
}

/// The maximum depth of handler calls within handler calls. Deeper calls are assumed to go in circles.
const DEEPEST: u32 = 64;

/// Returns the access to a handler of an element of a class. `element` is the element, for handlers that
/// depend on its arguments; without it, these handlers are not found. `has_task` is true if the element has a
/// task. Returns `None` if there is no handler of that name.
pub(crate) fn find(
    class: &Class,
    element: Option<&dyn Element>,
    has_task: bool,
    name: &str,
) -> Option<Access> {
    let of_own = |name: &str| {
        let own = class.own_handlers(element?);
        own.into_iter().find(|(n, _)| n == name).map(|(_, access)| access)
    };
    let of_class = class.each_handler().find(|h| h.name == name).map(|h| h.access);
    let of_task = if has_task { OF_TASK } else { &[] };
    of_class
        .or_else(|| of_own(name))
        .or_else(|| standard(class).find(|(n, _)| *n == name).map(|(_, access)| access))
        .or_else(|| of_task.iter().find(|(n, _)| *n == name).map(|&(_, access)| access))
        .or_else(|| of_own(ANY_HANDLER))
}

/// True if a read may run a script, which may change the graph: of the handler `name` of an element, or of
/// the graph's handler `worker`, which reads the handler in its parameter. The handlers that every element
/// has run none.
pub fn runs_script(plan: &Plan, element: Option<ElementId>, name: &str, param: &str) -> bool {
    let (element, name) = match (element, name) {
        (None, WORKER) => match worker_call(plan, param) {
            Ok((_, id, handler)) => (Some(id), handler),
            Err(_) => return false,
        },
        other => other,
    };
    let Some(id) = element else { return false };
    let Notes { runs_script, manages_driver, reads_handlers, .. } = plan.classes[id].notes;
    let runs = runs_script || manages_driver || reads_handlers;
    runs && !STANDARD.iter().any(|(standard, _)| *standard == name)
}

/// Parses the parameter of the graph's handler `worker`, `N ELEMENT.HANDLER`. Returns the text N, the element
/// and the name of the handler.
///
/// # Errors
/// If the parameter has another form, or there is no such element: a message for the user.
pub(crate) fn worker_call<'a>(plan: &Plan, param: &'a str) -> Result<(&'a str, ElementId, &'a str), String> {
    let usage = || format!("'{WORKER}' needs the number of a worker and ELEMENT.HANDLER");
    let (number, rest) = param.trim().split_once(char::is_whitespace).ok_or_else(usage)?;
    let (element, handler) = rest.trim().split_once('.').ok_or_else(usage)?;
    let id = plan.graph.find(element).ok_or_else(|| format!("no element named '{element}'"))?;
    Ok((number, id, handler))
}

/// Returns the access to a handler of the graph, or `None` if there is no such handler. Includes handlers
/// that exist only in some runs.
pub(crate) fn of_graph(name: &str) -> Option<Access> {
    GLOBAL.iter().find(|(n, _)| *n == name).map(|&(_, access)| access)
}

/// The handlers that exist only in runs in which packets can be traced or captured.
#[derive(Clone, Copy)]
pub(crate) struct Watchers {
    trace: bool,
    capture: bool,
}

impl Watchers {
    /// Returns the handlers of a run with this control.
    pub(crate) fn of(control: &Control) -> Watchers {
        Watchers { trace: control.traces.is_some(), capture: control.captures.is_some() }
    }
}

/// Returns the access to a handler of an element, or of the graph if `element` is `None`, in this run.
/// Returns `None` if there is no handler of that name.
pub(crate) fn access(
    graph: &GraphCopy,
    reloads: &Reloads,
    team: Option<&Team>,
    watchers: Watchers,
    element: Option<ElementId>,
    name: &str,
) -> Option<Access> {
    let Some(id) = element else {
        return global(graph, reloads, team, watchers).find(|(n, _)| *n == name).map(|(_, access)| access);
    };
    let plan = &graph.plan;
    find(plan.classes[id], graph.elements[id].as_deref(), plan.has_task(id), name)
}

/// Returns the handlers of the graph that exist in this run.
fn global(
    graph: &GraphCopy,
    reloads: &Reloads,
    team: Option<&Team>,
    watchers: Watchers,
) -> impl Iterator<Item = (&'static str, Access)> + use<> {
    let (reloads, several) = (reloads.can_reload(), graph.setup.workers > 1);
    let displaces = team.is_some_and(|team| team.displacement().is_some());
    GLOBAL.iter().copied().filter(move |&(name, _)| match name {
        HOTCONFIG | RELOAD | SILENCE => reloads,
        WORKER => several,
        DISPLACED | DISPLACED_MOST => displaces,
        TRACE => watchers.trace,
        CAPTURE => watchers.capture,
        _ => true,
    })
}

impl GraphCopy {
    /// Returns the handlers of an element's task. Empty if the element has no task.
    fn of_task(&self, id: ElementId) -> &'static [(&'static str, Access)] {
        if self.plan.has_task(id) { OF_TASK } else { &[] }
    }

    pub(crate) fn own_handler(&self, id: ElementId, name: &str) -> Option<Access> {
        let own = self.plan.classes[id].own_handlers(self.elements[id].as_deref()?);
        own.into_iter().find(|(n, _)| n == name).map(|(_, access)| access)
    }

    pub(crate) fn handler_name(&self, element: Option<ElementId>, name: &str) -> String {
        match element {
            Some(id) => format!("{}.{name}", self.plan.graph.elements[id].name),
            None => name.to_string(),
        }
    }

    /// Lists the ports of an element in Click's format: for each port, its processing and the ports that it
    /// is connected to.
    fn list_ports(&self, id: ElementId) -> String {
        let mut text = String::new();
        for output in [false, true] {
            let (side, ends) = match output {
                false => (&self.plan.inputs[id], &self.plan.backward[id]),
                true => (&self.plan.outputs[id], &self.plan.forward[id]),
            };
            let plural = if side.len() == 1 { "" } else { "s" };
            let _ = writeln!(text, "{} {}{plural}", side.len(), if output { "output" } else { "input" });
            for (port, (kind, peers)) in side.iter().zip(ends).enumerate() {
                let declared = ports::processing(self.plan.classes[id].processing, output, port);
                let mark = if declared == Some(Processing::Agnostic) { "~" } else { "" };
                let peers = peers.iter().map(|&(peer, at)| {
                    let name = &self.plan.graph.elements[peer].name;
                    if output { format!("[{at}] {name}") } else { format!("{name} [{at}]") }
                });
                let _ = writeln!(text, "{kind}{mark}\t-\t{}", peers.collect::<Vec<_>>().join(", "));
            }
        }
        text
    }
}

impl WorkerHost<'_> {
    /// Returns the access to a handler of an element, or of the graph if `element` is `None`. Returns
    /// `None` if there is no handler of that name.
    pub(crate) fn find_handler(&self, element: Option<ElementId>, name: &str) -> Option<Access> {
        access(self.graph, self.reloads, self.team.as_deref(), Watchers::of(self.control), element, name)
    }

    /// Reads a handler of this worker's copy of an element, or of the graph if `element` is `None`.
    ///
    /// # Errors
    /// If the handler does not exist, cannot be read, or reports an error. Also if it gets a parameter that
    /// it does not take, if the element is being called, or if calls of handlers by handlers are nested too
    /// deeply.
    pub(crate) fn read_here(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        name: &str,
        param: &str,
    ) -> Result<String, String> {
        let full = || self.graph.handler_name(element, name);
        match self.find_handler(element, name) {
            Some(access) if access.read && (access.param || param.is_empty()) => {}
            Some(access) if access.read => {
                return Err(format!("read handler '{}' does not take parameters", full()));
            }
            _ => return Err(format!("no '{}' read handler", full())),
        }
        let Some(id) = element else {
            return if name == REPORT { self.report_text(core) } else { Ok(self.read_global(name)) };
        };
        self.graph.settle_stand_ins(core);
        let class = self.graph.plan.classes[id];
        let own = class.each_handler().any(|h| h.name == name) || self.graph.own_handler(id, name).is_some();
        if !own && STANDARD.iter().chain(self.graph.of_task(id)).any(|(standard, _)| *standard == name) {
            return Ok(self.read_standard(core, id, name));
        }
        self.deeper(id, |host| host.call(core, id, |element, cx| class.read(element, cx, name, param)))
    }

    /// Writes a handler of this worker's copy of an element, or of the graph if `element` is `None`, with
    /// the rights of the caller.
    ///
    /// # Errors
    /// If the handler does not exist, cannot be written, or reports an error. Also if the element is being
    /// called, or if calls of handlers by handlers are nested too deeply.
    pub(crate) fn write_here(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        name: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        let before = std::mem::replace(&mut core.rights, rights.clone());
        let result = self.write_value(core, element, name, value);
        core.rights = before;
        result
    }

    fn write_value(
        &mut self,
        core: &mut Core,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        // A synthesized program that was composed again is put in at each worker by the handler `config` of
        // its element, although users cannot write this handler.
        let is_program = name == "config" && element.is_some_and(|id| self.composed(id, value).is_some());
        if !is_program && !self.find_handler(element, name).is_some_and(|access| access.write) {
            return Err(format!("no '{}' write handler", self.graph.handler_name(element, name)));
        }
        if element.is_some() {
            self.graph.settle_stand_ins(core);
        }
        match element {
            Some(id) if name == "tickets" && self.graph.plan.has_task(id) => self.write_tickets(id, value),
            Some(id) if name == "config" => self.deeper(id, |host| Some(host.reconfigure(core, id, value))),
            Some(id) => {
                let class = self.graph.plan.classes[id];
                let write = |host: &mut WorkerHost<'_>| {
                    let result = host.call(core, id, |element, cx| class.write(element, cx, name, value));
                    // If `result` is `None`, the element was being called already and was not called again,
                    // so nothing has changed.
                    if let Some(result) = &result {
                        host.look_for_changes(id);
                        if result.is_ok() {
                            host.graph.note_argument(id, name, value);
                        }
                    }
                    result
                };
                self.deeper(id, write)
            }
            None if matches!(name, HOTCONFIG | RELOAD) => {
                let rights = core.rights.clone();
                match self.reload_request(None, name, value, &rights) {
                    Some(request) => self.reload(core, request),
                    None => self.reload_elsewhere(core, name, value, &rights),
                }
            }
            None if name == TRACE => self.trace(value),
            None if name == CAPTURE => self.capture(core, value),
            None => {
                // `stop` is the only other handler of the graph that can be written.
                self.control.stop(value.trim().parse().unwrap_or(1));
                Ok(())
            }
        }
    }

    /// Returns the request for a reload that writing this handler makes, if this worker leads reloads.
    pub(crate) fn reload_request(
        &self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
        rights: &Rights,
    ) -> Option<RebuildRequest> {
        let value = match name {
            HOTCONFIG => Some(value.to_string()),
            RELOAD => None,
            _ => return None,
        };
        let leads = element.is_none() && self.graph.worker() == 0 && self.reloads.can_reload();
        leads.then_some(RebuildRequest { value, origin: rights.origin })
    }

    fn write_tickets(&mut self, id: ElementId, value: &str) -> Result<(), String> {
        let place = Scope::new(&self.graph.setup, id);
        let wanted = i64::parse(value.trim(), &place).map_err(|_| "syntax error")?;
        let tickets = wanted.clamp(1, MOST_TICKETS.into());
        if tickets != wanted {
            self.control.sink.write(OutputStream::Messages, format_args!("tickets pinned at {tickets}\n"));
        }
        self.wakeups.tasks.set_tickets(id, tickets as u32);
        Ok(())
    }

    /// Calls a handler one level deeper. Returns an error beyond [`DEEPEST`] levels, so that handlers that
    /// call each other do not exhaust the stack. Also returns an error if the element `id` is being called
    /// already.
    fn deeper<T>(
        &mut self,
        id: ElementId,
        call: impl FnOnce(&mut Self) -> Option<Result<T, String>>,
    ) -> Result<T, String> {
        if self.control.depth >= DEEPEST {
            return Err("handlers call each other without end".into());
        }
        self.control.depth += 1;
        let result = call(self);
        self.control.depth -= 1;
        result.unwrap_or_else(|| Err(format!("'{}' is busy", self.graph.plan.graph.elements[id].name)))
    }

    fn read_global(&self, name: &str) -> String {
        let graph = &self.graph.plan.graph;
        match name {
            "version" => env!("CARGO_PKG_VERSION").to_string(),
            "driver" => "userlevel".to_string(),
            "config" if !self.control.text.is_empty() => self.control.text.clone(),
            "config" | "flatconfig" => self.graph.flat(),
            "requirements" => {
                graph.requirements.iter().map(|(kind, what)| format!("{kind}\n{what}\n")).collect()
            }
            "handlers" => list_handlers(
                global(self.graph, self.reloads, self.team.as_deref(), Watchers::of(self.control))
                    .map(|(name, access)| (name.to_string(), access)),
            ),
            "list" => {
                let names = graph.elements.iter().map(|e| format!("{}\n", e.name));
                format!("{}\n{}", graph.elements.len(), names.collect::<String>())
            }
            "classes" => {
                let names = self.graph.plan.known.iter().flat_map(|class| class.names());
                names.map(|name| format!("{name}\n")).collect()
            }
            "element_map" => element_map::of(&self.graph.plan.known),
            "nthreads" => self.graph.setup.workers.to_string(),
            DISPLACED | DISPLACED_MOST => {
                let team = self.team.as_ref().and_then(|team| team.displacement());
                team.map_or(String::new(), |(board, most)| match name {
                    DISPLACED => board.largest().to_string(),
                    _ => most.map_or("none".to_string(), |most| most.to_string()),
                })
            }
            SILENCE => {
                let of_team = |team: &Arc<Team>| {
                    (0..team.len()).map(|worker| team.silence(worker).line(worker)).collect()
                };
                self.team.as_ref().map_or_else(|| self.reloads.silence.line(0), of_team)
            }
            TRACE => self.control.traces.as_ref().map_or(String::new(), |traces| traces.to_string()),
            CAPTURE => self.control.captures.as_ref().map_or(String::new(), |captures| captures.to_string()),
            // With the machine's clock, this is the factor by which time runs faster, which is always 1 here.
            "timewarp" if self.control.is_simulated => "simulation".to_string(),
            "timewarp" => "1".to_string(),
            _ => String::new(),
        }
    }

    fn read_standard(&self, core: &Core, id: ElementId, name: &str) -> String {
        let element = &self.graph.plan.graph.elements[id];
        let counters = &core.counters[id];
        match name {
            "name" => element.name.clone(),
            "class" => element.class.clone(),
            "config" => self.graph.shown_config(id),
            "ports" => self.graph.list_ports(id),
            "handlers" => {
                let class = self.graph.plan.classes[id];
                let own = self.graph.elements[id].as_deref().map(|element| class.own_handlers(element));
                let own = own.unwrap_or_default();
                let of_class: Vec<_> = class.each_handler().collect();
                let of_class = of_class.into_iter().rev();
                let all = own.into_iter().rev().chain(of_class.map(|h| (h.name.to_string(), h.access)));
                let of_task = self.graph.of_task(id).iter().rev().copied();
                let standard = of_task.chain(standard(class).rev());
                list_handlers(all.chain(standard.map(|(name, access)| (name.to_string(), access))))
            }
            "counts" => format!(
                "in {}\nout {}\ndropped {}\n",
                counters.arrived + counters.made,
                counters.emitted + counters.sent,
                counters.dropped()
            ),
            "drops_by_reason" => {
                counters.drops.iter().map(|(reason, n)| format!("{reason}\t{n}\n")).collect()
            }
            "scheduled" => self.wakeups.is_scheduled(id).to_string(),
            "tickets" => self.wakeups.tasks.tickets(id).to_string(),
            "home_thread" => match self.graph.placement.places[id] {
                ElementWorkers::One(worker) => worker.to_string(),
                _ => self.graph.setup.threads.get(&id).copied().unwrap_or(0).to_string(),
            },
            "passing_threads" => Threads::new(self.graph).passing(id),
            "spawning_threads" => self.graph.show_spawning_threads(id),
            "mt_safe" => {
                placement::runs_on_several(&self.graph.plan, id, &self.graph.effects[id]).to_string()
            }
            "is_fullpush" => Threads::new(self.graph).is_fullpush(id).to_string(),
            _ => String::new(),
        }
    }
}

fn list_handlers(handlers: impl Iterator<Item = (String, Access)>) -> String {
    handlers
        .map(|(name, access)| {
            let flag = |on, letter| if on { letter } else { "" };
            let (r, w, p) = (flag(access.read, "r"), flag(access.write, "w"), flag(access.param, "+"));
            format!("{name}\t{r}{w}{p}{}\n", flag(access.calm, "."))
        })
        .collect()
}
