//! The graph of a configuration, with the declarations of its elements.

use std::collections::{BTreeMap, BTreeSet};

use element::Class;
use element::effects::{EXTRA_LENGTH, Effects, Field, Target};
use lang::Graph;

use crate::metadata::{Metadata, metadata_of};
use crate::unfold::{self, Forward, Passed, Unfolded};
use crate::{CLASS_NAME, Step, text};

/// An element and the index of one of its ports.
pub type Port = (usize, usize);

/// A configuration, prepared for analysis.
#[derive(Clone)]
pub struct Chain {
    /// The elements.
    pub nodes: Vec<Node>,
    order: Order,
    /// Class and arguments of elements that may write handlers, sorted: elements without ports, and
    /// elements of the graph that have a call among their arguments.
    scripts: Vec<String>,
    /// True if the graph has elements that write handlers when packets arrive.
    pub calls: bool,
    /// A hash of everything upstream of each element.
    upstream: Vec<i64>,
}

/// A topological order of the elements, as far as there is one.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The index of each element in the order.
    places: Vec<usize>,
    /// The loop (strongly connected component) of each element, as a number: packets that leave the element
    /// may come back.
    circles: Vec<Option<usize>>,
}

impl Order {
    /// Returns the index of an element in the order.
    pub fn rank(&self, node: usize) -> usize {
        self.places[node]
    }

    /// True if packets that leave an element may come back to it.
    pub fn is_round(&self, node: usize) -> bool {
        self.circles[node].is_some()
    }
}

/// The number of the first input that is a passage of a program, and not one of the element's own.
const FIRST_PASSAGE: usize = 1 << 32;

/// The region that a program replaces: the packets that the program accepts, and the replaced elements.
#[derive(Clone)]
pub struct Region {
    /// The offsets of the headers, from the packet's start, of packets that the program accepts: link,
    /// network, transport.
    pub layout: [Option<i32>; 3],
    /// True if the offset of the link header matters.
    pub needs_link: bool,
    /// True if all packets that arrive have that layout.
    pub is_certain: bool,
    /// The destinations of packets with another layout, and of packets that the program leaves unchanged.
    pub otherwise: Vec<Port>,
    /// The names of the elements.
    pub elements: Vec<String>,
    /// True if flows are leased from some of the elements.
    pub leases: bool,
}

/// An entry into an element for packets of a program, which continue from there along their own
/// connections.
#[derive(Clone)]
struct Passage {
    /// The element's input that the packets arrive at.
    input: usize,
    /// The destinations of each output, for these packets.
    forward: Vec<Vec<Port>>,
}

/// An element of a chain.
#[derive(Clone)]
pub struct Node {
    /// The name.
    pub name: String,
    /// The class.
    pub class: String,
    /// The declaration; for an unknown class, nothing is known of the element.
    pub effects: Effects,
    /// Class and arguments, in canonical form.
    pub key: String,
    /// The identity of the element's function: its key, and the texts of elements without ports, which may
    /// refer to names.
    pub function: String,
    /// The inputs that each output is connected to.
    pub forward: Vec<Vec<Port>>,
    /// The entries for packets of programs: they arrive at inputs from [`FIRST_PASSAGE`] on.
    passages: Vec<Passage>,
    /// The region that the element's program replaces, if the element runs one.
    pub region: Option<Region>,
    /// The number of connected inputs.
    pub inputs: usize,
    /// The loop that the element is on, as a number: packets that leave the element may come back.
    pub circle: Option<usize>,
}

