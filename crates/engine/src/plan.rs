//! The plan of a graph, the part that does not change in a run: classes, ports, push and pull, connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use element::class::Task;
use element::ports::{self, Processing};
use element::{Absent, Class, ElementId, Registry};
use lang::{Connection, Diagnostic, Graph, Location, Sources, Span};

use crate::problem::Problem;

/// A graph whose classes are known and whose connections are valid. Elements are numbered as in the graph.
pub struct Plan {
    /// The graph as the configuration describes it.
    pub graph: Graph,
    /// All classes that the program has, sorted by name.
    pub known: Vec<&'static Class>,
    /// The class of each element, by element number.
    pub classes: Vec<&'static Class>,
    /// By element and input, the processing of the input: push or pull.
    pub inputs: Vec<Vec<Processing>>,
    /// By element and output, the processing of the output: push or pull.
    pub outputs: Vec<Vec<Processing>>,
    /// By element and output, every element and input that the output is connected to.
    pub forward: Vec<Vec<Vec<(ElementId, usize)>>>,
    /// By element and input, every element and output that the input is connected to.
    pub backward: Vec<Vec<Vec<(ElementId, usize)>>>,
    /// All elements, upstream elements first, as [`Plan::order`] returns them.
    order: Vec<ElementId>,
    /// The places of the declarations in the texts, by element number. Empty before
    /// [`locate`](Self::locate).
    pub places: Vec<Location>,
    /// The elements that are offloaded ([`Plan::offload`]).
    pub(crate) offloaded: Vec<ElementId>,
}

impl Plan {
    /// Checks a graph against the classes of a registry, in Click's order: classes, port counts, push and
    /// pull, doubled and unused ports. If a check finds errors, the later checks are not made.
    ///
    /// # Errors
    /// If the graph is not valid: all errors that the failed check has found.
    pub fn new(graph: Graph, registry: &Registry) -> Result<Plan, Vec<Problem>> {
        let classes = find_classes(&graph, registry)?;
        let mut plan = Plan {
            known: registry.iter().collect(),
            inputs: Vec::with_capacity(classes.len()),
            outputs: Vec::with_capacity(classes.len()),
            forward: Vec::with_capacity(classes.len()),
            backward: Vec::with_capacity(classes.len()),
            order: Vec::new(),
            offloaded: Vec::new(),
            places: Vec::new(),
            graph,
            classes,
        };
        plan.count_ports()?;
        plan.resolve_processing()?;
        plan.check_use()?;
        plan.order = plan.find_order();
        Ok(plan)
    }

    /// Offloads elements: with several workers, the last worker does the work of these elements and of the
    /// sources upstream of them, and no other work (`placement.rs`). Each of `names` is the name of an
    /// element, or the name of a class, which offloads all elements of this class.
    ///
    /// # Errors
    /// If there is no element for one of the names: this name.
    pub fn offload(&mut self, names: &[String]) -> Result<(), String> {
        for name in names {
            let is_meant =
                |id: &ElementId| self.graph.elements[*id].name == *name || self.classes[*id].name == name;
            let meant: Vec<_> = (0..self.len()).filter(is_meant).collect();
            if meant.is_empty() {
                return Err(name.clone());
            }
            self.offloaded.extend(meant);
        }
        Ok(())
    }