/// Returns class and arguments in canonical form: spaces, comments and the order of definitions do not
/// matter.
pub fn key(class: &str, config: &str) -> String {
    let args = lang::args::split(config);
    // White space in quotes is part of an argument.
    let one_form = |text: &str| {
        let words = lang::args::split_spaces(text);
        words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    let words: Vec<String> = args.iter().map(|arg| one_form(&arg.text)).collect();
    format!("{class}({})", words.join(", "))
}

/// True if packets can leave the chain at the element.
pub fn is_exit(effects: &Effects) -> bool {
    effects.cases.iter().any(|case| case.to == Target::Send)
}

/// Replaces the element that runs a program by the steps of the program, each as an element of its own:
/// together they say more than one declaration can. The first step keeps the element's number; the others
/// are appended to all elements.
fn unfold(nodes: &mut Vec<Node>, number: usize, config: &str) {
    let lines: Vec<String> = lang::args::split(config).into_iter().map(|arg| arg.text).collect();
    let Ok(program) = text::read(&lines, nodes[number].forward.len()) else { return };
    let place = |nodes: &[Node], step: &Step| {
        let name = program.elements.get(step.element as usize)?;
        nodes.iter().position(|node| node.name == *name)
    };
    let passed = |step: &Step| {
        let node = &nodes[place(nodes, step)?];
        let (case, excluded) = (node.effects.cases.get(step.case)?, node.effects.leases.as_ref()?);
        Some(Passed { case: case.clone(), excluded: excluded.clone(), outputs: node.forward.len() })
    };
    let Some(Unfolded { stages, passages }) = unfold::unfold(&program, &passed) else { return };
    let elements: Option<Vec<usize>> =
        passages.iter().map(|passage| place(nodes, program.steps.get(usize::from(passage.step))?)).collect();
    let Some(elements) = elements else { return };
    let outputs = std::mem::take(&mut nodes[number].forward);
    let otherwise = outputs.get(program.otherwise).cloned().unwrap_or_default();
    nodes[number].region = Some(Region {
        layout: program.layout,
        needs_link: program.needs_link,
        is_certain: program.is_certain,
        otherwise,
        elements: program.elements.clone(),
        leases: !program.steps.is_empty(),
    });
    let behind = nodes.len();
    // The input of the passage's element, by passage.
    let mut inputs: Vec<Port> = Vec::with_capacity(passages.len());
    for &element in &elements {
        let before = inputs.iter().filter(|(other, _)| *other == element).count();
        inputs.push((element, FIRST_PASSAGE + nodes[element].passages.len() + before));
    }
    let leading = |forward: &Forward| match *forward {
        Forward::Stage(0) => vec![(number, 0)],
        Forward::Stage(stage) => vec![(behind + stage - 1, 0)],
        Forward::Passage(passage) => vec![inputs[passage]],
        Forward::Output(output) => outputs.get(output).cloned().unwrap_or_default(),
    };
    for (passage, &element) in passages.iter().zip(&elements) {
        let input = program.steps[usize::from(passage.step)].input;
        let forward = passage.forward.iter().map(leading).collect();
        nodes[element].passages.push(Passage { input, forward });
    }
    for (step, stage) in stages.into_iter().enumerate() {
        let (effects, forward) = (stage.effects, stage.forward.iter().map(leading).collect());
        if step == 0 {
            (nodes[number].effects, nodes[number].forward) = (effects, forward);
            continue;
        }
        let name = format!("{}/{step}", nodes[number].name);
        nodes.push(Node {
            key: name.clone(),
            name,
            class: CLASS_NAME.to_string(),
            effects,
            function: String::new(),
            forward,
            passages: Vec::new(),
            region: None,
            inputs: 1,
            circle: None,
        });
    }
}

impl Node {
    /// Returns the fields of packets that the element looks at.
    pub fn looks_at(&self) -> Vec<Field> {
        let mut fields = self.effects.observes.clone();
        fields.extend(self.effects.reads());
        // An annotation has the number of bytes that were cut off the packet.
        fields.extend(self.effects.whole_length.then_some(EXTRA_LENGTH));
        fields.sort();
        fields.dedup();
        fields
    }

    /// Returns the input of the element that stands for `input`, and the destinations of the element's
    /// outputs for packets that arrive there. The two inputs differ where several passages lead through one
    /// element.
    pub fn through(&self, input: usize) -> (usize, &[Vec<Port>]) {
        match input.checked_sub(FIRST_PASSAGE).and_then(|passage| self.passages.get(passage)) {
            Some(passage) => (passage.input, &passage.forward),
            None => (input, &self.forward),
        }
    }

    /// True if the element runs the program of this name, or is one of its steps ([`unfold`]).
    pub fn is_of_program(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name).filter(|_| self.class == CLASS_NAME);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns all inputs that packets may be forwarded to.
    pub fn leads(&self) -> impl DoubleEndedIterator<Item = Port> {
        let passages = self.passages.iter().flat_map(|passage| &passage.forward);
        self.forward.iter().chain(passages).flatten().copied()
    }

    /// Returns the title of an exit or entry: its name if the configuration gives one, else class and
    /// arguments.
    pub fn title(&self) -> &str {
        if self.name.contains('@') { &self.key } else { &self.name }
    }
}

impl Chain {
    /// Returns the metadata that any element looks at; `None` if that is unknown for one element.
    pub fn observed_metadata(&self) -> Option<BTreeSet<Metadata>> {
        let is_known = self.nodes.iter().all(|node| node.effects.opaque.is_none());
        let fields = self.nodes.iter().flat_map(Node::looks_at);
        let sides = fields.filter_map(|field| metadata_of(&field));
        is_known.then(|| sides.flat_map(|(first, length)| first..first.saturating_add(length)).collect())
    }

    /// Makes a chain from a flat graph. `effects` has the declaration of each element, and the class that
    /// it was found under; `None` for an unknown class.
    pub fn new(graph: &Graph, effects: &[Option<(&Class, &Effects)>]) -> Chain {
        let counts = graph.port_counts();
        let mut nodes: Vec<Node> = graph
            .elements
            .iter()
            .zip(effects)
            .zip(&counts)
            .map(|((element, effects), &(inputs, outputs))| {
                // Several names of one class count as one class.
                let class = effects.map_or(element.class.as_str(), |(class, _)| class.name);
                let unknown = || Effects { opaque: Some("its class is not known"), ..Effects::default() };
                Node {
                    name: element.name.clone(),
                    class: class.to_string(),
                    effects: effects.map_or_else(unknown, |(_, effects)| effects.clone()),
                    key: key(class, &element.config),
                    function: String::new(),
                    forward: vec![Vec::new(); outputs],
                    passages: Vec::new(),
                    region: None,
                    inputs,
                    circle: None,
                }
            })
            .collect();
        for connection in &graph.connections {
            nodes[connection.from.0].forward[connection.from.1].push(connection.to);
        }
        for number in 0..nodes.len() {
            if nodes[number].class == CLASS_NAME {
                unfold(&mut nodes, number, &graph.elements[number].config);
            }
        }
        let says = |(node, ports): (&Node, &(usize, usize))| (*ports == (0, 0)).then(|| node.key.clone());
        let mut names: Vec<String> = nodes.iter().zip(&counts).filter_map(says).collect();
        names.sort();
        for node in &mut nodes {
            node.function = format!("{} {}", node.key, names.join(" "));
        }
        let has_call = |class: &Class, config: &str| {
            let mut calls = class.args.iter().map(|arg| arg.name).filter(|name| name.ends_with("CALL"));
            calls.any(|name| config.contains(name))
        };
        let calls = |class: &Class, config: &str| {
            has_call(class, config) || class.notes.runs_script && config.contains("write")
        };
        let in_graph = graph.elements.iter().zip(effects).zip(&counts).filter(|(_, ports)| **ports != (0, 0));
        let known =
            in_graph.filter_map(|((element, effects), _)| Some(((*effects)?.0, element.config.as_str())));
        let scripts: Vec<(&Class, &str)> = known.filter(|(class, config)| calls(class, config)).collect();
        let calls = !scripts.is_empty();
        let mut chain =
            Chain { nodes, order: Order::default(), scripts: Vec::new(), calls, upstream: Vec::new() };
        chain.arrange();
        chain.add_scripts(scripts);
        chain
    }

    /// Adds elements outside of the graph that may write handlers, as class and arguments.
    pub fn add_scripts<'a>(&mut self, scripts: impl IntoIterator<Item = (&'a Class, &'a str)>) {
        let had = !self.scripts.is_empty();
        // A script that writes no handler can only read and print.
        let writes = |(class, config): &(&Class, &str)| {
            !class.notes.runs_script || config.contains("write") || config.contains("CALL")
        };
        let writing = scripts.into_iter().filter(writes);
        self.scripts.extend(writing.map(|(class, config)| key(class.name, config)));
        self.scripts.sort();
        if !had && !self.scripts.is_empty() {
            // Scripts refer to elements by name, so the name becomes part of the function.
            for node in &mut self.nodes {
                node.function = format!("{} {}", node.name, node.function);
            }
        }
    }

    /// True if an element may write handlers.
    pub fn has_scripts(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// True if another chain has the same handler writes.
    pub fn same_scripts(&self, other: &Chain) -> bool {
        self.scripts == other.scripts
    }

    /// True if an element may write handlers of `node`.
    pub fn is_written_to(&self, node: usize) -> bool {
        self.scripts.iter().any(|script| script.contains(&self.nodes[node].name))
    }

    /// Returns a hash of everything upstream of an element: its sources of packets, and the ports they come
    /// through.
    pub fn upstream(&self, node: usize) -> i64 {
        self.upstream[node]
    }

    fn look_upstream(&mut self) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut by_rank: Vec<usize> = (0..self.nodes.len()).collect();
        by_rank.sort_by_key(|&node| self.rank(node));
        let mut before: Vec<Vec<(usize, i64, usize)>> = vec![Vec::new(); self.nodes.len()];
        self.upstream = vec![0; self.nodes.len()];
        for node in by_rank {
            let mut hasher = DefaultHasher::new();
            before[node].sort_unstable();
            (&self.nodes[node].key, &before[node]).hash(&mut hasher);
            let here = hasher.finish() as i64;
            self.upstream[node] = here;
            for (output, ports) in self.nodes[node].forward.iter().enumerate() {
                for &(to, input) in ports {
                    before[to].push((input, here, output));
                }
            }
        }
    }

    /// Connects an output with this input alone. Call [`arrange`](Self::arrange) after all such changes.
    pub fn lead(&mut self, (node, output): Port, to: Port) {
        self.nodes[node].forward[output] = vec![to];
    }

    /// Disconnects all outputs of a program.
    pub fn end(&mut self, program: usize) {
        let name = self.nodes[program].name.clone();
        let nodes = self.nodes.iter_mut().filter(|node| node.is_of_program(&name));
        nodes.flat_map(|node| &mut node.forward).for_each(Vec::clear);
    }

    /// Computes the order in which packets pass elements, and the hash of everything upstream of each.
    pub fn arrange(&mut self) {
        self.order = self.order_of(&|_| true);
        for (node, circle) in self.nodes.iter_mut().zip(&self.order.circles) {
            node.circle = *circle;
        }
        self.look_upstream();
    }

    /// Returns the order of all elements.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns the order if packets are followed only through some elements. Loops are strongly connected
    /// components by Tarjan's algorithm, without recursion. The component visited last comes first, so
    /// roots and outputs are visited backwards: where the order is free, it is the order of the outputs.
    pub fn order_of(&self, is_followed: &dyn Fn(usize) -> bool) -> Order {
        let n = self.nodes.len();
        let next: Vec<Vec<usize>> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| match is_followed(number) {
                true => node.leads().rev().map(|(to, _)| to).collect(),
                false => Vec::new(),
            })
            .collect();
        let mut circles = vec![None; n];
        let (mut index, mut low) = (vec![usize::MAX; n], vec![0; n]);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; n]);
        let mut counter = 0;
        let mut finished = Vec::with_capacity(n);
        for root in (0..n).rev() {
            if index[root] != usize::MAX {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some(&mut (node, ref mut edge)) = work.last_mut() {
                if *edge == 0 && index[node] == usize::MAX {
                    (index[node], low[node]) = (counter, counter);
                    counter += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(&to) = next[node].get(*edge) {
                    *edge += 1;
                    if index[to] == usize::MAX {
                        work.push((to, 0));
                    } else if on_stack[to] {
                        low[node] = low[node].min(index[to]);
                    }
                    continue;
                }
                work.pop();
                if let Some(&(parent, _)) = work.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let mut component = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member] = false;
                        component.push(member);
                        if member == node {
                            break;
                        }
                    }
                    let is_circle = component.len() > 1 || next[node].contains(&node);
                    component.iter().for_each(|&member| circles[member] = is_circle.then_some(node));
                    component.reverse();
                    finished.extend(component.into_iter().rev());
                }
            }
        }
        // A component is finished after the components that it leads to.
        finished.reverse();
        let mut places = vec![0; n];
        finished.into_iter().enumerate().for_each(|(place, node)| places[node] = place);
        Order { places, circles }
    }

    /// Returns the index of an element in the order in which packets pass.
    pub fn rank(&self, node: usize) -> usize {
        self.order.rank(node)
    }

    /// Returns the entries: elements that emit packets of their own and forward them to other elements.
    pub fn entries(&self) -> Vec<usize> {
        let leads = |node: &Node| node.forward.iter().any(|to| !to.is_empty());
        let is_silent = |effects: &Effects| {
            let ends = effects.cases.iter().all(|case| matches!(case.to, Target::Drop(_)));
            effects.emits.is_empty() && effects.opaque.is_none() && !effects.cases.is_empty() && ends
        };
        // Some elements with inputs also emit packets that do not depend on input packets.
        let makes = |effects: &Effects| effects.emits.iter().any(|e| !e.is_copy() && e.reads.is_empty());
        let starts = |node: &Node| node.inputs == 0 || makes(&node.effects);
        let gives = |node: &Node| starts(node) && leads(node) && !is_silent(&node.effects);
        (0..self.nodes.len()).filter(|&n| gives(&self.nodes[n])).collect()
    }

    /// True if packets leave the chain at this element: an exit, or an element of unknown class without
    /// outputs.
    pub fn is_exit(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        is_exit(&node.effects) || node.inputs > 0 && node.forward.is_empty() && node.effects.cases.is_empty()
    }

    /// Pairs elements of two chains: by name, else by class and arguments. Returns the pairs, then the
    /// unpaired elements of each.
    pub fn pair(
        &self,
        mine: &[usize],
        other: &Chain,
        theirs: &[usize],
    ) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
        let mut theirs: Vec<usize> = theirs.to_vec();
        let mut pairs = Vec::new();
        let mut left = Vec::new();
        let by_name: BTreeMap<&str, usize> =
            theirs.iter().map(|&n| (other.nodes[n].name.as_str(), n)).collect();
        // Generated names identify nothing.
        let is_given = |name: &str| !name.contains('@');
        for &node in mine {
            match by_name.get(self.nodes[node].name.as_str()) {
                Some(&with) if is_given(&self.nodes[node].name) => {
                    pairs.push((node, with));
                    theirs.retain(|&n| n != with);
                }
                _ => left.push(node),
            }
        }
        left.retain(|&node| {
            let same = theirs.iter().position(|&n| other.nodes[n].key == self.nodes[node].key);
            if let Some(place) = same {
                pairs.push((node, theirs.remove(place)));
            }
            same.is_none()
        });
        (pairs, left, theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str) -> Chain {
        let mut sources = lang::Sources::new();
        let source = sources.add("test", text);
        let (graph, problems) = lang::parse(&mut sources, source, &lang::Options::default());
        assert!(problems.is_empty(), "{problems:?}");
        let none = vec![None; graph.elements.len()];
        Chain::new(&graph, &none)
    }

    fn numbers(chain: &Chain, names: &[&str]) -> Vec<usize> {
        let place = |name: &&str| chain.nodes.iter().position(|node| node.name == *name);
        names.iter().filter_map(place).collect()
    }

    #[test]
    fn packets_pass_in_order() {
        let chain = chain("s :: A; a :: B; b :: C; t :: D; s -> a; s [1] -> b; b -> a; a -> t;");
        let ranks: Vec<usize> =
            numbers(&chain, &["s", "b", "a", "t"]).into_iter().map(|n| chain.rank(n)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(chain.entries(), numbers(&chain, &["s"]));
        assert!(chain.nodes.iter().all(|node| node.circle.is_none()));
    }

    #[test]
    fn circles_and_islands_are_found() {
        let chain = chain("s :: A -> a :: B -> b :: C -> t :: D; b [1] -> [1] a; x :: X -> y :: Y -> x;");
        let circle: Vec<&str> =
            chain.nodes.iter().filter(|n| n.circle.is_some()).map(|n| n.name.as_str()).collect();
        assert_eq!(circle, ["a", "b", "x", "y"]);
    }

    #[test]
    fn arguments_have_one_form() {
        assert_eq!(key("A", " 1,  b   c /* no */, D 2"), key("A", "1,b c,D 2"));
        assert_ne!(key("A", "1, 2"), key("A", "2, 1"));
    }

    #[test]
    fn ends_correspond_by_name_and_then_by_arguments() {
        let a = chain("in :: A(1) -> Q -> D; B(2) -> Q; C(3) -> Q;");
        let b = chain("C(3) -> Q -> D; in :: A(9) -> Q; E -> Q;");
        let (pairs, mine, theirs) = a.pair(&a.entries(), &b, &b.entries());
        let names = |pairs: &[(usize, usize)]| -> Vec<(String, String)> {
            pairs.iter().map(|&(x, y)| (a.nodes[x].key.clone(), b.nodes[y].key.clone())).collect()
        };
        let expected = [("A(1)", "A(9)"), ("C(3)", "C(3)")].map(|(x, y)| (x.to_string(), y.to_string()));
        assert_eq!(names(&pairs), expected);
        assert_eq!((mine.len(), theirs.len()), (1, 1));
    }
}