    /// Returns the number of workers to which flows belong, out of `workers` workers: all of them, or all
    /// but the last if elements are offloaded to it.
    pub fn owners(&self, workers: usize) -> usize {
        let beside = usize::from(!self.offloaded.is_empty() && workers > 1);
        workers - beside
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// True if an element has a task, which may depend on the processing of its first port.
    pub fn has_task(&self, id: ElementId) -> bool {
        match self.classes[id].notes.task {
            Task::Never => false,
            Task::Always => true,
            Task::WherePushing => self.outputs[id].first() == Some(&Processing::Push),
            Task::WherePulling => self.inputs[id].first() == Some(&Processing::Pull),
        }
    }

    /// Returns an element whose packets may come at any time, such as an interface. `None` if there is no
    /// such element.
    pub fn live(&self) -> Option<ElementId> {
        (0..self.len()).find(|&id| self.classes[id].notes.is_live && !self.outputs[id].is_empty())
    }

    /// Returns all elements, upstream elements first. In a circle, the order starts at an element where
    /// packets enter the circle, if there is one.
    pub fn order(&self) -> &[ElementId] {
        &self.order
    }

    fn find_order(&self) -> Vec<ElementId> {
        // Depth-first search, in the reverse order of leaving elements. It starts at elements without
        // inputs, so that it enters each circle where packets enter it.
        let mut found = vec![false; self.len()];
        let mut order = Vec::with_capacity(self.len());
        let (beginnings, others): (Vec<_>, Vec<_>) =
            (0..self.len()).rev().partition(|&id| self.backward[id].iter().all(Vec::is_empty));
        for start in beginnings.into_iter().chain(others) {
            if std::mem::replace(&mut found[start], true) {
                continue;
            }
            let mut path = vec![(start, self.next(start))];
            while let Some((id, next)) = path.last_mut() {
                match next.pop() {
                    Some(to) if !std::mem::replace(&mut found[to], true) => path.push((to, self.next(to))),
                    Some(_) => {}
                    None => {
                        order.push(*id);
                        path.pop();
                    }
                }
            }
        }
        order.reverse();
        order
    }

    /// Returns the elements that the outputs of an element are connected to, once per connection.
    fn next(&self, id: ElementId) -> Vec<ElementId> {
        self.forward[id].iter().flatten().map(|&(to, _)| to).collect()
    }

    /// Returns the declaration of an element, `name :: Class`, for messages.
    pub fn declaration(&self, id: ElementId) -> String {
        let element = &self.graph.elements[id];
        format!("{} :: {}", element.name, element.class)
    }

    /// Returns the name of the network interface that is an argument of an element; `None` if its class has
    /// no such argument.
    pub fn interface(&self, id: ElementId) -> Option<String> {
        let args = self.classes[id].args.iter().enumerate();
        let (position, arg) = args.clone().find(|(_, arg)| arg.ty == "interface")?;
        let arguments = lang::args::split(&self.graph.elements[id].config);
        let named = arguments.iter().find_map(|given| {
            let (keyword, value) = given.text.trim().split_once(char::is_whitespace)?;
            (keyword == arg.name).then(|| value.trim().to_string())
        });
        let at_position = || arguments.get(position).map(|given| given.text.trim().to_string());
        named.or_else(at_position).map(|name| name.trim_matches('"').to_string())
    }

    /// Finds the places of the declarations in the texts of the configuration.
    pub fn locate(&mut self, sources: &Sources) {
        self.places = self.graph.elements.iter().map(|element| sources.locate(element.span)).collect();
    }

    /// Makes the problem of an element whose initialisation has failed with this message.
    pub(crate) fn initialization_failed(&self, id: ElementId, message: String) -> Problem {
        let context = format!("While initializing '{}'", self.declaration(id));
        let span = self.graph.elements[id].span;
        Problem { context: Some(context), context_span: Some(span), ..self.problem(id, message) }
    }

    fn problem(&self, id: ElementId, message: String) -> Problem {
        Problem::new(Diagnostic::error(self.graph.elements[id].span, message))
    }

    fn count_ports(&mut self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (id, (inputs, outputs)) in self.graph.port_counts().into_iter().enumerate() {
            let class = self.classes[id];
            let Some((in_range, _)) = ports::ranges(class.ports, inputs) else {
                problems.push(self.problem(id, format!("'{}': bad port count", self.declaration(id))));
                continue;
            };
            let clamped = inputs.clamp(in_range.least, in_range.most);
            let out_range = ports::ranges(class.ports, clamped).map_or(in_range, |(_, out)| out);
            let outputs = outputs.clamp(out_range.least, out_range.most);
            let processing = |output, n| -> Vec<_> {
                (0..n)
                    .map(|port| {
                        ports::processing(class.processing, output, port).unwrap_or(Processing::Agnostic)
                    })
                    .collect()
            };
            self.inputs.push(processing(false, clamped));
            self.outputs.push(processing(true, outputs));
            self.forward.push(vec![Vec::new(); outputs]);
            self.backward.push(vec![Vec::new(); clamped]);
        }
        let mut connections = self.sorted_connections();
        let mut next = 0;
        while let Some(connection) = connections.get(next) {
            let (from, to, before) = (connection.from, connection.to, problems.len());
            for (output, end, ports) in [(false, to, &self.inputs), (true, from, &self.outputs)] {
                let most = ports.get(end.0).map_or(usize::MAX, Vec::len);
                if end.1 >= most {
                    problems.push(self.no_such_port(output, end, most, connection.span));
                }
            }
            // Click removes a wrong connection, and continues with the last connection in its place.
            match problems.len() > before {
                true => drop(connections.swap_remove(next)),
                false => next += 1,
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for connection in &self.graph.connections {
            let (from, to) = (connection.from, connection.to);
            self.forward[from.0][from.1].push(to);
            self.backward[to.0][to.1].push(from);
        }
        Ok(())
    }

    /// Returns the connections in Click's order: by input port, then by output port.
    fn sorted_connections(&self) -> Vec<Connection> {
        let mut connections = self.graph.connections.clone();
        connections.sort_by_key(|connection| (connection.to, connection.from));
        connections
    }

    /// Makes the problem of a connection, at `span`, to a port that the element does not have. `most` is the
    /// number of the ports that it has.
    fn no_such_port(&self, output: bool, (id, port): (ElementId, usize), most: usize, span: Span) -> Problem {
        let (kind, class) = (if output { "output" } else { "input" }, self.classes[id].name);
        let text = format!("'{}' has no {kind} {port}", self.declaration(id));
        let hint = match most {
            0 => format!("{class} has no {kind}s"),
            1 => format!("{class} has only {kind} 0"),
            n => format!("{class} has {kind}s 0 to {}", n - 1),
        };
        let mut problem = self.problem(id, text);
        problem.diagnostic = problem.diagnostic.with_hint(hint).with_related(span, "connected here");
        problem
    }

    /// Propagates push and pull along connections and through agnostic elements until nothing changes.
    /// Ports that are agnostic after that become push.
    ///
    /// # Errors
    /// If a port would have to be both push and pull: all such errors.
    fn resolve_processing(&mut self) -> Result<(), Vec<Problem>> {
        let mut is_conflict = false;
        // Only changes are propagated, so the time is proportional to the numbers of ports and connections.
        let mut changed: Vec<ElementId> = (0..self.len()).collect();
        while let Some(id) = changed.pop() {
            for (input, output) in self.agnostic_pairs(id) {
                match (self.inputs[id][input], self.outputs[id][output]) {
                    (Processing::Agnostic, Processing::Agnostic) => {}
                    (Processing::Agnostic, known) => self.inputs[id][input] = known,
                    (known, Processing::Agnostic) => self.outputs[id][output] = known,
                    (a, b) => is_conflict |= a != b,
                }
            }
            for output in 0..self.outputs[id].len() {
                for &(to, port) in &self.forward[id][output] {
                    match (self.outputs[id][output], self.inputs[to][port]) {
                        (Processing::Agnostic, known) => self.outputs[id][output] = known,
                        (known, Processing::Agnostic) => {
                            self.inputs[to][port] = known;
                            changed.push(to);
                        }
                        _ => {}
                    }
                }
            }
            for input in 0..self.inputs[id].len() {
                for &(from, port) in &self.backward[id][input] {
                    if self.outputs[from][port] == Processing::Agnostic
                        && self.inputs[id][input] != Processing::Agnostic
                    {
                        self.outputs[from][port] = self.inputs[id][input];
                        changed.push(from);
                    }
                }
            }
            // The loops before this may have resolved an output to push or pull. An agnostic input of the
            // same element, between which and the output packets flow, then has to be resolved, too.
            if self.agnostic_pairs(id).any(|(i, o)| {
                (self.inputs[id][i] == Processing::Agnostic) != (self.outputs[id][o] == Processing::Agnostic)
            }) {
                changed.push(id);
            }
        }
        let differ = |c: &Connection| self.outputs[c.from.0][c.from.1] != self.inputs[c.to.0][c.to.1];
        if is_conflict || self.graph.connections.iter().any(differ) {
            return Err(self.conflicts());
        }
        for side in self.inputs.iter_mut().chain(&mut self.outputs) {
            for port in side {
                if *port == Processing::Agnostic {
                    *port = Processing::Push;
                }
            }
        }
        Ok(())
    }

    /// Returns the conflicts of push and pull as Click finds them: it passes over all connections, in its
    /// order, again and again until nothing changes, and reports those that connect push and pull.
    fn conflicts(&self) -> Vec<Problem> {
        let processing = |output: bool, ports: &[Vec<Processing>]| -> Vec<Vec<Processing>> {
            let of_port = |id: ElementId, port| {
                ports::processing(self.classes[id].processing, output, port).unwrap_or(Processing::Agnostic)
            };
            let of_element = |(id, side): (ElementId, &Vec<Processing>)| {
                (0..side.len()).map(|port| of_port(id, port)).collect()
            };
            ports.iter().enumerate().map(of_element).collect()
        };
        let (mut inputs, mut outputs) = (processing(false, &self.inputs), processing(true, &self.outputs));
        // The agnostic ports of one element are connected like ports of two elements; such pairs have no
        // span.
        let outer = self.sorted_connections().into_iter().map(|c| (c.from, c.to, Some(c.span)));
        let inner = (0..self.len()).flat_map(|id| {
            self.agnostic_pairs(id).map(move |(input, output)| ((id, output), (id, input), None))
        });
        let mut links: Vec<_> = outer.chain(inner).map(Some).collect();
        let (mut of_input, mut of_output) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for (number, (from, to, _)) in links.iter().flatten().enumerate() {
            of_output.entry(*from).or_default().push(number);
            of_input.entry(*to).or_default().push(number);
        }
        // After the first pass, a pass comes only to the links of ports that have changed since it or the
        // pass before it came there: the others would not change anything.
        let mut next: BinaryHeap<_> = (0..links.len()).map(|number| Reverse((0, number))).collect();
        let mut problems = Vec::new();
        while let Some(Reverse((pass, number))) = next.pop() {
            let Some((from, to, span)) = links[number] else { continue };
            let (output, input) = (&mut outputs[from.0][from.1], &mut inputs[to.0][to.1]);
            let changed = match (*output, *input) {
                (a, b) if a == b => continue,
                (Processing::Agnostic, known) => {
                    *output = known;
                    of_output.get(&from)
                }
                (known, Processing::Agnostic) => {
                    *input = known;
                    of_input.get(&to)
                }
                (a, b) => {
                    problems.push(self.conflict((from, a), (to, b), span));
                    links[number] = None;
                    continue;
                }
            };
            next.extend(
                changed
                    .into_iter()
                    .flatten()
                    .map(|&other| Reverse((pass + usize::from(other <= number), other))),
            );
        }
        problems
    }

    /// Makes the problem of an output and an input with different processing. They are connected at `span`,
    /// or are agnostic ports of one element.
    fn conflict(
        &self,
        ((from, output), out): ((ElementId, usize), Processing),
        ((to, input), into): ((ElementId, usize), Processing),
        span: Option<Span>,
    ) -> Problem {
        let (text, hint) = match span {
            Some(_) => (
                format!(
                    "'{}' {out} output {output} connected to '{}' {into} input {input}",
                    self.declaration(from),
                    self.declaration(to)
                ),
                match out {
                    Processing::Push => "a push output can feed a pull input through a Queue",
                    _ => "a pull output can feed a push input through an Unqueue",
                },
            ),
            None => (
                format!(
                    "agnostic '{}' in mixed context: {into} input {input}, {out} output {output}",
                    self.declaration(from)
                ),
                "put a Queue (push to pull) or an Unqueue (pull to push) on one side",
            ),
        };
        let span = span.unwrap_or(self.graph.elements[from].span);
        Problem::new(Diagnostic::error(span, &text).with_hint(hint).with_clicks_line(None, text))
    }

    /// Returns the pairs of an agnostic input and an agnostic output of one element between which packets
    /// flow. Both ports of a pair must have the same processing.
    fn agnostic_pairs(&self, id: ElementId) -> impl Iterator<Item = (usize, usize)> + use<> {
        let class = self.classes[id];
        let agnostic = move |output, port| {
            ports::processing(class.processing, output, port) == Some(Processing::Agnostic)
        };
        let (inputs, outputs) = (self.inputs[id].len(), self.outputs[id].len());
        (0..inputs)
            .flat_map(move |i| (0..outputs).map(move |o| (i, o)))
            .filter(move |&(i, o)| agnostic(false, i) && agnostic(true, o) && ports::flows(class.flow, i, o))
    }

    /// Follows every path of packets from an element's outputs (or, if not `downstream`, upstream from its
    /// inputs). Each path ends at the first element for which `pick` returns a value. Returns these values,
    /// one for each such element.
    pub(crate) fn nearest<T>(
        &self,
        from: ElementId,
        downstream: bool,
        pick: impl Fn(ElementId) -> Option<T>,
    ) -> Vec<T> {
        let ends = if downstream { &self.forward } else { &self.backward };
        let mut found = Vec::new();
        // The ports by which the search has left elements already, and the elements for which `pick` has
        // returned a value.
        let mut seen: Vec<(ElementId, usize)> = (0..ends[from].len()).map(|port| (from, port)).collect();
        let mut picked = BTreeSet::new();
        let mut next = 0;
        while let Some(&(element, port)) = seen.get(next) {
            next += 1;
            for &(other, at) in &ends[element][port] {
                if picked.contains(&other) {
                    continue;
                }
                if let Some(what) = pick(other) {
                    picked.insert(other);
                    found.push(what);
                    continue;
                }
                let flow = self.classes[other].flow;
                for on in 0..ends[other].len() {
                    let flows =
                        if downstream { ports::flows(flow, at, on) } else { ports::flows(flow, on, at) };
                    if flows && !seen.contains(&(other, on)) {
                        seen.push((other, on));
                    }
                }
            }
        }
        found
    }

    /// Returns all elements that packets from an output may come to, directly or through other elements.
    pub(crate) fn reached(&self, from: ElementId, output: usize) -> BTreeSet<ElementId> {
        let mut reached = BTreeSet::new();
        let mut seen = BTreeSet::from([(from, output)]);
        let mut work = vec![(from, output)];
        while let Some((element, port)) = work.pop() {
            for &(other, at) in &self.forward[element][port] {
                reached.insert(other);
                let flow = self.classes[other].flow;
                let outputs = (0..self.forward[other].len()).filter(|on| ports::flows(flow, at, *on));
                work.extend(outputs.map(|on| (other, on)).filter(|next| seen.insert(*next)));
            }
        }
        reached
    }

    /// Checks that each push output and pull input has exactly one connection, and each other port at least
    /// one connection.
    fn check_use(&self) -> Result<(), Vec<Problem>> {
        let sides = [(false, &self.inputs, &self.backward), (true, &self.outputs, &self.forward)];
        let all_ports = || {
            sides.into_iter().flat_map(|(output, side, ends)| {
                let of_element = move |id: ElementId| {
                    let port = move |port: usize| (output, (id, port), side[id][port], ends[id][port].len());
                    (0..ends[id].len()).map(port)
                };
                (0..self.len()).flat_map(of_element)
            })
        };
        let mut problems = Vec::new();
        for (output, end, processing, connections) in all_ports() {
            let single = if output { Processing::Push } else { Processing::Pull };
            if processing == single && connections > 1 {
                problems.push(self.report_reuse(output, end, connections));
            }
        }
        let unused = all_ports().filter(|&(.., connections)| connections == 0);
        problems.extend(unused.map(|(output, end, ..)| self.report_unused(output, end)));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Makes the problem of a push output or a pull input that has several connections. Click reports it for
    /// each connection but one.
    fn report_reuse(&self, output: bool, (id, port): (ElementId, usize), connections: usize) -> Problem {
        let (kind, hint) = match output {
            true => ("push output", "a Tee copies packets to several places"),
            false => ("pull input", "a scheduler such as RoundRobinSched pulls from several places"),
        };
        let text = format!("illegal reuse of '{}' {kind} {port}", self.declaration(id));
        let words = vec![text.as_str(); connections - 1].join("\n");
        let mut problem = self.problem(id, text.clone());
        problem.diagnostic = problem.diagnostic.with_clicks_words(words).with_hint(hint);
        problem
    }

    /// Makes the problem of a port without a connection.
    fn report_unused(&self, output: bool, (id, port): (ElementId, usize)) -> Problem {
        let (kind, hint) = match output {
            true => ("output", "connect it, for example to Discard"),
            false => ("input", "connect it, for example from Idle"),
        };
        let mut problem = self.problem(id, format!("'{}' {kind} {port} unused", self.declaration(id)));
        problem.diagnostic = problem.diagnostic.with_hint(hint);
        problem
    }
}

/// Returns the class of each element, or one error for each class that is not in the registry.
fn find_classes(graph: &Graph, registry: &Registry) -> Result<Vec<&'static Class>, Vec<Problem>> {
    let mut unknown: BTreeMap<&str, Vec<ElementId>> = BTreeMap::new();
    let mut classes = Vec::with_capacity(graph.elements.len());
    for (id, element) in graph.elements.iter().enumerate() {
        match registry.get(&element.class) {
            Some(class) => classes.push(class),
            None => unknown.entry(&element.class).or_default().push(id),
        }
    }
    if unknown.is_empty() {
        return Ok(classes);
    }
    let names = registry.names();
    let mut problems: Vec<(ElementId, Problem)> = Vec::new();
    for (class, users) in unknown {
        let Some(&first) = users.first() else { continue };
        let absent = Absent::find(class);
        let text = absent.map(|absent| absent.error(class));
        let text = text.unwrap_or_else(|| format!("unknown element class '{class}'"));
        let mut diagnostic = Diagnostic::error(graph.elements[first].span, text);
        if let Some(absent) = absent {
            diagnostic = diagnostic.with_hint(absent.advice);
        } else if let Some(close) = lang::nearest(class, names.iter().copied()) {
            diagnostic = diagnostic.with_hint(format!("did you mean '{close}'?"));
        }
        if users.len() > 1 {
            let n = users.len();
            diagnostic = diagnostic.with_related(graph.elements[first].span, format!("used {n} times"));
        }
        problems.push((first, Problem::new(diagnostic)));
    }
    problems.sort_by_key(|(first, _)| *first);
    Err(problems.into_iter().map(|(_, problem)| problem).collect())
}
